r"""Block influences: how a step on the weights of one block moves each layer, after the NTK note.

The note (*NTK: a first principles derivation*) writes $z^1=W^0x+b^0$, $z^{\ell+1}=W^\ell\phi(z^\ell)+b^\ell$
with a scalar output $z^L$, and asks for the moments of
$$J_{k,\ell;i}=\sum_j\frac{\partial z^\ell_i(x)}{\partial z^k_j}\frac{\partial z^L(x')}{\partial z^k_j},
\qquad M_{k,\ell}=\mathbb E[J_{k,\ell;i}],\qquad Q_{k,\ell}=\mathbb E[J_{k,\ell;i}^2].$$
In every array below the first sample is $x$, the input of the layer that is watched, and the second is
$x'$, the input of the output that is moved. Where a formula of the note fails against networks, what is
true stands here; `docs/ntk_note.md` lists the differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.gaussian import pair_moment
from scalewise.networks import Network
from scalewise.networks.spi import Numbers, Plain, check_inputs
from scalewise.theory._predict import predict
from scalewise.theory.flow._kernel_flow import kernel_flow

Pairs = Float[np.ndarray, "sample sample"]


@dataclass(frozen=True)
@readable
class NoteKernels:
    r"""Kernels as the note counts them.

    Args:
        Sigma: $\Sigma^0,\dots,\Sigma^{L-1}$; $\Sigma^\ell$ is the covariance of $z^{\ell+1}$.
        Sigma_dot: $\dot\Sigma^1,\dots,\dot\Sigma^{L-1}$ with
            $\dot\Sigma^\ell=\sigma_w^2\mathbb E_{\Sigma^{\ell-1}}[\phi'\phi']$: the first entry is
            $\dot\Sigma^1$.
        sigma_b_squared: $\sigma_b^2$ of $b^0,\dots,b^{L-1}$.
        sigma_w_squared: $\sigma_w^2$ of $W^0,\dots,W^{L-1}$.

    Source: NTK note, "Setup". Its definition of $\Sigma^\ell$ as the inner product of $z^\ell$ is one
        layer off from its recursion; this is the recursion.
    """

    Sigma: Float[np.ndarray, "layer sample sample"]
    Sigma_dot: Float[np.ndarray, "hidden sample sample"]
    sigma_b_squared: tuple[float, ...]
    sigma_w_squared: tuple[float, ...]

    def dot(self, i: int) -> Pairs:
        r"""$\dot\Sigma^i$, $1\le i<L$."""
        return self.Sigma_dot[i - 1]

    def path(self, first: int, last: int) -> Pairs:
        r"""$\prod_{i=\text{first}}^{\text{last}}\dot\Sigma^i$; ones if there is no layer between."""
        return np.prod(self.Sigma_dot[first - 1 : last], axis=0)

    def pdlt_kernel(self, layer: int) -> Pairs:
        r"""$K^{(\ell)}=\Sigma^{\ell-1}$, PDLT's kernel of `layer` $\ell=1,\dots,L$."""
        return self.Sigma[_within("layer", layer, 1, len(self.Sigma)) - 1]

    def pdlt_slope(self, layer: int) -> Pairs:
        r"""$C_W^{(\ell+1)}\langle\sigma'\sigma'\rangle_{K^{(\ell)}}=\dot\Sigma^\ell$ of `layer` $\ell=1,\dots,L-1$.

        PDLT's $\chi_\perp^{(\ell)}$ where the two inputs are one.
        """
        return self.dot(_within("layer", layer, 1, len(self.Sigma_dot)))


@checked
def note_kernels(net: Plain, x: Numbers) -> NoteKernels:
    r"""The note's forward kernels of a network.

    $$\Sigma^0=\sigma_w^2\frac{x\cdot x'}{d_0}+\sigma_b^2,\qquad
    \Sigma^{\ell+1}=\sigma_w^2\mathbb E_{\Sigma^\ell}[\phi\phi]+\sigma_b^2,\qquad
    \dot\Sigma^\ell=\sigma_w^2\mathbb E_{\Sigma^{\ell-1}}[\phi'\phi'].$$

    Args:
        net: The network; $\sigma_w^2,\sigma_b^2$ are its `C_W`, `C_b`, and may differ from layer to
            layer.
        x: (samples, features).

    Returns:
        The kernels, preactivation²; rtol 1e-10.

    Raises:
        ValueError: If the inputs do not fit or the activation jumps.

    Source: NTK note, "Setup".

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.theory.note import note_kernels
        >>> net = sw.MLP(3, 8, "linear", input_dim=1, output_dim=1, C_W=2.0)
        >>> note_kernels(net, np.ones((1, 1))).Sigma.ravel()
        array([2., 4., 8.])
    """
    inputs = check_inputs(net, x)
    if net.depth < 2:
        raise ValueError(
            f"Influences of a block on a layer above need a hidden layer; got {net}. Take depth >= 2."
        )
    K = kernel_flow(net, inputs).K
    slopes = [net.C_W[i] * pair_of(net, K[i - 1], (1,), (1,)) for i in range(1, net.depth)]
    return NoteKernels(K, np.array(slopes), net.C_b, net.C_W)


