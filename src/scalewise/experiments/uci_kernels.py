r"""Small tables of the UCI collection, classified by kernels of infinitely wide networks and by random forests.

Kernels are those of ReLU networks without biases, of 1 to 5 layers of weights, the lowest of which may be kept
fixed: with $L'$ fixed layers,
$$\Theta=\sum_{\ell>L'}\frac{\partial f}{\partial W^{(\ell)}}\cdot\frac{\partial f}{\partial W^{(\ell)}},$$
and with all but the last one fixed that is the NNGP kernel $K$. A support vector machine takes the kernel as it is.
Depth, fixed layers and the price $C=10^{-2},\dots,10^4$ of an error are those that are best on a validation set,
the first of them where several are; the accuracy is the mean over four folds. Splits are the original ones. The
NNGP chooses among its own kernels likewise. Beside them stand random forests of 100 trees, which choose in the same
way how many features a branch may look at.

Of the 90 sets of the paper 66 are here: those with at most 1,000 samples and no test set of their own. P90 and P95
are the shares of the sets where a classifier reaches 90 and 95 % of the best accuracy, and PMA is its mean share of
that; the best is that of the classifiers here, and not of the 180 published ones. Nothing is said of finite widths:
the order 1/n of a support vector machine is not known, and trained ReLU networks approach infinite width as
$n^{-1/2}$.

Claims: the NTK is ahead of random forests by some tenths of a percent, 81.95 against 81.56 as published for all 90.

Source: Arora et al. 2020, arXiv:1910.01663, section 4 and its published program; splits of Fernández-Delgado et al.
2014.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise._extras import require
from scalewise.data import missing_data
from scalewise.experiments._form import Folder, Progress, settings
from scalewise.experiments._look import COLORS, MUTED, Number, Table, attributes, panels
from scalewise.experiments._readers import archive
from scalewise.networks import MLP
from scalewise.sweeps import sweep
from scalewise.theory.flow import kernel_flow

TITLE = "Small tables: NTK, NNGP and random forests"
TEXT = (
    "Support vector machines with the kernels of infinitely wide ReLU networks classify small tables of the UCI "
    "collection, with the published choice of depth, fixed layers and price, on the original splits. Left: a point "
    "is a set, the accuracy of the NTK against that of random forests. Right: the share of the sets on which a "
    "classifier reaches so much of the best accuracy."
)
FILE = "uci.npz"
CLASSIFIERS = ("NTK", "NNGP", "forest")
FOLDS = 4
# Of a machine with a linear kernel and a high price, which would go on for minutes where classes overlap.
_ITERATIONS = 1_000_000
PRICES = tuple(10.0**k for k in range(-2, 5))
FEATURES = (2, 4, 6, 8)  # that a branch of a tree may look at
# Over 90 sets, percent.
PUBLISHED = {"NTK": 81.95, "forest": 81.56}
Split = tuple[np.ndarray, np.ndarray]  # rows for training and for testing


# Small: a few sets.
@settings(most=24, trees=20)
class Config:
    """Settings.

    Args:
        most: Samples of a set.
        depth: Largest number of layers of weights.
        trees: Of a forest.
        seed: Of the forests.
    """

    most: int = 110
    depth: int = 5
    trees: int = 100
    seed: int = 0

    @classmethod
    def paper(cls) -> Config:
        """All sets that are there: ten minutes on one core."""
        return cls(most=1000)


needs_data = partial(missing_data, FILE)


def run(
    config: Config, *, store: Folder = None, progress: Progress = None, client: Any = None
) -> xr.Dataset:
    """Classify all sets, the smallest first.

    Kept and counted are sets.

    Returns:
        Over (set, classifier): ``accuracy``, mean over four folds, and ``validation``, percent. Over set:
        ``samples``, ``features``, ``classes``, and what the NTK chose: ``depth``, ``fixed``, ``price``.

    Raises:
        ValueError: If the sets are not there, or `store` holds a run of another config.
        MissingExtraError: If scikit-learn is not installed.
    """
    sizes = dict(zip(_names(), archive(FILE)["samples"].tolist(), strict=True))
    chosen = sorted((n for n in sizes if sizes[n] <= config.most), key=lambda n: (sizes[n], n))
    if not chosen:
        raise ValueError(
            f"`Config.most` leaves no set: the smallest has {min(sizes.values())} samples."
        )
    found = sweep(
        partial(_classified, config=config),
        {"set": chosen},
        store=store,
        progress=progress,
        client=client,
    )
    return found.load().reset_coords(drop=True).assign_attrs(attributes(config))


def _names() -> list[str]:
    return archive(FILE)["names"].tolist()


def _classified(set: str, *, config: Config) -> xr.Dataset:
    """The accuracies of all classifiers on one set."""
    require("sklearn", for_="The experiment uci_kernels", extra="data")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.svm import SVC

    arrays, place = archive(FILE), _names().index(set)
    x, y = arrays[f"{set}/X"], arrays[f"{set}/y"].astype(int)

    def split(train: str, test: str) -> Split:
        return arrays[f"{set}/{train}"], arrays[f"{set}/{test}"]

    valid = split("train", "valid")
    folds = [split(f"train_{k}", f"test_{k}") for k in range(FOLDS)]

    def by_kernel(K: np.ndarray, price: float, rows: Split) -> float:
        train, test = rows
        machine = SVC(kernel="precomputed", C=price, cache_size=1000, max_iter=_ITERATIONS)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solver terminated early")
            machine.fit(K[np.ix_(train, train)], y[train])
        return machine.score(K[np.ix_(test, train)], y[test])

    def by_forest(features: int, rows: Split) -> float:
        train, test = rows
        given: dict[str, Any] = {"max_features": features, "random_state": config.seed}
        kind = RandomForestClassifier(config.trees, **given)
        kind.fit(x[train], y[train])
        return kind.score(x[test], y[test])

    kernels = relu_kernels(x, config.depth)
    at = [(L, fixed, price) for L, fixed in kernels for price in PRICES]
    scores = [by_kernel(kernels[L, fixed], price, valid) for L, fixed, price in at]
    last = [k for k, (L, fixed, _) in enumerate(at) if fixed == L - 1]
    found, best = {}, {}
    for name, among in (("NTK", range(len(at))), ("NNGP", last)):
        best[name] = at[first_best(scores, among)]
        L, fixed, price = best[name]
        tests = [by_kernel(kernels[L, fixed], price, rows) for rows in folds]
        found[name] = (np.mean(tests), max(scores[k] for k in among))
    features = sorted({min(m, x.shape[1]) for m in FEATURES})
    scores = [by_forest(m, valid) for m in features]
    m = features[first_best(scores, range(len(scores)))]
    found["forest"] = np.mean([by_forest(m, rows) for rows in folds]), max(scores)
    both = 100 * np.array([found[name] for name in CLASSIFIERS]).T
    told = dict(zip(("depth", "fixed", "price"), best["NTK"], strict=True))
    told |= {key: int(arrays[key][place]) for key in ("samples", "features", "classes")}
    return xr.Dataset(
        {
            "accuracy": ("classifier", both[0]),
            "validation": ("classifier", both[1]),
            **{key: float(value) for key, value in told.items()},
        },
        {"classifier": list(CLASSIFIERS)},
    )


def first_best(scores: Sequence[float], among: Sequence[int]) -> int:
    """The first place among some that has the highest score of these."""
    return max(among, key=lambda k: (scores[k], -k))


def relu_kernels(x: np.ndarray, depth: int) -> dict[tuple[int, int], np.ndarray]:
    """Kernels of ReLU networks by (layers of weights, lowest ones fixed), without biases, of weights of variance 1.

    Args:
        x: (samples, features); their inner products are the kernel of one layer.
        depth: The largest number of layers.
    """
    # A sample that is 0 has the kernel 0 with all others, which signals that vanish are refused for.
    there = x.any(axis=1)
    inputs, found = x[there] * np.sqrt(x.shape[1]), {}
    for fixed in range(max(depth - 1, 1)):
        rates = [0.0] * fixed + [1.0] * (depth - fixed)
        net = MLP(
            depth, 64, "relu", input_dim=x.shape[1], output_dim=1, lambda_b=0.0, lambda_W=rates
        )
        flow = kernel_flow(net, inputs)
        for L in range(fixed + 1, depth + 1):
            # Where the last layer alone is trained, its NTK is the kernel.
            found[L, L - 1] = flow.K[L - 1]
            if flow.Theta is not None and L > fixed + 1:
                found[L, fixed] = flow.Theta[L - 1]
    whole = {}
    for key, kernel in sorted(found.items()):
        whole[key] = np.zeros((len(x), len(x)))
        whole[key][np.ix_(there, there)] = kernel
    return whole


def summary(dataset: xr.Dataset) -> xr.Dataset:
    """Over classifier: mean ``accuracy``, ``P90``, ``P95`` and ``PMA``, percent, with standard errors over sets."""
    share = dataset.accuracy / dataset.accuracy.max("classifier")
    rows = {
        "accuracy": dataset.accuracy,
        "P90": 100.0 * (share >= 0.9 - 1e-12),
        "P95": 100.0 * (share >= 0.95 - 1e-12),
        "PMA": 100 * share,
    }
    root = np.sqrt(dataset.sizes["set"])
    means = {key: value.mean("set") for key, value in rows.items()}
    return xr.Dataset(means | {f"{k}_sem": v.std("set", ddof=1) / root for k, v in rows.items()})


def numbers(dataset: xr.Dataset) -> list[Number]:
    """Accuracy of the NTK beyond forests, set by set, beside the difference of the published means."""
    apart = dataset.accuracy.sel(classifier="NTK") - dataset.accuracy.sel(classifier="forest")
    sem = float(apart.std(ddof=1)) / np.sqrt(apart.size)
    wanted = PUBLISHED["NTK"] - PUBLISHED["forest"]
    return [Number("accuracy of the NTK less that of forests, %", wanted, float(apart.mean()), sem)]


def tables(dataset: xr.Dataset) -> list[Table]:
    """Means over all sets, then every set."""
    told = summary(dataset)
    keys = ("accuracy", "P90", "P95", "PMA")
    means = [
        (
            name,
            *(
                f"{float(told[k].sel(classifier=name)):.2f} ± {float(told[f'{k}_sem'].sel(classifier=name)):.2f}"
                for k in keys
            ),
        )
        for name in CLASSIFIERS
    ]
    rows = []
    for name in dataset.set.values.tolist():
        one = dataset.sel(set=name)
        values = [f"{float(one.accuracy.sel(classifier=c)):.1f}" for c in CLASSIFIERS]
        choice = f"{int(one.depth)}, {int(one.fixed)}, {float(one.price):g}"
        rows.append((name, int(one.samples), int(one.classes), *values, choice))
    head = ("set", "samples", "classes", *CLASSIFIERS, "depth, fixed layers, C of the NTK")
    return [
        Table.of(f"Means over {dataset.sizes['set']} sets, %", ("", *keys), means),
        Table.of("Accuracy on each set, %", head, rows),
    ]


@panels(2, height=3.8)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """The NTK against forests, and how much of the best accuracy each classifier reaches."""
    both = [dataset.accuracy.sel(classifier=c).values for c in ("forest", "NTK")]
    low = min(float(v.min()) for v in both) - 2
    left.plot([low, 100], [low, 100], color=MUTED, lw=0.8, ls=":")
    left.plot(*both, "o", color=COLORS[0], markersize=3.6, markeredgewidth=0)
    left.set(xlabel="accuracy of random forests, %", title="accuracy of the NTK, %")
    share = 100 * dataset.accuracy / dataset.accuracy.max("classifier")
    place = 100 * (np.arange(share.sizes["set"]) + 1) / share.sizes["set"]
    for name, color in zip(CLASSIFIERS, COLORS, strict=False):
        reached = np.sort(share.sel(classifier=name).values)[::-1]
        right.step(reached, place, color=color, where="post", label=name)
    for mark in (90, 95):
        right.axvline(mark, color=MUTED, lw=0.8, ls=":")
    right.invert_xaxis()
    right.set(xlabel="of the best accuracy, %", title="sets that reach it, %")
    right.legend(loc="lower right")
