"""Networks of several layers that tests share, and what they compute, written without the package's programs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import scalewise as sw
from scalewise.gaussian import pair_moments
from scalewise.networks._nodes import (
    Attend,
    Concat,
    Draw,
    Drop,
    InputNode,
    Max,
    Mix,
    Normalise,
    Pointwise,
    PositionMap,
    Product,
    Read,
    Stack,
    Sum,
)
from scalewise.networks._program import Program
from scalewise.networks._sites import Matrix, Transposed, Window

GRAPH = np.random.default_rng(5).normal(size=(6, 6)) / 4 + np.eye(6)
RATES = {"C_b": 0.1, "C_W": 1.3, "lambda_b": 0.4, "lambda_W": 0.9}


def compositions(sigma: str) -> dict[str, tuple]:
    """Layers over one axis of six positions or more."""
    return {
        "pooled": (
            *(sw.Conv(3), sigma, sw.Conv(3, stride=2), sigma),
            *(sw.GlobalAvgPool(), sw.Dense(), sigma, sw.Dense(2)),
        ),
        "skip, flat": (
            *(sw.Conv(3, padding="circular"), sw.Skip(sigma, sw.Conv(2, padding="circular"))),
            *(sigma, sw.Flatten(), sw.Dense(2, C_W=0.7)),
        ),
        "pools": (
            *(sw.Conv(3, padding="valid"), sigma, sw.AvgPool(2), sw.Conv(2, dilation=2)),
            *(sigma, sw.SumPool(2, stride=1, padding="zero"), sw.Dense(C_b=0.3), sigma),
            *(sw.Flatten(), sw.Dense(1)),
        ),
        "skip at one site": (
            *(sw.Conv(3), sigma, sw.GlobalAvgPool(), sw.Dense()),
            *(sw.Skip(sigma, sw.Dense(), factor=0.5), sigma, sw.Dense(2)),
        ),
        "skips in a skip": (
            *(sw.Dense(), sw.Skip(sigma, sw.Conv(3), sw.Skip(sigma, sw.Dense(), factor=0.5))),
            *(sw.AvgPool(3, stride=2, padding="zero"), sigma, sw.GlobalAvgPool(), sw.Dense(1)),
        ),
        "parallel": (
            sw.Conv(3),
            sw.Parallel([sigma, sw.Conv(3)], (), [sigma, sw.Dense()], factors=(0.8, 0.7, 0.3)),
            *(sigma, sw.GlobalAvgPool(), sw.Dense(1)),
        ),
        "transposed": (
            *(sw.Conv(2, stride=3), sigma, sw.ConvTranspose(3, stride=2), sigma),
            *(sw.Flatten(), sw.Dense(2)),
        ),
        "from one position": (
            *(sw.Conv(3), sw.GlobalSumPool(), sw.ConvTranspose(3, padding="valid"), sigma),
            *(sw.ConvTranspose(2, stride=2, dilation=3, padding="circular"), sigma),
            *(sw.Flatten(), sw.Dense(1)),
        ),
        "graph": (
            *(sw.Aggregate(GRAPH, axis=-1), sw.Dense(), sigma),
            *(sw.Aggregate(GRAPH @ GRAPH, axis=-1), sw.Dense(), sigma),
            *(sw.GlobalAvgPool(), sw.Dense(2)),
        ),
        "norms": (
            *(sw.Conv(3), sw.LayerNorm(), sw.Skip(sw.LayerNorm(0.3), sigma, sw.Conv(3))),
            *(sigma, sw.RMSNorm(), sw.AvgPool(2), sw.Dense(), sw.RMSNorm(0.2), sigma),
            *(sw.GlobalAvgPool(), sw.Dense(1)),
        ),
        "gates and joins": (
            sw.Parallel([sw.Conv(3)], [sw.Dense(), sigma], join="product"),
            sw.Parallel(
                [sw.Parallel([sw.Conv(3), sigma], [sw.Dense()], join="concat")],
                [sw.Dense(), sigma],
                join="concat",
            ),
            *(sw.LayerNorm(0.1), sw.AvgPool(2)),
            sw.Parallel([sw.Dense()], [sw.Conv(2), sigma, sw.Dense()], join="concat"),
            *(sigma, sw.GlobalAvgPool(), sw.Dense(2)),
        ),
        "heads that grow": (
            *(sw.Conv(3), sw.RMSNorm(), sw.Skip(sw.Attention(heads=2, tied=True)), sw.AvgPool(2)),
            *(sw.LayerNorm(), sw.Skip(sw.Attention(heads=1, causal=True), factor=0.5), sigma),
            *(sw.Attention(heads=2, tied=True, function="erf"), sw.GlobalAvgPool(), sw.Dense(2)),
        ),
        "places and masks": (
            *(sw.Local(3), sw.GroupNorm(2, 0.2), sigma, sw.Dropout(0.8), sw.Conv(3, groups=2)),
            *(
                "gelu",
                sw.LayerNorm(0.1, positions=True),
                sw.Resize(4, "linear"),
                sw.Local(2, stride=2),
            ),
            *(sigma, sw.Dropout(0.6), sw.Take((1, -1)), sw.Flatten(), sw.Dense(2)),
        ),
        "tokens": (
            *(
                "sin",
                sw.Dense(),
                sw.Positions(length=2.0),
                sigma,
                sw.Conv(3, groups=2),
            ),
            *(sw.Positions(C_W=0.4), sw.Resize(3), sigma, sw.Dropout(0.7), sw.GlobalAvgPool()),
            sw.Dense(1),
        ),
        "sums behind activations": (
            *("gelu", sw.LayerNorm(0.2), sw.Conv(3), sigma, sw.LayerNorm(0.1)),
            *(sw.Skip(sw.Conv(3), sigma, factor=0.7), sw.LayerNorm(), sw.AvgPool(2), sw.Dense()),
            *(sigma, sw.GlobalAvgPool(), sw.RMSNorm(), sw.Dense(2)),
        ),
    }


@sw.program
def long_short_term(build, x):
    """An LSTM without biases of its own, one state after the other."""
    sigmoid, tanh = sw.activation("sigmoid"), sw.activation("tanh")
    driven = [build.draw(x) for _ in range(4)]
    states, cell = [], None
    for t in range(x.positions[0]):
        row = (Matrix.of(np.eye(x.positions[0])[t : t + 1]),)
        gates = []
        for name, own in enumerate(driven):
            z = build.spread(own, row, 1.0)
            if states:
                again = build.tied(("cell", name), (sw.Dense(),), states[-1])
                z = build.add((again, z), (1.0, 1.0))
            gates.append(build.apply(z, tanh if name == 3 else sigmoid))
        forget, enter, leave, new = gates
        new = build.multiply((enter, new))
        if cell is not None:
            new = build.add((build.multiply((forget, cell)), new), (1.0, 1.0))
        cell = new
        states.append(build.multiply((leave, build.apply(cell, tanh))))
    return build.stack(tuple(states))


def halves(build, x, other):
    """Layers of joined channels at two fields, added."""
    layers = (sw.Parallel([sw.Dense(), "tanh"], [sw.Dense(), "gelu"], join="concat"), sw.Dense())
    return build.add([build.tied("both", layers, of) for of in (x, other)], (1.0, 0.5))


@sw.program
def of_fields_apart(build, x):
    return halves(build, x, build.draw(x))


@sw.program
def of_a_field_and_its_sine(build, x):
    return halves(build, x, build.apply(x, sw.activation("sin")))


def tied_compositions(sigma: str) -> dict[str, tuple]:
    """Those whose layers share weights, over one axis of six positions or more."""
    encoder = sw.Shared(sw.Conv(3), sigma, sw.Dense(), sigma)
    return {
        "two branches": (
            *(
                sw.Parallel(
                    [sw.Take((0, 1, 2)), encoder], [sw.Take((3, 5, 4)), encoder], factors=(1, 0.8)
                ),
            ),
            *(sw.AvgPool(2, stride=1), sw.Dense(), sigma, sw.GlobalAvgPool(), sw.Dense(2)),
        ),
        "in depth": (
            *(sw.Conv(3), sw.Shared(sw.Skip(sigma, sw.Conv(3, padding="circular")), times=3)),
            *(sw.LayerNorm(0.1), sigma, sw.GlobalAvgPool(), sw.Dense(1)),
        ),
        "recurrent": (
            *(sw.Recurrent(sigma, C_U=0.6), sw.LayerNorm(0.2), sw.Recurrent(sigma)),
            *(sw.GlobalAvgPool(), sw.Dense(1)),
        ),
        "recurrent, skips": (
            *(sw.Dense(), sw.Skip(sw.RMSNorm(0.1), sw.Recurrent(sigma), sw.Dense())),
            *(sigma, sw.Flatten(), sw.Dense(2)),
        ),
        "joined and tied": (
            *(sw.Dense(), of_fields_apart, sw.LayerNorm(0.2), sw.GlobalAvgPool(), sw.Dense(1)),
        ),
        "tied gates": (
            sw.Dense(),
            sw.Shared(
                sw.RMSNorm(0.1),
                sw.Skip(sw.Parallel([sw.Dense()], [sw.Dense(), sigma], join="product"), sw.Dense()),
                times=2,
            ),
            *(sw.GlobalAvgPool(), sw.Dense(1)),
        ),
    }


def drawn_compositions(sigma: str) -> dict[str, tuple]:
    """Those some of whose averages have no formula, over one axis of six positions or more."""
    return {
        "residual, activation last": (
            *(sw.Conv(3), sigma, sw.Skip(sw.Conv(3)), sigma, sw.Skip(sw.Conv(3), factor=0.7)),
            *(sigma, sw.GlobalAvgPool(), sw.Dense(2)),
        ),
        "maxima": (
            *(
                sw.Conv(3),
                sigma,
                sw.MaxPool(2),
                sw.Conv(3),
                sw.MaxPool(3, stride=1, padding="zero"),
            ),
            *("tanh", sw.LayerNorm(), sw.AvgPool(2, stride=1), sigma, sw.Flatten(), sw.Dense(1)),
        ),
        "shared numbers": (
            *(sw.Dense(), sw.Skip(sigma, factor=0.5), sw.Dense()),
            sw.Parallel((), [sw.AvgPool(3, stride=1, padding="zero"), sigma], join="product"),
            *(sw.GlobalAvgPool(), sw.Dense(), sw.Skip("tanh"), sw.Dense(1)),
        ),
        "activations behind graphs": (
            *(sw.Aggregate(GRAPH, axis=-1), sw.Dense(), sigma, sw.Aggregate(GRAPH, axis=-1), sigma),
            *(sw.Aggregate(GRAPH.T, axis=-1), sw.MaxPool(3), sw.Flatten(), sw.Dense(1)),
        ),
        "heads of two": (
            *(sw.Conv(3), sw.LayerNorm(), sw.Skip(sw.Attention(size=2, causal=True, C_W=2.0))),
            *(sw.LayerNorm(), sw.Skip(sigma, sw.Dense()), sw.GlobalAvgPool(), sw.Dense(2)),
        ),
        "a cell with gates": (sw.Take((0, 5)), long_short_term, sw.GlobalAvgPool(), sw.Dense(1)),
        "joined and tied to its sine": (
            *(sw.Dense(), of_a_field_and_its_sine, sw.LayerNorm(0.2), sw.GlobalAvgPool()),
            sw.Dense(1),
        ),
        "maxima of the same weights": (
            *(sw.Dense(), sw.Shared(sw.Conv(3), sw.MaxPool(2, stride=1), times=2)),
            *(
                sw.Shared(sw.Skip(sigma), sw.Dense(), times=2),
                sigma,
                sw.GlobalAvgPool(),
                sw.Dense(1),
            ),
        ),
        "gates behind gates": (
            sw.Parallel([sw.Dense()], [sw.Conv(3), sigma], join="product"),
            *(sw.RMSNorm(), sigma, sw.GlobalAvgPool(), sw.Dense(1)),
        ),
    }


def site_matrices(
    windows: tuple[Window | Transposed | Matrix, ...], sizes: tuple[int, ...]
) -> np.ndarray:
    """(taps, places, positions), position by position."""
    found = np.ones((1, 1, 1))
    for window, size in zip(windows, sizes, strict=True):
        if isinstance(window, Matrix):
            found = np.stack(
                [np.kron(b, np.frombuffer(window.entries).reshape(-1, size)) for b in found]
            )
            continue
        if isinstance(window, Transposed):
            back = site_matrices((window.window,), (window.length(size),)).transpose(0, 2, 1)
            shape = [a * b for a, b in zip(found.shape, back.shape, strict=True)]
            found = np.einsum("tpq,uab->tupaqb", found, back).reshape(shape)
            continue
        left = 0 if window.padding == "valid" else ((window.taps - 1) * window.dilation) // 2
        own = np.zeros((window.taps, window.length(size), size))
        for tap, place, _ in np.ndindex(own.shape):
            at = place * window.stride + tap * window.dilation - left
            if window.padding == "circular":
                own[tap, place, at % size] = 1
            elif 0 <= at < size:
                own[tap, place, at] = 1
        shape = [a * b for a, b in zip(found.shape, own.shape, strict=True)]
        found = np.einsum("tpq,uab->tupaqb", found, own).reshape(shape)
    return found


def by_matrices(program: Program, x: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """K and Theta of every node, each label with each, samples first: no tiles, no slices, no maps."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    means: list[np.ndarray] = []
    known: dict[int, np.ndarray] = {}  # fields without weights: (label, feature)
    half, weights = np.polynomial.legendre.leggauss(200)
    line = np.concatenate([5 * half - 5, 5 * half + 5])  # a kink at 0 is at an end
    density = np.tile(weights, 2) * np.exp(-(line**2) / 2)
    density /= density.sum()
    for here, node in enumerate(program.nodes):
        if not isinstance(node, Draw | Drop) and all(k in known for k in node.of):
            sizes = program.positions[node.of[0]] if node.of else ()
            known[here] = rows = _without_weights(node, x, [known[k] for k in node.of], sizes)
            found.append((rows @ rows.T / rows.shape[1], np.zeros((len(rows),) * 2)))
            means.append(rows.mean(axis=1))
            continue
        below = [found[k] for k in node.of]
        (C, T), m = below[0], means[node.of[0]]
        mean = 0 * m
        if isinstance(node, Pointwise):
            a = np.diagonal(C)
            M = pair_moments(node.sigma, a[:, None], a[None], C, ((0, 0), (1, 1)))
            found.append((M[0, 0].value, M[1, 1].value * T))
            mean = density @ node.sigma(line[:, None] * np.sqrt(a))
        elif isinstance(node, Normalise):
            places = len(C) // len(x) if node.joint else 1
            average = np.kron(np.eye(len(C) // places), np.full((places, places), 1 / places))
            taken = node.centred * average @ m
            C = C - np.outer(m, taken) - np.outer(taken, m) + np.outer(taken, taken)
            D = np.diag((average @ np.diagonal(C) + node.eps) ** -0.5)
            found.append((D @ C @ D, D @ T @ D))
            mean = D @ (m - taken)
        elif isinstance(node, Drop):
            kept = 1 + np.eye(len(C)) * (1 / node.keep - 1)
            found.append((C * kept, T * kept))
            mean = m
        elif isinstance(node, Mix):
            rows = known[node.of[1]].reshape(len(x), -1, known[node.of[1]].shape[1])
            A = np.zeros_like(C)
            for k, own in enumerate(rows):
                at = slice(k * len(own), (k + 1) * len(own))
                A[at, at] = own
            found.append((A @ C @ A.T, A @ T @ A.T))
            mean = A @ m
        elif isinstance(node, Sum):
            squares = [f * f for f in node.factors]
            pairs = zip(*below, strict=True)
            C, T = (sum(f * A for f, A in zip(squares, both)) for both in pairs)  # noqa: B905
            for j, k in np.ndindex(len(node.of), len(node.of)):
                if j != k:
                    f = node.factors[j] * node.factors[k]
                    between = _between(program, found, means, known, node.of[j], node.of[k])
                    C, T = C + f * between[0], T + f * between[1]
            found.append((C, T))
            mean = sum(f * means[k] for f, k in zip(node.factors, node.of, strict=True))
        elif isinstance(node, Attend):
            places, blocks = len(C) // len(x), []
            for a in range(len(x)):
                own = slice(a * places, (a + 1) * places)
                L = C[own, own] if node.of[0] == node.of[1] else np.zeros((places, places))
                p = np.exp(L) if node.sigma is None else node.sigma(L)
                p = np.tril(p) if node.causal else p
                blocks.append(p / p.sum(axis=1, keepdims=True) if node.sigma is None else p)
            P = np.zeros_like(C)
            for a, p in enumerate(blocks):
                P[a * places : (a + 1) * places, a * places : (a + 1) * places] = p
            found.append(tuple(P @ A @ P.T for A in found[node.of[2]]))
        elif isinstance(node, Stack):
            blocks = [
                [
                    below[i] if i == j else _between(program, found, means, known, a, b)
                    for j, b in enumerate(node.of)
                ]
                for i, a in enumerate(node.of)
            ]
            order = _stacked(program, node, len(x))
            found.append(
                tuple(
                    np.block([[b[i] for b in row] for row in blocks])[order][:, order]
                    for i in (0, 1)
                )
            )
            mean = np.concatenate([means[k] for k in node.of])[order]
        elif isinstance(node, Product):
            (A, S), (B, U) = below
            found.append((A * B, A * U + S * B))
            mean = m * means[node.of[1]]
        elif isinstance(node, Concat):
            sizes = np.array([program.channels[k] for k in node.of], float)
            sizes /= sizes.sum()
            pairs = zip(*below, strict=True)
            found.append(tuple(sum(f * A for f, A in zip(sizes, both)) for both in pairs))  # noqa: B905
            mean = sum(f * means[k] for f, k in zip(sizes, node.of, strict=True))
        else:
            along = node.windows if isinstance(node, Draw) else node.along
            B = site_matrices(along, program.positions[node.of[0]])
            own = B if isinstance(node, Draw) else node.factor * B.sum(axis=0, keepdims=True)
            own = np.stack([np.kron(np.eye(len(x)), b) for b in own])
            mean = own[0] @ m
            C, T = (np.einsum("tpq,qr,tsr->ps", own, A, own, optimize=True) for A in (C, T))
            if isinstance(node, Draw):
                C, T, mean = C / len(B), T / len(B), 0 * mean
                c = node.own
                C, T = c.C_b + c.C_W * C, c.lambda_b + c.lambda_W * C + c.C_W * T
                if not node.shared:
                    same = np.tile(np.eye(len(C) // len(x)), (len(x), len(x)))
                    C, T = C * same, T * same
            found.append((C, T))
        means.append(mean)
    return found


def _stacked(program: Program, node: Stack, inputs: int) -> np.ndarray:
    """For every label of a stack where it stands in the labels of its parts, one after the other."""
    start, parts = 0, []
    for k in node.of:
        shape = (inputs, *program.positions[k])
        parts.append(start + np.arange(np.prod(shape)).reshape(shape))
        start += parts[-1].size
    return np.concatenate(parts, axis=1 + node.axis).ravel()


def _between(
    program: Program, found, means, known, a: int, b: int
) -> tuple[np.ndarray, np.ndarray]:
    """Covariances of fields and of tangents of two nodes, by both of them at once."""
    if a == b:
        return found[a]
    shape = len(means[a]), len(means[b])
    apart = np.outer(means[a], means[b]), np.zeros(shape)
    one, other = program.nodes[a], program.nodes[b]
    if a in known and b in known:
        return known[a] @ known[b].T / known[a].shape[1], np.zeros(shape)
    own = {
        k: program.nodes[k].again or k
        for k in range(len(program.nodes))
        if isinstance(program.nodes[k], Draw)
    }
    if isinstance(one, Draw) and isinstance(other, Draw):
        if own[a] != own[b]:
            return apart
        C, T = _between(program, found, means, known, one.of[0], other.of[0])
        sizes = program.positions[one.of[0]], program.positions[other.of[0]]
        left, right = (
            site_matrices(node.windows, own_sizes)
            for node, own_sizes in zip((one, other), sizes, strict=True)
        )
        C, T = (
            sum(np.kron(np.eye(len(A) // p.shape[1]), p) @ A @ np.kron(np.eye(A.shape[1] // q.shape[1]), q).T
                for p, q in zip(left, right, strict=True)) / len(left)
            for A in (C, T)
        )  # fmt: skip
        c = one.own
        return c.C_b + c.C_W * C, c.lambda_b + c.lambda_W * C + c.C_W * T
    if isinstance(one, Pointwise) and isinstance(other, Pointwise) and a not in known:
        C, T = _between(program, found, means, known, one.of[0], other.of[0])
        if not C.any():
            return apart
        u, v = (np.diagonal(found[node.of[0]][0]) for node in (one, other))
        M = pair_moments(one.sigma, u[:, None], v[None], C, ((0, 0), (1, 1)))
        return M[0, 0].value, M[1, 1].value * T
    if isinstance(one, Concat) and isinstance(other, Concat):
        shares = np.array([program.channels[k] for k in one.of]) / program.channels[a]
        parts = [
            _between(program, found, means, known, *p) for p in zip(one.of, other.of, strict=True)
        ]
        return tuple(sum(f * p[i] for f, p in zip(shares, parts, strict=True)) for i in (0, 1))
    if isinstance(one, Product) and isinstance(other, Product):
        (A, S), (D, U) = (
            _between(program, found, means, known, *pair)
            for pair in zip(one.of, other.of, strict=True)
        )
        return A * D, A * U + S * D
    if isinstance(one, Sum | PositionMap | Normalise):
        parts = [_between(program, found, means, known, k, b) for k in one.of]
        if isinstance(one, Sum):
            return tuple(
                sum(f * p[i] for f, p in zip(one.factors, parts, strict=True)) for i in (0, 1)
            )
        (C, T), below = parts[0], one.of[0]
        if isinstance(one, PositionMap):
            B = one.factor * site_matrices(one.along, program.positions[below]).sum(axis=0)
            B = np.kron(np.eye(len(C) // B.shape[1]), B)
            return B @ C, B @ T
        m = means[below] * one.centred
        D = np.diag((np.diagonal(found[below][0]) - m * m + one.eps) ** -0.5)
        return D @ (C - np.outer(m, means[b])), D @ T
    if isinstance(other, Sum | PositionMap | Normalise):
        return tuple(A.T for A in _between(program, found, means, known, b, a))
    return apart


def _without_weights(
    node, x: np.ndarray, below: list[np.ndarray], sizes: tuple[int, ...]
) -> np.ndarray:
    """Of inputs: (label, feature)."""
    if isinstance(node, InputNode):
        return x.reshape(-1, x.shape[-1])
    rows = below[0]
    if isinstance(node, Pointwise):
        return node.sigma(rows)
    if isinstance(node, Normalise):
        rows = rows - node.centred * rows.mean(axis=1, keepdims=True)
        return rows / np.sqrt(np.mean(rows**2, axis=1, keepdims=True) + node.eps)
    if isinstance(node, Read):
        return node(x, np).reshape(len(rows), -1)
    if isinstance(node, Mix):
        A = below[1].reshape(len(x), -1, below[1].shape[1])
        return np.concatenate([a @ v for a, v in zip(A, rows.reshape(len(x), -1, rows.shape[1]))])  # noqa: B905
    assert isinstance(node, PositionMap)
    B = node.factor * site_matrices(node.along, sizes).sum(axis=0)
    features = rows.shape[1]
    return np.einsum("pq,aqf->apf", B, rows.reshape(len(x), -1, features)).reshape(-1, features)


def outputs_by_matrices(program: Program, weights: dict, x):
    """Outputs (sample, channel) of one network: weights (tap, in, out) and biases by node."""
    return fields_by_matrices(program, weights, x)[-1][:, 0]


def fields_by_matrices(program: Program, weights: dict, x):
    """The fields of all nodes, (sample, site, channel)."""
    found = []
    for here, node in enumerate(program.nodes):
        if isinstance(node, InputNode):
            found.append(jnp.asarray(x).reshape(len(x), -1, x.shape[-1]))
            continue
        below = [found[k] for k in node.of]
        if isinstance(node, Draw):
            B = site_matrices(node.windows, program.positions[node.of[0]])
            W, b = weights[here if node.again is None else node.again]
            if not node.shared:
                W = W.reshape(B.shape[1], len(B), -1, W.shape[-1])
                found.append(jnp.einsum("tpq,sqi,ptio->spo", B, below[0], W) + b)
                continue
            # Those of one group read those of the same.
            inside, outside = below[0].shape[2], W.shape[2]
            W = W.reshape(len(B), inside // node.groups, outside)
            for g in range(node.groups):
                own, its = (
                    slice(g * n // node.groups, (g + 1) * n // node.groups)
                    for n in (inside, outside)
                )
                part = jnp.einsum("tpq,sqi,tio->spo", B, below[0][:, :, own], W[:, :, its])
                z = part if g == 0 else jnp.concatenate([z, part], axis=2)
            found.append(z + b)
        elif isinstance(node, PositionMap):
            B = node.factor * site_matrices(node.along, program.positions[node.of[0]]).sum(axis=0)
            found.append(jnp.einsum("pq,sqi->spi", B, below[0]))
        elif isinstance(node, Pointwise):
            found.append(node.sigma.traceable()(below[0]))
        elif isinstance(node, Attend):
            q, k, v = (b.reshape(*b.shape[:2], -1, node.size) for b in below)
            L = jnp.einsum("sphd,sqhd->shpq", q, k) / node.size**node.power
            L = jnp.where(np.tri(L.shape[-1]) > 0, L, -1e30) if node.causal else L
            p = jax.nn.softmax(L) if node.sigma is None else node.sigma.traceable()(L)
            found.append(jnp.einsum("shpq,sqhd->sphd", p, v).reshape(below[2].shape))
        elif isinstance(node, Product):
            found.append(below[0] * below[1])
        elif isinstance(node, Concat):
            found.append(jnp.concatenate(below, axis=2))
        elif isinstance(node, Stack):
            whole = [
                v.reshape(len(v), *program.positions[k], -1)
                for k, v in zip(node.of, below, strict=True)
            ]
            found.append(
                jnp.concatenate(whole, axis=1 + node.axis).reshape(len(x), -1, whole[0].shape[-1])
            )
        elif isinstance(node, Max):
            B = site_matrices(node.windows, program.positions[node.of[0]])
            seen = [[below[0][:, int(row.argmax())] if row.any() else None for row in b] for b in B]
            places = zip(*seen, strict=True)  # for each place what its taps see
            largest = [jnp.max(jnp.stack([v for v in p if v is not None]), axis=0) for p in places]
            found.append(jnp.stack(largest, axis=1))
        elif isinstance(node, Normalise):
            v = below[0].reshape(*below[0].shape[:2], node.groups, -1)
            axes = (1, 3) if node.joint else (3,)
            mean = node.centred * v.mean(axis=axes, keepdims=True)
            square = ((v - mean) ** 2).mean(axis=axes, keepdims=True)
            found.append(((v - mean) / (square + node.eps) ** 0.5).reshape(below[0].shape))
        elif isinstance(node, Drop):
            found.append(below[0] * weights[here][0].reshape(below[0].shape))
        elif isinstance(node, Read):
            found.append(jnp.asarray(node(x, np)).reshape(len(x), below[0].shape[1], -1))
        elif isinstance(node, Mix):
            found.append(jnp.einsum("spq,sqi->spi", below[1], below[0]))
        else:
            found.append(sum(f * v for f, v in zip(node.factors, below, strict=True)))
    return found


def random_layers(program: Program) -> list[tuple[int, Draw]]:
    """Those that have weights of their own, with their nodes."""
    nodes = ((k, node) for k, node in enumerate(program.nodes) if isinstance(node, Draw))
    return [(k, node) for k, node in nodes if node.again is None]


def outputs_of_parameters(net: sw.Network, parameters, x):
    """Outputs (sample, channel) of one network, its parameters as `nets.init_weights` gives them."""
    weights = {}
    for (k, node), W, b in zip(random_layers(net.program), *parameters, strict=True):
        places = len(net.program.positions[k]) * (not node.shared)
        W = W.reshape(-1, W.shape[places], node.taps, W.shape[-1])
        W = W.transpose(0, 2, 3, 1)
        weights[k] = (W if places else W[0]), b.reshape(*W.shape[:1] * bool(places), -1)
    return outputs_by_matrices(net.program, weights, x)


def without_masks(sigma: str) -> dict[str, tuple]:
    """All compositions that are functions of their parameters alone, and one of places and groups."""
    every = compositions(sigma) | drawn_compositions(sigma) | tied_compositions(sigma)
    local = (sw.Local(3), sigma, sw.Conv((2,), groups=2), "gelu", sw.Local(2), sw.Flatten())
    return {
        name: layers
        for name, layers in every.items()
        if not any(isinstance(layer, sw.Dropout) for layer in layers)
    } | {"places and groups": (*local, sw.Dense(2))}
