"""Real data as a checked array of shape (samples, features)."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from scalewise._arrays import real_array
from scalewise._checked import Count, Index, Must, checked
from scalewise._extras import require
from scalewise._words import listed
from scalewise.tasks import Task

__all__ = ["data_file", "load_inputs", "load_labelled", "load_task", "missing_data"]

DATA_FOLDER = "SCALEWISE_DATA"


@checked
def load_inputs(
    source: Any,
    *,
    samples: Count | None = None,
    seed: Index = 0,
    standardize: bool | None = None,
) -> Float[np.ndarray, "sample feature"]:
    r"""Inputs for `predict` and `measure`: a named data set, a file or an array, checked.

    Standardising subtracts the mean of each feature and divides everything by one number,
    $$x_{i;\alpha}\to\frac{x_{i;\alpha}-\bar x_i}{s},\qquad
    s^2=\frac1{N n_0}\sum_{\alpha,i}(x_{i;\alpha}-\bar x_i)^2,$$
    both taken over the whole source before samples are chosen, so that the mean of
    $|x_\alpha|^2/n_0$ over the source is 1 and no feature is inflated relative to another.

    Args:
        source: ``"digits"`` (1797 images of 8 x 8, bundled with scikit-learn), ``"mnist"`` or
            ``"cifar2"`` (training images; ``mnist.npz`` and ``cifar2.npz`` in the folder named by
            the environment variable ``SCALEWISE_DATA``), the path of a ``.npy`` or ``.csv`` file
            (comma-separated, with or without one header line), or any array, tensor, data frame or
            nested list of shape ``(samples, features)``.
        samples: How many rows to choose at random without replacement; all, in order, for ``None``.
        seed: Seed of that choice, at least 0.
        standardize: Whether to standardise; ``None`` means yes for the named data sets and no for
            files and arrays, whose scale is the user's business.

    Returns:
        Shape ``(samples, features)``, C-contiguous float64, every entry finite; a copy.

    Raises:
        ValueError: If the source is unknown, missing or not a table of finite numbers, `samples` is
            below 1 or more than there are, or a constant source is to be standardised.
        TypeError: If the source holds something that is not a real number, or is masked.
        MissingExtraError: If ``"digits"`` is asked for and scikit-learn is not installed.

    Example:
        >>> import scalewise as sw
        >>> sw.load_inputs("digits", samples=8, seed=0).shape
        (8, 64)
        >>> sw.load_inputs([[1, 2], [3, 4]])
        array([[1., 2.],
               [3., 4.]])
    """
    named = isinstance(source, str) and source in _NAMED
    if named:
        table = _NAMED[source]()
    elif isinstance(source, str | os.PathLike):
        table = _read_file(Path(source), source)
    else:
        table = _as_table(source, "`source`")
    _refuse_bad_numbers(table)
    rows = _choose(len(table), samples, seed)
    x = np.array(table[rows], dtype=np.float64, order="C")
    if named if standardize is None else standardize:
        mean, scale = _mean_and_scale(table)
        x = (x - mean) / scale
    return x


@checked
def load_labelled(
    source: Annotated[str, Must("'digits', 'mnist' or 'cifar2'", lambda name: name in _LABELS)],
    *,
    samples: Count | None = None,
    seed: Index = 0,
    standardize: bool | None = None,
) -> tuple[Float[np.ndarray, "sample feature"], Int[np.ndarray, " sample"]]:
    """Inputs of a named data set, as `load_inputs` gives them, with the class of each.

    Args:
        source: ``"digits"``, ``"mnist"`` or ``"cifar2"``; the archives hold ``train_labels``.
        samples: As for `load_inputs`, which chooses the same rows.
        seed: Seed of that choice.
        standardize: As for `load_inputs`.

    Returns:
        Shape ``(samples, features)``, and the classes, whole numbers from 0, shape ``(samples,)``.

    Raises:
        ValueError: As for `load_inputs`; if the source has no labels, or not one for every image.
        MissingExtraError: If ``"digits"`` is asked for and scikit-learn is not installed.

    Example:
        >>> from scalewise.data import load_labelled
        >>> load_labelled("digits")[1][:10]
        array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    x = load_inputs(source, samples=samples, seed=seed, standardize=standardize)
    labels = _LABELS[source]().ravel()
    available = len(_NAMED[source]())
    if labels.dtype.kind not in "iu" or len(labels) != available or labels.min() < 0:
        raise ValueError(
            f"The labels of {source!r} must be one whole number of at least 0 for each of "
            f"{available} images; got {len(labels)} of dtype {labels.dtype}."
        )
    return x, labels[_choose(available, samples, seed)].astype(np.int64)


