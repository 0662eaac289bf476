"""Layer by layer beside neural-tangents: what a row is, and the rows of layers.

Both sides read this file, and it imports neither of them. A row has the layers of a network in either language,
as text that its side evaluates. Random layers of theirs have W_std = 1.2 and b_std = 0.3 in the NTK parametrisation
where their text says nothing; ours have C_W = lambda_W = W_std^2 and C_b = lambda_b = b_std^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

W_STD, B_STD = 1.2, 0.3
STORED = 3  # inputs whose kernels are kept
FLAT = ("Flatten(), Dense(1)", "Flatten(), Dense(1)")
POOLED = ("GlobalAvgPool(), Dense(1)", "GlobalAvgPool(), Dense(1)")
BARE = ("Dense(1)", "Dense(1)")
FEATURES, NODES, IMAGE, ODD, LINE = (8,), (6, 3), (6, 6, 2), (7, 7, 2), (8, 2)


@dataclass(frozen=True)
class Row:
    """One layer, or one network.

    Args:
        group: Under which heading it stands.
        name: In the table.
        theirs: Their layers.
        ours: Our layers.
        shape: Of an input.
        behind: What stands behind the layers, theirs and ours.
        given: What their kernel function is given beside the inputs.
        inputs: How many inputs both sides are given.
        note: What a reader must know.
        aim: The greatest relative difference that is accepted.
        ntk: Whether the NTK is compared.
        truth: Their layers that have the same kernels, and are right where `theirs` is wrong.
        known: By which moments of truth.py the kernels of one hidden layer are known, where `theirs` is wrong.
        refused: Whether they have no kernel for it.
        drawn: Whether our averages are drawn, with a stated error.
        masked: Whether inputs have different lengths along the first axis of positions.
    """

    group: str
    name: str
    theirs: str
    ours: str
    shape: tuple[int, ...]
    behind: tuple[str, str] = BARE
    given: str = ""
    inputs: int = 16
    note: str = ""
    aim: float = 1e-6
    ntk: bool = True
    truth: str = ""
    known: str = ""
    refused: bool = False
    drawn: bool = False
    masked: bool = False

    def there(self, count: int) -> np.ndarray:
        """Which positions inputs have, (input, position, 1): from all of them down to half."""
        size = self.shape[0]
        lengths = size - np.arange(count) % (size // 2 + 1)
        return np.arange(size)[:, None] < lengths[:, None, None]

    def x(self, inputs: int | None = None) -> np.ndarray:
        """The first inputs of a fixed draw, all of the row for ``None``."""
        count = inputs or self.inputs
        drawn = np.random.default_rng(0).standard_normal(count * math.prod(self.shape))
        return drawn.reshape(count, *self.shape)


def graph(nodes: int) -> np.ndarray:
    """The normalised adjacency of a directed graph with loops: a ring, and every third node to the first."""
    edges = np.eye(nodes) + np.roll(np.eye(nodes), 1, axis=1)
    edges[::3, 0] += 1.0
    return edges / edges.sum(axis=1, keepdims=True)


def relative(one: Any, other: Any) -> np.ndarray:
    """Differences of two kernels, relative to the diagonal of the second, $|A-B|_{ij}/(B_{ii}B_{jj})^{1/2}$."""
    one, other = np.asarray(one), np.asarray(other)
    sizes = np.sqrt(np.abs(np.diagonal(other)))
    return np.abs(one - other) / np.multiply.outer(sizes, sizes)


def namespace(layers: dict[str, Any]) -> dict[str, Any]:
    """What the text of our side may name: layers, and functions of JAX for activations of one's own.

    Args:
        layers: Ours by name.
    """
    import jax.numpy as jnp
    from jax.scipy.special import erf

    return {**layers, "jnp": jnp, "np": np, "erf": erf, "graph": graph}


def needs_jax(row: Row) -> bool:
    """Whether our text has a function of one's own."""
    return "lambda z" in row.ours or "jnp" in row.ours


def rows(
    group: str, shape: tuple[int, ...], behind: tuple[str, str], *rows: tuple[Any, ...]
) -> list[Row]:
    """Rows as (name, theirs, ours) or (name, theirs, ours, what else)."""
    usual = {"shape": shape, "behind": behind}
    return [
        Row(group, name, theirs, ours, **{**usual, **(more[0] if more else {})})
        for name, theirs, ours, *more in rows
    ]


