"""Activation functions: value, derivatives, kinks, slopes and Taylor coefficients."""

from scalewise.activations._activation import Activation as Activation
from scalewise.activations._activation import Kink as Kink
from scalewise.activations._catalogue import BUILTIN_NAMES as BUILTIN_NAMES
from scalewise.activations._catalogue import activation as activation
