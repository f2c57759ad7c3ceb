"""Show training rows: x is what the model reads, y is the target at each position."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from attnlab.tasks.knowledge._load import find_preset, load_data, make_tokenizer
from attnlab.tasks.knowledge._pretraining_objectives import create_objectives
from attnlab.tasks.knowledge._task import QuestionSource
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding, TrainingRow
from attnlab.tokenizer import MASK_SYMBOL, PAD_SYMBOL, Characters, Tokenizer

SEPARATOR = "|"  # between tokens of several characters


def example_rows(
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

    Pretraining rows: one of each objective from each document. Finetuning rows (with `finetuning`
    or `pairs`): the pairs in order.
    """
    if count < 1:
        raise ValueError(f"count is {count}; give 1 or more")
    finetuning = finetuning or pairs is not None
    if finetuning and objective is not None:
        raise ValueError(
            "an objective only applies to pretraining; leave it out to see finetuning rows"
        )
    preset_settings = find_preset(preset)
    data = load_data(corpus, pairs, needs_pairs=finetuning)
    qa_pairs = data.pairs if finetuning else []
    texts = [*data.documents, *(text for pair in qa_pairs for text in pair)]
    tokens = make_tokenizer(preset_settings.tokenizer, texts)
    encoding, context, generator = (
        KnowledgeTextEncoding(tokens),
        preset_settings.model["context"],
        random.Random(seed),
    )
    rows: list[TrainingRow] = []
    if finetuning:
        rows = list(QuestionSource(qa_pairs).rows(encoding, context, generator))
    else:
        objectives = create_objectives(objective or preset_settings.objective)
        for one in objectives:
            one.prepare(data.documents)
        for document in data.documents:
            if len(rows) >= count:
                break
            for one in objectives:
                candidates = one.rows(document, encoding, context, generator)
                rows += [generator.choice(candidates)] if candidates else []
    lines = data.documents or [f"{question}\t{answer}" for question, answer in qa_pairs]
    return data_line(lines, tokens), [format_x_and_y(row, tokens, context) for row in rows[:count]]


def data_line(lines: Sequence[str], tokenizer: Tokenizer) -> str:
    """The line that the course prints. It counts newlines, and pad and mask as characters."""
    size = sum(len(line) + 1 for line in lines)
    kind = "unique" if isinstance(tokenizer, Characters) else "token ids"
    return f"data has {size} characters, {tokenizer.vocabulary} {kind}."


def format_x_and_y(row: TrainingRow, tokenizer: Tokenizer, context: int) -> tuple[str, str]:
    """y is x shifted by one position, and pad where there is no target.

    Rows of characters are padded to the context before x and y are split, so both are one shorter,
    as in the course.
    """
    targets = [
        i if weight else tokenizer.pad for i, weight in zip(row.ids, row.weights, strict=True)
    ]
    if not isinstance(tokenizer, Characters):
        return _format_tokens(row.ids[:-1], tokenizer), _format_tokens(targets[1:], tokenizer)
    padding = [tokenizer.pad] * (context - len(row))
    return (
        tokenizer.decode((row.ids + padding)[:-1]),
        tokenizer.decode((targets + padding)[1:]),
    )


def _format_tokens(ids: Sequence[int], tokenizer: Tokenizer) -> str:
    names = {tokenizer.pad: PAD_SYMBOL, tokenizer.mask: MASK_SYMBOL, tokenizer.end: "<end>"}
    return SEPARATOR.join(names.get(i) or tokenizer.decode([i]) for i in ids)
