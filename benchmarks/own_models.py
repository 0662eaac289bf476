"""Models that were not written in our grammar, read as networks and held against ensembles of themselves.

python benchmarks/own_models.py                  # what results/own_models.json lacks, and docs/own_models.md
python benchmarks/own_models.py --again VGG GRU  # these anew
python benchmarks/own_models.py --page           # only the page, from the numbers

Every model is drawn by its own factory at two widths, with other seeds than those that were read. Its parameters
go into the network that was read; kernels of all layers are averaged over draws, and the NTK is that of the model
by autodiff. Deviations from the prediction are extrapolated over the two widths, so that what is left is
statistical, up to order 1/n^2.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "src")]

import own_models_jax as of_jax  # noqa: E402
import torch  # noqa: E402
from own_models_cases import CASES as OF_TORCH  # noqa: E402
from own_models_cases import REFUSED  # noqa: E402

import scalewise as sw  # noqa: E402
from models_to_read import Case  # noqa: E402
from scalewise.networks._forward import entering  # noqa: E402
from scalewise.networks._weights import by_node, fields  # noqa: E402
from scalewise.plan._forward import given  # noqa: E402
from scalewise.reading._given import GivenLayers  # noqa: E402
from scalewise.torch._drawn import drawn  # noqa: E402
from scalewise.torch._reading import read_module  # noqa: E402

RESULTS, PAGE = HERE / "results" / "own_models.json", HERE.parent / "docs" / "own_models.md"
WIDTHS, NETWORKS, TANGENTS = (64, 128), 200, 50
Found = dict[str, Any]
Any_ = Case | of_jax.JaxCase
CASES: dict[str, Any_ | None] = (
    OF_TORCH | of_jax.CASES
)  # nothing of a library that is not installed


def kernels(
    net: Any, one: Any, case: Any_, width: int, networks: int, seed: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Kernels (network, label, label) of every layer, and the metric of the last one given those below it."""
    program = net.program
    layers: list[list[np.ndarray]] = [[] for _ in program.layers]
    last = []
    draws = of_jax.values if isinstance(case, of_jax.JaxCase) else values_of_torch
    for values in draws(case, width, networks, seed):
        found, _ = fields(program, by_node(program, one.parameters(net, values)), one.seen.x)
        for own, node in zip(layers, program.layers, strict=True):
            z = found[node].reshape(-1, found[node].shape[-1])
            own.append(z @ z.T / z.shape[-1])
        draw = program.draws[-1]
        u = entering(
            found[program.nodes[draw].of[0]],
            program.nodes[draw].windows,
            program.positions[program.nodes[draw].of[0]],
        )
        u = u.reshape(-1, u.shape[-1])
        numbers = program.nodes[draw].own
        last.append(numbers.C_b + numbers.C_W * u @ u.T / u.shape[-1])
    return [np.array(own) for own in layers], np.array(last)


def values_of_torch(
    case: Case, width: int, networks: int, seed: int
) -> Iterator[dict[str, np.ndarray]]:
    """Parameters by name of one model after another."""
    torch.manual_seed(seed)
    for _ in range(networks):
        pairs = case.build(width).named_parameters(remove_duplicate=False)
        yield {n: p.detach().double().numpy() for n, p in pairs}


def tangents(one: Any, case: Case, width: int, networks: int, seed: int) -> np.ndarray:
    """NTKs (network, sample, sample), over some of the outputs; what constants learn is left out."""
    torch.manual_seed(seed)
    constant = list(one.seen.read.constant)
    args = case.inputs if isinstance(case.inputs, tuple) else (case.inputs,)
    found = []
    for _ in range(networks):
        model = case.build(width).double().eval()
        names = [n for n, _ in model.named_parameters() if n not in constant]
        some = dict(model.named_parameters())
        z = model(*(a.double() if a.dtype.is_floating_point else a for a in args))
        z = next(t for t in torch.utils._pytree.tree_leaves(z) if isinstance(t, torch.Tensor))
        if case.at is not None:
            at = case.at if isinstance(case.at, tuple) else (case.at,)
            z = _at(z, at)
        rows = []
        for s in range(len(z)):
            grads = torch.autograd.grad(
                z[s, 0], [some[n] for n in names], retain_graph=True, allow_unused=True
            )
            rows.append(
                torch.cat(
                    [
                        g.flatten()
                        if g is not None
                        else torch.zeros(some[n].numel(), dtype=z.dtype)
                        for n, g in zip(names, grads, strict=True)
                    ]
                )
            )
        J = torch.stack(rows)
        found.append((J @ J.T).numpy())
    return np.array(found)


