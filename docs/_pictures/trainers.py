"""The learning rates of the groups of a plan under three schedules of PyTorch."""

import matplotlib.pyplot as plt
from torch import nn
from torch.optim import lr_scheduler

import scalewise as sw
from scalewise.experiments._look import COLORS


def build(width: int) -> nn.Module:
    """Three layers on ten inputs."""
    return nn.Sequential(
        nn.Linear(10, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
    )


plan = sw.torch.plan(
    build, base={"width": 64}, target={"width": 128}, strategy=sw.scaling.mup(), optimizer="adamw"
)
STEPS = 100
groups = {"input+vector": COLORS[0], "hidden": COLORS[1]}
ways = (
    ("cosine", lambda it: lr_scheduler.CosineAnnealingLR(it, STEPS)),
    ("cosine, one minimum", lambda it: lr_scheduler.CosineAnnealingLR(it, STEPS, eta_min=1e-3)),
    ("cycle, one maximum", lambda it: lr_scheduler.OneCycleLR(it, 4e-3, STEPS)),
)
figure, axes = plt.subplots(1, 3, figsize=(7.2, 2.4), sharey=True)
for axis, (title, schedule) in zip(axes, ways, strict=True):
    optimizer = sw.torch.optimizer_for(plan, build(128), lr=4e-3)
    rates, scheduler = [], schedule(optimizer)
    for _ in range(STEPS):
        rates.append({group["name"]: group["lr"] for group in optimizer.param_groups})
        optimizer.step()
        scheduler.step()
    for (name, color), line in zip(groups.items(), ("-", "--"), strict=True):
        axis.plot([1e3 * at[name] for at in rates], line, color=color, label=name)
    axis.set(title=title, xlabel="step")
axes[0].set(ylabel="learning rate, 10⁻³")
axes[0].legend(fontsize=9)
