"""Mechanisms compared: equal training, verdicts that need a reader, comparisons cut short."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attnlab.tasks.summary.compare_page import _joined, comparison_page, sentences

from attnlab.run_folder import StartMode
from attnlab.tasks.summary import compare as comparing
from attnlab.tasks.summary import recipe, verdicts
from attnlab.training import InterruptedTraining, Run, loop
from tests.support.command_line import run
from tests.support.small_training import Ticking
from tests.support.summary_runs import TINY, trained, write_rows

CLOCK = pytest.mark.usefixtures("ticking")
SMALL = (
    "--vocabulary 400 --width 16 --heads 2 --encoder-layers 1 --decoder-layers 1 "
    "--text-tokens 32 --summary-tokens 12"
)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.005 minutes are 20 steps, on any machine."""
    monkeypatch.setattr(loop, "time", Ticking())


def test_entries_cross_all_settings() -> None:
    found = comparing.entries_of(["softmax", "favor"], [8, 16], [1.0, 0.5], 2)
    assert len(found) == 2 * (2 + 4)
    assert {each.spec for each in found} == {"softmax", "favor:features=8", "favor:features=16"}
    assert len({each.folder for each in found}) == len(found)


# Verdicts


def made_up(losses: dict[tuple[str, float], list[float]]) -> list[dict[str, Any]]:
    return [
        {"attention": spec.split(":")[0], "spec": spec, "rate": rate, "seed": seed, "loss": loss,
         "validation_loss": loss, "accuracy": 0.5, "rougeL": 30.0, "steps": 9}
        for (spec, rate), values in losses.items()
        for seed, loss in enumerate(values)
    ]  # fmt: skip


def test_the_best_settings_are_compared_seed_by_seed() -> None:
    rows = made_up({
        ("softmax", 1.0): [2.0, 2.4], ("softmax", 0.5): [3.0, 3.0],
        ("favor:features=8", 1.0): [9.0, 9.0], ("favor:features=16", 1.0): [2.05, 2.44],
    })  # fmt: skip
    assert verdicts.best_setting(rows, "favor")["spec"] == "favor:features=16"
    found = verdicts.against(rows, "favor", "softmax", 20.0)
    assert found is not None
    assert found["loss"]["mean"] == pytest.approx(0.045)
    assert found["loss"]["interval"][0] < 0.045 < found["loss"]["interval"][1]


def test_a_match_needs_a_softmax_that_has_learned() -> None:
    rows = made_up({("softmax", 1.0): [2.0, 2.4, 2.2], ("favor", 1.0): [2.01, 2.42, 2.2]})
    for first_words, wanted in ((29.0, "matches"), (30.0, "unlearned"), (31.0, "unlearned")):
        found = verdicts.against(rows, "favor", "softmax", first_words)
        assert found is not None
        assert found["verdict"] == wanted


def test_what_is_not_there_yet_is_not_compared() -> None:
    rows = made_up({("softmax", 1.0): [2.0], ("favor", 1.0): [2.1]})
    assert verdicts.conclusions([], ["softmax", "favor"], 20.0)["best"] == []
    assert verdicts.conclusions(rows[:1], ["softmax", "favor"], 20.0)["comparisons"] == []
    assert verdicts.conclusions(rows[1:], ["softmax", "favor"], 20.0)["comparisons"] == []
    rows[1]["seed"] = 5  # of both none has the same seed
    assert verdicts.conclusions(rows, ["softmax", "favor"], 20.0)["comparisons"] == []


@pytest.mark.parametrize(
    ("interval", "learned", "wanted"),
    [
        ((-0.05, 0.09), True, "matches"),
        ((0.01, 0.09), True, "matches"),
        ((0.2, 0.3), True, "worse"),
        ((-0.3, -0.2), True, "better"),
        ((-0.3, 0.2), True, "undecided"),
        (None, True, "undecided"),
        ((-0.05, 0.09), False, "unlearned"),
        ((-0.3, 0.2), False, "unlearned"),
        ((0.2, 0.3), False, "worse"),
        ((-0.3, -0.2), False, "better"),
    ],
)
def test_verdicts(interval: tuple[float, float] | None, learned: bool, wanted: str) -> None:
    assert verdicts.verdict(interval, learned) == wanted


# Curves


def test_seeds_are_joined_by_time() -> None:
    """One seed was twice as fast as the other; on the same line in time they are one line."""
    fast = [[x / 10, 5 - x / 10] for x in range(1, 11)]
    slow = [[x / 5, 5 - x / 5] for x in range(1, 6)]
    points, band = _joined([fast, slow])
    assert [x for x, _ in points] == pytest.approx([x / 10 for x in range(2, 11)])
    for (x, y), (low, high) in zip(points, band, strict=True):
        assert (y, low, high) == pytest.approx((5 - x,) * 3)
    alone, _ = _joined([slow])
    assert [list(each) for each in alone] == slow
    apart, _ = _joined([[[1.0, 2.0]], [[3.0, 4.0]]])  # a step each, at other times
    assert apart == [(3.0, 3.0)]


