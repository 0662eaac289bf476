"""Any loss at infinite width: networks drawn as Gaussian processes, each trained by its constant kernel."""

from scalewise.training.losses._calibration import reliability as reliability
