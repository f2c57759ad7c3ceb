"""Beam search against brute force and a naive search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab.generate import Generated, beam_search, generate
from attnlab.generate._generation_base import GenerationTask
from attnlab.generate._map_in_threads import BATCH
from tests.support.toy_generators import (
    PROMPTS,
    Always,
    CodeState,
    Toy,
    same,
)


def every_sequence(
    model: Toy, prompt: Sequence[int], new_tokens: int, stop: Sequence[int]
) -> list[Generated]:
    V, results = model.table.shape[1], []
    going = [s for s in range(V) if s not in stop]
    for length in range(new_tokens + 1):
        for ids in product(going, repeat=length):
            for end in [[s] for s in stop] if length < new_tokens else [[]]:
                read, log_p = [*prompt], []
                for token in [*ids, *end]:
                    log_p.append(float(model.logits(read).log_softmax(0)[token]))
                    read.append(token)
                results.append(Generated(list(ids), log_p, bool(end)))
    return results


def ranked(sequences: Sequence[Generated], penalty: float) -> list[Generated]:
    return sorted(sequences, key=lambda each: -each.score / len(each.log_probabilities) ** penalty)


@pytest.mark.parametrize("penalty", [0.0, 1.0, 0.6, 2.0, -0.7])
@pytest.mark.parametrize("stop", [(), (1,), (0, 2)])
def test_a_wide_beam_finds_the_best_of_all(stop: tuple[int, ...], penalty: float) -> None:
    model, prompts = Toy(V=4, seed=3), [[3, 1, 2], [2], [0, 1]]
    results = beam_search(
        model, prompts, new_tokens=4, stop=stop, width=256, best=7, length_penalty=penalty
    )
    for prompt, several in zip(prompts, results, strict=True):
        expected = ranked(every_sequence(model, prompt, 4, stop), penalty)[:7]
        assert len(several) == 7
        for each, right in zip(several, expected, strict=True):
            assert same(each, right)
    assert sum(model.prefilled) == len(prompts)
    assert max(model.steps) <= 3 * 256


@pytest.mark.parametrize("stop", [None, 5, (5, 2)])
@pytest.mark.parametrize("seed", range(7))
def test_one_beam_is_greedy(stop: int | tuple[int, ...] | None, seed: int) -> None:
    model = Toy(seed=seed)
    expected = generate(model, PROMPTS, new_tokens=12, stop=stop)
    model.selections.clear()
    assert beam_search(model, PROMPTS, new_tokens=12, stop=stop, width=1) == expected
    # A state is copied only when a prompt is done and leaves.
    lengths = {len(each.log_probabilities) for (each,) in expected}
    assert len(model.selections) == len(lengths) - 1


def naive_beams(
    model: Toy, prompt: Sequence[int], new_tokens: int, stop: int, width: int, penalty: float
) -> list[Generated]:
    """The definition: no batch, no state and no early stop."""
    live, pool = [Generated()], []
    for _ in range(new_tokens):
        grown = []
        for beam in live:
            log_p = model.logits([*prompt, *beam.ids]).log_softmax(0).tolist()
            grown += [
                Generated([*beam.ids, token], [*beam.log_probabilities, log_p[token]])
                for token in range(len(log_p))
            ]
        grown.sort(key=lambda each: -each.score)
        for each in grown[:width]:
            if each.ids[-1] == stop:
                pool.append(Generated(each.ids[:-1], each.log_probabilities, True))
        live = [each for each in grown if each.ids[-1] != stop][:width]
    return ranked([*pool, *live], penalty)


@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0, -1.0])
@pytest.mark.parametrize("width", [2, 3, 11])
@pytest.mark.parametrize("seed", range(3))
def test_beams_equal_naive_beams(width: int, penalty: float, seed: int) -> None:
    model = Toy(seed=seed)
    results = beam_search(
        model, PROMPTS, new_tokens=9, stop=4, width=width, best=2, length_penalty=penalty
    )
    for prompt, several in zip(PROMPTS, results, strict=True):
        expected = naive_beams(model, prompt, 9, 4, width, penalty)
        assert same(several[0], expected[0])
        assert same(several[1], expected[1])


def test_beams_of_one_prompt_do_not_depend_on_others() -> None:
    model = Toy()
    together = beam_search(model, PROMPTS, new_tokens=10, stop=4, width=3, best=3)
    for prompt, several in zip(PROMPTS, together, strict=True):
        assert [several] == beam_search(model, [prompt], new_tokens=10, stop=4, width=3, best=3)


def test_the_search_ends_when_nothing_can_change() -> None:
    # Stopping at once has 0.9; all else has 0.1 at most and can only lose.
    model = Always([math.log(0.05), math.log(0.9), math.log(0.05)])
    results = beam_search(model, [[0], [2]], new_tokens=50, stop=1, width=3)
    assert [each.finished for (each,) in results] == [True, True]
    assert model.steps == []
    # With penalty 1 a longer answer may still gain: log(0.05 * 0.9) / 2 is below log(0.9), but
    # log(0.05) / 50 is above it.
    beam_search(model, [[0], [2]], new_tokens=50, stop=1, width=3, length_penalty=1.0)
    assert len(model.steps) > 0


def test_a_prompt_that_is_done_leaves_the_batch() -> None:
    model = Toy()
    beam_search(model, PROMPTS * 3, new_tokens=30, stop=4, width=3)
    assert model.steps[0] == 36
    assert model.steps[-1] < 36
    assert all(rows % 3 == 0 for rows in model.steps)


class Fork(Toy):
    """After token 0: stop (1) with 0.6, or 2 with 0.4; after 2 always 1 with 0.9."""

    def prefill(self, ids: Tensor, lengths: Tensor, shift: int = 0) -> tuple[Tensor, CodeState]:
        del shift
        return self.answer(ids.gather(1, lengths[:, None] - 1)[:, 0])

    def step(self, ids: Tensor, state: CodeState) -> tuple[Tensor, CodeState]:
        del state
        return self.answer(ids)


def test_the_length_penalty_changes_the_choice_as_by_hand() -> None:
    model = Fork(V=3)
    rows = [[1e-9, 0.6, 0.4], [1e-9, 1e-9, 1.0], [1e-9, 0.9, 0.1]]
    model.table = torch.tensor(rows, dtype=torch.float64).log()

    def choice(penalty: float) -> tuple[list[int], bool]:
        results = beam_search(model, [[0]], new_tokens=2, stop=1, width=2, length_penalty=penalty)[
            0
        ][0]
        return results.ids, results.finished

    # log 0.6 = -0.511 against log 0.36 = -1.022: exactly twice as much, to six digits, so that
    # the longer one wins as soon as 2 ** penalty is above 2.00001.
    ratio = math.log(0.4 * 0.9) / math.log(0.6)
    assert ratio == pytest.approx(2)
    assert choice(0.0) == ([], True)
    assert choice(0.99) == ([], True)
    assert choice(1.01) == ([2], True)
    assert choice(-1.0) == ([], True)


def test_fewer_hypotheses_than_requested_if_there_are_no_more() -> None:
    results = beam_search(Always([0.0, 1.0]), [[0]], new_tokens=2, stop=0, width=9, best=9)[0]
    assert [each.ids for each in results] == [[1, 1], [], [1]]


def test_a_vocabulary_of_only_stops() -> None:
    results = beam_search(Always([0.0, 1.0]), [[0]], new_tokens=4, stop=(0, 1), width=2, best=2)[0]
    assert [each.ids for each in results] == [[], []]
    assert results[0].score > results[1].score


# Progress callbacks


def test_the_best_so_far_are_reported_after_each_step() -> None:
    """Finished and live sequences ranked by score, and at the end those that are returned."""
    model, prompts = Toy(V=4, seed=3), [[3, 1, 2], [2], [0, 1]]
    events: list[tuple[int, list[list[int]]]] = []
    options: dict[str, Any] = {"new_tokens": 4, "stop": 1, "width": 256, "best": 5}
    results = beam_search(model, prompts, **options, on_best=lambda *x: events.append(x))
    assert results == beam_search(model, prompts, **options)
    for number, prompt in enumerate(prompts):
        own_events = [several for prompt_index, several in events if prompt_index == number]
        assert own_events[-1] == [each.ids for each in results[number]]
        for step, several in enumerate(own_events[:-1], 1):
            live = list(product([0, 2, 3], repeat=step))
            ended = [
                (*ids, 1) for length in range(step) for ids in product([0, 2, 3], repeat=length)
            ]
            ranked = sorted([*live, *ended], key=lambda ids: -likelihood(model, prompt, ids))
            assert several == [[i for i in ids if i != 1] for ids in ranked[:5]]


def likelihood(model: Toy, prompt: Sequence[int], ids: Sequence[int]) -> float:
    read, total = [*prompt], 0.0
    for token in ids:
        total += float(model.logits(read).log_softmax(0)[token])
        read.append(token)
    return total


def test_a_finished_search_reports_nothing_more() -> None:
    events: list[tuple[int, list[list[int]]]] = []
    results = beam_search(
        Toy(V=5), [PROMPTS[0], [1]], new_tokens=9, stop=(0, 1, 2), width=1,
        on_best=lambda *x: events.append(x),
    )  # fmt: skip
    for number, (each,) in enumerate(results):
        own_events = [several for prompt_index, several in events if prompt_index == number]
        assert own_events[-1] == [each.ids]
        assert own_events[:-1] == [[each.ids[: n + 1]] for n in range(len(own_events) - 1)]


def test_many_prompts_are_searched_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model, width = Toy(), 3
    prompts = [[i % 7, i % 5, *[1] * (i % 4)] for i in range(300)]
    checked: list[int] = []
    check = GenerationTask._check_ids

    def counted(task: GenerationTask, indices: Sequence[int], V: int | None) -> None:
        checked.append(len(indices))
        check(task, indices, V)

    monkeypatch.setattr(GenerationTask, "_check_ids", counted)
    results = beam_search(model, prompts, new_tokens=3, width=width, best=2)
    assert max(model.prefilled) <= BATCH // width
    assert max(model.steps) <= BATCH
    assert sum(checked) == 2 * len(prompts)  # once without and once with the vocabulary
    for prompt, result in list(zip(prompts, results, strict=True))[::29]:
        (alone,) = beam_search(model, [prompt], new_tokens=3, width=width, best=2)
        assert all(same(a, b) for a, b in zip(result, alone, strict=True))
