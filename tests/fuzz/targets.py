"""What is read, and how: each target calls the readers that a command or the studio calls."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from attnlab import models
from attnlab.cli._run_details import print_run
from attnlab.cli._run_table import print_runs
from attnlab.heads._inputs import read_inputs
from attnlab.interpret import _capture_file as captures
from attnlab.interpret import look
from attnlab.report import print_report, read_report, to_json, to_markdown
from attnlab.report._page import render_page
from attnlab.run_folder import StartMode
from attnlab.run_folder._config import read_config
from attnlab.run_folder._metrics import last_row, read_metrics
from attnlab.run_folder._metrics_tail import MetricsTail
from attnlab.studio._allowed_folders import AllowedFolders
from attnlab.studio._result_files import ResultFiles, merge_ledgers
from attnlab.studio._run_list import read_details, read_entry
from attnlab.tasks.knowledge._data import read_corpus
from attnlab.tasks.knowledge._data import read_pairs as read_questions
from attnlab.tasks.knowledge._serving import QuestionService
from attnlab.tasks.language import evaluate as evaluate_language
from attnlab.tasks.language import train_language, write
from attnlab.tasks.language._corpus_cache import _load, _load_split
from attnlab.tasks.language._text_files import file_documents
from attnlab.tasks.summary._generation import GenerationMethod, write_summaries
from attnlab.tasks.summary._pairs import read_pairs
from attnlab.tasks.summary._training import load_summary
from attnlab.tasks.vision import classify, evaluate, open_data
from attnlab.tokenizer import Characters, load_tokenizer
from attnlab.training import Run
from tests.fuzz import base_files as base
from tests.fuzz.mutations import (
    Mutator,
    mutate_bytes,
    mutate_capture,
    mutate_json,
    mutate_json_lines,
    mutate_npz,
    mutate_png,
    mutate_safetensors,
)

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
QUESTION = {"questions": ["Where was Ann Smith born?"]}


@dataclass(frozen=True)
class Target:
    """Mutants replace one of `files` (patterns) in `folder()`, and `read` gets the file's path."""

    folder: Callable[[], Path]
    files: str
    mutate: Mutator
    read: Callable[[Path], object]
    share: float = 1.0
    """Of the mutants, in relation to other targets. Slow ones get fewer."""


def write_text(path: Path) -> None:
    write(path.parent, ["to be"], new_tokens=3)


def ask(path: Path) -> None:
    QuestionService.open(path.parent)(QUESTION, lambda *_: None)


def summarize(path: Path) -> None:
    model, encoding, _ = load_summary(path.parent)
    write_summaries(model, encoding, [base.TEXT[:80]], GenerationMethod(beams=2))


def classify_picture(path: Path) -> None:
    classify(path.parent, [base.pictures() / "picture.png"])


def look_into(path: Path) -> None:
    image = base.pictures() / "picture.png"
    opened = (
        look(path.parent, image=image)
        if path.parent.name == "vit"
        else look(path.parent, "the dog")
    )
    assert opened.packed


def list_and_show(path: Path) -> None:
    """`attnlab runs`, `attnlab runs show` and the studio's list and details."""
    folder, console = path.parent, Console(file=io.StringIO(), width=100)
    print_runs(folder, as_json=False, console=console)
    folders = AllowedFolders(folder.parent)
    entry = read_entry(folder.name, folder)
    read_details(folders, folder.name, entry)
    print_run(folder, console)


def follow_metrics(path: Path) -> None:
    task = read_config(path.parent).task
    read_metrics(path, task, 50)
    last_row(path)
    MetricsTail(path).read()
    Run(path.parent).metrics()


def copied(folder: Path) -> Path:
    """A copy for a command that writes."""
    copy = base.root() / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    return copy


def resume(path: Path) -> None:
    folder = copied(base.unfinished_run())
    if path.name == "state.json":
        Run(folder).model()
    train_language(
        [base.text_file()],
        out=folder,
        model=base.LANGUAGE_MODEL,
        settings=base.LANGUAGE_SETTINGS,
        start=StartMode.RESUME,
        quiet=True,
    )


def use_tokenizer(path: Path) -> None:
    tokenizer = load_tokenizer(path.parent)
    ids = tokenizer.encode(base.TEXT[:50] + "\ud800 \U0001f600")
    tokenizer.decode(ids)
    tokenizer.decode(range(min(tokenizer.vocabulary, 500)))


def use_cache(path: Path) -> None:
    """A damaged file is not used, and made again."""
    if path.suffix == ".json":
        _load_split(path)
    else:
        corpus = _load(path, Characters.train([base.TEXT]))
        assert corpus is None or len(corpus.rows(32, 1)[0])


def read_capture(path: Path) -> None:
    captures.header_and_blocks(path)
    opened = look(path)
    assert opened.packed
    assert opened._repr_mimebundle_() is not None


def render_report(path: Path) -> None:
    report = read_report(path)
    print_report(report, Console(file=io.StringIO(), width=100))
    assert to_json(report)
    assert to_markdown(report)
    assert render_page(report)


def list_results(path: Path) -> None:
    files = ResultFiles(path.parent, path.parent / "none")
    for kind in ("attnlab-report", "attnlab-claims"):
        listed = files.list_files(kind)
        if kind == "attnlab-claims":
            merge_ledgers(listed)


def open_set(path: Path) -> None:
    open_data(path if path.suffix == ".npz" else path.parent)


