"""Measurements that nobody made: sizes that are exact powers of the width, with a little noise."""

from collections.abc import Mapping

import numpy as np

from scalewise.plan._measurement import Measurement, Quantity

WIDTHS = np.array([64.0, 128.0, 256.0, 512.0])
Q = Quantity
# By hand, for the MLP net.0, net.2, net.4 under gradient descent: initial size, gradient, learning rate.
MUP = {
    "net.0.weight": (0, -1, 1),
    "net.0.bias": (0, -1, 1),
    "net.2.weight": (-0.5, -1, 0),
    "net.2.bias": (0, -1, 1),
    "net.4.weight": (-1, 0, -1),
    "net.4.bias": (0, 0, 0),
}
NTK = {
    "net.0.weight": (0, -0.5, 0),
    "net.0.bias": (0, -0.5, 0),
    "net.2.weight": (-0.5, -0.5, -1),
    "net.2.bias": (0, -0.5, 0),
    "net.4.weight": (-0.5, 0, -1),
    "net.4.bias": (0, 0, 0),
}
SUMMED = ("net.2.weight", "net.4.weight")


def powers(table: Mapping[str, tuple[float, float, float]]) -> dict[tuple[str, Quantity], float]:
    """Every power of an MLP whose tensors have these three."""
    out: dict[tuple[str, Quantity], float] = {}
    for name, (weight, gradient, rate) in table.items():
        update = gradient + rate
        out |= {(name, Q.WEIGHT): weight, (name, Q.GRADIENT): gradient}
        out |= {(name, Q.STEP): update, (name, Q.UPDATE): update}
        out[name, Q.OWN_CHANGE] = update + (name in SUMMED)
    moved = out["net.0.weight", Q.OWN_CHANGE]
    readout = table["net.4.weight"][0] + 0.5
    for name, size, change in (
        ("net.0.weight", 0.0, moved),
        ("net.2.weight", 0.0, moved),
        ("net.4.weight", readout, 0.0),
    ):
        out |= {(name, Q.OUTPUT): size, (name, Q.CHANGE): change}
    out |= {("net.4.weight", Q.FEATURES): 0.0, ("net.4.weight", Q.FEATURES_CHANGE): moved}
    return out


def measurement(
    found: Mapping[tuple[str, Quantity], float],
    *,
    noise: float = 0.005,
    changed: Mapping[tuple[str, Quantity], object] | None = None,
    **others: object,
) -> Measurement:
    """Sizes of these powers over `WIDTHS` and four seeds; `changed` ones are multiplied by an array."""
    rng = np.random.default_rng(3)
    tensors = tuple(MUP)
    sizes = {q: np.full((len(tensors), len(WIDTHS), 4), np.nan) for q in Quantity}
    for (name, quantity), power in found.items():
        law = WIDTHS[:, None] ** power * np.exp(noise * rng.normal(size=(len(WIDTHS), 4)))
        sizes[quantity][tensors.index(name)] = law
    for (name, quantity), factor in (changed or {}).items():
        sizes[quantity][tensors.index(name)] *= factor
    settings = {
        "steps": 1,
        "zero_readout": False,
        "lr": 0.1,
        "precision": 1e-7,
        "nonlinearity": np.full(len(WIDTHS), 1e-3),
    } | others
    modules = tuple(n.rpartition(".")[0] for n in tensors)
    return Measurement(WIDTHS, tensors, modules, ("net.4.weight",), sizes, **settings)  # type: ignore[arg-type]
