"""Conformance of the commands that read a model of the user's own: what they print, and what exit codes say."""

import json
import re
import sys
from pathlib import Path

import pytest

import scalewise as sw
from test_cli import refused, run

MODEL = """
import torch

batch = torch.ones(2, 3) * torch.tensor([[1.0], [-2.0]])


def build(width):
    return torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))


def dead(width):
    model = build(width)
    torch.nn.init.constant_(model[0].bias, -99.0)
    return model


def loss(model, batch):
    return model(batch).square().mean()


def optimizer(model):
    return torch.optim.RMSprop(model.parameters())
"""


def test_signals_reads_a_model_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_model", raising=False)
    Path("own_model.py").write_text(MODEL)
    assert "Nothing is wrong" in run("signals", "own_model:build", "--width", "32").stdout
    words = ("--width", "32", "--loss", "loss", "--optimizer", "own_model:optimizer")
    found = json.loads(run("signals", "own_model:build", *words, "--json", code=1).stdout)
    assert [one["mistake"] for one in found["findings"]] == ["no bias correction"]
    dead = run("signals", "own_model:dead", "--width", "32", "--picture", "p.png", code=1)
    assert "are dead" in dead.stdout
    assert Path("p.png").stat().st_size > 1000
    assert "--width must be given" in refused("signals", "own_model:build")
    assert "must be module:object" in refused("signals", "own_model", "--width", "8")
    assert "no module 'other'" in refused("signals", "other:build", "--width", "8")
    assert "has no 'x', which --batch asks for" in refused(
        "signals", "own_model:build", "--batch", "x", "--width", "8"
    )


