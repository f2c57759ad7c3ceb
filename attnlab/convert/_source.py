"""What a conversion begins with: the original model, its tokenizer, and texts as ids."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab._notes import warn_caller
from attnlab.convert._settings import ConvertSettings
from attnlab.huggingface import import_tokenizer
from attnlab.huggingface._import_model import default_context, import_model
from attnlab.models import Decoder, Model
from attnlab.run_folder._config import read_config
from attnlab.tasks.language import load_language
from attnlab.tasks.language._corpus import Corpus
from attnlab.tasks.language._prepare import TextFiles, encode_text, prepare_text
from attnlab.tokenizer import Tokenizer
from attnlab.training import mix_seeds
from attnlab.training._trained_run import check_vocabulary

CONTEXT = 1024  # of a model without learned positions, as `attnlab language import` has it


@dataclass(frozen=True)
class Source:
    """The model to convert."""

    model: Decoder
    tokenizer: Tokenizer
    task: dict[str, Any]
    """The task of its run."""


def open_source(path: Path) -> Source:
    """A run of the task `language`, or a model of Hugging Face."""
    if _is_run(path):
        opened, tokenizer, config = load_language(path)
        return Source(_decoder(opened, path), tokenizer, config["task"])
    opened, notes = import_model(path, context=default_context(path, CONTEXT))
    model, tokenizer = _decoder(opened, path), import_tokenizer(path)
    check_vocabulary(tokenizer, model, path)
    for note in notes:
        warn_caller(f"{path}: {note}")
    return Source(model, tokenizer, {"tokenizer": "pretrained", "imported": path.resolve().name})


def _is_run(path: Path) -> bool:
    try:
        read_config(path)
    except ValueError:
        return False
    return True


def _decoder(model: Model, path: Path) -> Decoder:
    if not isinstance(model, Decoder):
        raise ValueError(f"{path}: is a model of kind {model.kind}; give a decoder")
    return model


@dataclass(frozen=True)
class Texts:
    """Texts of one length as ids, for training and for measuring."""

    train: Sequence[Tensor]
    held_out: list[Tensor]
    digest: str


def read_texts(
    files: Sequence[Path], held_out: Sequence[Path], source: Source, settings: ConvertSettings
) -> Texts:
    """Cut files into texts of `tokens` ids. Without files to hold out, 5% of the documents are."""
    limit, tokens = source.model.max_length, settings.tokens
    if limit is not None and tokens > limit:
        raise ValueError(f"--tokens {tokens}: this model reads at most {limit}")
    tokenizer, seed = source.tokenizer, settings.seed
    if held_out:
        train = encode_text(TextFiles(files), tokenizer)
        other = encode_text(TextFiles(held_out), tokenizer)
    else:
        prepared = prepare_text(TextFiles(files), tokenizer, 0, seed)
        train, other = prepared.train, prepared.validation
    before = tokenizer.added_ids[0]
    learned, measured = (_Pieces(corpus, tokens, before) for corpus in (train, other))
    for pieces, what in ((learned, "train on"), (measured, "measure the loss on")):
        if not len(pieces):
            longest = int(max(pieces.corpus.lengths, default=0))
            raise ValueError(
                f"the text to {what} has no document of {tokens} tokens, the longest has "
                f"{longest}; give longer texts, or fewer --tokens"
            )
    order = np.random.default_rng(mix_seeds(seed, 7)).permutation(len(measured))
    chosen = np.sort(order[: settings.texts]).tolist()
    held = [measured[row] for row in chosen]
    digest = learned.rows.digest + hashlib.sha256(torch.stack(held).numpy().tobytes()).hexdigest()
    return Texts(learned, held, digest)


class _Pieces(Sequence[Tensor]):
    """The parts of documents that have exactly this many tokens, with those that the tokenizer puts
    before a text: many models do not work without them."""

    def __init__(self, corpus: Corpus, tokens: int, before: Sequence[int]) -> None:
        self.before, size = torch.tensor(before, dtype=torch.long), max(1, tokens - len(before))
        self.corpus, self.rows = corpus, corpus.rows(size, 0)
        self.full = np.flatnonzero(self.rows.lengths == size)

    def __len__(self) -> int:
        return len(self.full)

    def __getitem__(self, index: int) -> Tensor:  # type: ignore[override]
        return torch.cat([self.before, self.rows[int(self.full[index])]])


def stack(texts: Sequence[Tensor], rows: Sequence[int]) -> Tensor:
    return torch.stack([texts[row] for row in rows])
