"""Blocks that are repeated in depth: how they change sizes, correlations and small differences of signals."""

from scalewise.theory.blocks._susceptibilities import BlockSusceptibilities as BlockSusceptibilities
from scalewise.theory.blocks._susceptibilities import depth_scale as depth_scale
from scalewise.theory.blocks._susceptibilities import susceptibilities as susceptibilities
