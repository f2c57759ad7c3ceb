"""The two stages of training: each layer's attention on its own, then the whole model.

Letters: B batch, T tokens, H heads, D head size, W width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.convert._low_rank import add_adapters
from attnlab.convert._source import Texts, stack
from attnlab.layers import Block, MultiHead
from attnlab.mask import Mask
from attnlab.models import Decoder, Model
from attnlab.tasks.language.kind import LANGUAGE
from attnlab.training import Batch, TrainingTask

CAUSAL = Mask(causal=True)


@dataclass(frozen=True)
class ModelPair:
    """The original model and its copy with other mechanisms in some layers."""

    original: Decoder
    converted: Decoder
    layers: list[int]
    precision: str = "float32"

    def autocast(self) -> torch.autocast:
        device = next(self.original.parameters()).device
        return torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16")

    def attention(self, layer: int) -> MultiHead:
        """The attention of a layer of the converted model."""
        return block_of(self.converted, layer).attention


def block_of(model: Decoder, layer: int) -> Block:
    block = model.stack.blocks[layer]
    assert isinstance(block, Block)
    return block


class LayerCall(NamedTuple):
    """What a mechanism of the original took and gave in one layer."""

    layer: int
    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor  # (B, H, T, D)


def attention_calls(pair: ModelPair, ids: Tensor) -> Iterator[LayerCall]:
    """One pass through the original model, up to the last converted layer."""
    x = None
    for layer in range(max(pair.layers) + 1):
        seen: list[Any] = []
        block = block_of(pair.original, layer)
        handle = block.attention.mechanism.register_forward_hook(
            lambda _, inputs, out, seen=seen: seen.append((*inputs[:3], out))
        )
        try:
            with torch.no_grad(), pair.autocast():
                x = pair.original.stack.embed(ids, CAUSAL) if x is None else x
                x = block(x, CAUSAL)  # (B, T, W)
        finally:
            handle.remove()
        if layer in pair.layers:
            yield LayerCall(layer, *(tensor.float() for tensor in seen[0]))


def relative_error(actual: Tensor, expected: Tensor) -> Tensor:
    """Mean square of the difference, as a fraction of the mean square of what is expected."""
    return (actual - expected).square().mean() / expected.square().mean().clamp_min(1e-12)


def transfer_errors(pair: ModelPair, calls: Iterable[LayerCall]) -> dict[int, Tensor]:
    """How far each converted layer's output is from the original's, on the original's inputs."""
    errors = {}
    for layer, q, k, v, out in calls:
        errors[layer] = relative_error(pair.attention(layer).mechanism(q, k, v, CAUSAL), out)
    return errors


