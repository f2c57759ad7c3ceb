"""Compression, after the MAD suite (Poli et al. 2024, arXiv:2403.17844).

All tokens of a row must be recovered from one vector: that of the last token.

    c a d b END        answers, all from the vector of END: c a d b

mad-lab trains an encoder whose last vector, plus a position, goes through an MLP with two layers,
once for each token of the row. Here the model is a decoder like that of all abilities, and the
output layer itself reads the vector: it has one group of outputs for each place of the row, and the
answer of a place is the largest output of its group. So nothing but the last vector and one matrix
is between the row and the answers: the bottleneck is as narrow, its reader simpler. The number of
ids of the model is therefore `length` times `symbols`, of which rows use `symbols` + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from attnlab.tasks._task_options import Bounds
from attnlab.tasks.abilities.ability import Ability
from attnlab.tasks.simple import IGNORE

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from attnlab.training._batches import Batch, Forward


@dataclass(frozen=True)
class Compress(Ability):
    """Recover all tokens of a row from the vector of its last token."""

    name = "compress"
    length: Annotated[int, "Tokens to compress.", Bounds(2, 4096)] = 16
    symbols: Annotated[int, "Number of different tokens.", Bounds(2, 4096)] = 16

    model: ClassVar[dict[str, Any]] = {**Ability.model, "position": "learned", "tie": False}
    collects_answers = True
    quick: ClassVar[dict[str, Any]] = {"training": {"steps": 300}}
    example: ClassVar[dict[str, Any]] = {"length": 6}

    @property
    def vocabulary(self) -> int:  # type: ignore[override]
        return self.length * self.symbols

    @property
    def answers(self) -> Sequence[int]:
        return range(self.symbols)

    def generate(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        from attnlab.tasks.abilities._arrays import append_token

        items = rng.integers(0, self.symbols, (count, self.length))
        return append_token(items, self.symbols), append_token(items, IGNORE)

    def target_logits(self, forward: Forward, batch: Batch) -> Tensor:
        import torch

        last = torch.zeros_like(batch["keys"])
        last[:, -1] = True
        logits = forward(batch["ids"], at=last).float()  # (B, length x symbols)
        return logits.view(-1, self.symbols)  # (B x length, symbols)

    def word(self, token: int) -> str:
        return "END" if token == self.symbols else str(token)
