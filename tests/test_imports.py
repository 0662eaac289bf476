"""Property: imports point only up the list of docs/architecture.md; theory and nets never meet."""

import ast
import importlib
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType

import scalewise

ROOT = Path(scalewise.__file__).parent
LEVELS = [
    {"_version", "_threads", "_arrays"},
    {"scaling"},
    {"activations"},
    {"gaussian"},
    {"critical"},
    {"network", "observables", "data"},
    {"scaled", "selection"},
    {"theory", "nets", "limits"},
    {"comparison"},
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
    assert {("theory", "gaussian"), ("nets", "network"), ("network", "critical")} <= seen


# Files that import one of the package inside a function, so that it is read only when it is used: what for.
LATE = {
    "activations/_catalogue.py": "built-in activations need no JAX; a callable of the user's is traced by it",
    "cli/_app.py": "a command starts fast: each imports only what it runs",
    "cli/_options.py": "a command starts fast: only those that measure need the ensembles",
    "plan/_check.py": "a picture needs matplotlib, a verdict does not",
}


def files_imported(path: Path, *, late: bool = False) -> set[Path]:
    """The files of the package that a file imports when it is imported itself.

    Args:
        path: The file.
        late: Whether what functions import counts too.
    """
    found = set()
    tree = ast.parse(path.read_text())
    inside = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not late
    ]
    inside += [
        n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)
    ]
    later = {id(n) for block in inside for n in ast.walk(block)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or id(node) in later or node.module is None:
            continue
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
            place = ROOT.parent.joinpath(*name.split("."))
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file.exists() and name.startswith("scalewise."):
                    found.add(file)
    return found


def test_no_file_is_imported_by_what_it_imports() -> None:
    """Nor inside a function, which would only hide the circle; late imports are few and have a reason."""
    edges = {path: files_imported(path, late=True) - {path} for path in ROOT.rglob("*.py")}
    late = {str(p.relative_to(ROOT)) for p, all_ in edges.items() if all_ - files_imported(p) - {p}}
    assert late == LATE.keys()
    # A room's `__init__` gathers what stands in it; a file of the room may name the room for its neighbours.
    edges = {
        path: {
            other
            for other in others
            if other.name != "__init__.py" or other.parent not in path.parents
        }
        for path, others in edges.items()
    }
    order = TopologicalSorter(edges)
    try:
        order.prepare()
    except CycleError as error:
        names = [str(path.relative_to(ROOT)) for path in error.args[1]]
        raise AssertionError(f"These files import each other: {names}") from None
    assert edges[ROOT / "theory" / "_predict.py"]


SUB_ROOMS = [
    {"_tables"},
    {"single"},
    {"flow"},
    {"_predict.py", "deep", "correlators", "action", "exact", "information"},
    {"residual", "note"},
    {"__init__.py"},
]


def test_rooms_of_the_theory_import_upwards() -> None:
    rank = {name: i for i, names in enumerate(SUB_ROOMS) for name in names}
    theory = ROOT / "theory"
    for path in theory.rglob("*.py"):
        here = path.relative_to(theory).parts[0]
        for other in files_imported(path):
            if theory in other.parents and other.parent != theory:
                there = other.relative_to(theory).parts[0]
                assert here == there or rank[there] < rank[here], (path.name, there)


def test_no_relative_imports() -> None:
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path.relative_to(ROOT)


def test_public_names_are_few_and_exist() -> None:
    assert len(scalewise.__all__) <= 30
    for name in scalewise.__all__:
        assert getattr(scalewise, name) is not None


def test_what_is_not_used_is_not_imported() -> None:
    """Exponents and the names of the package need no array, a plan no frame, and neither a framework."""
    heavy = ("scipy", "pandas", "xarray", "matplotlib", "jax", "torch")
    rooms = {
        "scalewise": ("numpy", *heavy),
        "scalewise.scaling": ("numpy", *heavy),
        "scalewise.plan": heavy,
    }
    for module, names in rooms.items():
        check = f"print([m for m in {names} if m in sys.modules])"
        command = [sys.executable, "-c", f"import sys, {module}; {check}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]", module
    assert {"torch", "jax", *scalewise.__all__} == set(dir(scalewise))


def test_no_file_bears_the_name_of_what_it_exports() -> None:
    """`import scalewise.x` gives a module, whatever functions there are; and so `scalewise.x.y` exists."""
    wrong = []
    for path in ROOT.rglob("*.py"):
        home = path.parent if path.stem != "__init__" else path.parent.parent
        name = path.stem if path.stem != "__init__" else path.parent.name
        if path.parent == ROOT and path.stem == "__init__":
            continue
        door = importlib.import_module(".".join(home.relative_to(ROOT.parent).parts))
        if name in getattr(door, "__all__", ()) and not isinstance(getattr(door, name), ModuleType):
            wrong.append(str(path.relative_to(ROOT)))
    assert not wrong
    assert callable(scalewise.criticality)
    assert callable(scalewise.compare)


def test_the_architecture_page_names_every_room() -> None:
    page = (ROOT.parents[1] / "docs" / "architecture.md").read_text()
    for path in sorted(ROOT.iterdir()):
        if path.suffix == ".py" or (path.is_dir() and (path / "__init__.py").exists()):
            name = path.name if path.is_file() else f"{path.name}/"
            assert name in page, f"docs/architecture.md does not mention {name}"
