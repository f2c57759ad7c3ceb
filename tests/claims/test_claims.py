"""Judges, intervals, controls, running claims, and the ledger as table, JSON and Markdown."""

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
from attnlab.claims import CLAIMS, Estimate, Evidence, Result, Trial, Verdict, run_claim, run_claims
from attnlab.claims import _run_claims as run_module
from attnlab.claims._claim import (
    Bars,
    Claim,
    Lines,
    Outcome,
    Size,
    fraction_interval,
    log_log_slope,
    mean_interval,
)
from attnlab.claims._ledger import make_ledger
from attnlab.claims._ledger_markdown import ledger_markdown
from attnlab.claims._registry import select_claims
from attnlab.claims._several_seeds import combine_results
from attnlab.claims._world_models import WORLD_MODELS
from attnlab.claims.judges import Above, Below, Between, Every, OnlyWhen, exact
from tests.support.command_line import run as run_command

NUMBERS = st.floats(-1e6, 1e6)


def evidence(value: float, low: float | None = None, high: float | None = None) -> Evidence:
    return Evidence(Estimate(value, low, high), Lines("x", "y", []))


@given(NUMBERS, NUMBERS, NUMBERS)
def test_judges_use_the_whole_interval(a: float, b: float, c: float) -> None:
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
def test_nan_is_undecided(judge: Callable[[Evidence], Verdict]) -> None:
    assert judge(evidence(math.nan)).outcome == "undecided"


SWEEPS = {
    "holds": ([1, 2, 3], ""),
    "refuted": ([], ""),
    "at least": ([2, 3], "d is at least 2"),
    "in the middle": ([2], "d is 2 (of 1 to 3)"),
    "at the ends": ([1, 3], "d is 1, 3 (of 1 to 3)"),
}


@pytest.mark.parametrize("name", list(SWEEPS))
def test_only_when_names_the_condition(name: str) -> None:
    good, condition = SWEEPS[name]
    sweep = [(float(at), Estimate(0.0 if at in good else 1.0)) for at in (1, 2, 3)]
    evidence_with_sweep = Evidence(Estimate(0.0), Lines("x", "y", []), sweep)
    verdict = OnlyWhen(Below(0.5, "x"), "d")(evidence_with_sweep)
    assert verdict.condition == condition
    assert verdict.outcome == (name if name in ("holds", "refuted") else "holds only when")
    up_to = OnlyWhen(Below(0.5, "x"), "d", at_least=False)(evidence_with_sweep)
    assert up_to.outcome == verdict.outcome


def test_only_when_with_an_upper_limit() -> None:
    sweep = [(float(at), Estimate(0.0 if at <= 2 else 1.0)) for at in (3, 1, 2)]
    evidence_with_sweep = Evidence(Estimate(0.0), Lines("x", "y", []), sweep)
    verdict = OnlyWhen(Below(0.5, "x"), "d", at_least=False)(evidence_with_sweep)
    assert verdict == Verdict("holds only when", "d is at most 2")


PARTS = {
    "all hold": (0.0, 3.0, "holds"),
    "the first is refuted": (2.0, 3.0, "refuted"),
    "the second is refuted": (0.0, 1.0, "refuted"),
    "the second is nan": (0.0, math.nan, "undecided"),
    "refuted whatever the other is": (2.0, math.nan, "refuted"),
}


@pytest.mark.parametrize("name", list(PARTS))
def test_every_judges_all_parts(name: str) -> None:
    first, second, outcome = PARTS[name]
    judge = Every(Below(1, "x"), [Above(2, "the others")])
    evidence_with_parts = Evidence(
        Estimate(first), Lines("x", "y", []), parts={"the others": Estimate(second)}
    )
    assert judge(evidence_with_parts).outcome == outcome
    assert judge.threshold == "at most 1; and the others at least 2"
    assert evidence_with_parts.all_details == {
        "the others": "3" if second == 3 else "1" if second == 1 else "–"
    }
    with pytest.raises(AssertionError, match=r"parts .* but judges of"):
        judge(evidence(0.0))


