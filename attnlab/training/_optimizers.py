"""Optimizers, learning-rate schedules and weight averaging."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from attnlab.training._muon import Muon
from attnlab.training._settings import Settings


def make_optimizers(model: nn.Module, settings: Settings) -> list[Optimizer]:
    """AdamW for everything, or Muon for the matrices inside the model and AdamW for the rest.

    Muon replaces a gradient by the nearest orthogonal matrix. That suits a linear map between two
    spaces, not an embedding, an output head, a table or a vector.
    """
    inner = {id(layer.weight) for layer in _inner_linears(model)}
    matrices, others, vectors = [], [], []
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        if id(parameter) in inner and settings.optimizer == "muon":
            matrices.append(parameter)
        elif parameter.dim() >= 2:
            others.append(parameter)
        else:
            vectors.append(parameter)
    decayed = {"params": others, "weight_decay": settings.weight_decay}
    plain = {"params": vectors, "weight_decay": 0.0}
    groups = [group for group in (decayed, plain) if group["params"]]
    optimizers: list[Optimizer] = []
    if matrices:
        decay = settings.weight_decay
        optimizers.append(Muon(matrices, lr=settings.muon_learning_rate, weight_decay=decay))
    if groups:
        betas = (settings.beta1, settings.beta2)
        fused = all(p.device.type in ("cpu", "cuda") for p in model.parameters())
        fused = (
            fused and not settings.shard
        )  # fused steps do not support sharded tensors everywhere
        optimizers.append(AdamW(groups, lr=settings.learning_rate, betas=betas, fused=fused))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers


def _inner_linears(model: nn.Module) -> list[nn.Linear]:
    """All linear layers except the output head, whose rows are tokens like an embedding's."""
    named = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    return [layer for name, layer in named if name.rpartition(".")[2] != "head"]


def learning_rate_factor(step: int, settings: Settings, done: float | None = None) -> float:
    """The learning rate of this step, as a fraction of the peak.

    `done` is the finished fraction of a run that ends by time and not by `steps`.
    """
    if step < settings.warmup_steps:
        return (step + 1) / settings.warmup_steps
    if settings.schedule == "constant":
        return 1.0
    floor = settings.final_rate_fraction
    if settings.schedule == "cosine":
        if done is None:
            done = (step - settings.warmup_steps) / max(1, settings.steps - settings.warmup_steps)
        return floor + (1 - floor) * (1 + math.cos(math.pi * min(1.0, done))) / 2
    decay_steps = max(1, round(settings.decay_fraction * settings.steps))
    left = (
        (settings.steps - step) / decay_steps
        if done is None
        else (1 - done) / settings.decay_fraction
    )
    return floor + (1 - floor) * min(1.0, left)


def scale_learning_rates(optimizers: Sequence[Optimizer], factor: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = factor * group["peak_lr"]


class WeightAverage:
    """An exponential moving average of the weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for name, parameter in model.named_parameters():
            self.weights[name].lerp_(parameter.detach(), 1 - self.decay)

    @torch.no_grad()
    def swap(self, model: nn.Module) -> None:
        """Exchange the model's weights with the averages; a second call undoes it."""
        for name, parameter in model.named_parameters():
            current = parameter.detach().clone()
            parameter.copy_(self.weights[name])
            self.weights[name].copy_(current)
