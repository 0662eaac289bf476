"""What order 1/n of trained networks costs by tiles, and how exact it is.

    python benchmarks/learning_routes.py 16:8 30:30      writes benchmarks/results/learning_routes.md

Each case, training samples and tests, runs in a process of its own. Digits 3 against 8, depth 3, tanh, one output,
gradient descent to the end; mean, covariance and learning parameter. Errors are as they are stated, root mean
squares over tests relative to the outcome; where whole tensors fit, the distance from them is beside it, with what
is stated of theirs, whose expectations are sampled.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
NAMES = ("output_mean_nlo", "output_covariance_nlo")
RESULT = Path(__file__).parent / "results" / "learning_routes.md"
HEAD = """# Order 1/n of trained networks, by tiles

`python benchmarks/learning_routes.py {cases}`: digits 3 against 8, depth 3, tanh, one output, gradient
descent to the end; mean, covariance and learning parameter; one core. Errors are root mean squares over tests
relative to the outcome: what is stated, the distance from whole tensors where they fit (gap), and what is stated
of those, whose expectations are sampled (whole).

| train | tests | nodes | CPU s | GiB | mean | covariance | mean, gap | covariance | mean, whole | covariance |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def one(train: int, tests: int) -> dict[str, float]:
    """One case."""
    import numpy as np

    import scalewise as sw
    from scalewise.training import GradientDescent
    from scalewise.training._asked import Asked
    from scalewise.training.tiles._route import TILES
    from scalewise.training.width._dense import DENSE

    warnings.simplefilter("ignore")
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    rows = np.flatnonzero(np.isin(digits.target, (3, 8)))
    rows = np.random.default_rng(0).permutation(rows)[: train + tests]
    x, y = digits.data[rows], np.where(digits.target[rows] == 3, 1.0, -1.0)[:, None]
    x = x - x.mean(axis=1, keepdims=True)
    x /= x.std(axis=1, keepdims=True)
    net = sw.MLP(
        3, 64, "tanh", input_dim=64, output_dim=1, C_b=0.1, C_W=1.4, lambda_b=0.5, lambda_W=1.0
    )
    task = sw.Task(x[:train], y[:train], test_inputs=x[train:], test_targets=y[train:])
    asked = Asked(net, task, GradientDescent())
    started = time.process_time()
    found = TILES.compute(asked, NAMES)
    out = {"cpu": time.process_time() - started}
    out["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    out["nodes"] = float(str(found.attributes["nodes"]))

    def size(values: np.ndarray) -> float:
        return float(np.sqrt(np.mean(np.square(values))))

    for name in NAMES:
        out[name] = size(found.errors[name]) / size(found.values[name])
    if not any(DENSE.obstacle(asked, name) for name in NAMES):
        whole = DENSE.compute(asked, NAMES)
        for name in NAMES:
            gap = found.values[name] - whole.values[name]
            out[f"{name} gap"] = size(gap) / size(whole.values[name])
            out[f"{name} stated"] = size(whole.errors[name]) / size(whole.values[name])
    return out


def main(cases: list[str]) -> None:
    """All cases, and the page."""
    lines = []
    for case in cases:
        text = subprocess.run(
            [sys.executable, __file__, "--one", case],
            env=os.environ | THREADS,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        found = json.loads(text.splitlines()[-1])
        gaps = [found.get(f"{name} {kind}") for kind in ("gap", "stated") for name in NAMES]
        cells = [*case.split(":"), f"{found['nodes']:.0f}", f"{found['cpu']:.0f}"]
        cells += [f"{found['memory']:.2f}", *(f"{found[name]:.4f}" for name in NAMES)]
        cells += ["-" if gap is None else f"{gap:.3f}" for gap in gaps]
        lines.append(f"| {' | '.join(cells)} |")
        RESULT.write_text(HEAD.format(cases=" ".join(cases)) + "\n".join(lines) + "\n")
        print(lines[-1], flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        print(json.dumps(one(*map(int, sys.argv[2].split(":")))))
    else:
        main(sys.argv[1:])
