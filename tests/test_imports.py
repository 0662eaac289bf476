"""Property: imports point only up the list of docs/architecture.md; theory and nets never meet."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import cast

import coverage_table
import doors
import scalewise
from coverage_table import tree

ROOT = Path(scalewise.__file__).parent
LEVELS = [
    {"_version", "_extras", "_threads", "_words", "_warn", "_readable"},
    {"_arrays", "_labelled", "_look"},
    {"_checked", "sweeps"},
    {"scaling", "tasks", "_memory"},
    {"activations"},
    {"gaussian"},
    {"critical"},
    {"networks"},
    {"_obstacles", "reading"},
    {"observables", "data"},
    {"selection"},
    {"theory", "nets", "limits"},
    {"training"},
    {"comparison"},
    {"plan"},
    {"signals"},
    {"torch", "jax"},
    {"experiments"},
    {"report", "explorer"},
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
        for other in imported(tree(path)) - {here}:
            seen.add((here, other))
            assert RANK[other] < RANK[here], f"{path.relative_to(ROOT)} imports scalewise.{other}"
    # The test sees imports at all: these three are the spine.
    assert {("theory", "gaussian"), ("nets", "networks"), ("networks", "critical")} <= seen


# What another library imports for whoever calls these.
IMPLIED = {"to_zarr": "zarr", "open_zarr": "zarr"}


@dataclass(frozen=True)
class Import:
    """What a statement imports when the program runs; what only type checkers read is left out."""

    names: tuple[str, ...]  # modules, and what is taken from them
    later: bool  # in a function
    required: frozenset[str]  # packages that `require` has found there before

    @property
    def packages(self) -> set[str]:
        return {name.partition(".")[0] for name in self.names} - set(sys.stdlib_module_names)


@cache
def files_named(names: tuple[str, ...]) -> frozenset[Path]:
    """Those of the package."""
    places = [ROOT.parent.joinpath(*n.split(".")) for n in names if n.startswith("scalewise.")]
    files = [f for p in places for f in (p.with_suffix(".py"), p / "__init__.py")]
    return frozenset(file for file in files if file.exists())


def calls(nodes: Iterable[ast.AST], name: str) -> list[ast.Call]:
    found = [c for c in nodes if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)]
    return [c for c in found if cast(ast.Name, c.func).id == name]


def packages_in(found: Iterable[ast.Call]) -> set[str]:
    return {str(p.value) for call in found for p in call.args if isinstance(p, ast.Constant)}


@cache
def imports(path: Path) -> tuple[Import, ...]:
    found: list[Import] = []

    def visit(node: ast.AST, later: bool, guards: tuple[ast.Call, ...]) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            later, guards = True, (*guards, *calls(ast.walk(node), "require"))
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute) and node.attr in IMPLIED:
            names = [IMPLIED[node.attr]]
        if names:
            line = cast(ast.stmt | ast.expr, node).lineno
            before = packages_in(c for c in guards if c.lineno < line)
            found.append(Import(tuple(names), later, frozenset(before)))
        for child in ast.iter_child_nodes(node):
            visit(child, later, guards)

    visit(tree(path), False, ())
    return tuple(found)


# Files that import one of the package inside a function, so that it is read only when it is used: what for.
LATE = {
    "_checked.py": "exponents need no array library; who is given an array reads it with one",
    "activations/_catalogue.py": "built-in activations need no JAX; a callable of the user's is traced by it",
    "cli/__init__.py": "what is missing is said before it is imported",
    "cli/_app.py": "a command starts fast: each imports only what it runs",
    "cli/_model.py": "the same",
    "cli/_models.py": "the same",
    "cli/_options.py": "the same: a version and a help text need no array",
    "cli/_output.py": "the same",
    "cli/_planning.py": "the same",
    "cli/_records.py": "the same",
    "cli/_training.py": "the same: what is predicted needs no JAX",
    "jax/_curvature.py": "who plans a model needs no theory of training",
    "jax/_optax.py": "what needs optax is imported once it is there",
    "jax/_verify.py": "the same",
    "experiments/_cells.py": "networks of PyTorch, once it is there",
    "experiments/critical_base.py": "the same",
    "experiments/text_transfer.py": "the same",
    "plan/_check.py": "a picture needs matplotlib, a verdict does not",
    "plan/proof/_check.py": "the same: a picture needs matplotlib",
    "plan/proof/_search.py": "sweeps need arrays with names, which take longer to import than a plan takes",
    "plan/proof/_tune.py": "the same",
    "plan/proof/_transfer.py": "the same",
    "signals/_signals.py": "the same: a picture needs matplotlib",
    "signals/_spread.py": "who measures a model alone, or plans for it, needs no theory",
    "theory/single/_single_input.py": "the rule for one label is that for many, whose room imports this one",
    "theory/_any_layers.py": "few enter the room of layers of every kind, with JAX",
    "theory/_predict.py": "few enter the room of skip connections, with an optimiser",
    "theory/order/_runs.py": "few enter the room of layers of every kind, with JAX",
}


def files_imported(path: Path, *, late: bool = False) -> set[Path]:
    """The files of the package that a file imports when it is imported itself.

    Args:
        path: The file.
        late: Whether what functions import counts too.
    """
    return {
        file for one in imports(path) if late or not one.later for file in files_named(one.names)
    }


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


# What a prediction and an ensemble of trained networks are both made of: algorithms as data, and the tables.
MEETING = {
    "_algorithms.py",
    "_descent.py",
    "_flow.py",
    "_newton.py",
    "_asked.py",
    "_algorithm.py",
    "_motions.py",
    "_filters.py",
    "_generalisation.py",
}
MEETING |= {"_outcomes.py", "_selection.py", "_task.py", "_moved_kinks.py"}


# Rooms of `training` that know real networks.
REAL = ("training/ensembles", "training/dynamics/networks")


def test_what_is_predicted_and_what_is_trained_meet_nowhere() -> None:
    """What is predicted of trained networks is evidence only if no network has a part in it, and conversely."""
    training, wrong = ROOT / "training", []
    for path in training.rglob("*.py"):
        here = str(path.parent.relative_to(ROOT))
        read = files_imported(path, late=True) - {training / "__init__.py"}
        others = {str(file.relative_to(ROOT)) for file in read}
        banned = ("theory/", "limits/") if here in REAL else ("nets/", "limits/", *REAL)
        wrong += [(path.name, other) for other in others if other.startswith(banned)]
        if here == REAL[0]:
            met = {p.name for p in read if training in p.parents and p.parent != path.parent}
            wrong += [(path.name, name) for name in met - MEETING]
    assert wrong == []
    for name in MEETING:
        rooms = {room(p) for p in files_imported(training / name, late=True)}
        assert rooms.isdisjoint({"theory", "nets"}), name


SUB_ROOMS = [
    {"_tables"},
    {"single"},
    {"flow"},
    {"blocks", "deep", "correlators", "action", "exact", "information"},
    {"note", "order"},
    {"residual"},
    {"_variables.py"},
    {"_any_layers.py"},
    {"_predict.py"},
    {"__init__.py", "spi.py"},
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
        for node in ast.walk(tree(path)):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path.relative_to(ROOT)


def test_public_names_are_few_and_exist() -> None:
    layers = {
        name
        for name, own in vars(importlib.import_module("scalewise.networks.layers")).items()
        if callable(own)
    }
    assert len(set(scalewise.__all__) - layers) <= 30
    for name in scalewise.__all__:
        assert getattr(scalewise, name) is not None


def test_what_is_not_used_is_not_imported() -> None:
    """Exponents and the names of the package need no array, a plan no frame, and neither a framework.

    What most calls never use is imported by those that do.
    """
    heavy = ("scipy", "pandas", "xarray", "matplotlib", "jax", "torch")
    rooms = {
        "scalewise": ("numpy", *heavy),
        "scalewise.scaling": ("numpy", *heavy),
        "scalewise.plan": heavy,
        "scalewise.comparison": ("scipy.stats", "dask", "zarr", "matplotlib", "jax", "torch"),
        "scalewise.limits": ("scipy.stats", "dask", "zarr", "matplotlib", "torch"),
    }
    # One after the other in a process: what is forbidden here is allowed nowhere above.
    code = "import sys\n" + "".join(
        f"import {module}\nprint({module!r}, [m for m in {names} if m in sys.modules])\n"
        for module, names in rooms.items()
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{module} []" for module in rooms]
    assert {*rooms_of_the_package(), *scalewise.__all__} == set(dir(scalewise))


def rooms_of_the_package() -> set[str]:
    """What is imported as scalewise.<name>, and is for others than its own files."""
    return {
        path.stem
        for path in ROOT.iterdir()
        if not path.name.startswith(("_", "."))
        and (path.suffix == ".py" or (path / "__init__.py").exists())
    }


def test_every_room_is_there_for_whoever_names_it() -> None:
    """In a process that has imported nothing else; rooms of rooms too."""
    code = f"""
