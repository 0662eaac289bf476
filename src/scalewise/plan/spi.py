"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# The protocol of adapters: what a framework does for a plan, and for the networks of one measurement.
from scalewise.plan._adapter import Adapter as Adapter
from scalewise.plan._adapter import Scene as Scene

# What libraries of Muon multiply a step by, beside the learning rate: a function of the matrix's shape.
from scalewise.plan._adjust import ADJUSTMENTS as ADJUSTMENTS

# Sizes beside width and depth: which there are, what the factory is given, and how each tensor meets them.
from scalewise.plan._axes import Compared as Compared
from scalewise.plan._axes import compared as compared
from scalewise.plan._axes import ratios_of as ratios_of
from scalewise.plan._axes import taken as taken

# `check`: a measurement is fitted, compared with its plan, judged, and what is off is diagnosed.
from scalewise.plan._checking import Tolerance as Tolerance

# Constants tuned at the base: which tensors they are for, and a plan that carries them.
from scalewise.plan._constants import ConstantsLike as ConstantsLike
from scalewise.plan._constants import combined as combined
from scalewise.plan._constants import stds_of_kinds as stds_of_kinds
from scalewise.plan._constants import with_constants as with_constants

# What a framework's adapter tells of a model: names, shapes and axes, and no array.
from scalewise.plan._description import Axes as Axes

# Which tensor is to blame: causes told apart from what follows from them.
from scalewise.plan._diagnosis import Cause as Cause

# The one error of planning: something that only the user can decide, or that cannot be.
from scalewise.plan._errors import PlanWarning as PlanWarning
from scalewise.plan._errors import loss_refused as loss_refused

# Experts: tensors that another number of them adds, and what must be asked where that number is no size.
from scalewise.plan._experts import AXIS as AXIS
from scalewise.plan._experts import at_targets_number as at_targets_number
from scalewise.plan._experts import more_of as more_of
from scalewise.plan._experts import with_mates as with_mates

# A plan as rows for other people's trainers: exact patterns of names, each with all settings of an optimizer.
from scalewise.plan._exported import Exported as Exported
from scalewise.plan._exported import globs as globs
from scalewise.plan._exported import left_to_draw as left_to_draw
from scalewise.plan._exported import regex as regex
from scalewise.plan._exported import unapplied as unapplied

# Powers of the width from sizes measured at several widths and seeds.
from scalewise.plan._fits import Fit as Fit

# What a forward pass multiplies by, followed from operation to operation; no framework, no array.
from scalewise.plan._flow import Flow as Flow

# What an adapter saw in a forward pass: attention, and multipliers in the model's own code.
from scalewise.plan._forward import Forward as Forward
from scalewise.plan._forward import Inputs as Inputs
from scalewise.plan._forward import Multiplied as Multiplied
from scalewise.plan._forward import Passes as Passes
from scalewise.plan._forward import given as given
from scalewise.plan._forward import nothing_returned as nothing_returned

# What an optimizer's step is to a plan: the norm in which it has a fixed size, and its degree in the gradient.
from scalewise.plan._laws import ENTRYWISE as ENTRYWISE
from scalewise.plan._laws import Optimizer as Optimizer
from scalewise.plan._laws import Size as Size
from scalewise.plan._laws import known_optimizer as known_optimizer

# Names of tensors: without the prefixes of wrappers, and with layer numbers taken out.
from scalewise.plan._names import bare as bare
from scalewise.plan._names import matching as matching
from scalewise.plan._names import pattern as pattern

# What a value holds, whatever keeps it: containers, records, and objects of anybody's own.
from scalewise.plan._nested import held_in as held_in

# Weights that sum over numbers of the width and over others beside them, as `cat([h, x])` before a layer.
from scalewise.plan._parts import between as between
from scalewise.plan._parts import put_together as put_together
from scalewise.plan._parts import std_beside as std_beside

# Which tensors of a model lie between which, on the way from its input to what it returns.
from scalewise.plan._paths import Passed as Passed
from scalewise.plan._paths import Tracks as Tracks

# The model at the sizes that a plan compares, and what is seen of its tensors along sizes other than the width.
from scalewise.plan._probed import Sights as Sights

# What only the user can say of a model: asked all at once, with the answer that most models need.
from scalewise.plan._questions import Wording as Wording

# What the user asks of a plan, in any framework: checked once, before anything is built.
from scalewise.plan._request import Argument as Argument
from scalewise.plan._request import Blocks as Blocks
from scalewise.plan._request import Factory as Factory
from scalewise.plan._request import Names as Names
from scalewise.plan._request import OptimizerLike as OptimizerLike
from scalewise.plan._request import Policies as Policies
from scalewise.plan._request import Request as Request
from scalewise.plan._request import Roles as Roles
from scalewise.plan._request import SizesLike as SizesLike
from scalewise.plan._request import StrategyLike as StrategyLike
from scalewise.plan._request import requested as requested
from scalewise.plan._request import resized as resized

# What a tensor is to the width of the network: the role that decides how it scales.
from scalewise.plan._roles import RoleSpec as RoleSpec

# Each quantity of each tensor: what the plan says, what was measured, and whether both agree.
from scalewise.plan._rows import Row as Row

# Sizes in one real network before and after a few steps, whatever framework it is of.
from scalewise.plan._sizes import Logits as Logits
from scalewise.plan._sizes import ModulePlaces as ModulePlaces
from scalewise.plan._sizes import Record as Record
from scalewise.plan._sizes import Sizes as Sizes
from scalewise.plan._sizes import measure_network as measure_network

# What a sample of entries tells of the law they were drawn from, and the factor to another size of it.
from scalewise.plan._spread import rescaling as rescaling
from scalewise.plan._spread import spread_error as spread_error
from scalewise.plan._spread import told_mean as told_mean

# A plan as a small JSON text, and back: all that must be kept beside a checkpoint.
from scalewise.plan._store import read as read

# The plan: one row for each tensor, and what the forward pass must be multiplied by.
from scalewise.plan._table import Factors as Factors

# What a forward pass does with tensors of which no module speaks: evidence that takes the place of a question.
from scalewise.plan._uses import Use as Use
from scalewise.plan._uses import Uses as Uses
from scalewise.plan._uses import by_tensor as by_tensor
from scalewise.plan._uses import explained as explained

# What is known of an array in a forward pass: what it is a sum of, and the sizes that it follows.
from scalewise.plan._values import Source as Source
from scalewise.plan._values import Value as Value

# `verify`: train real networks of several widths for a step or two and see how they scale; in any framework.
from scalewise.plan._verify import Verified as Verified
from scalewise.plan._verify import Widths as Widths

# An audit of a script of any framework: networks as it builds and trains them, by a plan that claims nothing.
from scalewise.plan.audit._script import NO_CLAIM as NO_CLAIM
from scalewise.plan.audit._script import SeenOptimizers as SeenOptimizers
from scalewise.plan.audit._script import audit_of as audit_of
from scalewise.plan.audit._script import called as called

# How far the optimum moves for every doubling of a size: a line through optima, with the larger of two errors.
from scalewise.plan.proof._drift import GridSize as GridSize

# Where the losses of one size have their minimum, and how surely: a parabola in $\log_2$ of the hyperparameter.
from scalewise.plan.proof._optimum import find_optimum as find_optimum
from scalewise.plan.proof._optimum import mean_of as mean_of

# `check_transfer`: does the optimum of a user's own training stay where it was tuned? In any framework.
from scalewise.plan.proof._transfer import check_transfer as check_transfer

# `tune`: settings and constants worth carrying, found at the base alone; in any framework.
from scalewise.plan.proof._tune import tune as tune
