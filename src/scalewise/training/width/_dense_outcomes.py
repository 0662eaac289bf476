"""Outcomes of order 1/n from one estimate of whole tensors, at one time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalewise.networks import Network
from scalewise.training._asked import Arrays, Asked
from scalewise.training._generalisation import class_error_nlo
from scalewise.training._spectrum import Spectrum
from scalewise.training.width._contractions import Frame
from scalewise.training.width._cumulants import fourth, third
from scalewise.training.width._moments import Moments
from scalewise.training.width._tensors import Samples

_SPREAD = frozenset({"output_covariance_nlo", "variance_nlo", "test_loss_nlo", "test_error_nlo"})
OF_NTK = frozenset({"ntk_change_nlo", "alignment_nlo"})
_KNOWN = 1e-9  # relative to the kernel: a variance of a test that training leaves nothing of


@dataclass(frozen=True)
class DenseSetting:
    """Some tests beside all training samples, with all that does not depend on tensors.

    Args:
        asked: The call.
        names: Outcomes that are wanted.
        net: The network, whose last layer alone learns if the algorithm says so.
        samples: The different inputs.
        places: Where each sample is among them, training samples first.
        trained: The spectrum of the NTK of the training samples.
        targets: Of the tests, if they have any.
    """

    asked: Asked
    names: frozenset[str]
    net: Network
    samples: Samples
    places: np.ndarray
    trained: Spectrum
    targets: np.ndarray | None

    def moments(self, tensors: Arrays, time: float | None) -> Moments:
        """Moments from one estimate of the tensors, at one time."""
        task, some = self.asked.task, self.trained.h > 0
        h, U = self.trained.h[some], self.trained.U[:, some]
        reaches = self.asked.algorithm.reaches(h, time, targets=task.targets.size)
        K, Theta = self.samples.K[-1], self.samples.Theta[-1]
        n, both = len(task.inputs), np.ix_(self.places, self.places)
        frame = Frame(U, Theta[both][n:, :n] @ U, reaches["H"].beyond)
        own = {x: tensor[np.ix_(*(self.places,) * tensor.ndim)] for x, tensor in tensors.items()}
        return Moments(frame, reaches, task.targets.T @ U, frame.turned(K[both]), own)


def outcomes_of(
    setting: DenseSetting, tensors: Arrays, others: list[Arrays], time: float | None
) -> Arrays:
    """Everything that is wanted, of one estimate at one time."""
    names = setting.names
    moments = setting.moments(tensors, time)
    parts = np.array([*moments.mean_parts().values()])
    mean = parts.sum(axis=0)
    found = {
        "output_mean_nlo": mean,
        "output_mean_nlo_by_part": parts,
        "learning_parameter": parameter_of(moments),
    }
    if "output_mean_nlo_by_layer" in names:
        rest = [sum(setting.moments(t, time).mean_parts().values()) for t in others]
        own = [mean - without for without in rest]
        found["output_mean_nlo_by_layer"] = np.array([*own, mean - sum(own)])
    covariance = moments.covariance() if names & _SPREAD else np.zeros(0)
    if names & _SPREAD:
        found["output_covariance_nlo"] = covariance.transpose(0, 2, 1, 3)
        found["variance_nlo"] = np.einsum("idid->id", covariance)
    if "test_loss_nlo" in names:
        assert setting.targets is not None
        bias = moments.mean - setting.targets.T
        found["test_loss_nlo"] = (bias * mean + 0.5 * found["variance_nlo"]).sum(axis=0)
    if "test_error_nlo" in names:
        found["test_error_nlo"] = _test_error(moments, setting, mean, covariance)
    if names & OF_NTK:
        found |= _of_ntk(moments, setting)
    return {k: v for k, v in found.items() if k in names or k == "learning_parameter"}


def _test_error(
    moments: Moments, setting: DenseSetting, mean: np.ndarray, covariance: np.ndarray
) -> np.ndarray:
    """By all four cumulants that begin at order 1/n, or change there."""
    assert setting.targets is not None
    variance = np.diag(moments.leading)
    known = variance <= _KNOWN * np.diag(moments.K)[moments.frame.count :]
    own = np.einsum("idjd->ijd", covariance)
    cumulants = (mean, own, third(moments), fourth(moments))
    settled = np.where(known, 0.0, variance)
    return class_error_nlo(moments.mean, settled, setting.targets.T, cumulants)


def _of_ntk(moments: Moments, setting: DenseSetting) -> Arrays:
    """The change of the NTK on samples, and along the targets."""
    frame, y, change = moments.frame, moments.y, moments.ntk_change()
    n, tests = frame.count, len(frame.T)
    back = np.zeros((len(frame.U) + tests, n + tests))
    back[: len(frame.U), :n] = frame.U
    back[len(frame.U) :, n:] = np.eye(tests)
    found = {"ntk_change_nlo": np.einsum("ap,ijpq,bq->ijab", back, change, back, optimize=True)}
    if "alignment_nlo" in setting.names:
        own = setting.trained.h[setting.trained.h > 0]
        along = np.einsum("ia,ijab,jb->", y, change[..., :n, :n], y)
        found["alignment_nlo"] = np.asarray(along / np.einsum("ia,a,ia->", y, own, y))
    return found


def parameter_of(moments: Moments) -> np.ndarray:
    """The largest share of a variance at infinite width that fluctuations of the NTK add."""
    added = np.einsum("idid->id", moments.ntk_term())
    leading = np.diag(moments.leading)
    n = moments.frame.count
    open_ = leading > _KNOWN * np.diag(moments.K)[n:]
    return np.asarray(np.max(added[:, open_] / leading[open_], initial=0.0))
