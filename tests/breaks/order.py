"""Breaks of order 1/n of networks of any layers: units, what they feel of each other, and responses to them."""

from breaks import row

TESTS = "tests/theory/test_order.py"
CHAIN = f"{TESTS}::test_fully_connected_layers_have_their_recursions"
NORMS = f"{TESTS}::test_drawn_networks_with_norms_agree"
MEMORY = f"{TESTS}::test_neurons_that_remember_have_theirs"
of_units = row("theory/order/_populations.py", f"{TESTS}::test_channels_that_meet_are_one_unit")
of_program = row("theory/order/_particles.py", (CHAIN, NORMS))
of_response = row("theory/order/_responses.py", (CHAIN, MEMORY))

MUTANTS = (
    of_units(
        "order: what is added up stays apart",
        "                self._unite(here, one, other)\n",
        "                pass\n",
    ),
    of_units(
        "order: a head is one channel",
        "self.inner[self.of(draw)] = max(known, size)",
        "self.inner[self.of(draw)] = known",
    ),
    of_program(
        "order: bias variance dropped",
        "Sigma = node.own.C_b + node.own.C_W",
        "Sigma = node.own.C_W",
    ),
    of_program(
        "order: norms feel no other units",
        "            found = (values @ shares)[..., None]",
        "            found = jax.lax.stop_gradient((values @ shares)[..., None])",
    ),
    of_program(
        "order: units have fixed covariances",
        "    rho = Sigma / (scale[:, None] * scale)",
        "    rho = jax.lax.stop_gradient(Sigma) / (scale[:, None] * scale)",
    ),
    of_response(
        "order: influences not centred",
        "(slopes[p] - slopes[p].mean(axis=1, keepdims=True))",
        "(slopes[p])",
    ),
    of_response(
        "order: no half of the curvature", "return 0.5 * np.array(below)", "return np.array(below)"
    ),
    of_response(
        "order: a neuron shares with itself", "            V = V - itself @ itself.T\n", ""
    ),
    of_response(
        "order: signs do not average to 1",
        "len(own.units))) / math.sqrt(_SIGNS)",
        "len(own.units))) / _SIGNS",
        f"{TESTS}::test_random_signs_do_in_place_of_all_directions",
    ),
)
