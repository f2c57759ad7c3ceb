"""What the models attend to while they answer: the line if they can read it, else the name.

Letters: L layers, H heads, S keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab._confidence_intervals import Estimate, format_percent
from attnlab.demo._progress_line import ProgressCallback
from attnlab.demo._settings import LEARNED, LEARNED_TITLE, MEMORY_PAGE, READING_PAGE, Demo
from attnlab.interpret._attnlab_models import InspectedAttnlabModel, open_attnlab_model
from attnlab.interpret._look import LookResult, look
from attnlab.interpret._records import Sequence as Tokens
from attnlab.report import Bars, Block, Figure, Link, Mark, Section, Strip, Tile
from attnlab.tasks.knowledge._data import Library, Pair
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge._world_vocabulary import CITIES
from attnlab.tokenizer import MASK_SYMBOL

MAX_NEW_TOKENS = 8
MASK_BOX = "▢"  # stands for a mask token, where the answer is expected
FINDINGS = [
    f"This is about “{LEARNED_TITLE}”. While it learns to read, the model sees the line. It was "
    "never told what a city is: the tiles show the head that finds cities best. Later layers "
    "decide which city is the answer.",
    "Later it answers without the line, so there is no city to find. It then attends to the name: "
    "the answer must come from its weights.",
]


@dataclass(frozen=True)
class AnswerAttention:
    """The attention of one question, at the position that predicts the answer's first token."""

    tokens: Tokens
    weights: Tensor
    """(2, L, H, S): the weights of the trained model, and of the same model untrained."""

    @property
    def prompt(self) -> int:
        assert self.tokens.prompt is not None
        return self.tokens.prompt

    def mask(self, phrases: Iterable[Sequence[int]]) -> Tensor:
        """(S,): 1 for every token of the prompt that belongs to one of these token sequences."""
        prompt_ids, mask = (
            (self.tokens.ids or [])[: self.prompt],
            torch.zeros(self.weights.shape[-1]),
        )
        for ids in phrases:
            for start in range(len(prompt_ids) - len(ids) + 1):
                if prompt_ids[start : start + len(ids)] == list(ids):
                    mask[start : start + len(ids)] = 1.0
        return mask

    def weight_on(self, phrases: Iterable[Sequence[int]]) -> Tensor:
        """(2, L, H): the weight on these token sequences."""
        return self.weights @ self.mask(phrases)

    def token_fraction(self, phrases: Iterable[Sequence[int]]) -> Tensor:
        """The fraction of the prompt's tokens that belong to these token sequences."""
        return self.mask(phrases).sum() / self.prompt

    def strip(self, title: str, weights: Tensor) -> Strip:
        """The words of the prompt, colored by `weights` (S,) summed over the tokens of each word.

        A space belongs to the next word.
        """
        words: list[tuple[str, float]] = []
        last_word = None
        for position in range(self.prompt):
            text, weight = self.tokens.texts[position], float(weights[position])
            if words and (self.tokens.words[position] == last_word or not words[-1][0].strip()):
                previous = words.pop()
                text, weight = previous[0] + text, previous[1] + weight
            words.append((text, weight))
            last_word = self.tokens.words[position]
        written = "".join(self.tokens.texts[self.prompt :]).strip()
        note = (
            "The stronger a word's color, the more weight is on it when the model predicts the "
            f"answer at the last {MASK_BOX}. The answer: {written}"
        )
        texts = [text.strip().replace(MASK_SYMBOL, MASK_BOX) for text, _ in words]
        return Strip(title, texts, [weight for _, weight in words], note)


