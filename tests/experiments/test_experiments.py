"""Conformance and agreement tests: every experiment runs, says what it shows, and finds what it claims."""

import ast
import inspect
import json
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import scalewise.experiments
from grids import each, thorough
from scalewise.experiments._form import power
from scalewise.experiments._look import Number
from scalewise.experiments._readers import archive
from scalewise.experiments.catalogue import EXPERIMENTS, experiment, reason_to_skip, tables_of
from scalewise.experiments.results import Judged
from scalewise.scaling import ABC

pytestmark = pytest.mark.optimised
ROOM = Path(scalewise.experiments.__file__).parent
# These have files of their own, which run them.
HERE = [name for name in EXPERIMENTS if name not in ("s_family", "learning_rate_transfer")]
# Of each theme a quicker one is run daily; networks on words and on drawings are those of tests/limits, and the
# transfer of rates is learning_rate_transfer's.
LATER = (
    "architecture_agreement",
    "architecture_fluctuations",
    "attention_mixture",
    "bias_and_variance",
    "cifar2_batches",
    "cifar2_limits",
    "convolution_widths",
    "critical_base",
    "design_on_digits",
    "dntk_growth",
    "evidence_of_data",
    "kernel_learning",
    "lazy_to_rich",
    "learning_agreement",
    "nngp_regression",
    "ntk_ratios",
    "ntk_statistics",
    "omniglot_maml",
    "robustness_depth",
    "scaling_questions",
    "small_cifar10",
    "text_transfer",
    "trained_architectures",
    "trained_kinks",
    "trained_networks",
    "transformer_phases",
    "uci_kernels",
    "word2vec_analogies",
)
# Fewer than pages show where those take more than some seconds; `make docs` and `make test-thorough` run theirs.
FEWER = {
    "linear_and_quadratic_limits": {"widths": (64, 128, 256), "particles": 32768, "steps": 12},
}
# Variables, and how many panels.
PROMISED = {
    "network_diagram": ({"width", "biases", "weights", "parameters"}, 3),
    "activation_curves": ({"sigma", "slope"}, 10),
    "critical_loci": ({"C_W", "C_b", "marked_C_W", "marked_C_b", "kernel"}, 2),
    "convolution_phases": ({"scale", "depth", "factor", "found", "left", "measured_sem"}, 4),
    "transformer_phases": (
        {"between", "line", "apart", "rate_found", "power_found", "measured"},
        3,
    ),
    "susceptibility_ratios": ({"ratio", "limit", "critical_K"}, 3),
    "universality_classes": ({"K_star", "C_b", "C_W", "kernel", "exponent"}, 2),
    "fluctuations": ({"metric", "vertex", "measured_metric_sem", "measured_vertex"}, 6),
    "attention_mixture": ({"limit", "predicted", "measured_sem", "measured_law"}, 3),
    "deep_angles": ({"psi", "distance", "cos_zeta", "approach", "crossover"}, 4),
    "optimal_aspect_ratio": ({"nu", "r_star", "r_maximum", "information", "curve"}, 2),
    "residual_growth": ({"nu", "nu_printed", "nu_recursion", "gamma_star", "vertex_sem"}, 2),
    "gradient_flow": ({"predicted", "measured", "measured_sem"}, 2),
    "equivalent_rates": ({"bias", "weight", "ntk"}, 4),
    "ntk_statistics": ({"predicted", "ratio", "ratio_sem", "extrapolated"}, 1),
    "ntk_ratios": ({"ratio", "measured", "slope", "amplitude", "amplitude_predicted"}, 2),
    "robustness_depth": ({"response", "slope", "slope_predicted"}, 2),
    "dntk_growth": ({"ratio", "measured", "measured_sem", "deep"}, 2),
    "ddntk_growth": ({"ratio", "measured", "measured_sem", "deep"}, 1),
    "one_step": ({"change", "change_sem", "deep_change", "slope", "slope_sem"}, 2),
    "six_point": ({"recursion", "exact", "measured", "measured_sem"}, 2),
    "evidence_of_data": ({"log_evidence", "pair", "peak", "coefficient", "added_sem"}, 3),
    "posterior_features": ({"measured", "mean_at_width", "mean_measured", "moved_predicted"}, 3),
    "kernel_learning": ({"mean", "measured_variance_sem", "loss", "loss_measured", "left"}, 4),
    "bias_and_variance": ({"bias", "variance", "trained", "bent", "bent_trained"}, 4),
    "nearly_kernel_methods": ({"moved", "fitted", "left", "line", "turns"}, 3),
    "trained_networks": ({"predicted", "trained_sem", "share", "newton", "missed", "response"}, 6),
    "differential_hierarchy": ({"predicted", "measured", "slope", "slope_predicted"}, 3),
    "omniglot_maml": ({"accuracy", "validation", "kept", "kept_sem", "published"}, 2),
    "word2vec_analogies": ({"right", "right_cosine", "place"}, 2),
    "linear_and_quadratic_limits": ({"loss", "spread", "limit_loss", "gap", "other_gap"}, 8),
    "phase_diagram": ({"limit", "depth", "gamma_back"}, 2),
    "stable_strategies": ({"corner", "place", "start", "toward", "wrong", "beyond", "count"}, 2),
    "stability_band": ({"number", "dimension", "satisfied", "representative_q_sigma"}, 1),
    "cifar2_batches": ({"size", "relative_size", "kernel", "divergence", "accuracy", "loss"}, 8),
    "text_transfer": ({"loss", "batch_loss", "constants", "tuned_loss"}, 2),
    "critical_base": ({"loss", "middle_loss", "unigram", "constants"}, 2),
    "scaling_questions": ({"loss", "question", "width", "depth"}, 3),
    "architecture_agreement": ({"worst", "rms", "entries", "worst_at", "rms_at", "without"}, 2),
    "architecture_fluctuations": ({"predicted", "measured", "measured_sem", "extrapolated"}, 3),
    "learning_agreement": ({"excess", "rms", "entries", "effect", "left", "misfit"}, 2),
    "trained_architectures": ({"worst", "rms", "known", "entries", "ratio", "coefficient"}, 3),
    "lazy_to_rich": ({"limit", "trained", "predicted", "small", "slope", "direct"}, 3),
    "trained_kinks": ({"power", "predicted", "found", "found_sem", "beyond", "beyond_sem"}, 2),
    "design_on_digits": ({"predicted", "predicted_error", "measured", "measured_sem"}, 1),
    "nngp_regression": ({"published", "same", "table", "accuracy", "spread", "sem"}, 2),
    "uci_kernels": ({"accuracy", "validation", "samples", "depth", "fixed", "price"}, 2),
    "small_cifar10": ({"accuracy", "accuracy_sem", "single", "published"}, 1),
    "convolution_widths": ({"measured", "measured_sem", "predicted", "small", "found"}, 2),
    "cifar2_limits": ({"divergence", "size", "loss", "accuracy", "kernel"}, 3),
}


