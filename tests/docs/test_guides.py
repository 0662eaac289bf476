"""Conformance: every page of the guide runs, and prints what it says it prints.

The code blocks of a page are one program, run in order. A block of Python that begins with the name of a file is
that file, too, for the commands in blocks of the console. A block of text that follows a block of code is what that
code prints; numbers may differ in the last digits that a machine decides. Sizes that change nothing of what is
printed are smaller here; the site, and `make test-thorough`, run pages as they stand.
"""

import json
import math
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from sybil import Document, Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from typer.testing import CliRunner

from grids import thorough
from scalewise.cli._app import app
from scalewise.cli._words import EXAMPLES
from scalewise.experiments.catalogue import EXPERIMENTS
from scalewise.sweeps import _engines

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
PAGES = sorted(path for path in GUIDE.glob("*.md") if path.stem != "index")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
TOLERANCE = 0.1  # of numbers that come out of random networks


def same(said: str, printed: str) -> bool:
    """Whether two texts have the same words, and numbers that are near."""

    def words(text: str) -> list[str]:
        return " ".join(NUMBER.sub("#", text).split()).split()

    def numbers(text: str) -> list[float]:
        return [float(n) for n in NUMBER.findall(text)]

    one, two = numbers(said), numbers(printed)
    return words(said) == words(printed) and all(
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=0.03) for a, b in zip(one, two, strict=True)
    )


def printed_as_said(example: Example) -> str | None:
    """Hold a block of text against what the code above it has printed."""
    printed = example.namespace["capsys"].readouterr().out
    return None if same(example.parsed, printed) else f"This was printed:\n{printed}"


def at_the_shell(example: Example) -> None:
    """Run the commands of a block; ``> name`` keeps what one prints, ``; echo $?`` prints how it left."""
    for line in re.findall(r"^\$ (.*)$", example.parsed.replace("\\\n", " "), re.M):
        command, _, asks = line.partition(";")
        command, _, into = command.partition(">")
        program, *words = shlex.split(command)
        assert program == "scalewise", line
        done = CliRunner().invoke(app, words)
        if into:
            Path(into.strip()).write_text(done.stdout)
        print(done.stderr if into else done.output)
        assert asks or done.exit_code == 0, f"{line}: {done.output}"
        if asks:
            print(done.exit_code)


README = Path(__file__).resolve().parents[2] / "README.md"
SYBIL = Sybil(
    [
        PythonCodeBlockParser(),
        CodeBlockParser("text", printed_as_said),
        CodeBlockParser("console", at_the_shell),
    ]
)
# The widest network costs as much as all others, and decides no verdict; nor do three networks of four.
LESS = {
    "[64, 128, 256, 512]": "[64, 128, 256]",
    "seeds=3": "seeds=2",
    "networks=200": "networks=60",
    "networks=400": "networks=100",
}
# What these show is called by quicker pages too, or held by tests of its own room.
LATER = (
    "activation",
    "audit",
    "base",
    "contrastive",
    "convnet",
    "data",
    "distributed",
    "from_nanochat",
    "jax",
    "limits",
    "masks",
    "muon_jax",
    "neural_tangents",
    "own_ntk",
    "pdlt",
    "sweeps",
    "trainers",
    "training",
    "troubleshooting",
)
# Of pages whose ensembles are not held against what is printed.
FEWER = LESS | {"networks=500": "networks=60", "networks=50)": "networks=8)", "seeds=4": "seeds=2"}
SIZES = pytest.mark.parametrize("less", [FEWER, *thorough({})], ids=["less", "whole"])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, and in this process: others would import and compile everything again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(_engines, "_pays", lambda *_: False)


def parsed(page: Path, less: dict[str, str]) -> Document:
    text = page.read_text()
    for said, done in less.items():
        text = text.replace(said, done)
    Path(page.name).write_text(text)
    for name, code in re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", text, re.M | re.S):
        Path(name).write_text(code)
    return SYBIL.parse(Path(page.name))


def test_every_page_is_in_the_contents() -> None:
    parts = re.findall(r"toctree}.*?\n\n(.*?)\n```", (GUIDE / "index.md").read_text(), re.S)
    assert sorted(" ".join(parts).split()) == [page.stem for page in PAGES]


def test_comparison_of_texts() -> None:
    assert same("slope -0.51 of 3 layers", "slope   -0.50 of 3 layers")
    assert not same("slope -0.51 of 3 layers", "slope -0.01 of 3 layers")
    assert not same("hidden", "output")
    assert not same("stable", "unstable")