def test_student_quantiles() -> None:
    table = {1: 12.706, 2: 4.303, 5: 2.571, 8: 2.306, 10: 2.228, 20: 2.086, 60: 2.000, 1000: 1.962}
    for freedom, expected in table.items():
        assert student_quantile(freedom) == pytest.approx(expected, rel=2e-3)


def test_intervals_have_the_nominal_coverage() -> None:
    """By simulation with 2,000 repeats."""
    samples = torch.randn(2000, 5, generator=torch.Generator().manual_seed(0)) + 3
    means = [mean_interval(row.tolist()) for row in samples]
    assert (
        0.935 < sum(estimate.ends[0] <= 3 <= estimate.ends[1] for estimate in means) / 2000 < 0.965
    )
    hits = torch.rand(2000, 50, generator=torch.Generator().manual_seed(1)) < 0.2
    fractions = [fraction_interval(int(row.sum()), 50) for row in hits]
    assert (
        0.93
        < sum(estimate.ends[0] <= 0.2 <= estimate.ends[1] for estimate in fractions) / 2000
        < 0.975
    )
    assert fraction_interval(0, 10).ends[0] == 0
    assert fraction_interval(10, 10).ends[1] == 1
    assert mean_interval([2.0]) == Estimate(2.0)


def test_exponent_of_a_power_law() -> None:
    fitted = log_log_slope([(n, 5 * n**1.7) for n in (3, 10, 40, 100)])
    assert fitted.value == pytest.approx(1.7)
    assert fitted.ends == pytest.approx((1.7, 1.7))
    noisy = log_log_slope([(1, 1.0), (2, 2.5), (4, 3.5), (8, 9.0)])
    assert noisy.ends[0] < noisy.value < noisy.ends[1]


# Running


def measure_toy(trial: Trial) -> Evidence:
    value = 1.0 if trial.control else 0.0
    return Evidence(
        Estimate(value), Bars("y", {"a": Estimate(value)}), details={"size": trial.size}
    )


def measure_with_error(trial: Trial) -> Evidence:
    del trial
    raise ZeroDivisionError("no </b> luck")


def measure_and_die(trial: Trial) -> Evidence:
    os.kill(os.getpid(), signal.SIGKILL)
    return measure_toy(trial)


def measure_without_control(trial: Trial) -> Evidence:
    return measure_toy(replace(trial, control=False))


def make_claim(name: str, measure: Callable[[Trial], Evidence], missing: str = "") -> Claim:
    needs = (lambda: missing) if missing else None
    return Claim(
        name, "own", "attnlab", "s", "w", Below(0.5, "f"), "c", measure, needs=needs
    )  # fmt: skip


@pytest.fixture
def toy_claims(monkeypatch: pytest.MonkeyPatch) -> dict[str, Claim]:
    claims = {
        "good": make_claim("good", measure_toy),
        "breaks": make_claim("breaks", measure_with_error),
        "same": make_claim("same", measure_without_control),
        "missing": make_claim("missing", measure_toy, "needs a model"),
    }
    for name, claim in claims.items():
        monkeypatch.setitem(CLAIMS, name, claim)
    return claims


def test_run_claim_runs_the_control_too(toy_claims: dict[str, Claim]) -> None:
    good = run_claim(toy_claims["good"], 3, "full")
    assert (good.verdict, good.control, good.trusted) == (
        Verdict("holds"), Verdict("refuted"), True,
    )  # fmt: skip
    assert good.evidence is not None
    assert good.evidence.details == {"size": "full"}
    assert run_claim(toy_claims["same"], 0, "small").trusted is False
    missing = run_claim(toy_claims["missing"], 0, "small")
    assert (missing.verdict, missing.trusted) == (Verdict("not run", "needs a model"), None)
    broken = run_claim(toy_claims["breaks"], 0, "small")
    assert broken.verdict.outcome == "failed"
    assert broken.verdict.condition.startswith("ZeroDivisionError at test_claims.py:")


