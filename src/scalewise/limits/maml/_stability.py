r"""When first-order MAML feeds a bias towards classes, which clipping slows and does not stop.

A class bias is a part of the output that differs between the classes and is the same for every input. Classes of
a task are numbered at random, so it is never of use, and one step of adaptation takes it back, by a factor that
`bias_response` gives.

Source: derived; it answers what runs of TP4 J.2.1 were seen to do.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.limits._few_shot import Rate, augmented, contrasts
from scalewise.limits.linear import LinearNet
from scalewise.limits.maml._gram import GramNet, products_of
from scalewise.limits.maml._tasks import Tasks


@checked
def bias_response(
    net: GramNet | LinearNet, tasks: Tasks, inner_rate: Rate
) -> Float[np.ndarray, " contrast"]:
    r"""Share of a class bias that one step of adaptation takes back.

    A bias $\delta z$ of all outputs, $z$ one of the $k-1$ principal contrasts of the classes ($|z|=1$, entries
    adding up to zero), is after the step and on average over the queries $(1-h_z)\delta z$, with
    $$h_z=\frac\epsilon k\big\langle\tilde\xi_s^\top C\tilde\xi_q+A_{zz}\,\tilde\xi_s^\top\tilde\xi_q\big\rangle,
      \qquad A_{zz}=z^\top Az,$$
    a mean over supports $s$, queries $q$ and tasks. The second order of MAML differentiates that, and pulls the
    bias back by $(1-h_z)^2$. The first order, whose gradient is that of the adapted network, pulls by $1-h_z$: for
    $h_z>1$ the adaptation overshoots, the gradient has the wrong sign, and the bias grows. Where all inputs of the
    tasks are the same, a meta-step over $T$ of them without clipping multiplies a small bias by
    $$1-\eta T\,\tfrac{h_z}\epsilon(1-h_z)\ \text{(first order)},\qquad
      1-\eta T\,\tfrac{h_z}\epsilon(1-h_z)^2\ \text{(second order)}.$$
    Where inputs differ, growth by the first order sets in somewhat below 1: at about 0.89 in the first meta-steps
    of TP4's experiment on Omniglot. A bias raises $A_{zz}$, hence $h_z$, and so feeds itself. There the largest
    $h_z$ is 1.02 at the start and 0.9 after 50 meta-steps; in the two runs seen to leave it is above 1 again by the
    200th and never returns, in one that stays it falls to 0.75. By the second order the same two runs stay at 0.84;
    at $\epsilon=0.2$ they rise from 0.51 to 0.79 within 1000 meta-steps, and stay (measured).

    Args:
        net: A net, of any width or the limit.
        tasks: Tasks it is to learn; their classes do not matter, and many of them lower the noise of the mean.
        inner_rate: $\epsilon$.

    Returns:
        $h_z$ of every principal contrast, ``(classes - 1,)``, the largest first, dimensionless. Exact where the
        outputs of the net are equal, as at the start of the limit, and supports hold every class equally often;
        elsewhere what it would be there.

    Raises:
        ValueError: If shapes do not fit, or the rate is out of its range.

    Source: derived from TP4 J.2.1 with Algorithm 3.

    Example:
        One input, 1, of either class: $\tilde\xi=(1,1)$, $C=\mathrm{diag}(1,0)$, $A=I/4$.

        >>> import numpy as np
        >>> from scalewise.limits.maml import Tasks, bias_response
        >>> from scalewise.limits import linear
        >>> x, y = np.ones((1, 2, 1)), np.array([[0, 1]])
        >>> bias_response(linear.limit(1, 2, sigma_v=0.5), Tasks(x, y, x, y), 0.4).round(12).tolist()
        [0.3]
    """
    net = products_of(net)
    # The mean over pairs is the product of means, one task at a time.
    x_s, x_q = (
        augmented(x, net.alpha, net.M).mean(1, dtype=np.float64)
        for x in (tasks.support, tasks.query)
    )
    Z = contrasts(len(net.A))
    A_zz = np.linalg.eigvalsh(Z.T @ net.A @ Z)[::-1]
    T, k = len(x_s), len(net.A)
    with np.errstate(over="ignore", invalid="ignore"):
        h = inner_rate / k * (np.vdot(x_s @ net.C, x_q) + A_zz * np.vdot(x_s, x_q)) / T
    if not np.isfinite(h).all():
        raise ValueError("The response overflows at these inputs. Scale those of `tasks` down.")
    return h
