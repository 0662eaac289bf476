"""Networks and programs at infinite width, and at any finite one by the same text."""

from scalewise.limits import shallow
from scalewise.limits._descent import SGD
from scalewise.limits._kernel_regime import (
    LayerKernels,
    initial_kernel,
    layer_kernels,
    limit_kernel,
    motion_kernel,
)
from scalewise.limits._lazy import LazyMatrix
from scalewise.limits._losses import Loss
from scalewise.limits._network import Network, WidthPowers, powers
from scalewise.limits._on import Exact, Finite, Infinite, Kernel, Lazy, Printed
from scalewise.limits._task import Task
from scalewise.limits._train import TrainingError, train
from scalewise.limits.analogies import analogy_answers, analogy_chance
from scalewise.limits.conditioned import conditioned_readout
from scalewise.limits.kernel_maml import (
    KernelModel,
    ReluGP,
    ReluNTK,
    kernel_adapted_outputs,
    kernel_maml_step,
    kernel_model,
    kernel_outputs,
)
from scalewise.limits.learning_derivatives import (
    LearningDerivatives,
    OneStep,
    derivatives_of_learning,
    one_step_learning,
    sigma_gelu,
)
from scalewise.limits.linear import (
    LinearNet,
    cross_entropy,
    half_square,
    linear_features,
    linear_limit,
    linear_network,
    linear_outputs,
    linear_step,
    sample_linear,
)
from scalewise.limits.maml import (
    GramNet,
    adapted_outputs,
    gram_net,
    maml_step,
)
from scalewise.limits.maml_stability import bias_response
from scalewise.limits.maml_tasks import Maml, Tasks, accuracies
from scalewise.limits.program import run
from scalewise.limits.transfer import transfer_gap
from scalewise.limits.word2vec import (
    Embeddings,
    WordBatch,
    word2vec_limit,
    word2vec_network,
    word2vec_objective,
    word2vec_step,
)
from scalewise.limits.word2vec_training import Word2Vec, train_word2vec

__all__ = [
    "SGD",
    "Embeddings",
    "Exact",
    "Finite",
    "GramNet",
    "Infinite",
    "Kernel",
    "KernelModel",
    "LayerKernels",
    "Lazy",
    "LazyMatrix",
    "LearningDerivatives",
    "LinearNet",
    "Loss",
    "Maml",
    "Network",
    "OneStep",
    "Printed",
    "ReluGP",
    "ReluNTK",
    "Task",
    "Tasks",
    "TrainingError",
    "WidthPowers",
    "Word2Vec",
    "WordBatch",
    "accuracies",
    "adapted_outputs",
    "analogy_answers",
    "analogy_chance",
    "bias_response",
    "conditioned_readout",
    "cross_entropy",
    "derivatives_of_learning",
    "gram_net",
    "half_square",
    "initial_kernel",
    "kernel_adapted_outputs",
    "kernel_maml_step",
    "kernel_model",
    "kernel_outputs",
    "layer_kernels",
    "limit_kernel",
    "linear_features",
    "linear_limit",
    "linear_network",
    "linear_outputs",
    "linear_step",
    "maml_step",
    "motion_kernel",
    "one_step_learning",
    "powers",
    "run",
    "sample_linear",
    "shallow",
    "sigma_gelu",
    "train",
    "train_word2vec",
    "transfer_gap",
    "word2vec_limit",
    "word2vec_network",
    "word2vec_objective",
    "word2vec_step",
]
