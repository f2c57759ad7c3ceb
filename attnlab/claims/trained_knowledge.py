"""What a small model knows of people it read about, in attnlab's embedded world."""

from __future__ import annotations

import random
from typing import TypeVar

import numpy as np

from attnlab._calibration import risk_coverage, roc_area
from attnlab.claims._claim import (
    Bars,
    Estimate,
    Evidence,
    Lines,
    Trial,
    claim,
    fraction_interval,
    mean_interval,
)
from attnlab.claims._world_models import LEARNERS, OFTEN, learned
from attnlab.claims.judges import Above, Below, Between, Every
from attnlab.report import Mark, Series
from attnlab.tasks.knowledge._data import Pair, most_common_answer
from attnlab.tasks.knowledge._name_matching import NameIndex
from attnlab.tasks.knowledge._scoring import histogram_of_answers, top_fraction
from attnlab.tasks.knowledge._world import World

T = TypeVar("T")

DEALS = 100
WITHOUT = "the same without pretraining"
REAL = "the share of wrong answers that are real places"


@claim(
    "pretraining-gives-knowledge",
    topic="trained",
    source="course",
    statement="without pretraining accuracy stays under the most-common-place baseline and answers "
    "collapse onto a few places; with it it goes far above",
    why="""Questions about some people say nothing about others, so from questions alone a model can
    only learn how common each place is. If place i is right in a share p_i of questions and is said
    in a share r_i of them, and the model knows nothing, it is right in sum r_i p_i of them, at most
    max p_i: no better than always the commonest. Who has read the corpus first has the facts of
    everybody in its weights, and questions teach it to say them: the difference is knowledge,
    not skill. That answers collapse is true early in training, when a model has learned little but
    which places are common; later it learns its questions by heart and answers spread again, as
    wrong as before. So both accuracies are judged, on people no question asked about, and of the
    collapse the details tell.""",
    judge=Every(
        Above(0.2, "accuracy less that of always the commonest place"),
        [Below(0.05, WITHOUT)],
    ),
    control="the two models exchanged",
    together=LEARNERS,
)
def pretraining_gives_knowledge(trial: Trial) -> Evidence:
    runs = {
        "pretrained": learned(trial.seed, trial.size),
        "no pretraining": learned(trial.seed, trial.size, "none"),
    }
    world = runs["pretrained"].world
    common = most_common_answer(world.train)
    base = sum(gold == common for _, gold in world.held_out) / len(world.held_out)
    bars = {name: fraction_interval(sum(run.right), len(run.right)) for name, run in runs.items()}
    without, with_ = "no pretraining", "pretrained"
    if trial.control:
        without, with_ = with_, without
    return Evidence(
        _less(bars[with_], base),
        Bars("share of right answers", bars, [Mark(f"always {common}", y=base)]),
        details={
            f"always {common}": round(base, 3),
            **{
                f"share of the three commonest answers, {name}": round(
                    top_fraction(histogram_of_answers(each.text for each in run.said)), 3
                )
                for name, run in runs.items()
            },
        },
        parts={WITHOUT: _less(bars[without], base)},
    )


def _less(found: Estimate, by: float) -> Estimate:
    low, high = found.ends
    return Estimate(found.value - by, low - by, high - by)


@claim(
    "invented-answers",
    topic="trained",
    source="course",
    statement="a wrong answer looks like a right one; confidence separates the two only partly",
    why="""A language model always says something, and what it says is a likely text: a place, in
    the same words, whether it knows or not. Confidence is the product of its tokens' probabilities.
    The area under the ROC curve is the chance that a right answer is more confident than a
    wrong one: 1/2 says nothing, 1 separates all. Between them lies a trade: answer less often
    (coverage) and err less often (risk), as the figure shows.""",
    judge=Every(
        Between(0.55, 0.99, "area under the ROC curve of confidence"),
        [Above(0.5, REAL)],
    ),
    control="confidences dealt to other answers",
    together=LEARNERS,
)
def invented_answers(trial: Trial) -> Evidence:
    run = learned(trial.seed, trial.size)
    sure, right = [each.confidence for each in run.said], run.right
    known = {gold for _, gold in [*run.world.train, *run.world.held_out]}
    wrong = [each.text for each, good in zip(run.said, right, strict=True) if not good]
    places = fraction_interval(sum(text in known for text in wrong), max(1, len(wrong)))
    dealt = _dealt(sure, trial.seed)
    lines = [
        Series("by confidence", _risk(sure, right)),
        Series("confidences dealt by chance", _risk(dealt[0], right)),
    ]
    return Evidence(
        mean_interval([roc_area(each, right) or 0.0 for each in dealt])
        if trial.control
        else _area(sure, right, trial.seed),
        Lines("share of questions answered", "share of wrong answers", lines),
        details={
            "right": sum(right),
            "wrong": len(wrong),
        },
        parts={REAL: places},
    )


def _dealt(values: list[T], seed: int) -> list[list[T]]:
    """The same values in many orders: what chance would do, without its noise."""
    draw = random.Random(seed)
    return [draw.sample(values, len(values)) for _ in range(DEALS)]


def _risk(sure: list[float], right: list[bool]) -> list[tuple[float, float]]:
    return [(point.coverage, 1 - point.precision) for point in risk_coverage(sure, right)]


