"""Golden: angles of correlations against numpy's arc cosine."""

from __future__ import annotations

import numpy as np
import pytest

from scalewise.gaussian._angle import quarter_and_half_sine


@pytest.mark.parametrize("least", [0.0, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98, 1.0 - 1e-9, 1.0])
def test_angles_and_sines_to_rounding(least: float) -> None:
    near = 1.0 - (1.0 - least) * np.logspace(-14, 0, 1000)
    c = np.concatenate([np.linspace(least, 1.0, 1000), near])
    before, (psi, sine, *work) = c.copy(), np.empty((4, c.size))
    quarter_and_half_sine(c, least, psi, sine, (work[0], work[1]))
    np.testing.assert_array_equal(c, before)
    np.testing.assert_allclose(4 * psi, np.arccos(c), rtol=9e-16)
    np.testing.assert_allclose(2 * sine, np.sqrt((1 - c) * (1 + c)), rtol=9e-16)
