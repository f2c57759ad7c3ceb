"""Define a task in one class: rows of token ids with their targets. attnlab makes the rest.

    @register_task
    class Backwards(SimpleTask):
        "Write a word backwards."

        name, alphabet = "backwards", "abcdefgh>"

        def rows(self, part, random):
            words = ["".join(random.choices("abcdefgh", k=5)) for _ in range(2000)]
            return [self.text_row(f"{word}>", word[::-1]) for word in words]

attnlab then has the commands `backwards train` and `backwards evaluate`, `attnlab runs` lists the
runs, `attnlab compare` compares mechanisms on the task, and the studio shows it. If the class is a
frozen dataclass, its fields are options of these commands (`attnlab.tasks._task_options`).
Importing this module does not import torch.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from attnlab.run_folder import StartMode
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks._task_options import Bounds as Bounds
from attnlab.tasks._task_options import check_options
from attnlab.tasks.kind import Better, Capability, Example, TaskDeclaration, TaskKind
from attnlab.tokenizer import Characters

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from attnlab.training._batches import Batch, Forward

IGNORE = -100  # a target that is left out of loss and metrics
SERVICE = "attnlab.tasks._simple_training:SimpleGenerationService"


@dataclass(frozen=True)
class Row:
    """`targets[i]` is the right prediction of a decoder after `ids[: i + 1]`, or of an encoder at
    position i. A target that is IGNORE does not count."""

    ids: Sequence[int]
    targets: Sequence[int]


@dataclass(frozen=True, eq=False)
class ArrayRows(Sequence[Row]):
    """Rows of equal length as two arrays (rows, tokens), which is faster than a list."""

    ids: np.ndarray
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Row:  # type: ignore[override]
        return Row(self.ids[index].tolist(), self.targets[index].tolist())


def answer_row(prompt: Sequence[int], answer: Sequence[int]) -> Row:
    """A row for a decoder that reads the prompt and should write the answer.

    >>> from attnlab.tasks import answer_row
    >>> answer_row([5, 6, 7], [8, 9])
    Row(ids=[5, 6, 7, 8], targets=[-100, -100, 8, 9])
    """
    return Row([*prompt, *answer[:-1]], [IGNORE] * (len(prompt) - 1) + [*answer])


class Recipe(Protocol):
    """Trains and measures the models of a task."""

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
        """Train into the run folder `out` and return the last metrics. `model` and `training`
        override the task's settings, as in {"layers": 2} and {"minutes": 1, "seed": 3}."""
        ...

    def evaluate(self, run: str | Path) -> dict[str, float]:
        """Metrics of a trained run on the test rows. Every run gets the same test rows."""
        ...


class SimpleTask(TaskDeclaration):
    """A task on rows of ids. Set `alphabet` to work with texts, or `vocabulary` to the number of
    ids if you make the ids yourself (0 to `vocabulary` - 1).

    A subclass that is a frozen dataclass has options: its fields, each declared as
    `pairs: Annotated[int, "Sentence for the help.", Bounds(1, 64)] = 8`."""

    name: ClassVar[str]
    alphabet: ClassVar[str] = ""
    vocabulary: int = 0
    causal: ClassVar[bool] = True
    """True trains a decoder, which writes; False an encoder, which sees the whole row."""
    headline: ClassVar[str] = "accuracy"
    better: ClassVar[Better] = "higher"
    model: ClassVar[Mapping[str, Any]] = {"width": 64, "layers": 2, "heads": 4}
    """Model settings, with the names of `attnlab.models.StackConfig`."""
    training: ClassVar[Mapping[str, Any]] = {"steps": 500, "evaluations": 5}
    """Training settings, with the names of `attnlab.training.Settings`."""
    fresh_rows: ClassVar[bool] = False
    """Whether `rows` draws new training rows for each epoch."""
    group: ClassVar[str] = ""
    """See `TaskKind.group`."""

    def __post_init__(self) -> None:
        check_options(self)  # a dataclass calls this

    @property
    def chance(self) -> float | None:
        """The headline of a model that guesses, which comparisons use as their baseline."""
        return None

    @abstractmethod
    def rows(self, part: str, random: random.Random) -> Sequence[Row]:
        """The rows of "train", "validation" or "test". Take all random numbers from `random`: each
        part has its own, and that of "train" depends on the seed of the run."""

    def measure(
        self, rows: Sequence[Row], predictions: Sequence[Sequence[int]]
    ) -> dict[str, float]:
        """Metrics of a model's predictions, which are IGNORE where a row has no target. By default
        the accuracy: the fraction of rows with the right prediction at every target."""
        right = [
            all(token == target for token, target in zip(predicted, row.targets, strict=True)
                if target != IGNORE)
            for row, predicted in zip(rows, predictions, strict=True)
        ]  # fmt: skip
        return {"accuracy": sum(right) / max(1, len(right))}

    def count_correct(
        self, rows: Sequence[Row], predictions: Sequence[Sequence[int]]
    ) -> dict[str, tuple[int, int]]:
        """For metrics of `measure` that are fractions: how many of how many independent examples.
        Comparisons with one seed take their intervals from it."""
        del rows, predictions
        return {}

    def target_logits(self, forward: Forward, batch: Batch) -> Tensor:
        """The logits (n, V) of the n targets of a batch, row by row. A task whose targets are not
        predicted at their own position overrides this."""
        from attnlab.tasks._simple_training import compute_logits

        return compute_logits(forward, batch, self.causal)

    @cached_property
    def tokenizer(self) -> Characters | None:
        return Characters(self.alphabet) if self.alphabet else None

    def text_row(self, prompt: str, answer: str) -> Row:
        """`answer_row` for texts. It adds the end token, so that the model learns to stop."""
        if self.tokenizer is None:
            raise ValueError(
                f"task {self.name}: has no alphabet, so it cannot encode text; set `alphabet`"
            )
        encode, end = self.tokenizer.encode, self.tokenizer.end
        return answer_row(encode(prompt), [*encode(answer), end])

    def kind(self) -> TaskKind:
        writes = self.causal and self.alphabet
        capabilities = {"generate": Capability(SERVICE, models=("decoder",), files=(TOKENIZER,))}
        return TaskKind(
            name=self.name,
            help=" ".join((type(self).__doc__ or self.name).split("\n\n")[0].split()),
            headline=self.headline,
            better=self.better,
            example=Example("Train one:", f"attnlab {self.name} train --out", self.name),
            recipe=self,
            group=self.group,
            capabilities=capabilities if writes else {},
        )

    def train(self, out: str | Path, **options: Any) -> dict[str, float]:
        """See `Recipe.train`."""
        from attnlab.tasks._simple_training import train_simple

        return train_simple(self, Path(out), **options)

    def evaluate(self, run: str | Path) -> dict[str, float]:
        """See `Recipe.evaluate`."""
        from attnlab.tasks._simple_training import evaluate_simple

        return evaluate_simple(self, Path(run))
