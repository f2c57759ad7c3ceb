"""What an audit found, in plain words."""

from __future__ import annotations

from typing import Any

from attnlab.intervals import number
from attnlab.tasks.knowledge.scoring import top_share

Report = dict[str, Any]
VERDICTS = ("known", "unsure", "guess")
ENOUGH = 30  # of fewer questions three answers may well be most


def percent(share: float | None) -> str:
    """Whole percents in prose, but 0% and 100% only when it is none or all."""
    if share is None:
        return "–"
    rounded = f"{100 * share:.0f}"
    return number(share, percent=True) if rounded in ("0", "100") else f"{rounded}%"


def summary(report: Report) -> list[str]:
    """What was found, in plain words."""
    answers, made_up = report["answers"], report["made_up"]
    known = report["verdicts"]["known"]
    sentences = []
    if report["accuracy"] is None:
        sentences.append(
            f"It was asked {report['pairs']:,} questions whose right answers are not given. "
            "So nothing can be said about how often it is right or whether its confidence means "
            "anything: those parts are left out."
        )
        sentences.append(
            f"It says “known” of {known['count']:,} answers "
            f"({percent(part_of(known['count'], len(answers)))})."
        )
    else:
        judged = [each for each in answers if each["correct"] is not None]
        right = sum(each["correct"] for each in judged)
        low, high = report["interval"]
        always = report["baseline"]
        sentences.append(
            f"It answered {right:,} of {len(judged):,} questions right "
            f"({percent(report['accuracy'])}; 95% interval {percent(low)} to {percent(high)}). "
            f"Answering “{always['answer']}” every time would be right in "
            f"{percent(always['accuracy'])}."
        )
        sentences += filter(None, [_verdict_words(report), _ranking_words(report)])
    if made_up["count"]:
        sentences.append(
            f"Asked about {made_up['count']:,} people who do not exist, it claimed to know "
            f"{percent(made_up['known_share'])} of the answers about them."
        )
    share, natural = report["top_three_share"], top_share(report["gold_histogram"] or [])
    if report["pairs"] >= ENOUGH and share > max(0.5, 2 * natural):
        right = f" (of the right answers, {percent(natural)})" if natural else ""
        sentences.append(
            f"Three answers make up {percent(share)} of all it gave{right}: it has collapsed onto "
            "a few answers."
        )
    return sentences


def _verdict_words(report: Report) -> str:
    found = [(name, report["verdicts"].get(name, {}).get("accuracy")) for name in VERDICTS]
    hundreds = [(name, _hundreds(share)) for name, share in found if share is not None]
    if not hundreds:
        return ""
    name, times = hundreds[0]
    rest = "".join(f", “{name}” {times}" for name, times in hundreds[1:])
    return f"When it says “{name}” it is right {times} times of 100{rest}."


def _ranking_words(report: Report) -> str:
    if report["roc_area"] is None:
        return ""
    return (
        "Of a right and a wrong answer, the right one is the more confident "
        f"{_hundreds(report['roc_area'])} times of 100; 50 would be chance."
    )


def _hundreds(share: float) -> str:
    return percent(share).removesuffix("%")


def part_of(part: float, total: float) -> float:
    return part / total if total else 0.0


def between(found: Report) -> str:
    return f"{percent(found['interval'][0])} to {percent(found['interval'][1])}"
