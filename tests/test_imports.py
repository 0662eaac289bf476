"""Property: imports point only up the list of docs/architecture.md; theory and nets never meet."""

import ast
from pathlib import Path

import scalewise

ROOT = Path(scalewise.__file__).parent
LEVELS = [
    {"_version", "_threads", "_arrays"},
    {"scaling"},
    {"activations"},
    {"gaussian"},
    {"criticality"},
    {"network", "observables", "data"},
    {"scaled", "selection"},
    {"theory", "nets", "limits"},
    {"compare"},
    {"plan"},
    {"torch", "jax"},
    {"experiments"},
    {"report"},
    {"cli"},
    {"__main__", "__init__"},
]
RANK = {room: rank for rank, rooms in enumerate(LEVELS) for room in rooms}


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> set[str]:
    rooms = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
            if node.module == "scalewise":
                names = [f"scalewise.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {n.split(".")[1] for n in names if n.startswith("scalewise.")}
    return rooms & RANK.keys()


def test_imports_point_up() -> None:
    seen = set()
    for path in ROOT.rglob("*.py"):
        here = room(path)
        assert here in RANK, f"{path.name} stands in a room that docs/architecture.md does not name"
        for other in imported(ast.parse(path.read_text())) - {here}:
            seen.add((here, other))
            assert RANK[other] < RANK[here], f"{path.relative_to(ROOT)} imports scalewise.{other}"
    # The test sees imports at all: these three are the spine.
    assert {("theory", "gaussian"), ("nets", "network"), ("network", "criticality")} <= seen


def test_no_relative_imports() -> None:
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path.relative_to(ROOT)


def test_public_names_are_few_and_exist() -> None:
    assert len(scalewise.__all__) <= 30
    for name in scalewise.__all__:
        assert getattr(scalewise, name) is not None


def test_the_architecture_page_names_every_room() -> None:
    page = (ROOT.parents[1] / "docs" / "architecture.md").read_text()
    for path in sorted(ROOT.iterdir()):
        if path.suffix == ".py" or (path.is_dir() and (path / "__init__.py").exists()):
            name = path.name if path.is_file() else f"{path.name}/"
            assert name in page, f"docs/architecture.md does not mention {name}"
