"""Golden and agreement: attention whose queries and keys are normed in each head, or turned by their positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from architectures import RATES
from grids import thorough
from heads import TAIL, X, has_the_ntk_of_its_formula, network
from networks import agrees_at_two_widths
from scalewise.networks._forward import logits_of, slopes_of_logits
from scalewise.networks._nodes import Attend

RNG = np.random.default_rng(17)
NORMS = {"rms": sw.RMSNorm(0.2), "layer": sw.LayerNorm(0.1)}
HEADS = {
    **{name: sw.Attention(size=4, qk_norm=norm, C_W=3.0) for name, norm in NORMS.items()},
    "causal, of logits": sw.Attention(size=4, qk_norm=NORMS["rms"], causal=True, function="erf"),
    "rotary": sw.Attention(size=4, rotary=100.0, C_W=3.0),
    "rotary, layer": sw.Attention(size=4, rotary=100.0, qk_norm=NORMS["layer"], C_W=3.0),
    "growing": sw.Attention(heads=2, tied=True, qk_norm=NORMS["layer"]),
}


def turned(z):
    """(sample, position, head, channel), turned as complex numbers."""
    angle = np.arange(z.shape[1])[:, None, None] * np.array([1.0, 0.1])
    w = (z[..., :2] + 1j * z[..., 2:]) * np.exp(1j * angle)
    return jnp.concatenate([w.real, w.imag], axis=-1)


def asked(z, name):
    """A query or a key as it enters its logits."""
    norm = NORMS.get(name.removeprefix("rotary, "))
    z = z if norm is None else normed(z, norm)
    return turned(z) if name.startswith("rotary") else z


def normed(z, norm):
    mean = z.mean(axis=-1, keepdims=True) if isinstance(norm, sw.LayerNorm) else 0.0
    return (z - mean) / jnp.sqrt(((z - mean) ** 2).mean(axis=-1, keepdims=True) + norm.eps)


@pytest.mark.parametrize("name", ["rotary, layer", *thorough("rms", "layer", "rotary")])
def test_one_network_is_its_formula(name: str) -> None:
    def attend(q, k, v):
        logits = jnp.einsum("sphc,sqhc->shpq", asked(q, name), asked(k, name)) / 2
        return jnp.einsum("shpq,sqhc->sphc", jax.nn.softmax(logits), v)

    has_the_ntk_of_its_formula(network(HEADS[name], 8), attend)


@pytest.mark.parametrize("name", [*NORMS, "rotary", "rotary, layer"])
def test_slopes_of_logits_are_their_derivatives(name: str) -> None:
    node = next(n for n in network(HEADS[name], 8).program.nodes if isinstance(n, Attend))
    q, k = RNG.normal(size=(2, 5, 4))
    with jax.enable_x64(True):
        by = [jax.jacfwd(lambda q, k: logits_of(node, q, k, jnp), side)(q, k) for side in (0, 1)]
    # Each logit changes with the query of its own position, and with the key of the other.
    want = np.einsum("susi->sui", by[0]), np.einsum("suui->sui", by[1])
    for found, derivative in zip(slopes_of_logits(node, q, k, np), want, strict=True):
        np.testing.assert_allclose(found, derivative, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["causal, of logits", *thorough("rotary, layer", "rms", "layer", "rotary", "growing")]
)
def test_theory_and_ensembles_agree_at_two_widths(name: str) -> None:
    agrees_at_two_widths(network(HEADS[name], 32), X, widths=(32, 64), seed=2)


def test_logits_of_heads_that_grow_are_correlations() -> None:
    """By hand: the kernel of the queries over the roots of its diagonal."""
    layers = (sw.Attention(heads=2, tied=True, qk_norm=sw.RMSNorm(0.2)), sw.Flatten(), sw.Dense(1))
    net = sw.Network(*layers, input_shape=(5, 2), width=8, **RATES)
    x = X[:1]
    K = 0.1 + 1.3 * x[0] @ x[0].T / 2
    root = np.sqrt(np.diagonal(K) + 0.2)
    p = np.exp(K / np.outer(root, root))
    p /= p.sum(axis=1, keepdims=True)
    want = 0.1 + 1.3 * np.diagonal(0.1 + 1.3 * p @ K @ p.T).mean()
    np.testing.assert_allclose(sw.predict(net, x).kernel.values[-1], want, rtol=1e-12)


def test_a_query_times_a_number_is_the_same_query() -> None:
    """Without eps nothing depends on the variance of queries and keys, and scores stay within their range."""
    eps = sw.RMSNorm(1e-9)
    large, small = (
        sw.Network(
            sw.Dense(), sw.Attention(size=3, qk_norm=eps), *TAIL, input_shape=(5, 2), width=12,
            C_b=0, C_W=C_W,
        )
        for C_W in (1.0, 4.0)
    )  # fmt: skip
    found = [sw.predict(net, X, layers=5, observables="kernel") for net in (large, small)]
    scale = 4.0**3  # of the layers that values pass
    error = np.hypot(found[0].kernel_error * scale, found[1].kernel_error)
    assert (np.abs(found[0].kernel * scale - found[1].kernel) < 5 * error).all()
    assert found[1].kernel_error.max() < 0.01 * found[1].kernel.max()


@pytest.mark.thorough("test_theory_and_ensembles_agree_at_two_widths")
@pytest.mark.parametrize("changed", [{"qk_norm": sw.RMSNorm(0.2)}, {"rotary": 100.0}])
def test_order_1_over_n_is_that_of_drawn_networks(changed) -> None:
    net = network(sw.Attention(size=4, **changed), 32, (2, 2))
    wanted = {"observables": ["kernel", "ntk_B"]}
    theory = sw.predict(net, X[:1, :2], **wanted)
    ensemble = sw.measure(net, X[:1, :2], networks=6000, progress=False, **wanted)
    outcome = sw.compare(theory, ensemble)
    assert outcome.passed, outcome
    assert not sw.compare(theory.assign(ntk_B=1.3 * theory.ntk_B), ensemble).passed


def test_norms_that_heads_cannot_have() -> None:
    with pytest.raises(ValueError, match="eps above 0"):
        sw.Attention(size=4, qk_norm=sw.RMSNorm(0))
    with pytest.raises(ValueError, match="no `positions`"):
        sw.Attention(size=4, qk_norm=sw.LayerNorm(positions=True))
    with pytest.raises(ValueError, match="a sign of heads of one channel"):
        sw.Attention(size=1, qk_norm=sw.RMSNorm())
    with pytest.raises(ValueError, match="an even `size`"):
        sw.Attention(size=3, rotary=100.0)
    with pytest.raises(ValueError, match="an even `size`"):
        sw.Attention(heads=3, rotary=100.0)
