"""Fills a folder with the small files, runs and models that the documented commands use."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from attnlab._image_files import encode_png
from attnlab._safe_files import write_text
from attnlab.bench import bench
from attnlab.bench._settings import CostSettings
from attnlab.demo import _run_demo as run_demo_module
from attnlab.report import to_json
from attnlab.tasks.knowledge._world import WorldConfig
from attnlab.tasks.summary import _debian_packages as debian
from tests.support.image_files import pixels, write_idx_folder, write_sheets
from tests.support.markdown_blocks import ROOT, read_blocks
from tests.support.private_cache import private_cache
from tests.support.studio_client import make_runs_of_each_kind

COURSE = {
    "corpus.txt": "wiki.txt",
    "train.tsv": "birth_places_train.tsv",
    "dev.tsv": "birth_dev.tsv",
}


def fill_folder(folder: Path, made: Path) -> Path:
    """Fills the folder. `made` contains small knowledge and language runs."""
    with chdir(folder):
        exec(read_blocks("docs/own-data.md")[0][1], {})  # people.txt, asked.tsv, notes.txt, ...
    make_runs_of_each_kind(folder / "runs", made)
    (folder / "runs" / "language").rename(folder / "runs" / "first")
    for name in ("examples", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "data" / "knowledge").mkdir(parents=True)
    for source, name in COURSE.items():
        lines = (made / "world" / source).read_text().splitlines(keepends=True)
        for target in (folder, folder / "data" / "knowledge"):
            (target / name).write_text("".join(lines[:4] if source == "dev.tsv" else lines))
    rows = (folder / "birth_dev.tsv").read_text().splitlines()
    questions = [row.split("\t")[0] for row in rows]
    (folder / "birth_test_inputs.tsv").write_text("".join(f"{each}\n" for each in questions))
    (folder / "cat.png").write_bytes(encode_png(pixels(1, 3, 16)[0]))
    write_sheets(folder / "sheets", train=240)  # a hundredth of them is one of each class
    write_idx_folder(folder / "idx")
    (folder / "shared" / "runs").mkdir(parents=True)
    write_reports(folder)
    write_models(folder / "models")
    write_media(folder)
    return folder


def write_reports(folder: Path) -> None:
    """A bench report, and a page into which a bench can write."""
    report = bench(["error"], mechanisms=["elu"], quick=True, seeds=2, norms=(1, 4))
    write_text(folder / "other.json", to_json(report))
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    marks = "".join(
        f"<!-- {m} -->\n<!-- /{m} -->\n" for m in ("attnlab bench", "attnlab bench other")
    )
    (folder / "docs" / "page.md").write_text(f"# A page\n\n{marks}")


def write_models(folder: Path) -> None:
    """A decoder and an encoder of Hugging Face, and a second decoder."""
    pytest.importorskip("transformers", reason="Hugging Face models need transformers")
    from tests.support.transformers_with_tokenizers import byte_pairs, transformers

    pairs = byte_pairs()
    for name, config in (
        ("gpt2", transformers.GPT2Config(vocab_size=320, n_embd=24, n_layer=2, n_head=3)),
        ("other", transformers.GPT2Config(vocab_size=320, n_embd=24, n_layer=1, n_head=2)),
        (
            "bert",
            transformers.BertConfig(
                vocab_size=320, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
                intermediate_size=32,
            ),
        ),
    ):  # fmt: skip
        kind = transformers.BertModel if name == "bert" else transformers.GPT2LMHeadModel
        with torch.random.fork_rng():
            torch.manual_seed(0)
            kind(config).save_pretrained(folder / name)
        pairs.save_pretrained(folder / name)


def write_media(folder: Path) -> None:
    """Models of an image with a text, of a sound and of a series, with what they read."""
    from tests.support.media_models import llava, series, wav2vec2, write_tone

    for name, (model, processor) in (("llava", llava()), ("wav2vec2", wav2vec2())):
        model.save_pretrained(folder / "models" / name)
        processor.save_pretrained(folder / "models" / name)
    model, inputs = series()
    model.save_pretrained(folder / "models" / "series")
    save_file(inputs, folder / "series.safetensors")
    write_tone(folder / "speech.wav")


@contextmanager
def small_inputs(folder: Path) -> Iterator[None]:
    """Few Debian packages, a demo that takes seconds, the course's data with few people, and
    benchmarks of short texts."""
    from tests.support.demo_runs import QUICK

    packages, texts = debian_lists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            debian, "package_lists", lambda *_: [Path("Packages"), Path("Translation-en")]
        )
        patch.setattr(
            debian, "read_package_list", lambda p: packages if p.name == "Packages" else texts
        )
        patch.setattr(run_demo_module, "DemoSettings", lambda: replace(QUICK, claims=("copy",)))
        patch.setattr(run_demo_module, "WorldConfig", lambda: WorldConfig(people=40))
        patch.setattr(CostSettings, "quick", {"lengths": (64, 128), "rounds": 1})
        patch.setenv("ATTNLAB_DATA", str(folder / "data"))
        patch.setenv("XDG_CACHE_HOME", private_cache(folder / "cache"))
        patch.setenv("COLUMNS", "80")
        yield


def debian_lists(count: int = 90) -> tuple[str, str]:
    """Packages and their descriptions, in the format of apt."""
    from tests.support.summary_runs import FIELDS, KINDS

    packages, texts = [], []
    for i in range(count):
        kind, field = KINDS[i % 8], FIELDS[i // 8 % 8]
        packages.append(f"Package: p{i}\nDescription-md5: {i:032x}\n")
        about = (
            f"{kind.title()} {i} for {field} reads what people wrote down about {field}, sorts it"
        )
        long = (
            f"{about} by {kind} and number {i},\n and tells others what was found in a few words."
        )
        texts.append(
            f"Package: p{i}\nDescription-md5: {i:032x}\n"
            f"Description-en: {kind} {i} for {field}\n {long}\n"
        )
    return "\n".join(packages), "\n".join(texts)
