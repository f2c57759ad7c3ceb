"""Training of the course preset: attnlab compared with the plain loop of `course.py`.

    python benchmarks/training.py [--threads 2] [--steps 4] [--rounds 2] [--rows 128] [--no-compile]
                                  [--profile]

Rows are as long as those of the course's span corruption: a document cut to 4 to 112 characters,
with two mask tokens. attnlab trains on `--steps` batches by length, evenly spread over the lengths.
The reference gets the same rows, shuffled, --rows at a time, padded to the full context. A useful
token is one that is no padding; each predicts the next.

Steps of all variants take turns, in several rounds over the same batches. The best time of each
batch counts, because noise always adds time. The fraction of the peak counts only the model's flops
for useful tokens; the peak is the fastest matrix product measured before the rounds.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence

import torch
from course import (
    CONTEXT,
    PADDING,
    PARAMETERS,
    ROWS,
    VOCABULARY,
    CourseModel,
    CourseTrainer,
    parameter_count,
)
from torch import Tensor
from torch.nn import functional as F

from attnlab.models import Decoder
from attnlab.training import Settings, bucket_by_length, mix_seeds, pad_rows
from attnlab.training._loop import clip_gradients
from attnlab.training._machine import matmul_peak
from attnlab.training._optimizers import learning_rate_factor, make_optimizers, scale_learning_rates

POOL = 64  # batches to choose from: one window of `bucket`
SHORTEST, LONGEST, MASKS = 4, 112, 2
IGNORED = -100
LEARNING_RATE = 6e-4

Rows = Sequence[Tensor]


def make_rows(count: int, seed: int = 0) -> list[Tensor]:
    """Random rows of ids from 1 on; 0 is padding."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (count,), generator=generator) + MASKS
    return [
        torch.randint(PADDING + 1, VOCABULARY, (length,), generator=generator)
        for length in lengths.tolist()
    ]


def count_useful(batch: Rows) -> int:
    """Tokens read: all but the last of each row, which is only predicted."""
    return sum(len(row) - 1 for row in batch)


def mean_length(batches: list[list[int]], lengths: list[int]) -> float:
    selected = [lengths[row] for batch in batches for row in batch]
    return sum(selected) / len(selected)


def make_batches(rows: Rows, steps: int, size: int) -> tuple[list[Rows], list[Rows]]:
    """attnlab's batches by length, and the reference's: the same rows in another order."""
    generator = torch.Generator().manual_seed(0)
    lengths = [len(row) - 1 for row in rows]
    tokens = size * sum(lengths) // len(lengths)  # useful tokens in a batch of the reference
    cut = bucket_by_length(lengths, tokens=tokens, rows=None, generator=generator)
    cut = sorted(cut, key=lambda batch: max(lengths[row] for row in batch))
    # evenly spread; of all offsets take the one with the most typical mean length
    every = len(cut) // steps
    spread = [cut[first::every][:steps] for first in range(every)]
    selected = min(spread, key=lambda batches: abs(mean_length(batches, lengths) - tokens / size))
    together = [row for batch in selected for row in batch]
    order = torch.randperm(len(together), generator=generator).tolist()
    mixed = [
        [rows[together[i]] for i in order[at : at + size]] for at in range(0, len(order), size)
    ]
    return [[rows[row] for row in batch] for batch in selected], list(mixed)


class Trainer:
    """The body of the loop in attnlab.training: one batch, one step."""

    def __init__(self, *, pass_keys: bool = False, compiled: bool = False) -> None:
        torch.manual_seed(0)
        self.model = Decoder.preset("course").train()
        assert self.model.parameter_count() == PARAMETERS
        self.pass_keys = pass_keys
        self.settings = Settings(learning_rate=LEARNING_RATE, compile=compiled)
        self.optimizers = make_optimizers(self.model, self.settings)
        self.steps = 0
        if compiled:
            self.model.compile(dynamic=True)

    def step(self, rows: Rows) -> float:
        torch.manual_seed(mix_seeds(self.settings.seed, self.steps))  # dropout
        scale_learning_rates(self.optimizers, learning_rate_factor(self.steps, self.settings))
        ids, keys = pad_rows([row[:-1] for row in rows], PADDING)  # (B, T)
        targets, _ = pad_rows([row[1:] for row in rows], IGNORED)  # (B, T)
        # no text sees what comes after it, so padding on the right needs no mask
        logits = self.model(ids, keys if self.pass_keys else None)  # (B, T, V)
        total = F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        loss = total / int(keys.sum())
        loss.backward()
        clip_gradients(self.model, self.settings.max_gradient_norm)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.steps += 1
        return float(loss.detach())


