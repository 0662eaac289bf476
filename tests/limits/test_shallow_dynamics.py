"""Agreement tests: each limit of shallow networks against its printed steps, written out once more."""

from typing import Any

import numpy as np
import pytest

from grids import each
from scalewise.limits import Lazy
from scalewise.limits import shallow as sh
from scalewise.scaling import shallow as plane
from scalewise.tasks import Task

X = np.random.default_rng(3).normal(size=(4, 3))
Y = np.array([1.0, -1.0, 1.0, -1.0])
PROBES = np.random.default_rng(4).normal(size=(2, 3))
STEPS, SEEDS, UNITS = 5, 3, 1 << 14
REFERENCE = sh.Reference(4, sigma=0.4, rate_a=0.8, rate_w=0.5)
POINTS: dict[str, Any] = {one.id: one.representative for one in plane.regions()}
POINTS |= {name: name for name in ("default", "IC-MF")}
# First weights outgrow their start: outputs that diverge, and outputs that stay.
POINTS |= {"mirror": ("-1/2", 0, 1), "finite mirror": ("-3/2", 1, 2), "half": (-1, "1/4", "3/2")}


def task_of(schedule: int) -> Task:
    rows = sh.independent_batches(4, STEPS, seed=schedule)
    return Task(X, Y, test_inputs=PROBES, loss="logistic", batches=rows)


def least_margin(point: Any, schedule: int) -> float:
    """Smallest output of a step's samples, in units of all outputs: particles must agree on its sign."""
    task = task_of(schedule)
    run = sh.train_shallow(task, REFERENCE, point, steps=STEPS, on=Lazy(1 << 8, replicas=SEEDS))
    f = [(outputs(run)[k], np.concatenate(task.batch(k))) for k in range(1, STEPS)]
    seen = np.concatenate([one[:, rows].ravel() for one, rows in f])
    return float(np.abs(seen[seen != 0]).min() / np.abs(run.scaled_logits).max())


def outputs(run: Any) -> np.ndarray:
    """Over (step, seed, input)."""
    return run.scaled_logits.values[..., 0].swapaxes(0, 1)


def slope_of_loss(f: np.ndarray, y: np.ndarray, sign: int) -> np.ndarray:
    """What the loss hands back for outputs that diverge, are finite, or vanish."""
    seen = {1: np.where(f * y < 0, 1.0, 0.0), 0: 1 / (1 + np.exp(f * y)), -1: 0.5 + 0 * f}
    return -y * seen[sign]


def by_kernels(task: Task, f: np.ndarray, seen: Any) -> list:
    """(65)-(68) as printed: one sample for each layer and step."""
    K_a, K_w = sh.limit_kernels(REFERENCE, task.all_inputs)
    found = [f]
    for k in range(STEPS):
        (i,), (j,) = task.batch(k)
        chi_a, chi_w = seen(k, found[-1], i, j)
        f = found[-1] - REFERENCE.rate_a * chi_a[:, None] * K_a[i]
        found.append(f - REFERENCE.rate_w * chi_w[:, None] * K_w[j])
    return found


def by_units(task: Task, grows: str, still: str, seen: Any) -> list:
    """(87)-(91) as a push-forward of independent draws, with opposite output weights.

    A layer that `grows` starts at 0; the start of first weights is kept for the signs before they move.
    """
    rng, x = np.random.default_rng(11), task.all_inputs
    a = rng.normal(size=(SEEDS, UNITS))
    a, w = np.concatenate([a, -a], 1), np.tile(rng.normal(size=(SEEDS, UNITS, 3)), (1, 2, 1))
    a *= grows != "a"
    start, w = w, w * (grows != "w")

    def phi(z: np.ndarray) -> np.ndarray:
        return np.where(z > 0, z, 0.1 * z)

    def summed() -> np.ndarray:
        h = np.einsum("sri,xi->sxr", w, x)
        return REFERENCE.sigma * REFERENCE.width * np.mean(a[:, None] * phi(h), axis=-1)

    rate_a = 0.0 if still == "a" else REFERENCE.rate_a

    found = [summed()]
    for k in range(STEPS):
        (i,), (j,) = task.batch(k)
        chi_a, chi_w = (REFERENCE.sigma * chi[:, None] for chi in seen(k, found[-1], i, j))
        h = np.where(w.any(axis=-1), w @ x[j], start @ x[j])
        slope = np.where(h > 0, 1.0, 0.1)
        a_, w_ = rate_a * chi_a * phi(w @ x[i]), REFERENCE.rate_w * chi_w * a * slope
        a, w = a - a_, w - w_[..., None] * x[j]
        found.append(summed())
    return found


@pytest.mark.covers("E22")
@each("name", POINTS)
def test_every_limit_step_by_step(name: str) -> None:
    point = POINTS[name]
    one = sh.scaling(point)
    q, rate_a, rate_w = map(float, (one.q_sigma, one.q_tilde_a, one.q_tilde_w))
    best = max(range(6), key=lambda schedule: least_margin(point, schedule))
    task = task_of(best)
    run = sh.train_shallow(task, REFERENCE, point, steps=STEPS, on=Lazy(UNITS, replicas=SEEDS))
    g, correction = run.start.values[..., 0], bool(one.initial)
    first, later = (
        (0, 0) if correction else np.sign([q + 0.5, 2 * q + max(rate_a, rate_w) + 1]).astype(int)
    )
    content = np.ones(SEEDS, dtype=bool)  # nothing was wrong so far

    def seen(k: int, f: np.ndarray, i: int, j: int) -> list:
        by_g = [slope_of_loss(g[:, m], Y[m], first) for m in (i, j)]
        by_f = [slope_of_loss(f[:, m] + correction * g[:, m], Y[m], later) for m in (i, j)]
        found = [np.where(content, start, now) for start, now in zip(by_g, by_f, strict=True)]
        content[:] &= (found[0] == 0) & (found[1] == 0)
        return found

    if q + rate_w >= 0 or rate_a > rate_w:
        grows = "a" if rate_a > rate_w else "w" if q + rate_w > 0 else ""
        found = by_units(task, grows, "a" if 2 * q + rate_a + rate_w < 0 < q + rate_w else "", seen)
    else:
        found = by_kernels(task, g * (q + rate_a == -0.5), seen)
    wanted = np.array(found) + correction * g
    off = (outputs(run) - wanted) / np.sqrt(np.mean(wanted**2))
    # 16384 pairs of independent draws: outputs are uncertain by 1 to 3 percent.
    moving = sh.limit_dynamics(point).moving
    assert np.sqrt(np.mean(off**2, axis=(1, 2))).max() < (0.05 if moving else 1e-10)
    assert np.abs(found[STEPS] - found[0]).max() > 0.1
