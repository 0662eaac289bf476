"""Posteriors of finite width: what order 1/n costs, and how well it and a renormalised kernel do on digits.

Each size runs in a process of its own, so that its peak memory is its own. The posterior of real networks is
sampled exactly: hidden preactivations by elliptical slices with the last layer integrated out, in independent
chains whose spread is the error.

python benchmarks/posterior.py [--sizes 250 1000] [--steps 4000]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import scalewise as sw
from scalewise.training import Bayes, predict_training, renormalised_posterior

RESULTS = Path(__file__).parent / "results"
NOISE, TESTS, CHAINS = 0.01, 25, 4
NAMES = ("output_mean", "variance", "test_loss", "log_evidence", "learning_parameter")
CORRECTIONS = ("output_mean_nlo", "variance_nlo", "test_loss_nlo", "log_evidence_nlo")
CASES = ((32, 8), (128, 32), (256, 32), (32, 32), (64, 64))  # width, training samples


def digits(samples: int, tests: int) -> sw.Task:
    """Threes against eights, or, of more than there are, random inputs of the same size."""
    rng = np.random.default_rng(0)
    if samples + tests <= 300:
        from sklearn.datasets import load_digits

        data = load_digits()
        chosen = rng.permutation(np.flatnonzero(np.isin(data.target, (3, 8))))[: samples + tests]
        x = data.data[chosen] - data.data.mean(axis=0)
        y = np.where(data.target[chosen] == 3, 1.0, -1.0)[:, None]
    else:
        x = rng.standard_normal((samples + tests, 64))
        y = np.sign(x[:, :1])
    x *= 8 / np.linalg.norm(x, axis=1, keepdims=True)
    return sw.Task(x[:samples], y[:samples], test_inputs=x[samples:], test_targets=y[samples:])


def cost(samples: int) -> dict[str, float]:
    """Time and memory of all coefficients of 1/n, and how well they are known."""
    task = digits(samples, TESTS)
    net = sw.MLP(3, 128, "tanh", input_dim=64, output_dim=1, C_b=0.1, C_W=1.4)
    start = time.process_time()
    found = predict_training(
        net, task, Bayes(NOISE), observables=[*NAMES, *CORRECTIONS], covariance="diagonal"
    )
    seconds = time.process_time() - start
    parameter = float(found.learning_parameter)
    deviation = parameter * float(np.sqrt(found.variance.max()))
    return {
        "samples": samples,
        "cpu": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "mean": float(found.output_mean_nlo_error.max()) / deviation,
        "variance": float(found.variance_nlo_error.max() / np.abs(found.variance_nlo).max()),
        "evidence": float(found.log_evidence_nlo_error / np.abs(found.log_evidence_nlo)),
        "neurons": min(found.attrs["neurons_sampled"]),
    }


def sampled(net: sw.Network, task: sw.Task, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and variance of the first output by one chain over the hidden preactivations."""
    rng, x = np.random.default_rng(seed), np.concatenate([task.inputs, task.test_inputs])
    n, count, y = net.widths[1], len(task.inputs), task.targets
    first = net.C_b[0] + net.C_W[0] * x @ x.T / net.input_dim
    root = np.linalg.cholesky(first + 1e-12 * np.eye(len(x)))

    def metric(z: np.ndarray) -> np.ndarray:
        s = net.activation(z)
        return net.C_b[1] + net.C_W[1] / n * s @ s.T

    def log_likelihood(G: np.ndarray) -> float:
        L = np.linalg.cholesky(G[:count, :count] + NOISE * np.eye(count))
        part = np.linalg.solve(L, y)
        return float(-0.5 * (part**2).sum() - y.shape[1] * np.log(np.diagonal(L)).sum())

    z = root @ rng.standard_normal((len(x), n))
    G = metric(z)
    log, means, variances = log_likelihood(G), [], []
    for step in range(steps):
        some = rng.choice(n, max(1, n // 4), replace=False)
        old, other = z[:, some].copy(), root @ rng.standard_normal((len(x), len(some)))
        least, angle = log + np.log(rng.random()), 2 * np.pi * rng.random()
        low, high = angle - 2 * np.pi, angle
        while True:
            z[:, some] = old * np.cos(angle) + other * np.sin(angle)
            G = metric(z)
            log = log_likelihood(G)
            if log > least:
                break
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = rng.uniform(low, high)
        if step >= steps // 5:
            R = np.linalg.solve(G[:count, :count] + NOISE * np.eye(count), G[:count, count:]).T
            means.append(R @ y[:, 0])
            variances.append(np.diagonal(G[count:, count:] - R @ G[:count, count:]))
    return np.mean(means, axis=0), np.mean(variances, axis=0) + np.var(means, axis=0)


def accuracy(name: str, width: int, samples: int, steps: int) -> dict[str, object]:
    """Root mean square distances from sampled posteriors, over the test samples."""
    task = digits(samples, TESTS)
    net = sw.MLP(2, width, name, input_dim=64, output_dim=1, C_b=0.1, C_W=1.4)
    theory = predict_training(
        net, task, Bayes(NOISE), observables=[*NAMES[:3], NAMES[4], *CORRECTIONS[:3]]
    )
    scaled = renormalised_posterior(net, task, noise_variance=NOISE)
    chains = [sampled(net, task, steps, seed) for seed in range(CHAINS)]
    mean, variance = np.mean(chains, axis=0)
    sem = np.std(chains, axis=0, ddof=1) / np.sqrt(CHAINS)
    inf = theory.output_mean.values[0], theory.variance.values
    one = tuple(a + theory[b].values[0] / width for a, b in zip(inf, CORRECTIONS[:2], strict=True))
    both = scaled.output_mean.values[0], scaled.variance.values[0]
    wanted = task.test_targets[:, 0]

    def loss(m: np.ndarray, v: np.ndarray) -> float:
        return float((0.5 * ((m - wanted) ** 2 + v)).mean())

    row: dict[str, object] = {
        "activation": name,
        "width": width,
        "samples": samples,
        "parameter": float(theory.learning_parameter) / width,
        "loss": loss(mean, variance),
        "mean_sem": rms(sem[0]),
        "variance_sem": rms(sem[1]),
    }
    for what, (m, v) in (("infinite", inf), ("one", one), ("scaled", both)):
        row |= {
            f"{what}_mean": rms(m - mean),
            f"{what}_variance": rms(v - variance),
            f"{what}_loss": loss(m, v),
        }
    return row


def rms(values: np.ndarray) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(values**2)))