DENSE = rows(
    "Dense layers",
    FEATURES,
    BARE,
    ("Dense", "Dense(9), Relu(), Dense(9), Relu()", 'Dense(), "relu", Dense(), "relu"'),
    (
        "Dense, standard parametrisation",
        'Dense(9, parameterization="standard"), Relu(), Dense(9, parameterization="standard")',
        'Dense(lambda_W=8, lambda_b=1), "relu", Dense(lambda_W=9, lambda_b=1)',
        {"note": "The rates do not fall with the fan-in, so `lambda_W` is the fan-in."},
    ),
    (
        "repeat",
        "Dense(9), repeat(serial(Relu(), Dense(9)), 8)",
        'Dense(), *["relu", Dense()] * 8',
        {"note": "`repeat` is compiled once for all copies; we compile nothing."},
    ),
)  # fmt: skip

CONVOLUTIONS = rows(
    "Convolutions",
    IMAGE,
    POOLED,
    ("Conv, SAME", 'Conv(9, (3, 3), padding="SAME"), Relu()', 'Conv(3), "relu"'),
    (
        "Conv, SAME, then Flatten",
        'Conv(9, (3, 3), padding="SAME"), Relu()',
        'Conv(3), "relu"',
        {"behind": FLAT, "note": "Both sides compute pairs of equal positions alone."},
    ),
    (
        "Conv, VALID",
        "Conv(9, (3, 3)), Relu()",
        'Conv(3, padding="valid"), "relu"',
        {"note": "Their default is VALID, ours `padding='zero'`."},
    ),
    ("Conv, CIRCULAR", 'Conv(9, (3, 3), padding="CIRCULAR"), Relu()', 'Conv(3, padding="circular"), "relu"'),
    ("Conv, stride, VALID", "Conv(9, (3, 3), (2, 2)), Relu()", 'Conv(3, stride=2, padding="valid"), "relu"'),
    (
        "Conv, stride, SAME",
        'Conv(9, (3, 3), (2, 2), "SAME"), Relu()',
        'Conv(3, stride=2), "relu"',
        {
            "shape": ODD,
            "note": "On an even number of positions SAME begins its windows one position later than "
            "`padding='zero'`, which is PyTorch's `padding=1`; on an odd number both are the same.",
        },
    ),
    (
        "Conv, a size and a stride for each axis",
        "Conv(9, (2, 3), (1, 2)), Relu()",
        'Conv((2, 3), stride=(1, 2), padding="valid"), "relu"',
    ),
    ("Conv, even window", 'Conv(9, (4, 4), padding="SAME"), Relu()', 'Conv(4), "relu"'),
    ("Conv, one axis", 'Conv(9, (3,), padding="SAME"), Relu()', 'Conv(3), "relu"', {"shape": LINE}),
    ("Conv, three axes", 'Conv(9, (3, 3, 3), padding="SAME"), Relu()', 'Conv(3), "relu"', {"shape": (3, 3, 3, 2)}),
    (
        "Conv, standard parametrisation",
        'Conv(9, (3, 3), padding="SAME", parameterization="standard"), Relu()',
        'Conv(3, lambda_W=18, lambda_b=1), "relu"',
        {"note": "The fan-in is 9 taps times 2 channels."},
    ),
    (
        "ConvTranspose, VALID, stride",
        "ConvTranspose(9, (3, 3), (2, 2)), Relu()",
        'ConvTranspose(3, stride=2, padding="valid"), "relu"',
        {"shape": (3, 3, 2)},
    ),
    ("ConvTranspose, SAME", 'ConvTranspose(9, (3, 3), padding="SAME"), Relu()', 'ConvTranspose(3), "relu"'),
    (
        "ConvTranspose, CIRCULAR",
        'ConvTranspose(9, (3, 3), padding="CIRCULAR"), Relu()',
        'ConvTranspose(3, padding="circular"), "relu"',
    ),
    (
        "ConvLocal",
        'ConvLocal(9, (3, 3), padding="SAME"), Relu(), ConvLocal(9, (2, 2), (2, 2)), Relu()',
        'Local(3), "relu", Local(2, stride=2, padding="valid"), "relu"',
    ),
)  # fmt: skip

