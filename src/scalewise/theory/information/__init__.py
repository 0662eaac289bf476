"""Entropy and mutual information of neurons, and the depth that carries most of it."""

from scalewise.theory.information._aspect_ratio import optimal_aspect_ratio as optimal_aspect_ratio
from scalewise.theory.information._aspect_ratio import optimal_depth as optimal_depth
from scalewise.theory.information._aspect_ratio import optimal_information as optimal_information
from scalewise.theory.information._aspect_ratio import vertex_growth as vertex_growth
from scalewise.theory.information._discrete_information import (
    boltzmann_distribution as boltzmann_distribution,
)
from scalewise.theory.information._discrete_information import cross_entropy as cross_entropy
from scalewise.theory.information._discrete_information import entropy as entropy
from scalewise.theory.information._discrete_information import kl_divergence as kl_divergence
from scalewise.theory.information._discrete_information import (
    mutual_information as mutual_information,
)
from scalewise.theory.information._discrete_information import (
    tripartite_information as tripartite_information,
)
from scalewise.theory.information._information import conditional_variance as conditional_variance
from scalewise.theory.information._information import entropy_correction as entropy_correction
from scalewise.theory.information._information import finite_width_entropy as finite_width_entropy
from scalewise.theory.information._information import (
    finite_width_mutual_information as finite_width_mutual_information,
)
from scalewise.theory.information._information import (
    finite_width_tripartite_information as finite_width_tripartite_information,
)
from scalewise.theory.information._information import gaussian_entropy as gaussian_entropy
from scalewise.theory.information._information import (
    gaussian_mutual_information as gaussian_mutual_information,
)
from scalewise.theory.information._information import (
    two_input_mutual_information as two_input_mutual_information,
)
