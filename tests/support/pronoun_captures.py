"""Captures by hand, in which one head finds the antecedent of "it" and others follow patterns."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from attnlab.interpret._head_patterns import head_patterns
from attnlab.interpret._interesting_heads import find_highlights, opening_view
from attnlab.interpret._look import LookResult
from attnlab.interpret._records import Capture, CapturePanel, Flow, ModelInfo
from tests.support.synthetic_captures import make_layer, make_sequence

TEXT = "[CLS] the animal did not cross the street because it was tired [SEP]"
TOKENS = TEXT.split()
N = len(TOKENS)
IT, ANIMAL = TOKENS.index("it"), TOKENS.index("animal")


def uniform() -> Tensor:
    return torch.full((N, N), 1 / N)


def previous() -> Tensor:
    return torch.eye(N).roll(1, 0) * 0.98 + 0.02 / N


def sink() -> Tensor:
    weights = torch.full((N, N), 0.01 / (N - 1))
    weights[:, 0] = 0.99
    return weights


def pronoun(weight: float = 0.64) -> Tensor:
    weights = uniform()
    weights[IT] = (1 - weight) / (N - 1)
    weights[IT, ANIMAL] = weight
    return weights


def panel_of(*layers: list[Tensor]) -> CapturePanel:
    sequence = make_sequence(TEXT)
    made = [make_layer(torch.stack(heads), name=f"blocks.{i}") for i, heads in enumerate(layers)]
    return CapturePanel(
        label="model",
        model=ModelInfo("m", "encoder", "attnlab", 12),
        sequences=[sequence],
        layers=made,
        sequence_indices=[(0, 0)] * len(made),
        patterns=[head_patterns(layer, sequence, sequence) for layer in made],
    )


def opened(*panels: CapturePanel) -> Capture:
    capture = Capture("title", list(panels), highlights=find_highlights(panels[0]))
    return replace(capture, initial_view=opening_view(capture))


def pronoun_result(second: bool = False) -> LookResult:
    """Layer 1, head 1 finds the antecedent; with a second panel, in which it does not."""
    layers = [[previous(), uniform(), sink()], [sink(), pronoun(), uniform()]]
    first = panel_of(*layers)
    first.flow = Flow([uniform(), sink()], None, "", {"gradient": "not captured"}, [0, 1])
    panels = [first]
    if second:
        panels.append(replace(panel_of(layers[0], [sink(), sink(), uniform()]), label="other"))
    return LookResult(opened(*panels))
