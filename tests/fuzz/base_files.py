"""Valid files of every kind, from which mutants are made. Written once for each process."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch

from attnlab import models
from attnlab._cache import cache_folder
from attnlab.compare import compare
from attnlab.interpret import look
from attnlab.interpret._look import SUFFIX
from attnlab.models import ConvNet, ConvNetConfig, StackConfig, ViT, ViTConfig
from attnlab.report import to_json
from attnlab.run_folder import StartMode
from attnlab.tasks.knowledge import finetune
from attnlab.tasks.language import train_language
from attnlab.tasks.language._corpus_cache import cached_corpus, cached_split
from attnlab.tasks.language._split import split_documents
from attnlab.tasks.summary import _training as summary_training
from attnlab.tasks.vision import train_vision
from attnlab.tokenizer import BPE, Bytes, Characters
from attnlab.training import Settings
from tests.support import made_up_reports, summary_runs, text_models
from tests.support.claim_ledgers import made_up_ledger
from tests.support.fake_comparison import FakeComparison
from tests.support.image_files import (
    write_cifar_binary,
    write_folders,
    write_idx_folder,
    write_npz,
    write_sheets,
)
from tests.support.private_cache import private_cache

SMALL: dict[str, Any] = {"width": 16, "layers": 1, "heads": 2}
LANGUAGE_MODEL = StackConfig(vocabulary=1, context=32, attention="favor:features=8", **SMALL)
LANGUAGE_SETTINGS = Settings(steps=4, save_every=2, device="cpu")
TEXT = "to be or not to be, that is the question. " * 20


@cache
def root() -> Path:
    """A folder for everything, the caches too. Remove it in the end."""
    folder = Path(tempfile.mkdtemp(prefix="attnlab-fuzz-"))
    os.environ["XDG_CACHE_HOME"] = private_cache(folder / "cache")
    return folder


@cache
def cached_corpora() -> Path:
    """The cache of a text. Large texts are cached; here a small one is."""
    root()
    tokenizer = Characters.train([TEXT])
    split = split_documents([[TEXT], [TEXT[:100]]] * 8, seed=0)
    cached_split(("fuzz",), lambda: (split, tokenizer), on_wait=lambda: None)
    documents = [[TEXT], [TEXT[:100]]]
    cached_corpus(("fuzz",), tokenizer, lambda: documents, on_wait=lambda: None)
    return cache_folder("corpora")


@cache
def text_file() -> Path:
    path = root() / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@cache
def language_run() -> Path:
    """It has checkpoints, too."""
    folder = root() / "language"
    train_language(
        [text_file()],
        out=folder,
        model=LANGUAGE_MODEL,
        settings=LANGUAGE_SETTINGS,
        quiet=True,
    )
    return folder


@cache
def unfinished_run() -> Path:
    """A copy of the language run before its weights were written."""
    folder = root() / "unfinished"
    shutil.copytree(language_run(), folder)
    (folder / "model.safetensors").unlink()
    return folder


@cache
def knowledge_run() -> Path:
    folder = root() / "knowledge"
    finetune(out=folder, model={**SMALL, "context": 64}, training={"steps": 2}, quiet=True)
    return folder


@cache
def summary_run() -> Path:
    folder = root() / "summary"
    summary_training.train(
        summary_runs.write_rows(root() / "rows.jsonl", 60),
        out=folder,
        held_out=0.2,
        model=summary_runs.TINY,
        training={"steps": 2, "batch_tokens": 512},
        quiet=True,
    )
    return folder


@cache
def vision_run() -> Path:
    data = write_npz(root() / "squares.npz", 60)
    folder = root() / "vision"
    train_vision(data, out=folder, sizes=SMALL, training={"steps": 2, "device": "cpu"}, quiet=True)
    return folder


@cache
def model_folders() -> Path:
    """Models without a run, each with a tokenizer."""
    folder, stack = root() / "models", {"vocabulary": text_models.TOKENS.vocabulary, **SMALL}
    saved: dict[str, models.Model] = {
        "decoder": models.Decoder(StackConfig(context=40, position="rotary", tie=True, **stack)),
        "encoder": text_models.encoder("bigbird"),
        "seq2seq": text_models.both_stacks(),
        "vit": ViT(ViTConfig(classes=3, image_size=8, position="sinusoidal-2d", **SMALL)),
        "convnet": ConvNet(ConvNetConfig(classes=3, width=4, blocks=1)),
    }
    for name, model in saved.items():
        text_models.saved(model.eval(), folder / name)
    return folder


@cache
def huggingface_models() -> Path:
    from tests.support import transformers_with_tokenizers as small  # slow to import

    folder = root() / "huggingface"
    both = {"gpt2": (small.gpt2, small.byte_pairs), "bert": (small.bert, small.word_pieces)}
    for name, (model, tokenizer) in both.items():
        model().save_pretrained(folder / name)
        tokenizer().save_pretrained(folder / name)
    return folder


@cache
def tokenizers() -> Path:
    folder = root() / "tokenizers"
    kinds = {
        "characters": Characters.train([TEXT]),
        "bytes": Bytes(),
        "bpe": BPE.train([TEXT], 300),
    }
    for name, tokenizer in kinds.items():
        (folder / name).mkdir(parents=True)
        tokenizer.save(folder / name / "tokenizer.json")
    return folder


@cache
def result_files() -> Path:
    folder = root() / "results"
    folder.mkdir()
    torch.manual_seed(0)
    opened = look(text_models.decoder(), "the dog", tokenizer=text_models.TOKENS)
    opened.save(folder / f"text{SUFFIX}")
    report = to_json(made_up_reports.full_report())
    (folder / "report.json").write_text(report, encoding="utf-8")
    (folder / "claims.json").write_text(json.dumps(made_up_ledger()), encoding="utf-8")
    return folder


@cache
def comparison_folder() -> Path:
    folder = root() / "comparison"
    run_comparison(folder, StartMode.NEW)
    return folder


def run_comparison(folder: Path, start: StartMode) -> None:
    losses = {"softmax": (0.5, 0.6), "elu": (0.7, 0.8)}
    compare(
        FakeComparison(losses), list(losses), out=folder, steps=3, seeds=2, start=start, quiet=True
    )


@cache
def pair_files() -> Path:
    folder = root() / "pairs"
    folder.mkdir()
    rows = summary_runs.rows(12)
    summary_runs.write_rows(folder / "rows.jsonl", 12)
    flat = [(row["text"].replace("\n", " "), row["summary"]) for row in rows]
    for name, mark in (("rows.csv", ","), ("rows.tsv", "\t")):
        lines = ["text" + mark + "summary", *(mark.join(pair) for pair in flat)]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    questions = [f"Where was {name} Smith born?\tParis" for name in ("Ann", "Bob", "Cy", "Dee")]
    (folder / "questions.tsv").write_text("\n".join(questions) + "\n", encoding="utf-8")
    (folder / "documents.txt").write_text(
        "Ann was born in Paris.\nBob in Rome.\n", encoding="utf-8"
    )
    lines = [json.dumps({"text": TEXT[:80], "n": number}) for number in range(6)]
    (folder / "documents.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@cache
def pictures() -> Path:
    from PIL import Image

    folder = root() / "pictures"
    folder.mkdir()
    image = Image.open(text_models.write_image(folder / "picture.png"))
    for suffix in ("jpg", "gif", "bmp", "tif", "webp", "ppm"):
        image.save(folder / f"picture.{suffix}")
    image.convert("LA").save(folder / "gray.png")
    image.convert("P").save(folder / "palette.png")
    image.convert("I;16").save(folder / "wide.png")
    image.save(folder / "pages.tif", save_all=True, append_images=[image], compression="tiff_lzw")
    return folder


@cache
def image_sets() -> Path:
    folder = root() / "sets"
    folder.mkdir()
    write_npz(folder / "set.npz", 40)
    write_idx_folder(folder / "idx")
    write_cifar_binary(folder / "cifar")
    write_sheets(folder / "sheets", train=20)
    write_folders(folder / "folders", each=4)
    for name in ("idx", "folders"):
        (folder / name / "classes.txt").write_text("\n".join("abcdefghij"), encoding="utf-8")
    return folder