def _at(z: Any, at: tuple[int, ...]) -> Any:
    """(sample, output) at a position: of graphs nodes are first, of images channels are."""
    if z.ndim == 2:
        return z[list(at)]
    return z[:, at[0]] if len(at) == 1 else z[:, :, at[0], at[1]]


def labels(theory: Any, name: str, layer: int) -> np.ndarray:
    """(label, label) of one layer: samples, then positions."""
    own = theory[name].sel(layer=layer)
    axes = list(own.dims)
    first = [a for a in axes if not str(a).endswith("_1")]
    second = [a for a in axes if str(a).endswith("_1")]
    own = own.transpose(*first, *second).values
    return own.reshape(int(np.prod(own.shape[: len(first)])), -1)


def of_outputs(theory: Any, layer: int, at: Any) -> np.ndarray:
    """The NTK of the last layer; of square images that it gives, at the position that counts."""
    Theta = labels(theory, "ntk", layer)
    sites = theory.ntk.sizes.get("position", 1)
    if not isinstance(at, tuple) or len(at) != 2 or sites == 1:
        return Theta
    place = np.ravel_multi_index(at, [int(sites**0.5)] * 2, mode="wrap")
    return Theta[place::sites, place::sites]


def whole(theory_of: Any, net: Any, x: np.ndarray) -> list[np.ndarray]:
    """Predicted kernels of all layers, positions and all."""
    return [
        labels(theory_of(net, x, layers=k, observables="kernel"), "kernel", k)
        for k in range(1, net.depth + 1)
    ]


def judged(deviations: list[np.ndarray], errors: list[np.ndarray]) -> tuple[float, float, int]:
    """The largest and the root mean square z after extrapolation, and how many entries there are."""
    left = 2 * deviations[1] - deviations[0]
    error = np.hypot(2 * errors[1], errors[0])
    keep = error > 1e-9 * np.abs(left).max() if np.abs(left).max() else error > 0
    z = left[keep] / error[keep]
    return (
        float(np.abs(z).max(initial=0.0)),
        float(np.sqrt(np.mean(z**2))) if z.size else 0.0,
        int(keep.sum()),
    )


def read(case: Any_, width: int) -> tuple[Any, Any]:
    """The network of a model, and the model of that width as it was read."""
    if isinstance(case, of_jax.JaxCase):
        net = sw.jax.network(case.build, case.inputs, width=width, at=case.at, **case.how)
        return net, of_jax.read(case, width)
    net = sw.torch.network(case.build, case.inputs, width=width, at=case.at)
    at = None if case.at is None else case.at if isinstance(case.at, tuple) else (case.at,)
    made = drawn(lambda: case.build(width))
    return net, read_module(*made, given(case.inputs), at, False, GivenLayers({}, width))


