"""The sections of an audit about verdicts: thresholds, kinds of questions, unknown names."""

from __future__ import annotations

from typing import Any

from attnlab._confidence_intervals import format_percent
from attnlab.report import Block, Section, Table

Audit = dict[str, Any]


def ratio(part: float, total: float) -> float:
    return part / total if total else 0.0


def format_interval(row: Audit) -> str:
    return f"{format_percent(row['interval'][0])} to {format_percent(row['interval'][1])}"


def verdicts_section(audit: Audit) -> Section:
    judged = audit["accuracy"] is not None
    rows = []
    for name, row in audit["verdicts"].items():
        fraction = format_percent(ratio(row["count"], len(audit["answers"])))
        right = [format_percent(row["accuracy"])] if judged else []
        rows.append([name, row["count"], fraction, *right])
    header = ["verdict", "answers", "fraction", *(["right"] if judged else [])]
    findings = [" ".join(_describe_thresholds(audit["thresholds"]))]
    table = Table("", header, rows)
    return Section("verdicts", "Verdicts: what it says it knows", findings, blocks=[table])


def _describe_thresholds(limits: Audit) -> list[str]:
    guess = f"below {limits['guess']:.2f} a “guess”"
    if not limits["fitted"]:
        return [f"No answer is called “known”: thresholds were fitted on {limits['fitted_on']}."]
    if limits["known"] is None:
        sentences = [
            "No answer is called “known”: at no confidence were 95% of the answers right and "
            f"nearly all made-up names refused. An answer is {guess}, otherwise “unsure”."
        ]
    else:
        sentences = [
            f"From a confidence of {limits['known']:.2f} an answer is called “known”, {guess}, and "
            "between them “unsure”."
        ]
    doubt, unread = limits["doubt"], limits["unread"]
    if limits["known"] is not None and doubt is not None and (unread is None or doubt < unread):
        sentences.append(f"A known answer has a probability below {doubt:.2f} of no answer at all.")
    if unread is not None:
        sentences.append(
            f"If the probability of no answer at all is {unread:.2f} or more, the "
            "verdict is “not in what I read”."
        )
    return [*sentences, f"The thresholds were fitted on {limits['fitted_on']}."]


def relations_section(audit: Audit) -> Section:
    judged = audit["accuracy"] is not None
    rows = []
    for each in audit["relations"]:
        row = [each["relation"] or "another kind of question", each["count"], each["known"]]
        if judged:
            row += [format_percent(each["accuracy"]), format_interval(each),
                    format_percent(each["known_accuracy"]),
                    format_percent(each["right_known_share"])]  # fmt: skip
        rows.append(row)
    header = ["question", "answers", "known"]
    if judged:
        header += ["right", "95% interval", "right if known", "right ones called known"]
    table = Table("", header, rows, drop=["95% interval", "right ones called known"])
    return Section("relations", "Kinds of questions", blocks=[table])


def made_up_section(audit: Audit) -> Section:
    made_up, off_topic = audit["made_up"], audit["off_topic"]
    title = "What it cannot know"
    if not made_up["count"]:
        return Section("made-up", title, ["No made-up names were asked about."])
    findings = [
        "Nobody can know anything about people who do not exist, so every “known” is wrong. It "
        f"called {format_percent(made_up['known_share'])} of {made_up['count']:,} answers about "
        f"them “known”; its mean confidence was {made_up['mean_confidence']:.2f}. The names "
        "recombine parts of names in the training questions, or have new spellings; the run was "
        "not trained on any of them, and no threshold was fitted on them."
    ]
    groups = {f"names: {each['kind']}": each for each in made_up["kinds"]}
    groups["off-topic questions"] = off_topic
    rows = [
        [name, each["count"], *each["verdicts"].values()]
        for name, each in groups.items() if each["count"]
    ]  # fmt: skip
    header = ["asked about", "answers", *made_up["verdicts"]]
    drop = ["another kind of question", "guess", "unsure"]
    blocks: list[Block] = [Table("", header, rows, drop=drop)]
    examples = [example for each in groups.values() for example in each["examples"][:4]]
    blocks.append(
        Table(
            "Examples",
            ["question", "verdict", "it would guess", "confidence"],
            [
                [each["question"], each["verdict"], each["answer"], f"{each['confidence']:.2f}"]
                for each in examples
            ],
        )
    )
    return Section("made-up", title, findings, blocks=blocks)
