"""Property: what people have as numbers is read right by every verb that takes numbers, or refused in a sentence.

One list of things that hold the same numbers and one of things that cannot be had, through each verb.
"""

import decimal
import fractions
import re

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
import xarray as xr

import scalewise as sw
from scalewise import limits, theory
from scalewise._arrays import float_array, real_array
from scalewise._words import WrongTypeError

# Exact in every type below, float8 included.
X = np.array([[1.0, 0.5, 2.0], [0.25, 3.0, 1.5]])
FOURS = 4 * X
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and NumPy, about what they would drop
NET = sw.MLP(2, 3, "tanh", input_dim=3, output_dim=1, C_b=0.1)


def things() -> dict[str, object]:
    tensor = torch.tensor(X)
    frozen = X.copy()
    frozen.setflags(write=False)
    return {
        "array": X,
        "read-only": frozen,
        "Fortran": np.asfortranarray(X),
        "every second": np.repeat(X, 2, axis=0)[::2],
        "float16": X.astype(np.float16),
        "longdouble": X.astype(np.longdouble),
        "big-endian": X.astype(">f8"),
        "objects": X.astype(object),
        "ml_dtypes": X.astype(ml_dtypes.bfloat16),
        "nothing masked": np.ma.masked_array(X, np.zeros_like(X, bool)),
        "matrix": np.asmatrix(X),
        "list": X.tolist(),
        "tuple of rows": tuple(X),
        "list of tensors": [tensor[0].requires_grad_(), tensor[1].to(torch.bfloat16)],
        "list of mixed rows": [X[0].tolist(), jnp.asarray(X[1])],
        "fractions": [[fractions.Fraction(v) for v in row] for row in X.tolist()],
        "decimals": [[decimal.Decimal(v) for v in row] for row in X.tolist()],
        "memoryview": memoryview(X),
        "tensor": tensor,
        "gradient": tensor.clone().requires_grad_(),
        "of a graph": tensor.clone().requires_grad_() * 1.0,
        "bfloat16": tensor.to(torch.bfloat16),
        "float8": tensor.to(torch.float8_e4m3fn),
        "half": tensor.half(),
        "transposed": torch.tensor(X.T.copy()).T,
        "sparse": tensor.to_sparse(),
        "negative bit": torch._neg_view(-tensor),
        "parameter": torch.nn.Parameter(tensor),
        "jax": jnp.asarray(X),
        "jax bfloat16": jnp.asarray(X, jnp.bfloat16),
        "jax float8": jnp.asarray(X, jnp.float8_e4m3fn),
        "frame": pd.DataFrame(X, columns=["a", "b", "c"]),
        "nullable frame": pd.DataFrame(X).astype("Float64"),
        "data array": xr.DataArray(X, dims=("sample", "feature")),
        "scipy": scipy.sparse.csr_array(X),
    }


WHOLE = {
    "integers": FOURS.astype(int),
    "unsigned": np.abs(FOURS).astype(np.uint8),
    "python integers": FOURS.astype(int).tolist(),
    "int tensor": torch.tensor(FOURS).int(),
    "jax int4": jnp.asarray(X.round(), jnp.int4),
    "booleans": X > 0,
    "bool tensor": torch.tensor(X > 0),
    "nullable integers": pd.DataFrame(FOURS.astype(int)).astype("Int64"),
}


def refused() -> dict[str, tuple[object, str]]:
    masked = np.ma.masked_array(X, X == 3.0)
    missing = pd.DataFrame(FOURS.astype(int)).astype("Int64")
    missing.iloc[1, 2] = pd.NA
    tracers = []
    jax.jit(lambda z: tracers.append(z) or z)(jnp.ones((2, 3)))
    return {
        "masked": (masked, "number in every place; 1 of 6 are masked.*filled"),
        "rows of masked": (list(masked), "1 of 3 are masked"),
        "a masked entry": ([[1.0, np.ma.masked]], "are masked"),
        "missing": (missing, r"got a NAType at \[1, 2\]"),
        "None": (None, "got None"),
        "None inside": ([[1.0, None]], "got None"),
        "complex": (X * 1j, "complex ones of dtype complex128. Take the real part"),
        "complex tensor": (torch.tensor(X) * 1j, "complex ones of dtype torch.complex128"),
        "python complex": ([[1j, 2]], "complex"),
        "text": ("abc", "dtype <U3"),
        "words": ([["1", "2"]], "dtype <U1"),
        "word in a frame": (
            pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}),
            r"got 'x' at \[0, 1\]",
        ),
        "dates": (np.array(["2020-01-01"], "M8[D]"), "dtype datetime64"),
        "records": (np.zeros(2, "f8,f8"), "dtype .*f0"),
        "bytes": (np.zeros((2, 3), "V8"), r"dtype \|V8"),
        "ragged": ([[1.0, 2.0], [1.0]], "rows of one length; got rows of different lengths"),
        "ragged tensors": ([torch.ones(2), torch.ones(3)], "rows of different lengths"),
        "generator": ((v for v in X), "got a generator"),
        "dict": ({"x": 1}, "got {'x': 1}"),
        "set": ({1.0}, "got {1.0}"),
        "dataset": (xr.Dataset({"a": ("x", [1.0])}), "Dataset cannot be read as one"),
        "meta": (torch.empty(2, 3, device="meta"), "cannot be read as one .*no data"),
        "tracer": (tracers[0], "cannot be read as one .*traced array"),
        "key": (jax.random.key(0), "cannot be read as one .*PRNGKey"),
        "huge": ([[10**400]], "that float64 can hold .*too large"),
    }


