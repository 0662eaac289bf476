"""Rules of parts of architectures, fitted on real updates in float64: `docs/scaling_rules.md` quotes them."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from scalewise import scaling
from scalewise.plan import Kind, Layer, Powers, Role, TensorDescription, rule
from scalewise.plan._axes import axis_rules
from scalewise.plan._laws import OPTIMIZERS
from toy_updates import UPDATES, rms

MUP = scaling.mup()
HEAD, BATCH, OUT = 16, 4, 7
ONE, HALF = Fraction(1), Fraction(1, 2)


def slope(sizes: Any, found: list[float]) -> float:
    x = np.repeat(np.log(sizes), len(found) // len(sizes))
    return float(np.polyfit(x, np.log(found), 1)[0])


def values(n: int, r: int, seed: int, power: float, steps: int = 12) -> dict[str, list[float]]:
    """Signs of gradients on values of shared heads, on what reads them and on the readout, at planned rates.

    Args:
        n: Width; heads of 16.
        r: Heads of queries for each head of values.
        seed: A seed.
        power: Values are drawn at n^(-1/2) r^power.
        steps: How many.
    """
    rng, few = np.random.default_rng([n, r, seed]), n // HEAD // r
    x, pull = (
        np.random.default_rng([seed, i]).normal(size=(m, BATCH)) for i, m in enumerate((8, OUT))
    )
    h = rng.normal(size=(n, 8)) / 8**0.5 @ x
    V = rng.normal(size=(few * HEAD, n)) * n**-0.5 * r**power
    drawn = V
    Z, W = rng.normal(size=(n, n)) / n**0.5, rng.normal(size=(OUT, n)) / n

    def shared(v: np.ndarray) -> np.ndarray:
        return np.repeat(v.reshape(few, HEAD, BATCH), r, 0).reshape(n, BATCH)

    out: dict[str, list[float]] = {k: [] for k in ("values", "logits", "gradient", "below")}
    for _ in range(steps):
        v = V @ h
        stream = h + Z @ shared(v)
        above = W.T @ pull
        dv = (Z.T @ above).reshape(few, r, HEAD, BATCH).sum(1).reshape(few * HEAD, BATCH)
        grads = dv @ h.T, above @ shared(v).T, pull @ stream.T
        dV = -0.3 / n * np.sign(grads[0])
        out["values"].append(rms(dV @ h))
        out["logits"].append(rms(W @ (Z @ shared(dV @ h))))
        out["gradient"].append(float(np.abs(grads[0]).mean()))
        out["below"].append(rms(drawn.T @ dv) / rms(above))
        V, Z, W = V + dV, Z - 0.3 / n * np.sign(grads[1]), W - 0.3 / n * np.sign(grads[2])
    return out


def test_heads_of_values_that_many_queries_share() -> None:
    """A published rule multiplies their rate by (1 + r^1/2)/2: right for the first step, before others align."""
    for sizes, of in (
        ((1, 2, 4, 8), lambda z: (256, z)),
        ((64, 128, 256, 512), lambda z: (z, z // HEAD // 2)),
    ):
        at = {
            p: [values(*of(z), seed=i, power=p) for z in sizes for i in range(4)]
            for p in (0.0, -0.5)
        }

        def power(what: str, step: int, drawn: float, at=at, sizes=sizes) -> float:
            return slope(sizes, [run[what][step] for run in at[drawn]])

        for drawn in at:
            # The rate of a hidden matrix, and of a bottleneck: values move alike, however many share them.
            assert abs(power("values", 0, drawn)) < 0.1
            assert power("logits", 0, drawn) == pytest.approx(-0.5, abs=0.15)
            assert abs(power("logits", -1, drawn)) < 0.12
        # What was drawn as a hidden matrix multiplies the gradients below; drawn as a bottleneck it does not.
        assert power("below", -1, 0.0) == pytest.approx(0.5, abs=0.15)
        assert abs(power("below", -1, -0.5)) < 0.2
    # So epsilon goes from that of a hidden matrix to that of a bottleneck, along the queries of a head.
    t = TensorDescription("v", (32, 64), Kind.MATRIX, (1,), (0,))
    narrower = TensorDescription("v", (16, 64), Kind.MATRIX, (1,), (0,))
    law = OPTIMIZERS["adamw"].law
    planned = axis_rules(t, {"queries": narrower}, law, MUP, forward={})
    assert (planned.init, planned.lr, planned.eps) == (
        Powers(queries=-HALF), Powers(), Powers(queries=ONE),
    )  # fmt: skip
    runs = [values(256, r, seed=i, power=-0.5) for r in (1, 2, 4, 8) for i in range(4)]
    assert slope((1, 2, 4, 8), [run["gradient"][-1] for run in runs]) == pytest.approx(
        1.0, abs=0.15
    )


def low_rank(name: str, r: int, power: float, seed: int, steps: int = 6) -> float:
    """How far an update of low rank has moved what it is added to, at the planned rates."""
    n, rng = 48, np.random.default_rng([r, seed])
    # Of one sample: more add noise that falls with the rank.
    x, pull = (np.random.default_rng([seed, i]).normal(size=(n, 1)) for i in range(2))
    A, B, scale = rng.normal(size=(r, n)) / n**0.5, np.zeros((n, r)), r**-power
    law, step = OPTIMIZERS[name].law, UPDATES[name].step
    small, large = ((4, n), (8, n)), ((n, 4), (n, 8))
    rates = []
    for shapes, sides, forward in ((small, ((1,), (0,)), 0), (large, ((1,), (0,)), -power)):
        one, two = (TensorDescription("t", s, Kind.MATRIX, *sides) for s in shapes)
        found = axis_rules(one, {"rank": two}, law, MUP, forward={"rank": Fraction(forward)})
        rates.append(float(r) ** float(found.lr.rank))
    start = {"sgd": 0.003, "adamw": 0.003, "muon": 0.1}[name]
    for _ in range(steps):
        GB, GA = scale * pull @ (A @ x).T, scale * B.T @ pull @ x.T
        dA = step(GA, A) if GA.any() else 0 * A
        A, B = A - start * rates[0] * dA, B - start * rates[1] * step(GB, B)
    return rms(scale * B @ A @ x)


def test_low_rank_updates_move_alike_at_every_rank() -> None:
    ranks, problems = (4, 8, 16, 32), []
    for name in ("sgd", "adamw", "muon"):
        for power in (0.0, 0.5, 1.0):
            found = slope(ranks, [low_rank(name, r, power, i) for r in ranks for i in range(3)])
            if abs(found) > 0.15:
                problems.append((name, power, found))
    assert not problems


def mixture(E: int, seed: int, T: int = 1024) -> dict[str, np.ndarray]:
    """Experts of which each sample sees two: gradients of one expert's matrix, and of the router."""
    n, f, rng = 16, 24, np.random.default_rng([E, seed])
    x = np.random.default_rng(seed).normal(size=(T, n))
    R, up = rng.normal(size=(E, n)) / n**0.5, rng.normal(size=(E, f, n)) / n**0.5
    down, target = (
        rng.normal(size=(E, n, f)) / f**0.5,
        np.random.default_rng([seed, 1]).normal(size=(T, n)),
    )
    logits = x @ R.T
    best = np.argsort(-logits, 1)[:, :2]
    gate = np.exp(np.take_along_axis(logits, best, 1))
    gate /= gate.sum(1, keepdims=True)
    h = np.maximum(np.einsum("tkfn,tn->tkf", up[best], x), 0)
    out = np.einsum("tknf,tkf->tkn", down[best], h)
    d = ((gate[..., None] * out).sum(1) - target) / T
    dh = np.einsum("tknf,tn->tkf", down[best], d) * gate[..., None] * (h > 0)
    G_up, G_R = np.zeros_like(up), np.zeros_like(R)
    np.add.at(G_up, best, np.einsum("tkf,tn->tkfn", dh, x))
    dgate = np.einsum("tkn,tn->tk", out, d)
    dlogit = gate * (dgate - (gate * dgate).sum(1, keepdims=True))
    np.add.at(G_R, best, dlogit[..., None] * x[:, None])
    return {"experts": G_up, "router": G_R}