@checked
def forward_factors(net: Plain, x: Numbers) -> Float[np.ndarray, "block sample sample"]:
    r"""$\langle h^{k-1}(x),h^{k-1}(x')\rangle/d_{k-1}\to(\Sigma^{k-1}-\sigma_b^2)/\sigma_w^2$ for each block.

    Args:
        net: The network.
        x: (samples, features).

    Returns:
        (L, samples, samples), block $k=1$ first; activation². The note writes $\Sigma^{k-1}$ itself,
        which is what the gradients of weights *and* biases give in NTK parametrisation.

    Source: NTK note, "Mapping to one gradient step", corrected.
    """
    kernels = note_kernels(net, x)
    b, w = (np.array(v)[:, None, None] for v in (net.C_b, net.C_W))
    return (kernels.Sigma - b) / w


@checked
def first_moment(
    net: Plain, x: Numbers, *, layer: int | None = None
) -> Float[np.ndarray, "block sample sample"]:
    r"""$M_{k,\ell}$ for every block $k\le\ell$.

    $$M_{k,L}=\prod_{i=k}^{L-1}\dot\Sigma^i(x,x'),\qquad M_{k,\ell}=0\text{ for }\ell<L.$$

    Args:
        net: The network, one output.
        x: (samples, features).
        layer: $\ell$; the output $L$ by default.

    Returns:
        ($\ell$, samples, samples), block $k=1$ first; dimensionless. For $\ell<L$ it is exact at every
        width (odd in $W^{L-1}$), for $\ell=L$ up to O(1/n).

    Raises:
        ValueError: If the layer does not exist or the network has more than one output.

    Source: NTK note, "Recursion for the mean influence". The note calls the independence of layers
        exact; it holds as the width grows, and at every width for $k=L-1$ alone.
    """
    kernels = note_kernels(net, x)
    ell = _layer(net, layer)
    if ell < net.depth:
        return np.zeros((ell, *kernels.Sigma.shape[1:]))
    return np.array([kernels.path(k, net.depth - 1) for k in range(1, ell + 1)])


@checked
def second_moment(
    net: Plain, x: Numbers, *, layer: int | None = None
) -> Float[np.ndarray, "block sample sample"]:
    r"""$Q_{k,\ell}$ for every block $k\le\ell$, at leading order.

    $$Q_{\ell,\ell}=\frac1{d_\ell}\prod_{i=\ell}^{L-1}\dot\Sigma^i(x',x'),$$
    $$Q_{k,\ell}=\dot\Sigma^k(x,x')^2Q_{k+1,\ell}+\frac{\sigma_w^4}{d_k}\mathbb E_{\Sigma^{k-1}}
    [\phi'(z)^2\phi'(z')^2]\prod_{i=k+1}^{\ell-1}\dot\Sigma^i(x,x)\prod_{i=k+1}^{L-1}\dot\Sigma^i(x',x'),
    \qquad Q_{k,L}=M_{k,L}^2.$$
    The variance $V_{k,\ell}=Q_{k,\ell}-M_{k,\ell}^2$ is $Q_{k,\ell}$ itself below the output. At the
    output it vanishes at this order; `output_variance` has the next.

    Args:
        net: The network, one output.
        x: (samples, features).
        layer: $\ell$; the output $L$ by default.

    Returns:
        ($\ell$, samples, samples), block $k=1$ first; the second sample is that of the output.
        O(1/n) for $\ell<L$, O(1) for $\ell=L$, each with relative corrections of O(1/n).

    Raises:
        ValueError: If the layer does not exist or the network has more than one output.

    Source: NTK note, "The variance of kernel shifts", corrected: the product of the base starts one layer
        lower, and the second Wick pairing is of the same order as what the note keeps.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.theory.note import second_moment
        >>> net = sw.MLP(4, 10, "linear", input_dim=1, output_dim=1)
        >>> second_moment(net, np.ones((1, 1)), layer=3).ravel()  # 3/n, 2/n, 1/n
        array([0.3, 0.2, 0.1])
    """
    kernels = note_kernels(net, x)
    ell, L = _layer(net, layer), net.depth
    if ell == L:
        return first_moment(net, x) ** 2
    d = net.widths
    Q = _moved(kernels.path(ell, L - 1)) / d[ell]
    out = [Q]
    for k in range(ell - 1, 0, -1):
        K = kernels.Sigma[k - 1]
        fourth = net.C_W[k] ** 2 / d[k] * pair_of(net, K, (1, 1), (1, 1))
        watched, moved = kernels.path(k + 1, ell - 1), kernels.path(k + 1, L - 1)
        own = np.diagonal(watched)[:, None]  # its value at (x, x), where x is the first sample
        Q = kernels.dot(k) ** 2 * Q + fourth * own * _moved(moved)
        out.append(Q)
    return np.array(out[::-1])


