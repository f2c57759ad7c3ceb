"""A mechanism's matrix as a picture: on one sentence, beside softmax's.

Letters: T tokens, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from attnlab._create_mechanism import create_mechanism, find_mechanism
from attnlab.mask import Mask
from attnlab.position import Sinusoidal
from attnlab.report._matplotlib import STYLE, check_figure, plain, write_figure

TEXT = (
    "the dog saw the cat and the cat saw the bird but the bird saw no dog and no cat then "
    "the dog and the cat saw the bird fly"
)
HEAD_DIM = 32
# of negative weights, none, and large ones
COLORS = LinearSegmentedColormap.from_list("weights", ["#be540c", "#f7f8fa", "#103c8c"])


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


def matrices(name: str) -> Figure:
    """The matrices side by side; color is the root of a weight, so that small ones show too."""
    panels = panels_of(name)
    options = ", ".join(f"{key}={value}" for key, value in drawn_options(name).items())
    card = find_mechanism(name).card
    scale = float(panels[0].weights.max())  # softmax's: one scale for all
    notes = [
        f"{len(panels[0].weights)} tokens; queries down, keys across; color: root of the weight, "
        f"darkest from {scale:.2f} on"
    ]
    notes += [f"with {options}"] if options else []
    notes += ["parameters drawn at random"] if card.learned else []
    notes += ["negative weights orange"] if card.signed else []
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.5), layout="constrained")
        for place, panel in enumerate(panels):
            axes = figure.add_subplot(1, 3, place + 1)  # all alike, also without a causal form
            largest = float(panel.weights.max())
            axes.set_title(plain(f"{panel.title} (largest {largest:.2f})"), loc="left")
            roots = panel.weights.sign() * (panel.weights.abs() / scale).sqrt()
            axes.imshow(roots.numpy(), COLORS, vmin=-1, vmax=1, interpolation="nearest")
            axes.spines[:].set_visible(False)
            axes.set_xticks([])
            axes.set_yticks([])
        note = "\n".join(filter(None, [notes[0], "; ".join(notes[1:])]))
        figure.supxlabel(note, x=0.01, ha="left", fontsize="small")
    return figure


def save_matrices(name: str, path: Path, overwrite: bool = False) -> None:
    find_mechanism(name)
    check_figure(path, overwrite)
    write_figure(matrices(name), path, f"The weights of {name}")
