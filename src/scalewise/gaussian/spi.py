"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# Covariances of pairs, $\mathrm{Cov}[\sigma^{(p)}_a\sigma^{(q)}_b,\sigma^{(r)}_c\sigma^{(s)}_d]_K$.
from scalewise.gaussian._four import feature_means as feature_means

# The geometry of a pair of preactivations, without losing digits near coincidence.
from scalewise.gaussian._geometry import clipped as clipped

# Maps of one layer on tiles of pairs: what they have in common, and those in closed form.
from scalewise.gaussian._in_place import KernelMap as KernelMap
from scalewise.gaussian._in_place import Workspace as Workspace

# Increments $\delta_p(z)=\sigma^{(p)}(z)-s_p$, $s_p=\sigma^{(p)}(0)$, and expectations of their products.
from scalewise.gaussian._increments import increment as increment

# The one interface to Gaussian expectations of up to two distinct inputs.
from scalewise.gaussian._interface import PAIR_ORDERS as PAIR_ORDERS
from scalewise.gaussian._interface import why_unconverged as why_unconverged

# Nodes for expectations over many inputs at once: product rules and shared Sobol samples.
from scalewise.gaussian._joint import SCRAMBLES as SCRAMBLES
from scalewise.gaussian._joint import SHAKES as SHAKES
from scalewise.gaussian._joint import JointRule as JointRule
from scalewise.gaussian._joint import at_least_usual as at_least_usual
from scalewise.gaussian._joint import combined as combined
from scalewise.gaussian._joint import joint_rule as joint_rule
from scalewise.gaussian._joint import joint_work as joint_work
from scalewise.gaussian._joint import resolved as resolved
from scalewise.gaussian._joint import shaken as shaken
from scalewise.gaussian._joint import with_shakes as with_shakes

# One layer's map $K_{ab}\mapsto(\langle\sigma_a\sigma_b\rangle,\langle\sigma'_a\sigma'_b\rangle)$ on many pairs.
from scalewise.gaussian._kernel_map import kernel_map as kernel_map

# Moments $M_{pq}$ between all labels of a layer, tile by tile: one Hermite table for each derivative.
from scalewise.gaussian._pair_tables import PairTables as PairTables

# Places of the labels of pairs: inputs row by column or in turn, at equal positions or at each with each.
from scalewise.gaussian._places import Other as Other
from scalewise.gaussian._places import Places as Places

# Many expectations over the same pairs of inputs, and derivatives beyond the fourth.
from scalewise.gaussian._products import high_moments as high_moments

# Gaussian expectations by quadrature split at kinks: any activation, one or two inputs, slowly.
from scalewise.gaussian._quadrature import line_rule as line_rule

# Covariances of products of four factors that stand on one or two distinct inputs.
from scalewise.gaussian._two_inputs import two_input_covariances as two_input_covariances
