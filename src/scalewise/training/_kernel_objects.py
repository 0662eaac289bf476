"""Kernels of networks of infinite width as objects, for programs that have Gaussian processes of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.networks import Network
from scalewise.networks.spi import AnyNetwork, check_inputs
from scalewise.training._sample_kernels import between, in_turn

Inputs = Annotated[Any, Float[np.ndarray, "sample *positions feature"]]
Leading = Annotated[Any, Float[np.ndarray, "*lead feature"]]
Kind = Literal["kernel", "ntk"]


@checked
@dataclass(frozen=True)
@readable
class NetworkKernel:
    """The kernel of the outputs of a network, as a function of inputs.

    Args:
        net: The network; its widths play no part.
        kind: ``"kernel"`` or ``"ntk"``.
    """

    net: Network
    kind: Kind = "kernel"

    def __call__(self, X: Inputs, Y: Inputs | None = None) -> Float[np.ndarray, "sample other"]:
        """Between inputs, or of one set with itself.

        Args:
            X: (samples, features).
            Y: (others, features).
        """
        return between(self.net, X, Y, [self.kind])[0][0]

    def diag(self, X: Inputs) -> Float[np.ndarray, " sample"]:
        """The kernel of each input of `X` with itself."""
        X = check_inputs(self.net, X)
        return in_turn(self.net, X, X, self.kind)

    def pairs(self, X: Leading, Y: Leading) -> Float[np.ndarray, "*lead"]:
        """The kernel of each input of `X` with that in the same place of `Y`, both (..., features)."""
        own = self.net.input_shape
        if np.ndim(X) < len(own) or np.shape(X) != np.shape(Y):
            raise ValueError(
                "`X` and `Y` must have the same shape, features last, for the kernel of each with the other in its "
                f"place; got {np.shape(X)} and {np.shape(Y)}."
            )
        lead = np.shape(X)[: np.ndim(X) - len(own)]
        a, b = (
            np.asarray(v, dtype=np.float64).reshape(-1, *np.shape(v)[len(lead) :]) for v in (X, Y)
        )
        return in_turn(self.net, a, b, self.kind).reshape(lead)

    def for_sklearn(self) -> Any:
        """A `sklearn.gaussian_process.kernels.Kernel`, to be added to and multiplied with others.

        Raises:
            ImportError: If scikit-learn is not installed.
        """
        return _class_of("SklearnKernel")(self.net, self.kind)

    def for_tinygp(self) -> Any:
        """A `tinygp.kernels.Kernel`; float64 where JAX has it, and called back from what JAX has compiled.

        Raises:
            ImportError: If tinygp is not installed.
        """
        return _class_of("TinygpKernel")(self)

    def for_gpytorch(self) -> Any:
        """A `gpytorch.kernels.Kernel`; without derivatives by the inputs.

        Raises:
            ImportError: If GPyTorch is not installed.
        """
        return _class_of("GPyTorchKernel")(self)


@checked
def kernel_of(net: AnyNetwork, *, kind: Kind = "kernel") -> NetworkKernel:
    """The kernel of a network of infinite width as an object, for any activation.

    Args:
        net: The network; its widths play no part.
        kind: ``"kernel"``, the covariance of its outputs before training, or ``"ntk"``.

    Returns:
        A function of inputs; its methods `for_sklearn`, `for_tinygp` and `for_gpytorch` give what those programs
        take for a kernel.

    Source: PDLT (4.118), (9.5), (10.137), (10.141).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.training import kernel_of
        >>> k = kernel_of(sw.MLP(2, 10, "relu", input_dim=2, output_dim=1, C_W=2.0))
        >>> k([[1.0, 0.0]], [[2.0, 0.0]])
        array([[2.]])
    """
    return NetworkKernel(net, kind)


def _module(name: str, program: str) -> ModuleType:
    """A module of a program that nothing here needs, but for whoever has it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"A kernel for {program} needs {program}, which is not installed. Install it with "
            f"`pip install {program}`."
        ) from error


def _sklearn_class() -> type:
    base = _module("sklearn.gaussian_process.kernels", "scikit-learn").Kernel

    class SklearnKernel(base):  # pyright: ignore
        def __init__(self, net: Network, kind: Kind = "kernel") -> None:
            self.net = net
            self.kind: Kind = kind

        def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
            kernel, (X, Y) = NetworkKernel(self.net, self.kind), map(self._inputs, (X, Y))
            K = kernel(X, Y)
            return (K, np.empty((*K.shape, 0))) if eval_gradient else K

        def diag(self, X: Any) -> np.ndarray:
            return NetworkKernel(self.net, self.kind).diag(self._inputs(X))

        def _inputs(self, X: Any) -> Any:
            """Rows of a table as inputs with positions, which scikit-learn does not have."""
            return np.reshape(X, (-1, *self.net.input_shape)) if np.ndim(X) == 2 else X

        def is_stationary(self) -> bool:
            return False

        def __repr__(self) -> str:
            return f"{self.kind} of {self.net}"

    return SklearnKernel


def _tinygp_class() -> type:
    base = _module("tinygp", "tinygp").kernels.Kernel
    jax = _module("jax", "jax")

    class TinygpKernel(base):  # pyright: ignore
        own: NetworkKernel = field(metadata={"static": True})  # not an array to JAX

        def evaluate(self, X1: Any, X2: Any) -> Any:
            a, b = jax.numpy.broadcast_arrays(X1, X2)
            return jax.pure_callback(
                lambda x, y: self.own.pairs(x, y).astype(a.dtype),
                jax.ShapeDtypeStruct(a.shape[:-1], a.dtype),
                a,
                b,
                vmap_method="broadcast_all",
            )

        def __call__(self, X1: Any, X2: Any = None) -> Any:
            shape = (len(X1),) if X2 is None else (len(X1), len(X2))
            call = self.own.diag if X2 is None else self.own
            given = (X1,) if X2 is None else (X1, X2)
            dtype = jax.numpy.asarray(X1).dtype
            return jax.pure_callback(
                lambda *x: call(*x).astype(dtype), jax.ShapeDtypeStruct(shape, dtype), *given
            )

    return TinygpKernel


def _gpytorch_class() -> type:
    base = _module("gpytorch", "gpytorch").kernels.Kernel
    torch = _module("torch", "torch")

    class GPyTorchKernel(base):  # pyright: ignore
        def __init__(self, own: NetworkKernel) -> None:
            super().__init__()
            self.own = own

        def forward(self, x1: Any, x2: Any, diag: bool = False, **_: Any) -> Any:
            a, b = (x.detach().double().numpy(force=True) for x in (x1, x2))
            if diag:
                found = self.own.pairs(a, b)
            else:
                lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
                a, b = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
                found = np.empty((*lead, a.shape[-2], b.shape[-2]))
                for place in np.ndindex(*lead):
                    found[place] = self.own(a[place], b[place])
            return torch.as_tensor(found, dtype=x1.dtype, device=x1.device)

    return GPyTorchKernel


_CLASSES = {
    "SklearnKernel": _sklearn_class,
    "TinygpKernel": _tinygp_class,
    "GPyTorchKernel": _gpytorch_class,
}


@lru_cache(maxsize=len(_CLASSES))
def _class_of(name: str) -> type:
    """A class of this file, made when somebody asks for it, and found by its name when it is unpickled."""
    made = _CLASSES[name]()
    made.__qualname__ = name
    return made


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return _class_of(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
