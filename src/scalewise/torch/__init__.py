"""Plans for models of PyTorch: what `scalewise.plan` decides, read from modules and written to them."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "scalewise.torch needs PyTorch, which is not installed: pip install 'scalewise[torch]'."
    ) from error

from scalewise.torch._plan import TorchPlan, load, plan

__all__ = ["TorchPlan", "load", "plan"]
