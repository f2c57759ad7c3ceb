"""From files to a trained language model, and from a trained one to text and figures."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from attnlab.generate import Sampling, TextStreamer, beam_search, generate
from attnlab.models import Decoder, Encoder, EncoderConfig, Model, StackConfig
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks.language._task import OBJECTIVES, Corpus, LanguageTask
from attnlab.tasks.language._text_sources import documentation_text, read_documents, split_documents
from attnlab.tokenizer import BPE, Bytes, Characters, Tokenizer, load_tokenizer
from attnlab.training import Run, Settings, is_main_process, train

TOKENIZERS = ("characters", "bytes", "bpe")


def make_tokenizer(kind: str, documents: Sequence[str], vocabulary: int) -> Tokenizer:
    if kind == "characters":
        return Characters.train(documents)
    if kind == "bytes":
        return Bytes()
    if kind == "bpe":
        return BPE.train(documents, vocabulary)
    raise ValueError(f"tokenizer {kind!r}; there are {', '.join(TOKENIZERS)}")


def train_language(
    files: Sequence[Path],
    *,
    out: Path,
    objective: str = "causal",
    tokenizer: str = "characters",
    tokenizer_size: int = 4096,
    characters: int = 4_000_000,
    model: StackConfig | None = None,
    settings: Settings | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    """Train on these files, or on the documentation of installed packages; returns the metrics."""
    settings = settings or Settings()
    if objective not in OBJECTIVES:
        raise ValueError(f"objective {objective!r}; there are {', '.join(OBJECTIVES)}")
    check_folder(out, start)
    documents = read_documents(files) if files else documentation_text(characters, settings.seed)
    training, validation = split_documents(documents, seed=settings.seed)
    tokens = make_tokenizer(tokenizer, training, tokenizer_size)
    config = replace(model or StackConfig(vocabulary=1, context=256), vocabulary=tokens.vocabulary)
    torch.manual_seed(settings.seed)
    made: Model = (
        Decoder(config) if objective == "causal" else Encoder(EncoderConfig(**asdict(config)))
    )
    limit = made.max_length
    context = config.context if limit is None else min(config.context, int(limit))  # type: ignore[arg-type]
    task = LanguageTask(
        training, validation, tokens, objective=objective, context=context, seed=settings.seed
    )
    if is_main_process() and not quiet:
        print(
            f"{len(training):,} documents, {task.train.characters:,} characters, "
            f"{tokens.vocabulary} token ids; {made.parameter_count():,} parameters",
            file=sys.stderr,
        )
        tell_unknown(task.train.unknown)
        tell_unknown(task.validation.unknown)
    return train(
        task,
        made,
        settings,
        Run(out),
        start=start,
        quiet=quiet,
        on_begin=None if start == StartMode.RESUME else lambda: tokens.save(out / TOKENIZER),
    )


def tell_unknown(replaced: Mapping[str, int]) -> None:
    """Say which characters the tokenizer did not know and replaced, if any."""
    if replaced:
        most = sorted(replaced, key=lambda character: -replaced[character])[:10]
        listed = ", ".join(f"{character!r} {replaced[character]}x" for character in most)
        total = sum(replaced.values())
        print(f"{total} characters unknown to the tokenizer replaced: {listed}", file=sys.stderr)


def load_language(folder: Path) -> tuple[Model, Tokenizer, dict[str, Any]]:
    """Model, tokenizer and configuration of a language run."""
    run = Run(folder)
    config = run.config()
    if config["task"].get("name") != "language":
        raise ValueError(f"{folder}: a run of task {config['task'].get('name')!r}, not language")
    return run.model(), load_tokenizer(folder), config


def write(
    folder: Path,
    prompts: Sequence[str],
    *,
    new_tokens: int | None = None,
    beams: int | None = None,
    sampling: Sampling | None = None,
    samples: int = 1,
    stop: bool = True,
    block_repeats: int | None = None,
    on_text: Callable[[str], None] | None = None,
) -> list[list[str]]:
    """Continuations of each prompt, of 200 tokens or what fits unless `new_tokens` says otherwise.

    `on_text` gets each piece of the first one's as it comes; with `beams` nothing comes early.
    """
    model, tokenizer, _ = load_language(folder)
    if not isinstance(model, Decoder):
        raise ValueError(f"{folder}: a masked model fills gaps, it cannot write; train causal")
    encoded = [tokenizer.encode_counting(prompt) for prompt in prompts]
    ids = [[tokenizer.end, *known] for known, _ in encoded]
    tell_unknown(sum((replaced for _, replaced in encoded), Counter()))
    limit, longest = model.max_length, max(map(len, ids), default=0)
    if new_tokens is None:
        new_tokens = 200 if limit is None else max(1, min(200, limit - longest))
    if limit is not None and longest + new_tokens > limit:
        raise ValueError(
            f"{longest} tokens of prompt and {new_tokens} new ones; this model reads at most "
            f"{limit}: give --max-new-tokens {max(0, limit - longest)} or less, or a shorter prompt"
        )
    ends = tokenizer.end if stop else None
    if beams is not None:
        options: dict[str, Any] = {"width": beams, "best": samples, "block_repeats": block_repeats}
        written = beam_search(model, ids, new_tokens=new_tokens, stop=ends, **options)
    else:
        streamed = _Stream(tokenizer, ends, on_text)
        written = generate(
            model,
            ids,
            new_tokens=new_tokens,
            stop=ends,
            sampling=sampling or Sampling(),
            samples=samples,
            block_repeats=block_repeats,
            on_token=streamed,
        )
        streamed.finish()
    return [[tokenizer.decode(each.ids) for each in found] for found in written]


class _Stream:
    """The first prompt's first sample as text, piece by piece."""

    def __init__(
        self, tokenizer: Tokenizer, end: int | None, on_text: Callable[[str], None] | None
    ) -> None:
        self.pieces, self.end, self.on_text = TextStreamer(tokenizer.decode), end, on_text

    def __call__(self, prompt: int, sample: int, token: int, log_probability: float) -> None:
        del log_probability
        if self.on_text is not None and not prompt and not sample and token != self.end:
            self._tell(self.pieces.add(token))

    def finish(self) -> None:
        self._tell(self.pieces.finish())

    def _tell(self, piece: str) -> None:
        if self.on_text is not None and piece:
            self.on_text(piece)


def evaluate(folder: Path, files: Sequence[Path]) -> dict[str, Any]:
    """Bits per character of these files (causal), or loss and accuracy of masked tokens."""
    model, tokenizer, config = load_language(folder)
    documents = read_documents(files)
    objective = config["task"]["objective"]
    context = int(config["model"]["context"])
    limit = getattr(model, "max_length", None)
    context = context if limit is None else min(context, limit)
    task = LanguageTask([], [], tokenizer, objective=objective, context=context)
    corpus = Corpus.of(documents, tokenizer, context, int(objective == "causal"))
    with torch.no_grad():
        found: dict[str, Any] = task.measure(model, corpus)
    return {**found, "characters": corpus.characters, "unknown": sum(corpus.unknown.values())}
