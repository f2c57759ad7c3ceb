"""Summaries from end to end: rows, training, going on, writing, measuring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab._cache import cache_folder
from attnlab.generate import beam_search, generate
from attnlab.models import Seq2Seq
from attnlab.run_folder import StartMode
from attnlab.tasks.summary import _docstrings as docstrings
from attnlab.tasks.summary import _generation as writing
from attnlab.tasks.summary import _training as recipe
from attnlab.tasks.summary._generation import (
    GeneratedSummary,
    GenerationMethod,
    check_texts,
    is_looping,
    write_summaries,
)
from attnlab.tasks.summary._pairs import Columns, Pair
from attnlab.tasks.summary._presets import SummaryModel
from attnlab.tasks.summary._scoring import evaluate
from attnlab.tasks.summary._task import SummaryTask, collate, make_rows
from attnlab.tasks.summary._token_ids import SummaryTextEncoding
from attnlab.training import Run
from tests.support.command_line import run
from tests.support.examples import examples
from tests.support.summary_runs import TEXT, TINY, encoding, rows, trained, write_rows, written

# Words and rows


def test_a_word_is_the_same_token_in_text_and_summary() -> None:
    words = encoding()
    source, cut = words.encode_source("library here\nlibrary there")
    summary = words.encode_summary("library")
    assert cut == 0
    assert summary[-1] == words.tokenizer.end
    assert source.count(summary[0]) == 2
    assert words.decode_summary(summary[:-1]) == "library"


def test_a_long_text_is_cut_at_its_end() -> None:
    whole, cut = encoding().encode_source(TEXT)
    short, lost = encoding(7).encode_source(TEXT)
    assert cut == 0
    assert short == whole[:7]
    assert lost == len(whole) - 7
    notes = check_texts([TEXT], encoding(7))
    assert notes == [
        f"text 1 has {len(whole)} tokens; this model reads 7: the last {lost} were cut off"
    ]


def test_a_batch_by_hand() -> None:
    pairs = [
        (torch.tensor([5, 6, 7]), torch.tensor([8, 2])),
        (torch.tensor([9]), torch.tensor([2])),
    ]
    batch = collate(pairs, pad=0, begin=2)
    assert batch["source"].tolist() == [[5, 6, 7], [9, 0, 0]]
    assert batch["keys"].tolist() == [[True] * 3, [True, False, False]]
    assert batch["target"].tolist() == [[2, 8], [2, 2]]
    assert batch["labels"].tolist() == [[8, 2], [2, -100]]


def task_of(**changes: Any) -> tuple[SummaryTask, Seq2Seq]:
    pairs, words = [Pair(row["text"], row["summary"]) for row in rows(24)], encoding()
    task = SummaryTask(pairs, pairs, words, smoothing=0.1, about={}, **changes)
    return task, TINY.build(words.tokenizer.vocabulary, 0)


def test_loss_matches_smoothed_targets() -> None:
    task, model = task_of()
    model = model.double()
    batch = task.collate([0, 5, 11], 0)
    logits = model(batch["source"], batch["target"], batch["keys"])
    counted = batch["labels"] >= 0
    own = logits[counted].gather(1, batch["labels"][counted][:, None]).sum()
    assert model.copy is not None
    memory = model.encoder(batch["source"], batch["keys"])
    x = model.decoder(batch["target"], None, memory, batch["keys"])
    spread = model.head(x[counted]).log_softmax(1).mean(1).sum()
    wanted = -(0.9 * own + 0.1 * spread).item()
    assert task.loss(model, batch).item() == pytest.approx(wanted, rel=1e-5)
    assert task.targets(batch) == int(counted.sum())


def test_padding_does_not_change_the_loss() -> None:
    task, model = task_of()
    together = task.loss(model, task.collate([0, 7, 19], 0)).item()
    alone = sum(task.loss(model, task.collate([row], 0)).item() for row in (0, 7, 19))
    assert together == pytest.approx(alone, rel=1e-4)


def test_summaries_too_long_to_learn_are_counted() -> None:
    pairs = [Pair("some text", "short"), Pair("some text", "word " * 30)]
    task_rows, left_out = make_rows(pairs, encoding())
    assert (len(task_rows), left_out) == (1, 1)


def test_error_if_no_summary_can_be_measured() -> None:
    pairs = [Pair(row["text"], row["summary"]) for row in rows(24)]
    long = [Pair("some text", "word " * 30)]
    task = SummaryTask(
        pairs, long, encoding(), smoothing=0.1, about={}, extra_metrics=lambda _: {"rougeL": 3.0}
    )
    assert task.unmeasured == 1
    assert task.evaluate(TINY.build(400, 0)) == {"rougeL": 3.0}  # no loss of 0
    with pytest.raises(ValueError, match="too long for the model"):
        SummaryTask(pairs, long, encoding(), smoothing=0.1, about={})


# A run


def test_limit_takes_pairs_evenly() -> None:
    pairs = [Pair(str(i), "") for i in range(10)]
    assert [each.text for each in recipe.take_evenly(pairs, 7)] == list("0124578")
    assert [each.text for each in recipe.take_evenly(pairs, 3)] == list("036")
    assert (
        recipe.take_evenly(pairs, None)
        == recipe.take_evenly(pairs, 10)
        == recipe.take_evenly(pairs, 99)
    )
    assert recipe.take_evenly(pairs, 10) == pairs


def test_a_run_records_its_metrics() -> None:
    checked = [row["step"] for row in Run(trained()).metrics() if "validation" in row]
    assert checked == pytest.approx([60 * part / 8 for part in range(1, 9)], abs=1)
    assert recipe.resolve_settings({"steps": 9, "evaluate_every": 4}).evaluations is None


def test_a_trained_run_scores_well() -> None:
    evaluation = evaluate(trained(), quiet=True)
    assert evaluation.scores["model"].mean["rougeL"] > 90
    assert evaluation.scores["best words in order"].mean["rougeL"] == 100
    assert 20 < evaluation.scores["first words"].mean["rougeL"] < 90
    assert evaluation.ratio is not None
    assert evaluation.ratio > 1.2
    assert (evaluation.unfinished, evaluation.looping, evaluation.cut) == (0, 0, 0)
    assert evaluation.accuracy is not None
    assert evaluation.accuracy > 0.9
    config = Run(trained()).config()
    assert config["task"]["first_words"] == evaluation.first_words
    assert {"loss", "accuracy", "rougeL"} <= Run(trained()).metrics()[-1]["validation"].keys()


def test_more_steps_keep_the_warmup(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "rows.jsonl", 90)
    for steps in (10, 20):
        recipe.train(
            data, out=tmp_path / "a", training={"batch_tokens": 512, "steps": steps}, model=TINY,
            columns=Columns(group="group"), held_out=0.1, quiet=True,
            start=StartMode.RESUME if steps > 10 else StartMode.NEW,
        )  # fmt: skip
        assert Run(tmp_path / "a").config()["training"]["warmup_steps"] == 2
    assert len(Run(tmp_path / "a").metrics()) == 20


def test_a_run_resumes(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "columns": Columns(group="group"), "held_out": 0.1, "model": TINY, "quiet": True,
    }  # fmt: skip
    data = write_rows(tmp_path / "rows.jsonl", 90)
    training = {"batch_tokens": 512, "schedule": "constant", "warmup_steps": 2}
    recipe.train(data, out=tmp_path / "a", training={**training, "steps": 6}, **settings)
    recipe.train(data, out=tmp_path / "b", training={**training, "steps": 3}, **settings)
    recipe.train(
        data,
        out=tmp_path / "b",
        training={**training, "steps": 6},
        start=StartMode.RESUME,
        **settings,
    )
    one, other = (Run(tmp_path / name).model().state_dict() for name in "ab")
    assert all(torch.equal(one[name], other[name]) for name in one)
    changed = write_rows(tmp_path / "rows.jsonl", 91)
    with pytest.raises(ValueError, match="resume with the same"):
        recipe.train(changed, out=tmp_path / "b", training={**training, "steps": 9},
                     start=StartMode.RESUME, **settings)  # fmt: skip
    with pytest.raises(ValueError, match="another version"):
        evaluate(tmp_path / "b", quiet=True)
    with pytest.raises(ValueError, match="already holds a run"):
        recipe.train(changed, out=tmp_path / "b", **settings)


@pytest.mark.usefixtures("few_docstrings")
def test_docstrings_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The default source."""
    tiny = "--steps 3 --batch-tokens 512 --width 32 --vocabulary 500 --text-tokens 32 "
    code, out, err = run(f"summary train {tiny} --held-out 0.1 --out {tmp_path}/run", capsys)
    assert code == 0, err
    assert "trained; validation loss" in out
    code, out, err = run(f"summary evaluate {tmp_path}/run --json", capsys)
    assert code == 0, err
    evaluation = json.loads(out)
    assert evaluation["measured_on"] == "test pairs of docstrings"
    assert set(evaluation["scores"]) == {"model", "first words", "best words in order"}


