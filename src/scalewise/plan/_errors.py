"""The one error of planning: something that only the user can decide, or that cannot be."""

from typing import Any


class PlanError(ValueError):
    """A model cannot be planned as it is; the message names the tensor and says what to do."""


class PlanWarning(UserWarning):
    """A plan was made without something that it should know; the message says what, and how to give it."""


def loss_refused(
    loss: Any, model: Any, batch: Any, error: Exception, such_as: str
) -> PlanError | None:
    """Error about a loss that cannot be called with a model and a batch; ``None`` if that is not what is wrong.

    Args:
        loss: As the user gave it.
        model: What it was called with first.
        batch: What it was called with then.
        error: What it raised.
        such_as: A loss that can be called so.
    """
    if not isinstance(error, TypeError | AttributeError):
        return None
    try:
        loss(batch, model)
    except Exception:
        told = f"`loss` is called as loss(model, batch) and raised {type(error).__name__}: {error}"
        return PlanError(
            f"{told.rstrip('.')}. Give a function that calls the model itself, such as {such_as}."
        )
    return PlanError(
        "`loss` is called as loss(model, batch), and this one takes the batch first: give "
        "lambda model, batch: loss(batch, model)."
    )
