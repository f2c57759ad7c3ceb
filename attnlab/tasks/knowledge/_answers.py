"""Asking a trained model: what stands between the two masks, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.generate import Generated, Sampling, beam_search, generate
from attnlab.models import Decoder
from attnlab.tasks.knowledge._rows import Wording

NEW_TOKENS = 32  # the course's limit, in characters
BEAMS = 4


@dataclass(frozen=True)
class Answer:
    """What the model says, and what it would have said instead."""

    question: str
    text: str
    confidence: float
    """The probability of the whole answer, its end included."""
    other: str = ""
    """The likeliest different answer."""
    other_confidence: float = 0.0

    @property
    def margin(self) -> float:
        return self.confidence - self.other_confidence


def reach(model: Decoder) -> int:
    """The longest question and answer together; the course's synthesizer reads one token less."""
    limit = model.max_length
    return model.config.context if limit is None else min(model.config.context, limit)


def check_questions(questions: Sequence[str], wording: Wording, context: int) -> list[list[int]]:
    """The prompts; a question that the model cannot read is refused by its number."""
    prompts = []
    for number, question in enumerate(questions, 1):
        if not question.strip():
            raise ValueError(f"question {number} is empty; give a question with a name in it")
        wording.check(question, f"question {number}")
        prompts.append(wording.question(question))
        if len(prompts[-1]) >= context:
            raise ValueError(
                f"question {number} has {len(prompts[-1]) - 1} tokens; "
                f"this model reads at most {context - 2} with room for an answer: "
                f"{question[:40]!r}..."
            )
    return prompts


def answer(model: Decoder, wording: Wording, questions: Sequence[str]) -> list[str]:
    """The likeliest token each time: the course's way, all questions at once."""
    prompts = check_questions(questions, wording, reach(model))
    return [wording.decode(row.ids) for row in write(model, wording, prompts)]


def write(model: Decoder, wording: Wording, prompts: Sequence[Sequence[int]]) -> list[Generated]:
    """The greedy continuation of each prompt up to the mask."""
    found = [Generated() for _ in prompts]
    for places, room in _by_room(prompts, reach(model)):
        rows = generate(model, [prompts[i] for i in places], new_tokens=room, stop=wording.mask)
        for i, row in zip(places, rows, strict=True):
            found[i] = row[0]
    return found


def _by_room(prompts: Sequence[Sequence[int]], context: int) -> list[tuple[list[int], int]]:
    """Which prompts have room for a whole answer; the others have what is left, each its own."""
    rooms: dict[int, list[int]] = {}
    for i, prompt in enumerate(prompts):
        rooms.setdefault(min(NEW_TOKENS, context - len(prompt)), []).append(i)
    return [(places, room) for room, places in rooms.items()]


def answer_with_confidence(
    model: Decoder, wording: Wording, questions: Sequence[str]
) -> list[Answer]:
    """Greedy answers with their probability, and the likeliest other answer of a beam search."""
    prompts = check_questions(questions, wording, reach(model))
    found = []
    for question, said in zip(questions, candidates(model, wording, prompts), strict=True):
        (text, confidence), *others = said.items()
        other, likely = max(others, key=lambda pair: pair[1], default=("", 0.0))
        found.append(Answer(question, text, confidence, other, likely))
    return found


def candidates(
    model: Decoder, wording: Wording, prompts: Sequence[Sequence[int]], most: int = NEW_TOKENS
) -> list[dict[str, float]]:
    """What the model could say and how likely each is; the greedy text comes first.

    No answer has more than `most` tokens: a beam search goes on until its worst beam has ended.
    """
    greedy = write(model, wording, prompts)
    beams: list[list[Generated]] = [[] for _ in prompts]
    for places, whole in _by_room(prompts, reach(model)):
        room = min(whole, most)
        rows = beam_search(
            model,
            [prompts[i] for i in places],
            new_tokens=room,
            stop=wording.mask,
            width=BEAMS,
            best=BEAMS,
        )
        for i, row in zip(places, rows, strict=True):
            beams[i] = row
    found: list[dict[str, float]] = []
    for chosen, row in zip(greedy, beams, strict=True):
        texts = {wording.decode(chosen.ids): math.exp(chosen.score)}
        for each in row:
            texts.setdefault(wording.decode(each.ids), math.exp(each.score))
        found.append(texts)
    return found


def sample(
    model: Decoder,
    wording: Wording,
    questions: Sequence[str],
    *,
    samples: int,
    temperature: float,
    seed: int,
) -> list[list[str]]:
    """Several drawn answers to each question."""
    prompts = check_questions(questions, wording, reach(model))
    found: list[list[str]] = [[] for _ in prompts]
    for places, room in _by_room(prompts, reach(model)):
        rows = generate(
            model,
            [prompts[i] for i in places],
            new_tokens=room,
            stop=wording.mask,
            sampling=Sampling(temperature=temperature, seed=seed),
            samples=samples,
        )
        for i, row in zip(places, rows, strict=True):
            found[i] = [wording.decode(each.ids) for each in row]
    return found
