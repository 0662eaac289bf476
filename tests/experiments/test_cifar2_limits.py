"""Property tests: a long comparison of limits is resumed where it was stopped."""

from pathlib import Path

import pytest
import xarray as xr

from scalewise.experiments import cifar2_limits
from scalewise.experiments.cifar2_limits import Config, needs_data, run

TINY = Config(samples=8, tests=6, width=16, seeds=4, steps=6, records=4, reference_width=8)
missing = needs_data()
pytestmark = pytest.mark.skipif(missing is not None, reason=str(missing))


def test_a_stopped_run_goes_on_behind_the_last_network(tmp_path: Path) -> None:
    whole = run(TINY)
    store = tmp_path / "cifar2"

    def stop(done: int, total: int) -> None:
        assert total == 1 + 4 * TINY.seeds
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(TINY, store=store, progress=stop)
    seen: list[int] = []
    again = run(TINY, store=store, progress=lambda done, _: seen.append(done))
    assert seen == list(range(7, 18))
    xr.testing.assert_identical(again, whole)
    with pytest.raises(ValueError, match="holds a run with other settings"):
        run(Config.small(), store=store)


def test_each_model_has_its_own_start() -> None:
    found = run(TINY)
    first = found.isel(step=0)
    assert float(first.size.sel(model="MF")) < 0.9 * float(first.size.sel(model="IC-MF"))
    # The corrected mean field starts as neural-tangent networks of its width do, sym-default too.
    assert float(first.divergence.sel(limit="sym-default")) == pytest.approx(
        float(first.divergence.sel(limit="IC-MF")), rel=1e-4
    )
    assert found.kernel.sel(model="NTK").values == pytest.approx(1.0)
    assert [*found.limit.values] == list(cifar2_limits.LIMITS)
