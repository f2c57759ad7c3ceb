"""Synthesizers: weights depend on the query's token alone, not on a comparison of two tokens.

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


def make_layer(attention: str, W: int, H: int, T: int, generator: torch.Generator) -> MultiHead:
    with seeded(generator):
        layer = MultiHead(W, H, attention, max_length=T).double()
        for parameter in layer.mechanism.parameters():
            nn.init.normal_(parameter)  # they start so small that all weights are nearly equal
    return layer


@torch.no_grad()
def capture_weights(layer: MultiHead, x: Tensor) -> Tensor:
    """(H, T, T)."""
    with capture(layer) as captured:
        layer(x[None], Mask())
    weights = captured.layers[0].weights
    assert weights is not None
    return weights


@claim(
    "synthesizer-blind",
    topic="efficient",
    source="paper",
    statement="a dense synthesizer's weight (i, j) does not depend on token j (j other than i)",
    why="""Its scores are b_ij = (relu(W_1 x_i) W_2 + c)_j: a small network reads x_i and outputs
    one number for each position j. There is no key, so the token at j has no influence: row i of
    the weights is a function of x_i and i alone. The scores of softmax attention,
    x_i^T W_Q^T W_K x_j, depend on both tokens. A random synthesizer, whose scores are a learned
    table, does not even depend on x_i.""",
    judge=exact("largest change of a weight in row i when another token is replaced"),
    control="softmax attention",
    reference=TAY,
)
def synthesizer_blind(trial: Trial) -> Evidence:
    names = ("synthesizer", "synthesizer_random", "synthesizer_factorized", "softmax")
    other_rows, own_row = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for T, W, H in ((5, 6, 2), (11, 12, 3), (7, 20, 4)):
        for repeat in range(trial.pick(4, 40)):
            for name in names:
                generator = trial.generator(T, repeat)
                layer = make_layer(name, W, H, T, generator)
                x, replacement = torch.randn(2, T, W, generator=generator, dtype=torch.float64)
                j = int(torch.randint(T, (), generator=generator))
                changed = torch.where(torch.arange(T)[:, None] == j, replacement, x)
                change = (
                    capture_weights(layer, changed) - capture_weights(layer, x)
                ).abs()  # (H, T, T)
                own_row[name] = max(own_row[name], float(change[:, j].max()))
                change[:, j] = 0
                other_rows[name] = max(other_rows[name], float(change.max()))
    return Evidence(
        Estimate(other_rows["softmax" if trial.control else "synthesizer"]),
        Bars("largest change of weights in other rows", _to_estimates(other_rows)),
        details={
            f"change in the replaced token's own row, {name}": own_row[name] for name in names
        },
    )


def _to_estimates(values: Mapping[str, float]) -> dict[str, Estimate]:
    return {name: Estimate(value) for name, value in values.items()}


Task = Literal["same letter", "half the length away"]
LETTERS, MARKS, WIDTH = 16, 4, 32


@claim(
    "synthesizer-compare",
    topic="efficient",
    source="paper",
    statement="so it fails tasks that need tokens compared with each other, which softmax "
    "attention learns",
    why="""Each token has a letter and a mark, each letter occurs twice, and each token must output
    the mark of the other token with its letter. Softmax attention scores pairs,
    x_i^T W_Q^T W_K x_j, and learns to make this large for equal letters. A synthesizer's row is
    f(x_i), the same wherever the other token is. It can only average all tokens and guess from the
    average, which is better than chance if there are few tokens. If the position is known, as in
    half the length away, no comparison is needed and it learns equally well (the control). So it
    can reach any position, but cannot select by content.""",
    judge=Above(0.3, "accuracy of softmax attention less that of the synthesizer, same letter"),
    control="the mark of the token half the length away",
    reference=TAY,
)
def synthesizer_compare(trial: Trial) -> Evidence:
    task: Task = "half the length away" if trial.control else "same letter"
    T, steps, repeats = trial.pick((8, 100, 3), (16, 400, 5))
    accuracies = {
        name: [_train_and_test(trial, repeat, name, task, T, steps) for repeat in range(repeats)]
        for name in ("softmax", "synthesizer")
    }
    pairs = zip(accuracies["softmax"], accuracies["synthesizer"], strict=True)
    gaps = [softmax - synthesizer for softmax, synthesizer in pairs]
    bars = {name: mean_interval(values) for name, values in accuracies.items()}
    return Evidence(
        mean_interval(gaps),
        Bars(f"accuracy, {task}", {**bars, "chance": Estimate(1 / MARKS)}),
        details={f"accuracy, {name}": figure.value for name, figure in bars.items()},
    )


class MarkModel(nn.Module):
    """One block over tokens that have a letter, a mark and a position."""

    def __init__(self, attention: str, T: int) -> None:
        super().__init__()
        self.letters, self.marks = nn.Embedding(LETTERS, WIDTH), nn.Embedding(MARKS, WIDTH)
        self.positions = nn.Embedding(T, WIDTH)
        self.block = Block(WIDTH, 1, attention, max_length=T, feed_width=WIDTH)
        self.read = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, MARKS))

    def forward(self, letters: Tensor, marks: Tensor) -> Tensor:
        """(B, T) and (B, T) -> logits (B, T, marks)."""
        x = self.letters(letters) + self.marks(marks) + self.positions.weight
        logits: Tensor = self.read(self.block(x, Mask()))
        return logits


def sample_marked_tokens(
    size: int, T: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Letters (T/2 letters twice each), marks, and the position of the equal letter; all (B, T)."""
    letters = torch.rand(size, LETTERS, generator=generator).argsort(-1)[:, : T // 2].repeat(1, 2)
    letters = letters.gather(1, torch.rand(size, T, generator=generator).argsort(-1))
    marks = torch.randint(MARKS, (size, T), generator=generator)
    equal = letters[:, :, None] == letters[:, None, :]
    other = (equal & ~torch.eye(T, dtype=torch.bool)).int().argmax(-1)
    return letters, marks, other


def _train_and_test(
    trial: Trial, repeat: int, attention: str, task: Task, T: int, steps: int
) -> float:
    """Accuracy on a new batch after training."""
    generator = trial.generator(repeat)
    with seeded(generator):
        model = MarkModel(attention, T)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)

    def batch(size: int) -> tuple[Tensor, Tensor, Tensor]:
        letters, marks, other = sample_marked_tokens(size, T, generator)
        target = marks.gather(1, other) if task == "same letter" else marks.roll(T // 2, 1)
        return letters, marks, target

    for _ in range(steps):
        letters, marks, target = batch(32)
        loss = F.cross_entropy(model(letters, marks).flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    letters, marks, target = batch(256)
    with torch.no_grad():
        return float((model(letters, marks).argmax(-1) == target).float().mean())


@claim(
    "synthesizer-faster",
    topic="efficient",
    source="course",
    statement="synthesizer attention is much faster",
    quoted=True,
    why="""A layer of softmax attention computes q, k, v (3 n W^2 products), scores (n^2 W), weights
    times values (n^2 W) and the output (n W^2). The dense synthesizer saves the keys, n W^2, but
    still computes n^2 scores from relu(q) times a table: the same product, with a table instead of
    keys. Time stays quadratic and nearly the same. A table that does not depend on the input (the
    random synthesizer) saves this product too, but still multiplies n^2 weights with values. Only
    mechanisms without n x n weights are much faster on long sequences (the control).""",
    judge=Above(2.0, "CPU time of a softmax layer / that of a dense synthesizer layer, n = 4,096"),
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
            layer = make_layer(name, W, 1, n, trial.generator(n)).float()
            x = torch.randn(1, n, W, generator=trial.generator(n))
            calls.append(partial(layer, x, Mask()))
    with costs.one_thread():
        rounds = [[costs.seconds(call) for call in calls] for _ in range(trial.pick(6, 10))]
    rounds = rounds[1:]  # the first round warms up
    index = lengths.index(4096)
    milliseconds = [1000 * min(column) for column in zip(*rounds, strict=True)]
    lines = {
        name: list(zip(map(float, lengths), milliseconds[i * len(lengths) :], strict=False))
        for i, name in enumerate(names)
    }
    return Evidence(
        mean_interval([row[index] / row[len(lengths) + index] for row in rounds]),
        Lines(
            "tokens", "milliseconds of CPU time", [Series(*x) for x in lines.items()], True, True
        ),
        details={f"exponent in n, {name}": log_log_slope(x).value for name, x in lines.items()},
    )
