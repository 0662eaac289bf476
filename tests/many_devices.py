"""Ensembles for a process whose processor pretends to be several devices, and what they left on each.

python tests/many_devices.py FOLDER, which holds a store that was begun elsewhere.
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np

import scalewise as sw
from scalewise.nets import (
    _devices,
    _families,
    _measure,
    _sampler,
    measure,
    sample_differentials,
)

NET = sw.MLP(
    3, [6, 5], "tanh", input_dim=2, output_dim=1, C_b=0.1, C_W=1.4, lambda_b=0.5, lambda_W=1.1
)
SHALLOW = sw.MLP(2, 6, "tanh", input_dim=2, output_dim=1, C_b=0.1, C_W=1.4)
X = np.array([[1.0, 0.5], [-0.2, 0.8]])
MEMORY = 30_000
LAYERS = ["kernel", "four_point_vertex", "ntk"]
ALL = [*LAYERS, "ntk_A"]  # a differential has a case of its own


def run(observables=ALL, networks=21, **options):
    """Some ensembles in batches that four devices cannot share evenly."""
    options = {"memory": MEMORY, "progress": False, "seed": 5, **options}
    return measure(NET, X, networks=networks, observables=observables, **options)


def by_jax(function, *arguments, **options):
    """As on an accelerator: numbers and algebra are JAX's."""
    hosts, _devices.HOSTS = _devices.HOSTS, frozenset()
    try:
        return function(*arguments, **options)
    finally:
        _devices.HOSTS = hosts


def cases():
    """Name and arrays of everything that must not depend on the number of devices."""
    yield "float32", run().data_vars
    yield "one network", run(["kernel", "ntk"], networks=4, memory=1, dtype="float64").data_vars
    yield "by jax, float32", by_jax(run, LAYERS, dtype="float32").data_vars
    yield "differentials", sample_differentials(SHALLOW, X[:1], 9)


def arrays(named):
    return {f"{case}/{name}": np.asarray(a) for case, found in named for name, a in found.items()}


def watched():
    """Record of every batch of numbers: bytes of a network in its ensemble, networks on each device."""
    seen, bytes_per_network = [], []
    draw_all = _measure.run

    def draw(ensemble, *arguments, **options):
        bytes_per_network.append(ensemble.bytes_per_network)
        return draw_all(ensemble, *arguments, **options)

    _measure.run = draw
    for module in (_sampler, _families):

        def normals(*arguments, given=module.normals, module=module.__name__, **options):
            found = given(*arguments, **options)
            parts = {s.device.id: s.data.shape[0] for s in found.addressable_shards}
            record = {"module": module, "bytes": bytes_per_network[-1], "networks": parts}
            seen.append(record)
            return found

        module.normals = normals
    return seen


def main(folder):
    seen = watched()
    found = arrays(cases())
    found |= arrays([("resumed", run(store=folder / "store").data_vars)])
    several = len(seen)
    with jax.default_device(jax.devices()[1]):
        found |= arrays([("on the second", by_jax(run, LAYERS).data_vars)])
    np.savez(folder / "found.npz", **found)
    record = {"several": seen[:several], "second": seen[several:]}
    (folder / "seen.json").write_text(json.dumps(record))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
