"""Plain gradient descent on real networks in NumPy, by the bare a, b, c: shares nothing with the package."""

import numpy as np

from scalewise.activations import activation


def bare_sgd(W, abc, phi, X, y, watched, *, eta, batches, decoupled=None):
    """Outputs of the watched inputs before each step and at the end.

    Args:
        W: Initial effective weights of every layer, (out, in).
        abc: Exponents; the rate of W^l is eta n^(-c - 2 a_l) on the effective weights.
        phi: Name of the activation.
        X: Inputs, (samples, features).
        y: Targets, (samples,).
        watched: Inputs, (watched, features).
        eta: Rate.
        batches: A list of index arrays, one per step.
        decoupled: For each layer what stands for its initial transpose on the way back, or none.
    """
    n = W[-1].shape[1]
    act = activation(phi)
    start = [w.copy() for w in W]
    W = [w.copy() for w in W]
    rates = [eta * float(n) ** float(-abc.c - 2 * a) for a in abc.a]
    outputs = []
    for batch in [*batches, None]:
        outputs.append([_forward(W, act, xi)[-1][0] for xi in watched])
        if batch is None:
            break
        grads = [np.zeros_like(w) for w in W]
        for i in batch:
            hs = _forward(W, act, X[i])
            chi = (hs[-1][0] - y[i]) / len(batch)
            delta = np.array([chi])
            for layer in reversed(range(len(W))):
                below = X[i] if layer == 0 else act(hs[layer - 1])
                grads[layer] += np.outer(delta, below)
                if layer:
                    back = W[layer].T
                    if decoupled is not None and decoupled[layer] is not None:
                        back = back - start[layer].T + decoupled[layer]
                    delta = (back @ delta) * act.derivative(hs[layer - 1])
        W = [w - r * g for w, r, g in zip(W, rates, grads, strict=True)]
    return np.array(outputs)


def _forward(W, act, xi):
    hs = [W[0] @ xi]
    for w in W[1:]:
        hs.append(w @ act(hs[-1]))
    return hs
