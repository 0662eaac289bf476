"""The options of the commands, each told once, and what they ask for."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalewise.cli._output import INTERRUPTED, complain
from scalewise.cli._words import Refusal, numbers, one_or_many

if TYPE_CHECKING:
    import xarray as xr

    from scalewise.networks import Network
    from scalewise.report import Convolution
    from scalewise.tasks import Task

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
_NARROWEST = 8
_IMAGES = 200  # convolutional networks that are drawn for a report, at most


@contextmanager
def _reading_data() -> Iterator[None]:
    """The seed of the data is another than that of the networks."""
    try:
        yield
    except (TypeError, ValueError) as error:
        said = str(error).replace("`seed`", "--data-seed")
        raise Refusal(said.replace("another seed", "another --data-seed")) from None


def _option(text: str, *names: str, among: Callable[[], Iterable[str]] | None = None) -> Any:
    def complete(incomplete: str) -> list[str]:
        return [one for one in among() if one.startswith(incomplete)] if among else []

    return typer.Option(*names, help=text, autocompletion=complete if among else None)


def activation_names() -> Iterable[str]:
    """Names that a shell offers after ``--activation``."""
    from scalewise.activations import BUILTIN_NAMES

    return BUILTIN_NAMES


def _observable_names() -> Iterable[str]:
    from scalewise.observables import OBSERVABLES

    return ["all", *OBSERVABLES]


ActivationName = Annotated[
    str, _option("Such as tanh, relu, gelu, leaky_relu(0.1).", among=activation_names)
]


@dataclass(frozen=True)
class NetworkOptions:
    """A network, but for its ends."""

    activation: ActivationName = "tanh"
    depth: Annotated[int, _option("Number of weight layers.")] = 16
    width: Annotated[str, _option("Hidden width, or depth - 1 of them: 64,64,32.")] = "128"
    c_b: Annotated[
        str | None, _option("One number or one per layer; critical if left out.", "--C-b")
    ] = None
    c_w: Annotated[
        str | None, _option("One number or one per layer; critical if left out.", "--C-W")
    ] = None
    lambda_b: Annotated[str, _option("Learning-rate factor of the biases.", "--lambda-b")] = "1"
    lambda_w: Annotated[str, _option("Learning-rate factor of the weights.", "--lambda-W")] = "1"

    def between(self, input_dim: int, output_dim: int) -> "Network":
        """The network between so many inputs and outputs: critical where the variances are left out."""
        from scalewise.networks import MLP

        shape = self.depth, one_or_many(numbers("--width", self.width, int)), self.activation
        rest: dict[str, Any] = {
            "input_dim": input_dim,
            "output_dim": output_dim,
            "lambda_b": one_or_many(numbers("--lambda-b", self.lambda_b)),
            "lambda_W": one_or_many(numbers("--lambda-W", self.lambda_w)),
        }
        given: dict[str, Any] = {
            key: one_or_many(numbers(option, text))
            for key, option, text in (("C_b", "--C-b", self.c_b), ("C_W", "--C-W", self.c_w))
            if text is not None
        }
        if len(given) < 2:
            critical = MLP(*shape, **rest).at_criticality()
            given = {"C_b": critical.C_b, "C_W": critical.C_W} | given
        return MLP(*shape, **rest, **given)


@dataclass(frozen=True)
class SettingOptions(NetworkOptions):
    """A network, its inputs, and what is asked of it."""

    data: Annotated[
        str,
        _option(
            "digits, mnist, cifar2, or the path of a .npy or .csv.",
            among=lambda: ("digits", "mnist", "cifar2"),
        ),
    ] = "digits"
    samples: Annotated[int, _option("How many inputs to draw from the data.")] = 8
    data_seed: Annotated[int, _option("Seed of that choice.")] = 0
    output_dim: Annotated[int, _option("Number of outputs.")] = 10
    observables: Annotated[
        str | None,
        _option(
            "Such as kernel,ntk, or all; if left out, what the inputs allow.",
            among=_observable_names,
        ),
    ] = None

    def inputs(self) -> Any:
        """The data, as the library takes it."""
        from scalewise.data import load_inputs

        with _reading_data():
            return load_inputs(self.data, samples=self.samples, seed=self.data_seed)

    def network(self, x: Any) -> "Network":
        """The network whose `input_dim` is that of these inputs."""
        return self.between(x.shape[1], self.output_dim)

    def convolution(self, net: "Network", shape: tuple[int, ...], x: Any) -> tuple["Network", Any]:
        """Two convolutions of the same activation and variances, and the inputs as images."""
        from scalewise.networks import Network
        from scalewise.networks.layers import Conv, Dense, GlobalAvgPool

        if math.prod(shape) != x.shape[1]:
            told = " x ".join(map(str, shape))
            raise Refusal(
                f"--image {told} has {math.prod(shape)} numbers, and an input has {x.shape[1]}. Give the positions "
                "along each axis and then the channels, such as 8,8,1 for digits."
            )
        other = Network(
            *(Conv(3), net.activation) * 2,
            GlobalAvgPool(),
            Dense(self.output_dim),
            input_shape=shape,
            width=max(_NARROWEST, min(net.hidden_widths, default=0) // 4),
            C_b=net.C_b[-1],
            C_W=net.C_W[-1],
        )
        return other, x.reshape(-1, *shape)

    def names(self) -> list[str] | str | None:
        """The observables asked for, as `predict` and `measure` take them."""
        from scalewise.selection import known

        if self.observables is None:
            return None
        wanted = [name.strip() for name in self.observables.split(",") if name.strip()]
        return "all" if wanted == ["all"] else list(known(wanted))

    def compared_names(self, net: "Network") -> list[str] | str | None:
        """Names to predict for a comparison: a leading order with its 1/n correction, where that can be had."""
        from scalewise.observables import OBSERVABLES
        from scalewise.selection import select

        measured = self.names()
        if not isinstance(measured, list):
            return measured
        usual = select(None, net, samples=self.samples).names
        corrections = [name for name in usual if OBSERVABLES[name].corrects in measured]
        return list(dict.fromkeys([*measured, *corrections]))


@dataclass(frozen=True)
class VerdictOptions:
    """Options on how closely the theory must agree."""

    tolerance: Annotated[float, _option("Standard errors beyond the bias that still agree.")] = 4.0

    def check(self) -> None:
        """Refuse at once what would otherwise be refused after minutes of measuring."""
        if not (math.isfinite(self.tolerance) and self.tolerance > 0):
            raise Refusal(
                f"--tolerance is a number of standard errors above 0; got {self.tolerance}."
            )


@dataclass(frozen=True)
class EnsembleOptions(VerdictOptions):
    """Options on how networks are measured."""

    networks: Annotated[int, _option("How many random networks to measure.")] = 2000
    seed: Annotated[int, _option("Seed of the networks.")] = 0
    widths: Annotated[
        str | None, _option("Widths to extrapolate from to infinite width: 64,128,256.")
    ] = None

    def run(
        self,
        net: "Network",
        x: Any,
        names: list[str] | str | None,
        *,
        store: Path | None,
        progress: Callable[[str, int, int], None],
    ) -> "xr.Dataset":
        """Measure, with a word on how to go on if it is interrupted."""
        from scalewise.nets import measure

        if store is not None:
            store.parent.mkdir(parents=True, exist_ok=True)
        try:
            return measure(
                net,
                x,
                networks=self.networks,
                seed=self.seed,
                widths=None if self.widths is None else numbers("--widths", self.widths, int),
                observables=names,
                store=store,
                progress=lambda done, total: progress("measure", done, total),
            )
        except KeyboardInterrupt:
            kept = (
                "Interrupted; nothing was kept. Use --store PATH to keep the networks measured so far."
                if store is None
                else f"Interrupted; run the same command again to resume from {store}."
            )
            complain(kept)
            raise typer.Exit(INTERRUPTED) from None

    def of_images(
        self, net: "Network", images: Any, *, progress: Callable[[str, int, int], None]
    ) -> "Convolution":
        """Predict, measure and compare a convolutional network."""
        from scalewise.comparison import compare
        from scalewise.nets import measure
        from scalewise.report import Convolution
        from scalewise.theory import predict

        count = min(self.networks, _IMAGES)
        measured = measure(
            net,
            images,
            networks=count,
            seed=self.seed,
            progress=lambda done, total: progress("measure images", done, total),
        )
        return Convolution(net, compare(predict(net, images), measured, tolerance=self.tolerance))


ALGORITHMS = ("flow", "descent", "newton", "last_layer", "bayes")


@dataclass(frozen=True)
class Learning(NetworkOptions):
    """A network, what it is trained on, and how."""

    depth: Annotated[int, _option("Number of weight layers.")] = 3
    data: Annotated[str, _option("digits, mnist or cifar2, with classes: digits:3,8.")] = (
        "digits:3,8"
    )
    train: Annotated[int, _option("How many samples to train on.")] = 8
    test: Annotated[int, _option("How many others to test on.")] = 8
    data_seed: Annotated[int, _option("Seed of that choice.")] = 0
    algorithm: Annotated[
        str, _option(f"One of {', '.join(ALGORITHMS)}.", among=lambda: ALGORITHMS)
    ] = "flow"
    rate: Annotated[
        float | None, _option("Of descent, for the sum of half squares; 0.8/h_max if left out.")
    ] = None
    noise_variance: Annotated[float, _option("Of the targets, for bayes.")] = 0.0

    def task(self) -> "Task":
        """The training and test samples."""
        from scalewise.data import load_task

        with _reading_data():
            return load_task(self.data, train=self.train, test=self.test, seed=self.data_seed)

    def network(self, task: "Task") -> "Network":
        """The network for this task."""
        return self.between(task.inputs.shape[1], task.targets.shape[1])

    def method(self) -> Any:
        """Algorithm of the training."""
        from scalewise.training.spi import BY_WORD

        if self.algorithm not in BY_WORD:
            raise Refusal(f"--algorithm is one of {', '.join(BY_WORD)}; got {self.algorithm!r}.")
        kind = BY_WORD[self.algorithm]
        if self.rate is not None and "rate" not in kind.options:
            takes = " or ".join(word for word, one in BY_WORD.items() if "rate" in one.options)
            raise Refusal(f"--rate is of --algorithm {takes}; got {self.algorithm!r}.")
        return kind(**{name: getattr(self, name) for name in kind.options})


@dataclass(frozen=True)
class Trained(VerdictOptions):
    """Options on how many networks are really trained."""

    ensemble: Annotated[
        int, _option("How many networks to train at each width; none by default.")
    ] = 0
    widths: Annotated[
        str | None, _option("Widths to train at: 64,128,256; that of the network if left out.")
    ] = None
    seed: Annotated[int, _option("Seed of the networks.")] = 0

    def sizes(self, net: "Network") -> list[int]:
        """Widths of the trained networks, that of the network itself among them."""
        own = set(net.hidden_widths)
        if self.ensemble < 0:
            raise Refusal(f"--ensemble is a number of networks, 0 or more; got {self.ensemble}.")
        more = [] if self.widths is None else numbers("--widths", self.widths, int)
        if more and len(own) > 1:
            raise Refusal("--widths needs a network of one hidden width: give --width one number.")
        return sorted({net.widths[-2], *more})


@dataclass(frozen=True)
class Result:
    """Options on where a result goes."""

    out: Annotated[Path | None, _option("Save the result as a Zarr store, name.zarr.")] = None
    as_json: Json = False
    force: Annotated[bool, _option("Overwrite what is there.", "--force")] = False

    def check(self) -> None:
        """Refuse a place where nothing can be saved, or something would be lost."""
        if self.out is None:
            return
        if self.out.suffix != ".zarr":
            raise Refusal(f"--out names a Zarr store and must end in .zarr; got {str(self.out)!r}.")
        if self.out.exists() and not self.force:
            raise Refusal(f"{str(self.out)!r} already exists; give another --out, or --force.")


def image_shape(text: str) -> tuple[int, ...]:
    """Positions along each axis, then channels."""
    shape = tuple(numbers("--image", text, int))
    if len(shape) < 2 or min(shape) < 1:
        raise Refusal(
            f"--image takes positions along each axis and then channels, such as 8,8,1; got {text!r}."
        )
    return shape
