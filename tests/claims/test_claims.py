"""The frame of the ledger: judges, intervals, controls, running, the table and the JSON."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab._confidence_intervals import student_quantile
from attnlab.claims import CLAIMS, Estimate, Evidence, Result, Trial, Verdict, run, run_one
from attnlab.claims import _run_claims as running
from attnlab.claims._claim import (
    Bars,
    Claim,
    Lines,
    Size,
    fraction_interval,
    log_log_slope,
    mean_interval,
)
from attnlab.claims._ledger import ledger
from attnlab.claims._ledger_markdown import markdown
from attnlab.claims._registry import chosen
from attnlab.claims._world_models import LEARNERS
from attnlab.claims.judges import Above, Below, Between, Every, OnlyWhen, exact
from tests.support.command_line import run as run_command

NUMBERS = st.floats(-1e6, 1e6)


def evidence(value: float, low: float | None = None, high: float | None = None) -> Evidence:
    return Evidence(Estimate(value, low, high), Lines("x", "y", []))


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_judge_decides_by_the_whole_interval(a: float, b: float, c: float) -> None:
    low, value, high = sorted((a, b, c))
    limit = 3.0
    below = Below(limit, "x")(evidence(value, low, high)).outcome
    above = Above(limit, "x")(evidence(value, low, high)).outcome
    assert (below == "holds") == (high <= limit)
    assert (below == "refuted") == (low > limit)
    assert (above == "holds") == (low >= limit)
    assert (above == "refuted") == (high < limit)
    between = Between(-limit, limit, "x")(evidence(value, low, high)).outcome
    assert (between == "holds") == (low >= -limit and high <= limit)
    assert (between == "refuted") == (high < -limit or low > limit)


@pytest.mark.parametrize("judge", [Below(1, "x"), Above(1, "x"), Between(0, 1, "x"), exact("x")])
def test_no_judge_takes_nan_for_an_answer(judge: Callable[[Evidence], Verdict]) -> None:
    assert judge(evidence(math.nan)).outcome == "undecided"


SWEEPS = {
    "holds": ([1, 2, 3], ""),
    "refuted": ([], ""),
    "at least": ([2, 3], "d is at least 2"),
    "in the middle": ([2], "d is 2 (of 1 to 3)"),
    "at the ends": ([1, 3], "d is 1, 3 (of 1 to 3)"),
}


@pytest.mark.parametrize("name", list(SWEEPS))
def test_a_condition_is_found(name: str) -> None:
    good, condition = SWEEPS[name]
    sweep = [(float(at), Estimate(0.0 if at in good else 1.0)) for at in (1, 2, 3)]
    made = Evidence(Estimate(0.0), Lines("x", "y", []), sweep)
    verdict = OnlyWhen(Below(0.5, "x"), "d")(made)
    assert verdict.condition == condition
    assert verdict.outcome == (name if name in ("holds", "refuted") else "holds only when")
    up_to = OnlyWhen(Below(0.5, "x"), "d", at_least=False)(made)
    assert up_to.outcome == verdict.outcome


def test_a_condition_from_above() -> None:
    sweep = [(float(at), Estimate(0.0 if at <= 2 else 1.0)) for at in (3, 1, 2)]
    made = Evidence(Estimate(0.0), Lines("x", "y", []), sweep)
    verdict = OnlyWhen(Below(0.5, "x"), "d", at_least=False)(made)
    assert verdict == Verdict("holds only when", "d is at most 2")


PARTS = {
    "all hold": (0.0, 3.0, "holds"),
    "the first is refuted": (2.0, 3.0, "refuted"),
    "the second is refuted": (0.0, 1.0, "refuted"),
    "nothing is known of the second": (0.0, math.nan, "undecided"),
    "refuted whatever the other is": (2.0, math.nan, "refuted"),
}


@pytest.mark.parametrize("name", list(PARTS))
def test_a_statement_of_several_parts(name: str) -> None:
    first, second, outcome = PARTS[name]
    judge = Every(Below(1, "x"), [Above(2, "the others")])
    made = Evidence(Estimate(first), Lines("x", "y", []), parts={"the others": Estimate(second)})
    assert judge(made).outcome == outcome
    assert judge.threshold == "at most 1; and the others at least 2"
    assert made.told == {"the others": "3" if second == 3 else "1" if second == 1 else "–"}
    with pytest.raises(AssertionError, match="nobody judges"):
        judge(evidence(0.0))


def test_students_quantiles() -> None:
    table = {1: 12.706, 2: 4.303, 5: 2.571, 8: 2.306, 10: 2.228, 20: 2.086, 60: 2.000, 1000: 1.962}
    for freedom, wanted in table.items():
        assert student_quantile(freedom) == pytest.approx(wanted, rel=2e-3)


def test_intervals_cover_as_often_as_they_say() -> None:
    """By simulation: 95% within what 2,000 repeats allow."""
    draws = torch.randn(2000, 5, generator=torch.Generator().manual_seed(0)) + 3
    found = [mean_interval(row.tolist()) for row in draws]
    assert 0.935 < sum(each.ends[0] <= 3 <= each.ends[1] for each in found) / 2000 < 0.965
    hits = torch.rand(2000, 50, generator=torch.Generator().manual_seed(1)) < 0.2
    shares = [fraction_interval(int(row.sum()), 50) for row in hits]
    assert 0.93 < sum(each.ends[0] <= 0.2 <= each.ends[1] for each in shares) / 2000 < 0.975
    assert fraction_interval(0, 10).ends[0] == 0
    assert fraction_interval(10, 10).ends[1] == 1
    assert mean_interval([2.0]) == Estimate(2.0)


def test_exponents() -> None:
    found = log_log_slope([(n, 5 * n**1.7) for n in (3, 10, 40, 100)])
    assert found.value == pytest.approx(1.7)
    assert found.ends == pytest.approx((1.7, 1.7))
    noisy = log_log_slope([(1, 1.0), (2, 2.5), (4, 3.5), (8, 9.0)])
    assert noisy.ends[0] < noisy.value < noisy.ends[1]


# Running


def toy(trial: Trial) -> Evidence:
    value = 1.0 if trial.control else 0.0
    return Evidence(
        Estimate(value), Bars("y", {"a": Estimate(value)}), details={"size": trial.size}
    )


def breaks(trial: Trial) -> Evidence:
    del trial
    raise ZeroDivisionError("no </b> luck")


def dies(trial: Trial) -> Evidence:
    os.kill(os.getpid(), signal.SIGKILL)
    return toy(trial)


def same(trial: Trial) -> Evidence:
    return toy(replace(trial, control=False))


def made(name: str, measure: Callable[[Trial], Evidence], missing: str = "") -> Claim:
    needs = (lambda: missing) if missing else None
    return Claim(
        name, "own", "attnlab", "s", "w", Below(0.5, "f"), "c", measure, needs=needs
    )  # fmt: skip


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> dict[str, Claim]:
    found = {
        "good": made("good", toy),
        "breaks": made("breaks", breaks),
        "same": made("same", same),
        "missing": made("missing", toy, "needs a model"),
    }
    for name, each in found.items():
        monkeypatch.setitem(CLAIMS, name, each)
    return found


def test_a_claim_and_its_control(toys: dict[str, Claim]) -> None:
    good = run_one(toys["good"], 3, "full")
    assert (good.verdict, good.control, good.trusted) == (
        Verdict("holds"), Verdict("refuted"), True,
    )  # fmt: skip
    assert good.evidence is not None
    assert good.evidence.details == {"size": "full"}
    assert run_one(toys["same"], 0, "small").trusted is False
    missing = run_one(toys["missing"], 0, "small")
    assert (missing.verdict, missing.trusted) == (Verdict("not run", "needs a model"), None)
    broken = run_one(toys["breaks"], 0, "small")
    assert broken.verdict.outcome == "failed"
    assert broken.verdict.condition.startswith("ZeroDivisionError at test_claims.py:")


def test_a_wrong_statement_is_opposed_by_its_correction(toys: dict[str, Claim]) -> None:
    wrong = replace(toys["good"], judge=Above(0.5, "f"))
    found = run_one(wrong, 0, "small")
    assert (found.verdict.outcome, found.trusted) == ("refuted", True)


def test_the_ledger_is_json(toys: dict[str, Claim]) -> None:
    results = [run_one(each, 0, "small") for each in toys.values()]
    assert [each.name for each in results] == ["good", "breaks", "same", "missing"]
    infinite = Result("good", Verdict("holds"), evidence(math.inf, -math.inf, math.nan))
    text = json.dumps(ledger([*results, infinite], seed=0, size="small"), allow_nan=False)
    rows = json.loads(text)["claims"]
    assert {row["id"] for row in rows} == set(toys)
    assert rows[0]["trusted"] is True
    assert rows[0]["control"]["outcome"] == "refuted"
    assert rows[1]["figure"] == {"value": "Infinity", "low": "-Infinity", "high": "NaN"}


def test_the_page_of_the_docs(toys: dict[str, Claim]) -> None:
    wrong = replace(toys["good"], quoted=True, statement="a_b | <i>*c* `d`")
    results = [run_one(each, 0, "small") for each in (*toys.values(), wrong)]
    found = ledger(results, seed=4, size="small")
    found["claims"][0]["statement"], found["claims"][0]["quoted"] = wrong.statement, True
    told = markdown(json.loads(json.dumps(found)))
    assert "5 statements: 3 holds, 1 not run, 1 failed." in told
    assert "`attnlab claims --size small --seed 4`" in told
    assert '"a\\_b \\| \\<i>\\*c\\* \\`d\\`"' in told
    assert "**holds**: f 0; holds if at most 0.5. Control, c: 1." in told
    assert "**failed: holds**" in told  # a control that said the same
    assert "not run: needs a model" in told
    assert {line.split("]")[0][3:] for line in told.splitlines() if line.startswith("| [")} == {
        *toys
    }


def test_choosing() -> None:
    first = next(iter(CLAIMS.values()))
    assert chosen([first.name]) == [first]
    assert first in chosen(topic=first.topic)
    assert chosen(topic="1") == chosen(topic="retrieve")
    with pytest.raises(ValueError, match="topic '99'; there are 1 retrieve"):
        chosen(topic="99")
    with pytest.raises(ValueError, match="claim 'copyy' is not known; copy"):
        chosen(["copyy"])


def where(trial: Trial) -> Evidence:
    return replace(toy(trial), details={"process": os.getpid()})


def job(names: Sequence[str], seed: int, size: Size) -> list[Result]:
    """What a process does with toys; it is imported there, so it stands by itself."""
    return [run_one(made(name, dies if name == "dies" else where), seed, size) for name in names]


def test_side_by_side_and_one_that_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In real processes: one kills its own, and the results of all others are there, also of one
    that was to run in the same."""
    monkeypatch.setattr(running, "_job", job)
    names = ["a", "dies", "b", "c"]
    begun: list[str] = []
    groups = {"a": "model", "dies": "model"}
    claims = [
        replace(made(name, toy), alone=name == "c", together=groups.get(name, "")) for name in names
    ]
    found = {each.name: each for each in run(claims, processes=2, begun=begun.append)}
    assert begun == names
    assert found.pop("dies").verdict == Verdict("failed", "its process was killed")
    assert {name: each.verdict.outcome for name, each in found.items()} == dict.fromkeys(
        "abc", "holds"
    )


