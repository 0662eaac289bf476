"""Tensors whose role no module and no shape tells: what most models mean by them, and the questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction

from scalewise.plan._description import TensorDescription
from scalewise.plan._names import matching, pattern
from scalewise.plan._paths import Paths
from scalewise.plan._questions import Question
from scalewise.plan._roles import Kind, Role, RoleSpec
from scalewise.plan._uses import Use, Uses


def heads(
    places: list[TensorDescription],
    growing: dict[str, dict[int, Fraction]],
    said: dict[str, RoleSpec],
    paths: Paths | None = None,
) -> tuple[list[Question], dict[str, Role]]:
    """Matrices from the width to a fixed number of units: their roles, and a question if those are not sure.

    One reads out if what the model returns is made from it by tensors of fixed size alone; past one inside the
    network another grows with the width. Where no pass was seen, or the pass does without them, the last is the
    readout of most models.
    """
    candidates = [
        t
        for t in places
        if t.kind is Kind.MATRIX
        and grows(t.fan_in, growing[t.name])
        and not grows(t.fan_out, growing[t.name])
    ]
    told = {} if paths is None else _seen(places, candidates, growing, paths)
    told = {name: role for name, role in told.items() if name not in said}
    open_ = [t.name for t in candidates if t.name not in {*said, *told}]
    named = [s if isinstance(s, str) else s[0] for s in (*said.values(), *told.values())]
    likely = dict.fromkeys(open_, Role.BOTTLENECK)
    if open_ and "output" not in named:
        likely[open_[-1]] = Role.OUTPUT
    if len(open_) > 1 or (open_ and "output" in named):
        answers = _by_pattern(likely, [t.name for t in places])
        written = ", ".join(f'"{n}": "{r}"' for n, r in answers.items())
        text = (
            f"{few(open_)} each go from the width to a fixed number of units. Which of them return the network's "
            'output ("output"), and which are bottlenecks inside it ("bottleneck"), no shape can tell. Say it; '
            f"most often it is roles={{{written}}}."
        )
        return [Question(text, {"roles": answers})], told | likely
    return [], told | likely


def _seen(
    places: list[TensorDescription],
    candidates: list[TensorDescription],
    growing: dict[str, dict[int, Fraction]],
    paths: Paths,
) -> dict[str, Role]:
    """Tensors among them that the pass made use of, and those that are as large as them and left alone."""
    # It knows a tied tensor by its first name.
    first = {alias: t.name for t in places for alias in t.aliases}
    known = {t.name: first.get(t.name, t.name) for t in candidates}
    ends = paths.ending({first.get(n, n) for n, axes in growing.items() if axes})
    used = paths.used()
    out = {
        name: Role.OUTPUT if one in ends else Role.BOTTLENECK
        for name, one in known.items()
        if one in used
    }
    # A copy beside the one in use, as of a readout that adapters keep.
    alike: dict[tuple[int, ...], set[Role]] = {}
    for t in candidates:
        if t.name in out:
            alike.setdefault(t.shape, set()).add(out[t.name])
    spare = {t.name: alike.get(t.shape, set()) for t in candidates if t.name not in out}
    return out | {name: next(iter(roles)) for name, roles in spare.items() if len(roles) == 1}


def guessed(
    places: list[TensorDescription],
    growing: dict[str, dict[int, Fraction]],
    known: Collection[str],
    paths: Paths | None = None,
    uses: Uses | None = None,
    *,
    columns: bool = False,
) -> tuple[dict[str, Role], set[str]]:
    """Tensors whose axes no module explains, with the role that most tensors of such a shape have.

    Of those that have a side of fixed size no shape tells which side is summed over.

    Args:
        places: All tensors, each at each of its places.
        growing: By name the axes that grow.
        known: Those that need no guess.
        paths: Which tensors were seen to lie between which; ``None`` where no pass was seen.
        uses: By name of tensor what the pass was seen to do with its axes.
        columns: Whether bare matrices are (inputs, outputs), as everywhere in this framework.

    Returns:
        The roles, and the names of tensors whose role is a mere stand-in, because nothing tells it.
    """
    first = {alias: t.name for t in places for alias in t.aliases}
    grown = {first.get(n, n) for n, axes in growing.items() if axes}
    sums = [
        t.name
        for t in places
        if grows(t.fan_in, growing[t.name]) and not grows(t.fan_out, growing[t.name])
    ]
    out: dict[str, Role] = {}
    open_: set[str] = set()
    for t in places:
        axes = growing[t.name]
        into, onto = grows(t.fan_in, axes), grows(t.fan_out, axes)
        lookup = t.kind is Kind.LOOKUP and onto and not into
        explained = t.kind in (Kind.BIAS, Kind.GAIN) or (t.kind is Kind.MATRIX and (into or onto))
        if not axes or t.name in known or lookup or explained:
            continue
        sizes = [i in axes for i, n in enumerate(t.shape) if n > 1 or i in axes]
        if sum(sizes) > 1:
            out[t.name] = Role.HIDDEN
        else:
            name, single = first.get(t.name, t.name), len(sizes) == 1
            found = () if uses is None else uses.get(name, ())
            seen = None if paths is None or single else _passed(paths, grown, name)
            declared = Role.INPUT if onto else Role.OUTPUT if sums == [t.name] else None
            usual = (Role.INPUT if sizes[-1] else Role.OUTPUT) if columns else None
            likely = Role.VECTOR if single else seen or declared or usual
            if found and paths is not None:
                # What its axes were not seen to be summed over for is not a readout, wherever it stands.
                likely = None if likely is Role.OUTPUT else likely
                likely = _used(found, axes, single, name in paths.ending(grown)) or likely
            out[t.name] = likely or Role.INPUT
            if likely is None:
                open_.add(t.name)
    return out, open_


def _used(
    uses: Collection[Use], growing: Mapping[int, Fraction], single: bool, ends: bool
) -> Role | None:
    """Role of a tensor with at most one side of fixed size, of which one kind of use tells everything."""
    verbs = {u.verb for u in uses}
    if verbs == {"summed"}:
        over = {any(i in growing for i in u.axes) for u in uses}
        last = Role.OUTPUT if ends else Role.BOTTLENECK
        return None if len(over) > 1 else last if over == {True} else Role.INPUT
    if verbs <= {"added", "picked"}:
        return Role.VECTOR if single else Role.INPUT
    return Role.VECTOR if verbs <= {"added", "multiplied"} else None


def _passed(paths: Paths, growing: Collection[str], name: str) -> Role | None:
    """Role of a tensor with a side of fixed size: the pass shows whether the width lies before it or behind."""
    if name not in paths.used():
        return None
    ends, starts = (name in found for found in (paths.ending(growing), paths.starting(growing)))
    return None if ends == starts else Role.OUTPUT if ends else Role.INPUT


def ask_bare(
    places: list[TensorDescription],
    growing: dict[str, dict[int, Fraction]],
    unsure: dict[str, Role],
    hint: str,
    used: Collection[str] | None = None,
    untold: Collection[str] = (),
) -> list[Question]:
    """Questions that must be asked about such tensors.

    Args:
        places: All tensors, each at each of its places.
        growing: By name the axes that grow.
        unsure: The tensors, with likely roles.
        hint: What else may tell them.
        used: Those of which the pass that was seen made use; ``None`` where none was seen.
        untold: Those of them whose role is a mere stand-in, which is not proposed.
    """
    if not unsure:
        return []
    lines: dict[str, None] = {}
    for t in (t for t in places if t.name in unsure):
        size = " x ".join("n" if i in growing[t.name] else str(s) for i, s in enumerate(t.shape))
        lines[f"  `{pattern(t.name)}`: {size}"] = None
    likely = {n: r for n, r in unsure.items() if n not in untold}
    answers = _by_pattern(likely, [t.name for t in places])
    written = ", ".join(f'"{n}": "{r}"' for n, r in answers.items())
    listed = "\n".join(lines)
    say = (
        f"Say it; most often it is roles={{{written}}}." if answers else "Say it with roles={...}."
    )
    if open_ := dict.fromkeys(pattern(n) for n in unsure if n in untold):
        say += (
            f" Nothing tells which side of {few(open_)} is summed over, so no role is proposed: say it, or show "
            "the forward pass with inputs=..."
        )
    idle = dict.fromkeys(pattern(n) for n in unsure if used is not None and n not in used)
    why = (
        f" The forward pass that was seen makes no use of {few(idle)}: with inputs=... that do, as those of "
        "training may, it can tell; where the loss alone does, let a module return the loss, and plan that."
        if idle
        else ""
    )
    return [
        Question(
            "No module says what these tensors do, and the shape of a tensor (n: grows with the width) does not "
            f"tell its role:\n{listed}\n{say} Roles are "
            '"vector" for one number per neuron, "input" for weights from a fixed number of inputs (or an '
            'embedding), "hidden" for a matrix between widths, "output" for the readout, "bottleneck" for a '
            f"matrix to a fixed number of units inside the network{hint}.{why}",
            {"roles": answers} if answers else {},
        )
    ]


def _by_pattern(roles: Mapping[str, Role], names: list[str]) -> dict[str, str]:
    """Roles in few words: the one that layers of a kind have in common first, then the exceptions."""
    kinds: dict[str, list[str]] = {}
    for name in roles:
        kinds.setdefault(pattern(name), []).append(name)
    out: dict[str, str] = {}
    for wanted, group in kinds.items():
        common = Counter(roles[n] for n in group).most_common(1)[0][0]
        if len(group) > 1 and set(matching(wanted, names)) == set(group):
            out[wanted] = str(common)
        else:
            out |= {n: str(common) for n in group if roles[n] == common}
        out |= {n: str(roles[n]) for n in group if roles[n] != common}
    return out


def grows(axes: tuple[int, ...], growing: dict[int, Fraction]) -> bool:
    """True if one of these axes grows with the width."""
    return any(i in growing for i in axes)


def few(names: Iterable[str], limit: int = 6) -> str:
    """Names in a sentence, the first of them."""
    listed = [f"`{n}`" for n in names]
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more
