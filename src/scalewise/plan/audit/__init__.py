"""What a training script does at great width, read off real networks of several widths: no plan is needed."""

from scalewise.plan.audit._audit import Audit as Audit
from scalewise.plan.audit._breaks import Break as Break
from scalewise.plan.audit._limits import Limit as Limit
from scalewise.plan.audit._limits import Waste as Waste
from scalewise.plan.audit._powers import TensorPowers as TensorPowers