@pytest.mark.usefixtures("few_docstrings")
def test_docstrings_that_changed_are_still_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package was upgraded: the run's own pairs are found by what they are."""
    settings: dict[str, Any] = {"out": tmp_path / "run", "held_out": 0.1, "model": TINY}
    recipe.train(training={"steps": 2, "batch_tokens": 512}, quiet=True, **settings)
    before = evaluate(tmp_path / "run", quiet=True)
    usual = docstrings.sources
    monkeypatch.setattr(docstrings, "sources", lambda: list(usual())[::2])
    now = recipe.load_summary_data("docstrings", held_out=0.1, quiet=True)  # kept too, and newer
    assert now.about["pairs"] != Run(tmp_path / "run").config()["task"]["pairs"]
    after = evaluate(tmp_path / "run", quiet=True)
    assert after.pairs == before.pairs
    recipe.train(
        training={"steps": 3, "batch_tokens": 512, "warmup_steps": 1},
        start=StartMode.RESUME,
        quiet=True,
        **settings,
    )
    for path in cache_folder("summary").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match="another version"):
        evaluate(tmp_path / "run", quiet=True)


@pytest.mark.parametrize("encoder", ["favor:features=16", "linformer", "bigbird"])
def test_any_mechanism_can_be_trained(encoder: str, tmp_path: Path) -> None:
    model = SummaryModel(
        vocabulary=400, text_tokens=48, summary_tokens=12, width=32, encoder_layers=1,
        decoder_layers=1, attention=encoder, decoder_attention="elu", cross_attention="favor",
    )  # fmt: skip
    metrics = recipe.train(
        write_rows(tmp_path / "rows.jsonl", 40), out=tmp_path / "run", model=model, held_out=0.2,
        training={"steps": 2, "batch_tokens": 512}, quiet=True,
    )  # fmt: skip
    assert metrics["loss"] > 0
    loaded, words, _ = recipe.load_summary(tmp_path / "run")
    for each in write_summaries(loaded, words, [TEXT], GenerationMethod(count=2))[0]:
        assert 0 < len(each.ids) <= 12
        assert each.log_probability == pytest.approx(
            known_likelihood(loaded, words, each), abs=1e-3
        )