def test_the_catalogue_is_the_room() -> None:
    modules = {path.stem for path in ROOM.glob("*.py") if not path.stem.startswith("_")}
    assert modules - {"catalogue", "results"} == set(EXPERIMENTS)
    assert set(PROMISED) == set(HERE)


@pytest.mark.covers("E16", "E18", "E19", "E21", "E22", "E24")
@pytest.mark.parametrize(
    ("name", "fewer"),
    [(name, FEWER.get(name, {})) for name in HERE if name not in LATER]
    + thorough(*((name, {}) for name in (*FEWER, *LATER))),
    ids=lambda value: value if isinstance(value, str) else "fewer" if value else "small",
)
def test_an_experiment_keeps_its_promises(name: str, fewer: dict) -> None:
    one = experiment(name)
    missing = reason_to_skip(one)
    if missing is not None:
        pytest.skip(missing)
    config = replace(one.Config.small(), **fewer)
    # Other processes would import and compile everything again.
    here = {"client": 0} if "client" in inspect.signature(one.run).parameters else {}
    dataset = one.run(config, **here)
    variables, panels = PROMISED[name]
    assert variables <= set(map(str, dataset.data_vars))
    assert {field.name for field in fields(config)} - {"s"} <= set(dataset.attrs)
    json.dumps(dataset.to_dict(), default=float)
    numbers = one.numbers(dataset)
    assert numbers
    assert [number for number in numbers if not number.agrees] == []
    for table in tables_of(one, dataset):
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.head)}
    canvas = one.figure(dataset)
    measured = [axis for axis in canvas.axes if axis.axison and len(axis.get_xticks())]
    assert [axis.get_title(loc="left") for axis in measured if not axis.get_xlabel()] == []
    assert isinstance(canvas, Figure)
    assert len(canvas.axes) == panels
    for axis in canvas.axes[: len(dataset.activation) if name == "activation_curves" else None]:
        assert axis.lines or axis.patches or axis.collections
        assert axis.get_title(loc="left")
        drawn = [np.asarray(line.get_ydata(), float) for line in axis.lines]
        assert all(np.isfinite(y).any() for y in drawn if y.size)
    canvas.draw_without_rendering()


