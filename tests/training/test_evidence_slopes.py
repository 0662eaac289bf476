"""Golden: slopes of the evidence by every layer's variances, beside kernels that JAX differentiates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import roots_hermitenorm

import scalewise as sw
from grids import thorough
from refusals import unlike
from scalewise.training import Bayes, log_evidence_slopes

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((5, 3)), RNG.standard_normal((5, 2))
TASK = sw.Task(X, Y)
NODES, WEIGHTS = roots_hermitenorm(400)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
C_B, C_W = (0.3, 0.1, 0.2), (1.3, 1.7, 0.8)


def by_nodes(sigma, A, B, C):
    """<σσ> of pairs on a grid of Gauss points, from the Cholesky factor of the pair."""
    z, e = jnp.sqrt(A)[..., None, None] * NODES[:, None], NODES
    slope = (C / jnp.sqrt(A))[..., None, None]
    rest = jnp.sqrt(jnp.maximum(B - C**2 / A, 1e-300))[..., None, None]
    both = sigma(z) * sigma(slope * NODES[:, None] + rest * e)
    return jnp.einsum("...ij,i,j->...", both, WEIGHTS, WEIGHTS)


def arccosine(_, A, B, C):
    """<relu relu>."""
    c = C / jnp.sqrt(A * B)
    return jnp.sqrt(A * B) * (jnp.sqrt(1 - c**2) + c * (jnp.pi - jnp.arccos(c))) / (2 * jnp.pi)


def log_evidence(x, mean, sigma):
    """Of hyperparameters in a row: noise, biases, weights. A sample with itself has its own integral."""
    noise, b, W = x[0], x[1:4], x[4:]
    K = b[0] + W[0] * jnp.asarray(X @ X.T) / 3
    apart = 1 - np.eye(len(X))
    for layer in (1, 2):
        d = jnp.diag(K)
        A, B = jnp.broadcast_arrays(d[:, None], d)
        # Away from the diagonal alone, where the roots would have no slope.
        off = mean(sigma, A, B, jnp.where(apart == 0, 0.1 * A, K))
        at = sigma(jnp.sqrt(d)[:, None] * NODES)
        own = d / 2 if sigma is jax.nn.relu else at**2 @ WEIGHTS
        K = b[layer] + W[layer] * (off * apart + jnp.diag(own))
    S = K + noise * jnp.eye(len(X))
    quadratic = (Y * jnp.linalg.solve(S, Y)).sum()
    return -0.5 * quadratic - jnp.linalg.slogdet(2 * jnp.pi * S)[1]


@pytest.mark.covers("B3")
@pytest.mark.parametrize("names", [("tanh", "relu"), *thorough((("gelu", "sin"),))], ids="-".join)
def test_slopes_are_those_of_differentiated_kernels(names: tuple[str, ...]) -> None:
    wrong = []
    ways = {
        "tanh": (by_nodes, jnp.tanh),
        "gelu": (by_nodes, lambda z: z * jax.scipy.stats.norm.cdf(z)),
        "sin": (by_nodes, jnp.sin),
        "relu": (arccosine, jax.nn.relu),
    }
    for name in names:
        mean, sigma = ways[name]
        net = sw.MLP(3, 20, name, input_dim=3, output_dim=2, C_b=C_B, C_W=C_W)
        found = log_evidence_slopes(net, TASK, noise_variance=0.05)
        with jax.enable_x64(True):
            x = jnp.array([0.05, *C_B, *C_W])
            value, slope = jax.jit(jax.value_and_grad(log_evidence), static_argnums=(1, 2))(
                x, mean, sigma
            )
        got = np.array([found.log_evidence, found.noise_variance, *found.C_b, *found.C_W])
        if not np.allclose(got, [value, *slope], rtol=1e-7, atol=1e-8):
            wrong.append((name, got, value, slope))
        last = sw.predict_training(net, TASK, Bayes(0.05)).log_evidence_slope.values
        np.testing.assert_allclose(got[[1, 4, 7]], last, rtol=1e-9)
    assert wrong == []


def test_one_layer_and_what_has_no_slope() -> None:
    line = sw.MLP(1, (), "linear", input_dim=3, output_dim=2, C_b=0.2, C_W=1.5)
    found = log_evidence_slopes(line, TASK, noise_variance=0.3)
    last = sw.predict_training(line, TASK, Bayes(0.3)).log_evidence_slope.values
    np.testing.assert_allclose([found.noise_variance, *found.C_b, *found.C_W], last)
    step = sw.MLP(2, 9, "step", input_dim=3, output_dim=2)
    twice = sw.Task(X[[0, 1, 0]], Y[:3])
    deep = sw.MLP(2, 9, "tanh", input_dim=3, output_dim=2)
    cases = [
        (lambda: log_evidence_slopes(step, TASK), "jumps, so its kernel has no derivative"),
        (lambda: log_evidence_slopes(deep, twice), "samples 0 and 2 .* `noise_variance`"),
        (lambda: log_evidence_slopes(deep, sw.Task(X, Y[:, :1])), "output_dim=2"),
    ]
    assert unlike(cases) == []
