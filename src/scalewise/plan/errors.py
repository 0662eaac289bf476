"""The one error of planning: something that only the user can decide, or that cannot be."""

__all__ = ["PlanError"]


class PlanError(ValueError):
    """A model cannot be planned as it is; the message names the tensor and says what to do."""