@checked
def load_task(
    source: str, *, train: Count, test: Count, seed: Index = 0, loss: str = "mse"
) -> Task:
    """A task of classification from a named data set: training and test samples drawn at random from it.

    Args:
        source: ``"digits"``, ``"mnist"`` or ``"cifar2"``; behind a colon the classes to tell apart, such as
            ``"digits:3,8"``, and all of them if none are named.
        train: How many samples to train on.
        test: How many others to test on.
        seed: Seed of the choice.
        loss: As for `Task.of_classes`, which also says what targets the classes become.

    Returns:
        Inputs standardised as by `load_inputs`, over the whole data set.

    Raises:
        ValueError: If there is no such data set or class, fewer than two classes are named, or samples are
            fewer than asked for, or those drawn for training are all of one class.
        MissingExtraError: If ``"digits"`` is asked for and scikit-learn is not installed.

    Example:
        >>> import scalewise as sw
        >>> task = sw.load_task("digits:3,8", train=50, test=20)
        >>> task.inputs.shape, task.test_targets.shape
        ((50, 64), (20, 1))
    """
    name, _, wanted = source.partition(":")
    if name not in _LABELS:
        raise ValueError(
            f"`source` must name a data set with classes, {listed(_LABELS)}, and may name classes of it, such as "
            f"'digits:3,8'; got {source!r}."
        )
    x, labels = load_labelled(name)
    classes = np.unique(labels)
    if wanted:
        classes = _named_classes(source, classes)
    rows = np.flatnonzero(np.isin(labels, classes))
    if train + test > len(rows):
        raise ValueError(
            f"`train` and `test` ask for {train + test} samples, but {source!r} has {len(rows)}. Ask for fewer."
        )
    drawn = rows[_choose(len(rows), train + test, seed)]
    first, second = drawn[:train], drawn[train:]
    missing = np.setdiff1d(labels[second], labels[first])
    if missing.size:
        raise ValueError(
            f"Among {train} training samples of {source!r} with seed {seed} there is none of class {missing[0]}, "
            "which is among the test samples. Take more, or another seed."
        )
    return Task.of_classes(
        x[first], labels[first], test_inputs=x[second], test_labels=labels[second], loss=loss
    )


def _named_classes(source: str, classes: np.ndarray) -> np.ndarray:
    """Those that stand behind the colon, ascending."""
    name, _, wanted = source.partition(":")
    known = {str(label): label for label in classes}
    strange = [text for text in wanted.split(",") if text.strip() not in known]
    if strange:
        raise ValueError(
            f"`source` names the class {strange[0]!r}, which {name!r} does not have. Its classes are "
            f"{', '.join(known)}."
        )
    found = np.unique([known[text.strip()] for text in wanted.split(",")])
    if len(found) < 2:
        other = next(text for text in known if text != str(found[0]))
        raise ValueError(
            f"`source` names one class alone, {source!r}; name two or more that are to be told apart, such as "
            f"'{name}:{found[0]},{other}'."
        )
    return found


@checked
def missing_data(*names: str) -> str | None:
    """Why the files `names` cannot be read, as a sentence; ``None`` if all are there."""
    folder = os.environ.get(DATA_FOLDER)
    if not folder:
        return (
            f"This needs {', '.join(names)} from the folder named by the environment variable {DATA_FOLDER}, "
            "which is not set."
        )
    absent = [name for name in names if not (Path(folder) / name).is_file()]
    if absent:
        return f"This needs {', '.join(absent)}, not found in {folder} ({DATA_FOLDER})."
    return None


@checked
def data_file(name: str) -> Path:
    """The path of the file `name`.

    Raises:
        ValueError: If it is not there; the sentence of `missing_data`.
    """
    reason = missing_data(name)
    if reason is not None:
        raise ValueError(f"{reason} Set the variable to a folder with the file.")
    return Path(os.environ[DATA_FOLDER]) / name


def _digits(part: int = 0) -> np.ndarray:
    require("sklearn", for_="The data set 'digits'", extra="data")
    from sklearn.datasets import load_digits

    return np.asarray(load_digits(return_X_y=True)[part])


def _archive(name: str, key: str = "train_images") -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        folder = os.environ.get(DATA_FOLDER)
        if not folder:
            raise ValueError(
                f"`load_inputs({name!r})` reads {name}.npz from the folder named by the "
                f"environment variable {DATA_FOLDER}, which is not set. Set it to that folder, or "
                "use 'digits', which needs no files."
            )
        path = Path(folder) / f"{name}.npz"
        if not path.is_file():
            raise ValueError(
                f"`load_inputs({name!r})` found no {name}.npz in {folder}, the folder named by the "
                f"environment variable {DATA_FOLDER}. Put the file there (key 'train_images', one "
                "image per entry), or use 'digits', which needs no files."
            )
        with np.load(path, allow_pickle=False) as archive:
            if key not in archive:
                raise ValueError(
                    f"{path} must hold an array called {key!r}; it holds "
                    f"{', '.join(archive) or 'nothing'}."
                )
            entries = archive[key]
        return _as_table(entries.reshape(len(entries), -1), f"`{key}` of {path}")

    return read


