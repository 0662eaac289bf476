"""The sentences of a report: the verdict, the critical point, what the aspect ratio implies."""

import math
import re
from collections.abc import Iterable

from markupsafe import Markup, escape

from scalewise._look import SUPERSCRIPT
from scalewise._words import listed
from scalewise.critical import criticality
from scalewise.observables import OBSERVABLES
from scalewise.report._aspect import LARGE, SMALL
from scalewise.report._results import Results

_MINUS = "−"
_THIN = "\u202f"


def number(value: int | float, digits: int = 3) -> str:
    """A number with so many significant digits, in the typography of running text."""
    if not math.isfinite(value):
        return str(value)
    text = f"{value:.{digits}g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        power = str(int(exponent)).translate(SUPERSCRIPT)
        text = f"{mantissa}{_THIN}×{_THIN}10{power}"
    return text.replace("-", _MINUS)


def count(value: int) -> str:
    """A whole number with thin spaces between the thousands."""
    return f"{value:,}".replace(",", _THIN) if value >= 10_000 else str(value)


def typeset(text: str) -> Markup:
    """A sentence written for a terminal, with its formulas in the letters of the field."""
    for plain, letter in (("sigma", "σ"), ("chi_parallel", "χ∥"), ("chi_perp", "χ⊥")):
        text = text.replace(plain, letter)
    text = re.sub(r"\^(\d+)", lambda m: m.group(1).translate(SUPERSCRIPT), text)
    text = re.sub(r"<([^<>]*)>", r"⟨\1⟩", text).replace("'", "′").replace("...", "…")
    text = re.sub(r"(?<=[\s=(])-(?=[\d\s])", _MINUS, text)
    # What is left of markup is ours: letters with an index.
    told = re.sub(r"\b([CAK])_([A-Za-z0-9])\b", r"<i>\1<sub>\2</sub></i>", str(escape(text)))
    told = re.sub(r"⟩_([A-Za-z0-9])", r"⟩<sub>\1</sub>", told)
    return Markup(re.sub(r"\bK(?![A-Za-z0-9_<])", "<i>K</i>", told))


def one_or_all(values: Iterable[int | float]) -> str:
    """One number if all are equal, else all of them."""
    told = [repr(v) if isinstance(v, int) else f"{v:.12g}" for v in values]
    if not told:
        return "none"
    return f"{told[0]} in every layer" if len(set(told)) == 1 else ", ".join(told)


def convolution_words(results: Results) -> list[str]:
    """Sentences on the comparison of a convolutional network, and its outcome."""
    other = results.convolution
    if other is None:
        return []
    shape = " × ".join(map(str, other.net.input_shape))
    outcome = other.comparison
    lead = {
        True: "Theory and networks agree",
        False: "Theory and networks disagree",
        None: "There is no verdict",
    }[outcome.passed]
    ends = (
        f": the largest of {outcome.table.sizes['entry']} differences is "
        f"{number(abs(outcome.worst(1)[0].z_excess))} standard errors beyond its bias."
    )
    return [
        f"The same inputs as images of {shape} enter a network of two convolutions and a global average. Its "
        "kernels at infinite width are predicted, and measured on drawn networks.",
        f"{lead}{ends}" if outcome.passed is not None else f"{lead}. {outcome.reason}",
    ]


def verdict(results: Results) -> Markup:
    """Summary for a reader who reads one paragraph."""
    outcome, net = results.comparison, results.net
    attrs = results.ensemble.attrs
    names = [_words(str(name)) for name in outcome.z.data_vars]
    where = _extrapolation(results) if attrs.get("extrapolated") else ""
    opening = (
        f"{count(int(attrs['networks']))} random networks of {_layers(net.depth)} were drawn and "
        f"their {listed(names, 'and')} measured on {results.samples} "
        f"{'input' if results.samples == 1 else 'inputs'} in every layer{where}. "
    )
    if outcome.passed is None:
        lead, end = (
            "Theory and networks stand beside each other, without a verdict.",
            outcome.reason,
        )
    elif outcome.passed:
        lead, end = "Theory and networks agree.", _agreeing(results)
        if outcome.reason:
            lead = f"Theory and networks agree in {listed(map(_words, outcome.decided), 'and')}."
            end = f"{end} {outcome.reason}"
    else:
        lead, end = "Theory and networks disagree.", _disagreeing(results)
    end = end[0].upper() + end[1:]
    if outcome.passed and float(results.expansion.max()) >= LARGE:
        end += (
            " But at this width the neglected order is as large as the leading one, so agreement "
            "within it says little: measure wider networks."
        )
    return Markup("<strong>{}</strong> {}{}").format(lead, opening, end)


