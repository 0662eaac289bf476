"""A store in a bucket is a store: a stand-in of S3 on this machine, and the requests that go to it."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import xarray as xr

import scalewise as sw
from scalewise.limits import words
from scalewise.sweeps import SweepError, sweep


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The address of an empty bucket of a server that ends with the tests."""
    import fsspec

    command = [sys.executable, "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with (
        subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        assert server.stderr is not None
        line = next(line for line in server.stderr if "http://127" in line)
        patch.setenv("AWS_ENDPOINT_URL", line.split()[-1])
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(key, "nobody")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").mkdir("runs")
        yield "s3://runs"
        server.terminate()


def cell(a: int, kind: str) -> xr.Dataset:
    if a == 2 and kind == "bad":
        raise ValueError("no twos")
    return xr.Dataset({"y": ("x", np.arange(3.0) * a), "kind_of_y": kind})


def test_a_sweep_in_a_bucket(bucket: str) -> None:
    grid = {"a": [1, 2], "kind": ["good", "bad"]}
    with pytest.raises(SweepError, match="no twos"):
        sweep(cell, grid, store=f"{bucket}/sweep")
    seen: list[tuple[int, int]] = []
    found = sweep(
        cell, grid, store=f"{bucket}/sweep", throw=False, progress=lambda *n: seen.append(n)
    )
    assert seen == [(4, 4)]  # nothing again
    here = sweep(cell, grid, throw=False)
    told = ["cell_seconds", "cell_worker"]
    xr.testing.assert_equal(found.drop_vars(told).load(), here.drop_vars(told))
    with pytest.raises(
        ValueError, match=f"`store` {bucket}/sweep holds a run with other arguments"
    ):
        sweep(cell, {**grid, "a": [1, 3]}, store=f"{bucket}/sweep")


def test_an_ensemble_and_a_chain_in_a_bucket(bucket: str) -> None:
    net = sw.MLP(3, 6, "tanh", input_dim=2, output_dim=1)
    options = {"networks": 60, "memory": "20 kB", "observables": "kernel"}
    whole = sw.measure(net, np.eye(2), **options)

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        sw.measure(net, np.eye(2), **options, store=f"{bucket}/ensemble", progress=stop)
    seen: list[int] = []
    resumed = sw.measure(net, np.eye(2), **options, store=f"{bucket}/ensemble",
                         progress=lambda done, of: seen.append(done))  # fmt: skip
    assert seen[0] > 30
    xr.testing.assert_identical(resumed, whole)
    tokens = np.random.default_rng(0).integers(12, size=4000)
    settings = words.Word2Vec(block=1000, batch=32, draws=8, subsample=np.inf)
    plain = words.train_words(words.limit(12), tokens, settings)
    words.train_words(words.limit(12), tokens, settings, store=f"{bucket}/words")
    again = words.train_words(words.limit(12), tokens, settings, store=f"{bucket}/words")
    np.testing.assert_array_equal(again.context, plain.context)
