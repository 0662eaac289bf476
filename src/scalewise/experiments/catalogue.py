"""All experiments, in the order of the gallery, and the form that each of them has."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast, runtime_checkable

import xarray as xr
from matplotlib.figure import Figure

from scalewise.experiments._look import Number, Table

EXPERIMENTS = (
    "network_diagram",
    "activation_curves",
    "critical_loci",
    "convolution_phases",
    "transformer_phases",
    "susceptibility_ratios",
    "universality_classes",
    "fluctuations",
    "attention_mixture",
    "deep_angles",
    "optimal_aspect_ratio",
    "residual_growth",
    "gradient_flow",
    "equivalent_rates",
    "ntk_statistics",
    "ntk_ratios",
    "robustness_depth",
    "dntk_growth",
    "ddntk_growth",
    "one_step",
    "six_point",
    "evidence_of_data",
    "posterior_features",
    "kernel_learning",
    "bias_and_variance",
    "nearly_kernel_methods",
    "trained_networks",
    "trained_kinks",
    "lazy_to_rich",
    "s_family",
    "learning_rate_transfer",
    "differential_hierarchy",
    "phase_diagram",
    "stable_strategies",
    "stability_band",
    "linear_and_quadratic_limits",
    "omniglot_maml",
    "word2vec_analogies",
    "cifar2_limits",
    "cifar2_batches",
    "text_transfer",
    "critical_base",
    "scaling_questions",
    "architecture_agreement",
    "architecture_fluctuations",
    "learning_agreement",
    "trained_architectures",
    "design_on_digits",
    "nngp_regression",
    "uci_kernels",
    "small_cifar10",
    "convolution_widths",
)
# Those whose Config has ``paper()`` besides, for hours.
PAPER_SCALE = (
    "linear_and_quadratic_limits",
    "omniglot_maml",
    "word2vec_analogies",
    "cifar2_limits",
    "text_transfer",
    "critical_base",
    "scaling_questions",
    "architecture_agreement",
    "architecture_fluctuations",
    "learning_agreement",
    "trained_architectures",
    "design_on_digits",
    "nngp_regression",
    "uci_kernels",
    "small_cifar10",
    "convolution_widths",
)


@runtime_checkable
class Experiment(Protocol):
    """Protocol of every module of the room: words, a config, data, numbers, a picture.

    `Config` is a frozen dataclass whose defaults take tens of seconds and whose ``small()`` takes
    seconds; `run` makes the data from it; `numbers` and `figure` read the data and draw nothing else
    from anywhere. A module with tables has ``tables(dataset)`` besides; one that reads real data has
    ``needs_data()``, which says in a sentence what is missing, or ``None``, and its ``run`` raises a ValueError
    of that sentence.

    A ``run`` that takes long has three arguments more. ``store`` is a folder or an address that keeps every
    finished part: a run that was killed goes on from there, and one of another config is refused by a ValueError.
    ``progress`` is called with (parts done, all parts). `sweep` says what ``client`` is.
    """

    TITLE: str
    TEXT: str
    Config: type[Any]

    @staticmethod
    def run(config: Any) -> xr.Dataset:
        """The data of a `config`."""
        ...

    @staticmethod
    def numbers(dataset: xr.Dataset) -> list[Number]:
        """Numbers found in the `dataset` beside those expected."""
        ...

    @staticmethod
    def figure(dataset: xr.Dataset) -> Figure:
        """The picture of the `dataset`."""
        ...


def experiment(name: str) -> Experiment:
    """One experiment by the name of its module.

    Args:
        name: One of `EXPERIMENTS`.

    Raises:
        ValueError: If there is no such experiment; the message lists them.

    Example:
        >>> from scalewise.experiments.catalogue import experiment
        >>> experiment("network_diagram").TITLE
        'A network and the count of its parameters'
    """
    if name not in EXPERIMENTS:
        raise ValueError(
            f"There is no experiment {name!r}; the experiments are {', '.join(EXPERIMENTS)}."
        )
    return cast(Experiment, import_module(f"scalewise.experiments.{name}"))


def reason_to_skip(one: Experiment) -> str | None:
    """Why the experiment `one` cannot be run without its real data, as a sentence; ``None`` if it can."""
    ask = getattr(one, "needs_data", None)
    return None if ask is None else ask()


def tables_of(one: Experiment, dataset: xr.Dataset) -> list[Table]:
    """The tables that the experiment `one` makes of its `dataset`; none if it has none."""
    make = getattr(one, "tables", None)
    return [] if make is None else make(dataset)
