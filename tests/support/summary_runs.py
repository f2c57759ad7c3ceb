"""Small texts with summaries, and a run that learned them."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from attnlab.tasks.summary import _training as recipe
from attnlab.tasks.summary._generation import GenerationMethod, write_summaries
from attnlab.tasks.summary._pairs import Columns
from attnlab.tasks.summary._presets import SummaryModel
from attnlab.tasks.summary._token_ids import SummaryTextEncoding, normalize_spaces
from attnlab.tokenizer import BPE

TEXT = "Package 3 is a tool for maps and more.\nIt has 2 parts."
KINDS = ["library", "tool", "game", "editor", "server", "client", "driver", "parser"]
FIELDS = ["images", "audio", "networks", "kernels", "chess", "maps", "mail", "music"]
TINY = SummaryModel(
    vocabulary=400,
    text_tokens=48,
    summary_tokens=12,
    width=48,
    encoder_layers=1,
    decoder_layers=1,
    dropout=0.0,
)


def rows(count: int = 240, seed: int = 0) -> list[dict[str, str]]:
    generator = random.Random(seed)
    rows_made = []
    for i in range(count):
        kind, field = generator.choice(KINDS), generator.choice(FIELDS)
        text = f"Package {i % 60} is a {kind} for {field} and more.\nIt has {i % 7} parts."
        rows_made.append(
            {"text": text, "summary": f"{kind} for {field}", "group": f"source{i % 60}"}
        )
    return rows_made


def write_rows(path: Path, count: int = 240) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(count)), encoding="utf-8")
    return path


@lru_cache
def trained() -> Path:
    """One run for all tests of a process."""
    folder = Path(mkdtemp())
    recipe.train(
        write_rows(folder / "rows.jsonl"),
        out=folder / "run",
        columns=Columns(group="group"),
        held_out=0.1,
        model=TINY,
        training={"steps": 60, "batch_tokens": 1024},
        quiet=True,
    )
    return folder / "run"


def encoding(longest: int = 48, summary: int = 12) -> SummaryTextEncoding:
    texts = [normalize_spaces(text) for row in rows(60) for text in (row["text"], row["summary"])]
    return SummaryTextEncoding(BPE.train(texts, 400), longest, summary)


def written(texts: list[str], **method: Any) -> Any:
    model, words, _ = recipe.load_summary(trained())
    return write_summaries(model, words, texts, GenerationMethod(**method))