import scalewise as sw
from pathlib import Path
for name in {sorted(rooms_of_the_package())}:
    assert getattr(sw, name).__name__ == "scalewise." + name, name
    assert name in dir(sw)
assert callable(sw.criticality) and callable(sw.activation) and callable(sw.sweep)
for room in (sw.theory, sw.limits, sw.training, sw.scaling):
    for path in Path(room.__file__).parent.iterdir():
        if path.name[0] != "_" and (path / "__init__.py").exists():
            assert getattr(room, path.name).__name__ == room.__name__ + "." + path.name
try: sw.nowhere
except AttributeError as error: print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "module 'scalewise' has no attribute 'nowhere'\n"


def test_no_file_bears_the_name_of_what_it_exports() -> None:
    """`import scalewise.x` gives a module, whatever functions there are; and so `scalewise.x.y` exists."""
    wrong = []
    for path in ROOT.rglob("*.py"):
        home = path.parent if path.stem != "__init__" else path.parent.parent
        name = path.stem if path.stem != "__init__" else path.parent.name
        if path.parent == ROOT and path.stem == "__init__":
            continue
        door = importlib.import_module(".".join(home.relative_to(ROOT.parent).parts))
        public = coverage_table.exported(Path(str(door.__file__)))
        if name in public and not isinstance(getattr(door, name), ModuleType):
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