def test_experts_share_the_samples_out() -> None:
    sizes = (4, 8, 16, 32)
    for name in ("experts", "router"):
        found = [rms(mixture(E, i)[name]) for E in sizes for i in range(3)]
        # Noise of few samples adds to what they have in common: between the two powers.
        assert -1.1 < slope(sizes, found) < -0.6, name
    steps = [UPDATES["muon"].step(mixture(E, 0)["router"], None) for E in (4, 8, 16)]
    # A row of an orthogonal matrix for each expert.
    assert abs(slope((4, 8, 16), [float(np.linalg.norm(s, axis=1).mean()) for s in steps])) < 0.1
    t, more = (TensorDescription("t", (E, 24, 16), Kind.UNKNOWN) for E in (4, 8))
    for name, lr, eps in (("adamw", 0, -1), ("sgd", 1, 0), ("adafactor_unscaled", 0, -2)):
        planned = axis_rules(t, {"experts": more}, OPTIMIZERS[name].law, MUP, forward={})
        assert (planned.lr.experts, planned.eps.experts, planned.init) == (lr, eps, Powers()), name


def test_words_share_the_samples_out() -> None:
    """A softmax over V words, each one in V of the samples: rows see V^-1, all else V^0."""
    sizes, n, T = (8, 16, 32, 64), 64, 2048
    rows, below, moved = [], [], []
    for V in sizes:
        for seed in range(3):
            rng = np.random.default_rng([V, seed])
            x, W, words = (
                rng.normal(size=(T, n)),
                rng.normal(size=(V, n)) / n,
                rng.integers(V, size=T),
            )
            # What the words have in common with the features, as after some learning.
            x += rng.normal(size=(V, n))[words]
            p = np.exp(x @ W.T)
            d = (p / p.sum(1, keepdims=True) - np.eye(V)[words]) / T
            G = d.T @ x
            rows.append(rms(G))
            below.append(rms(T * d @ W))
            # Of each sample the logit of its own word.
            moved.append(rms((x * np.sign(G)[words]).sum(1)))
    assert slope(sizes, rows) == pytest.approx(-1.0, abs=0.15)
    assert abs(slope(sizes, below)) < 0.15
    assert abs(slope(sizes, moved)) < 0.15