_NAMED: dict[str, Callable[[], np.ndarray]] = {
    "digits": _digits,
    "mnist": _archive("mnist"),
    "cifar2": _archive("cifar2"),
}
_LABELS: dict[str, Callable[[], np.ndarray]] = {
    "digits": partial(_digits, 1),
    "mnist": _archive("mnist", "train_labels"),
    "cifar2": _archive("cifar2", "train_labels"),
}


def _read_file(path: Path, source: Any) -> np.ndarray:
    readers = {".npy": _read_npy, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise ValueError(
            f"`source` must be one of {', '.join(_NAMED)}, the path of a .npy or .csv file, or an "
            f"array of shape (samples, features); got {str(source)!r}."
        )
    if not path.is_file():
        raise ValueError(f"`source` names the file {str(source)!r}, which does not exist.")
    return readers[path.suffix.lower()](path)


def _read_npy(path: Path) -> np.ndarray:
    try:
        table = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"{path} could not be read as an array of numbers ({error}). Write it with numpy.save "
            "from an array whose dtype is a number."
        ) from error
    return _as_table(table, str(path))


def _read_csv(path: Path) -> np.ndarray:
    text = path.read_text(encoding="utf-8-sig")
    lines = [line for line in text.splitlines() if line.strip()]
    header = bool(lines) and _is_header(lines[0], path)
    if len(lines) == header:
        raise ValueError(f"{path} holds no rows of numbers. Give at least one sample.")
    try:
        table = np.loadtxt(lines[header:], delimiter=",", ndmin=2, dtype=np.float64)
    except ValueError as error:
        detail = str(error).split(";")[0].rstrip(".")
        raise ValueError(
            f"{path} must hold one sample per line, numbers separated by commas, as many on every "
            f"line; after the header, if any, reading failed: {detail}."
        ) from error
    return table


def _is_header(line: str, path: Path) -> bool:
    """Text only is a header, numbers only are data; a mixture, which may be either, is refused."""
    numeric = [_is_number(cell) for cell in line.split(",")]
    if any(numeric) and not all(numeric):
        cell = line.split(",")[numeric.index(False)].strip()
        raise ValueError(
            f"The first line of {path} mixes numbers with text ({cell!r}), so it is neither a "
            "header nor a sample. Remove the column or the line."
        )
    return not any(numeric)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _as_table(values: Any, name: str) -> Shaped[np.ndarray, "sample feature"]:
    table = real_array(name, values)
    if table.ndim != 2:
        raise ValueError(
            f"{name} must have shape (samples, features); got an array of {table.ndim} dimensions "
            f"with shape {table.shape}. Reshape it, for example with x.reshape(len(x), -1)."
        )
    if table.size == 0:
        raise ValueError(f"{name} is empty: it has shape {table.shape}. Give at least one sample.")
    return table


def _refuse_bad_numbers(table: np.ndarray) -> None:
    if table.dtype.kind != "f":
        return
    bad = ~np.isfinite(table)
    if bad.any():
        row, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise ValueError(
            f"`source` must hold finite numbers; the entry in row {row}, column {column} (counted "
            f"from 0) is {table[row, column]}. Remove or replace it."
        )


def _choose(available: int, samples: int | None, seed: int) -> Any:
    if samples is None:
        return slice(None)
    if samples > available:
        raise ValueError(
            f"`samples` asks for {samples} samples, but the source has {available}. Ask for at "
            f"most {available}, or leave `samples` out to take all."
        )
    return np.random.default_rng(seed).choice(available, size=samples, replace=False)


def _mean_and_scale(table: np.ndarray) -> tuple[np.ndarray, float]:
    """Mean of each feature and the one scale, in blocks: a large set is never copied to float64."""
    mean = table.mean(axis=0, dtype=np.float64)
    with np.errstate(over="ignore"):  # an overflow is refused below
        total = sum(
            float(np.sum((table[start : start + 1024] - mean) ** 2))
            for start in range(0, len(table), 1024)
        )
    scale = float(np.sqrt(total / table.size))
    if not np.isfinite(scale) or scale <= 0:
        raise ValueError(
            "`standardize` needs inputs that differ from one another and whose squares are finite; "
            f"their spread about the mean is {scale:g}. Pass standardize=False."
        )
    return mean, scale
