r"""Linear networks with one hidden layer in maximal update: finite width and the exact limit, one code.

$$f(\xi)=v\,h(\xi),\qquad h(\xi)=u\xi+b,\qquad b=\alpha\beta$$
A network of width $n$ has $u_{\alpha\beta}\sim\mathcal N(0,\sigma_u^2/n)$ and $v_{\alpha\beta}\sim\mathcal
N(0,\sigma_v^2/n)$. At $n\to\infty$ the columns of $u_0$ and the rows of $v_0$ are orthogonal, gradient
descent never leaves their span, and their coefficients are deterministic: the limit is the same algorithm
with $d+d_o$ hidden units, $u_0^\top=(\sigma_uI,0)$, $v_0=(0,\sigma_vI)$, $b_0=0$. Nothing is random in it,
and $f_0=0$.

Source: TP4 J.2.2, Algorithms 2 and 3, Corollary 5.2. The shapes of $u$ in their lines 20 are transposed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy.random import Generator, Philox

from scalewise._checked import Count, Index, NotNegative, checked
from scalewise._readable import readable
from scalewise.limits._descent import SGD
from scalewise.tasks import Loss
from scalewise.tasks.spi import known_loss

__all__ = ["LinearNet", "features", "limit", "network", "outputs", "sample", "step"]


@checked
@dataclass(frozen=True)
@readable
class LinearNet:
    r"""A linear network, or the coefficients of its limit.

    Args:
        u: $u$, or $\mathbf u$: shape ``(hidden, input)``.
        v: $v$, shape ``(output, hidden)``.
        b: $b=\alpha\beta$, shape ``(hidden,)``.
        alpha: $\alpha$, the multiplier of the bias; 0 for none.

    Raises:
        ValueError: If shapes do not fit, or a number is not finite.
    """

    u: Float[np.ndarray, "hidden input"]
    v: Float[np.ndarray, "output _hidden"]
    b: Float[np.ndarray, " _hidden"]
    alpha: NotNegative = 1.0
    _such_as = "limits.linear.limit(inputs, outputs)"

    def __post_init__(self) -> None:
        hidden = self.u.shape[0]
        if self.v.shape[1:] != (hidden,) or self.b.shape != (hidden,):
            raise ValueError(
                "`LinearNet` needs `u` of shape (hidden, input), `v` of shape (output, hidden) and `b` of "
                f"shape (hidden,); got {self.u.shape}, {self.v.shape} and {self.b.shape}."
            )


@checked
def limit(
    inputs: Count,
    outputs: Count,
    *,
    sigma_u: NotNegative = 1.0,
    sigma_v: NotNegative = 1.0,
    alpha: NotNegative = 1.0,
) -> LinearNet:
    r"""The limit at initialisation: $\mathbf u^\top=(\sigma_uI,0)$, $\mathbf v=(0,\sigma_vI)$, $\mathbf b=0$.

    Args:
        inputs: $d$, at least 1.
        outputs: $d_o$, at least 1.
        sigma_u: $\sigma_u$, at least 0.
        sigma_v: $\sigma_v$, at least 0.
        alpha: $\alpha$, at least 0.

    Returns:
        A net with $d+d_o$ hidden units; exact.

    Source: TP4 Algorithm 3, lines 1-3.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import SGD, linear
        >>> net, x, y = linear.limit(1, 1, alpha=0.0), np.ones((1, 1)), np.ones((1, 1))
        >>> for _ in range(2):
        ...     net, _ = linear.step(net, x, y, SGD(0.1))
        ...     print(round(float(linear.outputs(net, x)[0, 0]), 6))
        0.2
        0.36288
    """
    eye = np.eye(inputs + outputs)
    u, v = sigma_u * eye[:, :inputs], sigma_v * eye[inputs:]
    return LinearNet(u, v, np.zeros(inputs + outputs), float(alpha))


@checked
def network(
    width: Count,
    inputs: Count,
    outputs: Count,
    *,
    sigma_u: NotNegative = 1.0,
    sigma_v: NotNegative = 1.0,
    alpha: NotNegative = 1.0,
    seed: Index = 0,
) -> LinearNet:
    r"""A random network of finite width at initialisation.

    Args:
        width: $n$, at least 1.
        inputs: $d$.
        outputs: $d_o$.
        sigma_u: $\sigma_u$; the standard deviation is $\sigma_u/\sqrt n$.
        sigma_v: $\sigma_v$, likewise.
        alpha: $\alpha$.
        seed: Same seed, same network.

    Source: TP4 Algorithm 2, lines 1-3.

    Example:
        >>> from scalewise.limits import linear
        >>> linear.network(64, 3, 2).u.shape
        (64, 3)
    """
    start = limit(inputs, outputs, sigma_u=sigma_u, sigma_v=sigma_v, alpha=alpha)
    return sample(start, width, seed=seed)


@checked
def sample(limit: LinearNet, width: Count, *, seed: Index = 0) -> LinearNet:
    r"""A network of width $n$ drawn from the limit at any time of its training.

    $$u=\Omega\mathbf u/\sqrt n,\qquad v=\mathbf v\Omega^\top/\sqrt n,\qquad b=\Omega\mathbf b/\sqrt n,\qquad
      \Omega_{\alpha i}\sim\mathcal N(0,1)$$

    Args:
        limit: Coefficients.
        width: $n$, at least 1.
        seed: Same seed, same $\Omega$.

    Returns:
        A network whose outputs differ from the limit's by $O(n^{-1/2})$.

    Source: TP4 J.2.2, the coefficients of $\mu,\nu$.

    Example:
        >>> from scalewise.limits import linear
        >>> linear.sample(linear.limit(3, 2), 64).v.shape
        (2, 64)
    """
    Omega = Generator(Philox(seed)).standard_normal((width, limit.u.shape[0])) / math.sqrt(width)
    return LinearNet(Omega @ limit.u, limit.v @ Omega.T, Omega @ limit.b, limit.alpha)


@checked
def features(
    net: LinearNet, x: Float[np.ndarray, "sample _input"]
) -> Float[np.ndarray, "sample hidden"]:
    r"""$H=\Xi u^\top+b$: the features of a batch, shape ``(sample, hidden)``.

    In the limit they are coefficients; their inner products are those of the limit's features.

    Args:
        net: A network or the limit.
        x: $\Xi$.

    Raises:
        ValueError: If the inputs have another dimension.

    Source: TP4 Algorithm 3, line 6.
    """
    if x.shape[1] != net.u.shape[1]:
        raise ValueError(f"`x` must have {net.u.shape[1]} features for this net; got {x.shape[1]}.")
    with np.errstate(over="ignore", invalid="ignore"):
        return _finite(x @ net.u.T + net.b, "features")


@checked
def outputs(
    net: LinearNet, x: Float[np.ndarray, "sample _input"]
) -> Float[np.ndarray, "sample output"]:
    r"""$f(\Xi)=Hv^\top$, shape ``(sample, output)``.

    Args:
        net: A network or the limit.
        x: $\Xi$.

    Raises:
        ValueError: If the inputs have another dimension.

    Source: TP4 Algorithm 3, line 7.
    """
    H = features(net, x)
    with np.errstate(over="ignore", invalid="ignore"):
        return _finite(H @ net.v.T, "outputs")


@checked
def step(
    net: LinearNet,
    x: Float[np.ndarray, "sample _input"],
    y: Float[np.ndarray, "sample _output"],
    sgd: SGD,
    *,
    loss: str | Loss = "mse",
) -> tuple[LinearNet, float]:
    r"""One step of gradient descent with clipping and weight decay, at any width and in the limit.

    $$du=-v^\top\chi^\top\Xi,\quad dv=-\chi^\top H,\quad db=-\alpha^2\mathbf 1^\top\chi v,\qquad
      G^2=\|du\|^2+\|dv\|^2+\|db/\alpha\|^2,$$
    $$\theta\leftarrow\theta+\eta\min(1,g/G)\,d\theta-\eta\gamma\theta$$

    Args:
        net: A network or the limit.
        x: $\Xi$, the batch.
        y: Targets, a row for each sample; one-hot rows for ``"cross_entropy"``.
        sgd: $\eta$, $g$ and $\gamma$, without momentum. Biases decay like weights here.
        loss: As of `Task`; its mean over the samples is lowered.

    Returns:
        The net after the step, and the loss before it; exact.

    Raises:
        TypeError: If `sgd` or `loss` is another kind of thing.
        ValueError: If shapes do not fit, there is momentum, or the step diverges.

    Source: TP4 Algorithms 2 and 3, lines 5-22.
    """
    if sgd.momentum:
        raise ValueError("`linear.step` keeps no momentum; set `momentum` of `sgd` to 0.")
    of_sample = known_loss(loss)
    H = features(net, x)
    with np.errstate(over="ignore", invalid="ignore"):
        f = H @ net.v.T
    if y.shape != f.shape:
        raise ValueError(f"`y` must have the shape of the outputs, {f.shape}; got {y.shape}.")
    if not np.isfinite(f).all():
        raise ValueError(_diverged("outputs are not finite", sgd))
    with np.errstate(over="ignore", invalid="ignore"):
        value, chi = of_sample.values(f, y).mean(), of_sample.slopes(f, y)
        du, dv, dbeta = -(net.v.T @ chi.T) @ x, -chi.T @ H, -net.alpha * chi.sum(0) @ net.v
        G = math.sqrt(sum(float(np.vdot(part, part)) for part in (du, dv, dbeta)))
    if not (math.isfinite(G) and math.isfinite(value)):
        raise ValueError(_diverged(f"loss {value}, norm of the gradient {G}", sgd))
    rate = sgd.eta * (1.0 if sgd.clip is None or G <= sgd.clip else sgd.clip / G)
    keep = 1 - sgd.eta * sgd.weight_decay
    with np.errstate(over="ignore", invalid="ignore"):
        new = {
            "u": keep * net.u + rate * du,
            "v": keep * net.v + rate * dv,
            "b": keep * net.b + rate * net.alpha * dbeta,
        }
    if not all(np.isfinite(part).all() for part in new.values()):
        raise ValueError(_diverged("the weights after it are not finite", sgd))
    return replace(net, **new), float(value)


def _diverged(what: str, sgd: SGD) -> str:
    return f"`linear.step` diverged: {what}. Lower `eta` (it is {sgd.eta}) or set `clip`."


def _finite(values: np.ndarray, what: str) -> np.ndarray:
    if not np.isfinite(values).all():
        raise ValueError(f"The {what} overflow at these inputs. Scale `x` or the weights down.")
    return values
