"""Language modeling as a person uses it: train, write, evaluate, list, resume."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.models import StackConfig
from attnlab.tasks.language import _training as recipe
from attnlab.tasks.language._corpus import Corpus
from attnlab.tasks.language._task import IGNORE, LanguageTask
from attnlab.tokenizer import Bytes, Characters, Tokenizer
from attnlab.training import Run, Settings
from tests.support.command_line import run

TEXT = "".join(f"{i % 7} and {i % 5} make {i % 7 + i % 5}. " for i in range(600))
SMALL = (
    "--steps 30 --width 32 --layers 1 --heads 2 --context 24 --batch-tokens 512 --warmup-steps 5"
)


def language_task(
    train: list[str], validation: list[str], tokenizer: Tokenizer, **options: Any
) -> LanguageTask:
    corpora = [Corpus.of(documents, tokenizer) for documents in (train, validation)]
    return LanguageTask(corpora[0], corpora[1], tokenizer, **options)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


def test_a_first_run(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(f"language train {text} --out runs/first {SMALL}", capsys)
    assert code == 0, err
    assert "runs/first: trained; validation" in out
    assert "parameters" in err
    files = {path.name for path in Path("runs/first").iterdir()}
    assert {"config.json", "tokenizer.json", "metrics.jsonl", "model.safetensors"} <= files
    code, out, err = run(f"language evaluate runs/first {text} --json", capsys)
    assert code == 0, err
    measured = json.loads(out)
    assert measured["bits"] < 3.3  # the alphabet alone would take about 3.9
    assert measured["characters"] == len(TEXT)
    code, out, _ = run(f"language evaluate runs/first {text}", capsys)
    assert out.startswith(f"{measured['bits']:.4f} bits per character")
    code, out, err = run("language write runs/first --prompt 3 --max-new-tokens 15", capsys)
    assert code == 0, err
    assert out.startswith("3")
    assert len(out) > 3
    again = run("language write runs/first --prompt 3 --max-new-tokens 15", capsys)[1]
    assert again == out
    several = run(
        "language write runs/first --prompt 3 --max-new-tokens 9 --count 3 --ignore-end", capsys
    )[1]
    assert several.count("---") == 2
    greedy = (
        "language write runs/first --prompt 3 --max-new-tokens 15 --temperature 0 --top-k 5 --seed"
    )
    assert run(f"{greedy} 1", capsys)[1] == run(f"{greedy} 2", capsys)[1]
    code, out, err = run("runs", capsys)
    assert code == 0, err
    assert "first" in out
    code, out, err = run("runs show runs/first", capsys)
    assert code == 0, err
    assert "tokenizer.json" in out


@pytest.mark.parametrize("tokenizer", ["characters", "bytes", "bpe"])
@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_every_objective_and_tokenizer(
    objective: str, tokenizer: str, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = f"--objective {objective} --tokenizer {tokenizer} --vocabulary 300"
    attention = "favor:features=16" if objective == "causal" else "linformer:rank=8"
    code, _, err = run(
        f"language train {text} --out run {SMALL} {options} --attention {attention}", capsys
    )
    assert code == 0, err
    losses = [row["loss"] for row in Run("run").metrics()]
    assert losses[-1] < 0.9 * losses[0]
    code, out, err = run(f"language evaluate run {text}", capsys)
    assert code == 0, err
    assert ("bits per character" in out) == (objective == "causal")
    code, out, err = run("language write run --prompt 1 --max-new-tokens 5", capsys)
    assert code == (0 if objective == "causal" else 2), err


def test_resume_on_the_command_line(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = f"language train {text} {SMALL} --save-every 10"
    assert run(f"{base} --out whole", capsys)[0] == 0
    assert run(f"{base.replace('--steps 30', '--steps 20')} --out half", capsys)[0] == 0
    code, _, err = run(f"{base} --out half", capsys)
    assert code == 2
    assert "already holds a run" in err
    # the schedule knows how many steps there are: a run of 20 is another run, so a plain constant
    flat = f"{base} --schedule constant --overwrite"
    assert run(f"{flat} --out whole", capsys)[0] == 0
    assert run(f"{flat.replace('--steps 30', '--steps 20')} --out half", capsys)[0] == 0
    code, _, err = run(f"{flat.replace(' --overwrite', '')} --out half --resume", capsys)
    assert code == 0, err
    one, other = (Run(name).model().state_dict() for name in ("whole", "half"))
    for name in one:
        assert torch.equal(one[name], other[name]), name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("language train missing.txt", ["missing.txt"]),
        ("language train {text} --objective causl", ["'causl'", "causal or masked"]),
        ("language train {text} --tokenizer words", ["'words'", "characters, bytes, bpe"]),
        ("language train {text} --attention favr", ["did you mean 'favor'"]),
        ("language train {text} --attention linformer", ["no causal form"]),
        ("language train {text} --attention softmax hard", ["lists 2 layers", "has 4"]),
        ("language train {text} --heads 3", ["width is 128, heads 3"]),
        ("language train {text} --steps 0", ["steps is 0"]),
        ("language train {text} --optimizer sgd", ["adamw, muon"]),
        ("language train {text} --out nothing --resume", ["nothing"]),
        ("language train {text} --shard", ["torchrun"]),
        ("language train {text} --heads 0", ["heads is 0"]),
        ("language train {text} --key-heads 0", ["key_heads is 0"]),
        ("language train {text} --width -16", ["width is -16"]),
        ("language train {text} --layers 0", ["layers is 0"]),
        ("language train {text} --context 0", ["context is 0"]),
        ("language train {text} --max-gradient-norm -1", ["max_gradient_norm is -1"]),
        ("language train {text} --final-rate-fraction -1", ["final_rate_fraction is -1"]),
        ("language train {text} --warmup-steps -5", ["warmup_steps is -5"]),
        ("language train {text} --rotary-base 0", ["rotary_base is 0"]),
        ("language train {text} --seed 99999999999999999999", ["seed is 9999"]),
        ("language write {text}", ["not a run folder"]),
        (
            "language write nothing",
            ["nothing: not a run folder, it does not exist", "attnlab runs"],
        ),
        ("language evaluate nothing {text}", ["nothing", "does not exist"]),
        ("runs nowhere", ["nowhere", "make a run: attnlab "]),
        ("runs show nowhere", ["nowhere"]),
    ],
)
def test_errors_are_one_line(
    arguments: str, words: list[str], text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(arguments.format(text=text), capsys)
    assert code == 2, err
    last = err.strip().splitlines()[-1]
    assert last.startswith("attnlab: ")
    for word in words:
        assert word in last


def test_resuming_with_another_text_or_fewer_steps(
    text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = f"{SMALL} --out run --schedule constant"
    assert run(f"language train {text} {base}", capsys)[0] == 0
    again = run(f"language train {text} {base} --resume", capsys)
    assert again[0] == 0
    assert "bits" in again[1]
    other = text.with_name("other.txt")
    other.write_text(TEXT[::-1])
    code, _, err = run(f"language train {other} {base} --resume", capsys)
    assert code == 2
    assert "the run has text" in err
    fewer = base.replace("--steps 30", "--steps 9")
    code, _, err = run(f"language train {text} {fewer} --resume", capsys)
    assert code == 2
    assert "has already done 30 steps; give --steps 30 or more" in err
    assert Run("run").config()["training"]["steps"] == 30
    more = base.replace("--steps 30", "--steps 33")
    assert run(f"language train {text} {more} --resume", capsys)[0] == 0
    assert Run("run").config()["training"]["steps"] == 33
    assert len(Run("run").metrics()) == 33


def test_writing_lines_and_broken_characters(
    text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text.write_text("ä\nb\n" * 800)
    for tokenizer in ("characters", "bytes"):
        options = f"--tokenizer {tokenizer} --out {tokenizer}"
        assert run(f"language train {text} {SMALL} {options}", capsys)[0] == 0
        pieces: list[str] = []
        for stop in (True, False):
            pieces.clear()
            (written,) = recipe.write(
                Path(tokenizer), ["ä"], new_tokens=14, stop=stop, on_text=pieces.append
            )
            assert "".join(pieces) == written[0]
            assert "\n" in written[0]
        (beamed,) = recipe.write(Path(tokenizer), ["ä"], new_tokens=6, beams=3, samples=2)
        assert len(beamed) == 2
    out = run("language write characters --prompt ä --beams 2 --max-new-tokens 5", capsys)[1]
    assert out.startswith("ä\n")


def test_a_prompt_that_is_too_long(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"language train {text} --out run {SMALL}", capsys)[0] == 0
    code, _, err = run("language write run --prompt 12345678 --max-new-tokens 20", capsys)
    assert code == 2
    assert "reads at most 24: give --max-new-tokens 15 or less" in err
    code, out, _ = run("language write run --prompt 12345678 --max-new-tokens 15", capsys)
    assert code == 0
    assert out.startswith("12345678")


def test_unknown_characters_are_replaced_and_reported(
    text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"language train {text} --out run {SMALL}", capsys)[0] == 0
    code, out, err = run("language write run --prompt 3ändé€€ --max-new-tokens 4", capsys)
    assert code == 0
    assert out.startswith("3ändé€€")
    assert "replaced 4 characters that the tokenizer does not know: '€' 2x" in err


def test_rows_and_targets_by_hand() -> None:
    tokens = Characters.train(["abc"])  # pad 0 ends a text, mask 1, a 2, b 3, c 4
    rows = Corpus.of(["abcab"], tokens).rows(context=4, overlap=1)
    assert [row.tolist() for row in rows] == [[0, 2, 3, 4, 2], [2, 3, 0]]
    task = language_task(["abcab", "c"], [], tokens, objective="causal", context=4)
    batch = task.collate([1, 2], 0)
    assert batch["ids"].tolist() == [[2, 3], [0, 4]]
    assert batch["target"].tolist() == [[3, 0], [4, 0]]
    batch = task.collate([0, 1], 0)
    assert batch["target"].tolist() == [[2, 3, 4, 2], [3, 0, IGNORE, IGNORE]]
    assert task.targets(batch) == 6
    assert task.lengths(0).tolist() == [4, 2, 2]
    # every token after the first is a target exactly once
    assert sum(len(row) - 1 for row in task.train) == len("abcab") + 1 + len("c") + 1


def test_masks_change_each_epoch_and_are_reproducible() -> None:
    task = language_task(["abcdefgh" * 4] * 3, [], Bytes(), objective="masked", context=16)
    rows = range(6)
    first, again, other = (task.collate(rows, epoch) for epoch in (0, 0, 1))
    assert torch.equal(first["ids"], again["ids"])
    assert not torch.equal(first["ids"], other["ids"])
    chosen = first["target"] != IGNORE
    assert bool(chosen.any(1).all())
    assert bool((first["target"][chosen] > 1).all())
    big = language_task(["abcdefgh" * 4000], [], Bytes(), objective="masked", context=1000)
    batch = big.collate(range(len(big.train) - 1), 0)
    chosen = batch["target"] != IGNORE
    assert float(chosen.double().mean()) == pytest.approx(0.15, abs=0.01)
    masked = batch["ids"][chosen] == 1
    assert float(masked.double().mean()) == pytest.approx(0.8, abs=0.03)


def test_bits_per_character_of_a_uniform_model() -> None:
    tokens = Characters.train(["ab\n"])
    task = language_task([], ["abba"], tokens, objective="causal", context=8)

    class Even(torch.nn.Linear):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return torch.zeros(*ids.shape, tokens.vocabulary)

    measured = task.measure(Even(1, 1), task.validation)
    # five targets (the end counts) of log2(5) bits each, over four characters
    assert measured["bits"] == pytest.approx(5 * math.log2(5) / 4)


def test_from_python(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    metrics = recipe.train_language(
        [tmp_path / "text.txt"],
        out=tmp_path / "run",
        model=StackConfig(vocabulary=1, context=24, width=32, layers=1, heads=2),
        settings=Settings(steps=30, batch_tokens=512, warmup_steps=5),
        quiet=True,
    )
    assert metrics["bits"] < 3.3
    (written,) = recipe.write(tmp_path / "run", ["4 and"], new_tokens=8)
    assert len(written) == 1
