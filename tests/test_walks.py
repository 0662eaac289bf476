"""Agreement: the walks that the architecture page draws are the ways that calls take."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = 10  # that a reader has open at once

# In a process of its own: what a test before has cached is not entered again.
CALLS = """
import json
import sys
from pathlib import Path

import numpy as np
import torch

import scalewise as sw
from scalewise.training import GradientDescent

HOME = str(Path(sw.__file__).parent) + "/"


def taken(call):
    steps, known = [], set()

    def note(frame, event, _):
        code, name = frame.f_code, frame.f_code.co_filename
        edge = code, frame.f_back.f_code
        if edge in known or not name.startswith(HOME):
            return
        known.add(edge)
        way = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(HOME):
                way.append(frame.f_code.co_filename.removeprefix(HOME))
            frame = frame.f_back
        steps.append(way)

    sys.settrace(note)  # which, other than a profile, is not told of returns and of what is written in C
    try:
        found = call()
    finally:
        sys.settrace(None)
    return steps, found


def build(width):
    return torch.nn.Sequential(
        torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 2)
    )


x = np.random.default_rng(0).standard_normal((3, 4))
net = sw.MLP(3, 16, "tanh", input_dim=4, output_dim=2).at_criticality()
wide, lesson = net.at_width(10**4), sw.Task(x[:2], np.ones((2, 2)), test_inputs=x[:1] + 1)
sizes, mup, plan = dict(base={"width": 16}, target={"width": 64}), sw.scaling.mup(), sw.torch.plan

walks = {}
walks["predict"], theory = taken(lambda: sw.predict(net, x))
walks["measure"], seen = taken(lambda: sw.measure(net, x, networks=16, progress=False))
walks["compare"], _ = taken(lambda: sw.compare(theory, seen))
walks["predict_training"], _ = taken(
    lambda: sw.predict_training(wide, lesson, GradientDescent(), observables="all")
)
walks["plan"], _ = taken(lambda: plan(build, **sizes, strategy=mup, optimizer="adam"))
print(json.dumps(walks))
"""


def drawn_tree(lines: str) -> list[tuple[str, str]]:
    """Every file of a drawing with the file that it stands under, in the order in which they are drawn."""
    found: list[tuple[str, str]] = []
    above: list[str] = []
    for line in lines.splitlines():
        branch, file = re.match(r"([│├└─ ]*)(\S+\.py)  ", line).groups()  # type: ignore[union-attr]
        above = above[: len(branch) // 3]
        found.append((file, above[-1] if above else ""))
        above.append(file)
    return found


def went(tree: list[tuple[str, str]], steps: list[list[str]]) -> int:
    """How many files of a drawing a call enters in its order, each from the file above it."""
    files = {file for file, _ in tree}
    done = 0
    for here, *way in steps:
        before = next((file for file in way if file in files and file != here), "")
        done += done < len(tree) and (here, before) == tree[done]
    return done


def test_walks_are_taken_as_they_are_drawn(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawn = re.findall(
        r"^`(?:sw\.)?(?:torch\.)?(\w+)\([^\n]*:\n\n```walk\n(.*?)```", page, re.M | re.S
    )
    call = [sys.executable, "-c", CALLS]
    done = subprocess.run(call, capture_output=True, text=True, check=True, cwd=tmp_path)
    taken = json.loads(done.stdout)
    assert [verb for verb, _ in drawn] == list(taken)
    for verb, lines in drawn:
        tree = drawn_tree(lines)
        assert 5 <= len(tree) <= FILES, verb
        reached = went(tree, taken[verb])
        assert reached == len(tree), f"{verb} does not go on to {tree[reached]}"


def test_a_walk_that_is_not_taken_is_noticed() -> None:
    steps = [["a.py"], ["b.py", "a.py"], ["c.py", "x.py", "b.py", "a.py"]]
    assert drawn_tree("a.py  one\n└─ b.py  two\n   └─ c.py  three\n") == [
        ("a.py", ""), ("b.py", "a.py"), ("c.py", "b.py"),
    ]  # fmt: skip
    assert went([("a.py", ""), ("b.py", "a.py"), ("c.py", "b.py")], steps) == 3
    assert went([("a.py", ""), ("c.py", "a.py"), ("b.py", "a.py")], steps) == 1
