"""`attnlab.logit_lens`: what a model would predict if it stopped after each layer.

The residual stream after a layer goes through the model's own last norm and output layer. The tuned
lens first maps it with an affine probe per layer, which is fitted to the stream after the last
layer by ridge regression around the identity.

Letters: L layers and the embedding, T tokens, V vocabulary, W width, n tokens of all texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnlab.interpret._adapters import attention_sites
from attnlab.interpret._inspected_model import BatchOutput
from attnlab.interpret._intervene import edited_input
from attnlab.interpret._model_input import ModelInput, Text, read_all, read_input
from attnlab.interpret._replay import Replay
from attnlab.interpret._run_model import evaluating

if TYPE_CHECKING:
    from attnlab.report import Report

TOP = 10  # tokens that are kept for each layer and position
KEPT_LOGITS = 2**24  # numbers; more are not kept
RUN_ENTRIES = 2**25  # numbers of output in one run
RIDGE = 0.1  # relative to the mean variance of the stream


@dataclass(frozen=True, eq=False)
class TunedProbe:
    """One affine map per layer, (W, W) and (W,), and what it gains on texts that were held out."""

    matrices: list[Tensor]
    biases: list[Tensor]
    tokens: int
    held_out_tokens: int
    plain_divergence: list[float]
    """Mean divergence of the plain lens from the model's output, in nats, for each layer."""
    tuned_divergence: list[float]


@dataclass(frozen=True, eq=False)
class LensResult:
    """The predictions of every layer, first of the embedding."""

    label: str
    layers: list[str]
    tokens: list[str]
    """One for each position; a vision model has a single one."""
    top: list[list[list[tuple[str, float]]]]
    """For each layer and position the likeliest tokens with their probabilities."""
    final_probability: Tensor
    """(L, T) probability of the token that the whole model predicts."""
    divergence: Tensor
    """(L, T) Kullback-Leibler divergence from the whole model's prediction, in nats."""
    logits: Tensor | None
    """(L, T, V); None if they would be too large to keep."""
    probe: TunedProbe | None = None
    notes: list[str] = field(default_factory=list)

    def report(self) -> Report:
        from attnlab.interpret._effect_reports import lens_report

        return lens_report(self)


def logit_lens(
    model: Any,
    text: Text | None = None,
    *,
    tuned: bool | TunedProbe = False,
    texts: Sequence[Text] = (),
    tokenizer: Any = None,
    pair: str | None = None,
    image: str | Path | None = None,
) -> LensResult:
    """Read the predictions of every layer through the model's own output layer.

    With `tuned=True`, an affine probe per layer is fitted on `texts` first; the last quarter of
    them is held out to measure what it gains. The result's `probe` can be given as `tuned` again.

    >>> import attnlab
    >>> from attnlab.models import Decoder, StackConfig
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=2, heads=3)).eval()
    >>> lens = attnlab.logit_lens(model, [5, 6, 7, 5])
    >>> lens.layers
    ['embedding', 'layer 0', 'layer 1']
    >>> lens.logits.shape
    torch.Size([3, 4, 50])
    """
    if tuned is True and not texts:
        raise ValueError("the tuned lens needs texts to fit its probes on; give texts=[...]")
    if tuned is False and texts:
        raise ValueError("texts fit the tuned lens; give tuned=True, or omit texts")
    source = read_input(model, text, tokenizer=tokenizer, pair=pair, image=image)
    with evaluating(source.model), torch.no_grad():
        lens = LensInput(source)
        probe = tuned if isinstance(tuned, TunedProbe) else None
        if tuned is True:
            opened = source.model if source.inspected is None else source.inspected
            probe = fit_probe([LensInput(each) for each in read_all(opened, texts)])
        streams = lens.streams if probe is None else apply_probe(probe, lens.streams)
        return read_predictions(lens, streams, probe)


