"""The rows of activations, of what they have no kernel for, and of whole networks; and what has no row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from peers_rows import (
    ATTENTION,
    BARE,
    BRANCHES,
    CONVOLUTIONS,
    DENSE,
    FEATURES,
    FIXED,
    FLAT,
    LINE,
    NODES,
    POOLED,
    POOLS,
    Row,
    rows,
)


def _sigma(name: str, ours: str, *, before: str = "", **more: Any) -> Row:
    theirs = f"Dense(9), {before}{name}"
    own = f"Dense(), {before}{ours}"
    return Row("Activations", name.split("(")[0], theirs, own, FEATURES, BARE, **more)


ACTIVATIONS = [
    _sigma(
        "Relu()",
        '"relu"',
        known="relu",
        note="Of an input with itself their slope loses digits: the root of a difference of equal numbers.",
    ),
    _sigma("LeakyRelu(0.1)", '"leaky_relu(0.1)"'),
    _sigma(
        "ABRelu(0.5, 2)",
        "activation(lambda z: 0.5 * jnp.minimum(z, 0) + 2 * jnp.maximum(z, 0), kinks=(0.0,))",
    ),
    _sigma("Abs()", '"leaky_relu(-1)"'),
    _sigma(
        "Sign()",
        "activation(jnp.sign, kinks=(0.0,))",
        ntk=False,
        note="Its slope is a delta function. They take it for 0, so that the last layer alone is trained; "
        "we refuse the NTK.",
    ),
    _sigma("Erf(2.0, 0.5)", "lambda z: 2.0 * erf(0.5 * z)"),
    _sigma("Sigmoid_like()", "lambda z: 0.5 * erf(z / 2.4020563531719796) + 0.5"),
    _sigma("Gelu()", '"gelu"'),
    _sigma("Sin(1.5, 0.7, 0.2)", "lambda z: 1.5 * jnp.sin(0.7 * z + 0.2)"),
    _sigma("Cos(1.5, 0.7, 0.2)", "lambda z: 1.5 * jnp.cos(0.7 * z + 0.2)"),
    _sigma("Rbf(0.5)", "lambda z: 2**0.5 * jnp.sin(z + jnp.pi / 4)"),
    _sigma("Gabor()", "lambda z: jnp.exp(-z * z) * jnp.sin(z)"),
    _sigma("Exp(1.5, 0.5)", "lambda z: 1.5 * jnp.exp(0.5 * z)"),
    _sigma("Gaussian(1.5, -0.5)", "lambda z: 1.5 * jnp.exp(-0.5 * z * z)"),
    _sigma(
        "Hermite(3)",
        "lambda z: (z**3 - 3 * z) / 6**0.5",
        before="LayerNorm(eps=0), ",
        note="Theirs holds for inputs of variance 1, which the norm makes.",
    ),
    _sigma("Monomial(3)", '"monomial(3)"'),
    _sigma(
        "RectifiedMonomial(2)",
        "activation(lambda z: jnp.maximum(z, 0) ** 2, kinks=(0.0,))",
        known="relu squared",
        note="Theirs is NaN for an input with itself: a derivative of an angle at 0.",
    ),
    _sigma("Polynomial((0.1, 1, 0.3))", "lambda z: 0.1 + z + 0.3 * z**2"),
    _sigma(
        "Elementwise(nngp_fn=lambda k12, k11, k22: 2 / jnp.pi * jnp.arcsin("
        "2 * k12 / jnp.sqrt((1 + 2 * k11) * (1 + 2 * k22))))",
        '"erf"',
        note="They derive the NTK from a kernel that the user writes; we take the function.",
    ),
    _sigma(
        "ElementwiseNumerical(jnp.tanh, deg=100)",
        '"tanh"',
        known="tanh",
        note="Gauss-Hermite quadrature on 100 x 100 points.",
    ),
]

OURS = rows(
    "Only ours",
    NODES,
    POOLED,
    ("Dilation", "Conv(9, (3,), dilation=(2,)), Relu()", 'Conv(3, dilation=2), "relu"'),
    ("Groups", "Conv(9, (3,), groups=3), Relu()", 'Conv(3, groups=3), "relu"'),
    ("GroupNorm", "Dense(9), GroupNorm(3), Relu()", 'Dense(), GroupNorm(3), "relu"'),
    ("MaxPool", 'Conv(9, (3,), padding="SAME"), MaxPool((2,), (2,))', "Conv(3), MaxPool(2)", {"drawn": True}),
    (
        "A sum behind activations",
        "Dense(9), Relu(), FanOut(2), parallel(Identity(), serial(Dense(9), Relu())), FanInSum(), Dense(9)",
        'Dense(), "relu", Skip(Dense(), "relu"), Dense()',
    ),
    (
        "LayerNorm behind an activation",
        "Dense(9), Relu(), LayerNorm()",
        'Dense(), "relu", LayerNorm()',
    ),
    ("RMSNorm", "Dense(9), RMSNorm(), Relu()", 'Dense(), RMSNorm(), "relu"'),
    (
        "Softmax attention of heads of finite size, 1/sqrt(d)",
        "Dense(9), GlobalSelfAttention(9, 3, 3, 3, linear_scaling=False)",
        "Dense(), Attention(size=3)",
        {"drawn": True, "inputs": 4},
    ),
    (
        "Causal attention",
        "Dense(9), GlobalSelfAttention(9, 9, 9, 3, causal=True)",
        "Dense(), Attention(heads=3, tied=True, causal=True)",
    ),
    ("Tanh to 1e-10", "Dense(9), Tanh()", 'Dense(), "tanh"'),
    ("Swish", "Dense(9), Swish()", 'Dense(), "swish"'),
)  # fmt: skip
OURS = [replace(row, refused=True) for row in OURS]

THEIRS = {
    "DotGeneral": "any fixed map; ours are `Aggregate`, a square matrix of one axis, `Take` and `Resize`",
    "Aggregate": "lists of edges (`SPARSE`), and several axes at once",
    "GlobalSelfAttention": "positions joined (`CONCAT`), or for queries and keys alone; any `pos_emb_decay_fn`",
    "LayerNorm": "over some of several axes of positions, or over the batch (`axis`)",
    "AvgPool": "`normalize_edges=True`, where zeros beyond the ends do not count",
    "ExpNormalized, Elementwise": "kernels without an activation",
    "Axes": "batches and channels along any axis (`batch_axis`, `channel_axis`)",
    "GPUs": "kernels on several devices (`batch`); `predict` runs on processors",
}

MASKS = rows(
    "Inputs of different lengths",
    LINE,
    POOLED,
    (
        "Dense, masked",
        "Dense(9), Relu(), Dense(9), Relu()",
        'Dense(), "relu", Dense(), "relu"',
        {"masked": True, "note": "In this table positions are told by `mask_constant` and by `Mask()`."},
    ),
    ("Conv, SAME, masked", 'Conv(9, (3,), padding="SAME"), Relu()', 'Conv(3), "relu"', {"masked": True}),
    (
        "Attention, masked",
        "Dense(9), GlobalSelfAttention(9, 9, 9, 3, **STD), Relu()",
        'Dense(), Attention(heads=3, tied=True, C_b=0, lambda_b=0), "relu"',
        {"masked": True},
    ),
    (
        "LayerNorm, masked",
        "Dense(9), LayerNorm(eps=1e-5), Dense(9), Relu()",
        'Dense(), LayerNorm(), Dense(), "relu"',
        {"masked": True},
    ),
    (
        "Flatten, masked",
        'Conv(9, (3,), padding="SAME"), Relu()',
        'Conv(3), "relu"',
        {"masked": True, "behind": FLAT},
    ),
)  # fmt: skip

_NET = '*["relu", Conv(3)] * 9, "relu"'
_THEIRS = 'Conv(9, (3, 3), padding="SAME"), repeat(serial(Relu(), Conv(9, (3, 3), padding="SAME")), 9), Relu()'
_STEP = 'Conv(9, (3, 3), padding="SAME"), Relu(), '
_BLOCK = (
    "Dense(9), FanOut(2), "
    "parallel(Identity(), serial(LayerNorm(eps=1e-5), GlobalSelfAttention(9, 9, 9, 3, **STD))), "
    "FanInSum(), FanOut(2), "
    "parallel(Identity(), serial(LayerNorm(eps=1e-5), Dense(9), Gelu(), Dense(9))), "
    "FanInSum(), LayerNorm(eps=1e-5)"
)
_OWN_BLOCK = (
    "Dense(), Skip(LayerNorm(), Attention(heads=3, tied=True, C_b=0, lambda_b=0)), "
    'Skip(LayerNorm(), Dense(), "gelu", Dense()), LayerNorm()'
)
NETWORKS = rows(
    "Whole networks",
    (8, 8, 3),
    POOLED,
    ("10 convolutions on 8 x 8, then Flatten", _THEIRS, f"Conv(3), {_NET}", {"behind": FLAT, "inputs": 64}),
    (
        "10 convolutions on 8 x 8, pooled at the end",
        (_STEP * 10)[:-2],
        f"Conv(3), {_NET}",
        {"inputs": 8, "note": "`repeat` of a single convolution fails where all pairs of positions are needed."},
    ),
    (
        "6 convolutions on 8 x 8, pooled after every second",
        (_STEP * 2 + "AvgPool((2, 2), (2, 2)), ") * 2 + (_STEP * 2)[:-2],
        '*([Conv(3), "relu"] * 2 + [AvgPool(2)]) * 2, *[Conv(3), "relu"] * 2',
        {"inputs": 16},
    ),
    (
        "Graph convolutions, 3 layers, 20 nodes",
        ", ".join(["Aggregate(1), Dense(9), Relu()"] * 3),
        '*[Aggregate(graph(20)), Dense(), "relu"] * 3',
        {"shape": (20, 8), "given": "pattern=pattern(20)", "inputs": 32},
    ),
    ("Attention block, tied, 1/d, 16 positions", _BLOCK, _OWN_BLOCK, {"shape": (16, 8), "inputs": 32}),
    (
        "20 dense layers, 500 inputs",
        "Dense(9), repeat(serial(Relu(), Dense(9)), 18), Relu()",
        'Dense(), *["relu", Dense()] * 18, "relu"',
        {"shape": (64,), "behind": BARE, "inputs": 500},
    ),
)  # fmt: skip

GROUPS = (
    DENSE,
    CONVOLUTIONS,
    POOLS,
    FIXED,
    ATTENTION,
    BRANCHES,
    MASKS,
    ACTIVATIONS,
    OURS,
    NETWORKS,
)
ROWS = {row.name: row for group in GROUPS for row in group}
