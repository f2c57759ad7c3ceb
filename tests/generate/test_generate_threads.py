"""Generation for many prompts on several threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from attnlab.generate import Sampling, generate
from attnlab.generate._map_in_threads import map_in_threads
from attnlab.models import Decoder, StackConfig
from tests.support.summary_runs import rows, written


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def make_decoder() -> Decoder:
    torch.manual_seed(0)
    config = StackConfig(vocabulary=20, context=32, width=16, layers=2, heads=2, dropout=0.5)
    return Decoder(config).train()  # dropout would be seen


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, seed=3)])
def test_many_prompts_equal_one_by_one(sampling: Sampling) -> None:
    model = make_decoder()
    prompts = [[1 + i % 7, 2, 3 + i % 5][: 1 + i % 3] for i in range(300)]
    results = generate(model, prompts, new_tokens=9, stop=4, sampling=sampling, samples=2)
    torch.set_num_threads(1)
    assert [[row.ids for row in rows] for rows in results] == [
        [row.ids for row in rows]
        for rows in generate(model, prompts, new_tokens=9, stop=4, sampling=sampling, samples=2)
    ]


def test_all_threads_are_used_and_restored() -> None:
    model, names = make_decoder(), set()
    together = threading.Barrier(2, timeout=60)  # broken if one came after the other

    def work(part: int) -> int:
        assert torch.get_num_threads() == 1
        assert not model.training
        if part < 2:
            together.wait()
        names.add(threading.current_thread().name)
        return part * part

    assert map_in_threads(model, work, range(5)) == [0, 1, 4, 9, 16]
    assert len(names) == 2
    assert threading.current_thread().name not in names
    assert torch.get_num_threads() == 2
    assert model.training


def test_a_failure_is_raised_and_nothing_changed() -> None:
    model = make_decoder()

    def work(part: int) -> None:
        raise ValueError(f"part {part} is broken")

    with pytest.raises(ValueError, match="part 0 is broken"):
        map_in_threads(model, work, range(50))
    assert torch.get_num_threads() == 2
    assert model.training
    with pytest.raises(ValueError, match="ids from 0 to 19"):
        generate(model, [[1]] * 200 + [[99]], new_tokens=2)


def test_autocast_stays_in_this_thread() -> None:
    """Autocast applies only to the thread that enabled it."""
    flags = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        map_in_threads(
            make_decoder(), lambda _: flags.append(torch.is_autocast_enabled("cpu")), range(3)
        )
    assert flags == [True] * 3


def test_callbacks_get_one_group_after_the_other() -> None:
    events: list[tuple[int, str]] = []
    prompts = [[1 + i % 5] for i in range(200)]

    def listen(prompt: int, sample: int, token: int, log_probability: float) -> None:
        del sample, token, log_probability
        events.append((prompt, threading.current_thread().name))

    generate(make_decoder(), prompts, new_tokens=2, on_token=listen)
    assert {name for _, name in events} == {threading.current_thread().name}
    assert len(events) == 400


@pytest.mark.parametrize("options", [{"beams": 1}, {"beams": 3}, {"temperature": 1.0, "count": 2}])
def test_many_summaries_equal_those_of_one_thread(options: dict[str, Any]) -> None:
    texts = [row["text"] for row in rows(150)]
    results = written(texts, **options)
    torch.set_num_threads(1)
    assert [[each.ids for each in several] for several in results] == [
        [each.ids for each in several] for several in written(texts, **options)
    ]