# Writing


def test_a_summary() -> None:
    ((summary,),) = written([TEXT])
    assert summary.text == "tool for maps"
    assert summary.finished
    assert summary.log_probability < 0


def test_batched_summaries_match_single_ones() -> None:
    texts = [row["text"] for row in rows(9)] + ["A game for mail and more, and more, and more."]
    for method in ({}, {"beams": 1}, {"beams": 3}):
        together = written(texts, **method)
        for text, each in zip(texts, together, strict=True):
            ((alone,),) = written([text], **method)
            assert (each[0].text, each[0].finished) == (alone.text, alone.finished)
            assert each[0].log_probability == pytest.approx(alone.log_probability, abs=1e-4)


def test_one_beam_is_greedy() -> None:
    texts, (model, words, _) = [row["text"] for row in rows(8)], recipe.load_summary(trained())
    for text, (one,) in zip(texts, written(texts, beams=1, block_repeats=0), strict=True):
        context = {"source": torch.tensor([words.encode_source(text)[0]])}
        ((other,),) = beam_search(
            model, [[words.tokenizer.end]], new_tokens=words.longest_summary, width=1,
            stop=words.tokenizer.end, context=context,
        )  # fmt: skip
        assert one.ids == other.ids


def test_several_different_summaries_with_their_likelihood() -> None:
    ways: list[dict[str, Any]] = [
        {"beams": 6, "length_penalty": 0.0}, {"length_penalty": 2.0}, {"temperature": 1.5},
        {"max_new_tokens": 2, "temperature": 2.0}, {"max_new_tokens": 2},
    ]  # fmt: skip
    for method in ways:
        (summaries,) = written([TEXT], count=3, **method)
        assert len({each.text for each in summaries}) == len(summaries) == 3
        if "temperature" not in method:  # what loops or has no end comes last
            good = [each for each in summaries if each.finished and not is_looping(each.text)]
            assert good == summaries[: len(good)]
            assert good == sorted(good, key=lambda each: -each.score)
            for each in summaries:
                length = len(each.ids) + each.finished
                known = each.log_probability / length ** method.get("length_penalty", 1.0)
                assert each.score == pytest.approx(known)
        model, words, _ = recipe.load_summary(trained())
        for each in summaries:
            assert each.log_probability == pytest.approx(
                known_likelihood(model, words, each), abs=1e-3
            )
    assert not all(each.finished for each in written([TEXT], count=3, max_new_tokens=2)[0])


