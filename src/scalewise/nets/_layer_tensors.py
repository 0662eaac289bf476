r"""Every tensor of one small network, layer by layer.

All neurons and all samples are kept, so the arrays grow as $n^4N^4$: this is a microscope for networks of a few
neurons, and the oracle of whatever is contracted more cleverly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.nets._contracted import TENSORS, contracted
from scalewise.nets._networks import check_parameters, check_smooth
from scalewise.networks.spi import AnyNetwork, Draw, Parameters, check_inputs, refuse_masks

LARGEST = 2**28  # bytes of one tensor


@dataclass(frozen=True)
@readable
class LayerTensors:
    r"""The tensors of one layer of one network; neurons first, then samples, each in the order printed.

    Args:
        ntk: $\widehat H_{i_1i_2;\alpha_1\alpha_2}$.
        dntk: $\widehat{dH}_{i_0i_1i_2;\alpha_0\alpha_1\alpha_2}$.
        dd_first: $\widehat{dd_IH}_{i_0i_1i_2i_3;\alpha_0\alpha_1\alpha_2\alpha_3}$.
        dd_second: $\widehat{dd_{II}H}_{i_1i_2i_3i_4;\alpha_1\alpha_2\alpha_3\alpha_4}$.
    """

    ntk: Float[np.ndarray, "i j a b"]
    dntk: Float[np.ndarray, "i j k a b c"]
    dd_first: Float[np.ndarray, "i j k l a b c d"]
    dd_second: Float[np.ndarray, "i j k l a b c d"]


@checked
def layer_tensors(net: AnyNetwork, parameters: Parameters, x: Any) -> tuple[LayerTensors, ...]:
    r"""NTK, dNTK and both ddNTKs of every layer of one network, all neurons and samples.

    Those of fully connected layers obey the stochastic forward equations,
    $$\widehat H^{(\ell+1)}_{i_1i_2}=\delta_{i_1i_2}\Big[\lambda_b+\frac{\lambda_W}{n_\ell}\sum_j
    \sigma_{j;1}\sigma_{j;2}\Big]+\sum_{j_1j_2}W_{i_1j_1}W_{i_2j_2}\sigma'_{j_1;1}\sigma'_{j_2;2}
    \widehat H^{(\ell)}_{j_1j_2},$$
    and the equations of the same kind for its differentials. Where a layer has positions, a neuron is a channel at
    one of them: position after position, and at each of them all channels.

    Args:
        net: A small network: a tensor holds (neurons x samples)^4 numbers.
        parameters: As `init_weights` gives them.
        x: (samples, features), with positions between the two.

    Returns:
        One record for each layer 1..L, float64; exact to rounding.

    Raises:
        ValueError: If an activation or a maximum has a kink, a tensor would take more than 256 MiB, inputs or
            parameters do not fit the network, or it has Dropout.

    Source: PDLT (8.12), (11.24), (∞.174), (∞.175), with the index patterns restored, by (8.6), (11.8), (∞.5),
        (∞.7); steps of the output, the NTK and the dNTK follow from them by (∞.4), (∞.6), (∞.9).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import init_weights, layer_tensors
        >>> net = sw.MLP(2, 3, "tanh", input_dim=2, output_dim=1)
        >>> layer_tensors(net, init_weights(net), np.eye(2))[1].dntk.shape
        (1, 1, 1, 2, 2, 2)
    """
    check_smooth(net)
    refuse_masks(net.program)
    check_parameters(net, parameters)
    exact = Parameters(*(tuple(np.asarray(a, np.float64) for a in part) for part in parameters))
    program, x = net.program, check_inputs(net, x)
    neurons = [math.prod(program.positions[k]) * program.channels[k] for k in program.layers]
    size = 8 * (max(neurons) * len(x)) ** 4
    if size > LARGEST:
        raise ValueError(
            f"`net` is too large to keep all neurons: layers of {', '.join(map(str, neurons))} with {len(x)} "
            f"samples take {size / 2**30:.3g} GiB for one tensor. Use `empirical_dntk` and `empirical_ddntk`, "
            "which contract as they go."
        )
    layers = []
    for node, n in zip(program.layers, neurons, strict=True):
        drawn = [k for k in program.behind([node]) if isinstance(program.nodes[k], Draw)]
        # Linear in its parameters, a first layer has a constant NTK.
        names = ["ntk"] if drawn == [node] else list(TENSORS)
        found = contracted(net, exact, x, [np.eye(n)] * 4, names, node)
        if len(names) == 1:
            found += [np.zeros((len(x),) * k + (n,) * k) for k in (3, 4, 4)]
        layers.append(LayerTensors(*map(_neurons_first, found)))
    return tuple(layers)


def _neurons_first(tensor: np.ndarray) -> np.ndarray:
    legs = tensor.ndim // 2
    return np.moveaxis(tensor, range(legs), range(-legs, 0))
