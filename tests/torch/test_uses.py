"""Bare parameters: what the forward pass does with them answers what no module says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import scalewise as sw
from scalewise.plan import PlanError, Role
from scalewise.plan._names import matching
from scalewise.plan._questions import Asked

N, FEATURES, CLASSES = 16, 5, 3
Apply = Callable[[Tensor, Tensor], Tensor]


class Around(nn.Module):
    """A bare parameter between a first layer and a readout, used by a function of (activations, parameter)."""

    def __init__(self, width: int, shape: Callable[[int], tuple[int, ...]], apply: Apply) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, width)
        self.bare = nn.Parameter(torch.randn(shape(width)) / width**0.5)
        self.last = nn.Linear(width, CLASSES)
        self.apply_ = apply

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.apply_(self.first(x), self.bare))


def _experts_by_rows(x: Tensor, w: Tensor) -> Tensor:
    chosen = w[torch.arange(len(x)) % len(w)]
    return torch.bmm(chosen, x.unsqueeze(-1)).squeeze(-1)


def _heads(x: Tensor, w: Tensor) -> Tensor:
    """Scores of heads by products entry by entry, as in attention on graphs."""
    score = (x.view(len(x), *w.shape) * w).sum(-1)
    return (x.view(len(x), *w.shape) * score.softmax(-1).unsqueeze(-1)).flatten(1)


def _positions(x: Tensor, w: Tensor) -> Tensor:
    return (x.unsqueeze(1) + w).mean(1)


def _token(x: Tensor, w: Tensor) -> Tensor:
    return torch.cat([w.expand(len(x), -1, -1), x.unsqueeze(1)], 1).tanh().mean(1)


def _score(x: Tensor, w: Tensor) -> Tensor:
    return x * (x * w).sum(-1, keepdim=True).sigmoid()


def _interpolated(x: Tensor, w: Tensor) -> Tensor:
    wide = functional.interpolate(w.transpose(1, 2), size=7, mode="linear").transpose(1, 2)
    return (x.unsqueeze(1) + torch.cat([w[:, :1], wide], 1)).tanh().mean(1)


Case = tuple[Callable[[int], tuple[int, ...]], Apply, Role, int]
# Its shape, what is done with it; its role, and by how much its fan-in grows when the width is four times as large.
CASES: dict[str, Case] = {
    "forth and back": (lambda n: (n, n), lambda x, w: (x @ w).tanh() @ w.T, Role.HIDDEN, 4),
    "matrix by columns": (lambda n: (n, 2 * n), lambda x, w: (x @ w).chunk(2, -1)[0], Role.HIDDEN, 4),
    "matrix by rows": (lambda n: (n, n), functional.linear, Role.HIDDEN, 4),
    "einsum": (lambda n: (n, n), lambda x, w: torch.einsum("bi,oi->bo", x, w), Role.HIDDEN, 4),
    "blocks of one matrix": (
        lambda n: (3 * n, n), lambda x, w: x + functional.linear(x, w).chunk(3, -1)[1], Role.HIDDEN, 4,
    ),
    "experts one by one": (lambda n: (2, n, n), lambda x, w: x @ w[0].T + x @ w[1].T, Role.HIDDEN, 4),
    "experts at once": (
        lambda n: (2, n, 2 * n),
        lambda x, w: torch.bmm(x.expand(2, *x.shape), w).sum(0).chunk(2, -1)[0], Role.HIDDEN, 4,
    ),
    "experts picked": (lambda n: (2, n, n), _experts_by_rows, Role.HIDDEN, 4),
    "a kernel": (
        lambda n: (n, n, 1), lambda x, w: functional.conv1d(x.unsqueeze(-1), w).squeeze(-1), Role.HIDDEN, 4,
    ),
    "a kernel for numbers": (
        lambda n: (n, 1, 3), lambda x, w: functional.conv1d(x.unsqueeze(1), w).mean(-1), Role.INPUT, 1,
    ),
    "a router": (
        lambda n: (n, 4), lambda x, w: x * (x @ w).softmax(-1).amax(-1, keepdim=True), Role.BOTTLENECK, 4,
    ),
    "one score by products": (lambda n: (n,), _score, Role.BOTTLENECK, 4),
    "scores of heads that grow": (lambda n: (2, n // 2), _heads, Role.BOTTLENECK, 4),
    "scores of more heads": (lambda n: (n // 4, 4), _heads, Role.INPUT, 1),
    "a gain": (lambda n: (n,), lambda x, w: x + w * x.tanh(), Role.VECTOR, 1),
    "a gain about one": (lambda n: (n,), lambda x, w: x * (1 + w), Role.VECTOR, 1),
    "a decay for each state": (
        lambda n: (n, 4),
        lambda x, w: (torch.exp(-torch.exp(w)) * x.unsqueeze(-1)).tanh().mean(-1), Role.VECTOR, 1,
    ),
    "a token": (lambda n: (1, 1, n), _token, Role.VECTOR, 1),
    "positions": (lambda n: (1, 6, n), _positions, Role.INPUT, 1),
    "positions of another length": (lambda n: (1, 6, n), _interpolated, Role.INPUT, 1),
    "rows picked": (lambda n: (6, n), lambda x, w: x + w[torch.arange(len(x))], Role.INPUT, 1),
}  # fmt: skip

# What one pass does not tell, or tells two ways.
ASKED: dict[str, tuple[Callable[[int], tuple[int, ...]], Apply]] = {
    "not used": (lambda n: (n, n), lambda x, w: x),
    "multiplied with itself": (lambda n: (n, n), lambda x, w: x @ (w @ w)),
    "matrix and gain": (lambda n: (n, n), lambda x, w: (x @ w).unsqueeze(1).mul(w).tanh().mean(1)),
}  # fmt: skip


def test_the_use_of_a_bare_parameter_answers_for_it() -> None:
    wrong = []
    for what, (shape, apply, role, ratio) in CASES.items():
        try:
            row = _planned(lambda width, s=shape, f=apply: Around(width, s, f))["bare"]
        except PlanError as error:
            wrong.append((what, str(error)))
            continue
        if row.role is not role or row.fan_in != ratio:
            wrong.append((what, row.role, row.fan_in))
    assert not wrong


class Magnitudes(nn.Module):
    """The length of each row of a matrix as a parameter of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.mix = nn.Linear(FEATURES, width), nn.Linear(width, width)
        self.lengths = nn.Parameter(self.mix.weight.detach().norm(dim=1))
        self.last = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        directions = self.lengths / self.mix.weight.norm(dim=1).detach()
        return self.last(self.mix(x) * directions + x * (directions - 1))


