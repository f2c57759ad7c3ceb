"""SIGKILL at any file operation of a conversion: its folder holds a whole run, or none."""

from __future__ import annotations

import random
from contextlib import chdir
from pathlib import Path

import pytest
import torch

from attnlab.tasks.language import load_language
from attnlab.training._machine import matmul_peak
from tests.support.command_line import call
from tests.support.file_kills import run_forked
from tests.support.importable_models import V, tiny, write_word_tokenizer

LINE = (
    "convert llama --text text.txt --attention hedgehog_window:window=3 --layers 1 --tokens 12 "
    "--steps 4 --adapters 0.5 --texts 1 --lengths 20 --save-every 1"
)
KILLS = 15


@pytest.mark.slow
def test_a_kill_leaves_a_whole_run_or_none(tmp_path: Path) -> None:
    tiny("llama").save_pretrained(tmp_path / "llama")
    write_word_tokenizer(tmp_path / "llama")
    words = random.Random(0)
    text = " ".join(f"w{words.randrange(V - 3)}" for _ in range(600))
    (tmp_path / "text.txt").write_text(text)
    matmul_peak(torch.device("cpu"))
    with chdir(tmp_path):
        whole = run_forked(f"{LINE} --out whole", tmp_path / "whole")
        assert whole.code == 0, whole.errors
        expected = load_language(tmp_path / "whole")[0].state_dict()
        for number in range(KILLS):
            out = tmp_path / f"killed-{number}"
            kill_at = number * whole.operations // KILLS
            assert run_forked(f"{LINE} --out {out.name}", out, kill_at=kill_at).killed
            if (out / "config.json").exists():  # only what is in its way was to be removed
                assert load_language(out)[0].state_dict().keys() == expected.keys()
            unfinished = (out / "config.json").exists() or (
                out / ".conversion/settings.json"
            ).exists()
            assert call(f"{LINE} --out {out.name} {'--resume' if unfinished else ''}") == 0
            actual = load_language(out)[0].state_dict()
            assert all(torch.equal(actual[name], tensor) for name, tensor in expected.items())
            assert not (out / ".conversion").exists()
