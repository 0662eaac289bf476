r"""Order 1/n of networks of every kind, compared with networks that were really drawn.

Twelve small networks are predicted and drawn at two widths. An entry of a tensor $T$ that is measured at
width $n$ is the prediction and more orders,
$$T_n=T+\frac{T'}n+\dots,\qquad z_n=\frac{T_n-T}{\text{error}},$$
so that $z_n$ itself need not be small. A straight line in $1/n$ through both widths has the value
$(n_2T_{n_2}-n_1T_{n_1})/(n_2-n_1)$ at $1/n=0$, which misses the prediction by order $1/n_1n_2$ alone. The kernel
and the NTK are compared with their 1/n terms, $K+G^{\{1\}}/n$ and $\Theta+H^{\{1\}}/n$, and what is extrapolated
of them are these terms, $n(K_n-K)$ and $n(\Theta_n-\Theta)$; where the theory has none, they themselves.

Claims: no extrapolated entry disagrees beyond chance; without their 1/n terms, kernel and NTK would at one width.

Source: PDLT (4.115), (4.119), (8.63), (8.77)-(8.97); of any layers derived.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.comparison.spi import limit_among
from scalewise.experiments._form import Folder, Progress, settings
from scalewise.experiments._look import COLORS, Number, Table, attributes, panels
from scalewise.experiments._twelve_networks import NETWORKS, inputs_of
from scalewise.nets import measure
from scalewise.observables import OBSERVABLES
from scalewise.sweeps import sweep
from scalewise.theory import predict

TITLE = "Order 1/n of every kind of layers against drawn networks"
TEXT = (
    "Convolutional, graph, residual, normed, attending, recurrent and plain networks are drawn at two widths. "
    "How much they differ from one another, and by what their mean differs from infinite width, is compared "
    "with the theory. Left: of each network and tensor the entry that disagrees most after extrapolation, in "
    "standard errors, sorted; below the dotted line, theory and networks agree. Right: kernel and NTK of the "
    "narrower networks, with and without their 1/n terms."
)
# By letter of the source; those of leading order with the name of their 1/n term.
MEANS = {"K": ("kernel", "metric_nlo"), "Theta": ("ntk", "ntk_nlo")}
TENSORS = {"V": "four_point_vertex", "A": "ntk_A", "B": "ntk_B", "D": "ntk_D", "F": "ntk_F"}
LETTERS = (*MEANS, *TENSORS)
_BESIDE = (("predicted", "predicted_error"), ("found", "found_sem"))
TERMS = {"K": "G1", "Theta": "H1"}
CALLED = dict(zip(LETTERS, ("K + G1/n", "Θ + H1/n", *TENSORS), strict=True))
ALONE = ("entries", "worst", "rms", "predicted", "predicted_error", "found", "found_sem")
AT_WIDTHS = ("worst_at", "rms_at", "without")
ALL = (*ALONE, *AT_WIDTHS)


# Small: what takes seconds.
@settings(networks_of=("MLP", "tied depth", "residual"), networks=400, means=4000)
class Config:
    """Settings.

    Args:
        networks_of: Of the twelve.
        widths: Two, ascending; multiples of 4, the size of a head.
        networks: Drawn at each width for V, A, B, D and F.
        means: Drawn at each width for K and Θ, which take less time and more networks.
        seed: With the name of a network, the seed of its ensembles.
    """

    networks_of: tuple[str, ...] = ("MLP", "graph", "residual", "tied depth", "recurrent")
    widths: tuple[int, int] = (32, 64)
    networks: int = 1000
    means: int = 10_000
    seed: int = 0

    @classmethod
    def paper(cls) -> Config:
        """All twelve, 5000 networks of each width, 50,000 for the means: twenty minutes on one core."""
        return cls(networks_of=tuple(NETWORKS), networks=5000, means=50_000)


def run(
    config: Config, *, store: Folder = None, progress: Progress = None, client: Any = None
) -> xr.Dataset:
    """Predict and draw every network.

    A network is the unit that is stored and counted.

    Returns:
        Over (network, letter): ``entries``, how many are independent, 0 of what is not known; ``worst`` and
        ``rms``, the largest size of z of the extrapolated entries and the root of its mean square; ``predicted``
        and ``found`` of the entry with that largest z, with their errors. Over (network, letter, width):
        ``worst_at`` and ``rms_at``, likewise at one width; ``without``, the largest z of kernel and NTK without
        their 1/n terms. NaN for what there is not.
    """
    found = sweep(
        partial(_cell, config=config),
        {"network": list(config.networks_of)},
        store=store,
        progress=progress,
        client=client,
    )
    return found.load().reset_coords(drop=True).assign_attrs(attributes(config))


def _cell(network: str, *, config: Config) -> xr.Dataset:
    net = NETWORKS[network][1]()
    x, names = inputs_of(net), _names(net)
    theory = predict(net, x, observables=names, layers=net.depth)
    seen = [
        _drawn(net.at_width(n), x, names, crc32(f"{network} {n} {config.seed}".encode()), config)
        for n in config.widths
    ]
    return _judged(theory, seen, np.array(config.widths, dtype=float))


def _drawn(net: Any, x: np.ndarray, names: list[str], seed: int, config: Config) -> xr.Dataset:
    """Measurements of the last layer of networks of one width: kernel and NTK of more of them than tensors."""
    means = [name for name in names if OBSERVABLES[name].order == 0]
    tensors = [name for name in names if name in TENSORS.values()]
    given: dict[str, Any] = {"seed": seed, "progress": False}
    parts = (
        measure(net, x, networks=config.means, observables=means, **given),
        measure(net, x, networks=config.networks, observables=tensors, **given),
    )
    return parts[1].assign(parts[0].data_vars).sel(layer=[net.depth])


def _names(net: Any) -> list[str]:
    """Those observables of the table that the theory has of a network."""
    names = [name for pair in MEANS.values() for name in pair] + list(TENSORS.values())
    return [name for name in names if not OBSERVABLES[name].obstacle_of(net)]


def _judged(theory: xr.Dataset, seen: list[xr.Dataset], n: np.ndarray) -> xr.Dataset:
    """The numbers of one network."""
    rows = [_of_letter(theory, seen, n, letter) for letter in LETTERS]
    found = {
        key: (("letter", "width") if key in AT_WIDTHS else ("letter",), [row[key] for row in rows])
        for key in rows[0]
    }
    return xr.Dataset(found, {"letter": list(LETTERS), "width": n.astype(int).tolist()})


def _of_letter(
    theory: xr.Dataset, seen: list[xr.Dataset], n: np.ndarray, letter: str
) -> dict[str, Any]:
    """The numbers of one tensor; NaN of one that the theory does not have."""
    name, term = MEANS.get(letter, (TENSORS.get(letter, ""), ""))
    if name not in theory:
        none: dict[str, Any] = {key: n * np.nan if key in AT_WIDTHS else np.nan for key in ALL}
        return none | {"entries": 0}
    value, error = _of(theory, name, "error")
    pairs = [_of(data, name, "sem") for data in seen]
    drawn, sem = (np.stack(part) for part in zip(*pairs, strict=True))
    over = n[:, None]
    bare = (drawn - value) / np.hypot(sem, error)
    slope, slope_error = _of(theory, term, "error") if term in theory else (0 * value, 0 * error)
    left = np.sqrt(sem**2 + error**2 + (slope_error / over) ** 2)
    z = (drawn - value - slope / over) / left
    # What is extrapolated: the tensor itself, or n times what is beyond the leading order.
    if term in theory:
        wanted, wanted_error = slope, np.hypot(slope_error, n.sum() * error)
        drawn, sem = over * (drawn - value), over * sem
    else:
        wanted, wanted_error = value, error
    share = np.array([-n[0], n[1]])[:, None] / (n[1] - n[0])
    found, found_sem = (share * drawn).sum(axis=0), np.sqrt(((share * sem) ** 2).sum(axis=0))
    beyond = (found - wanted) / np.hypot(found_sem, wanted_error)
    k = int(np.abs(beyond).argmax())
    samples = round(value.size ** (1 / OBSERVABLES[name].legs))
    return {
        "entries": OBSERVABLES[name].components(samples, samples * (samples + 1) // 2),
        "worst": np.abs(beyond).max(),
        "rms": np.sqrt((beyond**2).mean()),
        "predicted": wanted[k],
        "predicted_error": wanted_error[k],
        "found": found[k],
        "found_sem": found_sem[k],
        "worst_at": np.abs(z).max(axis=1),
        "rms_at": np.sqrt((z**2).mean(axis=1)),
        "without": np.abs(bare).max(axis=1) if term in theory else n * np.nan,
    }


def _of(data: xr.Dataset, name: str, beside: str) -> tuple[np.ndarray, np.ndarray]:
    """All entries of the one layer, and their errors; 0 of what is exact."""
    values = data[name].values[0].ravel()
    errors = data.get(f"{name}_{beside}")
    return values, np.zeros_like(values) if errors is None else errors.values[0].ravel()


def worst_by_chance(dataset: xr.Dataset) -> float:
    """Standard errors within which all entries of all networks agree if the theory is right."""
    return limit_among(int(dataset.entries.sum()))


def numbers(dataset: xr.Dataset) -> list[Number]:
    """The worst extrapolated entry of every letter."""
    limit = worst_by_chance(dataset)
    worst = [(letter, float(dataset.worst.sel(letter=letter).max())) for letter in LETTERS]
    return [Number(f"{CALLED[letter]}: worst entry", 0.0, z, 0.0, limit) for letter, z in worst]


def tables(dataset: xr.Dataset) -> list[Table]:
    """Largest z and rms z at each width and extrapolated, of every network; then the entries that disagree most."""
    head = ("network", *(CALLED[letter] for letter in LETTERS))

    def table(caption: str, worst: xr.DataArray, rms: xr.DataArray) -> Table:
        rows = [
            (name, *(_pair(worst, rms, name, letter) for letter in LETTERS))
            for name in dataset.network.values.tolist()
        ]
        return Table.of(caption, head, rows)

    found = [
        table(
            f"Width {n}: largest z (rms z)",
            dataset.worst_at.sel(width=n),
            dataset.rms_at.sel(width=n),
        )
        for n in dataset.width.values.tolist()
    ]
    found.append(table("Extrapolated: largest z (rms z)", dataset.worst, dataset.rms))
    return [*found, _without(dataset), _worst(dataset)]


def _pair(worst: xr.DataArray, rms: xr.DataArray, network: str, letter: str) -> str | None:
    one, other = (float(data.sel(network=network, letter=letter)) for data in (worst, rms))
    return f"{one:.1f} ({other:.1f})" if np.isfinite(one) else None


def _without(dataset: xr.Dataset) -> Table:
    """How far kernel and NTK are from infinite width."""
    columns = [(letter, n) for letter in MEANS for n in dataset.width.values.tolist()]
    head = ("network", *(f"{CALLED[letter][0]}, width {n}" for letter, n in columns))
    rows = []
    for name in dataset.network.values.tolist():
        z = [float(dataset.without.sel(network=name, letter=c, width=n)) for c, n in columns]
        rows.append((name, *(f"{v:.1f}" if np.isfinite(v) else None for v in z)))
    return Table.of("Largest z of kernel and NTK without their 1/n terms", head, rows)


def _worst(dataset: xr.Dataset) -> Table:
    """The entry of each letter that disagrees most, with its numbers."""
    rows = []
    for letter in LETTERS:
        own = dataset.sel(letter=letter)
        one = own.isel(network=int(np.nanargmax(own.worst.values)))
        told = [f"{float(one[a]):.4g} ± {float(one[b]):.2g}" for a, b in _BESIDE]
        named = TERMS[letter] if np.isfinite(one.without).all() else CALLED[letter][0]
        rows.append((named, str(one.network.values), *told, f"{float(one.worst):.1f}"))
    head = ("tensor", "network", "predicted", "drawn, extrapolated", "z")
    return Table.of("The extrapolated entry of each tensor that disagrees most", head, rows)


@panels(2, height=3.6)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """The worst entries of the networks, sorted; kernel and NTK with and without their 1/n terms."""
    for color, letters in zip(COLORS, (tuple(MEANS), tuple(TENSORS)), strict=False):
        worst = np.sort(dataset.worst.sel(letter=list(letters)).values.ravel())
        worst = worst[np.isfinite(worst)]
        label = ", ".join(CALLED[letter] for letter in letters)
        left.plot(np.linspace(0, 1, len(worst)), worst, ".-", color=color, label=label)
    left.axhline(worst_by_chance(dataset), color=COLORS[1], lw=0.8, ls=":")
    left.set(
        xlabel="share of networks and tensors", title="worst extrapolated entry, standard errors"
    )
    left.legend(loc="upper left")
    places = np.arange(dataset.sizes["network"])
    narrow = dataset.isel(width=0)
    for color, letter in zip(COLORS, MEANS, strict=False):
        own = narrow.sel(letter=letter)
        right.plot(places, own.worst_at, "o", ms=4, color=color, label=CALLED[letter])
        right.plot(places, own.without, "o", ms=4, mfc="none", color=color, label="without 1/n")
    right.set_xticks(places, dataset.network.values.tolist(), rotation=50, ha="right")
    right.set(xlabel="network", title=f"worst entry at width {int(narrow.width)}, standard errors")
    right.set_yscale("log")
    right.set_ylim(top=300)  # room for the legend
    right.legend(loc="upper left")
