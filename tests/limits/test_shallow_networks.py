"""Golden and property tests: finite shallow networks, their kernels and what one step does to them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scalewise.limits import shallow as sh

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


@pytest.mark.parametrize("activation", ["tanh", "softplus", "leaky_relu(0.1)"])
def test_output_kernels_and_step_against_autodiff(activation: str) -> None:
    net = network(activation=activation)
    with jax.enable_x64(True):
        f, step = by_jax(net)
        kernels = kernels_by_jax(net)
        np.testing.assert_allclose(sh.output(net, X), [f(net.a, net.w, x) for x in X], rtol=1e-12)
        K_a, K_w = sh.tangent_kernels(net, X, PROBES)
        for i, x in enumerate(X):
            for j, z in enumerate(PROBES):
                wanted = kernels(net.a, net.w, x, z)
                np.testing.assert_allclose((K_a[i, j], K_w[i, j]), wanted, rtol=1e-11)
        after = sh.step(net, sample())
        a, w = step(net.reference.rate_a, net.reference.rate_w, sample())
        np.testing.assert_allclose(after.a, a, rtol=1e-12)
        np.testing.assert_allclose(after.w, w, rtol=1e-12)


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
        for i, x in enumerate(X):
            response = jax.jacfwd(lambda r, x=x: f(*step(r[0], r[1], one), x))(jnp.zeros(2))
            wanted = [-chi[0] * K[0][i, 0], -chi[1] * K[1][i, 1]]
            np.testing.assert_allclose(response, wanted, rtol=1e-10)
            for j, z in enumerate(PROBES):
                rates = jax.jacfwd(
                    lambda a, w, x=x, z=z: jnp.stack(kernels(*step(a, w, one), x, z)), (0, 1)
                )(*zero)
                (aa, wa), (aw, ww) = rates
                assert abs(aa) < 1e-14
                np.testing.assert_allclose(
                    (found.aw[i, j], found.ww[i, j], found.wa[i, j]), (aw, ww, wa), rtol=1e-9
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
            for name, part in (("a", K_a), ("w", K_w), *vars(one).items()):
                parts.setdefault(name, []).append(float(np.mean(part**2)))
        found.append({name: 0.5 * np.log(np.mean(part)) for name, part in parts.items()})
    return {name: (found[1][name] - found[0][name]) / np.log(32) for name in found[0]}


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


def test_the_series_of_one_step_is_exact_where_it_ends() -> None:
    # x^3 has no fourth derivative; the second sum alone goes on to one order more.
    net = network(activation="monomial(3)")
    only_w = replace(net, reference=replace(net.reference, rate_a=0.0))
    exact = sh.output(sh.step(only_w, sample()), X) - sh.output(only_w, X)
    np.testing.assert_allclose(sh.output_change(only_w, X, sample()), exact, rtol=1e-10)
    square = network(activation="monomial(2)")
    exact = sh.output(sh.step(square, sample()), X) - sh.output(square, X)
    np.testing.assert_allclose(sh.output_change(square, X, sample()), exact, rtol=1e-10)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_series_of_one_step_leaves_out_the_next_order(order: int) -> None:
    left = []
    for rate in (0.02, 0.01):
        net = network(activation="tanh")
        net = replace(net, reference=replace(net.reference, rate_a=rate, rate_w=2 * rate))
        exact = sh.output(sh.step(net, sample()), X) - sh.output(net, X)
        left.append(np.abs(sh.output_change(net, X, sample(), order=order) - exact).max())
    assert np.log2(left[0] / left[1]) == pytest.approx(order + 1, abs=0.1)


def batches(kind: str) -> dict[str, Any]:
    if kind == "full":
        return {}
    rows_a, rows_w = sh.independent_batches(5, 6, batch=1 if kind == "single" else 2, seed=5)
    return {"rows_a": rows_a, "rows_w": None if kind == "shared" else rows_w}


@pytest.mark.parametrize("kind", ["full", "single", "shared", "pairs"])
@pytest.mark.parametrize("activation", ["leaky_relu(0.1)", "tanh", "leaky_relu(1.5)"])
def test_the_span_of_the_samples_is_enough(kind: str, activation: str) -> None:
    task = sh.Task(X, Y, PROBES, **batches(kind))
    reference = sh.Reference(16, rate_a=2.0, rate_w=2.0, activation=activation)
    some = {"steps": 6, "seeds": 2, "kernels": True}
    plain = sh.train_finite(task, reference, "MF", 40, gram=False, **some)
    spanned = sh.train_finite(task, reference, "MF", 40, gram=True, **some)
    for name in plain:
        np.testing.assert_allclose(spanned[name], plain[name], rtol=1e-10, atol=1e-12)
    half = sh.train_finite(task, reference, "MF", 40, dtype=np.float32, **some)
    assert float(abs(half.logits - plain.logits).max()) < 1e-4
    assert float(abs(plain.logits[-1] - plain.logits[0]).max()) > 0.1


@pytest.mark.parametrize("scaling", ["default", "sym-default", "NTK", "MF", (-0.8, 0.6, 0.7)])
def test_training_is_the_printed_step_again_and_again(scaling: Any) -> None:
    rows_a, rows_w = sh.independent_batches(5, 6, seed=5)
    task = sh.Task(X, Y, PROBES, rows_a, rows_w)
    reference = sh.Reference(16, sigma=0.4, rate_a=1.5, rate_w=0.8, activation="tanh")
    run = sh.train_finite(task, reference, scaling, 40, steps=6, seeds=(7,), kernels=True)
    net = sh.draw_network(reference, sh.scaling(scaling), 40, 3, seed=7)
    factor = (40 / 16) ** float(sh.scaling(scaling).output_power)
    everything = np.concatenate([X, PROBES])
    for k in range(7):
        f = sh.output(net, everything)
        np.testing.assert_allclose(run.logits[k, 0], f, rtol=1e-10)
        np.testing.assert_allclose(run.scaled_logits[k, 0], f / factor, rtol=1e-10)
        for name, K in zip(
            ("a", "w"), sh.tangent_kernels(net, everything, everything), strict=True
        ):
            np.testing.assert_allclose(run[f"kernel_{name}"][k, 0], np.diag(K) / factor, rtol=1e-10)
        if k < 6:
            net = sh.step(net, sample(int(rows_a[k, 0]), int(rows_w[k, 0])))


def test_a_full_batch_is_the_mean_loss() -> None:
    task = sh.Task(X, Y)
    reference = sh.Reference(16, rate_a=1.5, rate_w=0.8, activation="tanh")
    run = sh.train_finite(task, reference, "NTK", 16, steps=1, seeds=1)
    net = sh.draw_network(reference, sh.scaling("NTK"), 16, 3)
    with jax.enable_x64(True):

        def loss(a: Any, w: Any) -> Any:
            f = reference.sigma * jnp.tanh(X @ w.T) @ a
            return jnp.mean(jnp.logaddexp(0.0, -Y * f))

        g_a, g_w = jax.grad(loss, (0, 1))(net.a, net.w)
        after = replace(net, a=np.asarray(net.a - 1.5 * g_a), w=np.asarray(net.w - 0.8 * g_w))
    np.testing.assert_allclose(run.logits[1, 0], sh.output(after, X), rtol=1e-11)


def test_the_corrected_mean_field_is_the_reference_at_its_width() -> None:
    task = sh.Task(X, Y, PROBES)
    reference = sh.Reference(64, rate_a=1.0, rate_w=1.0)
    some = {"steps": 5, "seeds": 3}
    plain = sh.train_finite(task, reference, "NTK", 64, **some)
    corrected = sh.train_finite(task, reference, "IC-MF", 64, **some)
    np.testing.assert_array_equal(corrected.logits, plain.logits)
    appendix = sh.train_finite(task, reference, "IC-MF (appendix)", 64, **some)
    np.testing.assert_allclose(appendix.logits[0], 2 * plain.logits[0], rtol=1e-12)
    # At any other width both start as NTK does, (25) exactly.
    wide = sh.train_finite(task, reference, "IC-MF", 640, **some)
    start = sh.train_finite(task, reference, "NTK", 640, **some)
    np.testing.assert_allclose(wide.logits[0], start.logits[0], rtol=1e-12)
    assert float(abs(wide.logits[5] - start.logits[5]).max()) > 1e-3


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
    rows_a, rows_w = sh.independent_batches(5, 6, seed=5)
    for task in (sh.Task(X, Y, PROBES), sh.Task(X, Y, PROBES, rows_a, rows_w)):
        reference = sh.Reference(8, activation="tanh")
        every = sh.train_finite(task, reference, "MF", 20, steps=6)
        some = sh.train_finite(task, reference, "MF", 20, steps=6, record=(2, 5))
        np.testing.assert_allclose(some.logits, every.logits[[2, 5]], rtol=1e-12)
        assert some.step.values.tolist() == [2, 5]
    assert some.role.values.tolist() == ["sample"] * 5 + ["probe"] * 2
    assert some.attrs["scaling"] == "MF"
    assert some.attrs["width"] == 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(5)}, "`Task.labels` needs 1 or -1 for each of 5 samples"),
        ({"labels": Y[:4]}, "`Task.labels` needs 1 or -1 for each of 5 samples; got shape"),
        ({"inputs": X[0]}, "`Task.inputs` has shape"),
        ({"inputs": np.where(np.arange(5)[:, None] == 2, 0, X)}, "none of them 0.*row 2"),
        ({"probes": np.full((1, 3), np.nan)}, "`Task.probes` must be finite"),
        ({"probes": np.ones((1, 2))}, "`Task.probes` needs 3 features"),
        ({"rows_a": np.array([[5]])}, "`Task.rows_a` .* holds samples 0 to 4"),
        ({"rows_a": np.array([[1, 1]])}, "takes a sample twice"),
        ({"rows_w": np.array([[1]])}, "`Task.rows_w` needs `rows_a`"),
        ({"rows_a": np.array([[1]]), "rows_w": np.array([[1], [2]])}, "same number of steps"),
    ],
)
def test_bad_tasks_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sh.Task(**{"inputs": X, "labels": Y, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "`Reference.width` counts units and must be at least 1; got 0"),
        ({"sigma": -1.0}, "`Reference.sigma` must be finite and positive; got -1"),
        ({"rate_a": -1.0}, "`Reference.rate_a` must be finite and at least 0"),
        ({"rate_w": float("inf")}, "`Reference.rate_w` must be finite"),
        ({"law": "cauchy"}, "`Reference.law` must be one of normal, uniform; got 'cauchy'"),
        ({"activation": "perceptron"}, "must be continuous"),
    ],
)
def test_bad_references_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sh.Reference(**{"width": 8, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "`width` counts hidden units"),
        ({"steps": -1}, "`steps` must be a whole number of at least 0"),
        ({"steps": 7}, "has batches for 6 steps only"),
        ({"record": (9,)}, "`record` must name steps from 0 to 3"),
        ({"seeds": 0}, "`seeds` must be a number of seeds"),
        ({"source": "mup"}, "No scaling is called 'mup'; the named ones are default, sym-default"),
        ({"source": (1, 2, 3, 4)}, "A scaling has two exponents.*got 4"),
        ({"source": (float("nan"), 0)}, "`q_sigma` is an exponent"),
        ({"reference": sh.Reference(8, rate_a=1e200, rate_w=1e200)}, "Outputs overflow after step"),
    ],
)
def test_bad_runs_are_refused(change: dict[str, Any], message: str) -> None:
    task = sh.Task(X, Y, None, *sh.independent_batches(5, 6))
    plain = {"reference": sh.Reference(8), "source": "NTK", "width": 8, "steps": 3}
    with pytest.raises(ValueError, match=message):
        sh.train_finite(task, **{**plain, **change})


def test_other_refusals() -> None:
    with pytest.raises(ValueError, match="`batch` must be from 1 to the 5 samples"):
        sh.independent_batches(5, 2, batch=6)
    with pytest.raises(ValueError, match="`order` must be 1, 2 or 3"):
        sh.output_change(network(), X, sample(), order=4)
    with pytest.raises(ValueError, match="is the sum over its units alone"):
        network("IC-MF")
    with pytest.raises(ValueError, match=r"`ShallowNetwork\.a` has shape"):
        replace(network(), a=np.ones(3))
