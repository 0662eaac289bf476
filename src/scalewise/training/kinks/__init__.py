r"""Networks whose activation has a kink: training changes their means at order $n^{-1/2}$, not $1/n$."""
