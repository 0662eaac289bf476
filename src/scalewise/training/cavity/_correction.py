r"""The verb: what the width of the last hidden layer costs, for any loss and any time."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import Index, Must, at_least, checked
from scalewise._labelled import dataset
from scalewise.networks import Network
from scalewise.tasks import Task
from scalewise.tasks.spi import known_loss
from scalewise.training._algorithm import Algorithm, settled
from scalewise.training._motions import ByFlow, ByNewton
from scalewise.training._sample_kernels import between
from scalewise.training._spectrum import spectrum
from scalewise.training.cavity._average import Means, moments_of_scrambles
from scalewise.training.cavity._rest import FlowPieces, Rest

PowerOfTwo = Annotated[int, Must("a power of two", lambda n: n > 0 and not n & (n - 1))]
LEFT = 1e-6  # of an error, where training to the end may stop
PIECE = 0.25  # of gradient flow, in units of one over the largest eigenvalue


@checked
def cavity_correction(
    net: Network,
    task: Task,
    algorithm: Algorithm,
    *,
    draws: PowerOfTwo = 1024,
    scrambles: Annotated[int, at_least(2)] = 8,
    seed: Index = 0,
) -> xr.Dataset:
    r"""Mean and covariance of trained networks at order 1/n, from single neurons beside an infinitely wide rest.

    $$E\,F_n=F_\infty+\frac1nE\big[F_4-\tfrac12F_{22}\big]+O(1/n^2),$$

    $F_4$ and $F_{22}$ the coefficients of $\kappa^4$ and $\kappa^2\kappa'^2$ of what is trained when one neuron,
    or two, of couplings $\kappa$ are added. No tensor has a part in it, nor does the form of the loss.

    Args:
        net: An MLP with a smooth activation. At depth 2 the result is the whole order 1/n; of a deeper network it
            is the part of the last hidden layer, with all others infinitely wide.
        task: Training samples, test inputs, any loss.
        algorithm: `GradientDescent` with steps, or `GradientFlow` with a time, without a ridge. To the end only
            for ``"mse"``.
        draws: Draws of neurons in each scramble, a power of two.
        scrambles: Independent repetitions, from which errors are estimated.
        seed: Of the scrambles.

    Returns:
        A Dataset over ``output``, ``test`` and ``train``. For this loss at infinite width: ``output_mean``,
        ``train_mean``, ``output_covariance`` and ``variance``. With the suffix ``_nlo`` their coefficients of 1/n,
        n the last hidden width, and with ``_error`` standard errors of all of these over the scrambles.

    Raises:
        ValueError: If the network has no hidden layer, skip connections or an activation with a kink, the task
            does not fit it or has batches, the algorithm has a ridge, or training has no end by a loss that is not
            ``"mse"``.

    Source: derived; PDLT (∞.55), (∞.56) at order 1/n without its tensors.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.training.cavity import cavity_correction
        >>> net = sw.MLP(2, 64, "tanh", input_dim=2, output_dim=1)
        >>> task = sw.Task(np.eye(2), [1.0, -1.0], test_inputs=[[1.0, 0.3]], loss="logistic")
        >>> sgd = sw.training.GradientDescent(0.5, steps=3)
        >>> found = cavity_correction(net, task, sgd, draws=64, scrambles=2)
        >>> found.output_mean_nlo.dims
        ('output', 'test')
    """
    if why := cavity_obstacle(net, task, algorithm):
        raise ValueError(f"`cavity_correction` cannot serve this call, because {why}.")
    x, A = np.concatenate([task.inputs, task.test_inputs]), slice(len(task.inputs))
    kernels = between(net, x, layers=[net.depth - 1, net.depth])
    h = spectrum(kernels[1][-1][A, A], "NTK of the training samples").h
    kept = {"draws": draws, "scrambles": scrambles, "seed": seed}
    return corrected(net, task, algorithm, (kernels[0], kernels[1]), h, **kept)


def corrected(
    net: Network,
    task: Task,
    algorithm: Algorithm,
    kernels: tuple[
        Float[np.ndarray, "layer sample sample"], Float[np.ndarray, "layer sample sample"]
    ],
    h: Float[np.ndarray, " direction"],
    *,
    draws: int = 1024,
    scrambles: int = 8,
    seed: int = 0,
) -> xr.Dataset:
    """The correction from kernels that are known.

    Args:
        net: As of `cavity_correction`.
        task: Likewise.
        algorithm: Likewise.
        kernels: Kernel and NTK of training samples, then test samples, at the last two layers or more.
        h: Eigenvalues of the NTK of the training samples.
        draws: Draws of neurons in each scramble.
        scrambles: Independent repetitions.
        seed: Of the scrambles.
    """
    (*_, below, K), (*_, Theta_below, Theta) = kernels
    A = slice(len(task.inputs))
    course = _course(task, algorithm, h)
    rest = Rest(task, net.activation, Theta[:, A], Theta_below[:, A], net.lambda_W[-1])
    options = {"draws": draws, "scrambles": scrambles, "seed": seed}
    found = moments_of_scrambles(rest, course, (below, K), net.C_W[-1], **options)
    return _dataset(list(found), len(task.inputs))


def cavity_obstacle(net: Network, task: Task, algorithm: Algorithm) -> str:
    """Why a call cannot be served, a clause; empty if it can."""
    if net.depth < 2:
        return "the network has no hidden layer, whose width could be finite"
    if any(net.skips):
        return "the network has skip connections, which carry a neuron past the outputs"
    if not net.activation.is_smooth:
        return f"the activation {net.activation.name!r} has a kink, where its derivatives miss delta functions"
    if task.inputs.shape[1] != net.input_dim or task.targets.shape[1] != net.output_dim:
        return "the task has other numbers of features or outputs than the network"
    if task.batches is not None:
        return "the task has batches"
    if not algorithm.is_heavy_ball:
        return "it takes gradient descent or flow"
    if algorithm.ridge:
        return "the algorithm has a ridge"
    if task.loss is not known_loss("mse") and algorithm.ends:
        return f"training with the loss {task.loss.name!r} has no end; give `steps` or a `time`"
    return ""


def _course(task: Task, algorithm: Algorithm, h: np.ndarray) -> FlowPieces:
    """Steps of the sum of the losses, as many as it takes where training goes to its end."""
    motion = settled(algorithm, h, targets=task.targets.size).motion(h, targets=task.targets.size)
    assert not isinstance(motion, ByNewton), "it is no heavy ball"
    if isinstance(motion, ByFlow):
        time = -math.log(LEFT) / h[0] if algorithm.ends else motion.time
        pieces = max(math.ceil(time * h[-1] / PIECE), 1)
        return FlowPieces((time / pieces,) * pieces, flows=True)
    steps = motion.count
    if steps is None:
        slowest = max(np.abs(1 - motion.rates[0] * h).max(), motion.momentum**0.5)
        steps = math.ceil(math.log(LEFT) / math.log(slowest))
    return FlowPieces(tuple(motion.rate(step) for step in range(steps)), motion.momentum)


def _dataset(parts: list[Means], count: int) -> xr.Dataset:
    first, first_nlo, second, second_nlo = (np.array(part) for part in zip(*parts, strict=True))
    mean = first.mean(axis=0)
    # The product of the means, with the mean over all scrambles: no bias of their number.
    cross = np.einsum("rso,tp->rsotp", first_nlo, mean)
    covariance = second - np.einsum("rso,rtp->rsotp", first, first)
    covariance_nlo = second_nlo - cross - cross.transpose(0, 3, 4, 1, 2)
    tests, outputs = slice(count, None), ("output", "output_1", "test", "test_1")
    whole = {"output_covariance": covariance, "output_covariance_nlo": covariance_nlo}
    found: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        name: (outputs, part[:, tests, :, tests].transpose(0, 2, 4, 1, 3))
        for name, part in whole.items()
    }
    for name, part in (("mean", first), ("mean_nlo", first_nlo)):
        found[f"output_{name}"] = ("output", "test"), part[:, tests].transpose(0, 2, 1)
        found[f"train_{name}"] = ("output", "train"), part[:, :count].transpose(0, 2, 1)
    for name in whole:
        each = np.einsum("riibb->rib", found[name][1])
        found[name.replace("output_covariance", "variance")] = ("output", "test"), each
    data = {}
    for name, (dims, values) in found.items():
        data[name] = (dims, values.mean(axis=0))
        data[f"{name}_error"] = (dims, values.std(axis=0, ddof=1) / len(values) ** 0.5)
    return dataset(data, attrs={"kind": "cavity"})
