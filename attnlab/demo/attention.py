"""Where the models look while they answer: the reader into the line, the other at the name.

Letters: L layers, H heads, S keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attnlab.interpret.api import Looked, look
from attnlab.interpret.own_subjects import OwnSubject, open_own
from attnlab.interpret.records import Sequence as Tokens
from attnlab.intervals import Estimate, percent
from attnlab.report import Bars, Block, Figure, Mark, Section, Strip
from attnlab.tasks.knowledge.data import Library, Pair
from attnlab.tasks.knowledge.rows import Wording
from attnlab.tasks.knowledge.world import World
from attnlab.tasks.knowledge.world_vocabulary import CITIES
from attnlab.tokens import MASK_SYMBOL

WRITTEN = 8  # tokens at most
BOX = "▢"  # for a mask: where an answer is due


@dataclass(frozen=True)
class Glance:
    """One question, from the place where the answer's first token is chosen."""

    tokens: Tokens
    weights: Tensor
    """(2, L, H, S): of the trained model, and of the same model untrained."""

    @property
    def prompt(self) -> int:
        assert self.tokens.prompt is not None
        return self.tokens.prompt

    def mask(self, phrases: Iterable[Sequence[int]]) -> Tensor:
        """(S,) 1 for every token of the prompt that belongs to one of these runs of ids."""
        given, mask = (self.tokens.ids or [])[: self.prompt], torch.zeros(self.weights.shape[-1])
        for ids in phrases:
            for start in range(len(given) - len(ids) + 1):
                if given[start : start + len(ids)] == list(ids):
                    mask[start : start + len(ids)] = 1.0
        return mask

    def strip(self, title: str, weights: Tensor) -> Strip:
        """`weights` (S,), summed over the tokens of each word; a space belongs to the next word."""
        words: list[tuple[str, float]] = []
        last = None
        for place in range(self.prompt):
            text, weight = self.tokens.texts[place], float(weights[place])
            if words and (self.tokens.words[place] == last or not words[-1][0].strip()):
                before = words.pop()
                text, weight = before[0] + text, before[1] + weight
            words.append((text, weight))
            last = self.tokens.words[place]
        written = "".join(self.tokens.texts[self.prompt :]).strip()
        note = (
            "The stronger a word's color, the more weight is on it when the answer is due, which "
            f"is at the last {BOX}. Written next: {written}"
        )
        texts = [text.strip().replace(MASK_SYMBOL, BOX) for text, _ in words]
        return Strip(title, texts, [weight for _, weight in words], note)


@dataclass(frozen=True)
class Measured:
    """The section of the report, and two captures to look at."""

    section: Section
    example: tuple[str, str]
    """The document and the question of both captures."""
    reading: Looked
    remembering: Looked


def measure_attention(learned: Path, world: World, people: int, seed: int) -> Measured:
    """The head that finds cities is chosen on people with a label, measured on people without."""
    library = Library(world.corpus)
    reader, memory = open_own(learned / "readers" / "1"), open_own(learned)
    wording = Wording(reader.tokenizer)
    cities = [wording.encode(city) for city in CITIES]

    def document_of(pair: Pair) -> str:
        return library.by_title[library.title_in(pair[0]) or ""][0]

    def read(pair: Pair) -> Glance:
        return _glance(reader, document_of(pair), pair[0], seed)

    labelled = [read(pair) for pair in world.train[:people]]
    on_cities = sum(each.weights[0] @ each.mask(cities) for each in labelled)  # (L, H)
    assert isinstance(on_cities, Tensor)
    layer, head = divmod(int(on_cities.argmax()), on_cities.shape[1])
    asked = world.held_out[:people]
    readings = [read(pair) for pair in asked]
    answers = [
        float(each.weights[0, layer, head] @ each.mask([wording.encode(gold)]))
        for each, (_, gold) in zip(readings, asked, strict=True)
    ]
    masks = [each.mask(cities) for each in readings]
    found = _mean([g.weights[:, layer, head] @ m for g, m in zip(readings, masks, strict=True)])
    share = _mean([m.sum() / g.prompt for g, m in zip(readings, masks, strict=True)])
    clearest = answers.index(max(answers))
    question, document = asked[clearest][0], document_of(asked[clearest])
    memories = [_glance(memory, pair[0], None, seed) for pair in asked]
    answer = sum(answers) / len(answers)
    findings = [
        "While it still learns to read, it has the line before it. Nobody told it what a city is, "
        f"yet one head (layer {layer}, head {head}) gives {percent(float(found[0]))} of its weight "
        f"to the cities there, {percent(answer)} to the birthplace and "
        f"{percent(float(found[0]) - answer)} to others: the mean over {len(asked)} people without "
        f"a label. Cities are {percent(float(share))} of the tokens, and an untrained head gives "
        f"them {percent(float(found[1]))}. Which of them is meant, later layers decide.",
        "Later the line is gone, and there is nothing to find. What it looks at then is the name: "
        "the answer must come from what the weights make of it.",
    ]
    names = [
        each.mask([wording.encode(library.title_in(pair[0]) or "")])
        for each, pair in zip(memories, asked, strict=True)
    ]
    shown, recalled = readings[clearest], memories[clearest]
    blocks: list[Block] = [
        shown.strip("The reader, with the line before it", shown.weights[0, layer, head]),
        recalled.strip(
            "The same question from memory, the mean of all heads", recalled.weights[0].mean((0, 1))
        ),
        _names_figure(memories, names),
    ]
    return Measured(
        Section("attention", "Where did it look?", findings, blocks=blocks),
        (document, question),
        look(reader, document, pair=question, generate=WRITTEN, seed=seed),
        look(memory, question, generate=WRITTEN, seed=seed),
    )


def _names_figure(memories: Sequence[Glance], masks: Sequence[Tensor]) -> Figure:
    """Layer by layer the weight on the name, trained and untrained."""
    pairs = list(zip(memories, masks, strict=True))
    trained, untrained = _mean([each.weights.mean(2) @ mask for each, mask in pairs])  # (L,) each
    share = float(_mean([mask.sum() / each.prompt for each, mask in pairs]))
    plot = Bars(
        "trained",
        {f"layer {place}": Estimate(float(value)) for place, value in enumerate(trained)},
        [Mark(f"its share of the tokens: {percent(share)}", y=share)],
        percent=True,
        beside={f"layer {place}": float(value) for place, value in enumerate(untrained)},
        beside_name="untrained",
    )
    return Figure("Weight on the name, when the answer is due", plot)


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).mean(0)


def _glance(subject: OwnSubject, text: str, question: str | None, seed: int) -> Glance:
    """At a question, or at a document and a question about it."""
    looked = look(
        subject, text, pair=question, generate=WRITTEN, untrained=True, seed=seed,
        gradients=False, control=False,
    )  # fmt: skip
    tokens = looked.sides[0].sequences[0]
    assert tokens.prompt is not None
    weights = [
        torch.stack([each.weights for each in side.layers if each.weights is not None])
        for side in looked.sides
    ]  # (L, H, T, S) each
    return Glance(tokens, torch.stack(weights)[..., tokens.prompt - 1, :])
