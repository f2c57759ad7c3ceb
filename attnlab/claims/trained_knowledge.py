"""What a small model knows about the people of attnlab's built-in world."""

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
from attnlab.claims._world_models import FREQUENT_ORIGINS, WORLD_MODELS, learn_world
from attnlab.claims.judges import Above, Below, Between, Every
from attnlab.report import Mark, Series
from attnlab.tasks.knowledge._data import Pair, most_common_answer
from attnlab.tasks.knowledge._name_matching import NameIndex
from attnlab.tasks.knowledge._scoring import histogram_of_answers, top_fraction
from attnlab.tasks.knowledge._world import World

T = TypeVar("T")

SHUFFLES = 100
NO_PRETRAINING = "the same without pretraining"
REAL_PLACES = "the fraction of wrong answers that are real places"


@claim(
    "pretraining-gives-knowledge",
    topic="trained",
    source="course",
    statement="without pretraining accuracy stays under the most-common-place baseline and answers "
    "collapse onto a few places; with it it goes far above",
    why="""Questions about some people say nothing about others, so from questions alone a model can
    only learn how common each place is. If place i is correct for a fraction p_i of the questions
    and a model without knowledge answers it in a fraction r_i of them, its accuracy is sum r_i p_i,
    at most max p_i: no better than always answering the most common place. A model that has read
    the corpus first has the facts about everybody in its weights, and the questions teach it to
    output them: the difference is knowledge, not skill. Answers collapse early in training, when a
    model has learned little except which places are common. Later it memorizes its training
    questions, and its answers spread again, as wrong as before. So the judge compares both
    accuracies, on people without a training question, and the details show the collapse.""",
    judge=Every(
        Above(0.2, "accuracy minus that of always answering the most common place"),
        [Below(0.05, NO_PRETRAINING)],
    ),
    control="the two models exchanged",
    group=WORLD_MODELS,
)
def pretraining_gives_knowledge(trial: Trial) -> Evidence:
    runs = {
        "pretrained": learn_world(trial.seed, trial.size),
        "no pretraining": learn_world(trial.seed, trial.size, "none"),
    }
    world = runs["pretrained"].world
    common = most_common_answer(world.train)
    baseline = sum(gold == common for _, gold in world.held_out) / len(world.held_out)
    bars = {
        name: fraction_interval(sum(run.correct), len(run.correct)) for name, run in runs.items()
    }
    without_pretraining, with_pretraining = "no pretraining", "pretrained"
    if trial.control:
        without_pretraining, with_pretraining = with_pretraining, without_pretraining
    return Evidence(
        _subtract(bars[with_pretraining], baseline),
        Bars("fraction of correct answers", bars, [Mark(f"always {common}", y=baseline)]),
        details={
            f"always {common}": round(baseline, 3),
            **{
                f"fraction of the three most common answers, {name}": round(
                    top_fraction(histogram_of_answers(answer.text for answer in run.answers)), 3
                )
                for name, run in runs.items()
            },
        },
        parts={NO_PRETRAINING: _subtract(bars[without_pretraining], baseline)},
    )


def _subtract(estimate: Estimate, amount: float) -> Estimate:
    low, high = estimate.ends
    return Estimate(estimate.value - amount, low - amount, high - amount)


@claim(
    "invented-answers",
    topic="trained",
    source="course",
    statement="a wrong answer looks like a right one; confidence separates the two only partly",
    why="""A language model always outputs a likely text: a place, in the same words, whether it
    knows the answer or not. Its confidence is the product of its tokens' probabilities. The area
    under the ROC curve is the probability that a correct answer has a higher confidence than a
    wrong one: 1/2 is chance, 1 separates all. In between there is a trade-off: answer fewer
    questions (coverage) and make fewer errors (risk), as the plot shows.""",
    judge=Every(
        Between(0.55, 0.99, "area under the ROC curve of confidence"),
        [Above(0.5, REAL_PLACES)],
    ),
    control="shuffled confidences",
    group=WORLD_MODELS,
)
def invented_answers(trial: Trial) -> Evidence:
    run = learn_world(trial.seed, trial.size)
    confidences, correct = [answer.confidence for answer in run.answers], run.correct
    places = {gold for _, gold in [*run.world.train, *run.world.held_out]}
    wrong = [
        answer.text
        for answer, is_correct in zip(run.answers, correct, strict=True)
        if not is_correct
    ]
    real_fraction = fraction_interval(sum(text in places for text in wrong), max(1, len(wrong)))
    shuffled = _shuffle_many(confidences, trial.seed)
    lines = [
        Series("by confidence", _risk_coverage_points(confidences, correct)),
        Series("shuffled confidences", _risk_coverage_points(shuffled[0], correct)),
    ]
    return Evidence(
        mean_interval([roc_area(order, correct) or 0.0 for order in shuffled])
        if trial.control
        else _roc_area(confidences, correct, trial.seed),
        Lines("fraction of questions answered", "fraction of wrong answers", lines),
        details={
            "right": sum(correct),
            "wrong": len(wrong),
        },
        parts={REAL_PLACES: real_fraction},
    )


def _shuffle_many(values: list[T], seed: int) -> list[list[T]]:
    """The values in many random orders: the mean over them is the chance level."""
    rng = random.Random(seed)
    return [rng.sample(values, len(values)) for _ in range(SHUFFLES)]


def _risk_coverage_points(
    confidences: list[float], correct: list[bool]
) -> list[tuple[float, float]]:
    return [(point.coverage, 1 - point.precision) for point in risk_coverage(confidences, correct)]


