"""Doors of rooms: `python tests/doors.py` writes names that other rooms import from private files into `spi.py`.

Imports of these names are led through the door, or through the room itself if it exports them to users.
"""

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src" / "scalewise"
# Rooms that have a door.
CONVERTED = (
    "activations",
    "comparison",
    "critical",
    "gaussian",
    "nets",
    "networks",
    "plan",
    "reading",
    "scaling",
    "sweeps",
    "tasks",
    "theory",
    "training",
)
# Files that need JAX, behind a door of their own: whoever enters by it has asked for the extra.
BY_JAX = {"scalewise.networks._by_jax", "scalewise.training._by_jax"}

_SAID = "Working names of this room for the other rooms of scalewise; users have no need of them."


def private_imports(path: Path) -> Iterator[ast.ImportFrom]:
    """Statements of a file that import from a private file of another room."""
    here = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scalewise."):
            parts = str(node.module).split(".")
            if any(part.startswith("_") for part in parts[2:]) and parts[1] != here:
                yield node


def _file(module: str) -> Path:
    path = ROOT.parent.joinpath(*module.split("."))
    return path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"


def _imported(path: Path) -> dict[str, str]:
    """The module that each name at the head of a file is imported from, under its own name."""
    nodes = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ImportFrom)]
    return {a.name: str(n.module) for n in nodes for a in n.names if a.asname in (None, a.name)}


def _home(module: str, name: str) -> str:
    """The module of a room in which a name is defined."""
    other = _imported(_file(module)).get(name, "")
    same_room = other.split(".")[:2] == module.split(".")[:2]
    return _home(other, name) if same_room and other != module else module


def door_of(module: str) -> str:
    """The file of its room that leads to names of a module."""
    return "spi_jax" if module in BY_JAX else "spi"


def _written(names: dict[str, set[str]]) -> str:
    lines = [f'"""{_SAID}"""', ""]
    for module in sorted(names):
        said = (ast.get_docstring(ast.parse(_file(module).read_text())) or "").split("\n")[0]
        lines += ["", f"# {said}"] if said else [""]
        # As ruff sorts them, so that the comment stays with the first: constants, classes, functions.
        own = sorted(names[module], key=lambda name: (not name.isupper(), name[0].islower(), name))
        lines += [f"from {module} import {name} as {name}" for name in own]
    return "\n".join(lines) + "\n"


def _led(path: Path, doors: dict[str, dict[str, set[str]]]) -> str | None:
    """The text of a file with its imports led through doors; ``None`` if there is nothing to do."""
    text = path.read_text()
    lines = text.split("\n")
    for node in sorted(private_imports(path), key=lambda n: -n.lineno):
        module = str(node.module)
        room = module.split(".")[1]
        if room not in CONVERTED:
            continue
        public = _imported(ROOT / room / "__init__.py")
        new = []
        for alias in node.names:
            home = _home(module, alias.name)
            known = public.get(alias.name)
            at = f"scalewise.{room}"
            if known is None or _home(known, alias.name) != home:
                at += f".{door_of(home)}"
                doors[room][home].add(alias.name)
            under = f" as {alias.asname}" if alias.asname else ""
            new.append(f"{' ' * node.col_offset}from {at} import {alias.name}{under}")
        lines[node.lineno - 1 : node.end_lineno] = new
    led = "\n".join(lines)
    return None if led == text else led


def main(rooms: list[str]) -> None:
    """Lead imports of these rooms through the doors; of all rooms if none is named."""
    doors: dict[str, dict[str, set[str]]] = {}
    for room in CONVERTED:
        doors[room] = defaultdict(set)
        for door in (ROOT / room).glob("spi*.py"):
            for name, module in _imported(door).items():
                doors[room][module].add(name)
    changed = []
    for path in sorted(ROOT.rglob("*.py")):
        here = path.relative_to(ROOT).parts[0].removesuffix(".py")
        led = _led(path, doors) if not rooms or here in rooms else None
        if led is not None:
            path.write_text(led)
            changed.append(str(path))
    for room, names in doors.items():
        for stem in sorted(set(map(door_of, names))):
            path = ROOT / room / f"{stem}.py"
            path.write_text(_written({m: names[m] for m in names if door_of(m) == stem}))
            changed.append(str(path))
    ruff = Path(sys.executable).with_name("ruff")
    subprocess.run([ruff, "check", "-q", "--select", "I", "--fix", *changed], check=True)
    subprocess.run([ruff, "format", "-q", *changed], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
