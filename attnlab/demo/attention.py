"""Where the models look while they answer: the reader into the text, the other at the name.

Letters: L layers, H heads, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attnlab.demo.found import Seen, Strip
from attnlab.interpret.api import Looked, look
from attnlab.interpret.own_subjects import OwnSubject, open_own
from attnlab.interpret.records import Sequence as Tokens
from attnlab.interpret.records import Side
from attnlab.tasks.knowledge.data import Library, Pair
from attnlab.tasks.knowledge.reading import standing
from attnlab.tasks.knowledge.rows import Wording
from attnlab.tasks.knowledge.world import World
from attnlab.tasks.knowledge.world_words import CITIES
from attnlab.tokens import MASK_SYMBOL

WRITTEN = 8  # tokens at most
BOX = "▢"  # for a mask: where an answer is due


@dataclass(frozen=True)
class Glance:
    """One question, from the place where the answer's first token is chosen."""

    tokens: Tokens
    weights: Tensor
    """(L, H, S)."""
    blank: Tensor
    """The same of a model that has learned nothing."""

    @property
    def prompt(self) -> int:
        assert self.tokens.prompt is not None
        return self.tokens.prompt

    def places(self, ids: Sequence[int]) -> list[int]:
        """Every token of every place where these ids stand together."""
        given, size = (self.tokens.ids or [])[: self.prompt], len(ids)
        starts = [i for i in range(len(given) - size + 1) if given[i : i + size] == list(ids)]
        return sorted({start + k for start in starts for k in range(size)})

    def on(self, ids: Sequence[int]) -> tuple[Tensor, Tensor]:
        """(L, H) twice: the weight on these ids, and the same of a model that learned nothing."""
        places = self.places(ids)
        return self.weights[..., places].sum(-1), self.blank[..., places].sum(-1)

    def strip(self, weights: Tensor) -> Strip:
        """`weights` (S), summed over the tokens of each word; a space belongs to the next word."""
        shown: list[tuple[str, float]] = []
        last = None
        for place in range(self.prompt):
            word = self.tokens.words[place]
            text, weight = self.tokens.texts[place], float(weights[place])
            if shown and (word == last or not shown[-1][0].strip()):
                before = shown.pop()
                text, weight = before[0] + text, before[1] + weight
            shown.append((text, weight))
            last = word
        words = [(text.strip().replace(MASK_SYMBOL, BOX), weight) for text, weight in shown]
        return Strip(words, "".join(self.tokens.texts[self.prompt :]).strip())


def see(learned: Path, world: World, people: int, seed: int) -> tuple[Seen, Looked, Looked]:
    """What was seen, and the clearest reading and the same answer from memory, to be looked at.

    The head that finds cities is chosen on people with a label and measured on people without.
    """
    library = Library(world.corpus)
    reader, memory = open_own(learned / "readers" / "1"), open_own(learned)
    wording = Wording(reader.tokenizer)
    known = [_read(reader, pair, library, wording, seed) for pair in world.train[:people]]
    cities = torch.stack([each.answer + each.other for each in known]).mean(0)  # (L, H)
    layer, head = divmod(int(cities.argmax()), cities.shape[1])
    asked = world.held_out[:people]
    readings = [_read(reader, pair, library, wording, seed) for pair in asked]
    points = [float(each.answer[layer, head]) for each in readings]
    clearest = points.index(max(points))
    question, document = asked[clearest][0], readings[clearest].document
    glance, mine = readings[clearest].glance, _glance(memory, question, None, seed)
    names, chance = _remembered(memory, library, wording, asked, seed)

    def average(tensors: Sequence[Tensor]) -> float:
        return float(torch.stack([each[layer, head] for each in tensors]).mean())

    seen = Seen(
        question=question,
        document=document,
        layer=layer,
        head=head,
        people=len(asked),
        answer=average([each.answer for each in readings]),
        other=average([each.other for each in readings]),
        untrained=average([each.blank for each in readings]),
        share=sum(each.share for each in readings) / len(readings),
        reading=glance.strip(glance.weights[layer, head]),
        remembering=mine.strip(mine.weights.mean((0, 1))),
        names=names,
        chance=chance,
    )
    opened = look(reader, document, pair=question, generate=WRITTEN, seed=seed)
    return seen, opened, look(memory, question, generate=WRITTEN, seed=seed)


@dataclass(frozen=True)
class Reading:
    """How much the reader looks at the answer in a document, and at other cities: each (L, H)."""

    document: str
    glance: Glance
    answer: Tensor
    other: Tensor
    blank: Tensor
    """On all of these, of a reader that has learned nothing."""
    share: float
    """Of the tokens, that are cities'."""


def _read(reader: OwnSubject, pair: Pair, library: Library, wording: Wording, seed: int) -> Reading:
    question, gold = pair
    document = library.by_title[library.title_in(question) or ""][0]
    glance = _glance(reader, document, question, seed)
    answer, blank = glance.on(wording.encode(gold))
    other, places = torch.zeros_like(answer), set(glance.places(wording.encode(gold)))
    for city in CITIES:
        if city != gold and standing(city, document):
            ids = wording.encode(city)
            mine, nothing = glance.on(ids)
            other, blank = other + mine, blank + nothing
            places |= set(glance.places(ids))
    return Reading(document, glance, answer, other, blank, len(places) / glance.prompt)


def _remembered(
    memory: OwnSubject, library: Library, wording: Wording, asked: Sequence[Pair], seed: int
) -> tuple[list[tuple[float, float]], float]:
    """Layer by layer the weight on the name, and untrained; and the name's share of the tokens."""
    trained, blank, shares = [], [], []
    for question, _ in asked:
        found = _glance(memory, question, None, seed)
        ids = wording.encode(library.title_in(question) or "")
        mine, nothing = found.on(ids)
        trained.append(mine.mean(1))
        blank.append(nothing.mean(1))  # (L)
        shares.append(len(found.places(ids)) / found.prompt)
    pairs = zip(torch.stack(trained).mean(0), torch.stack(blank).mean(0), strict=True)
    return [(float(mine), float(none)) for mine, none in pairs], sum(shares) / len(shares)


def _glance(subject: OwnSubject, text: str, question: str | None, seed: int) -> Glance:
    """At a question, or at a document and a question about it."""
    seen = look(
        subject, text, pair=question, generate=WRITTEN, untrained=True, seed=seed,
        gradients=False, control=False,
    )  # fmt: skip
    trained, blank = map(_chosen, seen.sides)
    return Glance(seen.sides[0].sequences[0], trained, blank)


def _chosen(side: Side) -> Tensor:
    """(L, H, S): the weights with which the first written token was chosen."""
    prompt = side.sequences[0].prompt
    assert prompt is not None
    found = [layer.weights for layer in side.layers]
    return torch.stack([each[:, prompt - 1] for each in found if each is not None])
