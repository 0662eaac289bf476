"""Property tests: a run that is stopped, or killed, goes on to the same numbers."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import scalewise as sw
from scalewise.nets import measure

NET = sw.MLP(3, 6, "tanh", input_dim=2, output_dim=1)
X = np.array([[1.0, 0.5], [-0.2, 0.8]])
# Two ensembles: the kernel's, and the NTK statistics'.
NAMES = ["kernel", "four_point_vertex", "ntk_A"]
ARGUMENTS = {"networks": 400, "seed": 5, "memory": "100 kB", "observables": NAMES}


class Stop(Exception):
    pass


def stop_after(networks):
    def progress(done, total):
        assert done <= total
        if done >= networks:
            raise Stop

    return progress


def run(store=None, progress=False, net=NET, x=X, **changes):
    return measure(net, x, **{**ARGUMENTS, **changes}, store=store, progress=progress)


def test_a_stopped_run_is_resumed_bit_for_bit(tmp_path):
    whole = run()
    store = tmp_path / "run"
    seen = []
    for networks in (1, 300, 500):  # in the first ensemble, again, and in the second
        with pytest.raises(Stop):
            run(store, stop_after(networks))
    resumed = run(store, lambda done, total: seen.append((done, total)))
    assert seen[0][0] == 400  # the first ensemble was complete
    assert seen[-1] == (800, 800)
    xr.testing.assert_identical(resumed, whole)
    # Once complete, nothing is drawn again, and the result is a group of its own.
    again = []
    xr.testing.assert_identical(run(store, lambda *counts: again.append(counts)), whole)
    assert again == [(400, 800), (800, 800)]
    saved = xr.open_zarr(store, group="result", consolidated=False).load()
    xr.testing.assert_equal(saved, whole)
    assert saved.attrs["seed"] == 5


CHILD = """
import os, signal, sys
import numpy as np
import scalewise as sw
from scalewise.nets import measure
from scalewise.sweeps import _store

publish, saves = os.replace, [0]
def replace(source, target):
    saves[0] += str(target).endswith(".npz")
    if saves[0] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    publish(source, target)
_store.os.replace = replace
net = sw.MLP(3, 6, "tanh", input_dim=2, output_dim=1)
x = np.array([[1.0, 0.5], [-0.2, 0.8]])
names = ["kernel", "four_point_vertex", "ntk_A"]
measure(net, x, networks=400, seed=5, memory="100 kB", observables=names, store=sys.argv[1],
        progress=False)
"""


def test_a_killed_run_is_resumed_bit_for_bit(tmp_path):
    whole = run()
    store = tmp_path / "run"
    child = subprocess.run([sys.executable, "-c", CHILD, str(store)], check=False)
    assert child.returncode == -signal.SIGKILL
    assert list(store.rglob("*.part")), "killed before the rename, leaving its scraps"
    assert (store / "writing.json").exists(), "whoever was killed has claimed it still"
    xr.testing.assert_identical(run(store), whole)
    assert not (store / "writing.json").exists()


def test_every_part_of_an_ensemble_is_resumed(tmp_path):
    names = ["ntk_A", "ntk_B", "ntk_F", "dntk_P", "ddntk_S"]
    net = sw.MLP(2, 6, "tanh", input_dim=2, output_dim=1)
    options = {"observables": names, "networks": 60, "net": net}
    whole = run(**options)
    store = tmp_path / "run"
    for stop in (1, 40, 80):
        with pytest.raises(Stop):
            run(store, stop_after(stop), **options)
    xr.testing.assert_identical(run(store, **options), whole)
    with pytest.raises(ValueError, match="observables: "):
        run(store, **options | {"observables": names[1:]})


def test_other_arguments_are_refused(tmp_path):
    store = tmp_path / "run"
    with pytest.raises(Stop):
        run(store, stop_after(1))
    with pytest.raises(ValueError, match=r"other arguments \(seed: 5 there, 6 here\)"):
        run(store, seed=6)
    with pytest.raises(ValueError, match="networks: 400 there, 500 here"):
        run(store, networks=500)
    with pytest.raises(ValueError, match="inputs: "):
        run(store, x=2 * X)
    with pytest.raises(ValueError, match=r"C_W: \[1.0, 1.0, 1.0\] there"):
        run(store, net=sw.MLP(3, 6, "tanh", input_dim=2, output_dim=1, C_W=1.5))


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="`store` must be a new path or the store of an earlier"):
        run(tmp_path)
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_store_in_a_folder_yet_to_be_made(tmp_path):
    run(Path(tmp_path) / "new" / "run", networks=8)
    assert (tmp_path / "new" / "run" / "result").is_dir()
