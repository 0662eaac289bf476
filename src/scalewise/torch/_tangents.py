"""Outputs and NTK of a torch module as it is: what a linearised model is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from scalewise._checked import checked


@checked
def tangents(
    module: torch.nn.Module, inputs: torch.Tensor, *, rates: Mapping[str, float] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    r"""Outputs $z$ of one model and its NTK $\sum_\mu\lambda_\mu\frac{dz}{d\theta_\mu}\frac{dz}{d\theta_\mu}$.

    Args:
        module: From inputs (samples, ...) to (samples, outputs) or (samples,), a sample at a time: one that mixes
            samples, as batch normalisation does in training, must be in ``eval`` mode.
        inputs: For a task, its training samples, then its test samples.
        rates: $\lambda_\mu$ of parameters by name; 1 for those that are not named.

    Returns:
        Outputs (sample, output) and NTK (sample, sample, output, output), for
        `scalewise.training.predict_linearised`. Derivatives have the precision of the parameters, their sums that
        of float64; all derivatives of all samples are in memory at once.

    Raises:
        ValueError: If the module does not give outputs of such a shape, has nothing to train, or a rate has the
            name of no parameter.

    Source: PDLT (7.17), (10.138)-(10.140).

    Example:
        >>> import torch
        >>> from scalewise.torch import tangents
        >>> z, H = tangents(torch.nn.Linear(2, 1, bias=False), torch.eye(2))
        >>> H[..., 0, 0]
        array([[1., 0.],
               [0., 1.]])
    """
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    given = dict(rates or {})
    if not named or given.keys() - named.keys():
        raise ValueError(
            f"`rates` must be by the names of parameters that are trained, {sorted(named)}; got {sorted(given)}."
        )
    root = [np.sqrt(given.get(name, 1.0)) for name in named]
    outputs, rows = [], []
    for sample in inputs.split(1):
        z = module(sample)
        z = z[:, None] if z.ndim == 1 else z
        if z.ndim != 2 or len(z) != 1:
            raise ValueError(
                f"`module` must give outputs (samples, outputs); got shape {tuple(z.shape)} for one sample."
            )
        outputs.append(z.detach().double().numpy(force=True))
        for entry in z[0]:
            slopes = torch.autograd.grad(
                entry,
                list(named.values()),
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
            parts = [
                s * g.double().numpy(force=True).ravel() for s, g in zip(root, slopes, strict=True)
            ]
            rows.append(np.concatenate(parts))
    z, J = np.concatenate(outputs), np.stack(rows)
    return z, (J @ J.T).reshape(*z.shape, *z.shape).transpose(0, 2, 1, 3)
