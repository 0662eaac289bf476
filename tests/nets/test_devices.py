"""Property tests: an ensemble does not depend on how many devices share it, and every device has a part."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import many_devices
import scalewise
from grids import thorough
from many_devices import LAYERS, MEMORY, by_jax, run
from scalewise.nets import _devices, _random, _sampler

# Bits are compared as users have them.
pytestmark = pytest.mark.optimised
DEVICES = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What four devices found, one store of which was begun on one."""
    folder = tmp_path_factory.mktemp("devices")

    def stop(done, _total):
        if done > 30:  # in the second ensemble
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(store=folder / "store", progress=stop)
    flags = f"--xla_force_host_platform_device_count={DEVICES} --xla_dump_to={folder / 'compiled'}"
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    environment["PYTHONPATH"] = str(Path(scalewise.__file__).parents[1])  # that which is tested
    subprocess.run(
        [sys.executable, many_devices.__file__, str(folder)],
        env={
            **environment,
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}",
            "JAX_PLATFORMS": "cpu",
        },
        check=True,
    )
    return folder


def test_four_devices_find_what_one_finds(folder: Path) -> None:
    # Bit for bit: what is compiled for a network does not know how many stand beside it. Only the steps along
    # gradients are vectorised over networks on some processors, which rounds their sums in another order.
    one = many_devices.arrays(many_devices.cases())
    whole = {name: a for name, a in one.items() if name.startswith("float32/")}
    one |= {name.replace("float32/", "resumed/"): a for name, a in whole.items()}
    alone = {n: a for n, a in one.items() if n.startswith("by jax, float32/")}
    one |= {name.replace("by jax, float32/", "on the second/"): a for name, a in alone.items()}
    with np.load(folder / "found.npz") as four:
        assert set(four.files) == set(one)
        different = [name for name in one if not np.array_equal(one[name], four[name])]
        rounding = {n for n in one if n.startswith("differentials/z_dntk")}
        for name in rounding:
            largest = float(np.abs(one[name]).max())
            np.testing.assert_allclose(four[name], one[name], rtol=0, atol=2e-7 * largest)
    assert set(different) <= rounding


def test_every_device_has_an_equal_part_within_the_memory(folder: Path) -> None:
    seen = json.loads((folder / "seen.json").read_text())
    faults, sizes = [], set()
    for batch in seen["several"]:
        parts = list(batch["networks"].values())
        sizes.add(sum(parts))
        if len(parts) != DEVICES or len(set(parts)) != 1:
            faults.append(f"uneven: {batch}")
        # In all no more than the budget but for what fills up the last device.
        if parts[0] > 1 and (sum(parts) - DEVICES + 1) * batch["bytes"] > MEMORY:
            faults.append(f"too large: {batch}")
    assert not faults
    modules = {batch["module"].rsplit("_", 1)[1] for batch in seen["several"]}
    assert modules == {"sampler", "families"}
    assert len(sizes) > 1
    assert {tuple(batch["networks"]) for batch in seen["second"]} == {("1",)}


def test_devices_do_not_talk(folder: Path) -> None:
    # Of every program that was compiled for all of them.
    programs = [p.read_text() for p in (folder / "compiled").glob("*after_optimizations.txt")]
    shared = [text for text in programs if f"num_partitions={DEVICES}" in text]
    words = r"all-gather|all-reduce|all-to-all|collective-\w+|reduce-scatter"
    assert len(shared) > 20
    assert not [text.split(",")[0] for text in shared if re.search(words, text)]


def test_no_product_takes_a_short_cut(folder: Path) -> None:
    # A processor knows none; what an accelerator may do, a program says itself.
    programs = [p.read_text() for p in (folder / "compiled").glob("*before_optimizations.txt")]
    products = [line for text in programs for line in text.splitlines() if " dot(" in line]
    assert len(products) > 50
    assert not [line for line in products if "operand_precision={highest,highest}" not in line]


@pytest.mark.parametrize("dtype", ["float64", *thorough("float32")])
def test_an_accelerator_finds_the_same_from_the_same_numbers(monkeypatch, dtype) -> None:
    accelerated = by_jax(run, LAYERS, dtype=dtype)

    def threefry(keys, **options):
        return np.asarray(by_jax(_random.normals, keys, **options))

    monkeypatch.setattr(_sampler, "philox", threefry)
    host = run(LAYERS, dtype=dtype)
    # Three layers of sums of six terms, then covariances of what differs by a fifth of its size.
    for name in host.data_vars:
        scale = float(np.abs(host[name]).max())
        np.testing.assert_allclose(
            accelerated[name], host[name], rtol=0, atol=100 * np.finfo(dtype).eps * scale
        )
    assert accelerated.attrs["random_numbers"] == "threefry"


def test_the_two_generators_agree_within_their_errors() -> None:
    host, accelerated = run(LAYERS, 4000), by_jax(run, LAYERS, 4000)
    for name in LAYERS:
        sem = np.hypot(host[f"{name}_sem"], accelerated[f"{name}_sem"]).values[1:]
        difference = (host[name] - accelerated[name]).values[1:]
        np.testing.assert_array_less(np.abs(difference), 4.5 * sem)
        assert np.all(difference != 0)


def test_a_store_is_of_one_generator(tmp_path: Path) -> None:
    run("kernel", store=tmp_path / "store")
    with pytest.raises(ValueError, match="random_numbers: 'philox' there, 'threefry' here"):
        by_jax(run, "kernel", store=tmp_path / "store")
    assert _devices.on_host()
