"""Decoding: 500 prompts at once against one by one without a cache, and the cost of one step.

    python benchmarks/generation.py [--threads 2] [--prompts 500] [--subset 10] [--repeats 3]
                                    [--positions 100 1000 10000]

Both models of the first part hold the same weights, and what they write must be equal. The
reference writes on from a subset, every so many of the prompts sorted by length; its time for all
is that of the subset times their ratio. Reference and ours take turns, and the best time of each
counts: noise only ever adds.

The second part times one step of two layers of width 64 after prompts of these lengths, all in
turn, 50 times, and takes the median.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from course import PARAMETERS, VOCABULARY, CourseModel, load_weights, parameter_count, write

from attnlab.generate import generate
from attnlab.models import Decoder, StackConfig

PROMPTS, SHORTEST, LONGEST, NEW_TOKENS = 500, 10, 60, 32
MECHANISMS = ("softmax", "elu", "favor", "window")
POSITIONS = (100, 1_000, 10_000)
STEPS = 50


def make_prompts(count: int) -> list[list[int]]:
    """Sorted by length, so that every n-th stands for all; `generate` gets them shuffled."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (count,), generator=generator).sort().values
    return [
        torch.randint(1, VOCABULARY, (length,), generator=generator).tolist()
        for length in lengths.tolist()
    ]


def compare_writing(count: int, subset: int, repeats: int) -> None:
    torch.manual_seed(0)
    ours, course = Decoder.preset("course").eval(), CourseModel().eval()
    assert ours.parameter_count() == parameter_count(course) == PARAMETERS
    load_weights(course, ours)
    prompts = make_prompts(count)
    every = count // subset
    chosen = range(every // 2, count, every)
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(1)).tolist()
    best_course, best_ours = math.inf, math.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        plain = {i: write(course, prompts[i], NEW_TOKENS) for i in chosen}
        best_course = min(best_course, time.perf_counter() - begin)
        begin = time.perf_counter()
        written = generate(ours, [prompts[i] for i in shuffled], new_tokens=NEW_TOKENS)
        best_ours = min(best_ours, time.perf_counter() - begin)
        ids = {i: row[0].ids for i, row in zip(shuffled, written, strict=True)}
        for i in chosen:
            assert plain[i] == ids[i], f"prompt {i}: {plain[i]} one by one, {ids[i]} batched"
    scaled = best_course * count / len(chosen)
    tokens, same = count * NEW_TOKENS, len(chosen) * NEW_TOKENS
    print(f"{count} prompts of {SHORTEST} to {LONGEST} ids, {NEW_TOKENS} new ones each, greedy,")
    print(f"course preset, best of {repeats}; the {same} tokens written by both are equal\n")
    print(f"{'':34}{'seconds':>10}{'tokens/s':>10}{'ratio':>8}")
    label = f"one by one ({len(chosen)} prompts, scaled up)"
    print(f"{label:34}{scaled:10.2f}{tokens / scaled:10,.0f}{1:8.1f}")
    ratio = scaled / best_ours
    print(f"{'attnlab, all at once':34}{best_ours:10.2f}{tokens / best_ours:10,.0f}{ratio:8.1f}\n")


def step_milliseconds(positions: Sequence[int]) -> dict[tuple[str, int], float]:
    """The median step of each mechanism after a prompt of each length."""
    models: dict[str, Decoder] = {}
    states: dict[tuple[str, int], Any] = {}
    times: dict[tuple[str, int], list[float]] = {}
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name in MECHANISMS:
            torch.manual_seed(0)
            config = StackConfig(
                vocabulary=VOCABULARY,
                context=max(positions) + STEPS + 1,
                width=64,
                layers=2,
                heads=4,
                attention=name,
                position="rotary",
            )
            models[name] = Decoder(config).eval()
            for position in positions:
                ids = torch.randint(VOCABULARY, (1, position), generator=generator)  # (1, T)
                states[name, position] = models[name].prefill(ids, torch.tensor([position]))[1]
                times[name, position] = []
        token = torch.tensor([1])  # (1,)
        for _ in range(STEPS):
            for key in states:
                begin = time.perf_counter()
                _, states[key] = models[key[0]].step(token, states[key])
                times[key].append(time.perf_counter() - begin)
    return {key: 1e3 * statistics.median(seconds) for key, seconds in times.items()}


def compare_positions(positions: Sequence[int]) -> None:
    median = step_milliseconds(positions)
    first, last = positions[0], positions[-1]
    print(f"milliseconds of one step, batch 1, 2 layers, width 64, median of {STEPS}\n")
    shown = "".join(f"{position:>10,}" for position in positions)
    print(f"{'at position':16}{shown}{f'{last:,} : {first:,}':>16}")
    for name in MECHANISMS:
        columns = "".join(f"{median[name, position]:10.3f}" for position in positions)
        print(f"{name:16}{columns}{median[name, last] / median[name, first]:16.2f}")
    print(f"\nlinear growth would be {last / first:.0f}, a constant cost 1")


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast models write.")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("--subset", type=int, default=10, help="prompts of the reference")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--positions", type=int, nargs="+", default=POSITIONS)
    given = parser.parse_args()
    if given.prompts % given.subset:
        parser.error(f"--subset is {given.subset}; give a divisor of {given.prompts}")
    torch.set_num_threads(given.threads)
    print(f"{given.threads} thread(s), float32, torch {torch.__version__}\n")
    compare_writing(given.prompts, given.subset, given.repeats)
    compare_positions(given.positions)


if __name__ == "__main__":
    main()
