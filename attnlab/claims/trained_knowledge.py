"""What a small model knows of people it read about, in attnlab's embedded world.

A world is learned once in a process, and the four claims ask the same model.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from attnlab.charts import Mark, Series
from attnlab.claims.base import Bars, Evidence, Figure, Plot, Size, Trial, claim, over, share
from attnlab.claims.judges import Above, Between
from attnlab.files import write_text
from attnlab.tasks.knowledge import recipe
from attnlab.tasks.knowledge.answers import Answer, answer_with_confidence
from attnlab.tasks.knowledge.data import Pair, most_common_answer, title_of
from attnlab.tasks.knowledge.material import load_knowledge
from attnlab.tasks.knowledge.measures import (
    NameIndex,
    histogram_of_answers,
    risk_coverage,
    roc_area,
    top_share,
)
from attnlab.tasks.knowledge.rows import Wording
from attnlab.tasks.knowledge.world import World, WorldConfig, made_up_names, make_world

T = TypeVar("T")

DEALS = 100
OFTEN = ("english", "nordic", "latin")
TIMES = 4


@dataclass(frozen=True)
class Scale:
    """How large a world, how large a model, how long it learns."""

    world: dict[str, Any]
    model: dict[str, Any]
    reading: float
    asking: float
    scratch: float
    made_up: int


SCALES: dict[Size, Scale] = {
    "small": Scale(
        {"people": 240, "tellings": 1, "wordings": 1, "distractors": 0},
        {"width": 64, "layers": 1, "heads": 4},
        reading=16, asking=5, scratch=15, made_up=300,
    ),
    "full": Scale(
        {"people": 600, "tellings": 1, "wordings": 1, "distractors": 0},
        {"width": 64, "layers": 1, "heads": 4},
        reading=24, asking=7, scratch=15, made_up=1000,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Learned:
    """A model's answers about people that no training question asked about, and about nobody."""

    world: World
    said: list[Answer]
    about_nobody: dict[str, Answer]
    """By made-up name."""

    @property
    def right(self) -> list[bool]:
        golds = [gold for _, gold in self.world.held_out]
        return [each.text == gold for each, gold in zip(self.said, golds, strict=True)]


@lru_cache(maxsize=4)
def learned(seed: int, size: Size, corpus: str = "even") -> Learned:
    """`corpus`: "even" tells of each person once, "uneven" of some origins several times, and
    "none" is not read: questions are all there is."""
    scale = SCALES[size]
    world = make_world(WorldConfig(seed=seed, **scale.world))
    names = made_up_names(scale.made_up, seed, {person.name for person in world.people})
    with tempfile.TemporaryDirectory() as folder:
        model, wording = _train(Path(folder), world, scale, seed, corpus)
        asked = [question for question, _ in world.held_out]
        said = answer_with_confidence(model, wording, asked)
        nobody = answer_with_confidence(model, wording, [f"Where was {n} born?" for n in names])
    return Learned(world, said, dict(zip(names, nobody, strict=True)))


def _train(folder: Path, world: World, scale: Scale, seed: int, corpus: str) -> tuple[Any, Wording]:
    world.write(folder / "world")
    lines, pairs = folder / "world" / "corpus.txt", folder / "world" / "train.tsv"
    passes = 1.0
    if corpus == "uneven":
        often = {person.name for person in world.people if person.origin in OFTEN}
        repeated = [
            line for line in world.corpus for _ in range(TIMES if title_of(line) in often else 1)
        ]
        write_text(lines, "".join(f"{line}\n" for line in repeated))
        passes = len(world.corpus) / len(repeated)  # so that it learns as long
    shared: dict[str, Any] = {
        "corpus": lines, "pairs": pairs, "training": {"seed": seed}, "quiet": True,
    }  # fmt: skip
    made: dict[str, Any] = {"model": scale.model, "tokenizer": "bpe:600"}
    if corpus == "none":
        recipe.finetune(out=folder / "asked", epochs=scale.scratch, **shared, **made)
    else:
        recipe.pretrain(out=folder / "read", epochs=passes * scale.reading, **shared, **made)
        recipe.finetune(folder / "read", out=folder / "asked", epochs=scale.asking, **shared)
    model, tokens, _ = load_knowledge(folder / "asked")
    return model, Wording(tokens)