def test_a_quotient_of_parameters_is_the_upper_one() -> None:
    assert _planned(Magnitudes)["lengths"].role is Role.VECTOR


def test_a_bare_parameter_that_leads_to_few_units_and_back_is_refused() -> None:
    with pytest.raises(PlanError, match=r"`bare` \(bottleneck\).*untie them"):
        _planned(lambda width: Around(width, lambda n: (4, n), lambda x, w: (x @ w.T).tanh() @ w))


def test_a_bare_parameter_of_unclear_use_is_asked_about() -> None:
    silent = []
    for what, (shape, apply) in ASKED.items():
        try:
            found = _planned(lambda width, s=shape, f=apply: Around(width, s, f))
            silent.append((what, found["bare"].role))
        except Asked as question:
            if "`bare`" not in str(question):
                silent.append((what, question))
    assert not silent


class Declared(nn.Module):
    """A matrix of somebody's own kind; its module says how many numbers it is given and returns."""

    def __init__(self, names: tuple[str, str], into: int, onto: int, *, columns: bool) -> None:
        super().__init__()
        setattr(self, names[0], into)
        setattr(self, names[1], onto)
        self.columns = columns
        self.weight = nn.Parameter(torch.randn(*((into, onto) if columns else (onto, into))))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weight if self.columns else self.weight.T)


class Graph(nn.Module):
    """Layers on a graph, whose edges no trial hits upon; one may read out the width, or two."""

    def __init__(self, width: int, names: tuple[str, str], *, columns: bool, outputs: int) -> None:
        super().__init__()
        sizes = [(FEATURES, width), (width, width), *[(width, CLASSES)] * outputs]
        self.layers = nn.ModuleList(Declared(names, *s, columns=columns) for s in sizes)

    def forward(self, x: Tensor, edges: Tensor) -> list[Tensor]:
        assert edges.shape == (7,)
        assert edges.dtype == torch.int64
        first, second, *rest = self.layers
        x = second(first(x)[edges].tanh()).tanh()
        return [last(x) for last in rest]


@pytest.mark.filterwarnings("ignore:The forward pass")
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(
    "names", [("in_channels", "out_channels"), ("in_features", "out_features"), None]
)
def test_what_is_proposed_is_right(
    names: tuple[str, str] | None, columns: bool, outputs: int
) -> None:
    """Whichever way round matrices lie, a role is proposed where something tells it, and only there."""
    edges = torch.arange(7) % 6

    def build(width: int) -> nn.Module:
        return Graph(width, names or ("one", "two"), columns=columns, outputs=outputs)

    right = {"layers.0.weight": "input", "layers.1.weight": "hidden"}
    right |= {f"layers.{i + 2}.weight": "output" for i in range(outputs)}
    seen = _planned(build, inputs=(torch.randn(6, FEATURES), edges))
    assert {t.name: str(t.role) for t in seen.table.tensors} == right
    with pytest.raises(Asked) as asked:
        _planned(build, inputs=None)
    told = {"layers.1.weight"}
    if names is not None:
        told |= {"layers.0.weight"} | ({"layers.2.weight"} if outputs == 1 else set())
    proposed = asked.value.answers["roles"].items()
    found = {name: role for wanted, role in proposed for name in matching(wanted, right)}
    assert found == {name: right[name] for name in told}
    assert ("no role is proposed" in str(asked.value)) == (len(told) < len(right))


