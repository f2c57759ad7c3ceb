"""`attnlab.find_heads`: heads that attend in a known way, such as induction heads.

They are scored on random tokens that are repeated once, as in the literature: there only copying
from the first time helps, and no word has a meaning. The score of a head is the share of its weight
on the keys that the kind of head attends to, minus what uniform attention would have there,
relative to the maximum: 0 is chance and 1 is all of it (attnlab/interpret/_head_patterns.py).

Letters: H heads, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from attnlab.interpret._adapters import attention_sites
from attnlab.interpret._capture import record as capture_with
from attnlab.interpret._head_patterns import score_selected
from attnlab.interpret._layer_numbers import numbers_among
from attnlab.interpret._model_input import ModelInput, Text, read_all, read_input, vocabulary_of
from attnlab.interpret._recorder import CaptureOptions
from attnlab.interpret._records import Layer
from attnlab.interpret._run_model import evaluating

if TYPE_CHECKING:
    from attnlab.report import Report

KINDS: dict[str, str] = {
    "induction": "the token after an earlier occurrence of the same token",
    "duplicate": "an earlier occurrence of the same token",
    "previous": "the token before",
    "first": "the first token",
    "itself": "the token itself",
}
THRESHOLD = 0.4
SEQUENCES = 8
LENGTHS = (20, 25)  # tokens before they are repeated: two periods, so that no fixed distance fits


@dataclass(frozen=True)
class ScoredHead:
    layer: int
    """Its number, as in `intervene`."""
    head: int
    score: float


@dataclass(frozen=True, eq=False)
class HeadScores:
    """The heads of a kind, and the scores of all heads: a row for each of `layers`."""

    label: str
    kind: str
    heads: list[ScoredHead]
    """Those with a score of at least `threshold`, highest first."""
    layers: list[str]
    numbers: list[int]
    """Of the layers, as in `intervene`."""
    scores: list[list[float]]
    threshold: float
    scored_on: str

    def report(self) -> Report:
        from attnlab.interpret._effect_reports import head_scores_report

        return head_scores_report(self)


def find_heads(
    model: Any,
    kind: str = "induction",
    texts: Sequence[Text] | None = None,
    *,
    tokenizer: Any = None,
    threshold: float = THRESHOLD,
    seed: int = 0,
) -> HeadScores:
    """Find the heads that attend in a known way, and score all of them.

    `kind` is "induction" (to the token after an earlier occurrence), "duplicate" (to an earlier
    occurrence), "previous", "first" or "itself". Without `texts` the model reads random tokens that
    are repeated once.

    >>> import attnlab
    >>> from attnlab.models import Decoder, StackConfig
    >>> model = Decoder(StackConfig(vocabulary=50, context=64, width=24, layers=2, heads=3)).eval()
    >>> matching = attnlab.find_heads(model, "induction")  # this one is untrained
    >>> matching.heads, len(matching.scores), len(matching.scores[0])
    ([], 2, 3)
    """
    if kind not in KINDS:
        raise ValueError(f"no kind of head {kind!r}; give one of {', '.join(KINDS)}")
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold is {threshold}; give a number above 0 and up to 1")
    if texts is None:
        sources = _random_inputs(model, tokenizer, seed)
        scored_on = f"{len(sources)} sequences of random tokens, repeated once"
    else:
        sources = read_all(model, texts, tokenizer=tokenizer)
        scored_on = f"{len(sources)} texts"
    gains: dict[str, Tensor] = {}
    margins: dict[str, Tensor] = {}
    with evaluating(sources[0].model):
        for source in sources:
            for layer in captured_self_attention(source):
                selected = selected_keys(kind, source.ids[0])
                score, margin = score_selected(layer, selected)  # (H,) each
                gains[layer.name] = gains.get(layer.name, 0) + score * margin
                margins[layer.name] = margins.get(layer.name, 0) + margin
    if not gains:
        raise ValueError(
            f"{sources[0].label}: no layer attends from all tokens of a text to all of them, so no "
            "head can be scored"
        )
    scores = [(gains[name] / margins[name].clamp(min=1e-9)).tolist() for name in gains]
    names = list(gains)
    numbers = numbers_of(sources[0].model, names)
    matching = [
        ScoredHead(layer, head, score)
        for layer, row in zip(numbers, scores, strict=True)
        for head, score in enumerate(row)
        if score >= threshold
    ]
    matching.sort(key=lambda head: -head.score)
    return HeadScores(
        sources[0].label, kind, matching, names, numbers, scores, threshold, scored_on
    )


def numbers_of(model: nn.Module, names: Sequence[str]) -> list[int]:
    """The numbers of captured layers, as in `intervene`."""
    return numbers_among(names, [site.name for site in attention_sites(model)])


def captured_self_attention(source: ModelInput) -> list[Layer]:
    """The layers that attend from all tokens of the text to all of them; in an encoder-decoder
    those of the decoder, whose tokens `source.ids` are."""
    T = source.ids.shape[1]
    with torch.no_grad(), capture_with(source.model, CaptureOptions()) as captured:
        source.run()
    encoder_decoder = any(layer.kind == "cross" for layer in captured.layers)
    return [
        layer
        for layer in captured.layers
        if not (encoder_decoder and layer.stack == "encoder")
        and layer.kind == "self"
        and layer.weights is not None
        and layer.weights.shape[1:] == (T, T)
    ]


def selected_keys(kind: str, ids: Tensor) -> Tensor:
    """(T, T): True for the keys that this kind of head attends to."""
    T = len(ids)
    ids = ids.cpu()
    earlier = (ids[:, None] == ids).tril(-1)
    selected = torch.zeros(T, T, dtype=torch.bool)
    if kind == "induction":
        selected[:, 1:] = earlier[:, :-1]
        selected = selected.tril(-1)  # without the token itself
    elif kind == "duplicate":
        selected = earlier
    elif kind == "first":
        selected[1:, 0] = True
    else:
        everywhere = torch.ones(T, T, dtype=torch.bool)
        offset = -1 if kind == "previous" else 0
        selected = everywhere.tril(offset) & everywhere.triu(offset)
    return selected


def _random_inputs(model: Any, tokenizer: Any, seed: int) -> list[ModelInput]:
    """Random tokens, each sequence with a copy of itself after it."""
    opened = model
    if isinstance(model, str) or tokenizer is not None or hasattr(model, "__fspath__"):
        from attnlab.interpret._adapters import open_model

        opened = open_model(model, tokenizer)
    module = getattr(opened, "model", opened) if hasattr(opened, "prepare") else opened
    kind = getattr(opened, "kind", "")
    if kind in ("vision", "encoder-decoder") or not _reads_ids(module):
        raise ValueError(
            f"a {type(module).__name__} cannot read random tokens alone; give a decoder or an "
            "encoder of texts"
        )
    count = vocabulary_of(module)
    longest = _longest(module)
    random = torch.Generator().manual_seed(seed)
    inputs = []
    for number in range(SEQUENCES):
        length = min(LENGTHS[number % len(LENGTHS)], longest // 2, max(2, count // 2))
        if length < 2:
            raise ValueError(f"the model reads at most {longest} tokens; it needs 4 or more")
        first = min(3, count // 2)  # the first ids are often special tokens
        tokens = torch.randperm(count - first, generator=random)[:length] + first
        inputs.append(read_input(opened, torch.cat([tokens, tokens])))
    return inputs


def _reads_ids(module: Any) -> bool:
    name = getattr(module, "main_input_name", None)
    two_texts = getattr(getattr(module, "config", None), "is_encoder_decoder", False)
    if name is not None:
        return bool(name == "input_ids" and not two_texts)
    return getattr(module, "kind", "") in ("decoder", "encoder")


def _longest(module: Any) -> int:
    own = getattr(module, "max_length", None)
    config = getattr(module, "config", None)
    values = [own, getattr(config, "max_position_embeddings", None)]
    return min([x for x in values if isinstance(x, int) and x > 0], default=4 * max(LENGTHS))
