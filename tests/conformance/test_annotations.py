"""Conformance: every shape in an annotation can be evaluated; one that cannot be is not checked by anything."""

import ast
from pathlib import Path

import jaxtyping
import numpy as np

SOURCES = Path(__file__).parents[2] / "src" / "scalewise"


def test_every_shape_is_one_that_jaxtyping_reads() -> None:
    wrong, seen = [], 0
    for file in SOURCES.rglob("*.py"):
        text = file.read_text()
        nodes = list(ast.walk(ast.parse(text))) if "jaxtyping" in text else []
        kinds = {
            name.asname or name.name: getattr(jaxtyping, name.name)
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module == "jaxtyping"
            for name in node.names
        }
        for node in nodes:
            if isinstance(node, ast.Subscript) and getattr(node.value, "id", None) in kinds:
                seen += 1
                shape = node.slice.elts[1] if isinstance(node.slice, ast.Tuple) else node.slice
                try:
                    kinds[ast.unparse(node.value)][np.ndarray, ast.literal_eval(shape)]
                except (AttributeError, ValueError) as error:
                    wrong.append(
                        f"{file.relative_to(SOURCES)}:{node.lineno}: {ast.unparse(node)}: {error}"
                    )
    assert wrong == []
    assert seen > 300