def _disagreeing(results: Results) -> str:
    outcome = results.comparison
    worst = outcome.worst(1)[0]
    return (
        f"the worst of {count(outcome.table.sizes['entry'])} distinct numbers, the {_words(worst.observable)} in "
        f"layer {worst.layer}, is off by {number(abs(worst.z_excess))} standard errors more than the "
        f"neglected order explains; the limit is {number(outcome.limit)}."
    )


def _agreeing(results: Results) -> str:
    outcome = results.comparison
    worst = abs(outcome.worst(1)[0].z_excess)
    total = count(outcome.table.sizes["entry"])
    if worst == 0:
        return (
            f"of {total} distinct numbers, predicted without drawing a weight, none is further "
            "off than the stated size of the neglected order."
        )
    return (
        f"of {total} distinct numbers, predicted without drawing a weight, none is off by more "
        f"than {number(worst)} standard errors beyond the stated size of the neglected order; the "
        f"limit is {number(outcome.limit)}."
    )


def critical_words(results: Results) -> Markup:
    """Sentences on where the activation is critical and how that was found."""
    record = criticality(results.net.activation)
    name = escape(results.net.activation.name)
    if record.C_b is None or record.C_W is None:
        return Markup("{} has no critical initialisation: {}").format(name, typeset(record.reason))
    own = "" if results.net.criticality else "The variances of this network are other ones. "
    return Markup(
        "{}For {} the critical initialisation is <i>C<sub>b</sub></i> = {}, "
        "<i>C<sub>W</sub></i> = {}{}. {}"
    ).format(
        own,
        name,
        f"{record.C_b:.12g}",
        f"{record.C_W:.12g}",
        ""
        if record.K_star is None
        else Markup(", with the kernel fixed at <i>K</i>* = {}").format(f"{record.K_star:.12g}"),
        typeset(record.found),
    )


def aspect_words(results: Results) -> list[Markup]:
    """Consequences of the depth at this width, in words, with what counts as small."""
    net, epsilon = results.net, float(results.expansion[-1])
    out = [
        Markup(
            "Depth {} over width {} is an aspect ratio <i>L</i>∕<i>n</i> of {}. At infinite width "
            "every network would have the same metric; at this width an entry of the metric of the "
            "output varies from network to network with a standard deviation of up to "
            "<strong>{}</strong> of the geometric mean of its two diagonal entries (<i>ε</i> = {})."
        ).format(
            net.depth,
            _width(results),
            number(net.aspect_ratio),
            f"{math.sqrt(max(epsilon, 0.0)):.0%}",
            number(epsilon),
        ),
    ]
    if epsilon <= 0:
        return [
            *out,
            Markup("Nothing fluctuates: the metric of a single layer is fixed by the inputs."),
        ]
    if epsilon < SMALL:
        judgement = (
            f"That is small: below {SMALL} the leading order is right to about {epsilon:.0%}, and "
            f"the kernel with its 1/n term to about {epsilon**2:.1%}."
        )
    elif epsilon < LARGE:
        judgement = (
            f"That is not small: between {SMALL} and {LARGE:g} the expansion still orders effects "
            f"correctly, but what it neglects is about {epsilon:.0%} of the leading order and "
            f"{epsilon**2:.0%} of the kernel."
        )
    else:
        judgement = (
            f"That is too much: from {LARGE:g} on no order is smaller than the one before, and "
            "single networks have little to do with their mean."
        )
    n = net.hidden_widths[0]
    needed = math.ceil(n * epsilon / SMALL)
    return [
        *out,
        Markup("{} At this depth <i>ε</i> = {} is reached at width {}.").format(
            judgement, SMALL, count(needed)
        ),
    ]


def _words(name: str) -> str:
    """Name of an observable in running text."""
    return OBSERVABLES[name].words or name


def _layers(depth: int) -> str:
    return f"{depth} layer" + ("s" if depth > 1 else "")


def _width(results: Results) -> str:
    hidden = sorted(set(results.net.hidden_widths))
    if not hidden:
        return "none"
    return str(hidden[0]) if len(hidden) == 1 else f"{hidden[0]} to {hidden[-1]}"


def _extrapolation(results: Results) -> str:
    attrs = results.ensemble.attrs
    widths = [str(int(w)) for w in attrs["widths"]]
    return (
        f", at widths {listed(widths, 'and')}, and extrapolated to infinite width by a polynomial of degree "
        f"{int(attrs['extrapolation_degree'])} in 1/n"
    )