def look_inside(demo: Demo, report: ProgressCallback) -> list[Section]:
    """Selects the head that finds cities on training people, and measures it on held-out people."""
    del report
    learned, seed, people = demo.out / LEARNED, demo.seed, demo.settings.attention_people
    library = Library(demo.world.corpus)
    reader, memory = open_attnlab_model(learned / "readers" / "1"), open_attnlab_model(learned)
    encode = KnowledgeTextEncoding(reader.tokenizer).encode
    cities, pairs = [encode(city) for city in CITIES], demo.world.held_out[:people]

    def document_for(pair: Pair) -> str:
        return library.by_title[library.title_in(pair[0]) or ""][0]

    def capture_reading(pair: Pair) -> AnswerAttention:
        return _capture_answer(reader, document_for(pair), pair[0], seed)

    on_cities = _mean(
        [capture_reading(pair).weight_on(cities)[0] for pair in demo.world.train[:people]]
    )  # (L, H)
    layer, head = divmod(int(on_cities.argmax()), on_cities.shape[1])
    readings = [capture_reading(pair) for pair in pairs]
    answers = [
        float(reading.weight_on([encode(gold)])[0, layer, head])
        for reading, (_, gold) in zip(readings, pairs, strict=True)
    ]
    trained, untrained = _mean(
        [reading.weight_on(cities)[:, layer, head] for reading in readings]
    ).tolist()
    head_name = f"layer {layer}, head {head}, mean over {len(pairs)} held-out people"
    city_fraction = _mean([reading.token_fraction(cities) for reading in readings])
    tiles = [
        Tile("Weight on cities", format_percent(trained), head_name),
        Tile("Weight on the birthplace", format_percent(sum(answers) / len(answers)),
             "one of them"),
        Tile("The same head untrained", format_percent(untrained), "on cities"),
        Tile("Cities", format_percent(float(city_fraction)), "of the tokens"),
    ]  # fmt: skip
    memories = [_capture_answer(memory, question, None, seed) for question, _ in pairs]
    names = [[encode(library.title_in(question) or "")] for question, _ in pairs]
    clearest_index = answers.index(max(answers))
    clearest_reading, clearest_memory, pair = (
        readings[clearest_index],
        memories[clearest_index],
        pairs[clearest_index],
    )
    weights = clearest_reading.weights[0, layer, head], clearest_memory.weights[0].mean((0, 1))
    question, line = pair[0], document_for(pair)
    seen = look(reader, line, pair=question, generate=MAX_NEW_TOKENS, seed=seed)
    _open_at_answer(seen, clearest_reading, layer, head).save(demo.out / READING_PAGE)
    seen = look(memory, question, generate=MAX_NEW_TOKENS, seed=seed)
    on_name = clearest_memory.weight_on(names[clearest_index])[0].mean(1)  # (L,)
    _open_at_answer(seen, clearest_memory, int(on_name.argmax())).save(demo.out / MEMORY_PAGE)
    demo.reading = line, question
    blocks: list[Block] = [
        clearest_reading.strip("The reader, which sees the line", weights[0]),
        clearest_memory.strip("The same question from memory, mean of all heads", weights[1]),
        _weight_on_names(memories, names),
        Link(MEMORY_PAGE, "Explore every layer and head for this answer from memory"),
        Link(READING_PAGE, "Explore the reader with its line"),
    ]
    return [Section("attention", "Where did the model look?", FINDINGS, tiles=tiles, blocks=blocks)]


def _open_at_answer(
    seen: LookResult, attention: AnswerAttention, layer: int, head: int | None = None
) -> LookResult:
    """The page opens on what the text talks about: this head, where the answer is predicted."""
    names = [each.name for each in seen.panels[0].layers if each.weights is not None]
    return seen.open_at("heads", names[layer], head=head, query=attention.prompt - 1)


def _weight_on_names(
    memories: Sequence[AnswerAttention], names: Sequence[list[list[int]]]
) -> Figure:
    """The weight on the name in each layer, trained and untrained."""
    pairs = list(zip(memories, names, strict=True))
    trained, untrained = _mean([memory.weight_on(name).mean(2) for memory, name in pairs]).tolist()
    fraction = float(_mean([memory.token_fraction(name) for memory, name in pairs]))
    plot = Bars(
        "trained",
        {f"layer {layer}": Estimate(value) for layer, value in enumerate(trained)},
        [Mark(f"its fraction of the tokens: {format_percent(fraction)}", y=fraction)],
        percent=True,
        beside={f"layer {layer}": value for layer, value in enumerate(untrained)},
        beside_name="untrained",
    )
    return Figure("Weight on the name when the model predicts the answer", plot)


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).mean(0)


def _capture_answer(
    model: InspectedAttnlabModel, text: str, question: str | None, seed: int
) -> AnswerAttention:
    """The attention for a question, or for a document and a question about it."""
    result = look(
        model, text, pair=question, generate=MAX_NEW_TOKENS, untrained=True, seed=seed,
        gradients=False, control=False,
    )  # fmt: skip
    tokens = result.panels[0].sequences[0]
    assert tokens.prompt is not None
    weights = [
        torch.stack([layer.weights for layer in panel.layers if layer.weights is not None])
        for panel in result.panels
    ]  # (L, H, T, S) each
    return AnswerAttention(tokens, torch.stack(weights)[..., tokens.prompt - 1, :])
