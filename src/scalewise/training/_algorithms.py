"""Ways to train, as data: each says which kernel it learns with, and what it does to an eigendirection of it."""

from __future__ import annotations

from scalewise.training._algorithm import Algorithm
from scalewise.training._descent import GradientDescent as GradientDescent
from scalewise.training._flow import GradientFlow as GradientFlow
from scalewise.training._newton import Projectors as Projectors
from scalewise.training._newton import TwoStepNewton as TwoStepNewton
from scalewise.training._posteriors import NTKGP as NTKGP
from scalewise.training._posteriors import Bayes as Bayes
from scalewise.training._posteriors import LastLayer as LastLayer

BY_WORD: dict[str, type[Algorithm]] = {
    kind.word: kind for kind in (GradientFlow, GradientDescent, TwoStepNewton, LastLayer, Bayes)
}
