"""The influences of the NTK note, corrected."""

from scalewise.theory.note._influence import (
    NoteKernels,
    cross_moment,
    first_moment,
    forward_factors,
    influence_mean,
    influence_square,
    note_kernels,
    ntk_in_ntk_parametrisation,
    ntk_in_standard_parametrisation,
    output_variance,
    second_moment,
)
from scalewise.theory.note._influence_refined import (
    refined_moments,
    row_overlap,
)

__all__ = [
    "NoteKernels",
    "cross_moment",
    "first_moment",
    "forward_factors",
    "influence_mean",
    "influence_square",
    "note_kernels",
    "ntk_in_ntk_parametrisation",
    "ntk_in_standard_parametrisation",
    "output_variance",
    "refined_moments",
    "row_overlap",
    "second_moment",
]
