"""Ensembles of equal size and different seeds, as one."""

from __future__ import annotations

import numpy as np
import xarray as xr

from scalewise._checked import checked


@checked
def pooled(parts: xr.Dataset, dim: str = "seed") -> xr.Dataset:
    r"""Take independent ensembles of equal size for one: what `sweep` gives when it splits `measure` over seeds.

    $$\bar O=\frac1k\sum_jO_j,\qquad\mathrm{sem}(\bar O)=\frac1k\Big(\sum_j\mathrm{sem}(O_j)^2\Big)^{1/2}.$$
    Every estimator of `measure` is unbiased, and so is the mean of some.

    Args:
        parts: Measured Datasets along a dimension of seeds, with or without other dimensions.
        dim: Its name.

    Returns:
        The Dataset without that dimension; ``networks`` counts all of them, ``ensembles`` the parts.

    Raises:
        ValueError: If it has no such dimension, its parts are not ensembles of equal size, or one is missing.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.MLP(2, 8, "relu", input_dim=2, output_dim=1)
        >>> def part(seed):
        ...     return sw.measure(net, np.eye(2), networks=50, seed=seed, observables="kernel")
        >>> whole = sw.nets.pooled(sw.sweep(part, {"seed": range(4)}))
        >>> whole.attrs["networks"], whole.attrs["ensembles"], whole.kernel.dims
        (200, 4, ('layer', 'sample', 'sample_1'))
    """
    if dim not in parts.dims:
        raise ValueError(
            f"`dim` must be a dimension of `parts`, {', '.join(map(str, parts.dims))}; got {dim!r}."
        )
    if "networks" not in parts.attrs or parts.attrs.get("kind") != "ensemble":
        raise ValueError(
            "`parts` must be Datasets of `measure`, all with the same number of networks; their attributes differ."
        )
    missing = [
        str(n) for n, v in parts.data_vars.items() if v.dtype.kind == "f" and v.isnull().any()
    ]
    if missing:
        raise ValueError(
            f"`parts` has gaps in {', '.join(missing)}. Complete the sweep, or drop the seeds that are missing."
        )
    size = parts.sizes[dim]
    told = [n for n in parts.coords if dim in parts[n].dims]
    means = parts.drop_vars(told).mean(dim)
    for name in parts.data_vars:
        if str(name).endswith("_sem"):
            means[name] = (
                np.sqrt((parts[name].drop_vars(told, errors="ignore") ** 2).sum(dim)) / size
            )
        means[name].attrs = parts[name].attrs
    counts = {"networks": parts.attrs["networks"], "ensembles": parts.attrs.get("ensembles", 1)}
    means.attrs = {**parts.attrs, **{name: size * int(many) for name, many in counts.items()}}
    means.attrs.pop("versions", None)
    return means
