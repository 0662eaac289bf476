"""Passes in which PyTorch takes attention and recurrent layers apart, so that every operation can be seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


@contextmanager
def plainly() -> Iterator[None]:
    """Attention and recurrent layers step by step until the end of the block; then settings are as they were."""
    attention, recurrent = torch.backends.mha.get_fastpath_enabled(), torch.backends.mkldnn.enabled
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        # Not `mkldnn.flags`: it sets TF32, too, which warns, and where that is an error oneDNN stays off for good.
        torch.backends.mkldnn.enabled = False
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mkldnn.enabled = recurrent
        torch.backends.mha.set_fastpath_enabled(attention)
