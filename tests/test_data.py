"""Golden and property tests of `load_inputs`: real data, files, arrays, and every refusal."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.data import load_inputs, load_labelled, load_task

TABLE = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5], [-1.0, 0.25, 1e-3], [7.0, 8.0, 9.0]])


# Named data sets


def test_digits_are_the_whole_set_standardised() -> None:
    x = load_inputs("digits")
    assert x.shape == (1797, 64)
    assert x.dtype == np.float64
    assert x.flags.c_contiguous
    # Rounding of a mean over 10^5 numbers of order one.
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.mean(x**2), 1, rtol=1e-12)


def test_digits_are_scaled_by_one_number_and_not_feature_by_feature() -> None:
    raw = load_inputs("digits", standardize=False)
    x = load_inputs("digits")
    assert raw.min() == 0
    assert raw.max() == 16
    np.testing.assert_allclose(
        np.diff(x, axis=0) * (raw[:, 20].std() / x[:, 20].std()), np.diff(raw, axis=0), atol=1e-12
    )


def test_samples_are_scaled_by_the_whole_set() -> None:
    everything = load_inputs("digits")
    some = load_inputs("digits", samples=5, seed=3)
    rows = np.random.default_rng(3).choice(1797, size=5, replace=False)
    np.testing.assert_array_equal(some, everything[rows])


@pytest.mark.parametrize(("name", "shape"), [("mnist", (2, 2)), ("cifar2", (2, 2, 3))])
def test_archives_are_read_from_the_folder_of_the_variable(name, shape, tmp_path, monkeypatch):
    images = np.arange(5 * np.prod(shape)).astype(np.uint8).reshape(5, *shape)
    np.savez(tmp_path / f"{name}.npz", train_images=images)
    monkeypatch.setenv("SCALEWISE_DATA", str(tmp_path))
    raw = load_inputs(name, standardize=False)
    np.testing.assert_array_equal(raw, images.reshape(5, -1).astype(float))
    x = load_inputs(name)
    centred = raw - raw.mean(axis=0)
    np.testing.assert_allclose(x, centred / np.sqrt(np.mean(centred**2)), rtol=1e-14)


def test_archive_without_the_variable_names_it(monkeypatch) -> None:
    monkeypatch.delenv("SCALEWISE_DATA", raising=False)
    with pytest.raises(ValueError, match=r"SCALEWISE_DATA, which is not set.*use 'digits'"):
        load_inputs("mnist")


def test_archive_that_is_not_there_names_the_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SCALEWISE_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"no cifar2\.npz in .*SCALEWISE_DATA"):
        load_inputs("cifar2")


def test_archive_without_images_says_what_it_holds(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SCALEWISE_DATA", str(tmp_path))
    np.savez(tmp_path / "mnist.npz", labels=np.zeros(3))
    with pytest.raises(ValueError, match=r"'train_images'; it holds labels"):
        load_inputs("mnist")


def test_digits_without_scikit_learn_say_how_to_install_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"pip install 'scalewise\[data\]'"):
        load_inputs("digits")


# Files and arrays


def test_npy_file(tmp_path) -> None:
    np.save(tmp_path / "x.npy", TABLE.astype(np.float32))
    x = load_inputs(tmp_path / "x.npy")
    assert x.dtype == np.float64
    np.testing.assert_array_equal(x, TABLE.astype(np.float32))


@pytest.mark.parametrize("header", ["", "a,b,c\n", '\ufeff"pixel 1","pixel 2","pixel 3"\r\n'])
def test_csv_file_with_and_without_header(header, tmp_path) -> None:
    body = "\n".join(",".join(repr(float(v)) for v in row) for row in TABLE)
    path = tmp_path / "x.CSV"
    path.write_text(header + body + "\n\n", encoding="utf-8")
    np.testing.assert_array_equal(load_inputs(str(path)), TABLE)


def test_csv_file_with_one_column_and_one_row(tmp_path) -> None:
    (tmp_path / "column.csv").write_text("height\n1\n2\n")
    (tmp_path / "row.csv").write_text("1,2")
    assert load_inputs(tmp_path / "column.csv").tolist() == [[1.0], [2.0]]
    assert load_inputs(tmp_path / "row.csv").tolist() == [[1.0, 2.0]]


def test_arrays_are_left_as_they_are_and_copied() -> None:
    fortran = np.asfortranarray(TABLE)
    x = load_inputs(fortran)
    np.testing.assert_array_equal(x, TABLE)
    assert x.flags.c_contiguous
    x[0, 0] = 99
    assert fortran[0, 0] == 1
    own = TABLE.copy()
    load_inputs(own)[0, 0] = 99
    assert own[0, 0] == 1


def test_arrays_are_standardised_when_asked() -> None:
    x = load_inputs(TABLE, standardize=True)
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(np.mean(x**2), 1, rtol=1e-14)


@given(
    st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))),
    st.integers(0, 2**32),
)
def test_a_choice_has_no_repeats_and_depends_on_the_seed_alone(size, seed) -> None:
    available, samples = size
    table = np.arange(available, dtype=float)[:, None]
    x = load_inputs(table, samples=samples, seed=seed)
    assert x.shape == (samples, 1)
    assert len(np.unique(x)) == samples
    np.testing.assert_array_equal(x, load_inputs(table, samples=samples, seed=seed))


# Refusals


@pytest.mark.parametrize(
    ("value", "where"), [(np.nan, r"row 2, column 1 .*is nan"), (-np.inf, r"column 1 .*is -inf")]
)
def test_bad_numbers_are_refused_with_their_place(value, where) -> None:
    table = TABLE.copy()
    table[2, 1] = value
    with pytest.raises(ValueError, match=where):
        load_inputs(table, samples=1)


def test_bad_numbers_in_a_file_are_refused(tmp_path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,nan\n")
    with pytest.raises(ValueError, match=r"row 1, column 1"):
        load_inputs(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.zeros(3), r"`source` must have shape \(samples, features\).*1 dimensions.*\(3,\)"),
        (np.zeros((2, 2, 2)), r"3 dimensions with shape \(2, 2, 2\).*reshape"),
        (np.zeros((0, 4)), r"`source` is empty: it has shape \(0, 4\)"),
        (np.zeros((4, 0)), r"is empty"),
        ([[1, 2], [3]], r"rows of different lengths"),
        ("imagenet", r"one of digits, mnist, cifar2, the path.*got 'imagenet'"),
        ("absent.npy", r"'absent\.npy', which does not exist"),
    ],
)
def test_wrong_sources_are_refused(source, message) -> None:
    with pytest.raises(ValueError, match=message):
        load_inputs(source)


@pytest.mark.parametrize(
    "source",
    [
        np.array([[1, None]], dtype=object),
        [["1", "2"]],
        np.ones((2, 2), complex),
        {"x": 1},
    ],
)
def test_what_is_not_a_number_is_refused(source) -> None:
    with pytest.raises(TypeError, match=r"`source` must be an array of real numbers; got"):
        load_inputs(source)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"holds no rows of numbers"),
        ("a,b\n", r"holds no rows of numbers"),
        ("1,b\n3,4\n", r"first line .* mixes numbers with text \('b'\)"),
        ("1,2\n3\n", r"as many on every line"),
        ("1,2\n3,x\n", r"reading failed: could not convert string 'x'"),
    ],
)
def test_csv_files_that_are_no_tables_are_refused(text, message, tmp_path) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_inputs(tmp_path / "x.csv")


def test_npy_files_that_are_no_tables_are_refused(tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"could not be read as an array of numbers"):
        load_inputs(tmp_path / "x.npy")
    (tmp_path / "empty.npy").write_bytes(b"")
    with pytest.raises(ValueError, match=r"could not be read"):
        load_inputs(tmp_path / "empty.npy")


def test_a_bad_number_of_samples_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"`samples` must be a whole number of at least 1 or None; got"
    ):
        load_inputs(TABLE, samples=0)


def test_more_samples_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match=r"asks for 5 samples, but the source has 4"):
        load_inputs(TABLE, samples=5)


def test_a_bad_seed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`seed` must be a whole number of at least 0; got"):
        load_inputs(TABLE, samples=2, seed=-1)


@pytest.mark.parametrize("table", [np.ones((3, 2)), np.array([[1.0, 2.0]]), 1e200 * TABLE])
def test_a_source_without_spread_cannot_be_standardised(table) -> None:
    with pytest.raises(ValueError, match=r"`standardize` needs inputs that differ"):
        load_inputs(table, standardize=True)


# Labels


def test_labels_belong_to_their_images() -> None:
    from sklearn.datasets import load_digits

    x, labels = load_labelled("digits", samples=7, seed=3)
    np.testing.assert_array_equal(x, load_inputs("digits", samples=7, seed=3))
    rows = np.random.default_rng(3).choice(1797, size=7, replace=False)
    np.testing.assert_array_equal(labels, load_digits(return_X_y=True)[1][rows])
    everything, all_labels = load_labelled("digits")
    assert everything.shape == (1797, 64)
    np.testing.assert_array_equal(np.unique(all_labels), np.arange(10))


def test_labels_of_archives(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SCALEWISE_DATA", str(tmp_path))
    images = np.arange(12).reshape(3, 2, 2)
    np.savez(tmp_path / "mnist.npz", train_images=images, train_labels=[[2], [0], [1]])
    np.testing.assert_array_equal(load_labelled("mnist")[1], [2, 0, 1])
    np.savez(tmp_path / "mnist.npz", train_images=images)
    with pytest.raises(ValueError, match="must hold an array called 'train_labels'; it holds tra"):
        load_labelled("mnist")
    for labels in ([0, 1], [0.5, 1.0, 2.0], [-1, 0, 1]):
        np.savez(tmp_path / "mnist.npz", train_images=images, train_labels=labels)
        with pytest.raises(ValueError, match="one whole number of at least 0 for each of 3 images"):
            load_labelled("mnist")


def test_a_source_without_labels_is_refused() -> None:
    with pytest.raises(
        ValueError, match="`source` must be 'digits', 'mnist' or 'cifar2'; got 'letters'"
    ):
        load_labelled("letters")


# Tasks


def test_a_task_has_the_named_classes_and_no_sample_twice() -> None:
    x, labels = load_labelled("digits")
    place = {row.tobytes(): label for row, label in zip(x, labels, strict=True)}
    task = load_task("digits:8,3", train=50, test=40, seed=1)
    rows = np.concatenate([task.inputs, task.test_inputs])
    assert len(np.unique(rows, axis=0)) == 90
    assert task.test_targets is not None
    for row, target in zip(rows, [*task.targets, *task.test_targets], strict=True):
        assert place[row.tobytes()] == (3 if target[0] < 0 else 8)
    everything = load_task("digits", train=100, test=10)
    assert everything.targets.shape == (100, 10)
    other = load_task("digits:8,3", train=50, test=40, seed=2)
    assert not np.array_equal(task.inputs, other.inputs)


def test_a_task_that_cannot_be_drawn_is_refused() -> None:
    for source, train, sentence in (
        ("letters", 5, "must name a data set with classes, digits, mnist or cifar2"),
        ("digits:3,x", 5, "names the class 'x', which 'digits' does not have"),
        ("digits:3", 5, "names one class alone"),
        ("digits:3,8", 500, "ask for 505 samples, but 'digits:3,8' has 357"),
        ("digits", 3, "there is none of class 0, which is among the test samples"),
    ):
        with pytest.raises(ValueError, match=sentence):
            load_task(source, train=train, test=5)