def test_a_bare_matrix_is_planned_as_a_linear_one() -> None:
    """Rules, not names: every factor is that of the same network of modules."""

    class Modules(Around):
        def __init__(self, width: int) -> None:
            super().__init__(width, lambda n: (1,), lambda x, _: self.inside(x))
            self.inside = nn.Linear(width, width, bias=False)
            del self.bare
            self.bare = None

    bare = _planned(lambda width: Around(width, lambda n: (n, n), functional.linear))
    modules = _planned(Modules)
    assert bare.factors("bare") == modules.factors("inside.weight")
    assert bare.factors("last.weight") == modules.factors("last.weight")


class Router(nn.Module):
    """Two matrices from the width to a fixed number of units, of which one chooses inside."""

    def __init__(self, width: int, *, end: str) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, width), nn.Linear(width, CLASSES)
        self.chooser = nn.Linear(width, 4)
        self.end = end

    def forward(self, x: Tensor) -> object:
        x = self.first(x).tanh()
        chosen = self.chooser(x)
        y = self.last(x * chosen.softmax(-1).amax(-1, keepdim=True))
        if self.end == "plain":
            return y
        return {"both": (y, chosen), "odds": (y, chosen.softmax(-1)), "apart": y.softmax(-1)}[
            self.end
        ]


def test_what_the_model_returns_tells_readouts_from_bottlenecks() -> None:
    """The router comes last among the modules, so that no order gives it away."""
    plan = _planned(lambda width: Router(width, end="plain"))
    assert plan["last.weight"].role is Role.OUTPUT
    assert plan["chooser.weight"].role is Role.BOTTLENECK


@pytest.mark.parametrize("end", ["both", "odds", "apart"])
def test_what_is_returned_and_read_on_is_inside(end: str) -> None:
    """Scores of a router, and latents of a cache, are no outputs, though the model hands them out."""
    plan = _planned(lambda width: Router(width, end=end))
    assert plan["last.weight"].role is Role.OUTPUT
    assert plan["chooser.weight"].role is Role.BOTTLENECK


