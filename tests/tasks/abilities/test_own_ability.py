"""examples/own_ability.py: one file outside the package adds an ability."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.tasks.registry import TASKS
from tests.support.command_line import run
from tests.support.registries import restored_registries

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_ability.py"


def test_an_ability_in_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = "--width 16 --layers 1 --heads 2 --batch-size 8 --steps 2"
    with restored_registries():
        attnlab = f"--extension {EXAMPLE}"
        code, out, err = run(f"{attnlab} odd_one train --length 5 {small}", capsys)
        assert code == 0, err
        assert out.startswith("runs/odd_one: trained; validation accuracy ")
        code, out, _ = run(f"{attnlab} odd_one evaluate runs/odd_one --json", capsys)
        assert (code, set(json.loads(out))) == (0, {"run", "accuracy", "whole_rows", "loss"})
        listed = json.loads(run(f"{attnlab} abilities --json", capsys)[1])
        assert (listed[-1]["name"], listed[-1]["chance"]) == ("odd_one", 1 / 32)
        assert listed[-1]["help"] == "Find the token that is not like the others."
        assert "odd_one" not in run(f"{attnlab} --help", capsys)[1]
        command = f"{attnlab} compare odd_one --length 5 --attention softmax elu --seeds 1 {small}"
        code, out, err = run(command, capsys)
        assert code == 0, err
        comparison = json.loads(Path("runs/compare-odd_one/compare.json").read_text())
        assert comparison["baseline"] == ["chance", {"accuracy": 1 / 32}]
        code, out, err = run(f"{attnlab} odd_one train --length 2", capsys)
        assert (code, out, "odd_one: length is 2; give 3 to 1,000" in err) == (2, "", True)
        sized = f"{attnlab} extrapolate train --ability odd_one:length=4 {small}"
        assert run(sized, capsys)[0] == 0
    assert "odd_one" not in TASKS
