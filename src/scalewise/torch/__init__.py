"""Plans for models of torch."""
