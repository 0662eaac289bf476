"""Throughput of ensembles on whatever devices JAX finds here, beside their peak.

Networks per second of a repeated call of `measure`, sums and standard errors included, and the operations that
this means by XLA's cost analysis of the programs, which counts no activation and nothing inside a QR or an
eigenvalue routine. In single precision products run without TF32 (`precision` in nets/_networks.py says why),
so the peak is that of float32 outside tensor cores.

python benchmarks/devices.py [--widths 32 128 512] [--networks 2000] [--depth 3] [--memory "1 GiB"]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

# Data sheets: float32, no tensor cores, 10^12 operations a second; the first that is in the device's name.
PEAKS = {
    "H200": 67.0,
    "H100 PCIe": 51.0,
    "H100": 67.0,
    "A100": 19.5,
    "L40S": 91.6,
    "L4": 30.3,
    "V100": 15.7,
    "T4": 8.1,
}
ENSEMBLES = {
    "initialisation": ["kernel", "four_point_vertex"],
    "mean NTK": ["ntk"],
    "NTK": ["ntk_A", "ntk_B", "ntk_D", "ntk_F"],
    "dNTK": ["dntk_P", "dntk_Q"],
    "ddNTK": ["ddntk_R", "ddntk_S", "ddntk_T", "ddntk_U"],
}
COUNTED = 8  # networks whose operations are counted
compiled = jax.jit


class Counter:
    """A stand-in for `jax.jit` that adds up the operations of what is called while it counts."""

    operations, counting = 0.0, False

    def __call__(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        jitted = compiled(function, **options)

        def call(*arguments: Any, **settings: Any) -> Any:
            if not self.counting:
                return jitted(*arguments, **settings)
            self.counting = False  # what it calls itself is part of it
            cost: Any = jitted.lower(*arguments, **settings).cost_analysis() or {}
            self.operations += cost.get("flops", 0.0)
            result = jitted(*arguments, **settings)
            self.counting = True
            return result

        return call


counter = Counter()
jax.jit = counter  # before the ensembles are imported, which compile by it

import scalewise as sw  # noqa: E402
from scalewise.nets import _devices, measure  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description="Throughput of ensembles")
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 128, 512])
    parser.add_argument("--networks", type=int, default=2000)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--memory", default="1 GiB")
    options = parser.parse_args()
    devices = _devices.devices()
    kind = devices[0].device_kind
    peak = next((p for name, p in PEAKS.items() if name in kind), None)
    known = "unknown" if peak is None else f"{peak * len(devices):g} TFLOP/s"
    print(f"{len(devices)} x {kind}, peak {known}; JAX {jax.__version__}; {options.depth} layers\n")
    print("| ensemble | width | networks/s | MFLOP a network | GFLOP/s | of the peak |")
    print("|---|---|---|---|---|---|")
    for name, observables in ENSEMBLES.items():
        for width in options.widths:
            rate, cost = throughput(observables, width, options)
            share = (
                "unknown" if peak is None else f"{rate * cost / (peak * 1e12 * len(devices)):.2%}"
            )
            print(
                f"| {name} | {width} | {rate:.3g} | {cost / 1e6:.3g} | {rate * cost / 1e9:.3g} | {share} |",
                flush=True,
            )


def throughput(
    observables: list[str], width: int, options: argparse.Namespace
) -> tuple[float, float]:
    """Networks per second of a repeated call, and operations of one network."""
    net = sw.MLP(options.depth, width, "tanh", input_dim=2, output_dim=1, C_b=0.1, C_W=1.4)
    x = np.array([[1.0, 0.5], [-0.2, 0.8]])

    def call(networks: int) -> None:
        measure(
            net,
            x,
            networks=networks,
            observables=observables,
            memory=options.memory,
            progress=False,
        )

    # Where NumPy does part of the work, its operations are counted in the program that JAX would run instead.
    hosts, _devices.HOSTS = _devices.HOSTS, frozenset()
    counter.counting, counter.operations = True, 0.0
    call(COUNTED)
    counter.counting, _devices.HOSTS = False, hosts
    call(options.networks)
    start = time.perf_counter()
    call(options.networks)
    seconds = time.perf_counter() - start
    return options.networks / seconds, counter.operations / _devices.filled(COUNTED)


if __name__ == "__main__":
    main()