def _area(sure: list[float], right: list[bool], seed: int, times: int = 300) -> Estimate:
    """With the 95% interval of a bootstrap over questions."""
    draw = np.random.default_rng(seed)
    confidence, correct = np.array(sure), np.array(right)
    areas = []
    for _ in range(times):
        chosen = draw.integers(len(sure), size=len(sure))
        area = roc_area(confidence[chosen], correct[chosen])
        if area is not None:
            areas.append(area)
    whole = roc_area(confidence, correct)
    if whole is None:
        return Estimate(float("nan"))
    low, high = np.quantile(areas, [0.025, 0.975])
    return Estimate(whole, float(low), float(high))


@claim(
    "unseen-name",
    topic="trained",
    source="course",
    statement="for a name that was never seen, the model answers with places of similar names",
    why="""A name is a few tokens, and similar names share some. The model's answer is a function of
    these tokens, so a name that nobody bears is answered by whatever its parts bring up: the
    place of somebody with nearly the same name. Measured: how often the answer is the birthplace of
    one of the three people whose names are spelled most alike, less how often it is one of the
    three places that belong to another made-up name, which is what chance and common places
    give: P(answer in near(name)) - P(answer in near(another name)).""",
    judge=Above(0.05, "how much more often a place of similar names than of other names"),
    control="answers dealt to other made-up names",
    together=LEARNERS,
)
def unseen_name(trial: Trial) -> Evidence:
    run = learned(trial.seed, trial.size)
    places = {person.name: person.facts["birthplace"] for person in run.world.people}
    index = NameIndex(places)
    names = list(run.about_nobody)
    near = [{places[who] for who, _ in index.nearest(name)} for name in names]
    said = [run.about_nobody[name].text for name in names]
    usual = [sum(text in there for there in near) / len(near) for text in said]
    own = [float(text in there) for text, there in zip(said, near, strict=True)]
    gains = [a - b for a, b in zip(own, usual, strict=True)]
    if trial.control:
        base = sum(usual) / len(usual)
        gains = [
            sum(text in there for text, there in zip(each, near, strict=True)) / len(near) - base
            for each in _dealt(said, trial.seed)
        ]
    return Evidence(
        mean_interval(gains),
        Bars(
            "share of answers among three places",
            {
                "of the three most similar names": mean_interval(own),
                "of another name's three": mean_interval(usual),
            },
        ),
        details={
            "made-up names": len(names),
            "mean confidence": round(
                sum(each.confidence for each in run.about_nobody.values()) / len(names), 3
            ),
        },
    )


@claim(
    "name-origin-bias",
    topic="trained",
    source="course",
    statement="error rates differ by the origin of the name",
    why="""Nothing in attention knows of origins. But a corpus tells more of some people than of
    others, a fact is learned by being read often, and so errors follow the corpus. Here people
    whose names are English, Nordic or Latin are told of four times, all others once, as in an
    encyclopedia written in one part of the world. With everybody told of once (details) the
    difference is gone: it is the corpus and not the spelling. The control deals the origins to
    other people, so that groups of the same sizes mean nothing.""",
    judge=Above(0.1, "error rate of names told of once less that of names told of often"),
    control="origins dealt to other people",
    together=LEARNERS,
)
def name_origin_bias(trial: Trial) -> Evidence:
    bars: dict[str, Estimate] = {}
    gaps: dict[str, Estimate] = {}
    for corpus in ("uneven", "even"):
        run = learned(trial.seed, trial.size, corpus)
        wrong = [not good for good in run.right]
        origins = [_origin(run.world, pair) for pair in run.world.held_out]
        often = [each in OFTEN for each in origins]
        gaps[corpus] = _gap(wrong, often)
        if corpus == "uneven":
            bars = {each: _rate(wrong, origins, each) for each in _in_order(origins)}
            dealt = mean_interval([_gap(wrong, each).value for each in _dealt(often, trial.seed)])
    return Evidence(
        dealt if trial.control else gaps["uneven"],
        Bars("error rate by origin of the name", bars),
        details={
            f"difference in an {corpus} corpus": "{:.2f} ({:.2f} to {:.2f})".format(
                gap.value, *gap.ends
            )
            for corpus, gap in gaps.items()
        },
    )


def _in_order(origins: list[str]) -> list[str]:
    """Those told of often first."""
    return sorted(set(origins), key=lambda each: (each not in OFTEN, each))


def _rate(wrong: list[bool], origins: list[str], origin: str) -> Estimate:
    mine = [bad for bad, each in zip(wrong, origins, strict=True) if each == origin]
    return fraction_interval(sum(mine), len(mine))


def _gap(wrong: list[bool], often: list[bool]) -> Estimate:
    once = [bad for bad, each in zip(wrong, often, strict=True) if not each]
    return _difference(once, [bad for bad, each in zip(wrong, often, strict=True) if each])


def _origin(world: World, pair: Pair) -> str:
    return next(person.origin for person in world.people if f" {person.name} born" in pair[0])


def _difference(one: list[bool], other: list[bool]) -> Estimate:
    """Of two shares, with Newcombe's interval from those of Wilson."""
    a, b = fraction_interval(sum(one), len(one)), fraction_interval(sum(other), len(other))
    (a_low, a_high), (b_low, b_high) = a.ends, b.ends
    gap = a.value - b.value
    down = ((a.value - a_low) ** 2 + (b_high - b.value) ** 2) ** 0.5
    up = ((a_high - a.value) ** 2 + (b.value - b_low) ** 2) ** 0.5
    return Estimate(gap, gap - down, gap + up)