def _cases() -> list:
    """Pages with less, and as they stand those of which that leaves something out."""
    daily = [page for page in PAGES if page.stem not in LATER]
    plain = [p for p in daily if not any(said in p.read_text() for said in LESS)]
    whole = [page for page in PAGES if page not in plain]
    return [(page, LESS) for page in daily] + thorough(*((page, {}) for page in whole))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("page", "less"),
    _cases(),
    ids=lambda p: p.stem if isinstance(p, Path) else "less" if p else "whole",
)
def test_page_runs_and_prints_what_it_says(
    page: Path, less: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    document = parsed(page, less)
    document.namespace.update(__name__=page.stem, capsys=capsys)
    assert any(example.region.evaluator is printed_as_said for example in document.examples())
    for example in document.examples():
        if example.region.evaluator is not printed_as_said:
            capsys.readouterr()
        example.evaluate()


def test_the_action_runs_the_command_that_the_page_explains() -> None:
    parsed(GUIDE / "shell.md", {})
    action = (GUIDE.parent / "_static" / "scalewise.yml").read_text()
    commands = re.findall(r"^ +(scalewise .*)$", action.replace("\\\n", " "), re.M)
    assert len(commands) == 1
    words = [*shlex.split(commands[0].partition(">")[0])[1:], "--widths", "32,64,128"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["status"] == "ok"


@pytest.mark.filterwarnings("default")
@SIZES
def test_every_line_of_the_readme_runs(less: dict[str, str]) -> None:
    document = parsed(README, less)
    assert ran_alone(document) == README.read_text().count("```python\n") >= 3


def ran_alone(document: Document) -> int:
    """Every block in a namespace of its own, since people copy one and not those above it."""
    examples = list(document.examples())
    for example in examples:
        document.namespace.clear()
        document.namespace["__name__"] = "__main__"
        example.evaluate()
    return len(examples)


@pytest.mark.filterwarnings("default")
@SIZES
def test_the_first_five_minutes_run(less: dict[str, str]) -> None:
    document = parsed(README.parent / "docs" / "index.md", less)
    assert ran_alone(document) == 5
    assert document.namespace["found"].sizes["seed"] == 3


def test_every_command_of_the_first_pages_runs() -> None:
    """At the smallest sizes: what a page says last is said again, and counts."""
    less = {
        "predict": "--depth 2 --width 8 --samples 2",
        "measure": "--depth 2 --width 8 --samples 2 --networks 40 --observables kernel",
        "report": "--depth 2 --width 8 --samples 2 --networks 40 --observables kernel",
        "train": "--depth 2 --width 8 --widths 8 --train 4 --test 2 --ensemble 4",
        "explore": "--activations tanh",
    }
    docs = README.parent / "docs"
    pages = [README, docs / "index.md", docs / "explorer.md", docs / "guide" / "start.md"]
    commands = [
        line for page in pages for line in re.findall(r"^scalewise (.*)$", page.read_text(), re.M)
    ]
    commands += re.findall(
        r"^\t\$\(BIN\)/scalewise (.*)$", (README.parent / "Makefile").read_text(), re.M
    )
    assert len(commands) >= 8
    there = ("audit", "plan", "verify")  # the page on the shell runs these, on a model of its own
    commands += [
        example.removeprefix("scalewise ")
        for name, example in EXAMPLES.items()
        if name not in there
    ]
    Path("model.py").write_text(
        "import torch\nbatch = torch.eye(3)\nbuild = lambda n: torch.nn.Linear(3, n)\n"
    )
    for words in dict.fromkeys(counting(shlex.split(line), less) for line in commands):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"scalewise {shlex.join(words)}: {result.output}"


def counting(words: list[str], less: dict[str, str]) -> tuple[str, ...]:
    """A command at its smallest size, without options of the page that this says again."""
    said = less.get(words[0], "").split()
    again = {k + i for k, word in enumerate(words) if word in said[::2] for i in (0, 1)}
    return (*(word for k, word in enumerate(words) if k not in again), *said)


def test_the_readme_counts_the_experiments_that_there_are() -> None:
    said = re.search(r"its (\d+) experiments", README.read_text())
    assert said is not None
    assert int(said[1]) == len(EXPERIMENTS)


def test_the_readme_is_short_and_leads_to_what_is_there() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= 130
    places = re.findall(r"\]\(([^)#:]+)\)", text) + re.findall(r'src="([^"]+)"', text)
    assert [place for place in places if not (README.parent / place).is_file()] == []


def test_its_pictures_are_drawn_by_the_lines_of_the_landing_page() -> None:
    folder = README.parent / "docs" / "_pictures"
    names = runpy.run_path(str(folder / "save.py"))
    for name in names["NAMES"]:
        assert names["digest"](name) in (names["OUT"] / f"{name}.svg").read_text(), name
        assert f"{{picture}} {name}\n" in (README.parent / "docs" / "index.md").read_text()


def test_every_page_of_the_guide_has_a_picture_with_words() -> None:
    docs = README.parent / "docs"
    for page in sorted((docs / "guide").glob("*.md")):
        if page.stem == "index":
            continue
        found = re.findall(r"^```{picture} (\w+)\n(.{40,})\n```$", page.read_text(), re.M)
        assert found, page.name
        assert all((docs / "_pictures" / f"{name}.py").is_file() for name, _ in found), page.name
