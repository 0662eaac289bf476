"""Exact results: linear networks, and every differential of one hidden layer."""

from scalewise.theory.exact._differentials import (
    mean_shallow_differential as mean_shallow_differential,
)
from scalewise.theory.exact._differentials import shallow_differential as shallow_differential
from scalewise.theory.exact._differentials import sigma_derivative as sigma_derivative
from scalewise.theory.exact._linear_networks import (
    connected_linear_correlator as connected_linear_correlator,
)
from scalewise.theory.exact._linear_networks import cumulants as cumulants
from scalewise.theory.exact._linear_networks import double_scaling_moment as double_scaling_moment
from scalewise.theory.exact._linear_networks import linear_correlator as linear_correlator
from scalewise.theory.exact._linear_networks import linear_vertex as linear_vertex
from scalewise.theory.exact._linear_networks import metric_moments as metric_moments
from scalewise.theory.exact._linear_networks import observable_covariance as observable_covariance
from scalewise.theory.exact._linear_networks import pairing_factor as pairing_factor