OWN = """
import torch
from torch import nn

import scalewise as sw

drawn = torch.Generator().manual_seed(0)
batch = torch.randn(16, 8, generator=drawn), torch.randint(4, (16,), generator=drawn)


def build(width):
    inside = nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
    return nn.Sequential(*inside, nn.Linear(width, 4))


def loss(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def short(model, batch):
    return loss(model, (batch[0][:, :3], batch[1]))


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def unscaled(plan, model):
    return torch.optim.AdamW(plan.init_(model).parameters(), lr=1e-4)


class Hidden(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = build(width)[:4]
        self.head = nn.Parameter(torch.randn(4, width) / width**0.5)

    def forward(self, x):
        return (self.body(x)[:, None] * (1.0 * self.head)).sum(-1)


class Odd(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = build(width)

    def forward(self, x):
        return self.body(x["x"])


class Masked(Odd):
    def __init__(self, width):
        super().__init__(width)
        self.mask = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return self.body(x)


made = sw.torch.plan(build, base={"width": 32}, target={"width": 128}, strategy=sw.scaling.mup())
"""
SIZES = ("--base", "width=32", "--target", "width=128")
SMALL = ("--widths", "32,64,128", "--seeds", "2")
HEAD = ["schema", "scalewise", "status", "sentence"]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A model in a file of the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("trained", "broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    Path("trained.py").write_text(OWN)
    Path("broken.py").write_text("import torch\n\n1 / 0\n")


def told(*words: str, code: int = 0) -> dict:
    """The record that a command prints, which begins as all of them do."""
    record = json.loads(run(*words, "--json", code=code).stdout)
    assert list(record)[:4] == HEAD
    assert record["schema"] == f"scalewise {words[0]} 1"
    assert record["scalewise"] == sw.__version__
    return record


def test_a_plan_is_printed_saved_and_verified(own):
    assert "hidden" in run("plan", "trained:build", *SIZES, "--save", "p.json").stdout
    record = told("plan", "trained:build", *SIZES)
    assert (record["status"], record["target"]) == ("ok", {"width": 128})
    tensor = {t["name"]: t for t in record["tensors"]}["2.weight"]
    assert (tensor["role"], tensor["lr"], tensor["init"]) == ("hidden", 0.25, 0.5)
    plan = sw.torch.load("p.json")
    assert tensor["std"] == pytest.approx(plan.std("2.weight"))
    ways = ((*SIZES,), ("--plan", "p.json"))
    checks = [told("verify", "trained:build", *way, *SMALL) for way in ways]
    checks.append(told("verify", "trained:made", *SMALL))
    assert checks[0] == checks[1] == checks[2]
    assert (checks[0]["status"], checks[0]["findings"]) == ("ok", [])
    rates = [r for r in checks[0]["rows"] if r["quantity"] == "rate" and r["place"] == "2.weight"]
    assert rates[0]["planned"] == -1
    assert rates[0]["power"] == pytest.approx(-1, abs=0.1)


def test_a_script_that_does_not_scale_is_a_finding(own):
    words = ("verify", "trained:build", *SIZES, *SMALL, "--setup", "unscaled")
    record = told(*words, code=1)
    assert record["status"] == "finding"
    assert {(f["place"], f["cause"]) for f in record["findings"]} == {
        ("2.weight", "learning rate"),
        ("4.weight", "learning rate"),
    }
    result = run(*words, code=1)
    assert "planned is n^(-1)" in result.stdout
    assert result.stderr.startswith("scalewise: Finding: `2.weight` has a learning rate too large")
    record = told("audit", "trained:build", *SMALL, code=1)
    assert (record["status"], record["stable"]) == ("finding", False)
    assert record["breaks"][0]["power"] > 0.7
    assert {w["place"] for w in record["wastes"]} >= {"0.weight"}
    assert "Unstable at great width" in run("audit", "trained:build", *SMALL, code=1).stdout


def test_what_was_not_measured_is_not_ok(own):
    record = told("plan", "trained:Odd", *SIZES, code=1)
    assert record["status"] == "not measured"
    given = ("--role", "head=output")
    record = told("verify", "trained:Hidden", *SIZES, *SMALL, *given, code=1)
    assert (record["status"], record["regime"]) == ("not measured", None)
    assert [f["cause"] for f in record["findings"]] == ["not seen"]
    assert "Not measured: What the readout" in run(
        "verify", "trained:Hidden", *SIZES, *SMALL, *given, code=1
    ).stderr  # fmt: skip


def test_a_warning_of_a_plan_is_a_sentence(own):
    said = run("plan", "trained:Odd", *SIZES, code=1).stderr.splitlines()
    assert len(said) == 2
    assert said[0].startswith("scalewise: The forward pass of the model could not be run")
    assert "--inputs module:object" in said[0]


def test_what_a_plan_asks_is_answered_by_an_option(own):
    asked = run("plan", "trained:Masked", *SIZES, code=2)
    assert asked.stdout == ""
    assert "most often it is --role mask=vector" in asked.stderr
    record = told("plan", "trained:Masked", *SIZES, "--role", "mask=vector")
    assert {t["name"]: t["role"] for t in record["tensors"]}["mask"] == "vector"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("plan trained", "The model|the model must be module:object"),
        ("plan trained:build", "--base and --target must be given"),
        ("plan trained:build --base width:3 --target width=4", "--base takes sizes by name"),
        ("plan trained:build --base size=3 --target size=4", "--base has no 'width'; it has 'size'"),
        ("plan trained:build --base width=0 --target width=4", "above 0|positive"),
        ("plan trained:build --base width=4 --target width=8 --strategy mupp", "--strategy must be"),
        ("plan trained:build --base width=4 --target width=8 --optimizer adm", "--optimizer must be one of"),
        ("plan trained:build --base width=4 --target width=8 --role head", "--role takes a pattern"),
        ("plan trained:build --base width=4 --target width=8 --residual x", "--residual takes a power"),
        ("plan trained:build --plan none.json", "The plan 'none.json' cannot be read"),
        ("plan trained:build --plan none.json --base width=4", "so --base says nothing"),
        ("plan trained:made --base width=4", "trained:made is a plan already, so --base"),
        ("verify trained:made --loss nothing", "has no 'nothing', which --loss asks for"),
        ("verify trained:made --widths 8,16", "widths"),
        ("verify trained:made --seeds 1", "--seeds"),
        ("verify trained:made --widths a", "--widths takes a whole number"),
        ("verify trained:made --widths 8,16,32 --loss short", r"\(trained.py, line 17, in loss\): RuntimeError"),
        ("audit trained:build --optimizer none", "has no 'none', which --optimizer asks for"),
        ("audit trained:build --optimizer batch", "--optimizer must be a function"),
        ("audit trained:build --widths 8,16,32 --loss short", "Your own code failed"),
        ("audit nowhere:build", "There is no module 'nowhere'"),
        ("plan broken:build", "cannot be imported: ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(own, words, sentence):
    assert re.search(sentence, refused(*words.split()))