@claim(
    "pretraining-gives-knowledge",
    topic="trained",
    source="course",
    statement="without pretraining accuracy stays under the most-common-place baseline and answers "
    "collapse onto a few places; with it it goes far above",
    why="""Questions about some people say nothing about others, so from questions alone a model can
    only learn how common each place is: the best it can do is to answer the commonest place
    always, and what it does is to answer a few common ones. Who has read the
    corpus first has the facts of everybody in its weights, and questions teach it to say them. So
    the difference is not skill but knowledge. Measured on people no question asked about; the
    details give how often the three commonest answers came.""",
    judge=Above(0.2, "accuracy less that of always the commonest place"),
    control="no pretraining",
)
def pretraining_gives_knowledge(trial: Trial) -> Evidence:
    runs = {
        "pretrained": learned(trial.seed, trial.size),
        "no pretraining": learned(trial.seed, trial.size, "none"),
    }
    world = runs["pretrained"].world
    common = most_common_answer(world.train)
    base = sum(gold == common for _, gold in world.held_out) / len(world.held_out)
    bars = {name: share(sum(run.right), len(run.right)) for name, run in runs.items()}
    found = bars["no pretraining" if trial.control else "pretrained"]
    low, high = found.ends
    return Evidence(
        Figure(found.value - base, low - base, high - base),
        Bars("share of right answers", bars, [Mark(f"always {common}", y=base)]),
        details={
            f"always {common}": round(base, 3),
            **{
                f"share of the three commonest answers, {name}": round(
                    top_share(histogram_of_answers(each.text for each in run.said)), 3
                )
                for name, run in runs.items()
            },
        },
    )


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
    judge=Between(0.55, 0.99, "area under the ROC curve of confidence"),
    control="confidences dealt to other answers",
)
def invented_answers(trial: Trial) -> Evidence:
    run = learned(trial.seed, trial.size)
    sure, right = [each.confidence for each in run.said], run.right
    known = {gold for _, gold in [*run.world.train, *run.world.held_out]}
    wrong = [each.text for each, good in zip(run.said, right, strict=True) if not good]
    dealt = _dealt(sure, trial.seed)
    lines = [
        Series("by confidence", _risk(sure, right)),
        Series("confidences dealt by chance", _risk(dealt[0], right)),
    ]
    return Evidence(
        over([roc_area(each, right) or 0.0 for each in dealt])
        if trial.control
        else _area(sure, right, trial.seed),
        Plot("share of questions answered", "share of wrong answers", lines),
        details={
            "right": sum(right),
            "wrong": len(wrong),
            "wrong answers that are real places": round(
                sum(text in known for text in wrong) / max(1, len(wrong)), 3
            ),
        },
    )


def _dealt(values: list[T], seed: int) -> list[list[T]]:
    """The same values in many orders: what chance would do, without its noise."""
    draw = random.Random(seed)
    return [draw.sample(values, len(values)) for _ in range(DEALS)]


def _risk(sure: list[float], right: list[bool]) -> list[tuple[float, float]]:
    return [(point.coverage, 1 - point.precision) for point in risk_coverage(sure, right)]


def _area(sure: list[float], right: list[bool], seed: int, times: int = 300) -> Figure:
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
        return Figure(float("nan"))
    low, high = np.quantile(areas, [0.025, 0.975])
    return Figure(whole, float(low), float(high))


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
    give.""",
    judge=Above(0.05, "how much more often a place of similar names than of other names"),
    control="answers dealt to other made-up names",
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
        over(gains),
        Bars(
            "share of answers among three places",
            {"of the three most similar names": over(own), "of another name's three": over(usual)},
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
)
def name_origin_bias(trial: Trial) -> Evidence:
    bars: dict[str, Figure] = {}
    gaps: dict[str, Figure] = {}
    for corpus in ("uneven", "even"):
        run = learned(trial.seed, trial.size, corpus)
        wrong = [not good for good in run.right]
        origins = [_origin(run.world, pair) for pair in run.world.held_out]
        often = [each in OFTEN for each in origins]
        gaps[corpus] = _gap(wrong, often)
        if corpus == "uneven":
            bars = {each: _rate(wrong, origins, each) for each in _in_order(origins)}
            dealt = over([_gap(wrong, each).value for each in _dealt(often, trial.seed)])
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


def _rate(wrong: list[bool], origins: list[str], origin: str) -> Figure:
    mine = [bad for bad, each in zip(wrong, origins, strict=True) if each == origin]
    return share(sum(mine), len(mine))


def _gap(wrong: list[bool], often: list[bool]) -> Figure:
    once = [bad for bad, each in zip(wrong, often, strict=True) if not each]
    return _difference(once, [bad for bad, each in zip(wrong, often, strict=True) if each])


def _origin(world: World, pair: Pair) -> str:
    return next(person.origin for person in world.people if f" {person.name} born" in pair[0])


def _difference(one: list[bool], other: list[bool]) -> Figure:
    """Of two shares, with Newcombe's interval from those of Wilson."""
    a, b = share(sum(one), len(one)), share(sum(other), len(other))
    (a_low, a_high), (b_low, b_high) = a.ends, b.ends
    gap = a.value - b.value
    down = ((a.value - a_low) ** 2 + (b_high - b.value) ** 2) ** 0.5
    up = ((a_high - a.value) ** 2 + (b.value - b_low) ** 2) ** 0.5
    return Figure(gap, gap - down, gap + up)
