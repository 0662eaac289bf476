"""Measurement: ensembles of real networks, and unbiased estimators with their standard errors."""

from scalewise._extras import require

require("jax", "zarr", for_="Measuring networks (`scalewise.nets`)", extra="nets")

from scalewise.nets._backprop import error_factors as error_factors
from scalewise.nets._backprop import parameter_step as parameter_step
from scalewise.nets._differentials import empirical_differential as empirical_differential
from scalewise.nets._differentials import sample_differentials as sample_differentials
from scalewise.nets._empirical import empirical_ddntk as empirical_ddntk
from scalewise.nets._empirical import empirical_dntk as empirical_dntk
from scalewise.nets._empirical import empirical_ntk as empirical_ntk
from scalewise.nets._layer_tensors import LayerTensors as LayerTensors
from scalewise.nets._layer_tensors import layer_tensors as layer_tensors
from scalewise.nets._measure import measure as measure
from scalewise.nets._networks import init_weights as init_weights
from scalewise.nets._pooled import pooled as pooled
from scalewise.networks.spi import Parameters as Parameters
