"""Generation with toy models whose every output can be computed in another way.

Letters: B prompts, T tokens of the longest prompt, R rows of the batch, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnlab.generate import Generated, Sampling, TextStreamer, beam_search, generate
from attnlab.generate._sampling import MAX_IDLE_STEPS, _choose
from attnlab.tokenizer import Bytes
from tests.support.toy_generators import (
    LUCK,
    PROMPTS,
    Always,
    CodeState,
    Toy,
    alone,
    chi_square,
    follow,
    repeated,
    same,
)

# Greedy


@pytest.mark.parametrize("stop", [None, 5, (5, 2)])
@pytest.mark.parametrize("seed", range(5))
def test_greedy_equals_the_naive_loop(stop: int | tuple[int, ...] | None, seed: int) -> None:
    model = Toy(seed=seed)
    stops = () if stop is None else (stop,) if isinstance(stop, int) else stop
    results = generate(model, PROMPTS, new_tokens=11, stop=stop)
    for prompt, (each,) in zip(PROMPTS, results, strict=True):
        assert same(each, alone(model, prompt, 11, stops))
    if stop is None:
        assert all(len(each.ids) == 11 and not each.finished for (each,) in results)


def test_of_equal_tokens_the_first_is_greedy() -> None:
    model = Always([0.0, 1.0, 1.0, 1.0, 0.0])
    assert generate(model, [[0]], new_tokens=3)[0][0].ids == [1, 1, 1]
    assert beam_search(model, [[0]], new_tokens=3, width=1)[0][0].ids == [1, 1, 1]


def test_log_probabilities_are_those_of_the_model() -> None:
    model = Toy()
    sampling = Sampling(temperature=1.7, top_k=3, top_p=0.8)
    results = generate(
        model, PROMPTS, new_tokens=9, stop=4, sampling=sampling, samples=3, block_repeats=2
    )
    finished = 0
    for prompt, several in zip(PROMPTS, results, strict=True):
        for each in several:
            read = [*prompt]
            for token, log_probability in zip(
                each.ids + [4] * each.finished, each.log_probabilities, strict=True
            ):
                assert log_probability == pytest.approx(
                    float(model.logits(read).log_softmax(0)[token])
                )
                read.append(token)
            assert each.score == pytest.approx(sum(each.log_probabilities))
            finished += each.finished
    assert 0 < finished < 12


def test_hand_computed_log_probabilities() -> None:
    model = Always([math.log(0.5), math.log(0.3), math.log(0.2)])
    results = generate(model, [[0]], new_tokens=3, block_repeats=1)[0][0]
    assert results.ids == [0, 1, 2]
    assert results.log_probabilities == pytest.approx([math.log(p) for p in (0.5, 0.3, 0.2)])
    assert results.score == pytest.approx(math.log(0.03))


def test_context_reaches_the_prefill() -> None:
    model = Toy()
    results = generate(model, PROMPTS, new_tokens=5, context={"shift": 8})
    assert results != generate(model, PROMPTS, new_tokens=5)
    assert results == beam_search(model, PROMPTS, new_tokens=5, width=1, context={"shift": 8})


def test_half_precision_logits_are_summed_in_more() -> None:
    model = Toy(V=11)
    model.table = model.table.bfloat16()
    results = generate(model, PROMPTS, new_tokens=6)
    model.table = model.table.double()
    for prompt, (each,) in zip(PROMPTS, results, strict=True):
        assert same(each, alone(model, prompt, 6))


def test_no_prompts_give_nothing() -> None:
    assert generate(Toy(), [], new_tokens=3) == []
    assert beam_search(Toy(), [], new_tokens=3, width=2) == []


@pytest.mark.parametrize("training", [True, False])
def test_modes_are_restored_even_after_an_error(training: bool) -> None:
    model = Toy().train(training)
    model.inner.train(not training)
    generate(model, PROMPTS, new_tokens=2)
    assert (model.training, model.inner.training) == (training, not training)

    def fail(*_: Any) -> None:
        raise RuntimeError("the stream was closed")

    with pytest.raises(RuntimeError, match="closed"):
        generate(model, PROMPTS, new_tokens=2, on_token=fail)
    assert (model.training, model.inner.training) == (training, not training)
    assert torch.is_grad_enabled()


# Sampling


def test_other_prompts_change_nothing() -> None:
    model, sampling = Toy(), Sampling(temperature=1.0, top_p=0.95, seed=5)
    together = generate(model, PROMPTS, new_tokens=40, stop=3, sampling=sampling, samples=4)
    lengths = {len(each.ids) for several in together for each in several}
    assert len(lengths) > 5  # so rows were dropped at many different steps
    for count in (1, 2, 3):
        fewer = generate(
            model, PROMPTS[:count], new_tokens=40, stop=3, sampling=sampling, samples=2
        )
        assert fewer == [several[:2] for several in together[:count]]
    others = [PROMPTS[0], [1, 1, 1, 1, 1, 1, 1, 1, 1], PROMPTS[2]]
    results = generate(model, others, new_tokens=40, stop=3, sampling=sampling, samples=4)
    assert [results[0], results[2]] == [together[0], together[2]]
    shorter = generate(model, PROMPTS, new_tokens=6, stop=3, sampling=sampling, samples=4)
    for long, short in zip(chain(*together), chain(*shorter), strict=True):
        assert short.log_probabilities == long.log_probabilities[:6]


def test_seeds_prompts_and_samples_differ() -> None:
    def write(seed: int) -> list[list[Generated]]:
        sampling = Sampling(temperature=1.0, seed=seed)
        return generate(model, [[2], [2]], new_tokens=20, sampling=sampling, samples=2)

    model = Toy()
    results = [each.ids for seed in (0, 1, -1, 2**70 + 5) for each in chain(*write(seed))]
    assert len({tuple(ids) for ids in results}) == 16
    assert write(7) == write(7)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0),
        Sampling(temperature=0.5, seed=1),
        Sampling(temperature=2.0, top_k=4),
        Sampling(temperature=1.0, top_p=0.7),
        Sampling(temperature=1.5, top_k=5, top_p=0.9, seed=3),
    ],
)
def test_frequencies_are_the_filtered_distribution(sampling: Sampling) -> None:
    model = Toy()
    results = generate(model, PROMPTS, new_tokens=1, sampling=sampling, samples=5000)
    for prompt, several in zip(PROMPTS, results, strict=True):
        counts = torch.tensor([each.ids[0] for each in several]).bincount(minlength=7)
        expected = naive_probabilities(model.logits(prompt).tolist(), sampling)
        assert abs(chi_square(counts, torch.tensor(expected, dtype=torch.float64))) < LUCK


def test_samples_are_independent_between_steps_samples_and_prompts() -> None:
    sampling = Sampling(temperature=1.0)
    results = generate(
        Always([0.0] * 5), [[0]] * 2, new_tokens=3, sampling=sampling, samples=10_000
    )
    samples = torch.tensor([[each.ids for each in several] for several in results])  # (B, R, 3)
    even = torch.full((25,), 1 / 25, dtype=torch.float64)
    for first, second in [
        (samples[:, :, 0], samples[:, :, 1]),
        (samples[:, :, 0], samples[:, :, 2]),
        (samples[:, ::2], samples[:, 1::2]),
        (samples[:, 1:, 0], samples[:, :-1, 1]),
        (samples[0], samples[1]),
    ]:
        counts = (first * 5 + second).flatten().bincount(minlength=25)
        assert abs(chi_square(counts, even)) < LUCK


def naive_probabilities(logits: Sequence[float], sampling: Sampling) -> list[float]:
    """The definition, token by token."""
    highest = max(logits)
    weights = [math.exp((each - highest) / sampling.temperature) for each in logits]
    order = sorted(range(len(logits)), key=lambda token: (-weights[token], token))
    order = order[: sampling.top_k]
    total = sum(weights[token] for token in order)
    allowed, mass = [], 0.0
    for token in order:
        if sampling.top_p is not None and mass >= sampling.top_p:
            break
        allowed.append(token)
        mass += weights[token] / total
    return [
        weights[token] / total / mass if token in allowed else 0.0 for token in range(len(logits))
    ]


logit_lists = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=9)


@given(logit_lists, st.integers(1, 12), st.floats(0.2, 5.0))
def test_top_k_keeps_exactly_k_and_the_first_of_equals(
    logits: list[float], top_k: int, temperature: float
) -> None:
    sampling = Sampling(temperature=temperature, top_k=top_k)
    results = sampling.probabilities(torch.tensor([logits]))[0]
    assert int((results > 0).sum()) == min(top_k, len(logits))
    assert results.tolist() == pytest.approx(naive_probabilities(logits, sampling), abs=1e-9)


@given(logit_lists, st.floats(1e-9, 1.0), st.floats(0.2, 5.0), st.integers(1, 12))
def test_top_p_keeps_the_smallest_set_with_that_mass(
    logits: list[float], top_p: float, temperature: float, top_k: int
) -> None:
    whole = Sampling(temperature=temperature, top_k=top_k).probabilities(torch.tensor([logits]))[0]
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    results = sampling.probabilities(torch.tensor([logits]))[0]
    allowed = results > 0
    assert bool(allowed.any())
    assert float(results.sum()) == pytest.approx(1)
    mass, least = float(whole[allowed].sum()), float(whole[allowed].min())
    assert mass >= top_p - 1e-12
    assert mass - least < top_p + 1e-12  # without its least likely token it would be too small
    assert bool((whole[~allowed] <= least).all())
    assert torch.allclose(results[allowed], whole[allowed] / mass)


def test_filters_at_extreme_values() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0, -40.0, 3.0]])
    whole = logits.double().softmax(1)

    def allowed(**settings: Any) -> list[int]:
        results = Sampling(**settings).probabilities(logits)
        return results[0].nonzero()[:, 0].tolist()

    assert allowed(temperature=1.0, top_p=1e-300) == [1]
    assert allowed(temperature=1.0, top_p=0.5) == [1, 4]  # each has just under a half
    assert allowed(temperature=1.0, top_p=1.0) == [0, 1, 2, 3, 4]
    assert allowed(temperature=1.0, top_k=99) == [0, 1, 2, 3, 4]
    assert allowed(temperature=1.0, top_k=1) == [1]
    assert allowed(temperature=5e-324) == [1, 4]
    assert allowed(temperature=0.0) == [1]
    assert torch.allclose(Sampling(temperature=1.0).probabilities(logits), whole)
    assert torch.allclose(
        Sampling(temperature=1e300).probabilities(logits), torch.tensor(0.2).double()
    )


def test_impossible_tokens_are_never_sampled() -> None:
    model = Always([-math.inf, 0.0, -math.inf, 0.0, -math.inf])
    results = generate(model, [[0]], new_tokens=1, sampling=Sampling(temperature=1.0), samples=999)
    assert {each.ids[0] for each in results[0]} == {1, 3}
    # Nor at the ends of the unit interval; 1 itself is what float32 makes of the last numbers.
    ends = torch.tensor([0.0, 0.5, 1.0])
    tokens = _choose(model.table[:3], Sampling(temperature=1.0), ends)
    assert tokens.tolist() == [1, 3, 3]


# Work


def test_finished_rows_leave_the_batch() -> None:
    model = Toy()
    sampling = Sampling(temperature=1.0)
    results = generate(model, PROMPTS * 8, new_tokens=60, stop=3, sampling=sampling, samples=3)
    needed = sum(len(each.log_probabilities) - 1 for several in results for each in several)
    assert model.prefilled == [32]  # once, however many samples
    assert model.selections[0] == 96
    assert sum(model.steps) < 1.35 * needed < 0.5 * 96 * 59
    assert model.steps == sorted(model.steps, reverse=True)
    assert len(model.selections) < len(model.steps)


def test_a_few_finished_rows_leave_too_and_the_last_token_is_not_read() -> None:
    model = Toy(V=8)
    model.table[:, 7] = -99  # no row stops by itself
    model.table[follow(torch.tensor(1), torch.tensor(2)), 7] = 99  # but [2] does at once
    stayers = [[6, a, 5] for a in range(5)]
    results = generate(model, [[2], *stayers], new_tokens=40, stop=7)
    assert [len(each.ids) for (each,) in results] == [0, 40, 40, 40, 40, 40]
    assert model.steps == [6] * MAX_IDLE_STEPS + [5] * (39 - MAX_IDLE_STEPS)
    assert model.selections == [5]


def test_all_rows_finished_ends_the_work() -> None:
    model = Always([0.0, 5.0, 0.0])
    results = generate(model, [[0], [2, 2]], new_tokens=50, stop=1)
    assert model.steps == []
    assert [each.ids for (each,) in results] == [[], []]


def test_the_callback_gets_every_token_in_order() -> None:
    model, calls = Toy(), []
    sampling = Sampling(temperature=1.0)

    def listen(prompt: int, sample: int, token: int, log_probability: float) -> None:
        calls.append((len(model.steps), prompt, sample, token, log_probability))

    results = generate(
        model, PROMPTS, new_tokens=12, stop=3, sampling=sampling, samples=2, on_token=listen
    )
    # Each call comes before the next step of the model, and rows come in order.
    assert [call[:3] for call in calls] == sorted(call[:3] for call in calls)
    for prompt, several in enumerate(results):
        for sample, each in enumerate(several):
            own_calls = [call for call in calls if call[1:3] == (prompt, sample)]
            assert [call[0] for call in own_calls] == list(range(len(own_calls)))
            assert [call[3] for call in own_calls] == each.ids + [3] * each.finished
            assert [call[4] for call in own_calls] == each.log_probabilities
    assert any(each.finished for several in results for each in several)


def test_keys_make_samples_independent_of_other_prompts_and_calls() -> None:
    model, how = Toy(), Sampling(temperature=1.0, seed=7)
    keys = [2**64 - 1, -5, 11]
    options: dict[str, Any] = {"new_tokens": 6, "sampling": how}
    whole = generate(model, PROMPTS[:3], samples=5, keys=keys, **options)
    for prompt, key, several in zip(PROMPTS[:3], keys, whole, strict=True):
        assert generate(model, [prompt], samples=5, keys=[key], **options) == [several]
        late = generate(model, [prompt], samples=3, first_sample=2, keys=[key], **options)
        assert late == [several[2:]]
    assert (
        generate(model, [PROMPTS[0]] * 2, keys=[1, 1], **options)[0]
        == generate(model, [PROMPTS[0]], keys=[1], **options)[0]
    )
    with pytest.raises(ValueError, match="1 keys for 2 prompts"):
        generate(model, PROMPTS[:2], keys=[1], **options)


@given(st.text())
def test_streamed_pieces_join_to_the_text_without_half_characters(text: str) -> None:
    tokens = Bytes()
    pieces = TextStreamer(tokens.decode)
    results = [pieces.add(token) for token in tokens.encode(text)]
    assert "".join(results) + pieces.finish() == text
    assert not pieces.finish()
    assert not any("\ufffd" in piece for piece in results) or "\ufffd" in text


def test_an_incomplete_character_is_returned_at_the_end() -> None:
    tokens = Bytes()
    pieces = TextStreamer(tokens.decode)
    results = [pieces.add(token) for token in tokens.encode("aä")[:-1]]
    assert results == ["a", ""]
    assert pieces.finish() == "\ufffd"


# Repeats


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_is_generated_twice(n: int) -> None:
    model = Toy()
    new_tokens = 7 if n == 1 else 25
    for prompt, (each,) in zip(
        PROMPTS, generate(model, PROMPTS, new_tokens=new_tokens, block_repeats=n), strict=True
    ):
        assert same(each, alone(model, prompt, new_tokens, repeats=n))
        assert not repeated(each.ids, n)
    sampling = Sampling(temperature=1.0)
    for several in generate(
        model, PROMPTS, new_tokens=new_tokens, sampling=sampling, samples=5, block_repeats=n
    ):
        assert not any(repeated(each.ids, n) for each in several)
    for several in beam_search(
        model, PROMPTS, new_tokens=new_tokens, width=5, best=5, block_repeats=n
    ):
        assert len(several) == 5
        assert not any(repeated(each.ids, n) for each in several)


def test_rows_end_while_others_are_blocked() -> None:
    model = Toy()
    results = generate(model, PROMPTS * 3, new_tokens=8, stop=3, block_repeats=1)
    for prompt, (each,) in zip(PROMPTS * 3, results, strict=True):
        assert same(each, alone(model, prompt, 8, [3], repeats=1))


def test_no_token_left_is_an_error() -> None:
    for sampling in (Sampling(), Sampling(temperature=1.0, top_k=3)):
        with pytest.raises(ValueError, match=r"after 7 of 8 new tokens block_repeats=1 leaves no"):
            generate(Toy(), PROMPTS, new_tokens=8, block_repeats=1, sampling=sampling)
    with pytest.raises(ValueError, match=r"beam_search: after 7 of 8 new tokens"):
        beam_search(Toy(), PROMPTS, new_tokens=8, width=3, block_repeats=1)


# Mistakes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompts": [[1], []]}, "prompt 1 is empty; give at least one token"),
        ({"prompts": [1, 2]}, "prompt 0 is the number 1; give a list of prompts"),
        ({"prompts": [[1], [2, 7]]}, "prompt 1 has id 7; give ids from 0 to 6"),
        ({"prompts": [[-1]]}, "prompt 0 has id -1; give ids from 0 to"),
        ({"stop": 7}, "stop has id 7; give ids from 0 to 6"),
        ({"stop": (3, -2)}, "stop has id -2"),
        ({"new_tokens": 0}, "new_tokens is 0; give 1 or more"),
        (
            {"prompts": [[1], [1, 2, 3]], "new_tokens": 10},
            "prompt 1 has 3 tokens and new_tokens is "
            "10, but the model's max_length is 12; 9 new tokens fit after this prompt",
        ),
        ({"prompts": [[1] * 13]}, "; 0 new tokens fit"),
        ({"block_repeats": 0}, "block_repeats is 0; give 1 or more"),
    ],
)
def test_mistakes(changes: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"prompts": [[1], [2]], "new_tokens": 2, **changes}
    calls: list[tuple[Any, dict[str, int]]] = [(generate, {}), (beam_search, {"width": 2})]
    for function, extra in calls:
        with pytest.raises(ValueError, match=f"^{function.__name__}: ") as error:
            function(Toy(max_length=12), **arguments, **extra)
        assert words in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"width": 0}, "width is 0; give 1 or more"),
        ({"width": 2, "best": 3}, "best is 3 and width 2"),
        ({"width": 2, "best": 0}, "best is 0; give 1 or more"),
        ({"width": 2, "length_penalty": math.nan}, "length_penalty is nan"),
    ],
)
def test_mistakes_with_beams(extra: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"beam_search: {words}"):
        beam_search(Toy(), [[1]], new_tokens=2, **extra)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": -0.5}, "temperature is -0.5; give 0"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"top_k": 0}, "top_k is 0; give 1 or more"),
        ({"top_p": 0.0}, "top_p is 0.0; give a number above 0 and up to 1"),
        ({"top_p": 1.01}, "top_p is 1.01"),
        ({"top_p": math.nan}, "top_p is nan"),
    ],
)
def test_mistakes_in_sampling(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"Sampling: {words}"):
        Sampling(**settings)


def test_samples_and_full_length() -> None:
    with pytest.raises(ValueError, match="generate: samples is 0; give 1 or more"):
        generate(Toy(), [[1]], new_tokens=2, samples=0)
    results = generate(Toy(max_length=12), [[1, 2, 3]], new_tokens=9)  # just fits
    assert len(results[0][0].ids) == 9


def test_a_diverged_model_is_named() -> None:
    for sampling in (Sampling(), Sampling(temperature=1.0, top_k=2)):
        with pytest.raises(ValueError, match="logits are NaN"):
            generate(Always([0.0, math.nan, 1.0]), [[1]], new_tokens=2, sampling=sampling)
    with pytest.raises(ValueError, match="logits are NaN"):
        beam_search(Always([0.0, math.inf, 1.0]), [[1]], new_tokens=2, width=2)


def test_an_index_error_inside_the_model_is_not_hidden() -> None:
    class Faulty(Toy):
        def step(self, ids: Tensor, state: CodeState) -> tuple[Tensor, CodeState]:
            raise IndexError(f"no row {len(ids)} in {state}")

        def prefill(self, ids: Tensor, lengths: Tensor, shift: int = 0) -> tuple[Tensor, CodeState]:
            if ids.shape[1] > 1:
                raise IndexError("no such position")
            return super().prefill(ids, lengths, shift)

    with pytest.raises(IndexError, match="no such position"):
        generate(Faulty(), [[1, 2]], new_tokens=2)
    with pytest.raises(IndexError, match="no row 1"):
        generate(Faulty(), [[1]], new_tokens=2)
