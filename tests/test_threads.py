"""Property of the limit on BLAS threads: it holds for every library that a computation meets."""

import os
import subprocess
import sys

import pytest

# In a process of its own: what this one has loaded says nothing of the order of a user's imports.
SCRIPT = """
import numpy as np
import scalewise as sw
from scalewise._threads import blas_threads_for
from threadpoolctl import threadpool_info
def threads():
    return {i["filepath"]: i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}
with blas_threads_for():
    net = sw.MLP(3, 8, "tanh", input_dim=2, output_dim=1)
    sw.predict(net, np.eye(2), observables="all")
    sw.measure(net, np.eye(2), networks=4, observables=["kernel", "ntk"], progress=False)
    inside = threads()
print(max(inside.values()), max(threads().values()))
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="One processor has one thread anyway.")
def test_every_blas_has_one_thread_inside():
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    environment["MKL_NUM_THREADS"] = "2"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.split() == ["1", "2"]
