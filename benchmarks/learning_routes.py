"""What order 1/n of trained networks costs by tiles, how exact it is, and what an ensemble would cost.

    python benchmarks/learning_routes.py 16:8 50:50 16:16:128     writes benchmarks/results/learning_*.md

Each case, training samples and tests, runs in a process of its own. Digits 3 against 8, depth 3, tanh, one output,
gradient descent to the end; mean, covariance and learning parameter. Errors are as they are stated, root mean
squares over tests relative to the outcome; where whole tensors fit, the distance from them is beside it, with what
is stated of theirs, whose expectations are sampled.

A case with a third number has an ensemble of that width beside it: how many networks, and how many CPU seconds,
would tell the shift of the mean to 2 %, from the standard errors and the price of a few.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
NETWORKS = 32
WANTED = 0.02
NAMES = ("output_mean_nlo", "output_covariance_nlo")
RESULTS = Path(__file__).parent / "results"
HEAD = """# Order 1/n of trained networks, by tiles

`python benchmarks/learning_routes.py {cases}`: digits 3 against 8, depth 3, tanh, one output, gradient
descent to the end; mean, covariance and learning parameter; one core. Errors are root mean squares over tests
relative to the outcome: what is stated, the distance from whole tensors where they fit (gap), and what is stated
of those, whose expectations are sampled (whole).

| train | tests | nodes | CPU s | GiB | mean | covariance | mean, gap | covariance | mean, whole | covariance |
|---|---|---|---|---|---|---|---|---|---|---|
"""


BESIDE = """# Order 1/n of trained networks, by tiles and by an ensemble

`python benchmarks/learning_routes.py {cases}`: the shift of the mean at one width to 2 %, root mean square over
tests, as in `learning_routes.md`. What an ensemble costs is extrapolated from the standard error and the price of
{networks} networks, compiled before; tiles find the covariance too.

