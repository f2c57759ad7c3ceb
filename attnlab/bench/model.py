"""A bench of a real model: its heads, what could take softmax's place in each, and the check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from attnlab.bench.activations import candidates, measure_heads
from attnlab.bench.assigning import check_exchange, check_plans
from attnlab.bench.image_readers import HuggingFaceImages, OwnImages
from attnlab.bench.material import read_material
from attnlab.bench.model_report import model_section
from attnlab.bench.model_words import Found
from attnlab.bench.pair_readers import HuggingFacePairs, OwnPairs
from attnlab.bench.progress import SILENT, Progress
from attnlab.bench.readers import Reader
from attnlab.bench.results import Section
from attnlab.bench.settings import ModelSettings
from attnlab.bench.text_readers import HuggingFaceTexts, OwnTexts
from attnlab.interpret.adapters import open_subject
from attnlab.interpret.own_subjects import OwnSubject
from attnlab.interpret.subjects import Subject

OWN: dict[str, type[Reader]] = {"vision": OwnImages, "encoder-decoder": OwnPairs}
OTHERS: dict[str, type[Reader]] = {"vision": HuggingFaceImages, "encoder-decoder": HuggingFacePairs}


def reader_of(subject: Subject) -> Reader:
    """By what a model reads."""
    if isinstance(subject, OwnSubject):
        return OWN.get(subject.kind, OwnTexts)(subject)
    return OTHERS.get(subject.kind, HuggingFaceTexts)(subject)


def bench_model(
    model: Path | Reader,
    text: Path | str | None,
    settings: ModelSettings,
    *,
    images: Path | str | None = None,
    mechanisms: Sequence[str] = (),
    seed: int = 0,
    progress: Progress = SILENT,
) -> Section:
    """Measure every head of a model on what it reads, choose a mechanism for each, and check it.

    `model`: a folder, attnlab's or Hugging Face's, or what `reader_of` made of one. `text`: a
    file, or the text itself; with `.jsonl`, `.csv` or `.tsv` texts and their summaries, for an
    encoder-decoder. `images`: a folder of them, or a data set that `attnlab vision` reads.
    """
    material = read_material(text, images)
    candidates(mechanisms, settings, None)  # a mistake is told before a model is opened
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
    return model_section(
        Found(
            reader.label,
            reader.reads,
            reader.measure,
            measured,
            specs,
            outcomes,
            settings,
            reader.notes,
        )
    )