def known_likelihood(model: Seq2Seq, words: SummaryTextEncoding, each: GeneratedSummary) -> float:
    """Of a summary of TEXT, read at once; its end counts if it was written."""
    end = words.tokenizer.end
    labels = [*each.ids, *[end] * each.finished]
    target = torch.tensor([[end, *each.ids][: len(labels)]])
    with torch.no_grad():
        source = torch.tensor([words.encode_source(TEXT)[0]])
        known = model(source, target, labels=torch.tensor([labels]))
    return float(known[:, 0].sum())


def collect_callbacks(
    texts: list[str], method: GenerationMethod
) -> tuple[Any, dict[int, list[list[int]]], int]:
    """What is returned, what a listener was told last of each text, and how often all anew."""
    model, words, _ = recipe.load_summary(trained())
    received: dict[int, list[list[int]]] = {number: [] for number in range(len(texts))}
    anew = 0

    def on_token(text: int, place: int, token: int) -> None:
        assert place < method.count
        received[text] += [[] for _ in range(place + 1 - len(received[text]))]
        if token != words.tokenizer.end:
            received[text][place].append(token)

    def on_best(text: int, several: list[list[int]]) -> None:
        nonlocal anew
        assert len(several) <= method.count
        received[text], anew = [list(ids) for ids in several], anew + 1

    return (
        write_summaries(model, words, texts, method, on_token=on_token, on_best=on_best),
        received,
        anew,
    )


@pytest.mark.parametrize(
    "method",
    [
        GenerationMethod(beams=1),
        GenerationMethod(beams=3),
        GenerationMethod(count=3),
        GenerationMethod(count=2, temperature=1.0),
        GenerationMethod(count=4, temperature=0.8, seed=5),
        GenerationMethod(temperature=30.0, max_new_tokens=3),
    ],
)
def test_callbacks_receive_the_returned_summaries(method: GenerationMethod) -> None:
    """Of texts in any order, by their numbers."""
    texts = [row["text"] for row in rows(5)] + ["A game for mail and more, and more, and more."]
    returned, received, anew = collect_callbacks(texts, method)
    for number, several in enumerate(returned):
        assert received[number] == [each.ids for each in several]
    model, words, _ = recipe.load_summary(trained())
    assert returned == write_summaries(model, words, texts, method)  # nobody listens
    if method.count == 4:
        assert anew  # some were alike, so that this was tried


def test_samples_are_the_first_distinct_ones() -> None:
    """Samples, not the likeliest of many: each is what its own number draws."""
    texts, method = (
        [row["text"] for row in rows(4)],
        GenerationMethod(count=4, temperature=0.9, seed=1),
    )
    model, words, _ = recipe.load_summary(trained())
    for text, summaries in zip(texts, write_summaries(model, words, texts, method), strict=True):
        ((draws),) = generate(
            model, [[words.tokenizer.end]], new_tokens=words.longest_summary, samples=16,
            stop=words.tokenizer.end, sampling=method.sampling(), keys=writing._text_keys([text]),
            block_repeats=3, context={"source": torch.tensor([words.encode_source(text)[0]])},
        )  # fmt: skip
        different = list(dict.fromkeys(words.decode_summary(each.ids) for each in draws))
        assert [each.text for each in summaries] == different[:4]


