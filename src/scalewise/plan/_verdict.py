"""What a measurement says of a network in the limit of great width, whatever was planned."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np

from scalewise._readable import readable
from scalewise.plan._fits import Fit, Status, power_law
from scalewise.plan._measurement import Measurement, Quantity
from scalewise.plan._rows import Row
from scalewise.scaling import Regime

_SIZES = {
    Quantity.OUTPUT: "What {module} returns at initialisation",
    Quantity.FEATURES: "What the readout reads at initialisation",
    Quantity.OWN_CHANGE: "What the update of `{tensor}` adds to its output",
    Quantity.CHANGE: "The change of what {module} returns",
    Quantity.FEATURES_CHANGE: "The change of what the readout reads",
    Quantity.LOGITS: "The size of the attention logits of {module} at initialisation",
    Quantity.LOGITS_CHANGE: "The change of the attention logits of {module}",
}

# What may not grow with the width.
GROWING = tuple(_SIZES)


@dataclass(frozen=True)
@readable
class Verdict:
    r"""Stable or not, trivial or not, and the regime: from measured powers alone.

    Stable: no activation, no change and no logit grows with the width. Nontrivial: the logits move at
    order one. Feature learning: so do the features that the readout reads; kernel regime: they move less
    and less.

    Args:
        regime: The kind of limit; ``None`` where what the readout reads or returns was not seen.
        stable: Whether nothing that was seen grows.
        nontrivial: Whether it is stable and the logits move.
        features: The power of the width by which the features move, beside their size.
        logits: The power by which the logits move.
        reasons: Why, in whole sentences.
        sure: Whether the regime is told apart from others; stability always is.
        open: Whether it is not, and is another than planned: then neither can be excluded.
    """

    regime: Regime | None
    stable: bool
    nontrivial: bool
    features: Fit
    logits: Fit
    reasons: tuple[str, ...]
    sure: bool = True
    open: bool = False

    def __str__(self) -> str:
        if self.regime is None:
            return "stable as far as seen, regime not seen"
        if not self.stable:
            return str(self.regime)
        return "stable, regime not told apart" if self.open else f"{self.regime}, stable"

    def beside(self, planned: Collection[Regime]) -> Verdict:
        """This verdict beside `planned`, the regimes that a plan allows: open if it is unsure and none of them."""
        told = self.sure or self.regime is None
        return replace(self, open=not told and self.regime not in planned)


def judge(
    rows: Iterable[Row], measured: Measurement, tolerance: float, *, late: bool = False
) -> Verdict:
    """The verdict of a measurement; what powers were planned does not enter.

    A size grows if its power is above the tolerance and its error; features vanish if the power of their
    change is as clearly below; logits fade if they and what the readout's own update adds to them
    both do. A power that bends to zero and is there at the largest width
    is zero.

    Args:
        rows: The fits.
        measured: What they were fitted to.
        tolerance: How far from zero a power may be.
        late: Whether a part of the network comes through a bottleneck, which moves late: what fades after the
            first steps may come yet.
    """
    found = list(rows)
    features, logits, own = _moves(found, measured)
    stable = Verdict(None, True, True, features, logits, ())
    growing = [r for r in found if r.quantity in _SIZES and grows(r.fit, tolerance)]
    if growing:
        worst = sorted(growing, key=lambda r: -r.fit.slope)
        reasons = tuple(_grown(r, measured) for r in worst)
        return replace(
            stable, regime=Regime.UNSTABLE, stable=False, nontrivial=False, reasons=reasons
        )
    calm = _calm([r for r in found if r.quantity in _SIZES], measured, tolerance)
    if Status.ABSENT in (features.status, logits.status):
        reasons = (calm, not_seen(measured.unseen or measured.readouts))
        return replace(stable, nontrivial=False, reasons=reasons, sure=False)
    trivial = replace(stable, regime=Regime.TRIVIAL, nontrivial=False)
    moved = logits.status is Status.FITTED
    fades = _fades(logits, tolerance)
    # A frozen readout has no update of its own to show at which order the logits will move.
    shown = own.status is not Status.ABSENT or not measured.readouts
    soon = "What comes through a bottleneck moves late, so these powers may rise yet."
    if not moved or (fades and _fades(own, tolerance)):
        power = f"by n^({_slope_and_error(logits)})" if moved else "not at all"
        reasons = (calm, f"The logits move {power}.", *([soon] if late else []))
        return replace(trivial, reasons=reasons, sure=shown and not late)
    # What the readout's own update does is one part of the change, and the first to show its power.
    alone = (
        f", and by n^({_slope_and_error(own)}) through the readout's own update" if fades else ""
    )
    reasons = (calm, f"The logits move at order one, by n^({_slope_and_error(logits)}){alone}.")
    passed = _passed_on(measured)
    if passed.status is Status.FITTED and _fades(passed, 2 * tolerance):
        lost = (
            f"What the model returns moves less and less beside them, by n^({_slope_and_error(passed)}): what "
            "its readouts return is not what it returns, or is scaled down on the way."
        )
        reasons = (*reasons, lost, *([soon] if late else []))
        return replace(trivial, reasons=reasons, sure=not late)
    learns = not _fades(features, tolerance)
    regime = Regime.FEATURES if learns else Regime.KERNEL
    yet = late and not learns
    what = "What the readout reads" if measured.readouts else "What the model multiplies"
    reasons = (*reasons, *_of_features(what, features, tolerance, learns), *([soon] if yet else []))
    sure = not yet and not _close(features, tolerance)
    return replace(stable, regime=regime, reasons=reasons, sure=sure)


def _moves(rows: list[Row], measured: Measurement) -> tuple[Fit, Fit, Fit]:
    """Fits of how features move, how outputs do, and these by the readouts' own updates.

    Where no tensor reads out, features are what the model multiplies, and outputs what it returns.
    """
    readouts = measured.readouts
    features = _largest(_relative(measured, n) for n in readouts or measured.multiplied)
    if not readouts:
        returned = measured.returned
        return features, Fit() if returned is None else power_law(measured.widths, returned), Fit()
    read = [r for r in rows if r.tensor in readouts]
    quantities = Quantity.CHANGE, Quantity.OWN_CHANGE
    logits, own = (_largest(r.fit for r in read if r.quantity is q) for q in quantities)
    return features, logits, own


def not_seen(readouts: Collection[str]) -> str:
    """Sentence that it was not measured how a network learns, and what would show it."""
    if not readouts:
        return (
            "No tensor reads out, and what the model returns was not seen, or not how the features move that it "
            "multiplies. Let the loss call the model itself, and let modules that are trained make these features "
            "(an embedding: torch.nn.Embedding)."
        )
    named, many = ", ".join(f"`{n}`" for n in readouts), len(readouts) > 1
    who = (
        f"the readouts {named} read and return"
        if many
        else f"the readout {named} reads and returns"
    )
    return (
        f"What {who} was not seen, so whether features and outputs move was not measured. Let a module of its own "
        "read out (torch.nn.Linear; of a tied tensor one that shares it), called with the features alone."
    )


def _passed_on(measured: Measurement) -> Fit:
    """Fit of how what the model returns moves beside what its readouts return."""
    if measured.returned is None or not measured.readouts:
        return Fit()
    moved = [measured.beside(n, Quantity.GROWN_CHANGE) for n in measured.readouts]
    largest = np.max([np.where(np.isnan(m), 0.0, m) for m in moved], axis=0)
    if not np.all((largest > 0) & np.isfinite(largest)):
        return Fit()
    return power_law(measured.widths, measured.returned / largest)


def _calm(rows: list[Row], measured: Measurement, tolerance: float) -> str:
    """Sentence that nothing grows, with what may yet be found to."""
    steep = [r for r in rows if r.fit.slope > tolerance + 2 * r.fit.sem]
    perhaps = [r for r in steep if not r.fit.tends_to(0.0, tolerance)]
    if not perhaps:
        return "Nothing grows with the width."
    worst = max(perhaps, key=lambda r: r.fit.slope)
    return f"Nothing is sure to grow with the width, but: {_grown(worst, measured)} More seeds will tell."


def _of_features(what: str, features: Fit, tolerance: float, learns: bool) -> tuple[str, ...]:
    if features.status is not Status.FITTED:
        return (
            f"{what} does not move: no tensor below it is trained. (PyTorch does not register "
            "modules in a plain list; it has torch.nn.ModuleList for that.)",
        )
    power = f"n^({_slope_and_error(features)})"
    if learns:
        said = f"{what} moves at order one, by {power}."
    else:
        s = min(max(1 + 2 * features.slope, 0.0), 1.0)
        said = f"{what} moves less and less, by {power}, as in the family at s = {s:.2f}."
    doubt = "That is too close to call with these seeds; more seeds or larger widths will tell."
    return (said, doubt) if _close(features, tolerance) else (said,)


def _close(features: Fit, tolerance: float) -> bool:
    """True if features neither clearly fade nor clearly stay."""
    if features.status is not Status.FITTED or _fades(features, tolerance):
        return False
    return features.slope < 2 * features.sem - tolerance


def _relative(measured: Measurement, name: str) -> Fit:
    """Fit of how the features move beside their size: a model may scale them down before it reads out."""
    size, change = (measured.of(name, q) for q in (Quantity.FEATURES, Quantity.FEATURES_CHANGE))
    if not measured.readouts:
        size, change = (measured.beside(name, q) for q in (Quantity.OUTPUT, Quantity.CHANGE))
    if not np.all(size > 0):
        return power_law(measured.widths, change)
    finite = np.isfinite(size) & np.isfinite(change)
    ratio = np.divide(change, size, out=np.full_like(size, math.inf), where=finite)
    return power_law(measured.widths, np.where(np.isnan(size + change), math.nan, ratio))


def _largest(fits: Iterable[Fit]) -> Fit:
    """The fit that dominates at great width, of those that were seen."""
    seen = [f for f in fits if f.status is not Status.ABSENT]
    return max(
        seen, key=lambda f: f.slope if f.status is not Status.ZERO else -math.inf, default=Fit()
    )


def _fades(fit: Fit, tolerance: float) -> bool:
    if fit.status is not Status.FITTED:
        return True
    return fit.slope < -tolerance - fit.doubt and not fit.tends_to(0.0, tolerance)


def grows(fit: Fit, tolerance: float) -> bool:
    """True if a size surely grows with the width."""
    if fit.status is Status.DIVERGED:
        return True
    return fit.slope > tolerance + fit.doubt and not fit.tends_to(0.0, tolerance)


def _grown(row: Row, measured: Measurement) -> str:
    module = row.tensor
    if row.tensor in measured.tensors:
        module = measured.modules[measured.tensors.index(row.tensor)]
    where = f"`{module}`" if module else measured.whole
    what = _SIZES[row.quantity].format(module=where, tensor=row.tensor)
    if row.fit.status is Status.DIVERGED:
        return f"{what} is not finite."
    return f"{what} grows by n^({_slope_and_error(row.fit)})."


def _slope_and_error(fit: Fit) -> str:
    return f"{fit.slope:+.2f} ± {fit.sem:.2f}"
