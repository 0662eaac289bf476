"""The proof of a plan: its optimum stays where it was tuned; and the search for what is worth carrying."""

from scalewise.plan.proof._check import TransferCheck as TransferCheck
from scalewise.plan.proof._check import check_losses as check_losses
from scalewise.plan.proof._optimum import Optimum as Optimum
from scalewise.plan.proof._optimum import find_optimum as find_optimum
from scalewise.plan.proof._tuned import Tuned as Tuned
