"""The proof of a plan: its optimum stays where it was tuned; and the search for what is worth carrying."""

from scalewise.plan.proof._check import TransferCheck, check_losses
from scalewise.plan.proof._optimum import Optimum, find_optimum
from scalewise.plan.proof._search import Tuned

__all__ = ["Optimum", "TransferCheck", "Tuned", "check_losses", "find_optimum"]
