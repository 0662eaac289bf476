"""Property: a warning points at the line that called the package, from whatever depth it comes."""

import json
import subprocess
import sys
from pathlib import Path

CALLS = """
import functools
import json
import warnings

import numpy as np

import scalewise as sw
from scalewise._warn import warn

x, y = np.eye(3), np.ones((3, 1))
narrow = sw.MLP(2, 2, "tanh", input_dim=3, output_dim=1)
norm = sw.Network(sw.Dense(), sw.LayerNorm(), "tanh", sw.Dense(1), input_shape=3, width=12)
close = sw.Task(np.concatenate([x, x[:1] + 1e-5]), np.ones((4, 1)), test_inputs=2 * x)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    sw.predict(norm, x, observables="four_point_vertex")  # here
    sw.predict_training(narrow, sw.Task(x, y, test_inputs=2 * x), observables="all")  # here
    sw.predict_training(narrow, close, sw.training.Bayes())  # here
    functools.partial(warn, "Something is so.")()  # here
print(json.dumps([[one.filename, one.lineno] for one in found]))
"""


def test_a_warning_is_at_the_line_of_the_caller(tmp_path: Path) -> None:
    """In a process of its own, where nothing stands between a caller and the package."""
    script = tmp_path / "calls.py"
    script.write_text(CALLS)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    lines = [n for n, line in enumerate(CALLS.splitlines(), 1) if line.endswith("# here")]
    assert json.loads(done.stdout.splitlines()[-1]) == [[str(script), line] for line in lines]
