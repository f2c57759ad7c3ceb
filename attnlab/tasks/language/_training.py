"""Train a language model, write text with it, and evaluate it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnlab.generate import Sampling, TextStreamer, beam_search, generate
from attnlab.models import Decoder, Encoder, EncoderConfig, Model, StackConfig
from attnlab.run_folder import StartMode, check_folder
from attnlab.run_folder._file_names import TOKENIZER
from attnlab.tasks.language._prepare import (
    PreparedText,
    TextFiles,
    TextsInMemory,
    encode_text,
    prepare_text,
)
from attnlab.tasks.language._task import OBJECTIVES, LanguageTask
from attnlab.tasks.language._text_sources import documentation_text
from attnlab.tokenizer import BPE, Tokenizer, load_tokenizer
from attnlab.training import Run, Settings, is_main_process, train


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
    """Train on these files, or on the docstrings of installed packages, and return the metrics.

    >>> from pathlib import Path
    >>> from attnlab.models import StackConfig
    >>> from attnlab.tasks.language import train_language
    >>> from attnlab.training import Settings
    >>> _ = Path("text.txt").write_text("to be or not to be. " * 40)
    >>> small = StackConfig(vocabulary=1, width=16, layers=1, heads=2, context=16)
    >>> options = {"model": small, "settings": Settings(steps=2), "quiet": True}
    >>> metrics = train_language([Path("text.txt")], out=Path("run"), **options)
    >>> "loss" in metrics
    True
    """
    settings = settings or Settings()
    if objective not in OBJECTIVES:
        raise ValueError(f"objective is {objective!r}; choose {' or '.join(OBJECTIVES)}")
    check_folder(out, start)
    source = (
        TextFiles(files, quiet=quiet)
        if files
        else TextsInMemory(documentation_text(characters, settings.seed))
    )
    learned = _learned_bpe(out, tokenizer_size) if start == StartMode.RESUME else None
    text = prepare_text(source, tokenizer, tokenizer_size, settings.seed, learned)
    blank = model or StackConfig(vocabulary=1, context=256)
    config = replace(blank, vocabulary=text.tokenizer.vocabulary)
    torch.manual_seed(settings.seed)
    network: Model = (
        Decoder(config) if objective == "causal" else Encoder(EncoderConfig(**asdict(config)))
    )
    return _train(network, text, objective, config.context, settings, out, start, quiet)


def finetune(
    run: Path,
    files: Sequence[Path],
    *,
    out: Path,
    attention: str | list[str] | None = None,
    context: int | None = None,
    settings: Settings | None = None,
    start: StartMode = StartMode.NEW,
    quiet: bool = False,
) -> dict[str, float]:
    """Train the model of a run on other files, and return the metrics.

    It keeps its tokenizer and its objective. `attention` replaces its mechanism, `context` is the
    longest text, at most the run's own.

    >>> from pathlib import Path
    >>> from attnlab.models import StackConfig
    >>> from attnlab.tasks.language import finetune, train_language
    >>> from attnlab.training import Settings
    >>> _ = Path("text.txt").write_text("to be or not to be. " * 40)
    >>> small = StackConfig(vocabulary=1, width=16, layers=1, heads=2, context=16)
    >>> options = {"settings": Settings(steps=2), "quiet": True}
    >>> _ = train_language([Path("text.txt")], out=Path("run"), model=small, **options)
    >>> metrics = finetune(Path("run"), [Path("text.txt")], out=Path("finetuned"), **options)
    >>> "loss" in metrics
    True
    """
    settings = settings or Settings()
    check_folder(out, start)
    if Path(out).resolve() == Path(run).resolve():
        raise ValueError(f"{out}: is the run itself; give another folder")
    network, tokenizer, config = load_language(run)
    longest = network.config.context if context is None else min(context, network.config.context)
    changes: dict[str, Any] = {}
    if attention is not None:
        changes["attention"] = attention
    if longest < network.config.context and network.config.position != "learned":
        changes["context"] = longest
    torch.manual_seed(settings.seed)
    if changes:
        network, _ = network.with_settings(**changes)
    text = prepare_text(TextFiles(files, quiet=quiet), tokenizer, 0, settings.seed)
    objective = config["task"].get("objective", OBJECTIVES[0])
    return _train(network, text, objective, longest, settings, out, start, quiet)


def _train(
    network: Model,
    text: PreparedText,
    objective: str,
    longest: int,
    settings: Settings,
    out: Path,
    start: StartMode,
    quiet: bool,
) -> dict[str, float]:
    tokens = text.tokenizer
    limit = network.max_length
    context = longest if limit is None else min(longest, int(limit))  # type: ignore[arg-type]
    task = LanguageTask(
        text.train,
        text.validation,
        tokens,
        objective=objective,
        context=context,
        seed=settings.seed,
    )
    if is_main_process() and not quiet:
        print(
            f"{len(text.train.lengths):,} documents, {task.train.characters:,} characters, "
            f"{tokens.vocabulary} token ids; {network.parameter_count():,} parameters",
            file=sys.stderr,
        )
        report_unknown_characters(text.train.unknown)
    return train(
        task,
        network,
        settings,
        Run(out),
        start=start,
        quiet=quiet,
        files={TOKENIZER: tokens.save},
    )


def _learned_bpe(folder: Path, vocabulary: int) -> Tokenizer | None:
    """The tokenizer of a run, if it is BPE with this vocabulary."""
    try:
        tokenizer = load_tokenizer(folder)
    except ValueError:
        return None
    return tokenizer if isinstance(tokenizer, BPE) and tokenizer.vocabulary == vocabulary else None


def report_unknown_characters(replaced: Mapping[str, int]) -> None:
    """Print the characters that the tokenizer does not know and replaced, if any."""
    if replaced:
        frequent = sorted(replaced, key=lambda character: -replaced[character])[:10]
        listed = ", ".join(f"{character!r} {replaced[character]}x" for character in frequent)
        total = sum(replaced.values())
        print(
            f"replaced {total} characters that the tokenizer does not know: {listed}",
            file=sys.stderr,
        )


def load_language(folder: Path) -> tuple[Model, Tokenizer, dict[str, Any]]:
    """Model, tokenizer and configuration of a language run.

    >>> from pathlib import Path
    >>> from attnlab.models import StackConfig
    >>> from attnlab.tasks.language import load_language, train_language
    >>> from attnlab.training import Settings
    >>> _ = Path("text.txt").write_text("to be or not to be. " * 40)
    >>> small = StackConfig(vocabulary=1, width=16, layers=1, heads=2, context=16)
    >>> options = {"model": small, "settings": Settings(steps=2), "quiet": True}
    >>> metrics = train_language([Path("text.txt")], out=Path("run"), **options)
    >>> model, tokenizer, config = load_language(Path("run"))
    >>> model.kind, config["training"]["steps"]
    ('decoder', 2)
    """
    run = Run(folder)
    config = run.config_of("language")
    model = run.model()
    return model, run.tokenizer(model), config


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
    """Continue each prompt by `new_tokens` tokens (default 200, or fewer if the context is full).

    `on_text` receives the first prompt's first sample piece by piece. With `beams` it is not
    called, because a beam search has no text before it ends.

    >>> from pathlib import Path
    >>> from attnlab.models import StackConfig
    >>> from attnlab.tasks.language import train_language, write
    >>> from attnlab.training import Settings
    >>> _ = Path("text.txt").write_text("to be or not to be. " * 40)
    >>> small = StackConfig(vocabulary=1, width=16, layers=1, heads=2, context=16)
    >>> options = {"model": small, "settings": Settings(steps=2), "quiet": True}
    >>> metrics = train_language([Path("text.txt")], out=Path("run"), **options)
    >>> ((text,),) = write(Path("run"), ["to be"], new_tokens=5)
    >>> len(text)
    5
    """
    model, tokenizer, _ = load_language(folder)
    if not isinstance(model, Decoder):
        raise ValueError(
            f"{folder}: a masked language model cannot write; train with --objective causal"
        )
    encoded = [tokenizer.encode_prompt(prompt) for prompt in prompts]
    ids = [tokens for tokens, _ in encoded]
    report_unknown_characters(sum((replaced for _, replaced in encoded), Counter()))
    limit, longest = model.max_length, max(map(len, ids), default=0)
    if new_tokens is None:
        new_tokens = 200 if limit is None else max(1, min(200, limit - longest))
    if limit is not None and longest + new_tokens > limit:
        raise ValueError(
            f"the prompt has {longest} tokens and you want {new_tokens} more; this model reads at "
            f"most {limit}: give --max-new-tokens {max(0, limit - longest)} or less, or a shorter "
            "prompt"
        )
    stop_token = tokenizer.end if stop else None
    if beams is not None:
        options: dict[str, Any] = {"width": beams, "best": samples, "block_repeats": block_repeats}
        generated = beam_search(model, ids, new_tokens=new_tokens, stop=stop_token, **options)
    else:
        stream = _Stream(tokenizer, stop_token, on_text)
        generated = generate(
            model,
            ids,
            new_tokens=new_tokens,
            stop=stop_token,
            sampling=sampling or Sampling(),
            samples=samples,
            block_repeats=block_repeats,
            on_token=stream,
        )
        stream.finish()
    return [[tokenizer.decode(sample.ids) for sample in row] for row in generated]


class _Stream:
    """Passes the first prompt's first sample to `on_text`, piece by piece."""

    def __init__(
        self, tokenizer: Tokenizer, end: int | None, on_text: Callable[[str], None] | None
    ) -> None:
        self.pieces, self.end, self.on_text = TextStreamer(tokenizer.decode), end, on_text

    def __call__(self, prompt: int, sample: int, token: int, log_probability: float) -> None:
        del log_probability
        if self.on_text is not None and not prompt and not sample and token != self.end:
            self._emit(self.pieces.add(token))

    def finish(self) -> None:
        self._emit(self.pieces.finish())

    def _emit(self, piece: str) -> None:
        if self.on_text is not None and piece:
            self.on_text(piece)


