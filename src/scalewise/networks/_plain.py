"""What the theory takes: networks with and without skip connections, widths, numbers of any library.

Annotations of verbs that are `checked`; whatever depends on two arguments is refused where they meet.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import Must
from scalewise.networks._mlp import MLP
from scalewise.networks._network import Network, check_network

__all__ = ["AnyNetwork", "Numbers", "PlainMLP", "Width"]


def _checked(net: Any, *, skips: bool = False) -> Any:
    check_network(net, skips=skips)
    return net


_SUCH_AS = "a network such as scalewise.MLP"
PlainMLP = Annotated[MLP, Must(_SUCH_AS, to=_checked)]
AnyNetwork = Annotated[Network, Must(_SUCH_AS, to=partial(_checked, skips=True))]
Numbers = Annotated[Any, Float[np.ndarray, "..."]]
Width = Annotated[float | int, Must("a finite number of at least 1", lambda n: 1 <= n < math.inf)]
