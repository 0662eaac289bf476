"""Property tests: the size of a dimension bounds its tensors, scales as it should, and never vanishes by chance."""

import numpy as np
import pytest

import scalewise as sw
from scalewise.activations import BUILTIN_NAMES
from scalewise.comparison import at_width
from scalewise.observables import OBSERVABLES
from scalewise.theory.flow import natural_sizes
from scalewise.theory.single import single_input_flow
from scalewise.theory.single._single_input import single_input_majorants

SIZED = [name for name, row in OBSERVABLES.items() if not row.own_scale]
X = np.array([[1.0, -0.4, 0.3, 0.9], [0.2, 0.8, -0.9, 0.1], [2.0, 0.3, 0.4, 1.2]])


def network(name: str, C_W: float = 1.1, depth: int = 5, width: int = 32) -> sw.Network:
    return sw.MLP(depth, width, name, input_dim=4, output_dim=2, C_b=0.05, C_W=C_W, lambda_b=0.3)


def existing(net: sw.Network) -> list[str]:
    return [name for name in SIZED if not OBSERVABLES[name].obstacle(net.activation)]


def test_majorants_bound_every_tensor_of_every_activation():
    failures, touched = [], set()
    for name in BUILTIN_NAMES:
        net = network(name, 0.3 if name == "exp" else 1.1)
        flow = single_input_flow(net, X)
        bounds = single_input_majorants(net, flow.K)
        sizes = natural_sizes(net, flow.K, existing(net))
        for letter, bound in bounds.items():
            value = getattr(flow, letter)
            if value is None or not np.all(np.abs(value) <= bound * (1 + 1e-9)):
                failures.append((name, letter))
            elif np.allclose(np.abs(value), bound) and value.any():
                touched.add(letter)
        for observable in existing(net):
            value = getattr(flow, OBSERVABLES[observable].letter)
            size = sizes[observable]
            good = value is None or np.all(np.abs(value) <= size[:, None] * (1 + 1e-9))
            if not good and not OBSERVABLES[observable].corrects:
                failures.append((name, observable))
            if size[0] != 0 or not np.all(size[1:] > 0):
                failures.append((name, observable, "no size"))
    assert failures == []
    # Where nothing cancels the bound is the tensor itself.
    assert {"V", "A", "B", "D", "F", "U"} <= touched


def test_sizes_have_their_dimension():
    """A scale-invariant network: inputs twice as large, kernels and NTKs four times."""
    net = sw.MLP(4, 32, "leaky_relu(0.3)", input_dim=4, output_dim=2, C_W=1.8, lambda_b=0.0)
    K = single_input_flow(net, X).K
    near, far = (natural_sizes(net, factor * K, existing(net)) for factor in (1.0, 4.0))
    for name in existing(net):
        p, q = OBSERVABLES[name].dimension
        np.testing.assert_allclose(far[name][1:], 4.0 ** (p + q) * near[name][1:], rtol=1e-9)


def test_sizes_hold_for_units_of_the_input_from_micro_on():
    failures = []
    for scale in (1e-6, 1e-3, 1.0, 10.0):
        for name in ("tanh", "gelu", "sin", "relu"):
            net = sw.MLP(4, 32, name, input_dim=4, output_dim=2)
            flow = single_input_flow(net, scale * X)
            for letter, bound in single_input_majorants(net, flow.K).items():
                value = getattr(flow, letter)
                if not (np.isfinite(bound).all() and np.all(np.abs(value) <= bound * (1 + 1e-9))):
                    failures.append((scale, name, letter))
    assert failures == []


@pytest.mark.covers("A3.6")
def test_the_bias_is_the_relative_variance_times_the_size_whatever_else_is_asked():
    net = network("gelu", depth=4)
    alone = at_width(sw.predict(net, X, observables=["dntk_P"]), 64)
    alike = [
        x for x in existing(net) if OBSERVABLES[x].dimension == OBSERVABLES["dntk_P"].dimension
    ]
    among = at_width(sw.predict(net, X, observables=alike), 64)
    np.testing.assert_allclose(alone.dntk_P_bias, among.dntk_P_bias, rtol=1e-6)
    P, size = alone.dntk_P.values, alone.dntk_P_size.values
    epsilon = alone.expansion_parameter.values
    largest = np.maximum(size, np.abs(P).reshape(len(P), -1).max(1))
    expected = np.where(np.arange(4) < 2, 0.0, epsilon * largest)
    np.testing.assert_allclose(alone.dntk_P_bias.values[:, 0, 1, 2, 0], expected, rtol=1e-12)
    # P alone may be small beside the others of its dimension.
    assert np.all(size[2:] > 2 * np.abs(P).reshape(4, -1).max(1)[2:])


def test_an_entry_between_inputs_that_is_larger_than_those_of_one_counts():
    theory = sw.predict(network("gelu"), X, observables=["dntk_P"])
    P = theory.dntk_P.values.copy()
    P[3, 0, 1, 2, 1] = -10 * theory.dntk_P_size.values[3]
    bias = at_width(theory.assign(dntk_P=theory.dntk_P.copy(data=P))).dntk_P_bias.values
    epsilon = theory.expansion_parameter.values[3]
    np.testing.assert_allclose(bias[3], 10 * epsilon * theory.dntk_P_size.values[3], rtol=1e-12)


def test_a_correction_is_one_order_of_what_it_corrects():
    net = network("tanh")
    flow = single_input_flow(net, X)
    assert flow.Theta is not None
    size = natural_sizes(net, flow.K, ["ntk_nlo"])["ntk_nlo"]
    relative = (flow.V / flow.K**2).max(1)
    np.testing.assert_allclose(size, relative * flow.Theta.max(1), rtol=1e-12)


def test_what_is_neglected_lies_within_it():
    """A narrow network, where the neglected order is far above the standard errors."""
    net = sw.MLP(4, 16, "sin", input_dim=4, output_dim=2, lambda_b=0.3, lambda_W=0.7)
    net = net.at_criticality()
    names = ["ntk_A", "ntk_B", "ntk_F"]
    theory = at_width(sw.predict(net, X[:2], observables=names))
    found = sw.measure(net, X[:2], networks=1000, seed=2, observables=names, progress=False)
    seen = 0
    for name in names:
        off = np.abs(found[name].values - theory[name].values)[2:]
        sem, bias = found[f"{name}_sem"].values[2:], theory[f"{name}_bias"].values[2:]
        assert np.all(off < bias + 4 * sem), name
        seen += int(np.sum(off > 4 * sem))
    assert seen > 0


def test_a_prediction_without_sizes_is_refused():
    theory = sw.predict(network("tanh"), X, observables=["ntk_B"]).drop_vars("ntk_B_size")
    with pytest.raises(ValueError, match=r"no variable `ntk_B_size`.*pass what `predict` returned"):
        at_width(theory)