@each("name", EXPERIMENTS)
def test_an_experiment_says_what_it_shows(name: str) -> None:
    one = experiment(name)
    assert is_dataclass(one.Config)
    assert one.Config.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert hash(one.Config.small()) is not None
    text = ast.get_docstring(ast.parse((ROOM / f"{name}.py").read_text())) or ""
    sources = (
        "PDLT",
        "Yaida",
        "Golikov",
        "TP4",
        "Yang",
        "Lee",
        "Arora",
        "Sakai",
        "Xiao",
        "Everett",
    )
    assert text.partition("Source: ")[2].startswith(sources)
    assert "$" in text or name == "activation_curves"
    assert any(word in text for word in ("Look for:", "Claims:"))
    assert one.TITLE
    assert 150 < len(one.TEXT) < 700


def test_an_experiment_without_its_data_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert reason_to_skip(experiment("network_diagram")) is None
    one = experiment("cifar2_limits")
    monkeypatch.setenv("SCALEWISE_DATA", str(tmp_path))
    assert "This needs cifar2.npz, not found in" in str(reason_to_skip(one))
    monkeypatch.delenv("SCALEWISE_DATA")
    assert "SCALEWISE_DATA, which is not set" in str(reason_to_skip(one))
    # Asked of the reader, not of images that an earlier run has left in memory.
    archive.cache_clear()
    with pytest.raises(ValueError, match=r"This needs cifar2\.npz .* Set the variable to a folder"):
        one.run(one.Config.small())


def test_unknown_experiments_are_refused() -> None:
    with pytest.raises(ValueError, match="no experiment 'nothing'; the experiments are network_di"):
        experiment("nothing")


@pytest.mark.parametrize(
    ("found", "sem", "allowance", "agrees"),
    [
        (1.0, 0.0, 0.0, True),
        (1.39, 0.1, 0.0, True),
        (1.41, 0.1, 0.0, False),
        (0.55, 0.1, 0.06, True),
        (1.1, 0.0, 0.05, False),
        (float("nan"), 0.1, 0.1, False),
    ],
)
def test_when_a_number_agrees(found: float, sem: float, allowance: float, agrees: bool) -> None:
    assert Number("a", 1.0, found, sem, allowance).agrees is agrees


def test_many_numbers_have_a_wider_limit() -> None:
    """Of a thousand one may be beyond four standard errors by chance; allowances are no wider."""
    found = (Number("a", 0.0, 4.5, 1.0), Number("b", 0.0, 0.2, 0.0, 0.1))
    assert not found[0].agrees
    assert found[0].agrees_among(1000)
    assert not found[1].agrees_among(1000)
    many = (*found, *(Number("c", 0.0, 0.0, 1.0) for _ in range(999)))
    assert [text.split(":")[1].split()[0] for text in Judged("d", many, ()).wrong] == ["b"]
    assert len(Judged("d", found, ()).wrong) == 2


def test_a_power_and_its_error() -> None:
    x = np.array([2.0, 4.0, 8.0, 16.0])
    assert power(x, -3 * x**-0.5)[0] == pytest.approx(-0.5, abs=1e-12)
    rng = np.random.default_rng(0)
    sem = np.array([0.02, 0.04, 0.01, 0.03]) * x
    found = np.array([power(x, x + sem * rng.normal(size=4), sem) for _ in range(2000)])
    assert found[:, 0].std() == pytest.approx(found[:, 1].mean(), rel=0.1)
    assert abs(found[:, 0].mean() - 1) < 4 * found[:, 1].mean() / 2000**0.5 + 1e-3


@pytest.mark.covers("E4")
def test_corners_and_edges_of_the_solid_of_stable_strategies() -> None:
    """By hand: three planes meet in two points that satisfy the fourth; standard lies between NTK and infinity."""
    one = import_module("scalewise.experiments.stable_strategies")
    half = Fraction(1, 2)
    assert one.corners() == {(0, 2, 3): (half, half, 1), (1, 2, 3): (0, 1, 1)}
    ends = {two: tuple(map(int, np.sign(way).astype(int))) for two, (_, way) in one.edges().items()}
    assert ends == {
        (0, 2): (1, 0, 0),
        (0, 3): (0, 0, 1),
        (1, 2): (0, 1, 0),
        (1, 3): (0, 0, 1),
        (2, 3): (-1, 1, 0),
    }
    known = ABC((0, 0), (0, "1/2"), 1).to_strategy()
    assert one.strategy_at((1.5, 0.5, 1)).equivalent(known)
    dataset = one.run(one.Config.small())
    # A step across a facet is what makes a strategy unstable, and nothing on one is.
    assert dataset.beyond.values.tolist() == [1.0] * 4
    body = dataset["count"].sel(facet="A + r = 1")
    assert int(body.sel(stratum="GP limit")) == 0
    assert int(body.sum()) == int(dataset.points.sel(facet="A + r = 1")) == 49
