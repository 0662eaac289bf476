"""Agreement and golden tests: limits of shallow networks against networks of large width, region by region."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from grids import few, thorough
from scalewise.limits import Finite, Lazy
from scalewise.limits import shallow as sh
from scalewise.scaling import shallow as plane
from scalewise.tasks import Task

X = np.random.default_rng(3).normal(size=(4, 3))
Y = np.array([1.0, -1.0, 1.0, -1.0])
PROBES = np.random.default_rng(4).normal(size=(2, 3))
STEPS = 5
SEEDS = 3
# d* = 1: every power of d/d* is as large as d allows.
REFERENCE = sh.Reference(1, rate_a=0.5, rate_w=0.5)
NARROW, WIDE, UNITS = 1 << 10, 1 << 17, 1 << 14

# In the open set R2 a point that is farther from all lines than its representative.
POINTS: dict[str, Any] = {one.id: one.representative for one in plane.regions()}
POINTS["R2"] = ("-2/3", "1/2")
POINTS |= {name: name for name in ("default", "IC-MF", "IC-MF (appendix)")}


def task(x: Any = X, y: Any = Y, probes: Any = PROBES, batches: Any = None) -> Task:
    return Task(x, y, test_inputs=probes, loss="logistic", batches=batches)


def task_of(schedule: int) -> Task:
    return task(batches=sh.independent_batches(4, STEPS, seed=schedule))


def by_step(found: Any) -> np.ndarray:
    """Outputs over (step, seed, input), kernels likewise."""
    values = found.values[..., 0] if "output" in found.dims else found.values
    return values.swapaxes(0, 1)


def margin(point: Any, schedule: int) -> float:
    """Smallest margin of what the loss sees only by its sign, in units of all outputs."""
    own, order = task_of(schedule), sh.limit_dynamics(point)
    if order.later < 1:
        return 1.0
    run = sh.train_shallow(own, REFERENCE, point, steps=STEPS, on=Lazy(1 << 10, replicas=SEEDS))
    found = []
    for k in range(1, STEPS):
        f = by_step(run.scaled_logits)[k]
        seen = np.abs(np.concatenate([f[:, rows] for rows in own.batch(k)], axis=1))
        found.append(seen[np.abs(f).max(axis=1) > 0].ravel() / np.sqrt(np.mean(f**2)))
    return float(np.concatenate(found).min())


def compared(point: Any, schedule: int, width: int) -> tuple[xr.Dataset, xr.Dataset]:
    return pair(task_of(schedule), REFERENCE, point, width, STEPS, SEEDS)


def pair(
    own: Task, reference: sh.Reference, point: Any, width: int, steps: int, replicas: int
) -> tuple[xr.Dataset, xr.Dataset]:
    """Networks, and their limit from the same initial outputs."""
    some: dict[str, Any] = {"steps": steps, "kernels": True}
    finite = sh.train_shallow(own, reference, point, on=Finite(width, replicas=replicas), **some)
    on, start = Lazy(UNITS, replicas=replicas), finite.start.values
    return finite, sh.train_shallow(own, reference, point, on=on, start=start, **some)


def error(name: str, finite: xr.Dataset, limit: xr.Dataset, first: int = 1) -> float:
    """Median over networks of the error relative to the size of the limit."""
    later = slice(first, None)
    one, other = by_step(finite[name])[later], by_step(limit[name])[later]
    off = ((one - other) ** 2).mean(axis=(0, 2)) ** 0.5
    return float(np.median(off) / np.sqrt((other**2).mean()))


@pytest.mark.covers("E22", "E23")
@pytest.mark.parametrize("name", few(POINTS, every=3))
def test_wide_networks_approach_their_limit_at_the_stated_rate(name: str) -> None:
    # A network whose output comes near 0 where only its sign counts is slow to converge: take batches
    # for which the limit keeps away from there.
    point = POINTS[name]
    best = max(range(12), key=lambda schedule: margin(point, schedule))
    narrow, wide = (compared(point, best, width) for width in (NARROW, WIDE))
    rho = float(sh.scaling(point).rate)
    for variable in ("scaled_logits", "kernel_a", "kernel_w"):
        before, after = error(variable, *narrow), error(variable, *wide)
        slope = np.log2(before / after) / np.log2(WIDE / NARROW)
        assert slope > (0.6 if variable == "scaled_logits" else 0.5) * rho, (
            variable,
            before,
            after,
        )
        assert after < 4 * WIDE**-rho, (variable, after)


# Which layers have a part in the limit, and whether first weights move, by what a step does to either.
UNEQUAL: dict[str, tuple[Any, sh.LimitDynamics]] = {
    "only a, remembered": (
        ("-1/2", 0, "-1/2"),
        sh.LimitDynamics("", False, 0, 0, remembers=True, by_w=False),
    ),
    "only w, remembered": (
        ("-1/2", "-1/2", 0),
        sh.LimitDynamics("", False, 0, 0, remembers=True, by_a=False),
    ),
    "a moves, w stands": (("-1/2", "1/2", 0), sh.LimitDynamics("", False, 0, 1, by_w=False)),
    "a outgrows, w stands": (
        ("-1/2", "3/4", "-1/4"),
        sh.LimitDynamics("", False, 0, 1, silent=True, by_w=False),
    ),
    "w moves, a stands": ((-1, "1/2", 1), sh.LimitDynamics("", True, -1, 0, by_a=False)),
    "as the default": (("-3/4", 1, "1/2"), sh.LimitDynamics("", True, -1, 1, silent=True)),
    "mirror": (("-1/2", 0, 1), sh.LimitDynamics("", True, 0, 1, silent_w=True)),
    "mirror, finite": (("-3/2", 1, 2), sh.LimitDynamics("", True, -1, 0, silent_w=True)),
    "w outgrows, a stands": (
        (-1, "1/8", "3/2"),
        sh.LimitDynamics("", True, -1, 1, by_a=False, silent_w=True),
    ),
}


@pytest.mark.covers("E22")
@pytest.mark.parametrize("name", few(UNEQUAL, every=3))
def test_wide_networks_with_rates_that_scale_differently(name: str) -> None:
    point, dynamics = UNEQUAL[name]
    assert sh.limit_dynamics(point) == dynamics
    best = max(range(12), key=lambda schedule: margin(point, schedule))
    narrow, wide = (compared(point, best, width) for width in (NARROW, WIDE))
    one = sh.scaling(point)
    present = {"scaled_logits": True, "kernel_a": dynamics.by_a, "kernel_w": dynamics.by_w}
    for variable, there in present.items():
        if there:
            before, after = error(variable, *narrow), error(variable, *wide)
            slope, rho = np.log2(before / after) / np.log2(WIDE / NARROW), float(one.rate)
            assert slope > 0.6 * rho, (variable, before, after)
            assert after < 5 * WIDE**-rho, (variable, after)
            continue
        # What has no part in the limit goes away, by the power that it is short of once weights have moved.
        assert not np.any(wide[1][variable])
        moved = [by_step(run[0][variable])[1:] for run in (narrow, wide)]
        sizes = [float((part**2).mean()) ** 0.5 for part in moved]
        slope = np.log2(sizes[0] / sizes[1]) / np.log2(WIDE / NARROW)
        assert slope == pytest.approx(float(one.shares[variable == "kernel_w"]), abs=0.02)


@pytest.mark.covers("E22")
@pytest.mark.parametrize(
    ("activation", "point"),
    [
        ("tanh", "NTK"),
        ("softplus", "IC-MF"),
        *thorough(("erf", "NTK"), ("softplus", "NTK"), ("tanh", "IC-MF"), ("erf", "IC-MF")),
    ],
)
def test_smooth_activations_and_full_batches(activation: str, point: str) -> None:
    reference = sh.Reference(4, rate_a=2.0, rate_w=2.0, activation=activation)
    finite, limit = pair(task(), reference, point, WIDE, STEPS, 2)
    for variable in ("scaled_logits", "kernel_a", "kernel_w"):
        assert error(variable, finite, limit, 0) < 0.02
    f = by_step(limit.scaled_logits)
    assert np.abs(f[-1] - f[0]).min() > 0.01


@pytest.mark.covers("E22")
@pytest.mark.parametrize("activation", ["softplus", *thorough("gelu", "relu")])
def test_first_weights_that_outgrow_their_start_see_asymptotes(activation: str) -> None:
    """On orthogonal inputs too, where preactivations stand still until their own input is seen."""
    reference = sh.Reference(4, rate_a=1.0, rate_w=2.0, activation=activation)
    rows = np.array([[0, 1], [1, 2], [0, 2], [1, 2]])
    for inputs, batches in ((X, None), (np.eye(3), rows)):
        own = task(inputs, Y[: len(inputs)], batches=batches)
        backends = [Finite(1 << 16, replicas=2)]
        backends += [Lazy(UNITS, replicas=2, dtype=one) for one in (np.float64, np.float32)]
        finite, limit, single = (
            sh.train_shallow(own, reference, ("-3/2", 1, 2), steps=4, on=on, kernels=True)
            for on in backends
        )
        for variable in ("scaled_logits", "kernel_a", "kernel_w"):
            assert error(variable, finite, limit) < 0.05, variable
            assert error(variable, single, limit) < 2e-3, variable
        assert np.abs(by_step(limit.scaled_logits)[-1]).max() > 0.1


@pytest.mark.covers("E22")
def test_the_mirror_is_the_default_with_its_layers_exchanged() -> None:
    """One feature and a linear activation: f = σ Σ a w x does not know which layer is which."""
    rng = np.random.default_rng(2)
    rows = sh.independent_batches(4, STEPS, seed=4)
    for q in ("-1/2", "-3/4", "-3/2"):
        one = sh.Reference(4, rate_a=0.7, rate_w=0.3, activation="linear")
        other = replace(one, rate_a=one.rate_w, rate_w=one.rate_a)
        x = rng.normal(size=(4, 1))
        g = rng.normal(size=(1, 1)) * x
        s = np.array([0.5, -0.5]) - float(sh.scaling((q, 0)).q_sigma)
        some: dict[str, Any] = {"steps": STEPS, "start": g, "on": Lazy(1 << 12)}
        default = sh.train_shallow(task(x, Y, None, rows), one, (q, *s), **some)
        mirror = sh.train_shallow(task(x, Y, None, rows[::-1]), other, (q, *s[::-1]), **some)
        scale = float(abs(default.scaled_logits).max())
        assert scale > 0.05
        off = abs(default.scaled_logits - mirror.scaled_logits) / scale
        assert float(off.max()) < 5e-3, q


@pytest.mark.covers("E22")
def test_a_law_carried_along_is_a_push_forward() -> None:
    # With a linear activation second moments of (a, w) close under a step: M -> T M T'.
    rows = sh.independent_batches(4, STEPS, seed=1)
    reference = sh.Reference(4, sigma=0.6, rate_a=0.8, rate_w=0.5, activation="linear")
    limit = sh.train_shallow(
        task(batches=rows), reference, "MF", steps=STEPS, on=Lazy(UNITS, replicas=4)
    )
    M, everything = np.eye(4), np.concatenate([X, PROBES])
    first_order = M
    for k in range(STEPS + 1):
        f = reference.sigma * reference.width * everything @ M[1:, 0]
        found = by_step(limit.scaled_logits)[k]
        np.testing.assert_allclose(found.mean(axis=0), f, atol=0.005)
        if k == 2:
            # The printed equation is of first order in the rates: told apart.
            other = reference.sigma * reference.width * everything @ first_order[1:, 0]
            assert np.abs(other - f).max() > 0.2
        if k < STEPS:
            a, w = rows[0][k, 0], rows[1][k, 0]
            chi = [-Y[i] / (2 if k == 0 else 1 + np.exp(f[i] * Y[i])) for i in (a, w)]
            D = np.zeros((4, 4))
            D[0, 1:] = -reference.rate_a * reference.sigma * chi[0] * X[a]
            D[1:, 0] = -reference.rate_w * reference.sigma * chi[1] * X[w]
            first_order = first_order + D @ first_order + first_order @ D.T
            M = (np.eye(4) + D) @ M @ (np.eye(4) + D).T


@pytest.mark.covers("E22")
def test_the_first_step_of_the_mean_field_is_downhill_by_its_kernels() -> None:
    # The printed sign of the divergence would take the output the other way.
    own = task(X[:1], np.array([1.0]), X[1:])
    reference = sh.Reference(4, rate_a=0.02, rate_w=0.04)
    limit = sh.train_shallow(own, reference, "MF", steps=1, on=Lazy(UNITS, replicas=4))
    K_a, K_w = sh.limit_kernels(reference, X, X[:1])
    wanted = 0.5 * (0.02 * K_a + 0.04 * K_w)[:, 0]
    np.testing.assert_allclose(limit.scaled_logits_mean[1, :, 0], wanted, atol=0.004)
    assert wanted[0] > 0.1


def test_what_limits_start_from() -> None:
    start = sh.draw_start(task(), REFERENCE, 2)
    for point in POINTS.values():
        run = sh.train_shallow(task(), REFERENCE, point, steps=0, on=Lazy(64, replicas=2))
        dynamics = sh.limit_dynamics(point)
        wanted = start if dynamics.remembers or dynamics.keeps else 0 * start
        np.testing.assert_allclose(run.scaled_logits[:, 0], wanted, atol=1e-14)
        np.testing.assert_allclose(run.start, start)
    assert [name for name in POINTS if sh.limit_dynamics(POINTS[name]).remembers] == [
        "R6",
        "R7",
        "R8",
    ]


@pytest.mark.covers("E25")
def test_the_initial_process_has_its_covariance() -> None:
    own = task(probes=np.concatenate([PROBES, 2 * X[:1]]))
    reference = sh.Reference(9, sigma=0.5)
    draws = sh.draw_start(own, reference, 4000)[..., 0]
    K = sh.limit_kernels(reference, own.all_inputs)[0]
    product = draws[:, :, None] * draws[:, None, :]
    sem = product.std(axis=0) / 4000**0.5
    assert np.all(np.abs(product.mean(axis=0) - K) < 4.5 * sem)
    # Outputs of parallel inputs stay in proportion.
    np.testing.assert_allclose(draws[:, -1], 2 * draws[:, 0], atol=1e-4)


@pytest.mark.covers("E22")
def test_nothing_is_learned_until_something_is_wrong() -> None:
    # Where only the sign of the start counts, two samples that are right change nothing, the third does.
    rows = np.array([[0], [1], [2], [0]])
    own, start = task(probes=None, batches=rows), (Y * [1, 1, -1, 1])[:, None]
    run = sh.train_shallow(own, REFERENCE, POINTS["R1"], steps=4, start=start, on=Lazy(2))
    f = by_step(run.scaled_logits)[:, 0]
    moved = np.abs(f).max(axis=1)
    assert moved[:3].tolist() == [0, 0, 0]
    assert moved[3] > 0.1
    K = sum(sh.limit_kernels(REFERENCE, X, X[2:3]))
    np.testing.assert_allclose(f[3], 0.5 * Y[2] * K[:, 0], rtol=1e-12)


@pytest.mark.covers("E22")
def test_the_loss_is_in_units_of_the_outputs() -> None:
    """Of a network so wide that the limit is all there is to it, divided by the width's power of its outputs."""
    width, replicas = 1 << 16, 2
    for point, order in (("MF", 0), ("sym-default", 1), ((-1, "1/2"), -1)):
        finite, limit = pair(task_of(1), REFERENCE, point, width, STEPS, replicas)
        power = width ** finite.attrs["output_power"]
        wanted = (finite.loss.values - (np.log(2) if order < 0 else 0)) / power
        assert sh.limit_dynamics(point).later == order
        later = slice(1, None)
        scale = np.abs(wanted[:, later]).max()
        assert np.abs(limit.loss.values - wanted)[:, later].max() < 0.05 * scale, point


