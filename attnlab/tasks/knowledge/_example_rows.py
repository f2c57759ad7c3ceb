"""Training rows to look at: what the model reads, x, and what it is to say at each place, y."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from attnlab.tasks.knowledge._load import make_tokenizer, material, preset_named
from attnlab.tasks.knowledge._pretraining_objectives import create_objectives
from attnlab.tasks.knowledge._rows import Row, Wording
from attnlab.tasks.knowledge._task import Questions
from attnlab.tokenizer import MASK_SYMBOL, PAD_SYMBOL, Characters, Tokenizer

BETWEEN = "|"  # tokens of more than a character


def examples(
    corpus: str | Path | None = None,
    pairs: str | Path | None = None,
    *,
    preset: str = "course",
    objective: str | None = None,
    finetuning: bool = False,
    count: int = 4,
    seed: int = 0,
) -> tuple[str, list[tuple[str, str]]]:
    """A line about the data, and x and y of at most `count` rows.

    Pretraining rows: one of each objective from each document. Finetuning rows, which `pairs`
    asks for too: the pairs in their order.
    """
    if count < 1:
        raise ValueError(f"count is {count}; give 1 or more")
    finetuning = finetuning or pairs is not None
    if finetuning and objective is not None:
        raise ValueError("an objective is for pretraining; leave it out to see finetuning rows")
    chosen = preset_named(preset)
    source = material(corpus, pairs, needs_pairs=finetuning)
    asked = source.pairs if finetuning else []
    texts = [*source.documents, *(text for pair in asked for text in pair)]
    tokens = make_tokenizer(chosen.tokenizer, texts)
    wording, context, chance = Wording(tokens), chosen.model["context"], random.Random(seed)
    rows: list[Row] = []
    if finetuning:
        rows = Questions(asked).rows(wording, context, chance)
    else:
        objectives = create_objectives(objective or chosen.objective)
        for each in objectives:
            each.prepare(source.documents)
        for document in source.documents:
            if len(rows) >= count:
                break
            for each in objectives:
                found = each.rows(document, wording, context, chance)
                rows += [chance.choice(found)] if found else []
    lines = source.documents or [f"{question}\t{answer}" for question, answer in asked]
    return data_line(lines, tokens), [x_and_y(row, tokens, context) for row in rows[:count]]


def data_line(lines: Sequence[str], tokenizer: Tokenizer) -> str:
    """As the course prints it: each line's newline counts, and so do pad and mask."""
    size = sum(len(line) + 1 for line in lines)
    kind = "unique" if isinstance(tokenizer, Characters) else "token ids"
    return f"data has {size} characters, {tokenizer.vocabulary} {kind}."


def x_and_y(row: Row, tokenizer: Tokenizer, context: int) -> tuple[str, str]:
    """y is x one place on, and pad where nothing is learned.

    Characters are padded to the context before they are split, so each has one less, as in the
    course.
    """
    learned = [
        i if weight else tokenizer.pad for i, weight in zip(row.ids, row.weights, strict=True)
    ]
    if not isinstance(tokenizer, Characters):
        return _shown(row.ids[:-1], tokenizer), _shown(learned[1:], tokenizer)
    padding = [tokenizer.pad] * (context - len(row))
    return (
        tokenizer.decode((row.ids + padding)[:-1]),
        tokenizer.decode((learned + padding)[1:]),
    )


def _shown(ids: Sequence[int], tokenizer: Tokenizer) -> str:
    names = {tokenizer.pad: PAD_SYMBOL, tokenizer.mask: MASK_SYMBOL, tokenizer.end: "<end>"}
    return BETWEEN.join(names.get(i) or tokenizer.decode([i]) for i in ids)
