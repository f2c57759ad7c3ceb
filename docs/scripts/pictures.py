"""Renders the pictures of the documentation with attnlab."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attnlab
from attnlab.claims import CLAIMS, run_claim
from attnlab.claims._ledger_terminal import format_statement
from attnlab.mechanism_pictures import save_matrices
from attnlab.models import StackConfig
from attnlab.report import save_figure
from attnlab.tasks.language import train_language
from attnlab.training import Settings
from docs.scripts.cards import mechanism_names

PLOTTED_CLAIMS = ("heads-split", "noise-isotropic", "features-more", "equal-q-k-identity")


def render_pictures(folder: Path) -> Iterator[Path]:
    for name in mechanism_names():
        path = folder / f"{name}.svg"
        save_matrices(name, path, overwrite=True)
        yield path
    for name in PLOTTED_CLAIMS:
        evidence = run_claim(CLAIMS[name], 0, "small").evidence
        assert evidence is not None
        path = folder / f"claim-{name}.svg"
        save_figure(evidence.plot, path, format_statement(CLAIMS[name]), overwrite=True)
        yield path
    if shutil.which("chromium") is None:
        print("chromium is not installed: the picture of attnlab look was not updated")
        return
    yield render_look_page(folder / "look.png")


def render_look_page(path: Path) -> Path:
    """A screenshot of `attnlab look` on a small model of sums."""
    with tempfile.TemporaryDirectory() as name:
        desk = Path(name)
        text = desk / "sums.txt"
        text.write_text("\n".join(f"{i} and {i + 1} make {2 * i + 1}." for i in range(400)))
        train_language(
            [text],
            out=desk / "runs" / "sums",
            model=StackConfig(vocabulary=1, context=32, width=32, layers=2),
            settings=Settings(steps=400, batch_tokens=1024, learning_rate=1e-2),
            quiet=True,
        )
        run = str(desk / "runs" / "sums")
        attnlab.look(run, "70 and 71 make 141.").save(desk / "look.html")
        program = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]
        program += ["--window-size=1000,710", "--virtual-time-budget=4000"]
        program += [f"--screenshot={path}", f"file://{desk / 'look.html'}#view=model"]
        subprocess.run(program, check=True, capture_output=True)
    return path
