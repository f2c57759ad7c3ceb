"""Train a model that writes summaries."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from attnlab.models import Seq2Seq
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._file_names import CONFIG, TOKENIZER
from attnlab.tasks.summary._baselines import best_word_count
from attnlab.tasks.summary._data_sources import BUILT_IN, cached_versions, load_pairs_with_bad_rows
from attnlab.tasks.summary._generation import GREEDY, write_summaries
from attnlab.tasks.summary._pairs import (
    DEFAULT_COLUMNS,
    Columns,
    LoadedPairs,
    Pair,
    Split,
    digest,
    split_pairs,
)
from attnlab.tasks.summary._presets import MODEL, TRAINING, SummaryModel
from attnlab.tasks.summary._rouge import score
from attnlab.tasks.summary._task import SummaryTask
from attnlab.tasks.summary._token_ids import SummaryTextEncoding, normalize_spaces
from attnlab.tokenizer import BPE, Tokenizer, load_tokenizer
from attnlab.training import Run, Settings, is_main_process
from attnlab.training import train as train_task
from attnlab.training._machine import choose_device
from attnlab.training._trained_run import resumed_settings

HELD_OUT_FRACTION = 0.03
ROUGE_TEXTS = 200  # texts that each validation summarizes


@dataclass(frozen=True)
class SummaryData:
    """The pairs that a run is trained and measured on."""

    split: Split
    about: dict[str, Any]
    """The settings that reproduce the same split."""
    loaded: LoadedPairs
    """All pairs, and the rows without a pair."""


def load_summary_data(
    data: str | Path,
    columns: Columns = DEFAULT_COLUMNS,
    *,
    held_out: float = HELD_OUT_FRACTION,
    seed: int = 0,
    limit: int | None = None,
    expected_digest: str | None = None,
    quiet: bool = False,
) -> SummaryData:
    """Load pairs and split them by group. `limit` takes only that many pairs, spread evenly.

    With `expected_digest` it looks for a cached version with that digest first, because the sources
    on this machine may have changed.
    """
    if limit is not None and limit < 3:
        raise ValueError(f"limit is {limit}; give 3 pairs or more")
    cached = cached_versions(str(data)) if expected_digest else iter(())
    candidates = (LoadedPairs(take_evenly(pairs, limit)) for pairs in cached)
    loaded = next((each for each in candidates if digest(each.pairs) == expected_digest), None)
    if loaded is None:
        current = load_pairs_with_bad_rows(data, columns, quiet=quiet)
        loaded = replace(current, pairs=take_evenly(current.pairs, limit))
    pairs = loaded.pairs
    split = split_pairs(pairs, held_out, seed)
    name = str(data) if str(data) in BUILT_IN else str(Path(data).resolve())
    about = {
        "data": name,
        "columns": asdict(columns),
        "held_out": held_out,
        "split_seed": seed,
        "limit": limit,
        "pairs": digest(pairs),
        "groups": len({pair.group or pair.text for pair in pairs}),
        "first_words": best_word_count(split.validation[:1000]),
    }
    return SummaryData(split, about, loaded)


def take_evenly(pairs: list[Pair], limit: int | None) -> list[Pair]:
    """`limit` pairs, spread evenly over all of them."""
    if limit is None or limit >= len(pairs):
        return pairs
    return [pairs[i * len(pairs) // limit] for i in range(limit)]


def train(
    data: str | Path = "docstrings",
    *,
    out: str | Path,
    columns: Columns = DEFAULT_COLUMNS,
    held_out: float = HELD_OUT_FRACTION,
    limit: int | None = None,
    model: SummaryModel = MODEL,
    training: dict[str, Any] | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    """Train on a built-in source or a file, and return the last metrics.

    >>> from attnlab.tasks.summary import SummaryModel, train
    >>> small = SummaryModel(vocabulary=300, width=16, encoder_layers=1, decoder_layers=1, heads=2)
    >>> options = {"model": small, "limit": 60, "training": {"steps": 2}, "quiet": True}
    >>> metrics = train("docstrings", out="run", **options)
    >>> len(metrics) > 0
    True
    """
    check_folder(out, start)
    settings, resumed = resolve_settings(training), start == StartMode.RESUME
    if resumed:
        settings = resumed_settings(settings, out, training or {})
    choose_device(settings.device)  # raise errors before the texts are loaded
    model.build(model.vocabulary, settings.seed)
    expected_digest = Run(out).config()["task"].get("pairs") if resumed else None
    source = load_summary_data(
        data, columns, held_out=held_out, limit=limit, expected_digest=expected_digest, quiet=quiet
    )
    return train_on(source, out=out, model=model, settings=settings, start=start, quiet=quiet)


def train_on(
    source: SummaryData,
    *,
    out: str | Path,
    model: SummaryModel,
    settings: Settings,
    tokens: Tokenizer | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    """`train` with pairs that are already loaded."""
    folder = Path(out)
    tokenizer_file = folder / TOKENIZER
    reuse_tokenizer = start == StartMode.RESUME and tokenizer_file.exists()
    if tokens is None:
        tokens = (
            load_tokenizer(tokenizer_file)
            if reuse_tokenizer
            else train_tokenizer(source.split.train, model.vocabulary)
        )
    encoding = SummaryTextEncoding(tokens, model.text_tokens, model.summary_tokens)
    network = model.build(tokens.vocabulary, settings.seed)
    task = SummaryTask(
        source.split.train,
        source.split.validation,
        encoding,
        smoothing=model.smoothing,
        about={**source.about, "text_tokens": model.text_tokens,
               "summary_tokens": model.summary_tokens},
        extra_metrics=rouge_metric(source.split.validation[:ROUGE_TEXTS], encoding),
    )  # fmt: skip
    if not task.rows:
        raise ValueError(
            f"no summary has at most {model.summary_tokens} tokens; give a larger --summary-tokens"
        )
    if is_main_process() and not quiet:
        print(_format_overview(task, network, settings, source), file=sys.stderr)
    return train_task(
        task, network, settings, Run(folder), start=start, quiet=quiet,
        files={TOKENIZER: tokens.save},
    )  # fmt: skip


def train_tokenizer(pairs: Sequence[Pair], vocabulary: int) -> BPE:
    """Learn a byte-pair tokenizer from the texts and summaries."""
    texts = (normalize_spaces(text) for pair in pairs for text in (pair.text, pair.summary))
    return BPE.train(texts, vocabulary)


def rouge_metric(pairs: Sequence[Pair], encoding: SummaryTextEncoding) -> Any:
    """A metric for validation: the ROUGE-L of greedy summaries of these texts."""

    def measure(model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Seq2Seq)
        summaries = write_summaries(model, encoding, [pair.text for pair in pairs], GREEDY)
        texts = [rows[0].text for rows in summaries]
        return {"rougeL": score(texts, [pair.summary for pair in pairs]).mean["rougeL"]}

    return measure


def resolve_settings(changes: dict[str, Any] | None, base: Settings = TRAINING) -> Settings:
    """The default settings with your changes. Steps replace the minutes, and the steps between
    validations replace the number of validations."""
    changes = {name: value for name, value in (changes or {}).items() if value is not None}
    if "steps" in changes and "minutes" in changes:
        raise ValueError("steps and minutes exclude each other; give one of them")
    if "steps" in changes:
        changes = {"minutes": None, **changes}
        changes.setdefault("warmup_steps", min(base.warmup_steps, max(1, changes["steps"] // 5)))
    if "evaluate_every" in changes:
        changes = {"evaluations": None, **changes}
    return replace(base, **changes)


def load_summary(folder: str | Path) -> tuple[Seq2Seq, SummaryTextEncoding, dict[str, Any]]:
    """Model, text encoding and configuration of a summary run.

    >>> from attnlab.tasks.summary import SummaryModel, load_summary, train
    >>> small = SummaryModel(vocabulary=300, width=16, encoder_layers=1, decoder_layers=1, heads=2)
    >>> options = {"model": small, "limit": 60, "training": {"steps": 2}, "quiet": True}
    >>> metrics = train("docstrings", out="run", **options)
    >>> model, encoding, config = load_summary("run")
    >>> model.kind
    'seq2seq'
    """
    run = Run(folder)
    config = run.config_of(SummaryTask.name)
    model = run.model()
    if not isinstance(model, Seq2Seq):
        raise ValueError(f"{folder}: its model is not an encoder-decoder; train the run again")
    return model, text_encoding(model, run.tokenizer(model), config["task"], folder), config


def text_encoding(
    model: Seq2Seq, tokenizer: Tokenizer, task: dict[str, Any], folder: str | Path
) -> SummaryTextEncoding:
    """The encoding that the task in a config.json describes. It must fit the model's contexts."""
    parts = {"text_tokens": model.config.encoder, "summary_tokens": model.config.decoder}
    for name, part in parts.items():
        length = task.get(name)
        if type(length) is not int or not 0 < length <= part.context:
            raise ValueError(
                f"{folder}: the task in its {CONFIG} has no valid {name}; train the run again"
            )
    return SummaryTextEncoding(tokenizer, task["text_tokens"], task["summary_tokens"])


def _format_overview(
    task: SummaryTask, model: Seq2Seq, settings: Settings, source: SummaryData
) -> str:
    length = (
        f"{settings.steps:,} steps" if settings.minutes is None else f"{settings.minutes:g} minutes"
    )
    too_long = f" ({task.too_long} summaries are too long)" if task.too_long else ""
    unmeasured = f" ({task.unmeasured} are too long for the loss)" if task.unmeasured else ""
    return (
        f"{len(task.rows):,} texts for training{too_long}, {len(source.split.validation):,} for "
        f"validation{unmeasured}, {len(source.split.test):,} for the test; "
        f"{sum(task.lengths(0)):,} tokens of text; {model.parameter_count():,} parameters; {length}"
    )
