"""A sanity check: does a language model predict the text better than the frequency of tokens?

Letters: T tokens, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

MIN_TOKENS = 6  # fewer predictions say nothing
MARGIN = 1.0  # nats above the loss of the frequencies that count as far above
ZIPF_OFFSET = 2.7  # Mandelbrot's: the frequency of the r-th word is about 1 / (r + 2.7)


def loss_note(label: str, logits: Tensor, ids: tuple[int, ...]) -> list[str]:
    """A note if the loss of logits (T, V) on the text is far above that of the frequencies.

    Vocabularies are nearly ordered by frequency, so Zipf's law gives each token's by its number.
    A model that is far worse reads its text in another form than in its training.
    """
    count = min(len(ids), len(logits)) - 1
    if count < MIN_TOKENS or max(ids) >= logits.shape[1]:
        return []
    following = torch.tensor(ids[1 : count + 1])
    loss = float(torch.nn.functional.cross_entropy(logits[:count].float().cpu(), following))
    frequency = frequency_loss(following, logits.shape[1])
    if not loss > frequency + MARGIN:
        return []
    return [
        f"{label}: its loss on this text is {loss:.2f}, far above the {frequency:.2f} that the "
        "frequency of tokens alone would give. It may read the text in another form than in its "
        "training (a missing first token, another tokenizer), or it is not trained."
    ]


def frequency_loss(ids: Tensor, vocabulary: int) -> float:
    """The mean of -log p for p by Zipf's law, of these token numbers."""
    ranks = torch.arange(vocabulary, dtype=torch.float64) + ZIPF_OFFSET
    total = math.log(float((1 / ranks).sum()))
    return float((ids.double() + ZIPF_OFFSET).log().mean()) + total
