"""Order 1/n of networks of any layers, from how the network at infinite width responds to single units.

Entered by `predict`; with JAX, which differentiates the program.
"""
