"""An algorithm as attributes of a result, by which two results are told to be of the same training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from scalewise.training._algorithms import Algorithm, GradientDescent, GradientFlow


def described(algorithm: Algorithm) -> dict[str, object]:
    """An algorithm as attributes of a result.

    Returns:
        ``algorithm`` as it was given; ``algorithm_but_rate``, since a rate of ``None`` is a number too; and whether
        training goes ``to_the_end``, where the leading order has forgotten the rate.
    """
    descends = isinstance(algorithm, GradientDescent)
    rest = replace(algorithm, rate=None) if descends else algorithm
    stops = (
        descends and (algorithm.steps is not None or isinstance(algorithm.rate, Sequence))
    ) or (isinstance(algorithm, GradientFlow) and not math.isinf(algorithm.time))
    return {
        "algorithm": repr(algorithm),
        "algorithm_but_rate": repr(rest),
        "to_the_end": int(not stops),
    }