@checked
def output_variance(net: Plain, x: Numbers) -> Float[np.ndarray, "block sample sample"]:
    r"""$V_{k,L}=Q_{k,L}-M_{k,L}^2$, which begins at order 1/n.

    $J_{k,L}$ is the NTK of a network that learns the biases of layer $k$ only, so with the tensors of that
    NTK $$V_{k,L}(x,x')=\frac1{n_{L-1}}\big[A_{(xx')(xx')}+B_{xxx'x'}+B_{xx'x'x}\big].$$

    Args:
        net: The network, one output.
        x: (samples, features).

    Returns:
        (L, samples, samples), block $k=1$ first; relative corrections of O(1/n). Zero for $k=L$, where
        $J=1$.

    Raises:
        ValueError: If the inputs do not fit or the network has more than one output.

    Source: PDLT (8.82), (8.89), (8.97). The note says only that this is a sum of terms O(1/d_m).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.theory.note import output_variance
        >>> net = sw.MLP(3, 10, "linear", input_dim=1, output_dim=1)
        >>> output_variance(net, np.ones((1, 1))).ravel().round(12)  # 4/n, 2/n, 0
        array([0.4, 0.2, 0. ])
    """
    L = _layer(net, None)
    out = []
    for k in range(1, L + 1):
        rates = [float(layer == k) for layer in range(1, L + 1)]
        alone = net.numbered(lambda_b=rates, lambda_W=(0.0,) * net.depth)
        top = predict(alone, x, observables=["ntk_A", "ntk_B"], layers=L).isel(layer=0)
        A, B = top.ntk_A.values, top.ntk_B.values
        parts = [
            np.einsum(which, T) for which, T in (("abab->ab", A), ("aabb->ab", B), ("abba->ab", B))
        ]
        out.append(np.sum(parts, axis=0) / net.widths[L - 1])
    return np.array(out)


@checked
def cross_moment(
    net: Plain, x: Numbers, blocks: Sequence[int], *, layer: int | None = None
) -> Pairs:
    r"""$\mathbb E[J_{k,\ell}J_{k',\ell}]$ of two blocks; it does not vanish.

    $$\mathbb E[J_{k,\ell}J_{k',\ell}]=\prod_{i=k}^{k'-1}\dot\Sigma^i\;Q_{k',\ell}\quad(k<k'),\qquad
    \ell=L:\;M_{k,L}M_{k',L}.$$

    Args:
        net: The network, one output.
        x: (samples, features).
        blocks: $k,k'$, each from 1 to $\ell$.
        layer: $\ell$; the output $L$ by default.

    Returns:
        (samples, samples); leading order, relative corrections of O(1/n).

    Raises:
        ValueError: If a block or the layer does not exist.

    Source: NTK note, "Putting it all together", which says that cross terms vanish; this is what they
        are.
    """
    ell = _layer(net, layer)
    if len(blocks) != 2 or any(k not in range(1, ell + 1) for k in blocks):
        raise ValueError(
            f"`blocks` must be two blocks from 1 to {ell}, the layer watched; got {tuple(blocks)}."
        )
    k, other = sorted(blocks)
    return note_kernels(net, x).path(k, other - 1) * second_moment(net, x, layer=ell)[other - 1]


