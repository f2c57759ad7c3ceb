"""A bench of a real model: its heads, what could take softmax's place in each, and the check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from attnlab.bench.activations import candidates, measure_heads
from attnlab.bench.assigning import check_exchange, check_plans
from attnlab.bench.model_report import model_section
from attnlab.bench.model_words import Found
from attnlab.bench.progress import SILENT, Progress
from attnlab.bench.readers import Reader, open_reader, read_text
from attnlab.bench.results import Section
from attnlab.bench.settings import ModelSettings


def bench_model(
    model: Path | Reader,
    text: Path | str,
    settings: ModelSettings,
    *,
    mechanisms: Sequence[str] = (),
    seed: int = 0,
    progress: Progress = SILENT,
) -> Section:
    """Measure every head of a model on a text, choose a mechanism for each, and check the choice.

    `model`: a folder, attnlab's or Hugging Face's, or what `open_reader` made of one. `text`: a
    file, or the text itself.
    """
    words = read_text(text) if isinstance(text, Path) else text
    candidates(mechanisms, settings, settings.tokens)  # a mistake is told before a model is opened
    reader = open_reader(model) if isinstance(model, Path) else model
    reader.seed = seed
    windows = reader.windows(words, settings)
    specs = candidates(mechanisms, settings, windows.tokens)
    if not specs:
        raise ValueError(
            f"nothing to measure: every window is as wide as the {windows.tokens} tokens read"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        check_exchange(reader, windows.checking[0])
        measured = measure_heads(reader, windows.choosing, specs, settings, progress)
        tolerance = settings.tolerance
        outcomes = check_plans(reader, windows.checking, measured, specs, tolerance, progress)
    return model_section(
        Found(
            reader.label,
            reader.causal,
            reader.measure,
            measured,
            specs,
            outcomes,
            settings,
            reader.notes,
        )
    )
