"""Conformance: what each module of PyTorch does with each of its parameters, axis by axis."""

import pytest
import torch
from torch import nn

from scalewise.plan import Kind, PlanError
from scalewise.torch._describe import describe
from torch_models import Transformer

MATRIX, BIAS, GAIN, LOOKUP = Kind.MATRIX, Kind.BIAS, Kind.GAIN, Kind.LOOKUP
ROWS, COLUMNS, ADDED = (MATRIX, (1,), (0,)), (MATRIX, (0,), (1,)), (BIAS, (), (0,))
PER_NEURON = (GAIN, (), (0,))


class LlamaStyleRMSNorm(nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))


class Own(nn.Linear):
    """A linear layer with a parameter that no linear layer has."""

    def __init__(self):
        super().__init__(3, 4)
        self.shift = nn.Parameter(torch.zeros(4))


MODULES = {
    "Linear": (nn.Linear(3, 4), {"weight": ROWS, "bias": ADDED}),
    "NonDynamicallyQuantizableLinear": (
        nn.modules.linear.NonDynamicallyQuantizableLinear(3, 4),
        {"weight": ROWS, "bias": ADDED},
    ),
    "subclass": (Own(), {"weight": ROWS, "bias": ADDED, "shift": (Kind.UNKNOWN, (), ())}),
    "Conv1d": (nn.Conv1d(3, 4, 5), {"weight": (MATRIX, (1, 2), (0,)), "bias": ADDED}),
    "Conv2d": (nn.Conv2d(4, 4, 3, groups=4), {"weight": (MATRIX, (1, 2, 3), (0,)), "bias": ADDED}),
    "Conv3d": (nn.Conv3d(4, 6, 1), {"weight": (MATRIX, (1, 2, 3, 4), (0,)), "bias": ADDED}),
    "ConvTranspose2d": (
        nn.ConvTranspose2d(4, 6, 3),
        {"weight": (MATRIX, (0, 2, 3), (1,)), "bias": ADDED},
    ),
    "depthwise ConvTranspose1d": (
        nn.ConvTranspose1d(4, 4, 3, groups=4),
        {"weight": (MATRIX, (2,), (0, 1)), "bias": ADDED},
    ),
    "grouped ConvTranspose1d": (
        nn.ConvTranspose1d(4, 4, 3, groups=2, bias=False),
        {"weight": (Kind.UNKNOWN, (), ())},
    ),
    "Embedding": (nn.Embedding(5, 4), {"weight": (LOOKUP, (0,), (1,))}),
    "EmbeddingBag": (nn.EmbeddingBag(5, 4), {"weight": (LOOKUP, (0,), (1,))}),
    "LayerNorm": (
        nn.LayerNorm((3, 4)),
        {"weight": (GAIN, (), (0, 1)), "bias": (GAIN, (), (0, 1))},
    ),
    "RMSNorm": (nn.RMSNorm(4), {"weight": PER_NEURON}),
    "GroupNorm": (nn.GroupNorm(2, 4), {"weight": PER_NEURON, "bias": PER_NEURON}),
    "BatchNorm2d": (nn.BatchNorm2d(4), {"weight": PER_NEURON, "bias": PER_NEURON}),
    "SyncBatchNorm": (nn.SyncBatchNorm(4), {"weight": PER_NEURON, "bias": PER_NEURON}),
    "InstanceNorm1d": (
        nn.InstanceNorm1d(4, affine=True),
        {"weight": PER_NEURON, "bias": PER_NEURON},
    ),
    "PReLU": (nn.PReLU(4), {"weight": PER_NEURON}),
    "a norm of one's own": (LlamaStyleRMSNorm(4), {"weight": PER_NEURON}),
    "MultiheadAttention": (
        nn.MultiheadAttention(4, 2, add_bias_kv=True),
        {
            "in_proj_weight": ROWS,
            "in_proj_bias": ADDED,
            "bias_k": (BIAS, (), (2,)),
            "bias_v": (BIAS, (), (2,)),
            "out_proj.weight": ROWS,
            "out_proj.bias": ADDED,
        },
    ),
    "attention to something else": (
        nn.MultiheadAttention(4, 2, kdim=3, vdim=5, bias=False),
        {
            "q_proj_weight": ROWS,
            "k_proj_weight": ROWS,
            "v_proj_weight": ROWS,
            "out_proj.weight": ROWS,
        },
    ),
    "LSTM": (
        nn.LSTM(3, 4, proj_size=2),
        {
            "weight_ih_l0": ROWS,
            "weight_hh_l0": ROWS,
            "bias_ih_l0": ADDED,
            "bias_hh_l0": ADDED,
            "weight_hr_l0": ROWS,
        },
    ),
    "GRUCell": (
        nn.GRUCell(3, 4),
        {"weight_ih": ROWS, "weight_hh": ROWS, "bias_ih": ADDED, "bias_hh": ADDED},
    ),
    "RNN": (nn.RNN(3, 4, bias=False), {"weight_ih_l0": ROWS, "weight_hh_l0": ROWS}),
    "Bilinear": (nn.Bilinear(3, 3, 4), {"weight": (Kind.UNKNOWN, (), ()), "bias": ADDED}),
    "a bare parameter": (
        nn.ParameterDict({"pos": nn.Parameter(torch.zeros(3, 4))}),
        {"pos": (Kind.UNKNOWN, (), ())},
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_every_parameter_is_described(name: str) -> None:
    module, expected = MODULES[name]
    found = {t.name: (t.kind, t.fan_in, t.fan_out) for t in describe(module).tensors}
    assert found == expected
    shapes = {n: tuple(p.shape) for n, p in module.named_parameters()}
    assert {t.name: t.shape for t in describe(module).tensors} == shapes


def test_transposed_linear_layers_of_transformers() -> None:
    from transformers.pytorch_utils import Conv1D

    found = {t.name: (t.kind, t.fan_in, t.fan_out) for t in describe(Conv1D(4, 3)).tensors}
    assert found == {"weight": COLUMNS, "bias": ADDED}

    class Conv1D(nn.Module):  # of the same name, from elsewhere
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3, 4))

    assert describe(Conv1D()).tensors[0].kind is Kind.UNKNOWN


