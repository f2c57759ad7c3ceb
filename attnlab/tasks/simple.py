"""A whole task in one class: rows of token ids, and what is right. The rest is made from it.

    @register_task
    class Reverse(SimpleTask):
        "Write a word backwards."

        name, alphabet = "reverse", "abcdefgh>"

        def rows(self, part, random):
            words = ["".join(random.choices("abcdefgh", k=5)) for _ in range(2000)]
            return [self.text_row(f"{word}>", word[::-1]) for word in words]

The command `reverse` then has `train` and `evaluate`, `attnlab runs` lists its runs, mechanisms can
be compared on it, and the studio shows them. Importing this module does not import torch.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

from attnlab.run_folder import StartMode
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks.kind import Better, Capability, Declared, Example, TaskKind
from attnlab.tokenizer import Characters

IGNORE = -100  # a target that does not count
SERVED = "attnlab.tasks._simple_training:Generating"


@dataclass(frozen=True)
class Row:
    """`targets[i]` is right once a decoder has read `ids[: i + 1]`, or at the place `ids[i]` of an
    encoder. One that is IGNORE does not count."""

    ids: Sequence[int]
    targets: Sequence[int]


def answer_row(prompt: Sequence[int], answer: Sequence[int]) -> Row:
    """A decoder reads the prompt and is to write the answer.

    >>> answer_row([5, 6, 7], [8, 9])
    Row(ids=[5, 6, 7, 8], targets=[-100, -100, 8, 9])
    """
    return Row([*prompt, *answer[:-1]], [IGNORE] * (len(prompt) - 1) + [*answer])


class Recipe(Protocol):
    """What trains a model of a task and measures it."""

    def train(
        self,
        out: str | Path,
        *,
        attention: str | list[str] = "softmax",
        model: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        start: StartMode = StartMode.NEW,
        quiet: bool = False,
    ) -> dict[str, float]:
        """Train into the run folder `out`; the last metrics. `model` and `training` are settings
        that differ from the task's own, as {"layers": 2} and {"minutes": 1, "seed": 3}."""
        ...

    def evaluate(self, run: str | Path) -> dict[str, float]:
        """Metrics of a trained run on the test rows, which are the same for every run."""
        ...


class SimpleTask(Declared):
    """A task on rows of ids. Give `alphabet`, and texts become ids; or `vocabulary`, and the ids
    run from 0 to that number."""

    name: ClassVar[str]
    alphabet: ClassVar[str] = ""
    vocabulary: int = 0
    causal: ClassVar[bool] = True
    """A decoder, which writes; otherwise an encoder, which sees the whole row."""
    headline: ClassVar[str] = "accuracy"
    better: ClassVar[Better] = "higher"
    model: ClassVar[Mapping[str, Any]] = {"width": 64, "layers": 2, "heads": 4}
    """Settings of the model, as `attnlab.models.StackConfig` names them."""
    training: ClassVar[Mapping[str, Any]] = {"steps": 500, "evaluations": 5}
    """Settings of the training, as `attnlab.training.Settings` names them."""

    @abstractmethod
    def rows(self, part: str, random: random.Random) -> Sequence[Row]:
        """The rows of "train", "validation" or "test". Draw everything random from `random`: it
        differs from part to part, and "train" follows the seed of the run."""

    def measure(
        self, rows: Sequence[Row], predictions: Sequence[Sequence[int]]
    ) -> dict[str, float]:
        """Metrics of what a model says at every place. Here: the share of rows that are right at
        every place that counts."""
        right = [
            all(said == target for said, target in zip(each, row.targets, strict=True)
                if target != IGNORE)
            for row, each in zip(rows, predictions, strict=True)
        ]  # fmt: skip
        return {"accuracy": sum(right) / max(1, len(right))}

    @cached_property
    def tokenizer(self) -> Characters | None:
        return Characters(self.alphabet) if self.alphabet else None

    def text_row(self, prompt: str, answer: str) -> Row:
        """`answer_row` of texts; the answer has an end, so that the model learns to stop."""
        if self.tokenizer is None:
            raise ValueError(f"task {self.name}: has no alphabet, so it takes no text; give one")
        read, end = self.tokenizer.encode, self.tokenizer.end
        return answer_row(read(prompt), [*read(answer), end])

    def kind(self) -> TaskKind:
        writes = self.causal and self.alphabet
        can = {"generate": Capability(SERVED, models=("decoder",), files=(TOKENIZER,))}
        return TaskKind(
            name=self.name,
            help=" ".join((type(self).__doc__ or self.name).split("\n\n")[0].split()),
            headline=self.headline,
            better=self.better,
            example=Example("Train one:", f"attnlab {self.name} train --out", self.name),
            recipe=self,
            can=can if writes else {},
        )

    def train(self, out: str | Path, **options: Any) -> dict[str, float]:
        """As `Recipe.train` says."""
        from attnlab.tasks._simple_training import train_simple

        return train_simple(self, Path(out), **options)

    def evaluate(self, run: str | Path) -> dict[str, float]:
        """As `Recipe.evaluate` says."""
        from attnlab.tasks._simple_training import evaluate_simple

        return evaluate_simple(self, Path(run))
