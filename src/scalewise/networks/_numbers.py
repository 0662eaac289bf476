"""Numbers as the verbs of the theory take them: of any library, and widths that need not be whole."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import Must

Numbers = Annotated[Any, Float[np.ndarray, "..."]]
Width = Annotated[float | int, Must("a finite number of at least 1", lambda n: 1 <= n < math.inf)]
