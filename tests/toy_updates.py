"""One step of every optimizer on a gradient, written out, and what its epsilon is added to; all in float64."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

Step = Callable[[np.ndarray, np.ndarray], np.ndarray]
Beside = Callable[[np.ndarray, np.ndarray], float]
_NOTHING = 1e-9  # singular values so much below the largest are rounding


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Zero where a unit is dead."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > _NOTHING * b.max())


@lru_cache(maxsize=512)
def _decomposed(entries: bytes, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.linalg.svd(np.frombuffer(entries).reshape(rows, -1), full_matrices=False)


def svd(G: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computed once for all optimizers that are shown the same gradient."""
    return _decomposed(G.tobytes(), len(G))


def powered(G: np.ndarray, power: float) -> np.ndarray:
    """The gradient with its singular values to a power; of a vector, its length."""
    if G.ndim == 1:
        return G * np.linalg.norm(G) ** (power - 1)
    U, s, Vt = svd(G)
    some = s > _NOTHING * s[0]
    return (U[:, some] * s[some] ** power) @ Vt[some]


def polar(G: np.ndarray) -> np.ndarray:
    return powered(G, 0)


def factored(G: np.ndarray) -> np.ndarray:
    """Adafactor: a square for each row and one for each column."""
    if G.ndim == 1:
        return np.sign(G)
    rows, columns = (G**2).mean(1, keepdims=True), (G**2).mean(0, keepdims=True)
    update = quotient(G, np.sqrt(rows * columns / rows.mean()))
    return update / max(1.0, rms(update))


def rotated(G: np.ndarray, inputs: bool, outputs: bool) -> np.ndarray:
    """SOAP: signs of entries in the basis of its preconditioners, turned back."""
    U, s, Vt = svd(G)
    some = s > _NOTHING * s[0]
    left = U[:, some] if outputs else np.eye(len(G))
    right = Vt[some].T if inputs else np.eye(G.shape[1])
    turned = left.T @ G @ right
    small = np.abs(turned) < _NOTHING * np.abs(turned).max()
    return left @ np.where(small, 0.0, np.sign(turned)) @ right.T


def turned_size(G: np.ndarray, inputs: bool, outputs: bool) -> float:
    U, _, Vt = svd(G)
    one = G @ Vt[0] if inputs else G
    return rms(U[:, 0] @ one if outputs else one)


def by_rows(G: np.ndarray) -> np.ndarray:
    """NorMuon: rows of one size, the whole as large as before."""
    whole = polar(G)
    rows = quotient(whole, np.sqrt((whole**2).mean(1, keepdims=True)))
    return rows * np.linalg.norm(whole) / np.linalg.norm(rows)


def trusted(G: np.ndarray, W: np.ndarray) -> np.ndarray:
    """LAMB: Adam's step with the size of the weight."""
    return np.sign(G) * np.linalg.norm(W) / np.sqrt(G.size)


def on_sphere(G: np.ndarray, W: np.ndarray) -> np.ndarray:
    """AdamH: Adam's step with the size of the weight, along the sphere on which the weight stays."""
    small = 1e-6
    new = W - small * trusted(G, W)
    return (W - new * np.linalg.norm(W) / np.linalg.norm(new)) / small


def grafted(G: np.ndarray, power: float) -> np.ndarray:
    shape = powered(G, power)
    return shape * np.sqrt(G.size) / np.linalg.norm(shape)


def clipped(G: np.ndarray) -> np.ndarray:
    """Sophia, with a square of the gradient for the Hessian."""
    return np.clip(G / np.maximum(0.04 * G**2, 1e-300), -1, 1)


def of_torch(make: Callable[..., torch.optim.Optimizer], **settings: object) -> Step:
    """One step of an optimizer of PyTorch with a learning rate of one."""

    def step(G: np.ndarray, W: np.ndarray) -> np.ndarray:
        p = torch.nn.Parameter(torch.tensor(W))
        p.grad = torch.tensor(G)
        make([p], lr=1.0, **settings).step()
        return W - p.detach().numpy()

    return step


@dataclass(frozen=True)
class Update:
    """What one optimizer does; `beside` is what its epsilon is added to, if it has one."""

    step: Step
    beside: Beside | None = None


def _entry(G: np.ndarray, W: np.ndarray) -> float:
    return rms(G)


def _square(G: np.ndarray, W: np.ndarray) -> float:
    return rms(G) ** 2


def _largest(G: np.ndarray, W: np.ndarray) -> float:
    return float(np.linalg.norm(G)) if G.ndim == 1 else float(svd(G)[1][0])


def _eigenvalue(G: np.ndarray, W: np.ndarray) -> float:
    return _largest(G, W) ** 2


def _orthogonal(G: np.ndarray, W: np.ndarray) -> float:
    return rms(polar(G))


def _soap(inputs: bool, outputs: bool) -> Update:
    return Update(
        lambda G, W: rotated(G, inputs, outputs), lambda G, W: turned_size(G, inputs, outputs)
    )


_TINY = {"eps": 1e-30}
UPDATES: dict[str, Update] = {
    "sgd": Update(of_torch(torch.optim.SGD)),
    "adam": Update(of_torch(torch.optim.Adam, **_TINY), _entry),
    "adamw": Update(of_torch(torch.optim.AdamW, weight_decay=0.0, **_TINY), _entry),
    "nadam": Update(of_torch(torch.optim.NAdam, **_TINY), _entry),
    "rmsprop": Update(of_torch(torch.optim.RMSprop, **_TINY), _entry),
    "adagrad": Update(of_torch(torch.optim.Adagrad, **_TINY), _entry),
    "lion": Update(lambda G, W: np.sign(G)),
    "adafactor": Update(of_torch(torch.optim.Adafactor, eps=(1e-60, 1e-30)), _square),
    "adafactor_unscaled": Update(lambda G, W: factored(G), _square),
    "lamb": Update(trusted, _entry),
    "adamh": Update(on_sphere, _entry),
    "sophia": Update(lambda G, W: clipped(G), _square),
    "muon": Update(lambda G, W: polar(G), lambda G, W: float(np.linalg.norm(G))),
    "adamuon": Update(lambda G, W: np.sign(polar(G)), _orthogonal),
    "normuon": Update(lambda G, W: by_rows(G), _orthogonal),
    "scion": Update(lambda G, W: polar(G)),
    "shampoo": Update(lambda G, W: powered(G, 0), _eigenvalue),
    "shampoo_half": Update(lambda G, W: powered(G, -1), _eigenvalue),
    "shampoo_vectors": Update(lambda G, W: powered(G, 0.5), _eigenvalue),
    "shampoo_half_vectors": Update(lambda G, W: powered(G, 0), _eigenvalue),
    "shampoo_grafted": Update(
        lambda G, W: grafted(G, 0), lambda G, W: float(np.linalg.norm(powered(G, 0)))
    ),
    "soap": _soap(True, True),
    "soap_inputs": _soap(True, False),
    "soap_outputs": _soap(False, True),
}
