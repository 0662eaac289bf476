"""The output for a test digit during training: networks of width 256 and the theory of infinite width."""

import matplotlib.pyplot as plt
import numpy as np
import torch

import scalewise as sw
from scalewise.experiments._look import COLORS
from scalewise.training import GradientFlow

task = sw.load_task("digits:3,8", train=8, test=4)
n, step, steps = 256, 0.02, 100
net = sw.MLP(3, n, "tanh", input_dim=64, output_dim=1).at_criticality()
times = np.linspace(0, step * steps, 41)
trained = sw.predict_training(net, task, GradientFlow(time=times[-1]), times=times)
mean = trained.output_mean.isel(output=0, test=0).values
spread = 2 * np.sqrt(trained.variance.isel(test=0).values)

x = torch.tensor(np.concatenate([task.test_inputs[:1], task.inputs]), dtype=torch.float32)
y = torch.tensor(task.targets, dtype=torch.float32)
sizes = (64, n, n, 1)
torch.manual_seed(0)
figure, axis = plt.subplots(figsize=(6.2, 2.8))
for one in range(8):
    weights = [
        torch.randn(a, b) * (C / a) ** 0.5
        for a, b, C in zip(sizes, sizes[1:], net.C_W, strict=False)
    ]
    biases = [torch.zeros(b) for b in sizes[1:]]
    for part in (*weights, *biases):
        part.requires_grad_()
    outputs = []
    for _ in range(steps + 1):
        z = x
        for i, (W, b) in enumerate(zip(weights, biases, strict=True)):
            z = (torch.tanh(z) if i else z) @ W + b
        outputs.append(z[0].item())
        slopes = torch.autograd.grad((z[1:] - y).square().sum() / 2, (*weights, *biases))
        with torch.no_grad():
            for part, slope in zip((*weights, *biases), slopes, strict=True):
                part -= step * slope / (part.shape[0] if part.ndim == 2 else 1)
    label = "8 networks" if one == 0 else None
    axis.plot(step * np.arange(steps + 1), outputs, color=COLORS[1], lw=0.9, label=label)
axis.plot(times, mean, color=COLORS[0], lw=2, label="infinite width")
axis.fill_between(times, mean - spread, mean + spread, color=COLORS[0], alpha=0.16, lw=0)
axis.set(xlabel="time", ylabel="output for a test digit")
axis.legend(fontsize=9)
