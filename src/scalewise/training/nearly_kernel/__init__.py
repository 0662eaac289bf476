"""Nearly-kernel methods: models that are almost linear in their parameters, whose features learn a little."""

from scalewise.training.nearly_kernel._polynomials import polynomial_features as polynomial_features
from scalewise.training.nearly_kernel._polynomials import turning_points as turning_points
from scalewise.training.nearly_kernel._prediction import (
    nearly_kernel_prediction as nearly_kernel_prediction,
)
from scalewise.training.nearly_kernel._prediction import trained_kernel as trained_kernel
from scalewise.training.nearly_kernel._prediction import (
    trained_kernel_prediction as trained_kernel_prediction,
)
from scalewise.training.nearly_kernel._quadratic import QuadraticModel as QuadraticModel
from scalewise.training.nearly_kernel._random_features import CubicModel as CubicModel
from scalewise.training.nearly_kernel._regression import Fitted as Fitted
from scalewise.training.nearly_kernel._regression import (
    nearly_linear_regression as nearly_linear_regression,
)
from scalewise.training.nearly_kernel._regression import ridge_regression as ridge_regression
from scalewise.training.nearly_kernel._ways import Descent as Descent
from scalewise.training.nearly_kernel._ways import DirectOptimisation as DirectOptimisation
from scalewise.training.nearly_kernel._ways import MinimumNorm as MinimumNorm
from scalewise.training.nearly_kernel._ways import TrainedKernel as TrainedKernel