def test_first_weights_of_the_default_stand_still_in_the_first_step() -> None:
    some: dict[str, Any] = {"steps": 2, "on": Lazy(1 << 12), "kernels": True}
    silent = sh.train_shallow(task(), REFERENCE, "default", **some)
    K_a, K_w = silent.kernel_a[0].values, silent.kernel_w[0].values
    np.testing.assert_allclose(K_a[1], K_a[0], rtol=1e-12)
    assert np.abs(K_a[2] - K_a[1]).max() > 1e-3
    assert np.abs(K_w[0]).max() == 0.0
    moving = sh.train_shallow(task(), REFERENCE, "sym-default", **some).kernel_a[0].values
    assert np.abs(moving[1] - moving[0]).max() > 1e-3


def test_an_input_is_the_same_as_sample_and_as_probe() -> None:
    rows = sh.independent_batches(4, STEPS, seed=2)
    for batches in (None, rows):
        own, start = task(probes=X, batches=batches), np.ones((8, 1))
        for point in ("NTK", "MF", "sym-default"):
            run = sh.train_shallow(own, REFERENCE, point, steps=STEPS, on=Lazy(64), start=start)
            f = by_step(run.scaled_logits)
            np.testing.assert_allclose(f[..., 4:], f[..., :4], rtol=1e-9, atol=1e-12)


