"""What changes a prediction: the effects that `look` shows when they were asked for.

Every position has a target, the token that follows it. An effect is the change of a target's
log-probability. One run without a head gives its effects on all targets. One target is measured in
detail: what each layer predicts for it, and what attention to each token contributes.

Letters: B batch, H heads, L layers and the embedding, P targets, T tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from attnlab._short_repr import one_line
from attnlab.interpret._head_importance import Progress, ablatable_sites
from attnlab.interpret._inspected_model import BatchOutput, InspectedModel, PreparedInput
from attnlab.interpret._intervene import intervene
from attnlab.interpret._key_effects import measure_keys
from attnlab.interpret._logit_lens import LensInput, read_predictions
from attnlab.interpret._model_input import ModelInput, check_token, from_prepared, token_id
from attnlab.interpret._options import LookOptions
from attnlab.interpret._patching_map import patching_map
from attnlab.interpret._records import (
    CapturePanel,
    EffectKind,
    EffectPart,
    Effects,
    EffectTarget,
    LensTable,
    PatchingTable,
)
from attnlab.interpret._replay import Replay
from attnlab.interpret._run_model import evaluating

TOP = 5  # tokens that each layer predicts for the measured target
MAX_REASON = 300  # characters
LEAST = -1e4  # a log-probability; a smaller one is not a finite number in a file

Part = TypeVar("Part")


@dataclass(frozen=True)
class Targets:
    """The tokens or the class whose log-probabilities are measured."""

    ids: Tensor
    """(P,)."""
    names: list[str]
    measured: int
    kind: EffectKind

    def log_probabilities(self, output: BatchOutput) -> Tensor:
        """(B, P). Row by row: the logits of one row stay in the processor's cache."""
        values = output.values.detach()
        values = values if values.dim() == 3 else values[:, None]  # (B, P, V)
        ids = self.ids.to(values.device)[:, None]
        rows = [
            logits.gather(1, ids)[:, 0].float() - logits.float().logsumexp(-1) for logits in values
        ]
        return torch.stack(rows).clamp(min=LEAST).cpu()


def choose_targets(
    source: ModelInput,
    output: BatchOutput,
    answer: str | int | None = None,
    position: int | None = None,
) -> Targets:
    """The token after each position (after the last one the likeliest), the tokens of a masked
    model themselves (at a mask the likeliest), or the likeliest class. `answer` replaces the one at
    `position`, which is the measured one: without it the last position or the first mask."""
    if output.kind == "vectors":
        raise ValueError(
            f"{source.label}: returns vectors and predicts no token, so there is no effect to "
            "measure; omit --effects, or give a model with an output layer"
        )
    if output.kind == "classes":
        if position is not None:
            raise ValueError(f"{source.label}: predicts one class; omit --position")
        ids, measured = output.values[:1].argmax(-1).cpu(), 0
    else:
        measured = source.position(output, position)
        ids = output.values[0].argmax(-1).cpu()  # (T,)
        known = source.ids[0].cpu()
        if output.kind == "next":
            ids[:-1] = known[1:]
        else:
            mask = None if source.inspected is None else source.inspected.mask_id
            ids = torch.where(known == (-1 if mask is None else mask), ids, known)
    if answer is not None:
        ids[measured] = check_token(token_id(source, answer, "answer"), output, "answer")
    return Targets(ids, [target_name(source, output, i) for i in ids.tolist()], measured,
                   output.kind)  # fmt: skip


def target_name(source: ModelInput, output: BatchOutput, index: int) -> str:
    if output.kind == "classes" and source.inspected is not None:
        names = list(source.inspected.classes)
        return names[index] if index < len(names) else str(index)
    return source.token(index)


