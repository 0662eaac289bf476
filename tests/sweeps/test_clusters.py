"""The same bits in one process and on workers, whoever is killed, whenever."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import xarray as xr
from distributed import Client, KilledWorker

from grids import thorough
from scalewise.sweeps import SweepError, _engines, sweep
from scalewise.sweeps._outcomes import CellOutcome, CellSetting, attempt

GRID = {"width": [8, 16, 32], "seed": range(4)}


def spectrum(width: int, seed: int, log: str = "", slow: float = 0.0) -> xr.Dataset:
    """Sums whose last digits depend on how they are made."""
    if log:
        with open(log, "a") as file:
            file.write(f"{width} {seed}\n")
    time.sleep(slow)
    w = np.random.default_rng([width, seed]).normal(size=(width, 400)) / 20
    values = np.linalg.eigvalsh(w @ w.T)
    return xr.Dataset(
        {"largest": values[-1], "moments": ("k", [np.mean(values**k) for k in (1, 2, 3)])}
    )


def bare(found: xr.Dataset) -> xr.Dataset:
    return found.drop_vars(["cell_seconds", "cell_worker", "cell_error"]).load()


# Of the clusters here: a cell dies twice before it is set aside, and workers are forked from one that has imported.
SETTINGS = {
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
    "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
}


def environment() -> dict[str, str]:
    """For processes of their own: the package, and this file, as they are here."""
    here = [str(Path(__file__).parent), *filter(None, sys.path)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(here),
        "DASK_LOGGING__DISTRIBUTED": "critical",
    }


class Cluster:
    """A scheduler and workers, started by hand."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen] = []
        self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", ":0",
                   "--scheduler-file", str(self.file))  # fmt: skip
        while not self.file.exists() or not self.file.read_text().strip():
            time.sleep(0.05)
        self.client = Client(scheduler_file=str(self.file), set_as_default=False)
        self.address = self.client.scheduler.address

    def start(self, kind: str, *options: str) -> None:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options]
        self.processes.append(subprocess.Popen(command, env=environment() | SETTINGS))

    def workers(self, count: int, threads: int = 1) -> None:
        missing = count - len(self.client.nthreads())
        if missing > 0:
            self.start("worker", self.address, f"--nworkers={missing}", f"--nthreads={threads}", "--no-dashboard",
                       "--death-timeout=20", "--local-directory", str(self.file.parent))  # fmt: skip
        self.client.wait_for_workers(count, timeout=60)

    def close(self) -> None:
        self.client.close()
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import what the process that asks has imported; these cells need neither JAX nor PyTorch."""
    monkeypatch.setattr(CellSetting, "here", classmethod(lambda cls: cls(None, None)))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    own = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield own
    finally:
        own.close()


def suicidal(width: int, seed: int, folder: str) -> xr.Dataset:
    """Kills the process it runs in, once at one place and always at another."""
    once = Path(folder) / "once"
    if (width, seed) == (16, 1) and not once.exists():
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if (width, seed) == (32, 0):
        os.kill(os.getpid(), signal.SIGKILL)
    return spectrum(width, seed)


def suspected(width: int, seed: int) -> xr.Dataset:
    """Kills the process it runs in at one place, once the cell beside it has begun."""
    if (width, seed) == (32, 0):
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    return spectrum(width, seed, slow=0.4)


@pytest.mark.thorough("test_of_cells_that_died_together_each_is_tried_alone")
def test_a_cell_beside_one_that_kills_is_not_blamed(tmp_path: Path) -> None:
    own = Cluster(tmp_path)
    try:
        own.workers(1, threads=2)
        with pytest.raises(SweepError, match=r"1 of 4 .* width=32, seed=0: KilledWorker") as error:
            sweep(suspected, {"width": [32, 8], "seed": [0, 1]}, client=own.address)
    finally:
        own.close()
    assert (error.value.result.cell_error.values == "").sum() == 3


def test_of_cells_that_died_together_each_is_tried_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where others are under way two cells die, and one of them alone."""
    cluster.workers(1)
    alone = []

    class Under(NamedTuple):
        """A cell under way."""

        cell: int
        ahead: int

        def result(self) -> CellOutcome:
            if self.cell == 2 or (self.cell == 1 and self.ahead > 1):
                raise KilledWorker(f"cell {self.cell}", SimpleNamespace(address="a worker"), 3)
            return attempt(spectrum, self.cell, {"width": 8, "seed": self.cell}, CellSetting.here())

    def ended(function, cells, ahead, client, setting):
        for given in cells:
            alone.extend([given[0]] * (ahead == 1))
            yield given, Under(given[0], ahead)

    monkeypatch.setattr(_engines, "_ended", ended)
    with pytest.raises(SweepError, match=r"1 of 4 .* seed=2: KilledWorker") as error:
        sweep(spectrum, {"width": [8], "seed": range(4)}, client=cluster.client)
    assert alone == [1, 2]
    assert (error.value.result.cell_error.values == "").tolist() == [[True, True, False, True]]


# As many workers as are there, so the most come last.
@pytest.mark.parametrize("workers", [2, *thorough(1, 4)])
def test_the_same_bits_on_any_number_of_workers(
    workers: int, cluster: Cluster, tmp_path: Path
) -> None:
    whole = sweep(spectrum, GRID, client=0)
    turned = {"seed": [3, 1, 0, 2], "width": [32, 8, 16]}
    cluster.workers(workers)
    given = cluster.client if workers == 2 else cluster.address
    found = sweep(spectrum, turned, client=given, store=tmp_path / "run")
    back = found.transpose("width", "seed", ...).sel(seed=[*GRID["seed"]], width=GRID["width"])
    xr.testing.assert_identical(bare(back), bare(whole))
    assert 1 <= len(set(found.cell_worker.values.flat)) <= len(cluster.client.nthreads())
    assert f":{os.getpid()}" not in "".join(found.cell_worker.values.flat)


