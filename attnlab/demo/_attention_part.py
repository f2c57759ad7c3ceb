"""Where the models look while they answer: the reader into the line, the other at the name.

Letters: L layers, H heads, S keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab._confidence_intervals import Estimate, format_percent
from attnlab.demo._progress_line import Tick
from attnlab.demo._settings import LEARNED, MEMORY_PAGE, READING_PAGE, Demo
from attnlab.interpret._attnlab_models import InspectedAttnlabModel, open_attnlab_model
from attnlab.interpret._look import look
from attnlab.interpret._records import Sequence as Tokens
from attnlab.report import Bars, Block, Figure, Link, Mark, Section, Strip, Tile
from attnlab.tasks.knowledge._data import Library, Pair
from attnlab.tasks.knowledge._rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge._world_vocabulary import CITIES
from attnlab.tokenizer import MASK_SYMBOL

WRITTEN = 8  # tokens at most
BOX = "▢"  # for a mask: where an answer is due
FINDINGS = [
    "While it still learns to read, it has the line before it. Nobody told it what a city is: the "
    "tiles show the head that finds cities best. Which of them is meant, later layers decide.",
    "Later the line is gone, and there is nothing to find. What it looks at then is the name: the "
    "answer must come from what the weights make of it.",
]


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

    def on(self, phrases: Iterable[Sequence[int]]) -> Tensor:
        """(2, L, H) the weight on these runs of ids."""
        return self.weights @ self.mask(phrases)

    def share(self, phrases: Iterable[Sequence[int]]) -> Tensor:
        """The share of the prompt's tokens that belong to these runs."""
        return self.mask(phrases).sum() / self.prompt

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


def look_inside(demo: Demo, tick: Tick) -> list[Section]:
    """The head that finds cities is chosen on people with a label, measured on people without."""
    del tick
    learned, seed, people = demo.out / LEARNED, demo.seed, demo.settings.looked_at
    library = Library(demo.world.corpus)
    reader, memory = open_attnlab_model(learned / "readers" / "1"), open_attnlab_model(learned)
    encode = KnowledgeTextEncoding(reader.tokenizer).encode
    cities, asked = [encode(city) for city in CITIES], demo.world.held_out[:people]

    def document(pair: Pair) -> str:
        return library.by_title[library.title_in(pair[0]) or ""][0]

    def read(pair: Pair) -> Glance:
        return _glance(reader, document(pair), pair[0], seed)

    on_cities = _mean([read(pair).on(cities)[0] for pair in demo.world.train[:people]])  # (L, H)
    layer, head = divmod(int(on_cities.argmax()), on_cities.shape[1])
    readings = [read(pair) for pair in asked]
    answers = [
        float(each.on([encode(gold)])[0, layer, head])
        for each, (_, gold) in zip(readings, asked, strict=True)
    ]
    trained, untrained = _mean([each.on(cities)[:, layer, head] for each in readings]).tolist()
    which = f"layer {layer}, head {head}, mean over {len(asked)} people without a label"
    tiles = [
        Tile("Weight on cities", format_percent(trained), which),
        Tile("Weight on the birthplace", format_percent(sum(answers) / len(answers)),
             "one of them"),
        Tile("The same head untrained", format_percent(untrained), "on cities"),
        Tile("Cities", format_percent(float(_mean([each.share(cities) for each in readings]))),
             "of the tokens"),
    ]  # fmt: skip
    memories = [_glance(memory, question, None, seed) for question, _ in asked]
    names = [[encode(library.title_in(question) or "")] for question, _ in asked]
    clearest = answers.index(max(answers))
    shown, recalled, pair = readings[clearest], memories[clearest], asked[clearest]
    weights = shown.weights[0, layer, head], recalled.weights[0].mean((0, 1))
    question, line = pair[0], document(pair)
    look(reader, line, pair=question, generate=WRITTEN, seed=seed).save(demo.out / READING_PAGE)
    look(memory, question, generate=WRITTEN, seed=seed).save(demo.out / MEMORY_PAGE)
    demo.reading = line, question
    blocks: list[Block] = [
        shown.strip("The reader, with the line before it", weights[0]),
        recalled.strip("The same question from memory, the mean of all heads", weights[1]),
        _weight_on_names(memories, names),
        Link(MEMORY_PAGE, "Look for yourself: every layer and head for this answer from memory"),
        Link(READING_PAGE, "The reader with its line"),
    ]
    return [Section("attention", "Where did it look?", FINDINGS, tiles=tiles, blocks=blocks)]


def _weight_on_names(memories: Sequence[Glance], names: Sequence[list[list[int]]]) -> Figure:
    """Layer by layer the weight on the name, trained and untrained."""
    pairs = list(zip(memories, names, strict=True))
    trained, untrained = _mean([each.on(name).mean(2) for each, name in pairs]).tolist()
    share = float(_mean([each.share(name) for each, name in pairs]))
    plot = Bars(
        "trained",
        {f"layer {place}": Estimate(value) for place, value in enumerate(trained)},
        [Mark(f"its share of the tokens: {format_percent(share)}", y=share)],
        percent=True,
        beside={f"layer {place}": value for place, value in enumerate(untrained)},
        beside_name="untrained",
    )
    return Figure("Weight on the name, when the answer is due", plot)


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).mean(0)


def _glance(subject: InspectedAttnlabModel, text: str, question: str | None, seed: int) -> Glance:
    """At a question, or at a document and a question about it."""
    looked = look(
        subject, text, pair=question, generate=WRITTEN, untrained=True, seed=seed,
        gradients=False, control=False,
    )  # fmt: skip
    tokens = looked.panels[0].sequences[0]
    assert tokens.prompt is not None
    weights = [
        torch.stack([each.weights for each in side.layers if each.weights is not None])
        for side in looked.panels
    ]  # (L, H, T, S) each
    return Glance(tokens, torch.stack(weights)[..., tokens.prompt - 1, :])