def measure_effects(
    inspected: InspectedModel,
    prepared: PreparedInput,
    panel: CapturePanel,
    options: LookOptions,
    progress: Progress | None = None,
) -> Effects:
    """All effects that the model allows. Raises if it allows none, or if an option does not fit."""
    source = from_prepared(inspected, prepared)
    with evaluating(source.model), torch.no_grad():
        output = source.run()
        targets = choose_targets(source, output, options.answer, options.position)
        patching = None
        if options.corrupted is not None:  # first: a wrong pair of texts fails before the long part
            patching = _patching(inspected, options, targets)
        reasons: dict[EffectPart, str] = {}
        heads = _attempt("heads", reasons, lambda: _head_effects(source, panel, targets, progress))
        lens = _attempt("lens", reasons, lambda: _lens(source, targets))
        keys = _attempt(
            "keys",
            reasons,
            lambda: measure_keys(source, panel, targets.measured, targets.log_probabilities),
        )
    if heads is None and lens is None and keys is None and patching is None:
        raise ValueError(f"{source.label}: no effects could be measured: {reasons['heads']}")
    probabilities = targets.log_probabilities(output)[0].exp().tolist()
    return Effects(
        kind=targets.kind,
        sequence=None if targets.kind == "classes" else len(prepared.sequences) - 1,
        measured=targets.measured,
        targets=[EffectTarget(*each) for each in zip(targets.names, probabilities, strict=True)],
        heads=heads or [None] * len(panel.layers),
        keys=keys,
        lens=lens,
        patching=patching,
        reasons=reasons,
    )


def _attempt(
    part: EffectPart, reasons: dict[EffectPart, str], measure: Callable[[], Part]
) -> Part | None:
    """One part of the effects; if the model does not allow it, the reason."""
    try:
        return measure()
    except (ValueError, NotImplementedError) as error:
        reasons[part] = one_line(error, MAX_REASON)
        return None


def _head_effects(
    source: ModelInput, panel: CapturePanel, targets: Targets, progress: Progress | None
) -> list[Tensor | None]:
    """For each captured layer (H, P); None where its heads cannot be ablated."""
    counts, _, _, _ = ablatable_sites(source.model, source)
    sites = {site.name: site for site, _ in counts}
    replay = Replay(source, list(sites.values()))
    before = targets.log_probabilities(replay.output)[0]  # (P,)
    whole = intervene(source.model)
    runs = sum(len(layer.heads) for layer in panel.layers if layer.name in sites)
    done, effects = 0, list[Tensor | None]()
    for layer in panel.layers:
        site = sites.get(layer.name)
        rows = []
        for head in layer.heads if site is not None else []:
            assert site is not None
            with whole.ablate(site.name, head):
                after = targets.log_probabilities(replay.run_from(replay.block_index(site)))[0]
            rows.append(after - before)
            done += 1
            if progress is not None:
                progress(done, runs)
        effects.append(torch.stack(rows) if rows else None)
    if not runs:
        raise ValueError(f"{source.label}: no captured layer has heads that can be ablated")
    return effects


def _lens(source: ModelInput, targets: Targets) -> LensTable:
    lens = LensInput(source)
    read = read_predictions(lens, lens.streams, targets=targets.ids)
    return LensTable(
        layers=read.layers,
        best=[[tokens[0][0] for tokens in row] for row in read.top],
        best_probability=torch.tensor([[tokens[0][1] for tokens in row] for row in read.top]),
        target_probability=read.final_probability.float(),
        top=[row[targets.measured][:TOP] for row in read.top],
    )


def _patching(inspected: InspectedModel, options: LookOptions, targets: Targets) -> PatchingTable:
    assert options.text is not None
    assert options.corrupted is not None
    result = patching_map(
        inspected,
        options.text,
        options.corrupted,
        int(targets.ids[targets.measured]),
        position=None if targets.kind == "classes" else targets.measured,
        pair=options.pair,
    )
    return PatchingTable(
        result.layers, result.clean_tokens, result.corrupted_tokens, result.restored.float(),
        result.clean, result.corrupted, result.description,
    )  # fmt: skip
