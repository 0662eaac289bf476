"""Property: a pass that is watched sees fused layers step by step, and leaves the settings of PyTorch alone."""

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from scalewise.torch._plainly import plainly


class Names(TorchDispatchMode):
    """The operations that are executed."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func._schema.name.rpartition("::")[2])
        return func(*args, **(kwargs or {}))


def settings() -> tuple[bool, ...]:
    cuda = torch.backends.cuda
    return (
        torch.backends.mha.get_fastpath_enabled(),
        torch.backends.mkldnn.enabled,
        cuda.math_sdp_enabled(),
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
    )


@pytest.fixture(params=["as they are", "other ones"])
def before(request: pytest.FixtureRequest):
    """Settings, also of someone who has changed them."""
    usual = settings()
    if request.param == "as they are":
        yield usual
        return
    torch.backends.mha.set_fastpath_enabled(False)
    torch.backends.mkldnn.enabled = False
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        yield settings()
    torch.backends.mkldnn.enabled = usual[1]
    torch.backends.mha.set_fastpath_enabled(usual[0])
    assert settings() == usual


def test_settings_are_as_they_were_also_after_an_error(before: tuple[bool, ...]) -> None:
    """Warnings are errors here, as they are for users who ask for that: none may come in between."""
    for _ in range(2):
        with plainly():
            assert settings() == (False, False, True, False, False)
        assert settings() == before
    with pytest.raises(ZeroDivisionError), plainly(), plainly():
        raise ZeroDivisionError
    assert settings() == before


LAYERS = {
    "GRU": (nn.GRU(3, 4), torch.ones(2, 1, 3)),
    "LSTM": (nn.LSTM(3, 4), torch.ones(2, 1, 3)),
    "attention": (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), torch.ones(1, 3, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_fused_layers_are_taken_apart(name: str) -> None:
    layer, x = LAYERS[name]
    with torch.no_grad(), plainly(), Names() as seen:
        layer.eval()(x)
    assert seen.names & {"mm", "addmm"}
    fused = {n for n in seen.names if "lstm" in n or "gru" in n or "rnn" in n or "scaled_dot" in n}
    assert not fused
    assert "_transformer_encoder_layer_fwd" not in seen.names