def test_ties_are_found_by_identity() -> None:
    found = describe(Transformer(16, tied=True))
    main = found.named()["embed.weight"]
    assert main.aliases == ("head.weight",)
    assert main.kind is LOOKUP
    assert "head.weight" not in found.named()
    alias = found.aliases["head.weight"]
    assert (alias.kind, alias.fan_in, alias.owner) == (MATRIX, (1,), "head")
    equal = Transformer(16)
    with torch.no_grad():
        equal.head.weight.copy_(equal.embed.weight)
    assert not describe(equal).aliases


def test_a_module_in_two_places_is_one_tensor() -> None:
    layer = nn.Linear(4, 4)
    found = describe(nn.Sequential(layer, nn.ReLU(), layer))
    assert [t.name for t in found.tensors] == ["0.weight", "0.bias"]
    assert found.tensors[0].aliases == ("2.weight",)


def test_owners() -> None:
    found = describe(Transformer(16))
    t = found.named()["encoder.layers.0.self_attn.out_proj.bias"]
    assert t.owner == "encoder.layers.0.self_attn.out_proj"


def test_whole_numbers_and_buffers_are_no_tensors() -> None:
    model = nn.BatchNorm1d(4)
    model.count = nn.Parameter(torch.zeros(3, dtype=torch.int64), requires_grad=False)
    assert [t.name for t in describe(model).tensors] == ["weight", "bias"]


def test_wrapped_parts_have_their_own_names() -> None:
    model = nn.Sequential(torch.compile(nn.Linear(3, 4), backend="eager"), nn.Linear(4, 3))
    assert [t.name for t in describe(model).tensors] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert describe(model).tensors[0].owner == "0"


def test_what_cannot_be_described_is_refused_by_name() -> None:
    with pytest.raises(PlanError, match=r"`1.parametrizations.weight.original` is not a weight"):
        describe(nn.Sequential(nn.ReLU(), nn.utils.parametrizations.orthogonal(nn.Linear(3, 4))))
    with pytest.raises(PlanError, match=r"`0.weight` of a LazyLinear has no shape"):
        describe(nn.Sequential(nn.LazyLinear(4)))
