"""A sweep is the table of what its cell gives: labelled, whole or with its gaps told, and asked for once."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import scalewise as sw
from grids import each
from scalewise.sweeps import SweepError, sweep


def waves(n: int, shift: float = 0.0, kind: str = "sin") -> xr.Dataset:
    """Every kind of variable that a sweep keeps."""
    x = np.linspace(0, 1, 5) + shift
    y = getattr(np, kind)(n * x)
    return xr.Dataset(
        {
            "y": ("x", y, {"units": "1"}),
            "z": ("x", y + 1j),
            "small": ("x", y.astype(np.float32)),
            "count": n,
            "positive": ("x", y > 0),
            "name": f"{kind} {n}",
        },
        {"x": np.arange(5), "place": ("x", x + y), "top": y.max()},
        {"kind": kind, "n": n, "always": [1, 2]},
    )


GRID: dict[str, Any] = {"n": [3, 1, 2], "kind": ["sin", "cos"]}


def by_hand(grid: dict[str, Any], cell: Any = waves) -> xr.Dataset:
    """The same by xarray alone."""
    parts = [
        xr.concat([cell(n=n, kind=kind) for kind in grid["kind"]], "kind", combine_attrs="drop")
        for n in grid["n"]
    ]
    whole = xr.concat(parts, "n", combine_attrs="drop")
    return whole.assign_coords(n=grid["n"], kind=grid["kind"])


@pytest.mark.parametrize("stored", [False, True])
def test_it_is_what_a_loop_gives(stored: bool, tmp_path: Path) -> None:
    store = tmp_path / "run" if stored else None
    found = sweep(waves, GRID, store=store)
    told = ["cell_seconds", "cell_worker", "cell_error"]
    assert (found.cell_error == "").all()
    assert (found.cell_seconds >= 0).all()
    assert found.attrs["always"] == [1, 2]
    assert "n" not in found.attrs  # not alike in all cells
    assert found.y.attrs == {"units": "1"}
    xr.testing.assert_equal(found.drop_vars(told), by_hand(GRID))
    for name, variable in waves(1).variables.items():
        assert found[name].dtype.kind in (variable.dtype.kind, "T"), name
    assert found.small.dtype == np.float32
    if stored:
        again = sweep(waves, GRID, store=store)
        xr.testing.assert_identical(again.load(), found.load())
        opened = xr.open_zarr(tmp_path / "run" / "data", consolidated=False)
        xr.testing.assert_equal(opened.load(), found.drop_vars(told).load())


def test_nothing_finished_is_computed_again(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def counted(n: int, kind: str, log: str) -> xr.Dataset:
        with open(log, "a") as file:
            file.write(f"{n} {kind}\n")
        if n == 1 and not Path(log).with_name("mended").exists():
            raise RuntimeError("no ones today")
        return waves(n, kind=kind)

    ask = partial(sweep, partial(counted, log=str(log)), GRID, store=tmp_path / "run")
    with pytest.raises(
        SweepError, match=r"2 of 6 cells raised; the first, at n=1, kind='sin': Runt"
    ) as error:
        ask()
    part = error.value.result
    assert np.isnan(part.y.sel(n=1)).all()
    assert np.isnan(part["count"].sel(n=1)).all()
    assert part.positive.sel(n=1).isnull().all()
    assert part["count"].sel(n=3, kind="cos") == 3
    assert part.cell_error.sel(n=1, kind="cos").item() == "RuntimeError: no ones today"
    assert len(log.read_text().splitlines()) == 6
    xr.testing.assert_identical(ask(throw=False).load(), part.load())  # an error is kept, too
    assert len(log.read_text().splitlines()) == 6
    (tmp_path / "mended").touch()
    whole = ask(retry=True)
    assert log.read_text().splitlines()[6:] == ["1 sin", "1 cos"]
    xr.testing.assert_equal(
        whole.drop_vars(["cell_seconds", "cell_worker", "cell_error"]), by_hand(GRID)
    )
    told = json.loads((tmp_path / "run" / "cells" / "0.json").read_text())
    assert told["at"] == {"n": 3, "kind": "sin"}
    assert told["versions"]["scalewise"] == sw.__version__
    assert told["seconds"] >= 0


def test_a_cell_may_give_labels_another_meaning(tmp_path: Path) -> None:
    shapes = {"narrow": sw.MLP(2, 4, "relu", input_dim=1, output_dim=1),
              "wide": sw.MLP(2, 64, "tanh", input_dim=1, output_dim=1)}  # fmt: skip

    def width(net: sw.Network) -> xr.DataArray:
        return xr.DataArray(float(net.widths[1]))

    found = sweep(width, {"net": shapes}, store=tmp_path / "run")
    assert found.value.sel(net="wide") == 64
    other = {**shapes, "wide": shapes["wide"].replace(C_b=0.5)}
    with pytest.raises(ValueError, match="other arguments"):
        sweep(width, {"net": other}, store=tmp_path / "run")


def test_a_cell_saves_on_the_way_in_a_place_of_its_own(tmp_path: Path) -> None:
    def halves(seed: int, store: str | None = None) -> xr.Dataset:
        assert store is not None
        half = Path(store)
        if not half.exists():
            half.mkdir(parents=True)
            raise RuntimeError("half done")
        return xr.Dataset({"seed_twice": 2 * seed})

    with pytest.raises(SweepError):
        sweep(halves, {"seed": range(3)}, store=tmp_path / "run")
    found = sweep(halves, {"seed": range(3)}, store=tmp_path / "run", retry=True)
    assert found.seed_twice.values.tolist() == [0, 2, 4]
    assert not [*(tmp_path / "run" / "partial").iterdir()]


def test_any_order_of_the_grid_gives_the_same_numbers() -> None:
    one = sweep(waves, GRID)
    other = sweep(waves, {"kind": ["cos", "sin"], "n": [1, 2, 3]})
    told = ["cell_seconds", "cell_worker"]
    turned = other.transpose("n", "kind", ...).sel(n=GRID["n"], kind=GRID["kind"])
    xr.testing.assert_equal(one.drop_vars(told), turned.drop_vars(told))


def uneven(depth: int) -> xr.Dataset:
    return xr.Dataset({"kernel": ("layer", np.ones(depth))})


def moved(seed: int) -> xr.Dataset:
    return xr.Dataset({"y": ("x", [0.0])}, {"x": [seed]})


def grown(seed: int) -> xr.Dataset:
    return xr.Dataset({"y": 0.0, **({"more": 1.0} if seed else {})})


@each(
    ("cell", "grid", "sentence"),
    [
        (uneven, {"depth": [2, 4]}, "'kernel' has (layer: 4) here and (layer: 2) in the first"),
        (moved, {"seed": [0, 1]}, "differ in the coordinate 'x'"),
        (grown, {"seed": [0, 1]}, "more is not in all of them"),
        (lambda seed: 3.0, {"seed": [0]}, "must return a Dataset or a DataArray of xarray; got 3.0"),
        (lambda x: xr.Dataset({"y": ("x", [2.0])}), {"x": [1]}, "has 'x' itself"),
        (lambda seed: xr.Dataset({"y": ((), np.array(None, object))}), {"seed": [0]}, "of dtype object"),
    ],
)  # fmt: skip
def test_cells_that_do_not_fit_together_are_told(cell: Any, grid: Any, sentence: str) -> None:
    with pytest.raises(SweepError) as error:
        sweep(cell, grid)
    assert sentence in str(error.value)


def two(a: int, b: int = 0) -> xr.Dataset:
    return xr.Dataset({"sum": a + b})


@each(
    ("given", "options", "sentence"),
    [
        ([two, {}], {}, "`grid` must be a dictionary"),
        ([two, [1, 2]], {}, "`grid` must be a dictionary"),
        ([two, {"a": 3}], {}, "also of a single one: [3]"),
        ([two, {"a": "sin"}], {}, "also of a single one: ['sin']"),
        ([two, {"a": []}], {}, "at least one value"),
        ([two, {"a": [1, 2, 1]}], {}, "the value 1 more than once"),
        ([two, {"a": [float("nan")]}], {}, "must be numbers, or texts, or a dictionary"),
        ([two, {"a": [1, "b"]}], {}, "must be numbers, or texts, or a dictionary"),
        ([two, {"a": [two]}], {}, "{'mine': value}"),
        ([two, {"a": np.eye(2)}], {}, "must have one axis"),
        ([two, {"a b": [1]}], {}, "names of arguments; got 'a b'"),
        ([two, {"a": [1], "c": [1]}], {}, "does not take c of `grid`; it takes a or b"),
        ([two, {"b": [1]}], {}, "needs a, which `grid` does not have"),
        ([3, {"a": [1]}], {}, "`cell` must be a function; got 3"),
        ([two, {"a": [1]}], {"store": "file"}, "is neither. Choose another path"),
        ([two, {"a": [1]}], {"store": "folder"}, "is neither. Choose another path"),
        ([two, {"a": [1]}], {"client": 1.5}, "`client` must be a dask.distributed Client"),
        ([two, {"a": [1]}], {"client": "nowhere"}, "no scheduler answers at"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    given: list[Any], options: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir(exist_ok=True)
    (tmp_path / "folder" / "mine").touch()
    if "store" in options:
        options = {"store": tmp_path / options["store"]}
    with pytest.raises(ValueError) as error:  # noqa: PT011  the sentence is checked below
        sweep(*given, **options)
    assert sentence in str(error.value)
    assert [p.name for p in (tmp_path / "folder").iterdir()] == ["mine"]


SCALE = 1.0


def scaled(a: int) -> xr.Dataset:
    return xr.Dataset({"y": SCALE * a})


def test_a_store_of_another_sweep_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "run"
    sweep(scaled, {"a": [1, 2]}, store=store)
    with pytest.raises(ValueError, match=r"grid: {'a': \[1, 2\]} there, {'a': \[1, 3\]} here"):
        sweep(scaled, {"a": [1, 3]}, store=store)
    monkeypatch.setitem(scaled.__globals__, "SCALE", 2.0)
    with pytest.raises(ValueError, match="code: "):
        sweep(scaled, {"a": [1, 2]}, store=store)
    sweep(partial(two, b=3), {"a": [1, 2]}, store=tmp_path / "other")
    with pytest.raises(ValueError, match=r"other arguments \(b: 3 there, 4 here\)"):
        sweep(partial(two, b=4), {"a": [1, 2]}, store=tmp_path / "other")


def test_a_store_that_is_being_written_is_refused(tmp_path: Path) -> None:
    def meanwhile(*_: int) -> None:
        with pytest.raises(ValueError, match="is being written by process"):
            sweep(two, {"a": [1]}, store=tmp_path / "run")

    sweep(two, {"a": [1]}, store=tmp_path / "run", progress=meanwhile)


def test_a_full_disk_is_told_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scalewise.sweeps import _store

    write, full = _store.Store.write, [False]

    def limited(self: Any, name: str, data: bytes, *, durable: bool = True) -> None:
        if full[0] and name.startswith("cells/2"):
            raise OSError(28, "No space left on device")
        write(self, name, data, durable=durable)

    monkeypatch.setattr(_store.Store, "write", limited)
    full[0] = True
    with pytest.raises(OSError, match="make room, and the same call goes on"):
        sweep(two, {"a": range(4)}, store=tmp_path / "run", client=0)
    full[0], seen = False, []
    found = sweep(
        two, {"a": range(4)}, store=tmp_path / "run", client=0, progress=lambda *n: seen.append(n)
    )
    assert seen == [(2, 4), (3, 4), (4, 4)]
    assert found["sum"].values.tolist() == [0, 1, 2, 3]


def test_seeds_of_an_ensemble_are_pooled() -> None:
    """One cell split over seeds is one larger ensemble."""
    net, x = sw.MLP(3, 8, "tanh", input_dim=2, output_dim=1, C_W=1.5), np.eye(2)

    def part(seed: int) -> xr.Dataset:
        return sw.measure(net, x, networks=200, seed=seed, observables="kernel", progress=False)

    parts = sweep(part, {"seed": range(8)}, client=0)
    pooled = sw.nets.pooled(parts, "seed")
    whole = sw.measure(net, x, networks=1600, seed=100, observables="kernel", progress=False)
    z = (pooled.kernel - whole.kernel) / np.hypot(pooled.kernel_sem, whole.kernel_sem)
    assert float(abs(z[1:]).max()) < 4.5
    ratio = (pooled.kernel_sem / whole.kernel_sem)[1:]
    np.testing.assert_allclose(ratio, 1, rtol=0.15)
    assert pooled.attrs["networks"] == 1600
    assert sw.compare(sw.predict(net, x, observables="kernel"), pooled).passed


def test_no_clients_means_this_process_however_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from scalewise.sweeps import _engines

    monkeypatch.setattr(_engines, "_pays", lambda *_: True)
    found = sweep(two, {"a": range(3)}, client=0)
    assert {str(w).rpartition(":")[2] for w in found.cell_worker.values} == {str(os.getpid())}


def test_progress_is_a_function_or_a_truth() -> None:
    with pytest.raises(TypeError, match="`progress` must be a function, True, False or None"):
        sweep(lambda a: float(a), {"a": [1]}, progress="yes")  # pyright: ignore