| train | tests | width | control | shift | standard error | networks needed | CPU s | tiles, CPU s | ratio |
|---|---|---|---|---|---|---|---|---|---|
"""


def setting(train: int, tests: int, width: int = 64) -> tuple[Any, Any]:
    """Network and task."""
    import numpy as np

    import scalewise as sw

    warnings.simplefilter("ignore")
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    rows = np.flatnonzero(np.isin(digits.target, (3, 8)))
    rows = np.random.default_rng(0).permutation(rows)[: train + tests]
    x, y = digits.data[rows], np.where(digits.target[rows] == 3, 1.0, -1.0)[:, None]
    x = x - x.mean(axis=1, keepdims=True)
    x /= x.std(axis=1, keepdims=True)
    net = sw.MLP(
        3, width, "tanh", input_dim=64, output_dim=1, C_b=0.1, C_W=1.4, lambda_b=0.5, lambda_W=1.0
    )
    return net, sw.Task(x[:train], y[:train], test_inputs=x[train:], test_targets=y[train:])


def size(values: Any) -> float:
    """Root mean square."""
    return float((values**2).mean() ** 0.5)


def beside(train: int, tests: int, width: int) -> dict[str, Any]:
    """The price of the mean by tiles, and by ensembles without and with control variates."""
    import numpy as np

    import scalewise as sw
    from scalewise.training import GradientDescent

    net, task = setting(train, tests, width)
    started = time.process_time()
    found = sw.predict_training(net, task, observables=["output_mean_nlo", "output_covariance_nlo"])
    out: dict[str, Any] = {"tiles": time.process_time() - started}
    out["shift"] = size(found.output_mean_nlo.values) / width
    for control in (None, "linear"):
        for seed in (0, 1):  # the first one compiles
            started = time.process_time()
            seen = sw.measure_training(
                net,
                task,
                GradientDescent(),
                networks=NETWORKS,
                observables=["output_mean"],
                control=control,
                seed=seed,
            )
            cpu = time.process_time() - started
        error = size(np.asarray(seen.output_mean_sem))
        times = (error / (WANTED * out["shift"])) ** 2
        out[str(control)] = [error, times * NETWORKS, times * cpu]
    return out


def one(train: int, tests: int) -> dict[str, float]:
    """One case."""
    from scalewise.training import GradientDescent
    from scalewise.training._asked import Asked
    from scalewise.training.tiles._route import TILES
    from scalewise.training.width._dense import DENSE

    net, task = setting(train, tests)
    asked = Asked(net, task, GradientDescent())
    started = time.process_time()
    found = TILES.compute(asked, NAMES)
    out = {"cpu": time.process_time() - started}
    out["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    out["nodes"] = float(str(found.attributes["nodes"]))

    for name in NAMES:
        out[name] = size(found.errors[name]) / size(found.values[name])
    if not any(DENSE.obstacle(asked, name) for name in NAMES):
        whole = DENSE.compute(asked, NAMES)
        for name in NAMES:
            gap = found.values[name] - whole.values[name]
            out[f"{name} gap"] = size(gap) / size(whole.values[name])
            out[f"{name} stated"] = size(whole.errors[name]) / size(whole.values[name])
    return out


def run(case: str) -> dict[str, Any]:
    """One case in a process of its own."""
    text = subprocess.run(
        [sys.executable, __file__, "--one", case],
        env=os.environ | THREADS,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return json.loads(text.splitlines()[-1])


def main(cases: list[str]) -> None:
    """All cases, and the page."""
    lines, others = [], []
    for case in cases:
        found = run(case)
        sizes = case.split(":")
        if len(sizes) == 3:
            for control in ("None", "linear"):
                error, networks, cpu = found[control]
                cells = [*sizes, {"None": "none"}.get(control, control), f"{found['shift']:.4f}"]
                cells += [f"{error:.4f}", f"{networks:.1e}", f"{cpu:.1e}", f"{found['tiles']:.0f}"]
                others.append(f"| {' | '.join(cells)} | {cpu / found['tiles']:.0f} |")
        else:
            gaps = [found.get(f"{name} {kind}") for kind in ("gap", "stated") for name in NAMES]
            cells = [*sizes, f"{found['nodes']:.0f}", f"{found['cpu']:.0f}"]
            cells += [f"{found['memory']:.2f}", *(f"{found[name]:.4f}" for name in NAMES)]
            cells += ["-" if gap is None else f"{gap:.3f}" for gap in gaps]
            lines.append(f"| {' | '.join(cells)} |")
        print((others if len(sizes) == 3 else lines)[-1], flush=True)
    # At the end, so that a run that was stopped leaves the page as it was.
    for name, head, rows in (("routes", HEAD, lines), ("price", BESIDE, others)):
        if rows:
            path = RESULTS / f"learning_{name}.md"
            every = merged(path.read_text().splitlines() if path.exists() else [], rows)
            own = " ".join(
                dict.fromkeys(":".join(numbers(row)[: 2 + (rows is others)]) for row in every)
            )
            path.write_text(head.format(cases=own, networks=NETWORKS) + "\n".join(every) + "\n")


def numbers(row: str) -> list[str]:
    """The cells of a row."""
    return [cell.strip() for cell in row.strip("|").split("|")]


def merged(before: list[str], rows: list[str]) -> list[str]:
    """Rows of a page and new ones, by the size of the case; those of cases that were run again are new."""
    ran = {tuple(numbers(row)[:2]) for row in rows}
    kept = [
        row for row in before if re.match(r"\| \d+ \|", row) and tuple(numbers(row)[:2]) not in ran
    ]
    return sorted([*kept, *rows], key=lambda row: [int(cell) for cell in numbers(row)[:2]])


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        numbers = [int(part) for part in sys.argv[2].split(":")]
        print(json.dumps(one(*numbers) if len(numbers) == 2 else beside(*numbers)))
    else:
        main(sys.argv[1:])