_CONV = 'Conv(9, (3, 3), padding="SAME"), Relu(), ', 'Conv(3), "relu", '
POOLS = rows(
    "Pooling",
    IMAGE,
    FLAT,
    (
        "AvgPool",
        _CONV[0] + "AvgPool((2, 2), (2, 2))",
        _CONV[1] + "AvgPool(2)",
        {"note": "Their stride is 1 by default, ours the window."},
    ),
    (
        "AvgPool, overlapping, SAME",
        _CONV[0] + 'AvgPool((3, 3), (1, 1), "SAME")',
        _CONV[1] + 'AvgPool(3, stride=1, padding="zero")',
        {"note": "Zeros beyond the ends count on both sides; `normalize_edges=True` is theirs alone."},
    ),
    (
        "AvgPool, CIRCULAR",
        _CONV[0] + 'AvgPool((3, 3), (1, 1), "CIRCULAR")',
        _CONV[1] + 'AvgPool(3, stride=1, padding="circular")',
    ),
    ("SumPool", _CONV[0] + "SumPool((2, 3), (2, 3))", _CONV[1] + "SumPool((2, 3))"),
    ("GlobalAvgPool", _CONV[0] + "GlobalAvgPool()", _CONV[1] + "GlobalAvgPool()", {"behind": BARE}),
    ("GlobalSumPool", _CONV[0] + "GlobalSumPool()", _CONV[1] + "GlobalSumPool()", {"behind": BARE}),
)  # fmt: skip

FIXED = rows(
    "Graphs and other fixed maps",
    NODES,
    POOLED,
    (
        "ImageResize, linear, larger",
        _CONV[0] + 'ImageResize((-1, 9, 9, -1), "linear")',
        _CONV[1] + 'Resize(9, "linear")',
        {"shape": IMAGE, "behind": FLAT},
    ),
    (
        "ImageResize, linear, smaller",
        _CONV[0] + 'ImageResize((-1, 4, 4, -1), "linear")',
        _CONV[1] + 'Resize(4, "linear")',
        {"shape": IMAGE, "behind": FLAT},
    ),
    (
        "ImageResize, nearest",
        _CONV[0] + 'ImageResize((-1, 9, 9, -1), "nearest")',
        _CONV[1] + "Resize(9)",
        {"shape": IMAGE, "behind": FLAT},
    ),
    (
        "ImageResize, another size for each axis",
        'Conv(9, (1, 1)), Relu(), ImageResize((-1, 9, 4, -1), "nearest")',
        'Conv(1), "relu", Resize((9, 4))',
        {
            "shape": IMAGE,
            "behind": FLAT,
            "truth": 'ImageResize((-1, 9, 4, -1), "nearest"), Conv(9, (1, 1)), Relu()',
            "note": "Behind an odd number of convolutions the axes of their kernels stand in the reverse order, "
            "which `ImageResize` does not know: sizes go to the wrong axes. Truth: their own layers with images "
            "resized first, which changes nothing here.",
        },
    ),
    (
        "Index, Slice",
        _CONV[0] + "Index(Slice[:, ::2, ::-1])",
        _CONV[1] + "Take((0, 2, 4)), Take((5, 4, 3, 2, 1, 0), axis=1)",
        {"shape": IMAGE, "behind": POOLED},
    ),
    (
        "Aggregate",
        "Aggregate(1), Dense(9), Relu(), Aggregate(1), Dense(9), Relu()",
        'Aggregate(graph(6)), Dense(), "relu", Aggregate(graph(6)), Dense(), "relu"',
        {
            "given": "pattern=pattern(6)",
            "note": "Their pattern is given with the inputs, once for each of them, and is our matrix "
            "transposed: senders stand first.",
        },
    ),
    (
        "Aggregate, one axis of two",
        "Conv(9, (1, 1)), Aggregate(2), Relu()",
        'Conv(1), Aggregate(graph(6), axis=1), "relu"',
        {"shape": (4, 6, 2), "given": "pattern=pattern(6)"},
    ),
    (
        "DotGeneral, a matrix of positions",
        "Dense(9), DotGeneral(rhs=graph(6), dimension_numbers=(((1,), (1,)), ((), ()))), Relu()",
        'Dense(), Aggregate(graph(6)), "relu"',
        {"behind": ("GlobalAvgPool(channel_axis=1), Dense(1)", POOLED[1])},
    ),
    ("DotGeneral, a factor", "Dense(9), DotGeneral(rhs=2.0), Relu()", 'Dense(), Aggregate(2 * np.eye(6)), "relu"'),
)  # fmt: skip


def _attention(kind: str, function: str) -> tuple[str, str, str]:
    return (
        f"GlobalSelfAttention, {kind}",
        f'Dense(9), GlobalSelfAttention(9, 9, 9, 3, attention_mechanism="{kind}", **STD)',
        f'Dense(), Attention(heads=3, tied=True, C_b=0, lambda_b=0, function="{function}")',
    )


