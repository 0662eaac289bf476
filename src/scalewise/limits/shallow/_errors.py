"""Wrong answers, and the step at which a training has nothing more to learn."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from scalewise._checked import checked


@checked
def error_probability(
    outputs: Float[np.ndarray, "step ..."], labels: Float[np.ndarray, "*_"]
) -> tuple[Float[np.ndarray, " step"], Float[np.ndarray, " step"]]:
    r"""$p_\mathrm{err}^{(k)}=P(y\,f^{(k)}(x)<0)$, estimated.

    Args:
        outputs: $f^{(k)}$ at inputs that training has not seen, with whatever is random along the other axes.
        labels: $y$ of the same shape without the step.

    Returns:
        The share of wrong answers at each step, and its standard error if all draws are independent.

    Raises:
        ValueError: If the shapes do not fit.

    Source: Golikov, Appendix A.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import shallow
        >>> f = np.array([[1.0, -2.0], [1.0, 3.0]])
        >>> shallow.error_probability(f, np.array([1.0, 1.0]))[0]
        array([0.5, 0. ])
    """
    if outputs.ndim < 2 or outputs.shape[1:] != labels.shape:
        raise ValueError(
            f"`labels` needs the shape of `outputs` without its steps; got {labels.shape} and "
            f"{outputs.shape}."
        )
    wrong = (outputs * labels < 0).reshape(len(outputs), -1)
    share = wrong.mean(axis=1)
    return share, np.sqrt(share * (1 - share) / wrong.shape[1])


@checked
def termination(probability: Float[np.ndarray, " step"]) -> int | None:
    r"""$k_\mathrm{term}$: the largest $k$ such that wrong answers had a chance at every step before it.

    Args:
        probability: $p_\mathrm{err}^{(k)}$ from step 0 on.

    Returns:
        The first step without wrong answers; ``None`` if there is none among those given.

    Source: Golikov, Appendix A.

    Example:
        >>> import numpy as np
        >>> from scalewise.limits import shallow
        >>> shallow.termination(np.array([0.4, 0.1, 0.0, 0.2]))
        2
    """
    clean: Bool[np.ndarray, " step"] = probability <= 0
    return int(np.argmax(clean)) if np.any(clean) else None