def open_folders(path: Path) -> None:
    del path  # one of the images
    open_data(base.image_sets() / "folders", 8)


def load_model(path: Path) -> None:
    models.load(path.parent)


TARGETS: dict[str, Target] = {
    "language-config": Target(base.language_run, CONFIG, mutate_json, write_text),
    "knowledge-config": Target(base.knowledge_run, CONFIG, mutate_json, ask, 0.1),
    "summary-config": Target(base.summary_run, CONFIG, mutate_json, summarize, 0.5),
    "vision-config": Target(base.vision_run, CONFIG, mutate_json, classify_picture),
    "vision-score": Target(
        base.vision_run, CONFIG, mutate_json, lambda path: evaluate(path.parent)
    ),
    "model-config": Target(base.model_folders, f"*/{CONFIG}", mutate_json, load_model),
    "look-config": Target(base.model_folders, f"[!c]*/{CONFIG}", mutate_json, look_into),
    "look-run": Target(base.language_run, CONFIG, mutate_json, look_into, 0.3),
    "runs": Target(base.language_run, CONFIG, mutate_json, list_and_show, 0.25),
    "runs-metrics": Target(
        base.language_run, "metrics.jsonl", mutate_json_lines, list_and_show, 0.25
    ),
    "metrics": Target(base.language_run, "metrics.jsonl", mutate_json_lines, follow_metrics),
    "resume-metrics": Target(base.unfinished_run, "metrics.jsonl", mutate_json_lines, resume, 0.1),
    "resume-state": Target(
        base.unfinished_run, "checkpoints/*/state.json", mutate_json, resume, 0.1
    ),
    "resume-config": Target(base.unfinished_run, CONFIG, mutate_json, resume, 0.25),
    "weights": Target(base.language_run, WEIGHTS, mutate_safetensors, write_text),
    "model-weights": Target(base.model_folders, f"*/{WEIGHTS}", mutate_safetensors, load_model),
    "huggingface-config": Target(
        base.huggingface_models, "*/*config.json", mutate_json, look_into, 0.15
    ),
    "huggingface-tokenizer": Target(
        base.huggingface_models, "*/tokenizer.json", mutate_json, look_into, 0.15
    ),
    "huggingface-weights": Target(
        base.huggingface_models, f"*/{WEIGHTS}", mutate_safetensors, look_into, 0.15
    ),
    "tokenizer": Target(base.tokenizers, f"*/{TOKENIZER}", mutate_json, use_tokenizer),
    "language-tokenizer": Target(base.language_run, TOKENIZER, mutate_json, write_text),
    "knowledge-tokenizer": Target(base.knowledge_run, TOKENIZER, mutate_json, ask, 0.1),
    "summary-tokenizer": Target(base.summary_run, TOKENIZER, mutate_json, summarize, 0.5),
    "known": Target(base.knowledge_run, "known.json", mutate_json, ask, 0.05),
    "capture": Target(base.result_files, "*.attnlab", mutate_capture, read_capture),
    "report": Target(base.result_files, "report.json", mutate_json, render_report, 0.4),
    "results": Target(base.result_files, "*.json", mutate_json, list_results),
    "comparison": Target(
        base.comparison_folder, "compare.json", mutate_json,
        lambda path: base.run_comparison(copied(path.parent), StartMode.RESUME), 0.05,
    ),
    "pairs-jsonl": Target(base.pair_files, "rows.jsonl", mutate_json_lines, read_pairs),
    "pairs-tables": Target(base.pair_files, "rows.[ct]sv", mutate_bytes, read_pairs),
    "questions": Target(base.pair_files, "questions.tsv", mutate_bytes, read_questions),
    "documents": Target(base.pair_files, "documents.txt", mutate_bytes, read_corpus),
    "texts": Target(
        base.pair_files, "documents.*", mutate_json_lines,
        lambda path: [list(document) for document in file_documents(path)],
    ),
    "corpus-cache": Target(base.cached_corpora, "*.[ij]*", mutate_bytes, use_cache),
    "corpus-index": Target(base.cached_corpora, "*.json", mutate_json, use_cache),
    "language-evaluate": Target(
        base.language_run, CONFIG, mutate_json,
        lambda path: evaluate_language(path.parent, [base.text_file()]),
    ),
    "head-inputs": Target(base.pair_files, "rows.*", mutate_bytes, lambda path: read_inputs(path)),
    "pictures": Target(
        base.pictures, "*", mutate_png, lambda path: classify(base.vision_run(), [path])
    ),
    "npz": Target(base.image_sets, "set.npz", mutate_npz, open_set),
    "idx": Target(base.image_sets, "idx/*", mutate_bytes, open_set),
    "cifar": Target(base.image_sets, "cifar/*", mutate_bytes, open_set),
    "sheets": Target(base.image_sets, "sheets/*.png", mutate_png, open_set),
    "sheet-labels": Target(base.image_sets, "sheets/*.json", mutate_json, open_set),
    "image-folders": Target(base.image_sets, "folders/*/*.png", mutate_png, open_folders, 0.4),
    "class-names": Target(base.image_sets, "idx/classes.txt", mutate_bytes, open_set),
    "seen-images": Target(
        base.vision_run, "seen.safetensors", mutate_safetensors,
        lambda path: evaluate(path.parent, base.image_sets() / "set.npz"), 0.3,
    ),
}  # fmt: skip