def test_what_belongs_together_runs_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is begun first, since it takes longest."""
    monkeypatch.setattr(running, "_job", job)
    pairs = {"a": "", "b": "model", "c": "", "d": "model", "e": "", "f": "model"}
    claims = [replace(made(name, toy), together=key) for name, key in pairs.items()]
    begun: list[str] = []
    found = {each.name: each for each in run(claims, processes=2, begun=begun.append)}
    assert begun == ["b", "d", "f", "a", "c", "e"]
    used = {name: each.evidence.details["process"] for name, each in found.items() if each.evidence}
    assert used.keys() == pairs.keys()
    assert used["b"] == used["d"] == used["f"]


def test_claims_that_share_a_training_run_together() -> None:
    """Else two processes would train the same model."""
    together = [each.name for each in CLAIMS.values() if each.together == LEARNERS]
    assert together == [
        *("pretraining-gives-knowledge", "invented-answers", "unseen-name", "name-origin-bias")
    ]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told, _ = run_command(f"claims copy --json {tmp_path}/a.json", capsys)
    assert code == 0
    assert "holds" in told
    assert "refuted" in told
    found = json.loads((tmp_path / "a.json").read_text())
    assert [row["id"] for row in found["claims"]] == ["copy"]
    code, told, _ = run_command("claims show copy", capsys)
    assert code == 0
    assert CLAIMS["copy"].statement in told
    assert "Verdict: holds" in told
    assert "ln(100 n)" in told
    code, _, told = run_command("claims copy --processes 0", capsys)
    assert (code, told) == (2, "attnlab: --processes 0; give 1 or more\n")
    code, _, told = run_command(f"claims copy --json {tmp_path}/no/a.json", capsys)
    assert code == 2
    assert "there is no folder" in told


def test_the_docs_have_every_claim() -> None:
    page = (Path(__file__).parents[2] / "docs" / "claims.md").read_text()
    told = [line.removeprefix("### ") for line in page.splitlines() if line.startswith("### ")]
    assert told == list(CLAIMS)