def test_control_of_a_wrong_statement_holds(toy_claims: dict[str, Claim]) -> None:
    wrong = replace(toy_claims["good"], judge=Above(0.5, "f"))
    result = run_claim(wrong, 0, "small")
    assert (result.verdict.outcome, result.trusted) == ("refuted", True)


def test_ledger_is_valid_json(toy_claims: dict[str, Claim]) -> None:
    results = [run_claim(each, 0, "small") for each in toy_claims.values()]
    assert [each.name for each in results] == ["good", "breaks", "same", "missing"]
    infinite = Result("good", Verdict("holds"), evidence(math.inf, -math.inf, math.nan))
    text = json.dumps(make_ledger([*results, infinite], seed=0, size="small"), allow_nan=False)
    rows = json.loads(text)["claims"]
    assert {row["id"] for row in rows} == set(toy_claims)
    assert rows[0]["trusted"] is True
    assert rows[0]["control"]["outcome"] == "refuted"
    assert rows[1]["figure"] == {"value": "Infinity", "low": "-Infinity", "high": "NaN"}


def test_ledger_markdown(toy_claims: dict[str, Claim]) -> None:
    wrong = replace(toy_claims["good"], quoted=True, statement="a_b | <i>*c* `d`")
    results = [run_claim(claim, 0, "small") for claim in (*toy_claims.values(), wrong)]
    ledger = make_ledger(results, seed=4, size="small")
    ledger["claims"][0]["statement"], ledger["claims"][0]["quoted"] = wrong.statement, True
    page = ledger_markdown(json.loads(json.dumps(ledger)))
    assert "5 statements: 3 holds, 1 not run, 1 failed." in page
    assert "`attnlab claims --size small --seed 4`" in page
    assert '"a\\_b \\| \\<i>\\*c\\* \\`d\\`"' in page
    assert "**holds**: f 0; holds if at most 0.5. Control, c: 1." in page
    assert "**failed: holds**" in page  # the control had the same verdict
    assert "not run: needs a model" in page
    assert {line.split("]")[0][3:] for line in page.splitlines() if line.startswith("| [")} == {
        *toy_claims
    }


def test_select_claims() -> None:
    first = next(iter(CLAIMS.values()))
    assert select_claims([first.name]) == [first]
    assert first in select_claims(topic=first.topic)
    assert select_claims(topic="1") == select_claims(topic="retrieve")
    with pytest.raises(ValueError, match="unknown topic '99'; use one of 1 retrieve"):
        select_claims(topic="99")
    with pytest.raises(ValueError, match="unknown claim 'copyy'; did you mean copy"):
        select_claims(["copyy"])


def measure_process(trial: Trial) -> Evidence:
    return replace(measure_toy(trial), details={"process": os.getpid()})


def run_toys(names: Sequence[str], seed: int, size: Size) -> list[Result]:
    """Replaces `_run_by_name`. The process imports it, so it must be a module-level function."""
    return [
        run_claim(
            make_claim(name, measure_and_die if name == "dies" else measure_process), seed, size
        )
        for name in names
    ]


def test_killed_process_fails_only_its_own_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """With real processes: one claim kills its process. All other claims have results, also one of
    the same group."""
    monkeypatch.setattr(run_module, "_run_by_name", run_toys)
    names = ["a", "dies", "b", "c"]
    started: list[str] = []
    groups = {"a": "model", "dies": "model"}
    claims = [
        replace(make_claim(name, measure_toy), alone=name == "c", group=groups.get(name, ""))
        for name in names
    ]
    results = {
        result.name: result for result in run_claims(claims, processes=2, on_start=started.append)
    }
    assert started == names
    assert results.pop("dies").verdict == Verdict("failed", "its process was killed")
    assert {name: result.verdict.outcome for name, result in results.items()} == dict.fromkeys(
        "abc", "holds"
    )


