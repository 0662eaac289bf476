"""Bayesian learning at finite width: order 1/n from single neurons, and a renormalised kernel beyond."""

from scalewise.training.posterior._route import NEURONS as NEURONS
