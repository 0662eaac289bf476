"""Networks and programs at infinite width, and at any finite one by the same text."""

from scalewise.limits import learning as learning
from scalewise.limits import linear as linear
from scalewise.limits import maml as maml
from scalewise.limits import shallow as shallow
from scalewise.limits import words as words
from scalewise.limits._descent import SGD as SGD
from scalewise.limits._kernel_regime import LayerKernels as LayerKernels
from scalewise.limits._kernel_regime import initial_kernel as initial_kernel
from scalewise.limits._kernel_regime import layer_kernels as layer_kernels
from scalewise.limits._kernel_regime import limit_kernel as limit_kernel
from scalewise.limits._kernel_regime import motion_kernel as motion_kernel
from scalewise.limits._lazy import LazyMatrix as LazyMatrix
from scalewise.limits._network import Architecture as Architecture
from scalewise.limits._network import WidthPowers as WidthPowers
from scalewise.limits._network import powers as powers
from scalewise.limits._on import Exact as Exact
from scalewise.limits._on import Finite as Finite
from scalewise.limits._on import Infinite as Infinite
from scalewise.limits._on import Kernel as Kernel
from scalewise.limits._on import Lazy as Lazy
from scalewise.limits._on import Printed as Printed
from scalewise.limits._train import TrainingError as TrainingError
from scalewise.limits._train import train as train
from scalewise.limits.program import run as run
