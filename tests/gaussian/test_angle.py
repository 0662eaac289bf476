"""Golden: angles of correlations against numpy's arc cosine."""

from __future__ import annotations

import numpy as np
import pytest

from scalewise.gaussian._angle import angle_and_sine, by_quarters


@pytest.mark.parametrize("least", [0.0, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98, 1.0 - 1e-9, 1.0])
def test_angles_and_sines_to_rounding(least: float) -> None:
    near = 1.0 - (1.0 - least) * np.logspace(-14, 0, 1000)
    c = np.concatenate([np.linspace(least, 1.0, 1000), near])
    before, (psi, sine, *work) = c.copy(), np.empty((4, c.size))
    by_quarters(c, least, psi, sine, (work[0], work[1]))
    np.testing.assert_array_equal(c, before)
    np.testing.assert_allclose(psi, np.arccos(c), rtol=9e-16)
    np.testing.assert_allclose(sine, np.sqrt((1 - c) * (1 + c)), rtol=9e-16)


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("least", [-1.0, 0.2])
def test_either_way_gives_the_same(
    vectors: bool, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scalewise.gaussian._angle._has_vectors", lambda: vectors)
    c = np.linspace(least, 0.99, 100)
    psi, sine, *work = np.empty((4, c.size))
    angle_and_sine(c, least, psi, sine, (work[0], work[1]))
    np.testing.assert_allclose(np.cos(psi), c, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(sine, np.sin(psi), rtol=1e-13, atol=1e-15)