class StageModel(Model):
    """The parts of the converted model that a stage trains. Checkpoints hold nothing else."""

    kind = Decoder.kind

    def __init__(self, converted: Decoder, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.converted = [converted]  # in a list, so that it is no part

    def train(self, mode: bool = True) -> StageModel:
        """Always in evaluation mode: dropout would hide the difference to the original."""
        del mode
        super().train(False)
        return self

    def description(self) -> dict[str, Any]:
        return self.converted[0].description()


@dataclass
class Stage(TrainingTask):
    """A stage. Its loss is a mean over the tokens of a text, so a text is one target."""

    pair: ModelPair
    texts: Texts

    name = LANGUAGE.name

    def lengths(self, epoch: int) -> list[int]:
        del epoch
        return [len(self.texts.train[0])] * len(self.texts.train)

    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        del epoch
        ids = stack(self.texts.train, rows)  # (B, T)
        return {"ids": ids, "keys": torch.ones_like(ids, dtype=torch.bool)}

    def targets(self, batch: Batch) -> int:
        return len(batch["ids"])

    def flops(self, model: Model, batch: Batch) -> float:
        del model
        return batch["ids"].numel() * self.pair.original.flops_per_token(batch["ids"].shape[1])

    def held_out(self) -> Iterator[Tensor]:
        device = next(self.pair.original.parameters()).device
        return (ids[None].to(device) for ids in self.texts.held_out)


@dataclass
class Transfer(Stage):
    """The first stage: each mechanism learns to give what softmax gave, from its q, k and v.

    A pass through the original costs more than all mechanisms. So its calls of a few texts are kept
    and used for some epochs, before the next few texts come.
    """

    kept: int = 4
    reuse: int = 4
    calls: dict[int, list[LayerCall]] = field(default_factory=dict)
    """Of the texts in use, by their number."""

    def lengths(self, epoch: int) -> list[int]:
        return super().lengths(epoch)[: self.kept]

    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        first = epoch // self.reuse * self.kept
        texts = [(first + row) % len(self.texts.train) for row in rows]
        return {**super().collate(texts, epoch), "text": torch.tensor(texts)}

    def loss(self, forward: Any, batch: Batch) -> Tensor:
        del forward
        texts = batch["text"].tolist()
        errors = [self._errors(n, ids[None]) for n, ids in zip(texts, batch["ids"], strict=True)]
        return torch.stack(errors).sum()

    def _errors(self, text: int, ids: Tensor) -> Tensor:
        """The mean error over the layers, of one text."""
        if text not in self.calls:
            while len(self.calls) >= self.kept:
                del self.calls[next(iter(self.calls))]
            self.calls[text] = list(attention_calls(self.pair, ids))
        errors = transfer_errors(self.pair, self.calls[text])
        return torch.stack(list(errors.values())).mean()

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """The error of each layer, and their mean."""
        del model
        with torch.no_grad():
            calls = (attention_calls(self.pair, ids) for ids in self.held_out())
            listed = [transfer_errors(self.pair, each) for each in calls]
        errors = {
            layer: sum(float(each[layer]) for each in listed) / len(listed)
            for layer in self.pair.layers
        }
        mean = sum(errors.values()) / len(errors)
        return {"loss": mean, **{f"layer {layer}": error for layer, error in errors.items()}}


@dataclass
class Adapters(Stage):
    """The second stage: adapters learn to bring back the original's predictions."""

    distillation: float = 1.0
    losses: list[float] = field(default_factory=list)
    """Of the held-out texts, at the last validation."""

    def loss(self, forward: Any, batch: Batch) -> Tensor:
        del forward
        pair, ids, weight = self.pair, batch["ids"], self.distillation
        first = min(pair.layers)
        with pair.autocast():
            with torch.no_grad():  # the layers before are the same in both models
                x = self._run(pair.original, pair.original.stack.embed(ids, CAUSAL), 0, first)
                expected = self._logits(pair.original, x, first) if weight else None
            actual = self._logits(pair.converted, x, first)[:, :-1].float()  # (B, T-1, V)
        loss = actual.new_zeros(())
        if weight < 1:
            target = ids[:, 1:].flatten()
            loss = (1 - weight) * F.cross_entropy(actual.flatten(0, 1), target)
        if expected is not None:
            target = expected[:, :-1].float().log_softmax(-1).flatten(0, 1)
            logs = actual.log_softmax(-1).flatten(0, 1)
            loss = loss + weight * F.kl_div(logs, target, log_target=True, reduction="batchmean")
        return len(ids) * loss

    @staticmethod
    def _run(model: Decoder, x: Tensor, first: int, last: int) -> Tensor:
        for layer in range(first, last):
            x = block_of(model, layer)(x, CAUSAL)
        return x

    def _logits(self, model: Decoder, x: Tensor, first: int) -> Tensor:
        return model.head(model.stack.norm(self._run(model, x, first, len(model.stack.blocks))))

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        del model
        self.losses = token_losses(self.pair.converted, self.texts.held_out)
        return {"loss": sum(self.losses) / len(self.losses)}


@torch.no_grad()
def token_losses(model: Decoder, texts: Sequence[Tensor]) -> list[float]:
    """The loss per token of each text, in float32."""
    device = next(model.parameters()).device
    rows = [ids.to(device) for ids in texts]
    return [float(F.cross_entropy(model(ids[None])[0, :-1].float(), ids[1:])) for ids in rows]


def transfer_model(pair: ModelPair) -> StageModel:
    mechanisms = [pair.attention(layer).mechanism for layer in pair.layers]
    return StageModel(pair.converted, [part for part in mechanisms if list(part.parameters())])


def adapter_model(pair: ModelPair, rank: int, *, features: bool) -> StageModel:
    """Adapters around the converted layers. With `features` the mechanisms learn on."""
    parts: list[nn.Module] = []
    for layer in pair.layers:
        attention = pair.attention(layer)
        if features:
            parts.append(attention.mechanism)
        else:
            attention.mechanism.requires_grad_(False)
        parts += add_adapters(attention, rank)
    return StageModel(pair.converted, parts)


@torch.no_grad()
def randomize_features(pair: ModelPair, seed: int) -> bool:
    """Random matrices in place of the learned ones; False if there are none."""
    generator = torch.Generator().manual_seed(seed)
    matrices = [
        parameter
        for layer in pair.layers
        for parameter in pair.attention(layer).mechanism.parameters()
        if parameter.dim() > 1
    ]
    for matrix in matrices:
        random = torch.randn(matrix.shape, generator=generator) / matrix.shape[-2] ** 0.5
        matrix.copy_(random)
    return bool(matrices)
