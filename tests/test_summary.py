"""Summaries from end to end: rows, training, going on, writing, measuring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.generate import beam_search, generate
from attnlab.models import Seq2Seq
from attnlab.tasks.summary import docstrings, recipe, sources, writing
from attnlab.tasks.summary.pairs import Columns, Pair
from attnlab.tasks.summary.presets import SummaryModel
from attnlab.tasks.summary.scoring import evaluate
from attnlab.tasks.summary.task import SummaryTask, collate, rows_of
from attnlab.tasks.summary.writing import Way, check_texts, loops, write_all
from attnlab.training import Run
from tests.commands import run
from tests.summaries import TEXT, TINY, rows, trained, wording, write_rows, written

# Words and rows


def test_a_word_is_the_same_token_in_text_and_summary() -> None:
    words = wording()
    source, cut = words.source("library here\nlibrary there")
    summary = words.summary("library")
    assert cut == 0
    assert summary[-1] == words.tokenizer.end
    assert source.count(summary[0]) == 2
    assert words.read(summary[:-1]) == "library"


def test_a_long_text_is_cut_at_its_end() -> None:
    whole, cut = wording().source(TEXT)
    short, lost = wording(7).source(TEXT)
    assert cut == 0
    assert short == whole[:7]
    assert lost == len(whole) - 7
    notes = check_texts([TEXT], wording(7))
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
    pairs, words = [Pair(row["text"], row["summary"]) for row in rows(24)], wording()
    task = SummaryTask(pairs, pairs, words, smoothing=0.1, about={}, **changes)
    return task, TINY.build(words.tokenizer.vocabulary, 0)


def test_the_loss_is_that_of_smoothed_targets() -> None:
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


def test_padding_changes_no_loss() -> None:
    task, model = task_of()
    together = task.loss(model, task.collate([0, 7, 19], 0)).item()
    alone = sum(task.loss(model, task.collate([row], 0)).item() for row in (0, 7, 19))
    assert together == pytest.approx(alone, rel=1e-4)


def test_summaries_too_long_to_learn_are_counted() -> None:
    pairs = [Pair("some text", "short"), Pair("some text", "word " * 30)]
    found, left_out = rows_of(pairs, wording())
    assert (len(found), left_out) == (1, 1)


def test_nothing_is_measured_of_nothing() -> None:
    pairs = [Pair(row["text"], row["summary"]) for row in rows(24)]
    long = [Pair("some text", "word " * 30)]
    task = SummaryTask(
        pairs, long, wording(), smoothing=0.1, about={}, besides=lambda _: {"rougeL": 3.0}
    )
    assert task.unmeasured == 1
    assert task.evaluate(TINY.build(400, 0)) == {"rougeL": 3.0}  # no loss of 0
    with pytest.raises(ValueError, match="short enough"):
        SummaryTask(pairs, long, wording(), smoothing=0.1, about={})


# A run


def test_a_limit_takes_evenly() -> None:
    pairs = [Pair(str(i), "") for i in range(10)]
    assert [each.text for each in recipe.evenly(pairs, 7)] == list("0124578")
    assert [each.text for each in recipe.evenly(pairs, 3)] == list("036")
    assert recipe.evenly(pairs, None) == recipe.evenly(pairs, 10) == recipe.evenly(pairs, 99)
    assert recipe.evenly(pairs, 10) == pairs


def test_a_run_has_a_curve() -> None:
    checked = [row["step"] for row in Run(trained()).metrics() if "validation" in row]
    assert checked == pytest.approx([60 * part / 8 for part in range(1, 9)], abs=1)
    assert recipe.settled({"steps": 9, "evaluate_every": 4}).evaluations is None


def test_what_was_learned() -> None:
    found = evaluate(trained(), quiet=True)
    assert found.scores["model"].mean["rougeL"] > 90
    assert found.scores["best words in order"].mean["rougeL"] == 100
    assert 20 < found.scores["first words"].mean["rougeL"] < 90
    assert found.ratio is not None
    assert found.ratio > 1.2
    assert (found.unfinished, found.looping, found.cut) == (0, 0, 0)
    assert found.accuracy is not None
    assert found.accuracy > 0.9
    config = Run(trained()).config()
    assert config["task"]["first_words"] == found.first_words
    assert {"loss", "accuracy", "rougeL"} <= Run(trained()).metrics()[-1]["validation"].keys()


def test_a_run_goes_on(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "columns": Columns(group="group"), "held_out": 0.1, "model": TINY, "quiet": True,
    }  # fmt: skip
    data = write_rows(tmp_path / "rows.jsonl", 90)
    training = {"batch_tokens": 512, "schedule": "constant", "warmup": 2}
    recipe.train(data, out=tmp_path / "a", training={**training, "steps": 6}, **settings)
    recipe.train(data, out=tmp_path / "b", training={**training, "steps": 3}, **settings)
    recipe.train(
        data, out=tmp_path / "b", training={**training, "steps": 6}, resume=True, **settings
    )
    one, other = (Run(tmp_path / name).model().state_dict() for name in "ab")
    assert all(torch.equal(one[name], other[name]) for name in one)
    changed = write_rows(tmp_path / "rows.jsonl", 91)
    with pytest.raises(ValueError, match="resume with the same"):
        recipe.train(changed, out=tmp_path / "b", training={**training, "steps": 9},
                     resume=True, **settings)  # fmt: skip
    with pytest.raises(ValueError, match="another version"):
        evaluate(tmp_path / "b", quiet=True)
    with pytest.raises(ValueError, match="holds a run already"):
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
    found = json.loads(out)
    assert found["measured_on"] == "test pairs of docstrings"
    assert set(found["scores"]) == {"model", "first words", "best words in order"}


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
    now = recipe.material("docstrings", held_out=0.1, quiet=True)  # kept too, and newer
    assert now.about["pairs"] != Run(tmp_path / "run").config()["task"]["pairs"]
    after = evaluate(tmp_path / "run", quiet=True)
    assert after.pairs == before.pairs
    recipe.train(
        training={"steps": 3, "batch_tokens": 512, "warmup": 1}, resume=True, quiet=True, **settings
    )
    for path in sources.cache_folder().iterdir():
        path.unlink()
    with pytest.raises(ValueError, match="another version"):
        evaluate(tmp_path / "run", quiet=True)


@pytest.mark.parametrize("encoder", ["favor:features=16", "linformer", "bigbird"])
def test_any_mechanism_reads(encoder: str, tmp_path: Path) -> None:
    model = SummaryModel(
        vocabulary=400, text_tokens=48, summary_tokens=12, width=32, encoder_layers=1,
        decoder_layers=1, attention=encoder, decoder_attention="elu", cross_attention="favor",
    )  # fmt: skip
    found = recipe.train(
        write_rows(tmp_path / "rows.jsonl", 40), out=tmp_path / "run", model=model, held_out=0.2,
        training={"steps": 2, "batch_tokens": 512}, quiet=True,
    )  # fmt: skip
    assert found["loss"] > 0
    if encoder != "bigbird":
        return
    loaded, words, _ = recipe.load_summary(tmp_path / "run")
    assert write_all(loaded, words, [TEXT])[0][0].ids is not None


# Writing


def test_a_summary() -> None:
    ((found,),) = written([TEXT])
    assert found.text == "tool for maps"
    assert found.finished
    assert found.log_probability < 0


def test_many_texts_are_written_as_one_by_one() -> None:
    texts = [row["text"] for row in rows(9)] + ["A game for mail and more, and more, and more."]
    for way in ({}, {"beams": 1}, {"beams": 3}):
        together = written(texts, **way)
        for text, each in zip(texts, together, strict=True):
            ((alone,),) = written([text], **way)
            assert (each[0].text, each[0].finished) == (alone.text, alone.finished)
            assert each[0].log_probability == pytest.approx(alone.log_probability, abs=1e-4)


def test_one_beam_is_greedy() -> None:
    texts, (model, words, _) = [row["text"] for row in rows(8)], recipe.load_summary(trained())
    for text, (one,) in zip(texts, written(texts, beams=1, block_repeats=0), strict=True):
        context = {"source": torch.tensor([words.source(text)[0]])}
        ((other,),) = beam_search(
            model, [[words.tokenizer.end]], new_tokens=words.longest_summary, width=1,
            stop=words.tokenizer.end, context=context,
        )  # fmt: skip
        assert one.ids == other.ids


def test_several_different_summaries_with_their_likelihood() -> None:
    for way in ({"beams": 6, "length_penalty": 0.0}, {"temperature": 1.5}):
        (found,) = written([TEXT], count=3, **way)
        assert len({each.text for each in found}) == len(found) == 3
        assert found == sorted(found, key=lambda each: -each.log_probability)
        model, words, _ = recipe.load_summary(trained())
        for each in found:
            target = torch.tensor([[words.tokenizer.end, *each.ids]])
            labels = torch.tensor([[*each.ids, words.tokenizer.end]])
            with torch.no_grad():
                known = model(torch.tensor([words.source(TEXT)[0]]), target, labels=labels)
            if each.finished:
                assert each.log_probability == pytest.approx(float(known[:, 0].sum()), abs=1e-3)


def test_tokens_are_told_while_they_are_written() -> None:
    """Of texts in any order, by their numbers."""
    texts = [row["text"] for row in rows(5)] + ["A game for mail and more, and more, and more."]
    model, words, _ = recipe.load_summary(trained())
    for way in (Way(beams=1), Way(count=2, temperature=1.0)):
        told: dict[tuple[int, int], list[int]] = {}

        def listen(text: int, draw: int, token: int, told: Any = told) -> None:
            told.setdefault((text, draw), []).append(token)

        found = write_all(model, words, texts, way, on_token=listen)
        assert {text for text, _ in told} == set(range(len(texts)))
        end = words.tokenizer.end
        for number, several in enumerate(found):
            mine = [ids for (text, _), ids in told.items() if text == number]
            for each in several:
                assert [*each.ids, *[end] * each.finished] in mine
    best: dict[int, list[int]] = {}
    found = write_all(model, words, texts, Way(beams=3), on_best=best.__setitem__)
    for number, (each,) in enumerate(found):
        # the last that was told had one token to come, or was overtaken by one that had ended
        assert each.ids[: len(best[number])] == best[number] or len(best[number]) >= len(each.ids)


def test_draws_follow_their_seed() -> None:
    texts = [row["text"] for row in rows(5)]
    way: dict[str, Any] = {"temperature": 2.0, "top_k": 50, "top_p": 0.95}
    one, same = (written(texts, seed=3, **way) for _ in range(2))
    assert one == same
    assert one != written(texts, seed=4, **way)


def test_repeats_can_be_blocked() -> None:
    model, words, _ = recipe.load_summary(trained())
    context = {"source": torch.tensor([words.source(TEXT)[0]])}
    free, stopped = (
        generate(model, [[words.tokenizer.end]], new_tokens=40, block_repeats=n, context=context)
        for n in (None, 2)
    )
    pairs = [list(zip(row[0][0].ids, row[0][0].ids[1:], strict=False)) for row in (free, stopped)]
    assert len(set(pairs[0])) < len(pairs[0])
    assert len(set(pairs[1])) == len(pairs[1])


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ({"count": 0}, "count is 0"),
        ({"beams": 2, "temperature": 1.0}, "give one of them"),
        ({"top_k": 3}, "temperature"),
        ({"tokens": 0}, "tokens is 0"),
        ({"temperature": -1.0}, "temperature is -1"),
    ],
)
def test_ways_that_cannot_be(way: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Way(**way)


def test_loops() -> None:
    assert loops("a a a library")
    assert loops("tool for the maps tool for the maps")
    assert not loops("tool for maps and a tool for mail")


def test_what_loops_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    (plain,) = written([TEXT], beams=6, count=3)
    worst = plain[0].text
    monkeypatch.setattr(writing, "loops", lambda text: text == worst)
    (found,) = written([TEXT], beams=6, count=3)
    assert worst not in {each.text for each in found[:-1]}
    assert found[0].text == plain[1].text
