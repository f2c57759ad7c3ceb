"""Where a model that knows facts forms its answer, by activation patching.

Letters: L streams (the embedding and the output of each block), T tokens.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

import attnlab
from attnlab.claims._claim import Evidence, Lines, Size, Trial, claim, mean_interval
from attnlab.claims._world_models import SCALES, train_on_world
from attnlab.claims.judges import Above, Below, Every
from attnlab.models import Decoder
from attnlab.report import Series
from attnlab.tasks.knowledge._answers import answer_greedily
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge._world import WorldConfig, make_world

LAYERS = 4
BEFORE, AFTER = "Where was", "born?"
EMBEDDING = "answer restored by the embedding of the name's last token"
NAME, END = "the name's last token", "the question's last token"
PLACES = ("the name's first token", NAME, "the first token after the name", END)


@dataclass(frozen=True)
class Question:
    """A question that the model answers correctly."""

    name: list[int]
    ids: list[int]
    answer: int
    """The first token of the answer."""


@claim(
    "answer-at-the-name",
    topic="effects",
    source="paper",
    quoted=True,
    statement="a model that knows where people were born forms the answer in its last layers at "
    "the last token of the name",
    why="""The name has several tokens, and only after its last one all of them are known. There a
    large model looks up the fact in its middle layers, and the last position reads it. In the
    question about one person, the residual stream at one position and one layer is replaced by that
    of the question about another person; what counts is how much of the other answer comes back
    (the difference of the logits of both answers' first tokens). If the answer is formed at the
    name and read from there late, then in the second half of the layers the name's last token
    restores more than the question's last token, where the answer is written; and its embedding,
    which is only the last piece of a name, restores little. This model of 4 layers is too small for
    that: after its first layer the question's last token has most of the answer, and the name's
    last token next to nothing. Only questions that the model answers correctly are used, in pairs
    whose names have equally many tokens.""",
    judge=Every(
        Above(0.0, f"answer restored at {NAME} less that at {END}, second half of the layers"),
        [Below(0.5, EMBEDDING)],
    ),
    control="the two tokens exchanged",
    reference="Meng et al. 2022, Locating and editing factual associations in GPT (arXiv "
    "2202.05262)",
)
def answer_at_the_name(trial: Trial) -> Evidence:
    maps = restored_answers(trial.seed, trial.size)  # (pairs, L, places)
    curves = maps.mean(0)  # (L, places)
    name, end = (maps[:, :, PLACES.index(place)] for place in (NAME, END))  # (pairs, L)
    if trial.control:
        name, end = end, name
    half = slice(LAYERS // 2, LAYERS)  # without the last stream: only its last token is read
    return Evidence(
        mean_interval((name - end)[:, half].mean(1).tolist()),
        Lines(
            "layers before the patch",
            "part of the answer that is restored",
            [
                Series(place, [(float(layer), float(y)) for layer, y in enumerate(curves[:, i])])
                for i, place in enumerate(PLACES)
            ],
        ),
        parts={EMBEDDING: mean_interval(maps[:, 0, PLACES.index(NAME)].tolist())},
        details={
            **{
                f"restored at {place}, after {layer} layers": float(curves[layer, i])
                for place, i in ((NAME, PLACES.index(NAME)), (END, PLACES.index(END)))
                for layer in range(LAYERS)
            },
            "pairs of people": len(maps),
            "layers": LAYERS,
        },
    )


@lru_cache(maxsize=4)
def restored_answers(seed: int, size: Size) -> Tensor:
    """(pairs, L, places): the part of the answer that each patch restores. Cached, because the
    control needs the same."""
    model, questions = learn_questions(seed, size)
    maps = []
    for one, other in pair_questions(questions)[: 24 if size == "small" else 96]:
        patched = attnlab.patching_map(model, one.ids, other.ids, one.answer, other=other.answer)
        maps.append(patched.restored[:, places_of(one)])
    if len(maps) < 2:
        raise ValueError("the model answers too few questions about names of equal length")
    return torch.stack(maps)


def learn_questions(seed: int, size: Size) -> tuple[Decoder, list[Question]]:
    """A trained model, and the questions without training pairs that it answers correctly."""
    scale = SCALES[size]
    scale = replace(scale, model={**scale.model, "layers": LAYERS})
    world = make_world(WorldConfig(seed=seed, **scale.world))
    with tempfile.TemporaryDirectory() as folder:
        model, encoding = train_on_world(Path(folder), world, scale, seed)
    model.eval()
    answers = answer_greedily(model, encoding, [question for question, _ in world.held_out])
    return model, [
        encode_question(encoding, question, gold)
        for (question, gold), answer in zip(world.held_out, answers, strict=True)
        if answer == gold
    ]


def encode_question(encoding: KnowledgeTextEncoding, question: str, answer: str) -> Question:
    name = question.removeprefix(BEFORE).removesuffix(AFTER)
    assert f"{BEFORE}{name}{AFTER}" == question, f"{question!r} is worded differently"
    ids = encoding.encode_question(question)
    return Question(encoding.encode(name), ids, encoding.encode(answer)[0])


def pair_questions(questions: list[Question]) -> list[tuple[Question, Question]]:
    """Pairs of names with equally many tokens, which differ in the last one, and other answers.
    Each question is in at most one pair."""
    pairs, waiting = list[tuple[Question, Question]](), list[Question]()
    for question in questions:
        for other in waiting:
            if (
                len(other.name) == len(question.name)
                and other.name[-1] != question.name[-1]
                and other.answer != question.answer
            ):
                waiting.remove(other)
                pairs.append((other, question))
                break
        else:
            waiting.append(question)
    return pairs


def places_of(question: Question) -> list[int]:
    """The positions of PLACES."""
    T, name = len(question.ids), len(question.name)
    first = next(i for i in range(T) if question.ids[i : i + name] == question.name)
    return [first, first + name - 1, first + name, T - 1]