def test_other_rooms_come_in_through_the_door() -> None:
    """From the room itself, whose names are for users, or from its `spi.py`; `python tests/doors.py` leads them."""
    wrong = [
        (str(path.relative_to(ROOT)), node.module)
        for path in ROOT.rglob("*.py")
        for node in doors.private_imports(path)
    ]
    assert not wrong, "run python tests/doors.py"


def test_a_door_has_what_others_need_and_nothing_else() -> None:
    used: dict[tuple[str, str], set[str]] = {(name, "spi"): set() for name in doors.CONVERTED}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(tree(path)):
            module = getattr(node, "module", None) or ""
            if isinstance(node, ast.ImportFrom) and module.rpartition(".")[2] in ("spi", "spi_jax"):
                _, own, door = module.split(".")
                assert room(path) != own, f"{path.name} knows its own room"
                used.setdefault((own, door), set()).update(alias.name for alias in node.names)
    assert {f"{own}/{door}.py" for own, door in used} == {
        str(path.relative_to(ROOT)) for path in ROOT.glob("*/spi*.py")
    }
    for (own, stem), names in used.items():
        door = ROOT / own / f"{stem}.py"
        assert set(coverage_table.exported(door)) == names, f"{own}/{stem}.py"
        inner = {room(file) for file in files_imported(door)}
        assert inner == {own}, f"{own}/{stem}.py has names of its own room alone"


# What the files of a room may import from outside. Of an extra only where `require` has found it; the rest is core.
OUTSIDE = {
    "_version": "",
    "_words": "",
    "_warn": "",
    "_readable": "",
    "_checked": "numpy jaxtyping",
    "_extras": "",
    "_threads": "scipy threadpoolctl",
    "_memory": "",
    "_arrays": "numpy",
    "_labelled": "numpy xarray",
    "_look": "numpy",
    "sweeps": "numpy xarray zarr fsspec dask distributed rich",
    "scaling": "",
    "tasks": "numpy jaxtyping",
    "activations": "numpy scipy jaxtyping jax",
    "gaussian": "numpy scipy jaxtyping",
    "critical": "numpy scipy jaxtyping",
    "networks": "numpy jaxtyping jax",
    "_obstacles": "",
    "observables": "numpy xarray",
    "data": "numpy jaxtyping sklearn",
    "selection": "",
    "theory": "numpy scipy jaxtyping xarray jax",
    "nets": "numpy jaxtyping xarray jax zarr",
    "limits": "numpy scipy jaxtyping xarray jax",
    "training": "numpy scipy jaxtyping xarray jax",
    "comparison": "numpy scipy jaxtyping xarray",
    "plan": "numpy scipy jaxtyping xarray matplotlib rich",
    "reading": "numpy scipy",
    "signals": "numpy xarray matplotlib",
    "torch": "numpy torch rich jaxtyping",
    "jax": "numpy scipy jax optax jaxtyping",
    "experiments": "numpy scipy jaxtyping xarray matplotlib jax torch sklearn",
    "report": "numpy scipy xarray matplotlib jinja2 markupsafe zarr",
    "explorer": "numpy",
    "cli": "numpy typer rich zarr",
    "__main__": "",
    "__init__": "",
}
DISTRIBUTIONS = {"sklearn": "scikit-learn"}
PROJECT = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())["project"]