def test_samples_depend_on_the_seed() -> None:
    texts = [row["text"] for row in rows(5)]
    method: dict[str, Any] = {"temperature": 2.0, "top_k": 50, "top_p": 0.95}
    one, same = (written(texts, seed=3, **method) for _ in range(2))
    assert one == same
    assert one != written(texts, seed=4, **method)


@given(st.permutations(range(6)), st.integers(1, 6), st.sampled_from([1, 3]))
@examples(8)
def test_samples_do_not_depend_on_other_texts(order: list[int], most: int, count: int) -> None:
    texts = [row["text"] for row in rows(5)] + ["A game for mail and more, and more, and more."]
    method = {"temperature": 1.5, "count": count, "seed": 9}
    chosen = [texts[i] for i in order[:most]]
    for text, among in zip(chosen, written(chosen, **method), strict=True):
        (alone,) = written([text], **method)
        assert [each.text for each in among] == [each.text for each in alone]


def test_equal_texts_get_different_samples() -> None:
    one, other = written([TEXT, TEXT], temperature=3.0, seed=2)
    assert one != other
    ((alone,),) = written([TEXT], temperature=3.0, seed=2)
    assert one[0].ids == alone.ids


def test_repeats_can_be_blocked() -> None:
    model, words, _ = recipe.load_summary(trained())
    context = {"source": torch.tensor([words.encode_source(TEXT)[0]])}
    free, stopped = (
        generate(model, [[words.tokenizer.end]], new_tokens=40, block_repeats=n, context=context)
        for n in (None, 2)
    )
    pairs = [list(zip(row[0][0].ids, row[0][0].ids[1:], strict=False)) for row in (free, stopped)]
    assert len(set(pairs[0])) < len(pairs[0])
    assert len(set(pairs[1])) == len(pairs[1])


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ({"count": 0}, "count is 0"),
        ({"beams": 2, "temperature": 1.0}, "give one of them"),
        ({"top_k": 3}, "temperature"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"temperature": -1.0}, "temperature is -1"),
        ({"beams": 0}, "beams is 0; give 1 or more"),
        ({"beams": -3}, "beams is -3; give 1 or more"),
        ({"block_repeats": -1}, "block-repeats is -1; give 1 or more, or 0"),
        ({"length_penalty": 0.5, "temperature": 1.0}, "sampling has none"),
        ({"length_penalty": 0.5, "beams": 1}, "there is only one"),
        ({"length_penalty": float("nan")}, "length-penalty is nan"),
        ({"temperature": 1.0, "top_k": 0}, "top_k is 0; give 1 or more, or leave it out"),
        ({"temperature": 1.0, "top_p": 2.0}, "or leave it out"),
    ],
)
def test_invalid_generation_methods(method: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        GenerationMethod(**method)


def test_loops() -> None:
    for text in (
        "a a a library", "tool for the maps tool for the maps", "The the library",
        "tool for maps for maps", "parser for parser for XML", "a b c d e a b c d e",
        "one two three and one two three",
    ):  # fmt: skip
        assert is_looping(text), text
    for text in ("tool for maps and a tool for mail", "", "library", "a b a c a d"):
        assert not is_looping(text), text


@given(
    st.lists(st.sampled_from("abcdefghijkl"), max_size=6),
    st.lists(st.sampled_from("abcdefghijkl"), min_size=1, max_size=9),
    st.lists(st.sampled_from("abcdefghijkl"), max_size=6),
)
def test_immediate_repetitions_are_loops(
    before: list[str], span: list[str], after: list[str]
) -> None:
    assert is_looping(" ".join([*before, *span, *span, *after]))
    assert not is_looping(" ".join(dict.fromkeys([*before, *span, *after])))


def test_looping_summaries_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    (plain,) = written([TEXT], beams=6, count=3)
    worst = plain[0].text
    monkeypatch.setattr(writing, "is_looping", lambda text: text == worst or is_looping(text))
    (summaries,) = written([TEXT], beams=6, count=3)
    bad_rows = [writing.is_looping(each.text) or not each.finished for each in summaries]
    assert bad_rows == sorted(bad_rows)
    assert not bad_rows[0]
    assert summaries[0].text == plain[1].text
