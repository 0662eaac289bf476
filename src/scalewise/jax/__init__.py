"""Plans for models of jax."""