class LensInput:
    """One input of a model, with the residual streams (L, T, W) of its last stack of blocks."""

    def __init__(self, source: ModelInput) -> None:
        self.source = source
        self.replay = Replay(source, attention_sites(source.model))
        output = self.replay.output
        if output.kind == "vectors":
            raise ValueError(
                f"{source.label}: returns vectors and predicts no token, so it has no logit lens; "
                "give a model with an output layer"
            )
        if not self.replay.usable:
            raise ValueError(
                f"{source.label}: its blocks cannot be run one by one (they are shared, or depend "
                "on each other in other ways), so it has no logit lens"
            )
        streams, blocks = self.replay.streams, self.replay.blocks
        self.last = streams.order[-1]
        group = blocks[self.last].group
        self.indices = [i for i in streams.order if blocks[i].group == group]
        first = streams.inputs.get(self.indices[0])
        listed = [first, *(streams.stream(index) for index in self.indices)]
        if not _is_one_stream(listed, output.values):
            raise ValueError(
                f"{source.label}: its blocks do not share one residual stream (batch, tokens, "
                "width), so it has no logit lens"
            )
        self.streams = torch.cat([x[:1] for x in listed if x is not None])  # (L, T, W)
        self.names = ["embedding", *(f"layer {number}" for number in range(len(self.indices)))]

    def logits(self, streams: Tensor) -> Tensor:
        """(n, T, W) -> (n, T, V), or (n, 1, K) of classes, by the model's own output layer."""
        width = self.replay.output.values.shape[-1] * streams.shape[1]
        step = max(1, RUN_ENTRIES // max(1, width))
        parts = [self.run_from(len(self.indices), part).values for part in streams.split(step)]
        values = torch.cat(parts)
        return values if values.dim() == 3 else values[:, None]

    def run_from(self, layer: int, streams: Tensor) -> BatchOutput:
        """Run the blocks after a layer of `names` on other streams (n, T, W)."""
        if layer:
            index = self.indices[layer - 1]
            return self.replay.run_with_streams(index, lambda _: streams, len(streams))
        module = self.replay.blocks[self.indices[0]].module
        with edited_input(module, lambda _: streams):
            return self.source.repeated(len(streams)).run()


def _is_one_stream(listed: Sequence[Tensor | None], values: Tensor) -> bool:
    """Whether all streams have the same shape, whose axes are those of the model's output."""
    shapes = {None if x is None else x.shape for x in listed}
    shape = shapes.pop()
    if shapes or shape is None:
        return False
    return shape[0] == len(values) and (values.dim() == 2 or shape[1] == values.shape[1])


def read_predictions(
    lens: LensInput,
    streams: Tensor,
    probe: TunedProbe | None = None,
    targets: Tensor | None = None,
) -> LensResult:
    """The predictions of every layer. `final_probability` is of the tokens that the whole model
    predicts, or of `targets` (T,)."""
    final = lens.replay.output.values[:1]
    final = (final if final.dim() == 3 else final[:, None])[0].float()  # (T, V)
    target = final.log_softmax(-1)
    best = final.argmax(-1) if targets is None else targets.to(final.device)  # (T,)
    top, chosen, divergence, kept = [], [], [], []
    keep = len(streams) * final.numel() <= KEPT_LOGITS
    for stream in streams.split(1):
        logits = lens.logits(stream)[0].float()  # (T, V)
        log_p = logits.log_softmax(-1)
        chosen.append(log_p.gather(1, best[:, None])[:, 0].exp())
        divergence.append((target.exp() * (target - log_p)).sum(-1))
        top.append(_top_tokens(lens.source, log_p.exp()))
        kept += [logits] if keep else []
    T = len(final)
    tokens = lens.source.tokens if len(lens.source.tokens) == T else ["class"]
    return LensResult(
        label=lens.source.label,
        layers=lens.names,
        tokens=tokens,
        top=top,
        final_probability=torch.stack(chosen).cpu(),
        divergence=torch.stack(divergence).cpu(),
        logits=torch.stack(kept).cpu() if keep else None,
        probe=probe,
    )


def _top_tokens(source: ModelInput, probabilities: Tensor) -> list[list[tuple[str, float]]]:
    values, ids = probabilities.topk(min(TOP, probabilities.shape[-1]), dim=-1)
    inspected = source.inspected
    classes = [] if inspected is None else list(inspected.classes)
    is_class = inspected is not None and inspected.kind == "vision"

    def name(index: int) -> str:
        if is_class:
            return classes[index] if index < len(classes) else str(index)
        return source.token(index)

    return [
        [(name(index), value) for index, value in zip(row, p, strict=True)]
        for row, p in zip(ids.tolist(), values.tolist(), strict=True)
    ]


def apply_probe(probe: TunedProbe, streams: Tensor) -> Tensor:
    if len(probe.matrices) != len(streams) or probe.matrices[0].shape[0] != streams.shape[-1]:
        raise ValueError(
            f"the probe has {len(probe.matrices)} layers of width {probe.matrices[0].shape[0]}, "
            f"the model {len(streams)} of {streams.shape[-1]}; fit one for this model"
        )
    maps = zip(streams, probe.matrices, probe.biases, strict=True)
    return torch.stack([x @ A.to(x) + b.to(x) for x, A, b in maps])


def fit_probe(inputs: Sequence[LensInput]) -> TunedProbe:
    """Fit every layer's map to the last stream. The last quarter of the texts is held out; with
    fewer than four texts there is none, and the gain is measured on the texts of the fit."""
    held = len(inputs) // 4
    fitted, checked = inputs[: len(inputs) - held], inputs[len(inputs) - held :] or inputs
    streams = torch.cat([each.streams for each in fitted], 1).double()  # (L, n, W)
    last = streams[-1]
    matrices, biases = [], []
    for x in streams:
        mean, target = x.mean(0), last.mean(0)
        centered = x - mean
        covariance = centered.mT @ centered  # (W, W)
        strength = RIDGE * covariance.diagonal().mean().clamp(min=1e-12)
        eye = torch.eye(len(covariance), dtype=x.dtype, device=x.device)
        A = torch.linalg.solve(
            covariance + strength * eye, centered.mT @ (last - target) + strength * eye
        )
        matrices.append(A.float())
        biases.append((target - mean @ A).float())
    probe = TunedProbe(matrices, biases, streams.shape[1], 0, [], [])
    plain, tuned, count = torch.zeros(len(streams)), torch.zeros(len(streams)), 0
    for each in checked:
        one, other = (
            _divergences(each, x) for x in (each.streams, apply_probe(probe, each.streams))
        )
        plain, tuned = plain + one.sum(1), tuned + other.sum(1)
        count += one.shape[1]
    held_tokens = count if held else 0
    return TunedProbe(
        matrices, biases, streams.shape[1], held_tokens,
        (plain / count).tolist(), (tuned / count).tolist(),
    )  # fmt: skip


def _divergences(lens: LensInput, streams: Tensor) -> Tensor:
    """(L, T) divergence from the model's own prediction."""
    final = lens.replay.output.values[:1]
    target = (final if final.dim() == 3 else final[:, None])[0].float().log_softmax(-1)  # (T, V)
    rows = []
    for stream in streams.split(1):
        log_p = lens.logits(stream)[0].float().log_softmax(-1)
        rows.append((target.exp() * (target - log_p)).sum(-1))
    return torch.stack(rows).cpu()
