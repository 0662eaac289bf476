"""Terms of the glossary say what they mean where the pointer rests on them."""

from __future__ import annotations

from typing import Any

from docutils import nodes

PAGE = "glossary"


def _meanings(app: Any) -> dict[str, str]:
    """Every definition, by the anchor of its term."""
    found = {}
    for item in app.env.get_doctree(PAGE).findall(nodes.definition_list_item):
        text = " ".join(item[-1].astext().split())
        found |= {anchor: text for term in item.findall(nodes.term) for anchor in term["ids"]}
    return found


def _explain(app: Any, doctree: nodes.document, docname: str) -> None:
    """Give every link to a term its meaning as a title."""
    links = [
        (link, link.get("refuri", "").partition("#")[2])
        for link in doctree.findall(nodes.reference)
    ]
    links = [(link, anchor) for link, anchor in links if anchor.startswith("term-")]
    meanings = _meanings(app) if links else {}
    for link, anchor in links:
        link["reftitle"] = meanings[anchor]
        link["classes"].append("term-link")


def setup(app: Any) -> dict[str, bool]:
    """Explain terms once links lead somewhere."""
    app.connect("doctree-resolved", _explain)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
