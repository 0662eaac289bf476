"""Conformance tests of the command line: what goes where, and which exit code says what."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import scalewise.nets
from scalewise.cli import _words, main
from scalewise.cli._app import app
from scalewise.cli._options import Trained
from scalewise.cli._output import progress
from scalewise.cli._words import EXAMPLES
from scalewise.networks import MLP

pytestmark = pytest.mark.optimised

PHRASES = dict(_words.PHRASES)
TINY = ("--depth", "3", "--width", "8", "--output-dim", "2", "--samples", "2")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A small table of inputs, with the test's own folder as the working directory."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.random.default_rng(0).normal(size=(5, 4)))
    return ("--data", "x.npy")


def run(*words: str, code: int = 0):
    result = CliRunner().invoke(app, list(words))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def refused(*words: str) -> str:
    """One sentence on standard error, nothing on standard output."""
    result = run(*words, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("scalewise: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    return result.stderr


# --- criticality --------------------------------------------------------------------------------


def test_criticality_says_the_point_or_why_there_is_none():
    assert "C_b = 0, C_W = 2" in run("criticality", "relu").stdout
    assert run("criticality", "sigmoid").stdout.startswith("none, because ")
    record = json.loads(run("criticality", "tanh", "--json").stdout)
    assert record["activation"] == "tanh"
    assert (record["C_b"], record["C_W"], record["K_star"]) == pytest.approx((0.0, 1.0, 0.0))
    assert json.loads(run("criticality", "sigmoid", "--json").stdout)["C_b"] is None
    assert "No activation is called 'tan'" in refused("criticality", "tan")


def test_the_quick_commands_do_not_wait_for_jax():
    script = (
        "import sys, scalewise.cli as c\n"
        "sys.argv = ['scalewise', 'criticality', 'tanh']\n"
        "try: c.main()\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert 'jax.numpy' not in sys.modules and 'matplotlib' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# --- predict ------------------------------------------------------------------------------------


def test_predict_prints_a_table_and_saves(data):
    told = run("predict", *data, *TINY, "--out", "theory.zarr").stdout
    assert "four_point_vertex" in told
    assert told.endswith("theory.zarr\n")
    saved = xr.open_zarr("theory.zarr", consolidated=False)
    assert saved.attrs["kind"] == "theory"
    assert saved.attrs["C_W"] == [1.0] * 3
    assert "already exists" in refused("predict", *data, *TINY, "--out", "theory.zarr")
    run("predict", *data, *TINY, "--out", "theory.zarr", "--force", "--observables", "ntk")
    assert "kernel" not in xr.open_zarr("theory.zarr", consolidated=False)


def test_predict_json_is_the_dataset(data):
    told = json.loads(run("predict", *data, *TINY, "--json", "--observables", "kernel").stdout)
    back = xr.Dataset.from_dict(told)
    assert back["kernel"].shape == (3, 2, 2)
    assert back.attrs["hidden_widths"] == [8, 8]


def test_numbers_of_every_kind_reach_the_network(data):
    options = ("--width", "8,6", "--C-b", "0.1", "--C-W", "1,2,3", "--lambda-b", "0.5")
    told = run("predict", *data, *TINY, *options, "--lambda-W", "1,1,2", "--json").stdout
    attrs = json.loads(told)["attrs"]
    assert attrs["hidden_widths"] == [8, 6]
    assert attrs["C_b"] == [0.1] * 3
    assert attrs["C_W"] == [1.0, 2.0, 3.0]
    assert attrs["lambda_b"] == [0.5] * 3
    assert attrs["lambda_W"] == [1.0, 1.0, 2.0]


def test_one_variance_given_leaves_the_other_critical(data):
    told = run("predict", *data, *TINY, "--activation", "relu", "--C-b", "0.3", "--json").stdout
    attrs = json.loads(told)["attrs"]
    assert attrs["C_b"] == [0.3] * 3
    assert attrs["C_W"] == pytest.approx([2.0] * 3)


# --- measure ------------------------------------------------------------------------------------


def test_measure_saves_what_it_prints(data):
    words = ("measure", *data, *TINY, "--networks", "8", "--seed", "5", "--observables", "kernel")
    told = json.loads(run(*words, "--json", "--out", "e.zarr").stdout)
    saved = xr.open_zarr("e.zarr", consolidated=False)
    assert saved.attrs["networks"] == 8
    assert saved.attrs["seed"] == 5
    np.testing.assert_array_equal(told["data_vars"]["kernel"]["data"], saved["kernel"].values)


def test_measure_extrapolates_and_compares(data):
    words = ("measure", *data, *TINY, "--networks", "40", "--widths", "16,32", "--compare")
    told = json.loads(run(*words, "--observables", "kernel,metric_nlo", "--json").stdout)
    assert told["attrs"]["extrapolated"] == 1
    assert set(told["comparison"]["summary"]) == {"kernel", "metric_nlo"}
    assert told["comparison"]["passed"] is True


# --- report -------------------------------------------------------------------------------------


def test_report_writes_a_page_that_says_how_to_write_it_again(data):
    words = ("report", *data, *TINY, "--networks", "60", "--out", "out")
    told = json.loads(run(*words, "--json").stdout)
    assert told["comparison"]["passed"] is True
    page = Path("out/index.html").read_text(encoding="utf-8")
    command = told["run"]["command"]
    assert command in page
    assert command.startswith("scalewise report ")
    assert "--data x.npy --samples 2 --data-seed 0" in command
    assert sorted(p.name for p in Path("out").iterdir()) == [
        "ensemble.zarr",
        "index.html",
        "result.json",
        "theory.zarr",
    ]
    # The command that the page names makes the same numbers.
    again = json.loads(run(*command.split()[1:], "--out", "again", "--json").stdout)
    assert again["comparison"] == told["comparison"]


def test_report_compares_a_convolutional_network_on_the_same_images(data):
    features = np.load("x.npy").shape[1]
    words = ("report", *data, *TINY, "--networks", "60", "--image", f"{features},1", "--out", "out")
    told = json.loads(run(*words, "--json").stdout)["convolution"]
    assert told["comparison"]["passed"] is True
    assert told["network"]["input_shape"] == [features, 1]
    page = Path("out/index.html").read_text(encoding="utf-8")
    assert 'id="figure-convolution"' in page
    assert f"as images of {features} × 1" in page
    assert f"--image {features},1" in page


def test_report_of_an_activation_that_jumps_leaves_out_its_tangent_kernel(data):
    words = ("--activation", "perceptron", "--C-b", "0", "--C-W", "1", "--networks", "60")
    run("report", *data, *TINY, *words, "--out", "out")
    assert "kernel was not among" in Path("out/index.html").read_text(encoding="utf-8")


def test_disagreement_is_exit_code_1(data, monkeypatch):
    measure = scalewise.nets.measure

    def wrong(*args, **kwargs):
        measured = measure(*args, **kwargs)
        return measured.assign(kernel=measured["kernel"] * 3).assign_attrs(measured.attrs)

    monkeypatch.setattr("scalewise.nets.measure", wrong)
    words = ("report", *data, *TINY, "--networks", "60", "--out", "out")
    result = run(*words, "--observables", "kernel", code=1)
    assert "DISAGREE" in result.stdout
    assert "Theory and ensemble disagree" in result.stderr
    assert "Theory and networks disagree" in Path("out/index.html").read_text(encoding="utf-8")
    words = ("measure", *data, *TINY, "--networks", "60", "--compare", "--json")
    words = (*words, "--observables", "kernel")
    assert json.loads(run(*words, code=1).stdout)["comparison"]["passed"] is False


def test_an_interrupted_report_goes_on_where_it_was(data, monkeypatch):
    tiny = (*data, *TINY, "--observables", "kernel", "--out", "out")
    words = ("report", *tiny, "--networks", "60", "--json")
    whole = json.loads(run(*words).stdout)["comparison"]
    measure = scalewise.nets.measure

    def interrupted(*args, progress, **kwargs):
        def stop(done, total):
            raise KeyboardInterrupt

        return measure(*args, progress=stop, **kwargs)

    monkeypatch.setattr("scalewise.nets.measure", interrupted)
    result = run(*words, code=130)
    assert result.stdout == ""
    assert "run the same command again to resume from out" in result.stderr
    monkeypatch.setattr("scalewise.nets.measure", measure)
    assert xr.open_zarr("out/ensemble.zarr", consolidated=False).attrs["networks"] == 60
    other = ("report", *tiny, "--networks", "61")
    assert "networks: 60 there, 61 here" in refused(*other)
    assert json.loads(run(*words).stdout)["comparison"] == whole
    monkeypatch.setattr("scalewise.nets.measure", interrupted)
    run(*words, code=130)
    monkeypatch.setattr("scalewise.nets.measure", measure)
    run(*other, "--force")


def test_an_interrupted_measurement_says_what_is_kept(data, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("scalewise.nets.measure", interrupted)
    words = ("measure", *data, *TINY)
    assert "nothing was kept" in run(*words, code=130).stderr
    assert "resume from run.zarr" in run(*words, "--store", "run.zarr", code=130).stderr


# --- explore ------------------------------------------------------------------------------------


def test_explore_writes_a_page_of_the_activations_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("explore", "--activations", "relu, leaky_relu", "--out", "made/page.html")
    assert run(*words).stdout == "made/page.html\n"
    tables = re.search(r'id="tables"[^>]*>(.*?)</script>', Path("made/page.html").read_text())
    assert list(json.loads(tables[1])["activations"]) == ["relu", "leaky_relu(0.01)"]
    for wrong, sentence in {
        ("--out", "made"): "--out must be the file to write; 'made' is a folder.",
        ("--out", "made/page.html/x.html"): "'made/page.html' cannot be used: ",
        ("--activations", "perceptron"): "--activations must be continuous",
        ("--activations", "relu,relu"): "each of another name; got relu, relu",
        ("--activations", "relu,"): "No activation is called ''",
    }.items():
        assert sentence in refused("explore", *wrong)


def test_where_nobody_watches_no_bar_is_made(monkeypatch):
    """Some versions of rich end even disabled bars with an empty line."""
    monkeypatch.setattr("rich.progress.Progress", None)
    with progress() as tell:
        tell("some", 1, 2)


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--activation", "tangent"), "No activation is called 'tangent'"),
        (("--activation", "sigmoid"), "no critical initialisation"),
        (("--width", "0"), "--width .* at least 1, .*; got 0"),
        (("--width", "8,x"), "--width takes a whole number, or whole numbers with commas"),
        (("--depth", "0"), "--depth must be a whole number of at least 1; got 0"),
        (("--C-W", "-1", "--C-b", "0"), "--C-W must be a positive finite number"),
        (("--C-b", "none"), "--C-b takes a number"),
        (("--samples", "6"), "--samples "),
        (("--data", "nowhere.npy"), "nowhere.npy"),
        (("--observables", "colour"), "does not know 'colour'; the known ones are kernel"),
        (("--networks", "1"), "--networks must be a whole number of at least"),
        (("--tolerance", "0"), "--tolerance is a number of standard errors"),
        (("--tolerance", "nan"), "--tolerance is a number of standard errors"),
        (("--widths", "16"), "--widths "),
        (("--image", "4"), "--image takes positions along each axis and then channels"),
        (("--image", "a,1"), "--image takes a whole number"),
        (("--image", "7,1"), "--image 7 x 1 has 7 numbers, and an input has"),
        (("--out", "x.npy"), "--out is the folder of the report, but 'x.npy' is a file"),
    ],
)
def test_bad_input_gets_one_sentence(data, words, sentence):
    assert re.search(sentence, refused("report", *data, *TINY, *words))


WRONG = (
    "predict --samples 100000",
    "predict --samples 0",
    "predict --data x.npy --samples 9",
    "predict --data flat.npy",
    "predict --data zero.npy --samples 2",
    "predict --data digits:3,8",
    "predict --data mnist",
    "predict --data-seed -1",
    "predict --activation sigmoid",
    "predict --activation tanhh",
    "predict --activation relu --C-W 100 --C-b 0 --depth 400 --samples 2",
    "measure --networks 9 --widths 16 --samples 2",
    "measure --networks 9 --observables metric_nlo --samples 2",
    "train --data x.npy",
    "train --data digits --train 4",
    "train --train 4000",
    "train --data-seed -1",
    "train --rate -1",
    "train --rate 1e9 --train 2 --test 2 --depth 2",
    "train --ensemble 1 --train 2 --test 2 --depth 2 --width 8",
    "train --activation perceptron --C-b 0 --C-W 1 --train 2 --test 2",
    "explore --activations perceptron",
)
# An argument with a value, a name in backticks, what only a program has.
PYTHON = re.compile(r"\w=|`|\bNone\b|\[\d|\bnet\.|callable|load_|reshape|[Ss]et C_|leave --samples")


def test_no_refusal_speaks_of_the_program_below(data, monkeypatch):
    monkeypatch.delenv("SCALEWISE_DATA", raising=False)
    np.save("flat.npy", np.arange(6.0))
    np.save("zero.npy", np.zeros((3, 4)))
    plain = {words: refused(*words.split()) for words in WRONG}
    assert {words: told for words, told in plain.items() if PYTHON.search(told)} == {}
    monkeypatch.setattr(_words, "PHRASES", {})
    raw = " ".join(refused(*words.split()) for words in WRONG)
    unused = [phrase for phrase in PHRASES if not re.search(phrase.replace("`", "(?:`|--)?"), raw)]
    assert unused == []


def test_every_command_shows_an_example():
    """They run in `docs/test_guides.py`, with the commands of the first pages."""
    assert EXAMPLES.keys() == {c.callback.__name__ for c in app.registered_commands}
    for command, example in EXAMPLES.items():
        assert example.startswith(f"scalewise {command} ")
        assert f"  {example}\n" in run(command, "--help").stdout
    assert [f"  {one}\n" in run("--help").stdout for one in EXAMPLES.values()].count(True) == 3


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("scalewise cri", {"criticality"}),
        ("scalewise criticality gelu_", {"gelu_tanh"}),
        ("scalewise predict --activation gelu_", {"gelu_tanh"}),
        ("scalewise predict --observables four", {"four_point_vertex"}),
        ("scalewise predict --data dig", {"digits"}),
        ("scalewise train --algorithm b", {"bayes"}),
    ],
)
def test_a_shell_completes_commands_options_and_names(monkeypatch, capsys, words, offered):
    monkeypatch.setattr(sys, "argv", ["scalewise"])
    monkeypatch.setenv("_SCALEWISE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    with pytest.raises(SystemExit):
        main()
    assert set(capsys.readouterr().out.split()) == offered


def test_out_must_be_a_zarr_store(data):
    assert "must end in .zarr" in refused("predict", *data, *TINY, "--out", "theory.nc")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["predict", "--depth", "deep"], "Invalid value for '--depth'"),
        (["predict", "--no-such"], "No such option"),
        (["foretell"], "No such command 'foretell'"),
    ],
)
def test_typers_own_complaints_are_one_sentence_too(monkeypatch, capsys, words, sentence):
    monkeypatch.setattr(sys, "argv", ["scalewise", *words])
    with pytest.raises(SystemExit, match="2"):
        main()
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.startswith("scalewise: ")
    assert err.count("\n") == 1


def test_the_entry_point_passes_exit_codes_on(monkeypatch, capsys):
    for words, code in ((["criticality", "tanh"], 0), (["criticality", "tan"], 2), ([], 0)):
        monkeypatch.setattr(sys, "argv", ["scalewise", *words])
        with pytest.raises(SystemExit, match=str(code)):
            main()
    assert "Usage" in capsys.readouterr().out


def test_version_and_help():
    assert run("--version").stdout == f"scalewise {scalewise.__version__}\n"
    for command in ("report", "predict", "measure", "criticality"):
        assert "--json" in run(command, "--help").stdout


def test_version_and_help_import_no_arrays():
    heavy = "('numpy', 'scipy', 'pandas', 'xarray', 'dask', 'zarr', 'jax', 'torch', 'matplotlib', 'rich')"
    for words in (["--version"], ["--help"], ["predict", "--help"], ["train", "--help"]):
        script = f"""
import sys
from scalewise.cli import main
sys.argv = ["scalewise", *{words}]
try:
    main()
except SystemExit as left:
    assert not left.code
print([name for name in {heavy} if name in sys.modules])
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert not done.returncode, done.stderr
        assert done.stdout.splitlines()[-1] == "[]", words


def test_a_network_of_unequal_widths_is_trained_as_it_is():
    net = MLP(3, (64, 32), "tanh", input_dim=2, output_dim=1)
    assert Trained(ensemble=5).sizes(net) == [32]
    assert Trained(ensemble=5, widths="16,64").sizes(net.at_width(32)) == [16, 32, 64]
