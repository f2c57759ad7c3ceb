"""Your own task in one file: sort five letters.

    attnlab --extension examples/own_task.py letters train
    attnlab runs
    attnlab --extension examples/own_task.py letters evaluate runs/letters
    attnlab --extension examples/own_task.py compare letters --attention softmax elu --seeds 2
    attnlab --extension examples/own_task.py studio

A row is a prompt and the answer that the model should write. attnlab makes everything else: the
tokenizer, a decoder, the training, the metric (the fraction of answers with every letter right),
the commands and the studio's pages. To measure something else, define `measure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from attnlab.tasks.registry import register_task
from attnlab.tasks.simple import Row, SimpleTask

LETTERS = "abcdefgh"
ROWS = {"train": 5000, "validation": 200, "test": 500}


@register_task
class Letters(SimpleTask):
    """Sort five letters."""

    name = "letters"
    alphabet = LETTERS + ">"
    model: ClassVar = {"width": 32, "layers": 2, "heads": 4}
    training: ClassVar = {"steps": 300, "batch_size": 64, "learning_rate": 0.01, "evaluations": 5}

    def rows(self, part: str, random: Random) -> Sequence[Row]:
        words = ["".join(random.choices(LETTERS, k=5)) for _ in range(ROWS[part])]
        return [self.text_row(f"{word}>", "".join(sorted(word))) for word in words]
