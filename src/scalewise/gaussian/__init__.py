r"""Gaussian expectations of activations: one interface, several engines, every error estimated."""

from scalewise.gaussian._estimate import Estimate as Estimate
from scalewise.gaussian._four import FourPoint as FourPoint
from scalewise.gaussian._four import four_point_covariances as four_point_covariances
from scalewise.gaussian._interface import pair_moment as pair_moment
from scalewise.gaussian._interface import pair_moments as pair_moments
from scalewise.gaussian._interface import single_moment as single_moment
