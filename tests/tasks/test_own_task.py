"""examples/own_task.py: one file outside the package, and all of attnlab knows its task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.tasks.registry import TASKS
from tests.support.command_line import run
from tests.support.registries import restored_registries
from tests.support.studio_servers import studio_client

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_task.py"


def test_a_task_in_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with restored_registries():
        attnlab = f"--extension {EXAMPLE}"
        code, out, err = run(f"{attnlab} letters train --steps 120", capsys)
        assert code == 0, err
        assert out.startswith("runs/letters: trained; validation accuracy ")
        code, out, _ = run(f"{attnlab} letters evaluate runs/letters --json", capsys)
        assert code == 0
        assert json.loads(out)["accuracy"] > 0.3  # of 8 ** 5 answers, of which one is right
        (row,) = json.loads(run("runs --json", capsys)[1])
        assert (row["run"], row["task"], row["headline"]) == ("letters", "letters", "accuracy")
        with studio_client(tmp_path / "runs") as client:
            (entry,) = client.get("/api/runs").json()["runs"]
            tasks = {each["name"]: each for each in client.get("/api/info").json()["tasks"]}
        assert entry["task"] == "letters"
        assert entry["can"] == ["generate", "look"]
        assert tasks["letters"]["can"] == ["generate"]
        assert tasks["letters"]["help"] == "Sort five letters."
        command = f"{attnlab} compare letters --seeds 2 --steps 2 --processes 0"
        small = "--width 16 --layers 1 --heads 2"
        code, out, err = run(f"{command} {small} --attention softmax elu", capsys)
        assert code == 0, err
        assert "4 runs of 2 steps" in err
        comparison = json.loads(Path("runs/compare-letters/compare.json").read_text())
        assert comparison["contenders"] == ["softmax", "elu"]
        assert [each["outcome"]["steps"] for each in comparison["runs"]] == [2] * 4
        assert "letters" in run(f"{attnlab} compare --help", capsys)[1]
        for wrong, words in (
            ("--resume --attention softmax elu", "the comparison has width 16, not 32"),
            ("--attention sofmax --overwrite", "did you mean 'softmax'"),
            ("--attention linformer --overwrite", "no causal form"),
            ("--heads 3 --overwrite", "heads"),
            ("--learning-rate -1 --overwrite", "learning_rate is -1"),
        ):
            code, out, err = run(f"{command} {wrong}", capsys)
            assert (code, out, err.count("\n")) == (2, "", 1), err
            assert words in err
        assert json.loads(Path("runs/compare-letters/compare.json").read_text()) == comparison
        assert len(json.loads(run("runs --json", capsys)[1])) == 5
    assert "letters" not in TASKS
    code, _, err = run("compare letters", capsys)
    assert (code, 'Unknown command "letters"' in err) == (2, True)
