"""Measures a model's heads, chooses a mechanism for each, and checks the choice by applying it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from attnlab.bench._machine_info import describe_machine, library_versions
from attnlab.bench._progress import NO_PROGRESS, BenchProgress
from attnlab.bench._run_bench import check_seed, without_repeats
from attnlab.bench._settings import create_settings
from attnlab.heads._assignment import check_softmax_replacement, evaluate_plans
from attnlab.heads._encoder_decoder_models import AttnlabPairReader, HuggingFacePairReader
from attnlab.heads._image_models import AttnlabImageReader, HuggingFaceImageReader
from attnlab.heads._inputs import read_inputs
from attnlab.heads._mechanism_errors import candidate_specs, measure_heads
from attnlab.heads._model_reader import ModelReader
from attnlab.heads._report import heads_section
from attnlab.heads._results import HeadResults
from attnlab.heads._settings import HeadSettings
from attnlab.heads._text_models import AttnlabTextReader, HuggingFaceTextReader
from attnlab.interpret._adapters import open_model
from attnlab.interpret._attnlab_models import InspectedAttnlabModel
from attnlab.interpret._inspected_model import InspectedModel
from attnlab.report._content import Report, Section

ATTNLAB_READERS: dict[str, type[ModelReader]] = {
    "vision": AttnlabImageReader,
    "encoder-decoder": AttnlabPairReader,
}
HUGGINGFACE_READERS: dict[str, type[ModelReader]] = {
    "vision": HuggingFaceImageReader,
    "encoder-decoder": HuggingFacePairReader,
}


def heads(
    model: Path | str,
    text: Path | str | None = None,
    *,
    images: Path | str | None = None,
    mechanisms: Sequence[str] = (),
    quick: bool = False,
    seed: int = 0,
    progress: BenchProgress = NO_PROGRESS,
    **settings: Any,
) -> Report:
    """Measure which mechanism reproduces each head of a model, and check the choice.

    `model`: a folder of attnlab or Hugging Face. `text`: the path of a file, or the text itself.
    `images`: a folder of images, or a data set that `attnlab vision` reads. `settings` are fields
    of HeadSettings.

    >>> from attnlab.heads import heads
    >>> from attnlab.models import Decoder, StackConfig
    >>> from attnlab.tokenizer import Characters
    >>> text = "to be or not to be, that is the question. " * 20
    >>> tokenizer = Characters.train([text])
    >>> sizes = {"context": 64, "width": 16, "layers": 1, "heads": 2}
    >>> Decoder(StackConfig(vocabulary=tokenizer.vocabulary, **sizes)).save_pretrained("model")
    >>> tokenizer.save("model/tokenizer.json")
    >>> report = heads("model", text, mechanisms=["window:window=8"], tokens=32, windows=2)
    >>> len(report.sections) > 0
    True
    """
    start = time.perf_counter()
    check_seed(seed)
    section = measure_model(
        Path(model),
        text,
        create_settings(HeadSettings, quick, settings),
        images=images,
        mechanisms=without_repeats(mechanisms),
        seed=seed,
        progress=progress,
    )
    return Report(
        "heads",
        section.title,
        [section],
        describe_machine(torch.get_num_threads()),
        library_versions(),
        time.perf_counter() - start,
    )


def create_reader(inspected: InspectedModel) -> ModelReader:
    """The reader for the kind of the model."""
    if isinstance(inspected, InspectedAttnlabModel):
        return ATTNLAB_READERS.get(inspected.kind, AttnlabTextReader)(inspected)
    return HUGGINGFACE_READERS.get(inspected.kind, HuggingFaceTextReader)(inspected)


def measure_model(
    model: Path | ModelReader,
    text: Path | str | None,
    settings: HeadSettings,
    *,
    images: Path | str | None = None,
    mechanisms: Sequence[str] = (),
    seed: int = 0,
    progress: BenchProgress = NO_PROGRESS,
) -> Section:
    """`model`: a folder, or a reader. `text`: a file, or the text itself. For an encoder-decoder a
    `.jsonl`, `.csv` or `.tsv` file holds texts and summaries."""
    inputs = read_inputs(text, images)
    candidate_specs(mechanisms, settings, None)  # reports a mistake before it opens a model
    reader = create_reader(open_model(model)) if isinstance(model, Path) else model
    reader.seed = seed
    windows = reader.windows(inputs, settings)
    specs = candidate_specs(mechanisms, settings, windows.tokens)
    if not specs:
        raise ValueError(
            f"nothing to measure: every mechanism sees all {windows.tokens} tokens; give more "
            "--tokens or a smaller --window"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        check_softmax_replacement(reader, windows.checking[0])
        measured = measure_heads(reader, windows.choosing, specs, settings, progress)
        specs = [spec for spec in specs if any(spec in head.errors for head in measured.heads)]
        if not specs:
            raise ValueError(f"{reader.label}: nothing to measure. {' '.join(measured.notes)}")
        tolerance = settings.tolerance
        outcomes = evaluate_plans(reader, windows.checking, measured, specs, tolerance, progress)
    return heads_section(HeadResults(reader, measured, specs, outcomes, settings))
