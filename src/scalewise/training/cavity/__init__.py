"""Order 1/n for any loss and any time, by one neuron added to an infinitely wide network."""

from scalewise.training.cavity._correction import cavity_correction as cavity_correction
