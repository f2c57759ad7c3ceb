"""Demos that take seconds."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from attnlab.demo._run_demo import run_demo
from attnlab.demo._settings import Demo, DemoSettings
from attnlab.tasks.knowledge._learn_stages import LearnSettings

QUICK = DemoSettings(
    none_epochs=1,
    pretraining_epochs=0.1,
    finetuning_epochs=0.1,
    learn=LearnSettings(reader_epochs=0.1, remember_epochs=0.1),
    model={"width": 16, "layers": 2, "heads": 2},
    samples=1,
    made_up=3,
    attention_people=2,
    claims=("perturb-key", "copy"),
)


def run_quick(out: Path, overwrite: bool = False) -> tuple[Demo, str]:
    """The demo and what it prints."""
    file = io.StringIO()
    console = Console(file=file, width=100)
    return run_demo(out, overwrite=overwrite, settings=QUICK, console=console), file.getvalue()
