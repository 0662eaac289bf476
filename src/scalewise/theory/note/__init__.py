"""The influences of the NTK note, corrected."""

from scalewise.theory.note._influence import NoteKernels as NoteKernels
from scalewise.theory.note._influence import cross_moment as cross_moment
from scalewise.theory.note._influence import first_moment as first_moment
from scalewise.theory.note._influence import forward_factors as forward_factors
from scalewise.theory.note._influence import influence_mean as influence_mean
from scalewise.theory.note._influence import influence_square as influence_square
from scalewise.theory.note._influence import note_kernels as note_kernels
from scalewise.theory.note._influence import (
    ntk_in_ntk_parametrisation as ntk_in_ntk_parametrisation,
)
from scalewise.theory.note._influence import (
    ntk_in_standard_parametrisation as ntk_in_standard_parametrisation,
)
from scalewise.theory.note._influence import output_variance as output_variance
from scalewise.theory.note._influence import second_moment as second_moment
from scalewise.theory.note._influence_refined import refined_moments as refined_moments
from scalewise.theory.note._influence_refined import row_overlap as row_overlap
