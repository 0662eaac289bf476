"""The one error of planning: something that only the user can decide, or that cannot be."""


class PlanError(ValueError):
    """A model cannot be planned as it is; the message names the tensor and says what to do."""


class PlanWarning(UserWarning):
    """A plan was made without something that it should know; the message says what, and how to give it."""
