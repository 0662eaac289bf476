"""Property: a residual network is a value, as `MLP` is, and is refused where skip connections are not known."""

import copy
import subprocess
import sys

import numpy as np
import pytest

import scalewise as sw
from scalewise.networks import ResidualMLP

SHAPE = {"input_dim": 3, "output_dim": 2}


def test_it_is_a_value() -> None:
    by_rule = ResidualMLP(5, 16, "relu", gamma=0.6, **SHAPE).at_criticality()
    by_hand = ResidualMLP(
        5, (16,) * 4, "relu", gamma=[0, 0.6, 0.6, 0.6, 0], C_W=[2, 1.28, 1.28, 1.28, 2], **SHAPE
    )
    assert by_rule == by_hand
    assert len({by_rule, by_hand, copy.deepcopy(by_rule)}) == 1
    assert by_rule.criticality is by_hand.criticality is sw.criticality("relu")
    assert by_hand.numbered(C_W=(2.0,) * 5).criticality is None
    assert by_rule.at_width(8) == ResidualMLP(5, 8, "relu", gamma=0.6, **SHAPE).at_criticality()
    plain = by_rule.numbered(skips=(0.0,) * 5)
    assert plain == sw.MLP(5, 16, "relu", C_W=by_rule.C_W, **SHAPE)
    assert by_rule.skips == (0.0, 0.6, 0.6, 0.6, 0.0)
    assert sw.MLP(5, 16, "relu", **SHAPE).skips == (0.0,) * 5
    assert by_rule.attributes()["gamma"] == [0.0, 0.6, 0.6, 0.6, 0.0]
    assert "gamma" not in plain.attributes()
    assert str(by_rule).startswith("ResidualMLP(depth=5, width=16")
    with pytest.raises(
        ValueError,
        match=r"`gamma` must be one number for all, or one for each of the 6",
    ):
        ResidualMLP(6, 16, "relu", gamma=by_hand.skips, **SHAPE)


def test_bad_networks_are_refused() -> None:
    def made(gamma, width=8):
        return ResidualMLP(4, width, "relu", gamma=gamma, input_dim=2, output_dim=1)

    with pytest.raises(ValueError, match=r"as wide as the one below; layer 3 has width 6 over 8"):
        made(0.5, [8, 8, 6])
    with pytest.raises(
        ValueError,
        match=r"`gamma` must be a finite number of at least 0, or one for each layer; got -0\.5",
    ):
        made(-0.5)
    with pytest.raises(ValueError, match=r"`gamma` must be 0 in the first layer"):
        made([0.5, 0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match=r"one for each of the 4 layers"):
        made([0.0, 0.5])
    with pytest.raises(ValueError, match=r"or one for each layer; got \[\[0\.0"):
        made([[0.0, 0.5, 0.5, 0.5]])
    with pytest.raises(ValueError, match=r"Give them a factor below 1"):
        made(1.0).at_criticality()
    with pytest.raises(ValueError, match=r"`C_W` must be a positive finite number.* got 0"):
        ResidualMLP(3, 8, "relu", gamma=0.5, C_W=0, input_dim=2, output_dim=1)
    with pytest.raises(TypeError, match=r"`net` must be a network|str"):
        sw.predict("tanh", np.eye(2))


# Every public function of a network, without the type checks of the test run, by arguments named alike everywhere.
SCRIPT = """
import inspect, numpy as np, scalewise as sw
from scalewise import networks, nets, theory

net = networks.ResidualMLP(3, 4, "tanh", gamma=0.5, input_dim=3, output_dim=2)
x = np.eye(3)
given = dict.fromkeys(("x", "x0", "dx", "x_plus", "x_minus"), x) | {
    "net": net, "parameters": nets.init_weights(net), "strategy": sw.scaling.mup(depth=3), "K1": 1.0,
    "neurons": [0, 0], "samples": [0, 0], "blocks": [1], "k": 1, "layer": 1, "networks": 4, "theory": None,
    "observable": lambda z: z, "error": np.ones((3, 2)), "W": np.eye(3), "z": x, "H": x, "K": np.ones((3, 1)),
}
# They are given kernels of a network, or are told of skip connections.
rooms = [networks, nets, *(getattr(theory, n) for n in theory.__all__ if n not in ("predict", "flow", "order"))]
knowing = {
    "measure", "init_weights", "empirical_ntk", "error_factors", "parameter_step", "layer_tensors",
    "empirical_differential", "sample_differentials", "empirical_dntk", "empirical_ddntk",
}
calls = {"optimal_depth": sw.optimal_depth}
for room in rooms:
    calls |= {n: f for n, f in vars(room).items() if n[0] != "_" and n not in knowing}
asked = 0
for name, function in calls.items():
    if not inspect.isfunction(function):
        continue
    wanted = inspect.signature(function).parameters.values()
    if "net" not in [p.name for p in wanted]:
        continue
    asked += 1
    use = {p.name: given[p.name] for p in wanted if p.default is p.empty}
    if "K1" in [p.name for p in wanted]:
        use["K1"] = 1.0
    try:
        function(**use)
        print(name, "takes it")
    except Exception as error:
        if "skip connections" not in str(error):
            print(name, type(error).__name__, error)
print(asked > 25)
"""


def test_skip_connections_are_not_passed_over_in_silence() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