class Fed(Router):
    """Two steps of one network, of which the second reads what the first returns."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.last(self.first(x).tanh())
        x = functional.pad(y, (0, FEATURES - CLASSES))
        return self.last(self.chooser(self.first(x).tanh()).sum(-1, keepdim=True) * self.first(x))


def test_an_output_that_is_fed_back_reads_out() -> None:
    plan = _planned(lambda width: Fed(width, end="plain"))
    assert plan["last.weight"].role is Role.OUTPUT
    assert plan["chooser.weight"].role is Role.BOTTLENECK


class Rows(nn.Module):
    """Rows that a layer reads, repeated for every sample or as they are; or a product that makes a weight."""

    def __init__(self, width: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.first, self.last = nn.Linear(FEATURES, width), nn.Linear(width, CLASSES)
        self.inside, self.up = nn.Linear(width, width), nn.Linear(4, width)
        self.rows = nn.Parameter(torch.randn(1 if kind == "one" else 4, width))

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).tanh()
        if self.kind == "weight":
            return self.last(h + self.up(functional.linear(h, self.rows @ self.inside.weight)))
        asked = self.inside(self.rows if self.kind == "read" else self.rows.repeat(len(x), 1, 1))
        odds = (asked @ self.inside(h)[..., None] / h.shape[-1]).softmax(-2)
        return self.last(h + (odds * asked).sum(-2))


def test_rows_that_a_layer_reads_are_put_into_the_stream() -> None:
    for kind, role in (("one", Role.VECTOR), ("repeated", Role.INPUT)):
        assert _planned(lambda width, k=kind: Rows(width, k))["rows"].role is role
    with pytest.raises(Asked, match=r"`rows`: 4 x n"):
        _planned(lambda width: Rows(width, "weight"))


class Idle(Router):
    """One with a head that only a training of its own would call."""

    def __init__(self, width: int) -> None:
        super().__init__(width, end="plain")
        self.aside = nn.Linear(width, 2)
        self.token = nn.Parameter(torch.zeros(1, width))


def test_what_the_pass_does_not_use_is_asked_about() -> None:
    with pytest.raises(Asked, match="makes no use of `token`") as told:
        _planned(Idle)
    assert "`aside.weight` each go from the width to a fixed number" in str(told.value)
    assert "chooser" not in str(told.value)


class Late(nn.Module):
    """Tensors of fixed size after the last one that sums over the width, or beside all of them."""

    def __init__(self, width: int, kind: str) -> None:
        super().__init__()
        self.stream = kind == "stream"
        self.first = nn.Linear(FEATURES, FEATURES if self.stream else width)
        self.ups = nn.ModuleList(nn.Linear(FEATURES, width) for _ in range(2))
        self.mix = nn.Linear(width, width)
        self.downs = nn.ModuleList(nn.Linear(width, FEATURES) for _ in range(2))
        norms = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}
        self.norm = norms.get(kind, nn.Identity)(FEATURES)
        self.last = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if not self.stream:
            x = self.downs[0](self.mix(x.tanh()).tanh())
            x = self.ups[0](x).tanh()
            return self.last(self.norm(self.downs[1](x)).tanh())
        for up, down in zip(self.ups, self.downs, strict=True):
            x = x + down(up(x).tanh())
        return self.last(x)


def test_readouts_before_tensors_of_fixed_size() -> None:
    """A bottleneck inside feeds the width again; what follows the last one does not."""
    for kind in ("batch", "layer", "plain"):
        plan = _planned(lambda width, kind=kind: Late(width, kind))
        assert plan["downs.0.weight"].role is Role.BOTTLENECK, kind
        assert plan["downs.1.weight"].role is Role.OUTPUT, kind
        assert [plan[n].ends for n in ("last.weight", "ups.0.bias", "first.weight")] == [
            True, False, False,
        ]  # fmt: skip
    plan = _planned(lambda width: Late(width, "stream"))
    assert {plan[f"downs.{i}.weight"].role for i in range(2)} == {Role.OUTPUT}
    assert plan["first.weight"].ends


def test_the_values_of_gains_are_no_power_of_the_width_unless_they_are() -> None:
    """A model without memory shows none: layer scales of 1e-6 are not those of 1 at another width."""
    for value in (lambda n: 1e-6, lambda n: 0.1, lambda n: n**-0.5):

        def build(width: int, value: Callable[[int], float] = value) -> nn.Module:
            model = Around(width, lambda n: (n,), lambda x, w: x * w)
            model.inside = nn.Linear(width, width)
            model.apply_ = lambda x, w: x + w * model.inside(x)
            nn.init.constant_(model.bare, value(width))
            return model

        plan = _planned(build)
        power = -0.5 if value(4 * N) < value(N) else 0
        assert plan["inside.weight"].gauge.total == power
        assert plan.factors("inside.weight").init == pytest.approx(0.5 * 4**-power)


def _planned(build: Callable[..., nn.Module], **options: Any) -> sw.torch.TorchPlan:
    options = {"inputs": torch.randn(6, FEATURES)} | options
    return sw.torch.plan(
        build,
        base={"width": N},
        target={"width": 4 * N},
        strategy=sw.scaling.mup(),
        **options,
    )


def test_layers_in_a_row_are_told_apart() -> None:
    """In a `Sequential` every layer has the same pattern of names: each goes by what was seen of itself."""

    def build(width: int) -> nn.Module:
        ends = nn.Embedding(8, width), nn.Linear(width, 8)
        return nn.Sequential(ends[0], nn.Linear(width, width), nn.ReLU(), ends[1])

    plan = sw.torch.plan(build, base={"width": 32}, target={"width": 128}, strategy="mup")
    assert [plan[f"{k}.weight"].role for k in (0, 1, 3)] == [Role.INPUT, Role.HIDDEN, Role.OUTPUT]


class Tabled(nn.Module):
    """Attention over words whose table is a layer, or a parameter in no module."""

    def __init__(self, width: int, bare: bool) -> None:
        super().__init__()
        table = nn.Embedding(FEATURES, width)
        self.table = table.weight if bare else table
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.last = nn.Linear(width, CLASSES)

    def forward(self, words: Tensor) -> Tensor:
        h = self.table(words) if isinstance(self.table, nn.Module) else self.table[words]
        scores = self.query(h) @ self.key(h).mT / h.shape[-1] ** 0.5
        return self.last(h + scores.softmax(-1) @ h)


def test_rows_of_a_bare_table_are_activations() -> None:
    def asked(bare: bool) -> Asked:
        with pytest.raises(Asked, match="heads of the model grow") as found:
            sw.torch.plan(
                lambda width: Tabled(width, bare), base={"width": 32}, target={"width": 64},
                strategy=sw.scaling.mup(), inputs=torch.arange(8).reshape(2, 4) % FEATURES,
            )  # fmt: skip
        return found.value

    assert asked(True).answers == asked(False).answers == {"multiplied": ["attention"]}
    assert str(asked(True)) == str(asked(False))