def brought(requirements: Iterable[str]) -> set[str]:
    """Names of distributions, those of the extras that an extra includes among them."""
    found = set()
    for line in requirements:
        name, inner = re.match(r"([\w.-]+)(?:\[([\w,]*)\])?", line).groups()  # pyright: ignore
        if name != "scalewise":
            found.add(name)
        for extra in (inner or "").split(",") if name == "scalewise" else ():
            found |= brought(PROJECT["optional-dependencies"][extra])
    return found


CORE = brought(PROJECT["dependencies"])
EXTRAS = {extra: brought(lines) for extra, lines in PROJECT["optional-dependencies"].items()}
FOR_USERS = {extra: names for extra, names in EXTRAS.items() if extra not in ("dev", "docs")}


def test_what_a_room_imports_from_outside_is_in_the_table() -> None:
    assert OUTSIDE.keys() == RANK.keys()
    wrong = []
    for path in ROOT.rglob("*.py"):
        packages = {p for one in imports(path) for p in one.packages} - {"scalewise"}
        wrong += [(path.name, p) for p in packages - set(OUTSIDE[room(path)].split())]
    assert not wrong
    used = {DISTRIBUTIONS.get(p, p) for packages in OUTSIDE.values() for p in packages.split()}
    assert CORE | EXTRAS["all"] == used, "pyproject.toml brings what nothing imports, or too little"


def test_what_asks_for_an_extra_names_one_that_brings_it() -> None:
    asked = set()
    for path in ROOT.rglob("*.py"):
        for call in calls(ast.walk(tree(path)), "require"):
            (extra,) = (k.value for k in call.keywords if k.arg == "extra")
            packages = {DISTRIBUTIONS.get(p, p) for p in packages_in([call])}
            assert packages <= EXTRAS[ast.literal_eval(extra)], (path.name, packages)
            asked |= {str(ast.literal_eval(extra))}
    assert asked == FOR_USERS.keys() - {"all"}
    assert EXTRAS["all"] == set().union(*FOR_USERS.values())
    assert EXTRAS["all"] <= EXTRAS["dev"]


@cache
def asked_when_imported(path: Path) -> set[str]:
    """Packages that a file, or a room around it, requires while it is imported."""
    doors = [parent / "__init__.py" for parent in path.parents if ROOT in (parent, *parent.parents)]
    bodies = [tree(file).body for file in (path, *doors)]
    top = [s.value for body in bodies for s in body if isinstance(s, ast.Expr)]
    # What one can do without is looked for in the same file.
    optional = calls(ast.walk(tree(path)), "installed")
    return packages_in([*calls(top, "require"), *optional])


def files_that_need(package: str) -> set[Path]:
    """Files that run into an import of the package, directly or through others, without having asked for it."""
    files = [path for path in ROOT.rglob("*.py") if package not in asked_when_imported(path)]
    found: set[Path] = set()
    while True:
        more = {
            path
            for path in files
            for one in imports(path)
            if package not in one.required
            and (package in one.packages or files_named(one.names) & found)
        }
        if more == found:
            return found
        found = more


def test_nobody_runs_into_an_extra_without_the_sentence() -> None:
    """Files with an underscore, and doors to them, may import an extra: whoever imports these has asked for it."""
    wrong = []
    for package in {p for packages in OUTSIDE.values() for p in packages.split()}:
        if DISTRIBUTIONS.get(package, package) in CORE:
            continue
        for path in files_that_need(package):
            if path.name == "__init__.py" or not path.name.startswith(("_", "spi_jax")):
                wrong.append((str(path.relative_to(ROOT)), package))
    assert not wrong
    assert files_that_need("matplotlib") == {
        ROOT / "plan" / "_picture.py",
        ROOT / "plan" / "proof" / "_picture.py",
        ROOT / "signals" / "_picture.py",
    }
    assert ROOT / "cli" / "_app.py" in files_that_need("typer")
