r"""The note's refined first moment: rows of the weights that meet themselves in the slopes.

With $D_t=\sum_r\mathbb E[\partial_{h^t_r}z^L(x)\,\partial_{h^t_r}z^L(x')]$ and $S_t$ the same over pairs
$r\ne s$, the note writes $M_{k,L}=\mathbb E[\phi'\phi']D_k$ and closes $(D_k,S_k)=T_k(D_{k+1},S_{k+1})$. It is
kept as an object of the note, in the form in which its entries are right. The 1/n correction of $M$ it is
not: $T_{rr}$ and the law of large numbers below have neglected parts of the same order, and two layers
below the top $S$ does not close. For corrections of order 1/n take PDLT's next-to-leading NTK.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import checked
from scalewise._labelled import dataset
from scalewise.gaussian import single_moment
from scalewise.networks import Network
from scalewise.networks.spi import Numbers, Plain
from scalewise.theory.note._influence import NoteKernels, check_scalar, note_kernels, pair_of

Pairs = Float[np.ndarray, "sample sample"]


@checked
def row_overlap(net: Plain, x: Numbers, k: int) -> Pairs:
    r"""$T_{rs}$, $r\ne s$: the overlap of two rows of $W^k$ through the slopes that they feed.

    $$T_{rs}=\sum_j\mathbb E[\phi'(z^{k+1}_s)W^k_{sj}\,\phi'(z'^{k+1}_r)W^k_{rj}]
    =\frac{\sigma_w^4}{d_k}\,\mathbb E_{\Sigma^{k-1}}[\phi\phi]\,\mu^{k+1}_{\phi''}(x)\,
    \mu^{k+1}_{\phi''}(x').$$

    Args:
        net: The network, of a smooth activation.
        x: (samples, features).
        k: Block, from 1 to $L-2$: $z^{k+1}$ must be hidden.

    Returns:
        (samples, samples), dimensionless; leading order, relative corrections of O(1/n).

    Raises:
        ValueError: If the block does not exist or the activation is not smooth.

    Source: NTK note, "A more nuanced first moment calculation". Of its two boxed forms the one with
        $\mathbb E[\phi\phi]$ is right; the one with $\mu_\phi^2$ is another number, and the term does not
        vanish with $\mu_\phi$ but with $\mu_{\phi''}$.
    """
    _check(net)
    if k not in range(1, net.depth - 1):
        raise ValueError(f"`k` must be a block from 1 to {net.depth - 2}; got {k}.")
    return _overlap(net, note_kernels(net, x), k)


@checked
def refined_moments(net: Plain, x: Numbers) -> xr.Dataset:
    r"""$D_k$, $S_k$ and $T_k$ from the top down, with the entries as they should read.

    $$D_{L-1}=\sigma_w^2,\quad S_{L-1}=0,\qquad D_k=\sigma_w^2\mathbb E[\phi'\phi']_{k+1}D_{k+1}
    +T_{rs}S_{k+1},$$
    $$S_k=\sigma_w^4\big[\mu_\phi^2\,\mathbb E[\phi'''\phi']_{k+1}+2\mu_\phi\mu'_\phi\,
    \mathbb E[\phi''\phi'']_{k+1}+\mu_\phi'^2\,\mathbb E[\phi'\phi''']_{k+1}\big]D_{k+1}
    +\sigma_w^4\mu_\phi\mu'_\phi\,\mu_{\phi''}^{k+1}\mu_{\phi''}'^{k+1}S_{k+1},$$
    where $\mu_\phi=\mathbb E_{\Sigma^{k-1}}[\phi(z)]$ at $x$, $\mu'_\phi$ at $x'$, and the index $k+1$ means
    under $\Sigma^k$.

    Args:
        net: The network, of a smooth activation and one output.
        x: (samples, features).

    Returns:
        Objects of the note: over the blocks $k=1,\dots,L-1$ and two samples ``D``, ``S`` and ``M``,
        $\mathbb E_{\Sigma^{k-1}}[\phi'\phi']D_k$, equal to the first moment at leading order; ``transfer``, the 2×2
        matrices $T_k$ of $k=1,\dots,L-2$ in the last two dimensions. $S_{L-1}=0$ exactly and $S_{L-2}$ is right at
        leading order; below that the closed recursion misses terms of its own order.

    Raises:
        ValueError: If the activation is not smooth.

    Source: NTK note, "A more nuanced first moment calculation", the boxed recursions for $D$, $S$ and $T_k$.
        Corrected: $D_{L-1}$ (printed 1); $\mu_\phi^k$ (printed $\mu_\phi^{k+1}$), the $\phi'''$ terms and the
        factor $\sigma_w^4$ of the last entry (both missing).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.theory.note import refined_moments
        >>> net = sw.MLP(4, 10, "tanh", input_dim=1, output_dim=1, C_W=1.5)
        >>> bool(np.all(np.abs(refined_moments(net, np.ones((1, 1))).S) < 1e-12))  # odd activation
        True
    """
    _check(net)
    kernels, L = note_kernels(net, x), net.depth
    shape = kernels.Sigma.shape[1:]
    v = np.zeros((*shape, 2))
    v[..., 0] = net.C_W[L - 1]
    vectors, matrices = [v], []
    for k in range(L - 2, 0, -1):
        T = np.empty((*shape, 2, 2))
        T[..., 0, 0] = net.C_W[k] * _pair(net, kernels, k, 1, 1)
        T[..., 0, 1] = _overlap(net, kernels, k)
        T[..., 1, 0], T[..., 1, 1] = _source(net, kernels, k)
        v = np.einsum("xyij,xyj->xyi", T, v)
        vectors.append(v)
        matrices.append(T)
    stack = np.array(vectors[::-1])
    slopes = np.array([_pair(net, kernels, k - 1, 1, 1) for k in range(1, L)])
    transfer = np.array(matrices[::-1]).reshape(-1, *shape, 2, 2)
    found = {"D": stack[..., 0], "S": stack[..., 1], "M": slopes * stack[..., 0]}
    dims = ("sample", "sample_1")
    blocks = {name: (("block", *dims), moment) for name, moment in found.items()}
    return dataset(blocks | {"transfer": (("step", *dims, "to", "of"), transfer)})


def _overlap(net: Network, kernels: NoteKernels, k: int) -> Pairs:
    bend = _mean(net, kernels, k, 2)
    front = net.C_W[k] ** 2 / net.widths[k]
    return front * _pair(net, kernels, k - 1, 0, 0) * bend[:, None] * bend[None]


def _source(net: Network, kernels: NoteKernels, k: int) -> tuple[Pairs, Pairs]:
    """The second row of the transfer matrix: how D and S above make S."""
    mu, bend = _mean(net, kernels, k - 1, 0), _mean(net, kernels, k, 2)
    both = mu[:, None] * mu[None]
    from_D = (
        mu[:, None] ** 2 * _pair(net, kernels, k, 3, 1)
        + 2.0 * both * _pair(net, kernels, k, 2, 2)
        + mu[None] ** 2 * _pair(net, kernels, k, 1, 3)
    )
    square = net.C_W[k] ** 2
    return square * from_D, square * both * bend[:, None] * bend[None]


def _pair(net: Network, kernels: NoteKernels, index: int, p: int, q: int) -> Pairs:
    r"""$\mathbb E_{\Sigma^\text{index}}[\phi^{(p)}(z)\phi^{(q)}(z')]$, the first leg at $x$."""
    return pair_of(net, kernels.Sigma[index], (p,), (q,))


def _mean(net: Network, kernels: NoteKernels, index: int, p: int) -> Float[np.ndarray, " sample"]:
    return single_moment(net.activation, np.diagonal(kernels.Sigma[index]), (p,)).value


def _check(net: Network) -> None:
    check_scalar(net)
    if not net.activation.is_smooth:
        raise ValueError(
            f"The refined moments need three derivatives of the activation; {net.activation.name!r} has "
            "kinks. Use first_moment and second_moment, or choose a smooth activation."
        )
