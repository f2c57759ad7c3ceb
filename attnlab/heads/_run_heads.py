"""Measures a model's heads, chooses a mechanism for each, and checks the choice by applying it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from attnlab.bench._machine_info import machine, versions
from attnlab.bench._progress import SILENT, Progress
from attnlab.bench._run_bench import check_seed, without_repeats
from attnlab.bench._settings import settings_of
from attnlab.heads._assignment import check_exchange, check_plans
from attnlab.heads._encoder_decoder_models import HuggingFacePairs, OwnPairs
from attnlab.heads._image_models import HuggingFaceImages, OwnImages
from attnlab.heads._inputs import read_material
from attnlab.heads._mechanism_errors import candidates, measure_heads
from attnlab.heads._model_reader import Reader
from attnlab.heads._report import heads_section
from attnlab.heads._results import Results
from attnlab.heads._settings import HeadSettings
from attnlab.heads._text_models import HuggingFaceTexts, OwnTexts
from attnlab.interpret._adapters import open_subject
from attnlab.interpret._attnlab_models import OwnSubject
from attnlab.interpret._inspected_model import Subject
from attnlab.report._content import Report, Section

OWN: dict[str, type[Reader]] = {"vision": OwnImages, "encoder-decoder": OwnPairs}
OTHERS: dict[str, type[Reader]] = {"vision": HuggingFaceImages, "encoder-decoder": HuggingFacePairs}


def heads(
    model: Path | str,
    text: Path | str | None = None,
    *,
    images: Path | str | None = None,
    mechanisms: Sequence[str] = (),
    quick: bool = False,
    seed: int = 0,
    progress: Progress = SILENT,
    **settings: Any,
) -> Report:
    """Measure which mechanism reproduces each head of a model, and check the choice.

    `model`: a folder, attnlab's or Hugging Face's. `text`: a path of a file, or the text itself.
    `images`: a folder of them, or a data set that `attnlab vision` reads. `settings` are fields of
    HeadSettings.
    """
    begin = time.perf_counter()
    check_seed(seed)
    section = measure_model(
        Path(model),
        text,
        settings_of(HeadSettings, quick, settings),
        images=images,
        mechanisms=without_repeats(mechanisms),
        seed=seed,
        progress=progress,
    )
    return Report(
        "heads",
        section.title,
        [section],
        machine(torch.get_num_threads()),
        versions(),
        time.perf_counter() - begin,
    )


def reader_of(subject: Subject) -> Reader:
    """By what a model reads."""
    if isinstance(subject, OwnSubject):
        return OWN.get(subject.kind, OwnTexts)(subject)
    return OTHERS.get(subject.kind, HuggingFaceTexts)(subject)


def measure_model(
    model: Path | Reader,
    text: Path | str | None,
    settings: HeadSettings,
    *,
    images: Path | str | None = None,
    mechanisms: Sequence[str] = (),
    seed: int = 0,
    progress: Progress = SILENT,
) -> Section:
    """`model`: a folder, or what `reader_of` made of one. `text`: a file, or the text itself; with
    `.jsonl`, `.csv` or `.tsv` texts and their summaries, for an encoder-decoder."""
    material = read_material(text, images)
    candidates(mechanisms, settings, None)  # a mistake is reported before a model is opened
    reader = reader_of(open_subject(model)) if isinstance(model, Path) else model
    reader.seed = seed
    windows = reader.windows(material, settings)
    specs = candidates(mechanisms, settings, windows.tokens)
    if not specs:
        raise ValueError(
            f"nothing to measure: every window is as wide as the {windows.tokens} tokens read"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        check_exchange(reader, windows.checking[0])
        measured = measure_heads(reader, windows.choosing, specs, settings, progress)
        specs = [spec for spec in specs if any(spec in head.errors for head in measured.heads)]
        if not specs:
            raise ValueError(f"{reader.label}: nothing to measure. {' '.join(measured.notes)}")
        tolerance = settings.tolerance
        outcomes = check_plans(reader, windows.checking, measured, specs, tolerance, progress)
    return heads_section(Results(reader, measured, specs, outcomes, settings))