def test_heads_that_are_orthogonalised_apart() -> None:
    """Muon on each head alone moves its values by more, as the root of how many there are; on two halves alike."""
    law, widths = UPDATES["muon"], (64, 128, 256)
    found: dict[str, list[float]] = {"whole": [], "heads": [], "halves": []}
    for n in widths:
        for seed in range(3):
            rng = np.random.default_rng([n, seed])
            h, d = rng.normal(size=(n, BATCH)), rng.normal(size=(n, BATCH)) / n
            for name, parts in (("whole", 1), ("heads", n // HEAD), ("halves", 2)):
                step = np.concatenate([law.step(G, None) for G in np.split(d @ h.T, parts)])
                found[name].append(rms(step @ h))
    planned = {name: Powers() for name in found}
    powers = rule(MUP, Role.HIDDEN, Layer.HIDDEN, "muon").lr
    assert powers == Powers(fan_in=-HALF, fan_out=HALF)
    planned = {"whole": 0.0, "halves": 0.0, "heads": -0.5}
    for name, rate in planned.items():
        assert slope(widths, found[name]) == pytest.approx(-rate, abs=0.12), name


def test_gains_of_queries_and_keys_have_gradients_of_order_one() -> None:
    """Norms of heads that all share one gain: a fixed size, whose epsilon knows no width."""
    found = []
    widths = (64, 128, 256, 512)
    for n in widths:
        for seed in range(8):
            rng, T = np.random.default_rng([n, seed]), 6
            x = rng.normal(size=(n, 8)) @ np.random.default_rng(seed).normal(size=(8, T)) / 8**0.5
            q, k, v = (rng.normal(size=(n, n)) / n**0.5 @ x for _ in range(3))
            q, k, v = (t.reshape(n // HEAD, HEAD, T) for t in (q, k, v))
            q, k = (t / np.sqrt((t**2).mean(1, keepdims=True)) for t in (q, k))

            def stream(gain: float, q=q, k=k, v=v) -> np.ndarray:
                logits = np.einsum("hdt,hds->hts", gain * q, k) / HEAD**0.5
                p = np.exp(logits - logits.max(-1, keepdims=True))
                return np.einsum("hts,hds->hdt", p / p.sum(-1, keepdims=True), v).reshape(
                    -1, q.shape[-1]
                )

            slopes = (stream(1 + 1e-5) - stream(1 - 1e-5)) / 2e-5
            # A readout that is aligned with what it reads, as one step makes it.
            found.append(abs(float((np.sign(slopes[:, 0]) / n) @ slopes[:, 0])))
    assert abs(slope(widths, found)) < 0.15
    planned = rule(MUP, Role.FIXED, Layer.LAST, "adamw", in_block=True, residual=ONE)
    assert (planned.lr, planned.eps) == (Powers(), Powers(depth=-ONE))


def test_selective_states_fit_neither_role() -> None:
    """y_i = sum over states of C(x)_k B(x)_k x_i: both B and C are few sums over the width, and multiplied."""
    widths, states = (64, 128, 256, 512), 8
    start, below = {"bottleneck": [], "hidden": []}, {"bottleneck": [], "hidden": []}
    for n in widths:
        for seed in range(6):
            rng = np.random.default_rng([n, seed])
            x, above = rng.normal(size=n), rng.choice([-1.0, 1.0], size=n) / n
            for name, std in (("bottleneck", 1 / n), ("hidden", n**-0.5)):
                B, C = rng.normal(size=(2, states, n)) * std
                b, c = B @ x, C @ x
                start[name].append(float(np.linalg.norm(b) * np.linalg.norm(c)))
                # Once the gradient is aligned with the features, as one step of a readout makes it.
                pull = float(np.sign(above * x) * above @ x)
                through = pull * (C.T @ b + B.T @ c)
                below[name].append(rms(through) / rms(above))
    # As a bottleneck the state's path starts n^-1 beside what skips it, and passes nothing back.
    assert slope(widths, start["bottleneck"]) == pytest.approx(-1.0, abs=0.25)
    # As a hidden matrix it starts right, and gradients below grow.
    assert abs(slope(widths, start["hidden"])) < 0.25
    assert slope(widths, below["hidden"]) == pytest.approx(0.5, abs=0.25)