@pytest.mark.covers("E22")
@pytest.mark.parametrize(("features", "rate"), [(3, (0.6, 1.1)), (70, (0.4, 0.6))])
@pytest.mark.parametrize("law", ["normal", "uniform"])
def test_replicas_show_the_error_of_the_particles(
    features: int, rate: tuple[float, float], law: str
) -> None:
    x = np.random.default_rng(5).normal(size=(4, features)) * (3 / features) ** 0.5
    reference = replace(REFERENCE, law=law)
    spread, means = [], []
    for units in (1 << 7, 1 << 13):
        on, start = Lazy(units, replicas=12), np.ones((4, 1))
        run = sh.train_shallow(task(x, probes=None), reference, "MF", steps=3, on=on, start=start)
        spread.append(run.scaled_logits[:, -1].std("replica").mean().item())
        means.append(run.scaled_logits_mean[-1].values)
    assert rate[0] < np.log2(spread[0] / spread[1]) / 6 < rate[1]
    assert np.abs(means[0] - means[1]).max() < 4 * spread[0]


@pytest.mark.covers("E25")
def test_kernels_in_closed_form() -> None:
    reference = sh.Reference(1, activation="leaky_relu(0.1)")
    x, other = np.array([[1, 0.5, -0.2]]), np.array([[-0.3, 0.8, 0.4]])
    K_a, K_w = sh.limit_kernels(reference, x, other)
    assert K_a[0, 0] == pytest.approx(0.1442062890, abs=5e-11)
    assert K_w[0, 0] / (x @ other.T)[0, 0] == pytest.approx(0.3049064149, abs=5e-11)