def evaluate(folder: Path, files: Sequence[Path]) -> dict[str, Any]:
    """Bits per character of these files (causal), or loss and accuracy of masked tokens.

    >>> from pathlib import Path
    >>> from attnlab.models import StackConfig
    >>> from attnlab.tasks.language import evaluate, train_language
    >>> from attnlab.training import Settings
    >>> _ = Path("text.txt").write_text("to be or not to be. " * 40)
    >>> small = StackConfig(vocabulary=1, width=16, layers=1, heads=2, context=16)
    >>> options = {"model": small, "settings": Settings(steps=2), "quiet": True}
    >>> metrics = train_language([Path("text.txt")], out=Path("run"), **options)
    >>> evaluate(Path("run"), [Path("text.txt")])["characters"]
    800
    """
    model, tokenizer, config = load_language(folder)
    objective = config["task"].get("objective")
    if not isinstance(model, Decoder if objective == "causal" else Encoder):
        raise ValueError(f"{folder}: its model does not fit its objective; train the run again")
    context, limit = model.config.context, model.max_length
    context = context if limit is None else min(context, limit)
    corpus = encode_text(TextFiles(files), tokenizer)
    nothing = corpus.select(np.zeros(0, np.int64))
    task = LanguageTask(nothing, nothing, tokenizer, objective=objective, context=context)
    rows = corpus.rows(context, int(objective == "causal"))
    with torch.no_grad():
        metrics: dict[str, Any] = task.measure(model, rows)
    return {**metrics, "characters": rows.characters, "unknown": sum(corpus.unknown.values())}
