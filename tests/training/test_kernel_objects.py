"""Agreement, conformance: kernels of networks in other programs give what the package itself gives."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

import scalewise as sw
from scalewise.training import NTKGP, Bayes, kernel_of
from small_task import NET, TASK, TEST, TRAIN, Y, kernels

K, THETA = kernels()
N = len(TRAIN)
NOISE = 0.2


def test_a_kernel_is_a_function_of_inputs() -> None:
    for kind, full in (("kernel", K), ("ntk", THETA)):
        k = kernel_of(NET, kind=kind)
        np.testing.assert_allclose(k(TRAIN), full[:N, :N], rtol=1e-12)
        np.testing.assert_allclose(k(TEST, TRAIN), full[N:, :N], rtol=1e-12)
        np.testing.assert_allclose(k.diag(TEST), np.diag(full)[N:], rtol=1e-12)
        pairs = k.pairs(TRAIN[:4], TEST)
        np.testing.assert_allclose(pairs, np.diag(full[:4, N:]), rtol=1e-12)
    assert kernel_of(NET) == kernel_of(NET)


@pytest.mark.covers("B5")
def test_scikit_learn_has_the_same_posterior_and_evidence() -> None:
    for kind, algorithm in (("kernel", Bayes(NOISE)), ("ntk", NTKGP(NOISE))):
        theory = sw.predict_training(NET, TASK, algorithm)
        kernel = kernel_of(NET, kind=kind).for_sklearn()
        assert repr(clone(kernel)) == repr(kernel)
        process = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(TRAIN, Y)
        mean, covariance = process.predict(TEST, return_cov=True)
        np.testing.assert_allclose(mean.T, theory.output_mean, rtol=1e-9)
        np.testing.assert_allclose(
            covariance[..., 0], theory.output_covariance, rtol=1e-8, atol=1e-11
        )
        if kind == "kernel":
            value = process.log_marginal_likelihood_value_
            assert value == pytest.approx(theory.log_evidence.item(), rel=1e-9)
    # Hyperparameters of theirs beside it have their gradient.
    mixed = ConstantKernel(1.0) * kernel_of(NET).for_sklearn() + WhiteKernel(0.1)
    process = GaussianProcessRegressor(mixed, optimizer=None).fit(TRAIN, Y[:, 0])
    at, step = mixed.theta, 1e-5
    _, slope = process.log_marginal_likelihood(at, eval_gradient=True)
    for place in range(2):
        beside = [
            process.log_marginal_likelihood(at + sign * step * np.eye(2)[place]) for sign in (1, -1)
        ]
        assert slope[place] == pytest.approx((beside[0] - beside[1]) / (2 * step), rel=1e-6)


def test_tinygp_has_the_same_posterior() -> None:
    tinygp = pytest.importorskip("tinygp", reason="tinygp is not among the packages of the tests")
    import jax

    theory = sw.predict_training(NET, TASK, Bayes(NOISE))
    with jax.enable_x64(True):
        process = tinygp.GaussianProcess(kernel_of(NET).for_tinygp(), TRAIN, diag=NOISE)
        _, found = process.condition(Y[:, 0], TEST)
        np.testing.assert_allclose(found.mean, theory.output_mean[0], rtol=1e-8)
        np.testing.assert_allclose(found.covariance, theory.output_covariance, rtol=1e-6, atol=1e-7)


def test_gpytorch_has_the_same_posterior() -> None:
    gpytorch = pytest.importorskip(
        "gpytorch", reason="GPyTorch is not among the packages of the tests"
    )
    import torch

    x, y, tests = (torch.tensor(v) for v in (TRAIN, Y[:, 0], TEST))

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.mean, self.kernel = gpytorch.means.ZeroMean(), kernel_of(NET).for_gpytorch()

        def forward(self, v):
            return gpytorch.distributions.MultivariateNormal(self.mean(v), self.kernel(v))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = NOISE
    model = Model(likelihood).double().eval()
    theory = sw.predict_training(NET, TASK, Bayes(NOISE))
    with torch.no_grad():
        found = model(tests)
    np.testing.assert_allclose(found.mean, theory.output_mean[0], rtol=1e-6)
    np.testing.assert_allclose(found.variance, theory.variance, rtol=1e-4)


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from scalewise.training import _kernel_objects

    def missing(name: str):
        raise ImportError(name)

    monkeypatch.setattr(_kernel_objects, "import_module", missing)
    for make in ("tinygp", "gpytorch"):
        _kernel_objects._class_of.cache_clear()
        with pytest.raises(ImportError, match=f"needs {make}, .* `pip install {make}`"):
            getattr(kernel_of(NET), f"for_{make}")()