@pytest.mark.covers("E25")
@pytest.mark.parametrize("activation", ["relu", "leaky_relu(0.3)", "erf", "tanh", "gelu", "swish"])
def test_kernels_are_those_of_very_wide_networks(activation: str) -> None:
    reference = sh.Reference(7, sigma=0.5, activation=activation)
    everything = np.concatenate([X, PROBES])
    whole = sh.limit_kernels(reference, everything)
    blocks = sh.limit_kernels(reference, X, PROBES)
    net = sh.draw_network(reference, sh.scaling("MF"), 200_000, 3)
    for one, block, found in zip(
        whole, blocks, sh.tangent_kernels(net, everything, everything), strict=True
    ):
        np.testing.assert_allclose(one[:4, 4:], block, rtol=1e-9)
        np.testing.assert_allclose(one, one.T, rtol=1e-12)
        assert np.abs(one - found).max() < 0.02 * np.abs(one).max()


@pytest.mark.parametrize("samples", [255, 256, 300])
def test_kernels_of_many_inputs_are_those_of_each_pair(samples: int) -> None:
    x = np.random.default_rng(0).normal(size=(samples, 4))
    reference = sh.Reference(3, activation="tanh")
    K_a, K_w = sh.limit_kernels(reference, x)
    few = [0, 1, 254, samples - 1]
    wanted = sh.limit_kernels(reference, x[few])
    np.testing.assert_allclose(K_a[np.ix_(few, few)], wanted[0], rtol=1e-9)
    np.testing.assert_allclose(K_w[np.ix_(few, few)], wanted[1], rtol=1e-9)


