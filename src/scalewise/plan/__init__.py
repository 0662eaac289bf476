"""Plan, apply, verify, transfer: one table for every framework, which the adapters fill and read."""

from scalewise.plan._check import Check
from scalewise.plan._decide import decide
from scalewise.plan._description import ModelDescription, TensorDescription
from scalewise.plan._errors import PlanError
from scalewise.plan._laws import Law, Norm
from scalewise.plan._make import make_plan
from scalewise.plan._policies import DECAYS, POLICIES, Decay, Policy, Training
from scalewise.plan._powers import Powers, Ratios
from scalewise.plan._predicted import Predicted, predicted
from scalewise.plan._probed import Probe
from scalewise.plan._roles import Kind, Layer, Role
from scalewise.plan._rules import Rule, rule
from scalewise.plan._settings import SettingsGroup, groups
from scalewise.plan._store import load, save
from scalewise.plan._table import Multiplier, Plan, Spread, TensorPlan
from scalewise.plan._text import describe
from scalewise.plan._transfer import Transfer, transfer
from scalewise.plan._verdict import Verdict

__all__ = [
    "DECAYS",
    "POLICIES",
    "Check",
    "Decay",
    "Kind",
    "Law",
    "Layer",
    "ModelDescription",
    "Multiplier",
    "Norm",
    "Plan",
    "PlanError",
    "Policy",
    "Powers",
    "Predicted",
    "Probe",
    "Ratios",
    "Role",
    "Rule",
    "SettingsGroup",
    "Spread",
    "TensorDescription",
    "TensorPlan",
    "Training",
    "Transfer",
    "Verdict",
    "decide",
    "describe",
    "groups",
    "load",
    "make_plan",
    "predicted",
    "rule",
    "save",
    "transfer",
]
