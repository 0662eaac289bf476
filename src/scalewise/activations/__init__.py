"""Activation functions: value, derivatives, kinks, slopes and Taylor coefficients."""

from scalewise.activations._activation import Activation, Kink
from scalewise.activations._catalogue import BUILTIN_NAMES, activation

__all__ = ["BUILTIN_NAMES", "Activation", "Kink", "activation"]