@pytest.mark.covers("E22")
def test_dynamics_by_name_and_by_point() -> None:
    for one in plane.regions():
        found = sh.limit_dynamics(one.representative)
        A, B, C, S = one.signs
        assert found == sh.LimitDynamics(one.id, S == 0, A, B, C == 0)
    for name, id in (("NTK", "R6"), ("sym-default", "R10"), ("MF", "R12")):
        point = plane.region(*(next(r for r in plane.regions() if r.id == id)).representative)
        assert sh.limit_dynamics(name).region == point.id
    assert sh.limit_dynamics("default") == sh.LimitDynamics("", True, 0, 1, silent=True)
    assert sh.limit_dynamics("IC-MF") == sh.LimitDynamics("R12", True, 0, 0, keeps=True)
    powers = {name: str(one.output_power) for name, one in sh.SCALINGS.items()}
    assert powers == {
        "default": "1",
        "sym-default": "1/2",
        "NTK": "0",
        "MF": "0",
        "IC-MF": "0",
        "IC-MF (appendix)": "0",
    }


@pytest.mark.covers("E22")
@pytest.mark.parametrize(
    ("point", "message"),
    [
        ((0, 1), r"lies above the band of dynamical stability, -1/2 <= q_sigma \+ q_tilde <= 0"),
        ((-1, 0), r"lies below the band of dynamical stability, -1/2 <= q_sigma \+ q_tilde <= 0"),
        (
            (-1, 1, "9/8"),
            r"a layer outgrows its start in every step, .* = 1/8 > 0. Take a smaller q_tilde_w",
        ),
        (
            ("-1/2", 1, "1/8"),
            r"a layer outgrows its start in every step, .* = 1/8 > 0. Take a smaller q_tilde_a",
        ),
        ((-1, 0, "1/4"), r"a vanishing part of what they start with, .* = -3/4 < -1/2"),
        (("-1/4", 0, "1/4"), r"outputs diverge from the start, for q_sigma = -1/4 > -1/2"),
        (
            replace(sh.scaling("NTK"), initial=sh.scaling("IC-MF").initial),
            "The limit of .* is not known: something is added",
        ),
    ],
)
def test_points_without_a_limit_are_refused(point: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sh.train_shallow(task(), REFERENCE, point, steps=1, on=Lazy(64))


def test_bad_limits_are_refused() -> None:
    for name in ("tanh", "sin", "quadratic", "exp"):
        reference = sh.Reference(1, activation=name)
        with pytest.raises(ValueError, match=f"{name}' does not become linear far away"):
            sh.train_shallow(task(), reference, ("-1/2", 0, 1), steps=1, on=Lazy(64))
    with pytest.raises(ValueError, match=r"Lazy\(units\) must have an even number .* got 7"):
        sh.train_shallow(task(), REFERENCE, "MF", steps=1, on=Lazy(7))
    with pytest.raises(ValueError, match=r"`start` must have shape \(6, 1\), .* got \(3, 1\)"):
        sh.train_shallow(task(), REFERENCE, "MF", steps=1, on=Lazy(8), start=np.ones((3, 1)))
