"""What a mean of trained networks would cost if it were summed over units, in place of tiles of samples.

One hidden layer, gradient flow to the end, and of all terms at order 1/n a small one whose samples cross: with h
the NTK of one unit less its mean H, and g the inverse of H on training samples,

    sum of (h_d1 - H_d g h_1) g_12 h_23 g_34 y_4.

Units are drawn. How far one scatters about the mean says how many are needed; what one takes, what they cost.

python benchmarks/factors_over_units.py
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import scalewise as sw

RESULTS = Path(__file__).parent / "results" / "factors_over_units.md"
ACCURACY = 0.01
UNITS, BLOCK = 20_000, 2_000
HEADING = (
    "One term, one hidden layer of tanh, gradient flow to the end; root mean squares over tests.",
    "`python benchmarks/factors_over_units.py`",
    "",
    "| inputs | training and test samples | scatter of a unit over the mean | units for 1 % | ms a unit | CPU s |",
    "|---|---|---|---|---|---|",
)


def main() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for count in (10, 50):
        digits = sw.load_inputs("digits", samples=2 * count, seed=0)
        rows.append(row("digits", digits, rng))
        rows.append(row("normal, 64 features", rng.standard_normal((2 * count, 64)), rng))
    text = "\n".join([*HEADING, *rows]) + "\n"
    RESULTS.write_text(text)
    print(text)


def row(name: str, x: np.ndarray, rng: np.random.Generator) -> str:
    """The line of a table for some inputs, of which the first half is learnt."""
    count = len(x) // 2
    net = sw.MLP(2, 64, "tanh", input_dim=x.shape[1], output_dim=1).at_criticality()
    found = sw.predict(net, x, observables=["kernel", "ntk"])
    K, Theta = found.kernel.values[0], found.ntk.values[0]
    H = (found.ntk.values[1] - net.lambda_b[1]) / net.lambda_W[1]
    root = np.linalg.cholesky(K + 1e-12 * np.trace(K) / len(K) * np.eye(len(K)))
    g = np.linalg.inv(H[:count, :count])
    solved, along = g @ rng.standard_normal(count), H[count:, :count] @ g
    start, parts = time.process_time(), []
    for _ in range(UNITS // BLOCK):
        s = np.tanh(rng.standard_normal((BLOCK, len(x))) @ root.T)
        slope = 1 - s * s
        h = s[:, :, None] * s[:, None, :count] - H[:, :count]
        h += (
            net.C_W[1]
            / net.lambda_W[1]
            * Theta[:, :count]
            * slope[:, :, None]
            * slope[:, None, :count]
        )
        error = (h[:, :count] @ solved) @ g
        moved = (h @ error[:, :, None])[:, :, 0]
        parts.append(moved[:, count:] - moved[:, :count] @ along.T)
    each = (time.process_time() - start) / UNITS
    shifts = np.concatenate(parts)
    mean, scatter = rms(shifts.mean(axis=0)), rms(shifts.std(axis=0))
    noise = scatter / UNITS**0.5
    ratio = scatter / max((mean**2 - noise**2), noise**2) ** 0.5
    needed = (ratio / ACCURACY) ** 2
    return f"| {name} | {count} + {count} | {ratio:.0f} | {needed:.1e} | {1e3 * each:.3f} | {needed * each:,.0f} |"


def rms(x: np.ndarray) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(x**2)))


if __name__ == "__main__":
    main()
