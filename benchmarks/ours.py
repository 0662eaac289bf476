"""Our side of every case, one case per process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import clock
import numpy as np
from cases import Case

# By name, for the package imports what is used when it is used, and imports are not counted.
from scalewise import MLP, Network, predict


def network(case: Case) -> Network:
    """In the peer's parametrisation W_std² and b_std² multiply the NTK: they are our rates."""
    return MLP(
        case.depth,
        case.width,
        case.activation,
        input_dim=case.features,
        output_dim=case.outputs,
        C_b=case.C_b,
        C_W=case.C_W,
        lambda_b=case.C_b,
        lambda_W=case.C_W,
    )


def kernel(case: Case) -> tuple[Callable[[], Any], Callable[[Any], clock.Results]]:
    x = case.x()

    def call() -> Any:
        return predict(network(case), x, observables=["kernel", "ntk"], layers=[case.depth])

    return call, lambda r: clock.corner(r.kernel.values[0], r.ntk.values[0])


def rectangle(case: Case) -> tuple[Callable[[], Any], Callable[[Any], clock.Results]]:
    from scalewise.training import kernel_of

    x, y = case.x(), case.y()
    kernel = kernel_of(network(case))
    call = kernel_of(network(case), kind="ntk")
    return lambda: call(x, y), lambda r: clock.corner(kernel(x[:64], y[:64]), r)


def ntk(case: Case) -> tuple[Callable[[], Any], Callable[[Any], clock.Results]]:
    # Here, for a prediction needs no JAX and its memory should not be charged for it.
    from scalewise.nets import Parameters, empirical_ntk

    x, net, n = case.x(), network(case), case.widths
    layers = case.normals()
    weights = tuple(np.sqrt(case.C_W / n[i]) * w for i, (w, _) in enumerate(layers))
    parameters = Parameters(weights, tuple(np.sqrt(case.C_b) * b for _, b in layers))
    return lambda: empirical_ntk(net, parameters, x), lambda r: {"ntk": r}


def ensemble(case: Case) -> tuple[Callable[[], Any], Callable[[Any], clock.Results]]:
    from scalewise.nets import measure

    x, net = case.x(), network(case)

    def call() -> Any:
        return measure(
            net,
            x,
            networks=case.networks,
            observables=["kernel", "ntk"],
            dtype="float64",
            progress=False,
        )

    def arrays(r: Any) -> clock.Results:
        last = r.sel(layer=case.depth)
        names = ("kernel", "ntk", "kernel_sem", "ntk_sem")
        return {name: last[name].values for name in names}

    return call, arrays


if __name__ == "__main__":
    sides = {"kernel": kernel, "rectangle": rectangle, "ntk": ntk, "ensemble": ensemble}
    clock.main(lambda case: sides[case.kind](case))
