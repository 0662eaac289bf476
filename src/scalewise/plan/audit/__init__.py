"""What a training script does at great width, read off real networks of several widths: no plan is needed."""

from scalewise.plan.audit._audit import Audit, audited
from scalewise.plan.audit._breaks import Break
from scalewise.plan.audit._limits import Limit, Waste
from scalewise.plan.audit._powers import TensorPowers

__all__ = ["Audit", "Break", "Limit", "TensorPowers", "Waste", "audited"]
