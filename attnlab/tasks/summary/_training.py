"""From texts with summaries to a model that writes its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from attnlab.models import Seq2Seq
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks.summary._baselines import best_count
from attnlab.tasks.summary._data_sources import BUILT_IN, kept_versions, load_found
from attnlab.tasks.summary._generation import GREEDY, write_all
from attnlab.tasks.summary._pairs import USUAL, Columns, Found, Pair, Split, digest, split_pairs
from attnlab.tasks.summary._presets import MODEL, TRAINING, SummaryModel
from attnlab.tasks.summary._rouge import score
from attnlab.tasks.summary._task import SummaryTask
from attnlab.tasks.summary._token_ids import Wording, spaced
from attnlab.tokenizer import BPE, Tokenizer, load_tokenizer
from attnlab.training import Run, Settings, is_main_process
from attnlab.training import train as train_task
from attnlab.training._machine import choose_device
from attnlab.training._run import resumed_settings

SHARE = 0.03
MEASURED = 200  # validation texts that are summarized at each validation


@dataclass(frozen=True)
class Material:
    """What a run learns from and is measured on."""

    split: Split
    about: dict[str, Any]
    """Enough to find the same split again."""
    found: Found
    """All pairs, and the rows that were left out."""


def material(
    data: str | Path,
    columns: Columns = USUAL,
    *,
    held_out: float = SHARE,
    seed: int = 0,
    limit: int | None = None,
    wanted: str | None = None,
    quiet: bool = False,
) -> Material:
    """The pairs, split by group; `limit` takes only so many, evenly from all.

    `wanted`: the digest of pairs that the cache may still hold, whatever this machine has now.
    """
    if limit is not None and limit < 3:
        raise ValueError(f"limit is {limit}; give 3 pairs or more")
    kept = kept_versions(str(data)) if wanted else iter(())
    older = (Found(evenly(pairs, limit)) for pairs in kept)
    found = next((each for each in older if digest(each.pairs) == wanted), None)
    if found is None:
        loaded = load_found(data, columns, quiet=quiet)
        found = replace(loaded, pairs=evenly(loaded.pairs, limit))
    pairs = found.pairs
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
        "first_words": best_count(split.validation[:1000]),
    }
    return Material(split, about, found)


def evenly(pairs: list[Pair], limit: int | None) -> list[Pair]:
    """So many of them, as far apart as they can be."""
    if limit is None or limit >= len(pairs):
        return pairs
    return [pairs[i * len(pairs) // limit] for i in range(limit)]


def train(
    data: str | Path = "docstrings",
    *,
    out: str | Path,
    columns: Columns = USUAL,
    held_out: float = SHARE,
    limit: int | None = None,
    model: SummaryModel = MODEL,
    training: dict[str, Any] | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    """Train on a built-in source or a file; returns the last metrics."""
    check_folder(out, start)
    settings, resumed = settled(training), start == StartMode.RESUME
    if resumed:
        settings = resumed_settings(settings, out, training or {})
    choose_device(settings.device)  # what can be wrong is told before texts are gathered
    model.build(model.vocabulary, settings.seed)
    wanted = Run(out).config()["task"].get("pairs") if resumed else None
    source = material(data, columns, held_out=held_out, limit=limit, wanted=wanted, quiet=quiet)
    return train_on(source, out=out, model=model, settings=settings, start=start, quiet=quiet)


def train_on(
    source: Material,
    *,
    out: str | Path,
    model: SummaryModel,
    settings: Settings,
    tokens: Tokenizer | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    """`train`, with the pairs at hand."""
    folder = Path(out)
    kept = folder / TOKENIZER
    again = start == StartMode.RESUME and kept.exists()
    if tokens is None:
        tokens = load_tokenizer(kept) if again else learned(source.split.train, model.vocabulary)
    known = tokens
    wording = Wording(tokens, model.text_tokens, model.summary_tokens)
    made = model.build(tokens.vocabulary, settings.seed)
    task = SummaryTask(
        source.split.train,
        source.split.validation,
        wording,
        smoothing=model.smoothing,
        about={**source.about, "text_tokens": model.text_tokens,
               "summary_tokens": model.summary_tokens},
        besides=rouge_of(source.split.validation[:MEASURED], wording),
    )  # fmt: skip
    if not task.rows:
        raise ValueError(
            f"no summary has at most {model.summary_tokens} tokens; give more --summary-tokens"
        )
    if is_main_process() and not quiet:
        print(_about(task, made, settings, source), file=sys.stderr)
    return train_task(
        task, made, settings, Run(folder), start=start, quiet=quiet,
        on_begin=None if again else lambda: known.save(kept),
    )  # fmt: skip


def learned(pairs: Sequence[Pair], vocabulary: int) -> BPE:
    """Byte pairs of the training texts and summaries."""
    texts = (spaced(text) for pair in pairs for text in (pair.text, pair.summary))
    return BPE.train(texts, vocabulary)


def rouge_of(pairs: Sequence[Pair], wording: Wording) -> Any:
    """What a validation measures: greedy summaries of these texts."""

    def measure(model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Seq2Seq)
        found = write_all(model, wording, [pair.text for pair in pairs], GREEDY)
        texts = [rows[0].text for rows in found]
        return {"rougeL": score(texts, [pair.summary for pair in pairs]).mean["rougeL"]}

    return measure


def settled(changes: dict[str, Any] | None, base: Settings = TRAINING) -> Settings:
    """The usual settings with the user's; steps, where given, end the run instead of minutes, and
    steps between validations replace their number."""
    changes = {name: value for name, value in (changes or {}).items() if value is not None}
    if "steps" in changes and "minutes" in changes:
        raise ValueError("steps and minutes; give one of them")
    if "steps" in changes:
        changes = {"minutes": None, **changes}
        changes.setdefault("warmup_steps", min(base.warmup_steps, max(1, changes["steps"] // 5)))
    if "evaluate_every" in changes:
        changes = {"evaluations": None, **changes}
    return replace(base, **changes)


def load_summary(folder: str | Path) -> tuple[Seq2Seq, Wording, dict[str, Any]]:
    """Model, wording and configuration of a summary run."""
    run = Run(folder)
    config = run.config()
    task = config["task"]
    if task.get("name") != SummaryTask.name:
        raise ValueError(f"{folder}: a run of task {task.get('name')!r}, not summary")
    missing = [name for name in ("text_tokens", "summary_tokens") if name not in task]
    if missing:
        raise ValueError(f"{folder}: its config.json has no {missing[0]} of the task; train anew")
    model = run.model()
    if not isinstance(model, Seq2Seq):
        raise ValueError(f"{folder}: its model is no encoder-decoder; train it anew")
    tokens = load_tokenizer(Path(folder))
    return model, Wording(tokens, task["text_tokens"], task["summary_tokens"]), config


def _about(task: SummaryTask, model: Seq2Seq, settings: Settings, source: Material) -> str:
    length = (
        f"{settings.steps:,} steps" if settings.minutes is None else f"{settings.minutes:g} minutes"
    )
    left_out = f" ({task.too_long} summaries too long to learn)" if task.too_long else ""
    unmeasured = f" ({task.unmeasured} too long for a loss)" if task.unmeasured else ""
    return (
        f"{len(task.rows):,} texts to learn{left_out}, {len(source.split.validation):,} for "
        f"validation{unmeasured}, {len(source.split.test):,} for the test; "
        f"{sum(task.lengths(0)):,} tokens of text; {model.parameter_count():,} parameters; {length}"
    )