def test_the_same_bits_when_some_workers_die(cluster: Cluster, tmp_path: Path) -> None:
    cluster.workers(2)
    whole = sweep(spectrum, GRID, client=0)
    with pytest.raises(SweepError, match=r"1 of 12 .* width=32, seed=0: KilledWorker") as error:
        sweep(
            partial(suicidal, folder=str(tmp_path)),
            GRID,
            client=cluster.address,
            store=tmp_path / "dead",
        )
    rest = error.value.result
    assert (tmp_path / "once").exists()
    wrong = rest.cell_error.values != ""
    assert np.isnan(rest.moments.values[wrong]).all()
    np.testing.assert_array_equal(rest.moments.values[~wrong], whole.moments.values[~wrong])


CHILD = """
import sys
from functools import partial
from test_clusters import GRID, spectrum
from scalewise.sweeps import sweep

store, log, client = sys.argv[1:]
sweep(partial(spectrum, log=log, slow=0.1), GRID, store=store, client=client or 0,
      progress=lambda done, of: print(done, flush=True))
"""


@pytest.mark.parametrize("spread", [True, *thorough(False)])
def test_a_killed_client_is_resumed_and_nothing_finished_is_computed_twice(
    spread: bool, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.workers(2)
    store, log = tmp_path / "run", tmp_path / "log"
    command = [sys.executable, "-c", CHILD, str(store), str(log), cluster.address if spread else ""]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            finished = int(line)
            if finished >= 5:
                os.kill(process.pid, signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    kept = {int(p.stem) for p in (store / "cells").glob("[0-9]*.json")}
    assert len(kept) >= finished
    time.sleep(0.3)  # cells that workers had begun
    before, seen = log.read_text(), []
    cell = partial(spectrum, log=str(log), slow=0.1)
    found = sweep(cell, GRID, store=store, progress=lambda done, of: seen.append((done, of)),
                  client=cluster.client if spread else 0)  # fmt: skip
    assert seen[0] == (len(kept), 12)
    assert seen[-1] == (12, 12)
    again = log.read_text()[len(before) :].splitlines()
    places = [(w, s) for w in GRID["width"] for s in GRID["seed"]]
    assert sorted(again) == sorted(f"{w} {s}" for k, (w, s) in enumerate(places) if k not in kept)
    xr.testing.assert_identical(bare(found), bare(sweep(spectrum, GRID, client=0)))


SCRIPT = """
import scalewise as sw, xarray as xr

FACTOR = 3

def cell(seed):
    return xr.Dataset({"y": FACTOR * seed})

found = sw.sweep(cell, {"seed": range(6)}, client=2)
print(found.y.values.tolist(), len(set(found.cell_worker.values)) <= 2)
"""


def test_a_script_without_a_guard_can_use_the_cores_of_its_machine(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    child = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment(), text=True,
                           capture_output=True, check=True)  # fmt: skip
    assert child.stdout.split("\n")[0] == "[0, 3, 6, 9, 12, 15] True"
    assert child.stderr == ""


def test_an_interrupt_leaves_what_is_finished_and_nothing_else(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster.workers(1)

    def interrupt(done: int, of: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    cell = partial(spectrum, slow=0.05)
    with pytest.raises(KeyboardInterrupt):
        sweep(cell, GRID, store=tmp_path / "run", client=cluster.address, progress=interrupt)
    assert len([*(tmp_path / "run" / "cells").iterdir()]) == 5
    assert not (tmp_path / "run" / "writing.json").exists()
    assert capfd.readouterr().err == ""
    whole = sweep(cell, GRID, store=tmp_path / "run", client=cluster.client)
    xr.testing.assert_identical(bare(whole), bare(sweep(spectrum, GRID, client=0)))


def test_a_cell_that_cannot_be_sent_is_told(cluster: Cluster, tmp_path: Path) -> None:
    cluster.workers(1)
    with (
        open(tmp_path / "held", "w") as held,
        pytest.raises(ValueError, match="`cell` cannot be sent to another process"),
    ):
        sweep(lambda width, seed: held, GRID, client=cluster.address)


WORKER = """
import os, sys
kind = sys.argv.pop(1)
if kind == "absent":
    sys.modules["scalewise"] = None  # as if it were not installed
elif kind == "dying":
    class Deadly:
        def find_spec(self, name, path=None, target=None):
            if name.startswith("scalewise"):
                os._exit(3)
    sys.meta_path.insert(0, Deadly())
else:
    import scalewise._version
    scalewise._version.__version__ = "9.9"
from distributed.cli.dask_worker import main
main()
"""


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("another", r"other versions \(scalewise 9.9 there, \S+ here\)"),
        *thorough(
            ("dying", r"the worker at tcp://.* died, or could not be reached"),
            ("absent", r"the worker at tcp://.* cannot import scalewise"),
        ),
    ],
)
def test_workers_that_would_compute_something_else_are_refused(
    cluster: Cluster, kind: str, sentence: str
) -> None:
    """Among workers that would not."""
    right = set(cluster.client.nthreads())
    options = [kind, cluster.address, "--no-nanny", "--no-dashboard", "--death-timeout=20"]
    worker = subprocess.Popen([sys.executable, "-c", WORKER, *options], env=environment())
    try:
        cluster.client.wait_for_workers(len(right) + 1, timeout=60)
        with pytest.raises(ValueError, match=sentence):
            sweep(spectrum, GRID, client=cluster.address)
    finally:
        worker.terminate()
        worker.wait()
    while set(cluster.client.nthreads()) - right:
        time.sleep(0.05)
