"""Synthesizers: weights from the query's token alone, never from a comparison of two tokens.

Letters: B batch, H heads, T tokens, W width.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.bench import _measure_costs as costs
from attnlab.claims._claim import (
    Bars,
    Estimate,
    Evidence,
    Lines,
    Trial,
    claim,
    log_log_slope,
    mean_interval,
)
from attnlab.claims.handmade_position_codes import seeded
from attnlab.claims.judges import Above, exact
from attnlab.interpret._capture import capture
from attnlab.layers import Block, MultiHead
from attnlab.mask import Mask
from attnlab.report import Series

TAY = (
    "Tay et al. 2021, Synthesizer: rethinking self-attention for transformer models, "
    "arXiv 2005.00743"
)


def layer_of(attention: str, W: int, H: int, T: int, random: torch.Generator) -> MultiHead:
    with seeded(random):
        layer = MultiHead(W, H, attention, max_length=T).double()
        for parameter in layer.mechanism.parameters():
            nn.init.normal_(parameter)  # they start so small that all weights are alike
    return layer


@torch.no_grad()
def weights_of(layer: MultiHead, x: Tensor) -> Tensor:
    """(H, T, T)."""
    with capture(layer) as seen:
        layer(x[None], Mask())
    weights = seen.layers[0].weights
    assert weights is not None
    return weights


@claim(
    "synthesizer-blind",
    topic="efficient",
    source="paper",
    statement="a dense synthesizer's weight (i, j) does not depend on token j (j other than i)",
    why="""Its scores are b_ij = (relu(W_1 x_i) W_2 + c)_j: a small network that reads x_i writes
    one number for each position j. There is no key, so what stands at j cannot enter: row i of
    the weights is a function of x_i and of i alone. Softmax attention's x_i^T W_Q^T W_K x_j reads
    both. A random synthesizer, whose scores are a learned table, does not even read x_i.""",
    judge=exact("largest change of a weight in row i when another token is replaced"),
    control="softmax attention",
    reference=TAY,
)
def synthesizer_blind(trial: Trial) -> Evidence:
    names = ("synthesizer", "synthesizer_random", "synthesizer_factorized", "softmax")
    other, own = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for T, W, H in ((5, 6, 2), (11, 12, 3), (7, 20, 4)):
        for repeat in range(trial.pick(4, 40)):
            for name in names:
                random = trial.random(T, repeat)
                layer = layer_of(name, W, H, T, random)
                x, new = torch.randn(2, T, W, generator=random, dtype=torch.float64)
                j = int(torch.randint(T, (), generator=random))
                changed = torch.where(torch.arange(T)[:, None] == j, new, x)
                change = (weights_of(layer, changed) - weights_of(layer, x)).abs()  # (H, T, T)
                own[name] = max(own[name], float(change[:, j].max()))
                change[:, j] = 0
                other[name] = max(other[name], float(change.max()))
    return Evidence(
        Estimate(other["softmax" if trial.control else "synthesizer"]),
        Bars("largest change of weights in other rows", _figures(other)),
        details={f"change in the replaced token's own row, {name}": own[name] for name in names},
    )


def _figures(values: Mapping[str, float]) -> dict[str, Estimate]:
    return {name: Estimate(value) for name, value in values.items()}


Task = Literal["same letter", "half the length away"]
LETTERS, MARKS, WIDTH = 16, 4, 32


@claim(
    "synthesizer-compare",
    topic="efficient",
    source="paper",
    statement="so it fails tasks that need tokens compared with each other, which softmax "
    "attention learns",
    why="""Each token has a letter and a mark, each letter stands twice, and a token must say the
    mark of the other one with its letter. Softmax attention scores pairs, x_i^T W_Q^T W_K x_j,
    and learns to make that large for equal letters. A synthesizer's row is f(x_i), the same
    wherever the other one stands; it can only take a mean of all tokens and guess from that,
    which is better than chance while there are few. Where the place is known, as in half the
    length away, it needs no comparison and learns as well (the control): what it lacks is not
    reach but the choice by content.""",
    judge=Above(0.3, "accuracy of softmax attention less that of the synthesizer, same letter"),
    control="the mark of the token half the length away",
    reference=TAY,
)
def synthesizer_compare(trial: Trial) -> Evidence:
    task: Task = "half the length away" if trial.control else "same letter"
    T, steps, repeats = trial.pick((8, 100, 3), (16, 400, 5))
    found = {
        name: [_accuracy(trial, repeat, name, task, T, steps) for repeat in range(repeats)]
        for name in ("softmax", "synthesizer")
    }
    gaps = [a - b for a, b in zip(found["softmax"], found["synthesizer"], strict=True)]
    bars = {name: mean_interval(accuracies) for name, accuracies in found.items()}
    return Evidence(
        mean_interval(gaps),
        Bars(f"accuracy, {task}", {**bars, "chance": Estimate(1 / MARKS)}),
        details={f"accuracy, {name}": figure.value for name, figure in bars.items()},
    )


class Marked(nn.Module):
    """One block over tokens that have a letter, a mark and a place."""

    def __init__(self, attention: str, T: int) -> None:
        super().__init__()
        self.letters, self.marks = nn.Embedding(LETTERS, WIDTH), nn.Embedding(MARKS, WIDTH)
        self.places = nn.Embedding(T, WIDTH)
        self.block = Block(WIDTH, 1, attention, max_length=T, feed_width=WIDTH)
        self.read = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, MARKS))

    def forward(self, letters: Tensor, marks: Tensor) -> Tensor:
        """(B, T) and (B, T) -> logits (B, T, marks)."""
        x = self.letters(letters) + self.marks(marks) + self.places.weight
        logits: Tensor = self.read(self.block(x, Mask()))
        return logits


def marked(size: int, T: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Letters and marks (B, T), T/2 letters twice each, and where the other one is."""
    letters = torch.rand(size, LETTERS, generator=random).argsort(-1)[:, : T // 2].repeat(1, 2)
    letters = letters.gather(1, torch.rand(size, T, generator=random).argsort(-1))
    marks = torch.randint(MARKS, (size, T), generator=random)
    alike = letters[:, :, None] == letters[:, None, :]
    other = (alike & ~torch.eye(T, dtype=torch.bool)).int().argmax(-1)
    return letters, marks, other


def _accuracy(trial: Trial, repeat: int, attention: str, task: Task, T: int, steps: int) -> float:
    """After training on fresh batches; on others."""
    random = trial.random(repeat)
    with seeded(random):
        model = Marked(attention, T)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)

    def batch(size: int) -> tuple[Tensor, Tensor, Tensor]:
        letters, marks, other = marked(size, T, random)
        wanted = marks.gather(1, other) if task == "same letter" else marks.roll(T // 2, 1)
        return letters, marks, wanted

    for _ in range(steps):
        letters, marks, wanted = batch(32)
        loss = F.cross_entropy(model(letters, marks).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    letters, marks, wanted = batch(256)
    with torch.no_grad():
        return float((model(letters, marks).argmax(-1) == wanted).float().mean())


@claim(
    "synthesizer-faster",
    topic="efficient",
    source="course",
    statement="synthesizer attention is much faster",
    quoted=True,
    why="""A layer of softmax attention makes q, k, v (3 n W^2 products), scores (n^2 W), weights
    times values (n^2 W) and the output (n W^2). The dense synthesizer saves the keys, n W^2, and
    still makes n^2 scores from relu(q) times a table: the same product, with a table in the
    place of keys. Time stays quadratic and nearly the same. A table without input (the random
    synthesizer) saves that product too, and still multiplies n^2 weights with values. Much faster
    on long sequences is only what makes no n x n weights (the control).""",
    judge=Above(2.0, "CPU time of a softmax layer over a dense synthesizer layer, n = 4,096"),
    control="a layer of kernel attention (elu)",
    reference=TAY,
    alone=True,
)
@torch.no_grad()
def synthesizer_faster(trial: Trial) -> Evidence:
    lengths, W = trial.pick([1024, 2048, 4096], [1024, 2048, 4096, 8192]), 32
    names = ["softmax", "synthesizer", "synthesizer_factorized", "elu"]
    if trial.control:
        names = ["softmax", "elu"]
    calls = []
    for name in names:
        for n in lengths:
            layer = layer_of(name, W, 1, n, trial.random(n)).float()
            x = torch.randn(1, n, W, generator=trial.random(n))
            calls.append(partial(layer, x, Mask()))
    with costs.one_thread():
        rows = [[costs.seconds(call) for call in calls] for _ in range(trial.pick(6, 10))]
    rows = rows[1:]  # the first one warmed up
    at = lengths.index(4096)
    least = [1000 * min(column) for column in zip(*rows, strict=True)]
    lines = {
        name: list(zip(map(float, lengths), least[i * len(lengths) :], strict=False))
        for i, name in enumerate(names)
    }
    return Evidence(
        mean_interval([row[at] / row[len(lengths) + at] for row in rows]),
        Lines(
            "tokens", "milliseconds of CPU time", [Series(*x) for x in lines.items()], True, True
        ),
        details={f"exponent in n, {name}": log_log_slope(x).value for name, x in lines.items()},
    )