ATTENTION = rows(
    "Attention, norms and dropout",
    NODES,
    POOLED,
    (
        *_attention("SOFTMAX", "softmax"),
        {
            "note": "`STD` sets all four `W_*_std` to 1.2. They have biases behind the last matrix alone, we have "
            "them in all four layers, so both are left out. Queries and keys have the same weights on both sides, "
            "and logits are divided by d."
        },
    ),
    _attention("IDENTITY", "linear"),
    _attention("RELU", "relu"),
    _attention("ABS", "leaky_relu(-1)"),
    (
        "GlobalSelfAttention, IDENTITY, 1/sqrt(d)",
        'Dense(9), GlobalSelfAttention(9, 9, 9, 3, linear_scaling=False, attention_mechanism="IDENTITY", **STD)',
        'Dense(), Attention(size=3, C_b=0, lambda_b=0, function="linear")',
        {"drawn": True, "inputs": 4, "note": "Theirs is a closed form; of ours heads are drawn, of any function."},
    ),
    (
        "GlobalSelfAttention, positions added",
        "Dense(9), GlobalSelfAttention(9, 9, 9, 3, pos_emb_type=\"SUM\", val_pos_emb=True, **STD)",
        "Dense(), Positions(C_W=1, lambda_W=1), Attention(heads=3, tied=True, C_b=0, lambda_b=0)",
        {"note": "`val_pos_emb=True` adds them before values too; for queries and keys alone is theirs alone."},
    ),
    (
        "GlobalSelfAttention, positions that decay",
        "Dense(9), GlobalSelfAttention(9, 9, 9, 3, pos_emb_type=\"SUM\", val_pos_emb=True, "
        "pos_emb_decay_fn=lambda d: jnp.exp(-d / 8), **STD)",
        "Dense(), Positions(C_W=1, lambda_W=1, length=2), Attention(heads=3, tied=True, C_b=0, lambda_b=0)",
    ),
    (
        "LayerNorm over positions",
        "Dense(9), LayerNorm(axis=(1, 2), eps=1e-5), Relu()",
        'Dense(), LayerNorm(positions=True), "relu"',
    ),
    (
        "Dropout",
        "Dense(9), Relu(), Dropout(0.8), Dense(9), Relu()",
        'Dense(), "relu", Dropout(0.8), Dense(), "relu"',
        {"note": "The number is the probability to stay, on both sides."},
    ),
    (
        "LayerNorm",
        "Dense(9), LayerNorm(eps=1e-5), Relu()",
        'Dense(), LayerNorm(), "relu"',
        {"note": "Their eps is 1e-12 by default, ours 1e-5, as in PyTorch."},
    ),
)  # fmt: skip

BRANCHES = rows(
    "Branches",
    NODES,
    POOLED,
    (
        "FanInSum: a skip connection",
        'Conv(9, (3, 3), padding="SAME"), FanOut(2), '
        'parallel(Identity(), serial(Relu(), Conv(9, (3, 3), padding="SAME"))), FanInSum(), Relu()',
        'Conv(3), Skip("relu", Conv(3)), "relu"',
        {"shape": IMAGE},
    ),
    (
        "FanInSum of a field and itself",
        "Dense(9), FanOut(2), parallel(Identity(), Identity()), FanInSum()",
        "Dense(), Parallel([], [])",
        {
            "truth": "Dense(9), DotGeneral(rhs=2.0)",
            "drawn": True,
            "note": "The sum is twice the field, and its kernel four times as large; theirs takes branches for "
            "independent and doubles it. Truth: their own `DotGeneral(rhs=2.0)`.",
        },
    ),
    (
        "FanInProd of independent branches",
        "FanOut(2), parallel(Dense(9), serial(Dense(9), Relu())), FanInProd()",
        'Parallel([Dense()], [Dense(), "relu"], join="product")',
    ),
    (
        "FanInProd of a field and itself",
        "Dense(9), FanOut(2), parallel(Identity(), Identity()), FanInProd()",
        'Dense(), Parallel([], [], join="product")',
        {
            "truth": "Dense(9), Monomial(2)",
            "drawn": True,
            "inputs": 4,
            "note": "The product is the square; theirs takes branches for independent. Truth: their own "
            "`Monomial(2)`.",
        },
    ),
    (
        "FanInConcat",
        "FanOut(2), parallel(serial(Dense(9), Relu()), serial(Dense(27), Erf())), FanInConcat()",
        'Parallel([Dense(9), "relu"], [Dense(27), "erf"], join="concat")',
    ),
)  # fmt: skip
