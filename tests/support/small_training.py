"""Small tasks that every mechanism should learn in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.models import (
    ConvNet,
    ConvNetConfig,
    Decoder,
    Encoder,
    EncoderConfig,
    Model,
    Seq2Seq,
    Seq2SeqConfig,
    StackConfig,
    ViT,
    ViTConfig,
)
from attnlab.run_folder import StartMode
from attnlab.training import Batch, Run, Settings, TrainingTask, mix_seeds, train

VOCABULARY, MASK = 9, 1
SMALL = {"bigbird": "bigbird:block=2", "window": "window:window=6", "linformer": "linformer:rank=6"}
FEATURES = {"favor": "favor:features=32", "fourier": "fourier:features=64"}
BASE: dict[str, Any] = {
    "steps": 100,
    "batch_size": 32,
    "warmup_steps": 10,
    "learning_rate": 1e-2,
    "device": "cpu",
}


class SteppingClock:
    """A clock that advances by one step at each call, so that a busy machine changes nothing."""

    now, step = 0.0, 1 / 64

    def perf_counter(self) -> float:
        self.now += self.step
        return self.now


def attention(name: str) -> str:
    return SMALL.get(name, FEATURES.get(name, name))


class Tiny(TrainingTask):
    """Rows depend on (seed, epoch, row). Accuracy is that of an epoch never trained on."""

    headline, better = "accuracy", "higher"
    rows = 256

    def make_row(self, generator: torch.Generator, row: int) -> dict[str, Tensor]:
        raise NotImplementedError

    def logits(self, forward: Any, batch: Batch) -> Tensor:
        return forward(batch["ids"], batch["keys"])

    def length(self, row: int) -> int:
        return 6 + row % 5

    def lengths(self, epoch: int) -> list[int]:
        del epoch
        return [self.length(row) for row in range(self.rows)]

    def collate(self, rows: Sequence[int], epoch: int) -> Batch:
        examples = [
            self.make_row(torch.Generator().manual_seed(mix_seeds(7, epoch + 1, row)), row)
            for row in rows
        ]
        fill = {"target": -100, "keys": 0}
        batch = {
            name: nn.utils.rnn.pad_sequence(
                [each[name] for each in examples], batch_first=True, padding_value=fill.get(name, 0)
            )
            for name in examples[0]
        }
        batch["keys"] = batch["keys"].bool()
        return batch

    def loss(self, forward: Any, batch: Batch) -> Tensor:
        logits = self.logits(forward, batch)
        flat = logits.reshape(-1, logits.shape[-1])
        return F.cross_entropy(flat, batch["target"].flatten(), ignore_index=-100, reduction="sum")

    def targets(self, batch: Batch) -> int:
        return int((batch["target"] != -100).sum())

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        batch = self.collate(range(self.rows), -1)
        predicted = self.logits(model, batch).argmax(-1)
        real = batch["target"] != -100
        right = (predicted == batch["target"])[real]
        return {"accuracy": float(right.double().mean()), "loss": float(self.loss(model, batch))}


class Copy(Tiny):
    """a b a b a ...: the next token equals the one two before."""

    name = "copy"

    def make_row(self, generator: torch.Generator, row: int) -> dict[str, Tensor]:
        pair = torch.randint(2, VOCABULARY, (2,), generator=generator)
        text = pair.repeat(8)[: self.length(row) + 1]
        target = text[1:].clone()
        target[0] = -100  # the second token is anyone's guess
        return {"ids": text[:-1], "target": target, "keys": torch.ones(len(text) - 1)}


class Fill(Tiny):
    """a a a MASK a: the masked token equals the others."""

    name = "fill"

    def make_row(self, generator: torch.Generator, row: int) -> dict[str, Tensor]:
        text = torch.randint(2, VOCABULARY, (1,), generator=generator).repeat(self.length(row))
        position = int(torch.randint(len(text), (), generator=generator))
        target = torch.full_like(text, -100)
        target[position] = text[position]
        text = text.clone()
        text[position] = MASK
        return {"ids": text, "target": target, "keys": torch.ones(len(text))}


class Repeat(Tiny):
    """The source is one token many times, the target that token; or the source, reversed."""

    name = "repeat"

    def __init__(self, reverse: bool = False) -> None:
        self.reverse = reverse

    def make_row(self, generator: torch.Generator, row: int) -> dict[str, Tensor]:
        if self.reverse:
            source = torch.randint(2, VOCABULARY, (4,), generator=generator)
            target = source.flip(0)
        else:
            source = torch.randint(2, VOCABULARY, (1,), generator=generator).repeat(
                self.length(row)
            )
            target = source[:3]
        before = torch.cat([torch.tensor([MASK]), target[:-1]])
        return {"ids": source, "keys": torch.ones(len(source)), "before": before, "target": target}

    def logits(self, forward: Any, batch: Batch) -> Tensor:
        return forward(batch["ids"], batch["before"], batch["keys"])


class Corner(Tiny):
    """Which quarter of the picture is bright?"""

    name = "corner"

    def make_row(self, generator: torch.Generator, row: int) -> dict[str, Tensor]:
        image = torch.rand(1, 8, 8, generator=generator) - 0.75
        corner = row % 4
        top, left = 4 * (corner // 2), 4 * (corner % 2)
        image[:, top : top + 4, left : left + 4] += 1
        return {"image": image, "target": torch.tensor([corner]), "keys": torch.ones(1)}

    def logits(self, forward: Any, batch: Batch) -> Tensor:
        return forward(batch["image"])[:, None]


def config(name: str = "softmax", **changes: Any) -> StackConfig:
    settings: dict[str, Any] = {
        "vocabulary": VOCABULARY,
        "context": 12,
        "width": 32,
        "layers": 2,
        "heads": 2,
        "attention": attention(name),
    }
    return StackConfig(**{**settings, **changes})


def make(kind: str, name: str = "softmax", **changes: Any) -> tuple[TrainingTask, Model]:
    """A task and a new model for it."""
    torch.manual_seed(0)
    if kind == "decoder":
        return Copy(), Decoder(config(name, **changes))
    if kind == "encoder":
        return Fill(), Encoder(EncoderConfig(**vars(config(name, **changes))))
    if kind in ("seq2seq", "reverse"):
        both = Seq2SeqConfig(
            config(layers=1, width=24), config(layers=1), cross_attention=attention(name)
        )
        return Repeat(kind == "reverse"), Seq2Seq(both)
    if kind == "vit":
        sizes: dict[str, Any] = {"image_size": 8, "channels": 1, "patch": 4, "width": 32}
        settings = ViTConfig(4, **sizes, layers=2, heads=2, attention=attention(name))
        return Corner(), ViT(settings)
    return Corner(), ConvNet(ConvNetConfig(4, channels=1, width=8, stages=2, blocks=1))


def run_tiny(folder: Path, kind: str = "decoder", name: str = "softmax", **changes: Any) -> Any:
    start = changes.pop("start", StartMode.NEW)
    run = Run(folder)
    model_changes = changes.pop("model", {})
    task, model = make(kind, name, **model_changes)
    return train(task, model, Settings(**{**BASE, **changes}), run, start=start, quiet=True)
