"""Golden and property tests: finite shallow networks, their kernels and what one step does to them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grids import each
from refusals import unlike
from scalewise.limits import Finite, Lazy, TrainingError
from scalewise.limits import shallow as sh
from scalewise.limits.shallow._particles import GramLayer, ParticleDraw, UnitParticles, WeightLayer
from scalewise.tasks import Task
from scalewise.tasks._losses import LOSSES

X = np.random.default_rng(3).normal(size=(5, 3))
Y = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
PROBES = np.random.default_rng(4).normal(size=(2, 3))


def soft(z: Any) -> Any:
    """Leaky softplus."""
    return jnp.logaddexp(z, 0.0) - 0.2 * jnp.logaddexp(-z, 0.0)


def network(scaling: Any = (-0.7, 0.4, 0.3), activation: Any = "tanh") -> sh.ShallowNetwork:
    reference = sh.Reference(16, sigma=0.3, rate_a=0.7, rate_w=0.4, activation=activation)
    return sh.draw_network(reference, sh.scaling(scaling), 50, 3, seed=1)


def sample(i: int = 0, j: int = 1) -> sh.Sample:
    return sh.Sample(X[i], float(Y[i]), X[j], float(Y[j]))


def by_jax(net: sh.ShallowNetwork) -> tuple[Callable, Callable]:
    """f(a, w, x) from the definition, and a step (a, w) -> (a, w) at given reference rates."""
    ref, s, d = net.reference, net.scaling, len(net.a)
    u = d / ref.width
    sigma = ref.sigma * u ** float(s.q_sigma)
    phi = ref.phi.traceable()

    def f(a: Any, w: Any, x: Any) -> Any:
        return sigma * jnp.sum(a * phi(w @ x))

    def loss(a: Any, w: Any, x: Any, y: Any) -> Any:
        return jnp.logaddexp(0.0, -y * f(a, w, x))

    def step(rate_a: Any, rate_w: Any, one: sh.Sample) -> Any:
        g_a = jax.grad(loss, 0)(net.a, net.w, one.x_a, one.y_a)
        g_w = jax.grad(loss, 1)(net.a, net.w, one.x_w, one.y_w)
        u_a, u_w = u ** float(s.q_tilde_a), u ** float(s.q_tilde_w)
        return net.a - rate_a * u_a * g_a, net.w - rate_w * u_w * g_w

    return f, step


def kernels_by_jax(net: sh.ShallowNetwork) -> Callable:
    f, _ = by_jax(net)
    u = len(net.a) / net.reference.width
    s = net.scaling

    def kernels(a: Any, w: Any, x: Any, z: Any) -> Any:
        (ga, gw), (ha, hw) = (jax.grad(f, (0, 1))(a, w, v) for v in (x, z))
        return (
            u ** float(s.q_tilde_a) * jnp.sum(ga * ha),
            u ** float(s.q_tilde_w) * jnp.sum(gw * hw),
        )

    return kernels


@pytest.mark.covers("E20")
@pytest.mark.parametrize("activation", ["tanh", "softplus", "leaky_relu(0.1)"])
def test_output_kernels_and_step_against_autodiff(activation: str) -> None:
    net = network(activation=activation)
    with jax.enable_x64(True):
        f, step = by_jax(net)
        outputs = jax.jit(jax.vmap(f, (None, None, 0)))(net.a, net.w, X)
        kernels = jax.jit(kernels_by_jax(net))
        np.testing.assert_allclose(sh.output(net, X), outputs, rtol=1e-12)
        K_a, K_w = sh.tangent_kernels(net, X, PROBES)
        for i, x in enumerate(X):
            for j, z in enumerate(PROBES):
                wanted = kernels(net.a, net.w, x, z)
                np.testing.assert_allclose((K_a[i, j], K_w[i, j]), wanted, rtol=1e-11)
        after = sh.step(net, sample())
        a, w = jax.jit(partial(step, one=sample()))(net.reference.rate_a, net.reference.rate_w)
        np.testing.assert_allclose(after.a, a, rtol=1e-12)
        np.testing.assert_allclose(after.w, w, rtol=1e-12)


@pytest.mark.covers("E20")
@pytest.mark.parametrize("activation", ["tanh", "softplus"])
def test_linear_response_and_kernel_increments_against_autodiff(activation: str) -> None:
    net = network(activation=activation)
    one = sample(2, 3)
    found = sh.kernel_increments(net, X, PROBES, one)
    K = sh.tangent_kernels(net, X, np.stack([one.x_a, one.x_w]))
    f_now = sh.output(net, np.stack([one.x_a, one.x_w]))
    chi = -np.array([one.y_a, one.y_w]) / (1 + np.exp(f_now * np.array([one.y_a, one.y_w])))
    with jax.enable_x64(True):
        f, step = by_jax(net)
        kernels = kernels_by_jax(net)
        zero = (0.0, 0.0)
        responded = jax.jit(jax.jacfwd(lambda r, x: f(*step(r[0], r[1], one), x)))
        moved = jax.jit(
            jax.jacfwd(lambda a, w, x, z: jnp.stack(kernels(*step(a, w, one), x, z)), (0, 1))
        )
        for i, x in enumerate(X):
            response = responded(np.zeros(2), x)
            wanted = [-chi[0] * K[0][i, 0], -chi[1] * K[1][i, 1]]
            np.testing.assert_allclose(response, wanted, rtol=1e-10)
            for j, z in enumerate(PROBES):
                (aa, wa), (aw, ww) = moved(*zero, x, z)
                assert abs(aa) < 1e-14
                np.testing.assert_allclose(
                    [found[name][i, j] for name in ("aw", "ww", "wa")], (aw, ww, wa), rtol=1e-9
                )


def powers_of_increments(scaling: Any, steps: int) -> dict[str, float]:
    """Powers of the width of kernels and of their first changes after some steps, from root mean squares."""
    widths, found = (64, 2048), []
    reference = sh.Reference(1, sigma=1.0, rate_a=0.5, rate_w=0.5, activation="softplus")
    for width in widths:
        parts: dict[str, list[float]] = {}
        for seed in range(60):
            net = sh.draw_network(reference, sh.scaling(scaling), width, 3, seed=seed)
            for _ in range(steps):
                net = sh.step(net, sample(0, 1))
            one = sh.kernel_increments(net, PROBES, X, sample(2, 3))
            K_a, K_w = sh.tangent_kernels(net, PROBES, X)
            for name, part in (("a", K_a), ("w", K_w), *one.items()):
                parts.setdefault(name, []).append(float(np.mean(part**2)))
        found.append({name: 0.5 * np.log(np.mean(part)) for name, part in parts.items()})
    return {name: (found[1][name] - found[0][name]) / np.log(32) for name in found[0]}


@pytest.mark.covers("E20")
@pytest.mark.parametrize(
    ("scaling", "steps", "powers"),
    [
        # Appendix D: Theta(d), Theta(1); Theta(1), Theta(1/d), Theta(1).
        ("default", 0, {"a": 1, "w": 0, "aw": 0, "ww": -1, "wa": 0}),
        # Condition 4 holds from the second step on; in the first the sums are random.
        ("MF", 0, {"a": 0, "w": 0, "aw": -0.5, "ww": -0.5, "wa": -0.5}),
        ("MF", 1, {"a": 0, "w": 0, "aw": 0, "ww": 0, "wa": 0}),
        ("NTK", 0, {"a": 0, "w": 0, "aw": -1, "ww": -1, "wa": -1}),
    ],
)
def test_kernels_and_their_changes_go_by_powers_of_the_width(
    scaling: str, steps: int, powers: dict[str, float]
) -> None:
    found = powers_of_increments(scaling, steps)
    assert found == pytest.approx(powers, abs=0.15)


@pytest.mark.covers("E20")
def test_the_series_of_one_step_is_exact_where_it_ends() -> None:
    # x^3 has no fourth derivative; the second sum alone goes on to one order more.
    net = network(activation="monomial(3)")
    only_w = replace(net, reference=replace(net.reference, rate_a=0.0))
    exact = sh.output(sh.step(only_w, sample()), X) - sh.output(only_w, X)
    np.testing.assert_allclose(sh.output_change(only_w, X, sample()), exact, rtol=1e-10)
    square = network(activation="monomial(2)")
    exact = sh.output(sh.step(square, sample()), X) - sh.output(square, X)
    np.testing.assert_allclose(sh.output_change(square, X, sample()), exact, rtol=1e-10)


@pytest.mark.covers("E20")
@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_series_of_one_step_leaves_out_the_next_order(order: int) -> None:
    left = []
    for rate in (0.02, 0.01):
        net = network(activation="tanh")
        net = replace(net, reference=replace(net.reference, rate_a=rate, rate_w=2 * rate))
        exact = sh.output(sh.step(net, sample()), X) - sh.output(net, X)
        left.append(np.abs(sh.output_change(net, X, sample(), order=order) - exact).max())
    assert np.log2(left[0] / left[1]) == pytest.approx(order + 1, abs=0.1)


def task(x: Any = X, y: Any = Y, probes: Any = PROBES, batches: Any = None) -> Task:
    return Task(x, y, test_inputs=probes, loss="logistic", batches=batches)


def batches(kind: str) -> np.ndarray:
    if kind == "full":
        return np.arange(5)[None]
    rows = sh.independent_batches(5, 6, batch=1 if kind == "single" else 2, seed=5)
    return rows[0] if kind == "shared" else rows


@pytest.mark.covers("E20")
@each("kind", ["full", "single", "shared", "pairs"])
@each("activation", ["leaky_relu(0.1)", "tanh", "leaky_relu(1.5)"])
def test_the_span_of_the_samples_is_enough(kind: str, activation: str) -> None:
    # Of five samples with three features the span is kept, of nine the weights; four of these teach nothing.
    idle = np.random.default_rng(6).normal(size=(4, 3))
    reference = sh.Reference(16, rate_a=2.0, rate_w=2.0, activation=activation)
    some: dict[str, Any] = {"steps": 6, "kernels": True}
    few = task(batches=batches(kind))
    many = task(np.concatenate([X, idle]), np.append(Y, [1, 1, -1, -1]), PROBES, batches(kind))
    assert isinstance(layer_of(few, reference), GramLayer)
    assert isinstance(layer_of(many, reference), WeightLayer)
    spanned, half = (
        sh.train_shallow(few, reference, "MF", on=Finite(40, replicas=2, dtype=one), **some)
        for one in (np.float64, np.float32)
    )
    plain = sh.train_shallow(many, reference, "MF", on=Finite(40, replicas=2), **some)
    plain = plain.isel(sample=[0, 1, 2, 3, 4, 9, 10])
    for name in ("logits", "scaled_logits", "kernel_a", "kernel_w", "start"):
        np.testing.assert_allclose(spanned[name], plain[name], rtol=1e-10, atol=1e-12)
    f = plain.logits.values
    assert np.abs(half.logits.values - f).max() < 1e-4
    assert np.abs(f[:, -1] - f[:, 0]).max() > 0.1


def layer_of(own: Task, reference: sh.Reference) -> object:
    """How first weights are kept."""
    return UnitParticles(own, reference.phi, ParticleDraw(4, (0,)))._layers[0]


@pytest.mark.covers("E20")
@pytest.mark.parametrize("scaling", ["default", "sym-default", "NTK", "MF", (-0.8, 0.6, 0.7)])
def test_training_is_the_printed_step_again_and_again(scaling: Any) -> None:
    rows = sh.independent_batches(5, 6, seed=5)
    reference = sh.Reference(16, sigma=0.4, rate_a=1.5, rate_w=0.8, activation="tanh")
    on = Finite(40, seed=7)
    run = sh.train_shallow(task(batches=rows), reference, scaling, steps=6, on=on, kernels=True)
    net = sh.draw_network(reference, sh.scaling(scaling), 40, 3, seed=7)
    factor = (40 / 16) ** float(sh.scaling(scaling).output_power)
    everything = np.concatenate([X, PROBES])
    for k in range(7):
        f = sh.output(net, everything)
        np.testing.assert_allclose(run.logits[0, k, :, 0], f, rtol=1e-10)
        np.testing.assert_allclose(run.scaled_logits[0, k, :, 0], f / factor, rtol=1e-10)
        np.testing.assert_allclose(
            run.loss[0, k], np.mean(np.log1p(np.exp(-Y * f[:5]))), rtol=1e-10
        )
        for name, K in zip(
            ("a", "w"), sh.tangent_kernels(net, everything, everything), strict=True
        ):
            np.testing.assert_allclose(run[f"kernel_{name}"][0, k], np.diag(K) / factor, rtol=1e-10)
        if k < 6:
            net = sh.step(net, sample(*rows[:, k, 0].tolist()))


@pytest.mark.covers("E20")
def test_a_full_batch_is_the_mean_loss() -> None:
    reference = sh.Reference(16, rate_a=1.5, rate_w=0.8, activation="tanh")
    run = sh.train_shallow(task(probes=None), reference, "NTK", steps=1, on=Finite(16))
    net = sh.draw_network(reference, sh.scaling("NTK"), 16, 3)
    with jax.enable_x64(True):

        def loss(a: Any, w: Any) -> Any:
            f = reference.sigma * jnp.tanh(X @ w.T) @ a
            return jnp.mean(jnp.logaddexp(0.0, -Y * f))

        g_a, g_w = jax.jit(jax.grad(loss, (0, 1)))(net.a, net.w)
        after = replace(net, a=np.asarray(net.a - 1.5 * g_a), w=np.asarray(net.w - 0.8 * g_w))
    np.testing.assert_allclose(run.logits[0, 1, :, 0], sh.output(after, X), rtol=1e-11)


@pytest.mark.covers("E23")
def test_the_corrected_mean_field_is_the_reference_at_its_width() -> None:
    reference = sh.Reference(64, rate_a=1.0, rate_w=1.0)

    def logits(scaling: str, width: int) -> np.ndarray:
        on = Finite(width, replicas=3)
        return sh.train_shallow(task(), reference, scaling, steps=5, on=on).logits.values

    plain = logits("NTK", 64)
    np.testing.assert_array_equal(logits("IC-MF", 64), plain)
    np.testing.assert_allclose(logits("IC-MF (appendix)", 64)[:, 0], 2 * plain[:, 0], rtol=1e-12)
    # At any other width both start as NTK does, (25) exactly.
    wide, start = logits("IC-MF", 640), logits("NTK", 640)
    np.testing.assert_allclose(wide[:, 0], start[:, 0], rtol=1e-12)
    assert np.abs(wide[:, 5] - start[:, 5]).max() > 1e-3


def test_uniform_weights_and_nested_widths() -> None:
    reference = sh.Reference(16, law="uniform")
    net = sh.draw_network(reference, sh.scaling("NTK"), 4000, 3)
    for part in (net.a, net.w):
        assert np.abs(part).max() <= 3**0.5
        assert part.var() == pytest.approx(1.0, abs=0.05)
        assert abs(part.mean()) < 0.08
    narrow = sh.draw_network(reference, sh.scaling("NTK"), 10, 3)
    np.testing.assert_array_equal(net.a[:10], narrow.a)
    np.testing.assert_array_equal(net.w[:10], narrow.w)


def test_records_are_the_steps_of_a_full_run() -> None:
    reference = sh.Reference(8, activation="tanh")
    for rows in (None, sh.independent_batches(5, 6, seed=5)):
        for on in (Finite(20), Lazy(20)):
            own: dict[str, Any] = {"steps": 6, "on": on}
            full = sh.train_shallow(task(batches=rows), reference, "MF", **own)
            for every, steps in (((5, 2), [2, 5]), (4, [0, 4, 6])):
                some = sh.train_shallow(task(batches=rows), reference, "MF", every=every, **own)
                assert some.time.values.tolist() == steps
                for name in ("scaled_logits", "loss"):
                    np.testing.assert_allclose(some[name], full[name][:, steps], rtol=1e-12)
    assert some.is_test.values.tolist() == [False] * 5 + [True] * 2


def test_the_result_is_shaped_as_that_of_deep_networks() -> None:
    reference = sh.Reference(8)
    for on, width, extra in (
        (Finite(20, replicas=3, seed=4), 20, {"logits"}),
        (Lazy(20, replicas=3, seed=4), np.inf, set()),
    ):
        run = sh.train_shallow(task(), reference, "MF", steps=2, on=on, kernels=True)
        assert {name for name in run if not str(name).endswith(("_mean", "_sem"))} == extra | {
            "scaled_logits",
            "loss",
            "kernel_a",
            "kernel_w",
            "start",
        }
        assert run.scaled_logits.dims == ("replica", "time", "sample", "output")
        assert run.kernel_a.dims == ("replica", "time", "sample")
        for name in ("scaled_logits", "loss", "kernel_w"):
            values = run[name].values
            np.testing.assert_array_equal(run[f"{name}_mean"], values.mean(axis=0))
            sem = values.std(axis=0, ddof=1) / 3**0.5
            np.testing.assert_allclose(run[f"{name}_sem"], sem, rtol=1e-12)
        assert (run.attrs["scaling"], run.attrs["width"]) == ("MF", width)
        assert (run.attrs["replicas"], run.attrs["status"]) == (3, "finished")
        # A replica is what its own seed draws.
        alone = sh.train_shallow(
            task(), reference, "MF", steps=2, on=replace(on, replicas=1, seed=6)
        )
        np.testing.assert_allclose(
            alone.scaled_logits[0], run.scaled_logits[2], rtol=1e-12, atol=1e-15
        )


def test_batches_are_repeated() -> None:
    rows = sh.independent_batches(5, 2, seed=5)
    twice = np.concatenate([rows, rows], axis=1)
    for on in (Finite(20), Lazy(20)):
        for point in ("MF", "NTK"):
            one, other = (
                sh.train_shallow(
                    task(batches=b), sh.Reference(8), point, steps=4, on=on
                ).scaled_logits
                for b in (rows, twice)
            )
            np.testing.assert_array_equal(one, other)


def test_a_run_that_diverges_leaves_what_it_has() -> None:
    reference = sh.Reference(8, rate_a=1e120, rate_w=1e120)
    for on in (Finite(8), Lazy(8)):
        with pytest.raises(
            TrainingError, match=r"not finite at step 2: training diverged\. Lower `rate"
        ) as told:
            sh.train_shallow(task(), reference, "MF", steps=3, on=on)
        found = sh.train_shallow(task(), reference, "MF", steps=3, on=on, throw=False)
        assert found.identical(told.value.found)
        assert found.attrs["status"] == str(told.value)
        assert found.time.values.tolist() == [0, 1]
        assert np.isfinite(found.scaled_logits).all()
    on = Finite(8, dtype=np.float32)
    found = sh.train_shallow(task(1e39 * X), sh.Reference(8), "NTK", steps=3, on=on, throw=False)
    assert "at step 0: outputs overflow before training. Scale the inputs" in found.attrs["status"]
    assert "scaled_logits" not in found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "mse"}, "by the logistic loss; `task` has the loss 'mse'. Make it with"),
        ({"targets": np.stack([Y, Y], 1)}, r"must be one column of -1 and 1; got shape \(5, 2\)"),
        ({"targets": 2 * Y, "loss": LOSSES["logistic"]}, r"-1 and 1; got .* \[-2.0, 2.0\]"),
        (
            {"inputs": np.where(np.arange(5)[:, None] == 2, 0, X)},
            "`inputs` must .* none of them 0.*row 2",
        ),
        ({"inputs": 1e200 * X}, "`inputs` must have finite squares .* row 0 has .* inf"),
        ({"test_inputs": np.zeros((1, 3))}, "`test_inputs` must .* none of them 0"),
        ({"batches": [[1, 1]]}, "must not take a sample twice"),
        ({"batches": [[[0, 1]], [[1, 1]]]}, "must not take a sample twice"),
    ],
)
def test_tasks_of_another_kind_are_refused(change: dict[str, Any], message: str) -> None:
    own = Task(**{"inputs": X, "targets": Y, "loss": "logistic", **change})
    for on in (Finite(8), Lazy(8)):
        with pytest.raises(ValueError, match=message):
            sh.train_shallow(own, sh.Reference(8), "NTK", steps=1, on=on)


BAD_REFERENCES = [
    ({"width": 0}, "`Reference.width` must be a whole number of at least 1; got 0"),
    ({"sigma": -1.0}, "`Reference.sigma` must be a positive number with a finite square; got -1"),
    ({"rate_a": -1.0}, "`Reference.rate_a` must be a finite number of at least 0"),
    ({"rate_w": float("inf")}, "`Reference.rate_w` must be a finite"),
    ({"law": "cauchy"}, "`Reference.law` must be 'normal' or 'uniform'; got 'cauchy'"),
    ({"activation": "perceptron"}, "must be continuous"),
]


def test_bad_references_are_refused() -> None:
    assert [] == unlike(
        (lambda c=change: sh.Reference(**{"width": 8, **c}), message)
        for change, message in BAD_REFERENCES
    )


BAD_RUNS = [
    ({"steps": -1}, "`steps` must be a whole number of at least 0; got -1"),
    ({"every": (9,)}, r"or a list of steps from 0 to 3; got \(9,\)"),
    ({"every": ()}, "or a list of steps from 0 to 3"),
    ({"start": np.ones((5, 1))}, "`start` is the initial output of a limit"),
    ({"scaling": "mup"}, "`source` must be 'default', 'sym-default', .*; got 'mup'"),
    ({"scaling": (1, 2, 3, 4)}, "must be a name, two exponents.*got 4"),
    (
        {"scaling": (float("nan"), 0)},
        "`scaling` must be .* a fraction such as '1/4'; got",
    ),
    ({"on": Lazy(8, compression=0.1)}, "one hidden layer has none. Leave them out"),
    ({"on": Lazy(8, remember_tests=False)}, "one hidden layer has none. Leave them out"),
]


def test_bad_runs_are_refused() -> None:
    given = {"reference": sh.Reference(8), "scaling": "NTK", "on": Finite(8), "steps": 3}
    assert [] == unlike(
        (lambda c=change: sh.train_shallow(task(), **{**given, **c}), message)
        for change, message in BAD_RUNS
    )


def test_other_refusals() -> None:
    with pytest.raises(ValueError, match="`batch` must be from 1 to the 5 samples"):
        sh.independent_batches(5, 2, batch=6)
    with pytest.raises(ValueError, match="`order` must be 1, 2 or 3"):
        sh.output_change(network(), X, sample(), order=4)
    with pytest.raises(ValueError, match="is the sum over its units alone"):
        network("IC-MF")
    with pytest.raises(ValueError, match=r"`ShallowNetwork\.a` must have shape"):
        replace(network(), a=np.ones(3))
