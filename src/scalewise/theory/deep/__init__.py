"""Great depth: classes, leading forms, exponents, angles."""

from scalewise.theory.deep._angles import AngleFlow as AngleFlow
from scalewise.theory.deep._angles import angle_flow as angle_flow
from scalewise.theory.deep._angles import crossover_depth as crossover_depth
from scalewise.theory.deep._angles import deep_angle as deep_angle
from scalewise.theory.deep._angles import deep_ntk_angle as deep_ntk_angle
from scalewise.theory.deep._angles import kernel_angle as kernel_angle
from scalewise.theory.deep._asymptotics import Asymptotics as Asymptotics
from scalewise.theory.deep._asymptotics import asymptotics as asymptotics
from scalewise.theory.deep._asymptotics import leading_forms as leading_forms
from scalewise.theory.deep._ratios import finite_width_ratios as finite_width_ratios
from scalewise.theory.deep._ratios import output_scale as output_scale
from scalewise.theory.deep._scale_invariant import critical_forms as critical_forms
from scalewise.theory.deep._scale_invariant import semi_critical_forms as semi_critical_forms
from scalewise.theory.deep._scaling_ansatz import ScalingFit as ScalingFit
from scalewise.theory.deep._scaling_ansatz import fit_scaling as fit_scaling
from scalewise.theory.deep._scaling_ansatz import normalised_exponents as normalised_exponents
from scalewise.theory.deep._scaling_ansatz import relevance as relevance
from scalewise.theory.deep._vanishing_kernel import distance_forms as distance_forms
from scalewise.theory.deep._vanishing_kernel import perturbation_series as perturbation_series
from scalewise.theory.deep._vanishing_kernel import tuned_metric as tuned_metric
from scalewise.theory.deep._vanishing_kernel import uniform_rate_forms as uniform_rate_forms
