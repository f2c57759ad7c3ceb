"""A mechanism's matrix as a picture: on one sentence, beside softmax's.

Letters: T tokens, D head size.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab.charts import Chart, escape
from attnlab.create import create_mechanism, find_mechanism
from attnlab.mask import Mask
from attnlab.page import picture, write_page
from attnlab.pictures import png
from attnlab.position import Sinusoidal

TEXT = (
    "the dog saw the cat and the cat saw the bird but the bird saw no dog and no cat then "
    "the dog and the cat saw the bird fly"
)
HEAD_DIM = 32
PANEL, GAP, TOP, BOTTOM = 248, 18, 26, 44
LEAST = torch.tensor([247, 248, 250])  # the colour of no weight
MOST, BELOW = torch.tensor([16, 60, 140]), torch.tensor([190, 84, 12])  # of the largest; negative


@dataclass(frozen=True)
class Panel:
    title: str
    weights: Tensor  # (T, T)


def sentence(seed: int = 0, norm: float = 5.0) -> tuple[Tensor, Tensor]:
    """q and k (1, 1, T, D) of a hand-made head that looks for its own word, and near by.

    Equal words have equal codes, and every token its position: the matrix has a diagonal, and a
    dot wherever a word comes again.
    """
    generator = torch.Generator().manual_seed(seed)
    tokens = TEXT.split()
    words = sorted(set(tokens))
    codes = torch.randn(len(words), HEAD_DIM, generator=generator)
    said = torch.stack([codes[words.index(word)] for word in tokens])  # (T, D)
    places = Sinusoidal(HEAD_DIM, base=100.0)(torch.arange(len(tokens)))  # (T, D)
    x = norm * _unit(_unit(said) + _unit(places))  # (T, D)
    return x[None, None], x[None, None]


def _unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def drawn_options(name: str) -> dict[str, Any]:
    """Those at which a short sentence shows what the mechanism does."""
    return find_mechanism(name).short_options(len(TEXT.split()))


def panels_of(name: str) -> list[Panel]:
    """softmax, the mechanism, and its causal form if it has one."""
    q, k = sentence()
    card, T = find_mechanism(name).card, q.shape[2]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        softmax = create_mechanism("softmax", head_dim=HEAD_DIM, heads=1)
        length = T if card.needs_length else None
        made = create_mechanism(
            name, head_dim=HEAD_DIM, heads=1, max_length=length, **drawn_options(name)
        )
        for parameter in made.parameters():
            if float(parameter.std()) < 0.1:  # a table that begins as good as zero
                torch.nn.init.normal_(parameter)
        found = [] if name == "softmax" else [Panel("softmax", softmax.weights(q, k, Mask())[0, 0])]
        found.append(Panel(name, made.weights(q, k, Mask())[0, 0]))
        if card.causal:
            found.append(Panel("causal", made.weights(q, k, Mask(causal=True))[0, 0]))
    return found


def coloured(weights: Tensor, largest: float) -> Tensor:
    """(3, T, T) uint8: the root of each weight's share of `largest`; negative ones orange."""
    strength = (weights.abs() / largest).clamp(max=1).sqrt()[..., None]  # (T, T, 1)
    end = torch.where((weights < 0)[..., None], BELOW, MOST)
    return (LEAST + (end - LEAST) * strength).round().to(torch.uint8).permute(2, 0, 1)


def matrices(name: str) -> Chart:
    """The drawing, and how much each panel's largest weight is."""
    panels = panels_of(name)
    options = ", ".join(f"{key}={value}" for key, value in drawn_options(name).items())
    card = find_mechanism(name).card
    scale = float(panels[0].weights.max())  # softmax's: one scale for all
    notes = [
        f"{len(panels[0].weights)} tokens; queries down, keys across; colour: root of the weight, "
        f"darkest from {scale:.2f} on"
    ]
    notes += [f"with {options}"] if options else []
    notes += ["parameters drawn at random"] if card.learned else []
    notes += ["negative weights orange"] if card.signed else []
    width = 3 * (PANEL + GAP) - GAP  # all alike, also where there is no causal form
    parts = [_panel(panel, i * (PANEL + GAP), scale) for i, panel in enumerate(panels)]
    for line, text in enumerate([notes[0], "; ".join(notes[1:])]):
        height = TOP + PANEL + 18 + 17 * line
        parts.append(f'<text x="0" y="{height}" class="dim">{escape(text)}</text>')
    title = f"The weights of {name}"
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + PANEL + BOTTOM}" '
        f'width="{width}" role="img"><title>{escape(title)}</title>'
        f"<desc>{escape('; '.join(panel.title for panel in panels))}</desc>{''.join(parts)}</svg>"
    )
    rows = [(panel.title, float(panel.weights.max())) for panel in panels]
    return Chart(title, svg, ("matrix", "largest weight"), rows)


def _panel(panel: Panel, x: int, largest: float) -> str:
    pixels = coloured(panel.weights, largest)
    edge = -(-PANEL // pixels.shape[1])  # whole pixels for each weight, so that edges stay sharp
    large = pixels.repeat_interleave(edge, 1).repeat_interleave(edge, 2)
    data = base64.b64encode(png(large)).decode("ascii")
    text = f"{panel.title} (largest {float(panel.weights.max()):.2f})"
    return (
        f'<text x="{x}" y="{TOP - 9}">{escape(text)}</text>'
        f'<image x="{x}" y="{TOP}" width="{PANEL}" height="{PANEL}" '
        f'href="data:image/png;base64,{data}"/>'
    )


def save_matrices(name: str, path: Path, overwrite: bool = False) -> None:
    find_mechanism(name)
    if path.suffix != ".svg":
        raise ValueError(f"{path}: a picture is written as SVG; name it NAME.svg")
    write_page(path, picture(matrices(name)), overwrite)
