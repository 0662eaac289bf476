"""Nearly-kernel methods: models that are almost linear in their parameters, whose features learn a little."""

from scalewise.training.nearly_kernel._polynomials import polynomial_features, turning_points
from scalewise.training.nearly_kernel._prediction import (
    nearly_kernel_prediction,
    trained_kernel,
    trained_kernel_prediction,
)
from scalewise.training.nearly_kernel._quadratic import QuadraticModel
from scalewise.training.nearly_kernel._random_features import CubicModel
from scalewise.training.nearly_kernel._regression import (
    Fitted,
    nearly_linear_regression,
    ridge_regression,
)
from scalewise.training.nearly_kernel._ways import (
    Descent,
    DirectOptimisation,
    MinimumNorm,
    TrainedKernel,
)

__all__ = [
    "CubicModel",
    "Descent",
    "DirectOptimisation",
    "Fitted",
    "MinimumNorm",
    "QuadraticModel",
    "TrainedKernel",
    "nearly_kernel_prediction",
    "nearly_linear_regression",
    "polynomial_features",
    "ridge_regression",
    "trained_kernel",
    "trained_kernel_prediction",
    "turning_points",
]
