"""From a corpus and questions to a model that answers."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlab.models import Decoder
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks.knowledge._answers import answer, reach
from attnlab.tasks.knowledge._certainty import fit
from attnlab.tasks.knowledge._data import (
    WORLD,
    Library,
    Pair,
    digest,
    hold_out,
    name_in,
    read_pairs,
    relations_in,
    usual_share,
)
from attnlab.tasks.knowledge._load import (
    Material,
    load_knowledge,
    make_model,
    make_tokenizer,
    material,
    preset_named,
)
from attnlab.tasks.knowledge._pretraining_objectives import create_objectives
from attnlab.tasks.knowledge._rows import Wording
from attnlab.tasks.knowledge._task import Documents, KnowledgeTask, Questions, Source, collate
from attnlab.tasks.knowledge._world import WorldConfig, make_world
from attnlab.tasks.knowledge.kind import KNOWLEDGE
from attnlab.tokenizer import Tokenizer
from attnlab.training import Run, Settings, bucket_by_length, is_main_process, train
from attnlab.training._run import resumed_settings

SCRATCH = "scratch"
QUESTIONS_MIXED = 3  # times that a question comes for each time that the documents do


def pretrain(
    corpus: str | Path | None = None,
    *,
    pairs: str | Path | None = None,
    out: str | Path,
    attention: str | list[str] = "softmax",
    objective: str | None = None,
    preset: str = "small",
    tokenizer: str | None = None,
    epochs: float | None = None,
    model: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    """Learn the corpus by an objective; returns the last metrics.

    From `pairs` only the characters are taken, so that questions can be read later.
    """
    chosen = preset_named(preset)
    objective = objective or chosen.objective
    objectives = create_objectives(objective)
    check_folder(out, start)
    source = material(corpus, pairs, needs_pairs=False)
    settings, epochs = settled(chosen.pretraining, chosen.pretraining_epochs, epochs, training)
    tokens = make_tokenizer(tokenizer or chosen.tokenizer, source.texts)
    wording = Wording(tokens)
    torch.manual_seed(settings.seed)
    made = make_model(preset, tokens, attention, model or {})
    task = knowledge_task(
        [Documents(source.documents, each) for each in objectives],
        wording,
        made,
        settings,
        about={
            "stage": "pretrain",
            "objective": objective,
            "preset": preset,
            "corpus": source.corpus,
            "documents": len(source.documents),
            "text": digest(source.documents),
        },
    )
    settings = in_steps(task, settings, epochs)
    if start == StartMode.RESUME:
        settings = resumed_settings(settings, out, training or {})
    tell(source, tokens, made, settings, quiet)
    return run_training(task, made, settings, tokens, out, start, quiet)


def finetune(
    run: str | Path = SCRATCH,
    *,
    pairs: str | Path | None = None,
    corpus: str | Path | None = None,
    out: str | Path,
    attention: str | list[str] = "softmax",
    objective: str | None = None,
    preset: str | None = None,
    tokenizer: str | None = None,
    mixed: bool | None = None,
    held_out: float | None = None,
    epochs: float | None = None,
    model: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    """Learn to answer, from a pretrained run or from scratch.

    `mixed`: documents are learned on between the questions, so that they are not forgotten.
    `held_out` is the share of the pairs that are not learned: what is measured on the way, and the
    thresholds of `ask`, come from them. The course holds out none.
    """
    check_folder(out, start)
    before: dict[str, Any] = {}  # what the pretrained run says of itself
    if str(run) != SCRATCH:
        loaded, tokens, config = load_knowledge(Path(run))
        before = config["task"]
        if preset is not None or tokenizer is not None or model or attention != "softmax":
            raise ValueError(
                f"{run}: has its own model; preset, tokenizer, attention and sizes are for scratch"
            )
        preset = str(before.get("preset", "small"))
        objective = objective or before.get("objective")
        if corpus is None and before.get("corpus") not in (None, "", WORLD):
            corpus = before["corpus"]
            if pairs is None:
                raise ValueError(f"{run}: learned {corpus}; give --pairs with questions about it")
    preset = preset or "small"
    chosen = preset_named(preset)
    if mixed is None:
        mixed = chosen.mixed and bool(before) and bool(corpus or before.get("corpus"))
    source = _to_finetune_on(before, corpus, pairs, mixed)
    usual = chosen.finetuning_epochs if before else chosen.scratch_epochs
    base = chosen.finetuning if before else chosen.scratch
    settings, epochs = settled(base, usual, epochs, training)
    if not before:
        tokens = make_tokenizer(tokenizer or chosen.tokenizer, source.texts)
        torch.manual_seed(settings.seed)
        loaded = make_model(preset, tokens, attention, model or {})
    wording = Wording(tokens)
    check_pairs(source.pairs, wording, loaded, str(pairs or WORLD))
    if held_out is None:
        held_out = usual_share(len(source.pairs)) if chosen.holds_out else 0.0
    learned, measured = hold_out(source.pairs, held_out, settings.seed)
    if not learned:
        raise ValueError(f"held-out share {held_out} leaves no pair to learn; give less")
    if objective is not None and not mixed and not before:
        raise ValueError("--objective is what the corpus is learned by meanwhile; give --mixed too")
    sources: list[Source] = [Questions(learned, QUESTIONS_MIXED if mixed else 1)]
    if mixed:
        mix_in = create_objectives(objective or chosen.objective)
        sources += [Documents(source.documents, each) for each in mix_in]
    task = knowledge_task(
        sources,
        wording,
        loaded,
        settings,
        measured=measured or learned[:500],
        about={
            "stage": "finetune",
            "from": str(run),
            "objective": objective if mixed else None,
            "preset": preset,
            "corpus": source.corpus,
            "pairs": str(pairs or WORLD),
            "questions": len(learned),
            "held_out": held_out,
            "text": digest(source.documents, *source.pairs),
            "measured_on": "held-out pairs" if measured else "training pairs",
        },
    )
    settings = in_steps(task, settings, epochs)
    if start == StartMode.RESUME:
        settings = resumed_settings(settings, out, training or {})
    tell(source, tokens, loaded, settings, quiet)
    metrics = run_training(task, loaded, settings, tokens, out, start, quiet)
    keep_certainty(loaded, wording, out, learned, measured, Library(source.documents))
    return metrics


def _to_finetune_on(
    before: dict[str, Any], corpus: str | Path | None, pairs: str | Path | None, mixed: bool
) -> Material:
    """Questions, and documents where they are learned on or a tokenizer needs them."""
    if before and not mixed and pairs is not None:
        return Material([], read_pairs(pairs), str(corpus or ""))
    source = material(corpus, pairs)
    if not mixed or source.documents:
        return source
    if before.get("corpus") != WORLD:
        raise ValueError("--mixed learns from documents too, and there are none; give --corpus")
    return replace(source, documents=make_world(WorldConfig()).corpus, corpus=WORLD)


def check_pairs(pairs: Sequence[Pair], wording: Wording, model: Decoder, what: str) -> None:
    """Refuse what the model cannot read or say, before anything is trained."""
    for number, (question, known) in enumerate(pairs, 1):
        for text in (question, known):
            wording.check(text, f"{what}: pair {number}")
        size, most = len(wording.pair(question, known)), reach(model) + 1
        if size > most:
            raise ValueError(
                f"{what}: pair {number} has {size} tokens with its two masks; "
                f"this model reads at most {most}: {question[:40]!r}..."
            )


def keep_certainty(
    model: Decoder,
    wording: Wording,
    out: str | Path,
    learned: Sequence[Pair],
    measured: Sequence[Pair],
    library: Library,
) -> None:
    """known.json: from which confidence on an answer is known, fitted on training pairs alone."""
    if not is_main_process():
        return
    relations = relations_in([question for question, _ in [*learned, *measured]], library)
    found = [name_in(question, relations) for question, _ in learned]
    fit(
        model.eval(),
        wording,
        held_out=measured,
        learned=learned,
        names=[each[0] for each in found if each is not None],
        relations=relations,
    ).save(Path(out))


def knowledge_task(
    sources: Sequence[Source],
    wording: Wording,
    model: Decoder,
    settings: Settings,
    *,
    about: dict[str, Any],
    measured: Sequence[Pair] = (),
    measure: Callable[[nn.Module], dict[str, float]] | None = None,
) -> KnowledgeTask:
    """Measured by the share of right answers where there are questions, else by the loss."""

    def accuracy(current: nn.Module) -> dict[str, float]:
        assert isinstance(current, Decoder)
        said = answer(current, wording, [question for question, _ in measured])
        right = sum(a == gold for a, (_, gold) in zip(said, measured, strict=True))
        return {"accuracy": right / len(measured)}

    def loss(current: nn.Module) -> dict[str, float]:
        rows = task.rows(-1)[:1000]
        batch = [rows[i : i + 100] for i in range(0, len(rows), 100)]
        total, count = 0.0, 0
        for part in batch:
            tensors = collate(part, wording.tokenizer.pad)
            total += float(task.loss(current, tensors))
            count += task.targets(tensors)
        return {"loss": total / max(1, count)}

    task = KnowledgeTask(
        sources,
        wording,
        context=reach(model),
        seed=settings.seed,
        measure=measure or (accuracy if measured else loss),
        headline=KNOWLEDGE.headline if measured or measure else "loss",
        about=about,
    )
    return task


def settled(
    base: Settings, usual: float, epochs: float | None, changes: dict[str, Any] | None
) -> tuple[Settings, float | None]:
    """The preset's settings with the user's; epochs are None where steps or minutes were given."""
    changes = {name: value for name, value in (changes or {}).items() if value is not None}
    if "batch_tokens" in changes:
        changes = {"batch_size": None, **changes}  # a preset's rows would win over them
    settings = replace(base, **changes)
    if len({"steps", "minutes"} & changes.keys()) + (epochs is not None) > 1:
        raise ValueError("epochs, steps and minutes; give one of them")
    if epochs is not None and not 0 < epochs < math.inf:
        raise ValueError(f"epochs is {epochs}; give a number above 0")
    if {"steps", "minutes"} & changes.keys():
        return settings, None
    return settings, usual if epochs is None else epochs


def in_steps(task: KnowledgeTask, settings: Settings, epochs: float | None) -> Settings:
    """Epochs as steps, counted by the first epoch."""
    lengths = task.lengths(0)
    if not lengths:
        raise ValueError("there is nothing to learn: no row fits into the context")
    if epochs is None:
        return settings
    batches = bucket_by_length(
        lengths,
        tokens=settings.batch_tokens,
        rows=settings.batch_size,
        generator=torch.Generator().manual_seed(0),
    )
    steps = max(1, round(epochs * len(batches)))
    return replace(
        settings, steps=steps, warmup_steps=min(settings.warmup_steps, max(1, steps // 5))
    )


def tell(
    source: Material, tokens: Tokenizer, model: Decoder, settings: Settings, quiet: bool
) -> None:
    if is_main_process() and not quiet:
        length = (
            f"{settings.steps:,} steps"
            if settings.minutes is None
            else f"{settings.minutes:g} minutes"
        )
        print(
            f"{len(source.documents):,} documents, "
            f"{sum(len(d) + 1 for d in source.documents):,} characters, "
            f"{len(source.pairs):,} questions, {tokens.vocabulary:,} token ids; "
            f"{model.parameter_count():,} parameters; {length}",
            file=sys.stderr,
        )


def run_training(
    task: KnowledgeTask,
    model: Decoder,
    settings: Settings,
    tokens: Tokenizer,
    out: str | Path,
    start: StartMode,
    quiet: bool,
) -> dict[str, float]:
    folder = Path(out)
    return train(
        task,
        model,
        settings,
        Run(folder),
        start=start,
        quiet=quiet,
        on_begin=None if start == StartMode.RESUME else lambda: tokens.save(folder / TOKENIZER),
    )
