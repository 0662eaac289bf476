"""One side of the rows beside neural-tangents: kernels, CPU time and memory, each row in a process of its own.

    python benchmarks/peers_one.py ours|theirs folder row row ...

The functions of either side import it when they are called, so that this file runs in either environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from clock import peak_megabytes
from peers_more_rows import ROWS
from peers_rows import B_STD, W_STD, Row, graph, namespace

REPEATS = 3
BEYOND = 100.0  # what their inputs hold at positions that are not there
LEAST = 2  # inputs of the call that comes before the one that is timed
Kernels = dict[str, np.ndarray]
Make = Callable[[Row, str, np.ndarray], Callable[[], Kernels]]


def theirs() -> Make:
    """Their kernel function, compiled by its first call."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from neural_tangents import stax

    own = {"W_std": W_STD, "b_std": B_STD}
    names = {name: getattr(stax, name) for name in dir(stax) if not name.startswith("_")}
    for name in ("Dense", "Conv", "ConvLocal", "ConvTranspose"):
        names[name] = partial(names[name], **own)
    stds = ("W_key_std", "W_value_std", "W_query_std", "W_out_std")
    names |= {"jnp": jnp, "graph": graph, "STD": dict.fromkeys(stds, W_STD)}

    def make(row: Row, layers: str, x: np.ndarray) -> Callable[[], Kernels]:
        kernel_fn = eval(f"serial({layers}, {row.behind[0]})", names)[2]

        def pattern(nodes: int) -> tuple[Any, Any]:
            once = jnp.broadcast_to(graph(nodes).T, (len(x), nodes, nodes))
            return once, once

        given = eval(f"dict({row.given})", {"pattern": pattern})
        if row.masked:
            x, given["mask_constant"] = np.where(row.there(len(x)), x, BEYOND), BEYOND
        run = jax.jit(lambda x: kernel_fn(x, None, ("nngp", "ntk"), **given))

        def call() -> Kernels:
            found = jax.block_until_ready(run(x))
            return {"K": np.asarray(found.nngp), "Theta": np.asarray(found.ntk)}

        return call

    return make


def ours() -> Make:
    """`scalewise.predict`."""
    import scalewise as sw
    from scalewise.networks import layers as known

    names = {name: getattr(known, name) for name in dir(known) if not name.startswith("_")}
    names = namespace({**names, "activation": sw.activation})
    own = {"C_W": W_STD**2, "lambda_W": W_STD**2, "C_b": B_STD**2, "lambda_b": B_STD**2}

    def make(row: Row, layers: str, x: np.ndarray) -> Callable[[], Kernels]:
        stack = eval(f"[{layers}, {row.behind[1]}]", names)
        shape = row.shape
        if row.masked:
            stack, shape = [sw.Mask(), *stack], (*shape[:-1], shape[-1] + 1)
            x = np.concatenate([x, 1.0 * row.there(len(x))], axis=-1)
        net = sw.Network(*stack, input_shape=shape, width=9, **own)
        wanted = {"K": "kernel", "Theta": "ntk"} if row.ntk else {"K": "kernel"}

        def call() -> Kernels:
            found = sw.predict(net, x, observables=list(wanted.values()), layers=net.depth)
            kernels = {letter: found[name].values[0] for letter, name in wanted.items()}
            if row.drawn:
                errors = {f"{k} error": found[f"{n}_error"].values[0] for k, n in wanted.items()}
                kernels |= errors
            return kernels

        return call

    return make


def measured(make: Make, side: str, row: Row, layers: str) -> dict[str, Any]:
    """A row: its kernels, CPU seconds of the first call and of a repeated one, and memory.

    Args:
        make: What `ours` or `theirs` gives.
        side: Which of them.
        row: Of which table.
        layers: The text of this side.

    Returns:
        Kernels as lists; memory in megabytes beyond that of a dense layer on two inputs, which comes first.
    """
    plain = ROWS["Dense"]
    make(plain, getattr(plain, side), plain.x(LEAST))()
    before, x, seconds, found = peak_megabytes(), row.x(), [], {}
    start = time.process_time()
    call = make(row, layers, x)
    for _ in range(1 + REPEATS):
        found = call()
        seconds.append(time.process_time() - start)
        start = time.process_time()
    kernels = {name: value.tolist() for name, value in found.items()}
    return {
        **kernels,
        "first": seconds[0],
        "again": min(seconds[1:]),
        "megabytes": peak_megabytes() - before,
    }


def main() -> None:
    """Rows in turn; a row that fails leaves the last line of its error."""
    side, folder, *names = sys.argv[1:]
    warnings.filterwarnings("ignore")
    make = {"ours": ours, "theirs": theirs}[side]()
    for name in names:
        row = ROWS[name]
        number = list(ROWS).index(name)
        jobs = {side: getattr(row, side)}
        if side == "theirs" and row.truth:
            jobs["truth"] = row.truth
        for job, layers in jobs.items():
            out = Path(folder) / f"{number}-{job}.json"
            if not os.fork():
                try:
                    found = measured(make, side, row, layers)
                except Exception as error:
                    found = {"error": f"{type(error).__name__}: {error}"}
                out.write_text(json.dumps(found))
                os._exit(0)
            os.wait()


if __name__ == "__main__":
    main()