# Comparisons


@CLOCK
def test_a_comparison_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = trained().parent / "rows.jsonl"
    command = (
        f"summary compare --data {data} --attention softmax elu --budget 0.005 --seeds 2 --rates 1 "
        f"{SMALL} --out {tmp_path}/all "
    )
    code, out, err = run(command, capsys)
    assert code == 0, err
    assert "4 runs of 0.005 minutes of training: 0.02 minutes" in err
    report = json.loads((tmp_path / "all" / "compare.json").read_text())
    assert len(report["runs"]) == report["planned"] == 4
    assert report["comparisons"][0]["seeds"] == 2
    assert report["comparisons"][0]["verdict"] == "unlearned"
    assert "softmax has not learned enough yet" in sentences(report)[0]
    assert all(line in out for line in sentences(report))
    page = (tmp_path / "all" / "compare.html").read_text()
    assert "ROUGE-L of validation summaries" in page
    assert "Loss of validation summaries" in page
    assert comparison_page(report) == page
    for row in report["runs"]:  # the axis is the budget
        assert row["minutes"] == pytest.approx(0.005, abs=0.0005)
        assert row["steps"] == 20
        wanted = [0.005 * part / 6 for part in range(1, 7)]
        assert [x for x, _ in row["validation_curve"]] == pytest.approx(wanted, abs=0.0005)
    for extra, words in (
        ("", "give --resume to go on, --overwrite"),
        ("--resume --overwrite", "give one of them"),
        ("--resume --limit 90", "the comparison has limit None, not 90"),
        ("--resume --dropout 0.2", "the comparison has dropout 0.1, not 0.2"),
    ):
        code, _, err = run(command + extra, capsys)
        assert code == 2
        assert words in err.splitlines()[-1]
    code, _, err = run(f"{command.strip()}2 --resume", capsys)
    assert code == 2
    assert "compare.json is missing" in err


def compared(out: Path, data: Path, **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"budget": 0.005, "rates": [1.0], "seeds": 2, "model": TINY}
    return comparing.compare(["softmax", "elu"], out=out, data=data, quiet=True, **given | changes)


@CLOCK
def test_an_interrupted_comparison_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = write_rows(tmp_path / "rows.jsonl"), tmp_path / "all"
    began: list[str] = []

    def cut_short(*given: Any, **options: Any) -> Any:
        began.append(options["out"].name)
        if len(began) == 3:  # one in the midst of its minutes
            options["settings"] = replace(options["settings"], minutes=0.002)
            recipe.train_on(*given, **options)
            raise InterruptedTraining("stopped", signal.SIGINT)
        return recipe.train_on(*given, **options)

    monkeypatch.setattr(comparing, "train_on", cut_short)
    with pytest.raises(InterruptedTraining):
        compared(out, data)
    report = json.loads((out / "compare.json").read_text())
    assert (len(report["runs"]), report["planned"]) == (2, 4)
    assert "2 of 4 runs are done; --resume goes on." in sentences(report)
    assert "2 of 4 runs are done" in (out / "compare.html").read_text()
    before = Run(out / began[2]).metrics()
    whole = compared(out, data, start=StartMode.RESUME)
    assert began[3:] == [began[2], "elu-rate1-seed1"]
    assert whole["runs"][:2] == report["runs"]
    assert len(whole["runs"]) == 4
    assert json.loads((out / "compare.json").read_text()) == json.loads(json.dumps(whole))
    after = Run(out / began[2]).metrics()
    assert (len(before), len(after)) == (8, 20)
    assert after[: len(before)] == before
    assert [row["steps"] for row in whole["runs"]] == [20] * 4
    # more seeds: what is done stays
    more = compared(out, data, start=StartMode.RESUME, seeds=3)
    assert more["runs"][:4] == whole["runs"]
    assert len(more["runs"]) == 6
    write_rows(data, 241)
    with pytest.raises(ValueError, match=r"the comparison has .* resume with the same settings"):
        compared(out, data, start=StartMode.RESUME)
    (out / "compare.json").write_text("{}")
    with pytest.raises(ValueError, match="not a comparison"):
        compared(out, data, start=StartMode.RESUME)


def test_losses_must_be_of_something(tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    rows = [
        {"text": f"this is text {i}", "summary": "a" if i % 40 else "many words " * 20}
        for i in range(40)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match="has a summary of at most 12 tokens"):
        compared(tmp_path / "out", data, limit=3)