def _roc_area(
    confidences: list[float], correct_answers: list[bool], seed: int, resamples: int = 300
) -> Estimate:
    """The area under the ROC curve, with a 95% bootstrap interval over questions."""
    rng = np.random.default_rng(seed)
    values, correct = np.array(confidences), np.array(correct_answers)
    areas = []
    for _ in range(resamples):
        indices = rng.integers(len(confidences), size=len(confidences))
        area = roc_area(values[indices], correct[indices])
        if area is not None:
            areas.append(area)
    whole = roc_area(values, correct)
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
    these tokens, so for a made-up name it depends on what similar names have in common with it: the
    answer is the place of a person with nearly the same name. The experiment measures how often the
    answer is the birthplace of one of the three people with the most similar spelling, minus how
    often it is one of the three places that belong to another made-up name, which is the effect of
    chance and of common places: P(answer in near(name)) - P(answer in near(another name)).""",
    judge=Above(
        0.05, "how much more often the answer is a place of similar names than of other names"
    ),
    control="answers shuffled among the made-up names",
    group=WORLD_MODELS,
)
def unseen_name(trial: Trial) -> Evidence:
    run = learn_world(trial.seed, trial.size)
    places = {person.name: person.facts["birthplace"] for person in run.world.people}
    index = NameIndex(places)
    names = list(run.made_up_answers)
    near_places = [{places[person] for person, _ in index.nearest(name)} for name in names]
    answers = [run.made_up_answers[name].text for name in names]
    by_chance = [
        sum(text in nearby for nearby in near_places) / len(near_places) for text in answers
    ]
    matches = [float(text in nearby) for text, nearby in zip(answers, near_places, strict=True)]
    gains = [match - chance for match, chance in zip(matches, by_chance, strict=True)]
    if trial.control:
        baseline = sum(by_chance) / len(by_chance)
        gains = [
            sum(text in nearby for text, nearby in zip(shuffled, near_places, strict=True))
            / len(near_places)
            - baseline
            for shuffled in _shuffle_many(answers, trial.seed)
        ]
    return Evidence(
        mean_interval(gains),
        Bars(
            "fraction of answers among three places",
            {
                "of the three most similar names": mean_interval(matches),
                "of another name's three": mean_interval(by_chance),
            },
        ),
        details={
            "made-up names": len(names),
            "mean confidence": round(
                sum(answer.confidence for answer in run.made_up_answers.values()) / len(names), 3
            ),
        },
    )


@claim(
    "name-origin-bias",
    topic="trained",
    source="course",
    statement="error rates differ by the origin of the name",
    why="""Nothing in attention depends on origins. But a corpus contains more about some people
    than about others, and a model learns a fact better the more often it reads it, so errors follow
    the corpus. Here people with English, Nordic or Latin names occur four times and all others
    once, as in an encyclopedia written in one part of the world. If everybody occurs once
    (details), the difference disappears: the cause is the corpus, not the spelling. The control
    shuffles the origins, so that the groups have the same sizes but no meaning.""",
    judge=Above(0.1, "error rate of names that occur once minus that of frequent names"),
    control="origins shuffled among people",
    group=WORLD_MODELS,
)
def name_origin_bias(trial: Trial) -> Evidence:
    bars: dict[str, Estimate] = {}
    gaps: dict[str, Estimate] = {}
    for corpus in ("uneven", "even"):
        run = learn_world(trial.seed, trial.size, corpus)
        wrong = [not is_correct for is_correct in run.correct]
        origins = [_origin_of(run.world, pair) for pair in run.world.held_out]
        frequent = [origin in FREQUENT_ORIGINS for origin in origins]
        gaps[corpus] = _error_gap(wrong, frequent)
        if corpus == "uneven":
            bars = {
                origin: _error_rate(wrong, origins, origin) for origin in _sort_origins(origins)
            }
            shuffled = mean_interval(
                [_error_gap(wrong, order).value for order in _shuffle_many(frequent, trial.seed)]
            )
    return Evidence(
        shuffled if trial.control else gaps["uneven"],
        Bars("error rate by origin of the name", bars),
        details={
            f"difference in an {corpus} corpus": "{:.2f} ({:.2f} to {:.2f})".format(
                gap.value, *gap.ends
            )
            for corpus, gap in gaps.items()
        },
    )


def _sort_origins(origins: list[str]) -> list[str]:
    """Frequent origins first."""
    return sorted(set(origins), key=lambda origin: (origin not in FREQUENT_ORIGINS, origin))


def _error_rate(wrong: list[bool], origins: list[str], origin: str) -> Estimate:
    errors = [is_wrong for is_wrong, other in zip(wrong, origins, strict=True) if other == origin]
    return fraction_interval(sum(errors), len(errors))


def _error_gap(wrong: list[bool], frequent: list[bool]) -> Estimate:
    pairs = list(zip(wrong, frequent, strict=True))
    rare_errors = [is_wrong for is_wrong, is_frequent in pairs if not is_frequent]
    return _difference(rare_errors, [is_wrong for is_wrong, is_frequent in pairs if is_frequent])


def _origin_of(world: World, pair: Pair) -> str:
    return next(person.origin for person in world.people if f" {person.name} born" in pair[0])


def _difference(one: list[bool], other: list[bool]) -> Estimate:
    """Difference of two fractions, with Newcombe's interval from Wilson intervals."""
    a, b = fraction_interval(sum(one), len(one)), fraction_interval(sum(other), len(other))
    (a_low, a_high), (b_low, b_high) = a.ends, b.ends
    gap = a.value - b.value
    down = ((a.value - a_low) ** 2 + (b_high - b.value) ** 2) ** 0.5
    up = ((a_high - a.value) ** 2 + (b.value - b_low) ** 2) ** 0.5
    return Estimate(gap, gap - down, gap + up)
