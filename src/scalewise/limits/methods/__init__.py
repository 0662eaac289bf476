"""Algorithms of training, one file each: `_loop` runs them, `_train` chooses."""
