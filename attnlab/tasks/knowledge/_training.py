"""Pretrain a model on a corpus, and finetune it on questions."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlab.models import Decoder
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks.knowledge._answers import answer_greedily, max_context, readable
from attnlab.tasks.knowledge._certainty import fit_certainty
from attnlab.tasks.knowledge._data import (
    WORLD,
    Library,
    Pair,
    default_held_out_fraction,
    digest,
    hold_out,
    name_in,
    read_pairs,
    relations_in,
)
from attnlab.tasks.knowledge._load import (
    KnowledgeData,
    find_preset,
    load_data,
    load_knowledge,
    make_model,
    make_tokenizer,
)
from attnlab.tasks.knowledge._made_up_names import (
    UnknownNameSource,
    Use,
    frames_about_unknown_names,
    made_up_questions,
    questions_about_unknown_names,
)
from attnlab.tasks.knowledge._presets import Preset
from attnlab.tasks.knowledge._pretraining_objectives import create_objectives
from attnlab.tasks.knowledge._task import (
    DocumentSource,
    KnowledgeTask,
    QuestionSource,
    RowSource,
    collate,
)
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge._world import WorldConfig, make_world
from attnlab.tasks.knowledge.kind import KNOWLEDGE, KNOWN
from attnlab.tokenizer import Tokenizer
from attnlab.training import Run, Settings, bucket_by_length, is_main_process, train
from attnlab.training._trained_run import resumed_settings

SCRATCH = "scratch"
QUESTIONS_PER_DOCUMENT_PASS = 3  # passes over the questions per pass over the documents


def pretrain(
    corpus: str | Path | None = None,
    *,
    pairs: str | Path | None = None,
    out: str | Path,
    attention: str | list[str] = "softmax",
    objective: str | None = None,
    preset: str = "small",
    tokenizer: str | None = None,
    made_up: float | None = None,
    epochs: float | None = None,
    model: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    """Train on the corpus with an objective, and return the last metrics.

    `pairs` adds characters to the tokenizer, so that the model can read questions later, and shows
    what answers look like, so that the objective "entities" learns such strings. `made_up` is the
    number of rows about made-up names, which have no answer, for each row about a real one.

    >>> from attnlab.tasks.knowledge import pretrain
    >>> small = {"width": 16, "layers": 1, "heads": 2}
    >>> options = {"model": small, "training": {"steps": 2}, "quiet": True}
    >>> metrics = pretrain(out="pretrained", **options)  # on the built-in people
    >>> "loss" in metrics
    True
    """
    preset_settings = find_preset(preset)
    objective = objective or preset_settings.objective
    objectives = create_objectives(objective)
    check_folder(out, start)
    data = load_data(corpus, pairs, needs_pairs=False)
    settings, epochs = resolve_settings(
        preset_settings.pretraining, preset_settings.pretraining_epochs, epochs, training
    )
    tokens = make_tokenizer(tokenizer or preset_settings.tokenizer, data.texts)
    encoding = KnowledgeTextEncoding(tokens)
    answers = [answer for _, answer in data.pairs]
    torch.manual_seed(settings.seed)
    network = make_model(preset, tokens, attention, model or {})
    documents = [DocumentSource(data.documents, one, answers) for one in objectives]
    made_up = made_up_fraction(preset_settings, made_up)
    task = make_knowledge_task(
        [*documents, *frames_about_unknown_names(data.documents, objectives, made_up)],
        encoding,
        network,
        settings,
        about={
            "stage": "pretrain",
            "objective": objective,
            "preset": preset,
            "corpus": data.corpus,
            "documents": len(data.documents),
            "text": digest(data.documents),
        },
    )
    settings = epochs_to_steps(task, settings, epochs)
    if start == StartMode.RESUME:
        settings = resumed_settings(settings, out, training or {})
    print_overview(data, tokens, network, settings, quiet)
    return run_training(task, network, settings, tokens, out, start, quiet)


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
    made_up: float | None = None,
    epochs: float | None = None,
    model: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    """Train on questions, from a pretrained run or from scratch, and return the last metrics.

    With `mixed` the training also continues on the documents, so that they are not forgotten.
    `held_out` is the fraction of the pairs for validation and for the thresholds of `ask`. The
    course holds out none. `made_up` is as for `pretrain`, and needs `mixed`.

    >>> from attnlab.tasks.knowledge import finetune
    >>> small = {"width": 16, "layers": 1, "heads": 2}
    >>> options = {"model": small, "training": {"steps": 2}, "quiet": True}
    >>> metrics = finetune(out="finetuned", **options)  # from scratch, on the built-in questions
    >>> 0 <= metrics["accuracy"] <= 1
    True
    """
    check_folder(out, start)
    before: dict[str, Any] = {}  # the task settings of the pretrained run
    if str(run) != SCRATCH:
        network, tokens, config = load_knowledge(Path(run))
        before = config["task"]
        if preset is not None or tokenizer is not None or model or attention != "softmax":
            raise ValueError(
                f"{run}: has its own model; preset, tokenizer, attention and sizes only apply "
                "with scratch"
            )
        preset = str(before.get("preset", "small"))
        objective = objective or before.get("objective")
        if corpus is None and before.get("corpus") not in (None, "", WORLD):
            corpus = before["corpus"]
            if pairs is None:
                raise ValueError(
                    f"{run}: was pretrained on {corpus}; give --pairs with questions about it"
                )
    preset = preset or "small"
    preset_settings = find_preset(preset)
    if mixed is None:
        mixed = preset_settings.mixed and bool(before) and bool(corpus or before.get("corpus"))
    data = _load_finetuning_data(before, corpus, pairs, mixed)
    default_epochs = preset_settings.finetuning_epochs if before else preset_settings.scratch_epochs
    base = preset_settings.finetuning if before else preset_settings.scratch
    settings, epochs = resolve_settings(base, default_epochs, epochs, training)
    if not before:
        tokens = make_tokenizer(tokenizer or preset_settings.tokenizer, data.texts)
        torch.manual_seed(settings.seed)
        network = make_model(preset, tokens, attention, model or {})
    encoding = KnowledgeTextEncoding(tokens)
    check_pairs(data.pairs, encoding, network, str(pairs or WORLD))
    if held_out is None:
        held_out = default_held_out_fraction(len(data.pairs)) if preset_settings.holds_out else 0.0
    training_pairs, held_out_pairs = hold_out(data.pairs, held_out, settings.seed)
    if not training_pairs:
        raise ValueError(
            f"the held-out fraction {held_out} leaves no pair for training; give a smaller one"
        )
    if objective is not None and not mixed and not before:
        raise ValueError("--objective only works together with --mixed; give --mixed too")
    times = QUESTIONS_PER_DOCUMENT_PASS if mixed else 1
    made_up = made_up_fraction(preset_settings, made_up)
    sources: list[RowSource] = [QuestionSource(training_pairs, times)]
    if mixed:
        objectives = create_objectives(objective or preset_settings.objective)
        answers = [answer for _, answer in training_pairs]
        sources += [DocumentSource(data.documents, each, answers) for each in objectives]
        sources += frames_about_unknown_names(data.documents, objectives, made_up)
        sources += unknown_name_questions(data.documents, training_pairs, times * made_up)
    task = make_knowledge_task(
        sources,
        encoding,
        network,
        settings,
        measured=held_out_pairs or training_pairs[:500],
        about={
            "stage": "finetune",
            "from": str(run),
            "objective": objective if mixed else None,
            "preset": preset,
            "corpus": data.corpus,
            "pairs": str(pairs or WORLD),
            "questions": len(training_pairs),
            "held_out": held_out,
            "text": digest(data.documents, *data.pairs),
            "measured_on": "held-out pairs" if held_out_pairs else "training pairs",
        },
    )
    settings = epochs_to_steps(task, settings, epochs)
    if start == StartMode.RESUME:
        settings = resumed_settings(settings, out, training or {})
    print_overview(data, tokens, network, settings, quiet)
    pairs_and_library = (training_pairs, held_out_pairs, Library(data.documents))
    results = {KNOWN: lambda: certainty_of(network, encoding, *pairs_and_library)}
    return run_training(task, network, settings, tokens, out, start, quiet, results)


def made_up_fraction(preset: Preset, made_up: float | None) -> float:
    """How many rows about made-up names there are for each row about a real one."""
    fraction = preset.made_up if made_up is None else made_up
    if not 0 <= fraction <= 10:
        raise ValueError(f"made_up is {fraction}; give 0 to 10")
    return fraction


def unknown_name_questions(
    documents: Sequence[str], pairs: Sequence[Pair], times: float
) -> list[UnknownNameSource]:
    """Questions like these pairs about names in no document, `times` as many."""
    library = Library(documents)
    relations = relations_in([question for question, _ in pairs], library)
    count = round(times * len(pairs))
    return questions_about_unknown_names(documents, library.by_title, relations, count)


def _load_finetuning_data(
    before: dict[str, Any], corpus: str | Path | None, pairs: str | Path | None, mixed: bool
) -> KnowledgeData:
    """The questions, and the documents if training or the tokenizer needs them."""
    if before and not mixed and pairs is not None:
        return KnowledgeData([], read_pairs(pairs), str(corpus or ""))
    data = load_data(corpus, pairs)
    if not mixed or data.documents:
        return data
    if before.get("corpus") != WORLD:
        raise ValueError("--mixed needs documents to train on; give --corpus")
    return replace(data, documents=make_world(WorldConfig()).corpus, corpus=WORLD)


def check_pairs(
    pairs: Sequence[Pair], encoding: KnowledgeTextEncoding, model: Decoder, source: str
) -> None:
    """Raise an error for a pair that the model cannot read or write, before anything is trained."""
    for number, (question, gold) in enumerate(pairs, 1):
        for text in (question, gold):
            encoding.check_characters(text, f"{source}: pair {number}")
        size, limit = len(encoding.encode_pair(question, gold)), max_context(model) + 1
        if size > limit:
            raise ValueError(
                f"{source}: pair {number} has {size} tokens with its two masks; "
                f"this model reads at most {limit}: {question[:40]!r}..."
            )


def certainty_of(
    model: Decoder,
    encoding: KnowledgeTextEncoding,
    learned: Sequence[Pair],
    measured: Sequence[Pair],
    library: Library,
) -> dict[str, Any]:
    """The content of known.json, the thresholds of `ask`, fitted on training pairs alone."""
    relations = relations_in([question for question, _ in [*learned, *measured]], library)
    matches = [name_in(question, relations) for question, _ in learned]
    names = [match[0] for match in matches if match is not None]
    made_up = made_up_questions([*library.by_title, *names], relations, Use.THRESHOLDS)
    certainty = fit_certainty(
        model,
        encoding,
        held_out=measured,
        learned=learned,
        names=names,
        relations=relations,
        made_up={
            kind: [q for q in questions if readable(q, encoding, max_context(model))]
            for kind, questions in made_up.items()
        },
    )
    return asdict(certainty)


def make_knowledge_task(
    sources: Sequence[RowSource],
    encoding: KnowledgeTextEncoding,
    model: Decoder,
    settings: Settings,
    *,
    about: dict[str, Any],
    measured: Sequence[Pair] = (),
    measure: Callable[[nn.Module], dict[str, float]] | None = None,
) -> KnowledgeTask:
    """A task whose metric is the fraction of right answers or, without questions, the loss."""

    def accuracy(current: nn.Module) -> dict[str, float]:
        assert isinstance(current, Decoder)
        answers = answer_greedily(current, encoding, [question for question, _ in measured])
        correct = sum(a == gold for a, (_, gold) in zip(answers, measured, strict=True))
        return {"accuracy": correct / len(measured)}

    def loss(current: nn.Module) -> dict[str, float]:
        rows = list(islice(task.make_rows(-1), 1000))
        parts = [rows[i : i + 100] for i in range(0, len(rows), 100)]
        total, count = 0.0, 0
        for part in parts:
            batch = collate(part, encoding.tokenizer.pad)
            total += float(task.loss(current, batch))
            count += task.targets(batch)
        return {"loss": total / max(1, count)}

    task = KnowledgeTask(
        sources,
        encoding,
        context=max_context(model),
        seed=settings.seed,
        measure=measure or (accuracy if measured else loss),
        headline=KNOWLEDGE.headline if measured or measure else "loss",
        about=about,
    )
    return task


def resolve_settings(
    base: Settings, default_epochs: float, epochs: float | None, changes: dict[str, Any] | None
) -> tuple[Settings, float | None]:
    """The preset's settings with your changes, and the epochs: None if you set steps or minutes."""
    changes = {name: value for name, value in (changes or {}).items() if value is not None}
    if "batch_tokens" in changes:
        changes = {"batch_size": None, **changes}  # otherwise the preset's batch_size would win
    settings = replace(base, **changes)
    if len({"steps", "minutes"} & changes.keys()) + (epochs is not None) > 1:
        raise ValueError("epochs, steps and minutes exclude each other; give one of them")
    if epochs is not None and not 0 < epochs < math.inf:
        raise ValueError(f"epochs is {epochs}; give a number above 0")
    if {"steps", "minutes"} & changes.keys():
        return settings, None
    return settings, default_epochs if epochs is None else epochs


def epochs_to_steps(task: KnowledgeTask, settings: Settings, epochs: float | None) -> Settings:
    """Settings with epochs converted to steps, by the number of batches of the first epoch."""
    lengths = task.lengths(0)
    if not len(lengths):
        raise ValueError("no training row fits into the context; give a larger --context")
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


def print_overview(
    data: KnowledgeData, tokens: Tokenizer, model: Decoder, settings: Settings, quiet: bool
) -> None:
    """Print data, model size and training length."""
    if is_main_process() and not quiet:
        length = (
            f"{settings.steps:,} steps"
            if settings.minutes is None
            else f"{settings.minutes:g} minutes"
        )
        print(
            f"{len(data.documents):,} documents, {sum(len(d) + 1 for d in data.documents):,} "
            f"characters, {len(data.pairs):,} questions, {tokens.vocabulary:,} token ids; "
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
    results: Mapping[str, Callable[[], Any]] | None = None,
) -> dict[str, float]:
    return train(
        task,
        model,
        settings,
        Run(out),
        start=start,
        quiet=quiet,
        files={TOKENIZER: tokens.save},
        results=results,
    )