def measured(name: str, case: Any_) -> Found:
    """One model: read, predicted, drawn."""
    deviations, errors, ntk, ntk_errors, vertex = [], [], [], [], {}
    found: Found = {}
    for k, width in enumerate(WIDTHS):
        start = time.process_time()
        net, one = read(case, width)
        if not k:
            found |= {
                "read_s": time.process_time() - start,
                "depth": net.depth,
                "notes": list(net.notes),
            }
        x = one.seen.x
        start = time.process_time()
        theory = whole(sw.predict, net, x)
        last = sw.predict(net, x, layers=net.depth)
        found["predict_s"] = time.process_time() - start
        drawn_, metric = kernels(net, one, case, width, NETWORKS, 100 + k)
        scale = [np.abs(K).max() or 1.0 for K in theory]
        deviations.append(
            np.concatenate(
                [
                    ((D.mean(0) - K) / f).ravel()
                    for D, K, f in zip(drawn_, theory, scale, strict=True)
                ]
            )
        )
        errors.append(
            np.concatenate(
                [(D.std(0) / len(D) ** 0.5 / f).ravel() for D, f in zip(drawn_, scale, strict=True)]
            )
        )
        if isinstance(case, of_jax.JaxCase):
            own = np.array(list(of_jax.tangents(case, one, width, TANGENTS, 200 + k)))
        else:
            own = tangents(one, case, width, TANGENTS, 200 + k)
        Theta = of_outputs(last, net.depth, case.at)[: own.shape[1], : own.shape[2]]
        ntk.append(((own.mean(0) - Theta) / np.abs(Theta).max()).ravel())
        ntk_errors.append((own.std(0) / len(own) ** 0.5 / np.abs(Theta).max()).ravel())
        if k == 0 and case.vertex:
            vertex = _vertex(net, x, metric, width)
    found |= dict(
        zip(("kernel_z", "kernel_rms", "kernels"), judged(deviations, errors), strict=True)
    )
    found |= dict(zip(("ntk_z", "ntk_rms", "ntks"), judged(ntk, ntk_errors), strict=True))
    return found | vertex


def _vertex(net: Any, x: np.ndarray, metric: np.ndarray, width: int) -> Found:
    """V of the output: predicted, and the variance of the metric over draws times the width below."""
    start = time.process_time()
    own = sw.predict(net, x[:1], layers=net.depth, observables=["kernel", "four_point_vertex"])
    V = float(own.four_point_vertex.values.ravel()[0])
    below = net.widths[-2]
    m = metric[:, 0, 0]
    apart = (m - m.mean()) ** 2
    return {
        "V": V, "V_drawn": float(below * apart.mean()), "V_error": float(below * apart.std() / len(m) ** 0.5),
        "V_s": time.process_time() - start, "V_width": below,
    }  # fmt: skip


def refused(case: Case) -> Found:
    """What `network` says of a model that it does not read."""
    try:
        sw.torch.network(case.build, case.inputs, width=WIDTHS[0], at=case.at)
    except sw.plan.PlanError as error:
        return {"refused": str(error)}
    raise AssertionError("This model is read.")


def _in_short(note: str) -> str:
    """A note in the words that the head of the page explains; others as they are."""
    if note.endswith("(gains=True counts it)."):
        return "gains"
    law = re.fullmatch(
        r"Weights that read the inputs are (.*) and taken for .* add up (\d+) .*", note
    )
    return f"{law[1]}, {law[2]}" if law else note.rstrip(".")


def page(found: dict[str, Found]) -> str:
    """The page."""
    head = (HERE / "own_models_head.md").read_text()
    rows = [
        "| model | read | K, all layers: largest z (rms, entries) | NTK: largest z (rms) | "
        "V: predicted, drawn | s |",
        "|---|---|---|---|---|---|",
    ]
    for name, own in found.items():
        if "refused" in own:
            continue
        notes = "; ".join(map(_in_short, own["notes"])) or "whole"
        V = f"{own['V']:.3g}, {own['V_drawn']:.3g} ± {own['V_error']:.1g}" if "V" in own else ""
        rows.append(
            f"| {name} | {notes} | {own['kernel_z']:.1f} ({own['kernel_rms']:.2f}, {own['kernels']}) | "
            f"{own['ntk_z']:.1f} ({own['ntk_rms']:.2f}) | {V} | {own['read_s']:.1f} |"
        )
    rows += ["", "Not read, and what `network` says:", "", "| model | says |", "|---|---|"]
    rows += [f"| {name} | {own['refused']} |" for name, own in found.items() if "refused" in own]
    return head + "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", nargs="*", default=[])
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, case in () if asked.page else (CASES | REFUSED).items():
        if case is None or (name in found and name not in asked.again):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[name] = refused(case) if name in REFUSED else measured(name, case)
        print(name, {k: v for k, v in found[name].items() if k != "notes"}, flush=True)
        RESULTS.write_text(
            json.dumps({k: found[k] for k in (CASES | REFUSED) if k in found}, indent=1) + "\n"
        )
    PAGE.write_text(page({k: found[k] for k in (CASES | REFUSED) if k in found}))


if __name__ == "__main__":
    main()
