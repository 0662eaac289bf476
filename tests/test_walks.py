"""Agreement: the walks that the architecture page draws are the ways that calls take."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# In a process of its own: what a test before has cached is not entered again.
CALLS = """
import json
import sys
from pathlib import Path

import numpy as np
import torch
import xarray as xr

import scalewise as sw
from scalewise import measure, measure_training, predict, predict_training
from scalewise.limits import SGD, Lazy, Network, train
from scalewise.sweeps import sweep
from scalewise.tasks import Task
from scalewise.training import GradientDescent

HOME = str(Path(sw.__file__).parent) + "/"


def entered(call):
    files = {}

    def note(frame, event, _):
        name = frame.f_code.co_filename
        if name.startswith(HOME):
            files.setdefault(name.removeprefix(HOME))

    sys.settrace(note)  # which, other than a profile, is not told of returns and of what is written in C
    try:
        call()
    finally:
        sys.settrace(None)
    return list(files)


def build(width):
    return torch.nn.Sequential(
        torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 2)
    )


x = np.random.default_rng(0).standard_normal((3, 4))
net = sw.MLP(3, 16, "tanh", input_dim=4, output_dim=2).at_criticality()
wide, lesson = net.at_width(10**4), Task(x[:2], np.ones((2, 2)), test_inputs=x[:1] + 1)
limit, task = Network(sw.scaling.mup(depth=3), "tanh"), Task(x, np.ones(3))
plan = sw.torch.plan(build, base={"width": 16}, target={"width": 64}, optimizer="adam",
                     strategy=sw.scaling.mup())
batch = torch.randn(8, 4), torch.randn(8, 2)


def loss(model, batch):
    return ((model(batch[0]) - batch[1]) ** 2).mean()


walks = {
    "predict": entered(lambda: predict(net, x)),
    "measure": entered(lambda: measure(net, x, networks=16, progress=False)),
    "predict_training": entered(
        lambda: predict_training(wide, lesson, GradientDescent(), observables="all")
    ),
    "measure_training": entered(
        lambda: measure_training(
            net, lesson, GradientDescent(0.02, 5), networks=8, progress=False
        )
    ),
    "train": entered(lambda: train(limit, task, SGD(0.5), steps=2, on=Lazy(64, replicas=2))),
    "verify": entered(
        lambda: plan.verify(batch, loss, widths=[16, 32, 64], seeds=2, progress=False)
    ),
    "sweep": entered(
        lambda: sweep(lambda seed: xr.Dataset({"seed_twice": 2 * seed}), {"seed": [1, 2]}, store="run")
    ),
}
print(json.dumps(walks))
"""


def test_walks_are_taken_in_the_order_drawn(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawn = re.findall(r"^`(?:plan\.)?(\w+)\([^\n]*:\n\n```walk\n(.*?)```", page, flags=re.M | re.S)
    call = [sys.executable, "-c", CALLS]
    done = subprocess.run(call, capture_output=True, text=True, check=True, cwd=tmp_path)
    taken = json.loads(done.stdout)
    assert [verb for verb, _ in drawn] == list(taken)
    for verb, lines in drawn:
        files = [line.split()[0] for line in lines.splitlines()]
        assert len(files) > 7
        assert files == [file for file in taken[verb] if file in files], verb
