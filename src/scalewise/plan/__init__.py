"""Plan, apply, verify, transfer: one table for every framework, which the adapters fill and read."""

from scalewise.plan.check import Check
from scalewise.plan.decide import decide
from scalewise.plan.description import ModelDescription, TensorDescription
from scalewise.plan.errors import PlanError
from scalewise.plan.make import Probe, make_plan
from scalewise.plan.predicted import Predicted, predicted
from scalewise.plan.roles import Kind, Layer, Role
from scalewise.plan.rules import Powers, Ratios, Rule, rule
from scalewise.plan.settings import SettingsGroup, groups
from scalewise.plan.store import load, save
from scalewise.plan.table import Multiplier, Plan, Spread, TensorPlan
from scalewise.plan.text import describe
from scalewise.plan.transfer import Transfer, transfer
from scalewise.plan.verdict import Verdict

__all__ = [
    "Check",
    "Kind",
    "Layer",
    "ModelDescription",
    "Multiplier",
    "Plan",
    "PlanError",
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