class Timed:
    """One way to train: its batches, and the best seconds of each."""

    def __init__(
        self, trainer: Trainer | CourseTrainer, batches: list[Rows], padded: int | None = None
    ) -> None:
        """Every row is padded to `padded` tokens; None: to the longest of its batch."""
        self.trainer, self.batches, self.padded = trainer, batches, padded
        self.best = [math.inf] * len(batches)

    def warm_up(self) -> float:
        begin = time.perf_counter()
        for batch in self.batches:
            self.trainer.step(batch)
        return time.perf_counter() - begin

    def run(self, i: int) -> None:
        begin = time.perf_counter()
        loss = self.trainer.step(self.batches[i])
        self.best[i] = min(self.best[i], time.perf_counter() - begin)
        assert math.isfinite(loss)

    @property
    def padding(self) -> float:
        """Share of the computed tokens."""
        sizes = [len(batch) * (self.padded or max(map(len, batch)) - 1) for batch in self.batches]
        return 1 - sum(map(count_useful, self.batches)) / sum(sizes)

    @property
    def speed(self) -> float:
        """Useful tokens per second."""
        return sum(map(count_useful, self.batches)) / sum(self.best)


def take_turns(variants: dict[str, Timed], rounds: int) -> float:
    """Time every batch of every variant `rounds` times; the machine's best flops per second."""
    peak = 0.0
    for _ in range(rounds):
        matmul_peak.cache_clear()
        peak = max(peak, matmul_peak(torch.device("cpu"), seconds=1.0))
        for i in range(max(len(timed.batches) for timed in variants.values())):
            for timed in variants.values():
                if i < len(timed.batches):
                    timed.run(i)
    return peak


def report(variants: dict[str, Timed], model: Decoder, peak: float) -> None:
    rows = [row for batch in next(iter(variants.values())).batches for row in batch]
    length = count_useful(rows) / len(rows)
    flops = model.flops_per_token(round(length))
    total = count_useful(rows)
    print(f"{len(rows):,} rows of {length:.1f} useful tokens on average, {total:,} in all;")
    print(f"{flops / 1e6:.1f} million flops per token, peak {peak / 1e9:.1f} Gflops/s\n")
    print(f"{'':30}{'steps':>6}{'padding':>9}{'tokens/s':>10}{'of peak':>9}{'ratio':>8}")
    reference = next(iter(variants.values())).speed
    for name, timed in variants.items():
        fraction = timed.speed * flops / peak
        print(
            f"{name:30}{len(timed.batches):6}{timed.padding:9.1%}{timed.speed:10,.0f}{fraction:9.1%}"
            f"{timed.speed / reference:8.2f}"
        )


def profile(timed: Timed, name: str) -> None:
    batch = timed.batches[len(timed.batches) // 2]
    timed.trainer.step(batch)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        timed.trainer.step(batch)
    print(f"\n{name}: one step, {len(batch)} rows of up to {max(map(len, batch)) - 1} tokens")
    table = profiler.key_averages().table(
        sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=50
    )
    print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measures the training speed of the course preset."
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--steps", type=int, default=4, help="Number of batches for attnlab, at most 32."
    )
    parser.add_argument(
        "--rounds", type=int, default=2, help="Number of times that each batch is timed."
    )
    parser.add_argument("--rows", type=int, default=ROWS, help="Rows in a batch of the reference.")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument(
        "--profile", action="store_true", help="Print where the time of a step goes."
    )
    arguments = parser.parse_args()
    if not 1 <= arguments.steps <= 32:
        parser.error(f"--steps is {arguments.steps}; give 1 to 32")
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    course = CourseModel()
    assert parameter_count(course) == PARAMETERS
    attnlab_batches, reference_batches = make_batches(
        make_rows(POOL * arguments.rows), arguments.steps, arguments.rows
    )
    assert sum(map(len, attnlab_batches)) == sum(map(len, reference_batches))
    assert sum(map(count_useful, attnlab_batches)) == sum(map(count_useful, reference_batches))
    variants = {
        "course loop": Timed(CourseTrainer(course, LEARNING_RATE), reference_batches, CONTEXT - 1),
        "attnlab, keys passed": Timed(Trainer(pass_keys=True), attnlab_batches),
        "attnlab": Timed(Trainer(), attnlab_batches),
    }
    if not arguments.no_compile:
        variants["attnlab, compiled"] = Timed(Trainer(compiled=True), attnlab_batches)
    print(f"{arguments.threads} thread(s), float32, torch {torch.__version__}, ", end="")
    print(f"{PARAMETERS:,} parameters")
    for name, timed in variants.items():
        if name == "attnlab, compiled":
            print(f"compiling and a first round: {timed.warm_up():.0f} seconds, not counted")
        else:
            timed.trainer.step(timed.batches[0][:8])  # allocates gradients and moments
    peak = take_turns(variants, arguments.rounds)
    model = variants["attnlab"].trainer.model
    assert isinstance(model, Decoder)
    report(variants, model, peak)
    if arguments.profile:
        for name in list(variants)[2:]:
            profile(variants[name], name)


if __name__ == "__main__":
    main()