# Each takes (samples, features) and gives an array of numbers that depends on every entry.
VERBS = {
    "predict": lambda x: sw.predict(NET, x, observables="ntk").ntk.values,
    "measure": lambda x: (
        sw.measure(NET, x, networks=2, observables="kernel", progress=False).kernel
    ),
    "load_inputs": sw.load_inputs,
    "single_input_flow": lambda x: theory.single.single_input_flow(NET, x).K,
    "nearby_inputs_flow": lambda x: theory.single.nearby_inputs_flow(NET, X, x).dK1,
    "kernel_angle": lambda x: theory.deep.kernel_angle(x, X[::-1]),
    "Task": lambda x: sw.Task(x, [1.0, -1.0], test_inputs=x).test_inputs,
    "layer_kernels": lambda x: (
        limits.layer_kernels(limits.Architecture(sw.scaling.ntk(depth=2), "tanh"), x).features
    ),
    "activation": lambda x: sw.activation("gelu")(x),
}


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_reads_what_people_have(name) -> None:
    verb, wrong = VERBS[name], []
    wanted = np.asarray(verb(X))
    for kind, x in things().items():
        if not np.array_equal(np.asarray(verb(x)), wanted):
            wrong.append(kind)
    for kind, (x, message) in refused().items():
        # A text may name a data set or a file; no inputs may mean that kernels are given.
        if (name, kind) in (("load_inputs", "text"), ("single_input_flow", "None")):
            continue
        try:
            verb(x)
        except WrongTypeError as error:
            if not re.search(message, str(error)):
                wrong.append((kind, str(error)))
        except Exception as error:
            wrong.append((kind, repr(error)))
        else:
            wrong.append((kind, "taken"))
    assert wrong == []


def test_whole_numbers_and_booleans_are_exact() -> None:
    for kind, x in WHOLE.items():
        found = real_array("`x`", x)
        assert found.dtype.kind in "iub", kind
        expected = np.asarray(x) if not hasattr(x, "numpy") else x.numpy()
        np.testing.assert_array_equal(float_array("`x`", x), np.asarray(expected, dtype=float))


def test_what_is_given_is_never_changed_and_never_shared() -> None:
    for kind, x in things().items():
        before = real_array("`x`", x).astype(float)
        found = float_array("`x`", x)
        assert found.flags.writeable, kind
        assert found.flags.c_contiguous, kind
        found[:] = 99
        np.testing.assert_array_equal(real_array("`x`", x).astype(float), before, err_msg=kind)


def test_an_array_is_not_copied_without_need() -> None:
    assert real_array("`x`", X) is X
    assert np.shares_memory(real_array("`x`", torch.from_numpy(X)), X)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (X[0], r"shape \(samples, features\).*got shape \(3,\).*x\[None, :\]"),
        (torch.ones(3), r"got shape \(3,\)"),
        ([], r"got shape \(0,\)"),
        ([[]], r"got shape \(1, 0\)"),
        (3.0, r"got shape \(\)"),
        (np.ones((1, 2)), "has 2 features, but the network takes input_dim=3"),
        (torch.tensor([[1.0, torch.nan, 0.0]]), r"finite numbers only; x\[0, 1\] is nan"),
        ([[1.0, 2.0, np.inf]], r"x\[0, 2\] is inf"),
        (np.array([[1, 2, 1e4000]], np.longdouble), r"x\[0, 2\] is inf"),
        ([[1e200, 1.0, 1.0]], "too large"),
    ],
)
def test_numbers_that_no_network_takes_are_refused(x, message) -> None:
    for verb in ("predict", "measure", "single_input_flow"):
        with pytest.raises(ValueError, match=message):
            VERBS[verb](x)


def test_hyperparameters_may_be_tensors() -> None:
    net = sw.MLP(
        3,
        torch.tensor([4, 5]),
        "tanh",
        input_dim=3,
        output_dim=1,
        C_b=jnp.asarray(0.5),
        C_W=torch.tensor([1.0, 2.0, 0.5], requires_grad=True),
    )
    assert (net.widths, net.C_b, net.C_W) == ((3, 4, 5, 1), (0.5, 0.5, 0.5), (1.0, 2.0, 0.5))
    for bad, message in (
        ("a", "`C_b` must be a finite number of at least 0, or one for each layer; got 'a'"),
        (1j, r"`C_b` must be a finite number .* got 1j"),
        ([[0.1, 0.1, 0.1]], "`C_b` must be a finite number .*, or one for each layer; got"),
        (np.ma.masked, "`C_b` must be a finite number of at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            sw.MLP(3, 4, "tanh", input_dim=3, output_dim=1, C_b=bad)
