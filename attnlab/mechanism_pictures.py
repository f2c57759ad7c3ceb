"""Plots of a mechanism's weight matrix on one sentence, next to softmax.

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
from attnlab.gates import sample_gates
from attnlab.mask import Mask
from attnlab.position import SinusoidalPositions
from attnlab.report._matplotlib import STYLE, check_figure, plain_text, write_figure

TEXT = (
    "the dog saw the cat and the cat saw the bird but the bird saw no dog and no cat then "
    "the dog and the cat saw the bird fly"
)
HEAD_DIM = 32
# negative, zero and large weights
COLORS = LinearSegmentedColormap.from_list("weights", ["#be540c", "#f7f8fa", "#103c8c"])


@dataclass(frozen=True)
class Panel:
    title: str
    weights: Tensor  # (T, T)


def example_queries_and_keys(seed: int = 0, norm: float = 5.0) -> tuple[Tensor, Tensor]:
    """q and k (1, 1, T, D) of a hand-made head that attends to equal words and to near positions.

    Equal words have equal vectors, and each token adds its position: the matrix has a diagonal, and
    a dot wherever a word is repeated.
    """
    generator = torch.Generator().manual_seed(seed)
    tokens = TEXT.split()
    words = sorted(set(tokens))
    codes = torch.randn(len(words), HEAD_DIM, generator=generator)
    word_codes = torch.stack([codes[words.index(word)] for word in tokens])  # (T, D)
    positions = SinusoidalPositions(HEAD_DIM, base=100.0)(torch.arange(len(tokens)))  # (T, D)
    x = norm * _unit(_unit(word_codes) + _unit(positions))  # (T, D)
    return x[None, None], x[None, None]


def _unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def plot_options(name: str) -> dict[str, Any]:
    """Options at which a short sentence shows what the mechanism does."""
    return find_mechanism(name).short_options(len(TEXT.split()))


def panels_of(name: str) -> list[Panel]:
    """The matrices of softmax, of the mechanism, and of its causal form if it has one. Beside a
    mechanism that exists only in causal form stands softmax in causal form too."""
    q, k = example_queries_and_keys()
    card, T = find_mechanism(name).card, q.shape[2]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        softmax = create_mechanism("softmax", head_dim=HEAD_DIM, heads=1)
        length = T if card.needs_length else None
        mechanism: Any = create_mechanism(
            name, head_dim=HEAD_DIM, heads=1, max_length=length, **plot_options(name)
        )
        for parameter in mechanism.parameters():
            if parameter.numel() > 1 and float(parameter.std()) < 0.1:  # a table that starts near 0
                torch.nn.init.normal_(parameter)
        gates = sample_gates(mechanism.gates, k, torch.Generator().manual_seed(0))
        causal = Mask(causal=True)
        panels = [Panel("softmax", softmax.weights(q, k, Mask())[0, 0])]
        if not card.bidirectional:
            panels.append(Panel("causal softmax", softmax.weights(q, k, causal)[0, 0]))
            panels.append(Panel(name, mechanism.weights(q, k, causal, **gates)[0, 0]))
            return panels
        if name != "softmax":
            panels.append(Panel(name, mechanism.weights(q, k, Mask(), **gates)[0, 0]))
        if card.causal:
            panels.append(Panel("causal", mechanism.weights(q, k, causal, **gates)[0, 0]))
    return panels


def plot_matrices(name: str) -> Figure:
    """The matrices side by side; color is the square root of a weight, to show small ones too."""
    panels = panels_of(name)
    options = ", ".join(f"{key}={value}" for key, value in plot_options(name).items())
    card = find_mechanism(name).card
    scales = [float(panels[0].weights.max())] * len(panels)  # softmax's: one scale for all
    darkest = f"darkest from {scales[0]:.2f} on"
    if not card.rows_sum_to_one:
        scales = [float(panel.weights.abs().max()) for panel in panels]
        darkest = "darkest at the largest"
    notes = [
        f"{len(panels[0].weights)} tokens; queries down, keys across; color: root of the weight, "
        f"{darkest}"
    ]
    notes += [f"with {options}"] if options else []
    notes += ["untrained parameters"] if card.learned else []
    notes += ["gates drawn at random"] if find_mechanism(name).gates else []
    notes += ["negative weights orange"] if card.signed else []
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.7), layout="constrained")
        for index, (panel, scale) in enumerate(zip(panels, scales, strict=True)):
            axes = figure.add_subplot(1, 3, index + 1)  # equal sizes, also without a causal form
            largest = float(panel.weights.max())
            axes.set_title(plain_text(f"{panel.title} (largest {largest:.2f})"), loc="left")
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
    write_figure(plot_matrices(name), path, f"The weights of {name}")