def test_claims_of_one_group_run_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest group starts first, since it takes longest."""
    monkeypatch.setattr(run_module, "_run_by_name", run_toys)
    pairs = {"a": "", "b": "model", "c": "", "d": "model", "e": "", "f": "model"}
    claims = [replace(make_claim(name, measure_toy), group=key) for name, key in pairs.items()]
    started: list[str] = []
    results = {
        result.name: result for result in run_claims(claims, processes=2, on_start=started.append)
    }
    assert started == ["b", "d", "f", "a", "c", "e"]
    used = {
        name: result.evidence.details["process"]
        for name, result in results.items()
        if result.evidence
    }
    assert used.keys() == pairs.keys()
    assert used["b"] == used["d"] == used["f"]


def test_claims_about_one_world_are_one_group() -> None:
    """Otherwise two processes would train the same model."""
    group = [each.name for each in CLAIMS.values() if each.group == WORLD_MODELS]
    assert group == [
        *("pretraining-gives-knowledge", "invented-answers", "unseen-name", "name-origin-bias")
    ]


def test_claims_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run_command(f"claims copy --json {tmp_path}/a.json", capsys)
    assert code == 0
    assert "holds" in output
    assert "refuted" in output
    ledger = json.loads((tmp_path / "a.json").read_text())
    assert [row["id"] for row in ledger["claims"]] == ["copy"]
    code, output, _ = run_command("claims show copy", capsys)
    assert code == 0
    assert CLAIMS["copy"].statement in output
    assert "Verdict: holds" in output
    assert "ln(100 n)" in output
    code, _, output = run_command("claims copy --processes 0", capsys)
    assert (code, output) == (2, "attnlab: --processes is 0; give 1 or more\n")
    code, _, output = run_command(f"claims copy --json {tmp_path}/no/a.json", capsys)
    assert code == 2
    assert "there is no folder" in output


def test_docs_page_has_every_claim() -> None:
    page = (Path(__file__).parents[2] / "docs" / "claims.md").read_text()
    sections = [line.removeprefix("### ") for line in page.splitlines() if line.startswith("### ")]
    assert sections == list(CLAIMS)


def at_seed(outcome: Outcome, figure: float, control: Outcome = "refuted") -> Result:
    evidence = Evidence(Estimate(figure), Bars("y", {}), details={"steps": 5})
    return Result("toy", Verdict(outcome), evidence, Verdict(control), evidence, seconds=1.5)


def test_a_verdict_of_several_seeds() -> None:
    same = combine_results({3: at_seed("holds", 0.5), 4: at_seed("holds", 0.7)})
    assert (same.verdict, same.trusted, same.seconds) == (Verdict("holds"), True, 3.0)
    assert same.evidence is not None
    assert same.evidence.details == {"steps": 5, "seed 3": "holds, 0.5", "seed 4": "holds, 0.7"}
    results = {3: at_seed("undecided", 0.1), 4: at_seed("holds", 0.7), 5: at_seed("holds", 0.6)}
    differs = combine_results(results)
    assert differs.verdict == Verdict(
        "undecided", "undecided with seed 3 and holds with seeds 4 and 5"
    )
    assert differs.trusted is None
    controls = combine_results({3: at_seed("holds", 0.5), 4: at_seed("holds", 0.7, "undecided")})
    assert controls.trusted is False
    failed = Result("toy", Verdict("failed", "killed"))
    assert combine_results({3: at_seed("holds", 0.5), 4: failed}).verdict == failed.verdict
    assert combine_results({3: failed}) == failed


def test_several_seeds_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.md"
    code, output, _ = run_command(f"claims copy --seed 3 --seeds 2 --markdown {out}", capsys)
    assert (code, "holds" in output) == (0, True)
    page = out.read_text()
    assert "--size small --seed 3 --seeds 2`" in page
    assert "seed 3: holds, " in page
    assert "seed 4: holds, " in page
    code, _, output = run_command("claims copy --seeds 0", capsys)
    assert (code, output) == (2, "attnlab: --seeds is 0; give 1 or more\n")