@checked
def influence_mean(
    net: Plain, x: Numbers, *, eta_0: float | int = 1.0, layer: int | None = None
) -> Float[np.ndarray, "block sample sample"]:
    r"""$\mathbb E[\dot\Theta_{k,\ell}]=\eta_0\,\mathbb E[\phi\phi]\,M_{k,\ell}$ of a step on each block.

    The learning rate of block $k$ is $\eta_0/d_{k-1}$.

    Args:
        net: The network, one output.
        x: (samples, features).
        eta_0: $\eta_0$.
        layer: $\ell$; the output $L$ by default.

    Source: NTK note, "Mapping to one gradient step", with the forward factor corrected.
    """
    M = first_moment(net, x, layer=layer)
    return eta_0 * forward_factors(net, x)[: len(M)] * M


@checked
def influence_square(
    net: Plain, x: Numbers, *, eta_0: float | int = 1.0, layer: int | None = None
) -> Float[np.ndarray, "block sample sample"]:
    r"""$\mathbb E[\dot\Theta_{k,\ell}^2]=(\eta_0\,\mathbb E[\phi\phi])^2\,Q_{k,\ell}$.

    Args:
        net: The network, one output.
        x: (samples, features).
        eta_0: $\eta_0$.
        layer: $\ell$; the output $L$ by default.

    Source: NTK note, "The variance of kernel shifts", with forward factor and $Q$ corrected.
    """
    Q = second_moment(net, x, layer=layer)
    return (eta_0 * forward_factors(net, x)[: len(Q)]) ** 2 * Q


@checked
def ntk_in_ntk_parametrisation(net: Plain, x: Numbers) -> Pairs:
    r"""$\Theta^L=\sum_{k=1}^L\Sigma^{k-1}\prod_{i=k}^{L-1}\dot\Sigma^i$, weights $\sigma_ww/\sqrt d$.

    PDLT's $\Theta^{(L)}$ with $\lambda_W=C_W$ and $\lambda_b=C_b$; Jacot's kernel.

    Args:
        net: The network; its own learning rates play no part.
        x: (samples, features).

    Returns:
        Preactivation²; exact as the width grows.

    Source: NTK note, "The NTK itself".
    """
    kernels = note_kernels(net, x)
    return _over_blocks(kernels, kernels.Sigma)


@checked
def ntk_in_standard_parametrisation(net: Plain, x: Numbers) -> Pairs:
    r"""The NTK of plain weights and biases: $\mathbb E[\phi\phi]+1$ in place of $\Sigma^{k-1}$.

    The learning rate is 1/fan-in for weights and 1 for biases: PDLT's $\lambda_W=\lambda_b=1$.

    Args:
        net: The network; its own learning rates play no part.
        x: (samples, features).

    Returns:
        Preactivation² per unit of learning rate; exact as the width grows.

    Source: NTK note, "The NTK itself", for the other parametrisation (ours).
    """
    return _over_blocks(note_kernels(net, x), forward_factors(net, x) + 1.0)


def _over_blocks(kernels: NoteKernels, own: np.ndarray) -> Pairs:
    L = len(own)
    return np.sum([own[k - 1] * kernels.path(k, L - 1) for k in range(1, L + 1)], axis=0)


def pair_of(net: Network, K: np.ndarray, p: tuple[int, ...], q: tuple[int, ...]) -> np.ndarray:
    diagonal = np.diagonal(K)
    return pair_moment(net.activation, diagonal[:, None], diagonal[None], K, p, q).value


def _moved(kernel: np.ndarray) -> np.ndarray:
    """Its value at (x', x'), where x' is the second sample."""
    return np.broadcast_to(np.diagonal(kernel)[None], kernel.shape)


def check_scalar(net: Network) -> None:
    """Refuse a network of several outputs."""
    if net.output_dim != 1:
        raise ValueError(
            f"The note's influences are those of a scalar output; the network has {net.output_dim}. "
            "Take output_dim=1."
        )


def _layer(net: Network, layer: int | None) -> int:
    check_scalar(net)
    return net.depth if layer is None else _within("layer", layer, 1, net.depth)


def _within(name: str, value: int, low: int, high: int) -> int:
    if value not in range(low, high + 1):
        raise ValueError(f"`{name}` must lie between {low} and {high}; got {value}.")
    return value