COSTS = (
    "training samples",
    "CPU s",
    "peak MB",
    "neurons a layer",
    "error of the mean",
    "of the variance",
    "of the evidence",
)
TOLD = """
Depth 3, tanh, width 128, 25 test samples, all coefficients of 1/n, kernels included. Errors are four standard
errors over scrambles; of the mean relative to its natural size, the learning parameter times the deviation of an
output, of the others relative to themselves.
"""
DISTANCES = (
    "activation | n | samples | learning parameter / n",
    "mean: ∞ | 1/n | scales | sem",
    "variance: ∞ | 1/n | scales | sem",
    "loss: ∞ | 1/n | scales | sampled",
)
MEANT = """
One hidden layer, digits 3 against 8, noise variance 0.01: root mean square distance of predicted means and
variances from those of exactly sampled posteriors, and the expected test loss. 1/n is `predict_training`, scales is
`renormalised_posterior`.
"""


def heading(names: tuple[str, ...]) -> list[str]:
    """Of a table."""
    line = f"| {' | '.join(names)} |"
    return [line, "|---" * (line.count("|") - 1) + "|"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[250, 1000])
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--one", type=int, help="only the cost of this size, as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(cost(options.one)))
        return
    lines = ["# Posteriors of finite width", "", *heading(COSTS)]
    for size in options.sizes:
        command = [sys.executable, __file__, "--one", str(size)]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        lines.append(
            f"| {row['samples']} | {row['cpu']:.1f} | {row['peak_mb']:.0f} | {row['neurons']} "
            f"| {row['mean']:.1%} | {row['variance']:.1%} | {row['evidence']:.1%} |"
        )
    lines += [TOLD, *heading(DISTANCES)]
    for name in ("tanh", "relu"):
        for width, samples in CASES:
            row = accuracy(name, width, samples, options.steps)
            cells = [
                f"{row['activation']} | {row['width']} | {row['samples']} | {row['parameter']:.2f}"
            ]
            for what in ("mean", "variance"):
                cells += [f"{row[f'{way}_{what}']:.4f}" for way in ("infinite", "one", "scaled")]
                cells.append(f"{row[f'{what}_sem']:.4f}")
            cells += [f"{row[f'{way}_loss']:.4f}" for way in ("infinite", "one", "scaled")]
            lines.append("| " + " | ".join([*cells, f"{row['loss']:.4f}"]) + " |")
    lines.append(MEANT)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "posterior.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
