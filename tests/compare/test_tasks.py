"""attnlab compare knowledge, summary and vision, with tiny models."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnlab.compare._engine import compare
from attnlab.compare._runs import ComparisonRun
from attnlab.run_folder import StartMode
from attnlab.tasks.knowledge import _comparison as knowledge
from attnlab.tasks.knowledge import _scoring as scoring
from attnlab.tasks.summary import _comparison as summary
from attnlab.tasks.summary import _training as recipe
from attnlab.tasks.vision import _comparison as vision
from attnlab.tasks.vision._task import VisionTask
from attnlab.training import InterruptedTraining, Run
from attnlab.training import _loop as loop
from tests.support.command_line import run
from tests.support.image_files import write_npz
from tests.support.small_training import SteppingClock
from tests.support.summary_runs import TINY, trained, write_rows

FILES = "--corpus world/corpus.txt --pairs world/train.tsv"
SMALL = (
    "--vocabulary 400 --width 16 --heads 2 --encoder-layers 1 --decoder-layers 1 "
    "--text-tokens 32 --summary-tokens 12"
)
WORLD: dict[str, Any] = {
    "corpus": Path("world/corpus.txt"), "pairs": Path("world/train.tsv"),
    "evaluation_pairs": Path("world/dev.tsv"),
}  # fmt: skip


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.005 minutes are 20 steps, on any machine."""
    monkeypatch.setattr(loop, "time", SteppingClock())


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made / "world", tmp_path / "world")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_results(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "compare.json").read_text())
    return content


def test_help_and_an_unknown_task(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run("compare --help", capsys)
    assert code == 0
    assert all(f"│ {name} " in text for name in ("knowledge", "summary", "vision"))
    code, out, err = run("compare knowlege", capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert 'Did you mean "knowledge"?' in err
    code, text, _ = run("compare vision --help", capsys)
    assert "[default: 0.01 0.03 0.1 0.3 1.0]" in text
    assert "--fraction " not in text
    assert "--training-time-only" not in text  # it is always so


# knowledge


@pytest.mark.usefixtures("ticking")
def test_knowledge(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = (
        f"compare knowledge --attention softmax --minutes 0.01 {FILES} "
        "--evaluation-pairs world/dev.tsv "
        "--out compared"
    )
    code, out, err = run(command, capsys)
    assert code == 0, err
    stored = read_results(here / "compared")
    assert stored["contenders"] == ["softmax", "softmax (no pretraining)"]
    for run_, best in zip(stored["runs"], stored["best"], strict=True):
        outcome, accuracy = run_["outcome"], best["metrics"]["accuracy"]
        right, total = outcome["correct"]["accuracy"]
        assert (total, outcome["metrics"]["accuracy"]) == (12, right / 12)
        assert accuracy["low"] <= accuracy["value"] <= accuracy["high"]
        minutes = [x for x, _ in outcome["curves"]["validation accuracy"]]
        assert minutes == sorted(minutes)
        assert outcome["minutes"] == pytest.approx(0.01, abs=0.001)
        assert outcome["steps"] in (39, 40)  # of both stages
        assert outcome["parameters"] > 1000
        assert run_["trial"]["variant"] in out
    answer, score = scoring.baseline("world/train.tsv", "world/dev.tsv")
    assert stored["baseline"] == [f'always "{answer}"', {"accuracy": score.accuracy}]
    assert "(no pretraining)" in (here / "compared" / "compare.html").read_text()
    folder = here / "compared" / "softmax-rate1-seed0" / "finetuned"
    assert Run(folder).config()["task"]["held_out"] > 0
    code, _, err = run(command, capsys)
    assert (code, "already holds a comparison" in err) == (2, True)
    rows = (here / "world" / "dev.tsv").read_text().splitlines()
    (here / "world" / "dev.tsv").write_text("\n".join(rows[:-1]) + "\n")
    code, _, err = run(f"{command} --resume", capsys)
    assert (code, "the comparison has questions" in err) == (2, True)


@pytest.mark.usefixtures("here")
def test_knowledge_resumes_within_a_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretraining is done, finetuning is not begun."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise InterruptedTraining("stopped", signal.SIGINT)

    comparison = knowledge.KnowledgeComparison(**WORLD, unpretrained=False)
    out = tmp_path / "out"
    options: dict[str, Any] = {"attention": ["softmax"], "out": out, "steps": 4, "quiet": True}
    with monkeypatch.context() as patch:
        patch.setattr(knowledge, "finetune", interrupted)
        with pytest.raises(InterruptedTraining):
            compare(comparison, **options)
    weights = out / "softmax-rate1-seed0" / "pretrained" / "model.safetensors"
    before = weights.read_bytes()
    resumed = compare(comparison, **options, start=StartMode.RESUME)
    assert weights.read_bytes() == before
    at_once = compare(comparison, **{**options, "out": tmp_path / "at-once"})
    one, other = ([each for each in result.attempts if isinstance(each, ComparisonRun)]
                  for result in (resumed, at_once))  # fmt: skip
    assert [each.outcome.metrics for each in one] == [each.outcome.metrics for each in other]
    assert [each.outcome.steps for each in one] == [4]
    compare(comparison, **options, start=StartMode.OVERWRITE)


MISTAKES = [
    (FILES, "give all three or none"),
    (f"{FILES} --evaluation-pairs world/dev.tsv --minutes 0", "minutes is 0"),
    (
        f"{FILES} --evaluation-pairs world/dev.tsv --attention softmax softmax",
        "name each mechanism once",
    ),
    (f"{FILES} --evaluation-pairs world/dev.tsv --attention softmax favr", "did you mean 'favor'"),
    (f"{FILES} --evaluation-pairs world/dev.tsv --attention linformer", "no causal form"),
    (f"{FILES} --evaluation-pairs world/dev.tsv --objective spam", "objective 'spam'"),
    (f"{FILES} --evaluation-pairs world/dev.tsv --preset tiny", "no preset 'tiny'"),
    (f"{FILES} --evaluation-pairs asked.tsv", "asked.tsv: has questions without answers"),
    ("--corpus none.txt --pairs world/train.tsv --evaluation-pairs world/dev.tsv", "none.txt"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_write_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    (here / "asked.tsv").write_text("Where was Ada born?\n")
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
    code, out, err = run(f"compare knowledge {arguments}", capsys)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert message in err
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before


# summary


@pytest.mark.usefixtures("ticking")
def test_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = trained().parent / "rows.jsonl"
    command = (
        f"compare summary --data {data} --attention softmax elu --minutes 0.005 --seeds 2 "
        f"--learning-rate-factors 1 {SMALL} --out {tmp_path}/all "
    )
    code, out, err = run(command, capsys)
    assert code == 0, err
    assert "4 runs of 0.005 minutes of training: 0.02 minutes in all" in err
    stored = read_results(tmp_path / "all")
    assert len(stored["runs"]) == len(stored["trials"]) == 4
    assert stored["differences"][0]["verdict"] == "not learned enough"
    assert "softmax has not learned enough to compare with" in " ".join(out.split())
    page = (tmp_path / "all" / "compare.html").read_text()
    assert "validation rougeL over minutes of training" in page
    for each in stored["runs"]:  # the axis is the budget
        outcome = each["outcome"]
        assert outcome["minutes"] == pytest.approx(0.005, abs=0.0005)
        assert outcome["steps"] == 20
        expected = [0.005 * part / 6 for part in range(1, 7)]
        times = [x for x, _ in outcome["curves"]["validation loss"]]
        assert times == pytest.approx(expected, abs=0.0005)
    for extra, message in (
        ("--resume --overwrite", "give one of them"),
        ("--resume --limit 90", "the comparison has limit None, not 90"),
        ("--resume --dropout 0.2", "the comparison has dropout 0.1, not 0.2"),
        ("--overwrite --where decoder", "encoder or all"),
        ("--overwrite --features 0", "features has 0; give 1 or more"),
    ):
        code, _, err = run(command + extra, capsys)
        assert code == 2
        assert message in err.splitlines()[-1]
    assert read_results(tmp_path / "all") == stored


def test_summary_tries_features() -> None:
    comparison = summary.SummaryComparison(features=(8, 16))
    assert comparison.contenders(["softmax", "favor", "favor:features=4"]) == {
        "softmax": ["softmax"],
        "favor": ["favor:features=8", "favor:features=16"],
        "favor:features=4": ["favor:features=4"],
    }


@pytest.mark.usefixtures("ticking")
def test_summary_resumes_within_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = write_rows(tmp_path / "rows.jsonl"), tmp_path / "all"
    started: list[str] = []

    def cut_short(*arguments: Any, **options: Any) -> Any:
        started.append(options["out"].name)
        if len(started) == 2:  # within its minutes
            settings = options["settings"]
            options["settings"] = type(settings)(**{**vars(settings), "minutes": 0.002})
            recipe.train_on(*arguments, **options)
            raise InterruptedTraining("stopped", signal.SIGINT)
        return recipe.train_on(*arguments, **options)

    def compared(**changes: Any) -> Any:
        comparison = summary.SummaryComparison(data=str(data), model=TINY)
        arguments: dict[str, Any] = {
            "minutes": 0.005,
            "learning_rate_factors": [1.0],
            "seeds": 1,
            "quiet": True,
        }
        return compare(comparison, ["softmax", "elu"], out=out, **arguments | changes)

    monkeypatch.setattr(summary, "train_on", cut_short)
    with pytest.raises(InterruptedTraining):
        compared()
    before = Run(out / started[1]).metrics()
    resumed = compared(start=StartMode.RESUME)
    after = Run(out / started[1]).metrics()
    assert (len(before), len(after)) == (8, 20)
    assert after[: len(before)] == before
    assert [each.outcome.steps for each in resumed.attempts] == [20, 20]
    write_rows(data, 241)
    with pytest.raises(ValueError, match=r"the comparison has .* resume with the same settings"):
        compared(start=StartMode.RESUME)


def test_too_long_summaries_are_errors(tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    rows = [
        {"text": f"this is text {i}", "summary": "a" if i % 40 else "many words " * 20}
        for i in range(40)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    comparison = summary.SummaryComparison(data=str(data), model=TINY, limit=3)
    with pytest.raises(ValueError, match="has a summary of at most 12 tokens"):
        compare(comparison, ["softmax"], out=tmp_path / "out", steps=1, quiet=True)


# vision


def test_vision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = write_npz(tmp_path / "set.npz", 60), tmp_path / "out"
    short = f"compare vision --data {data} --steps 2 --seeds 1 --width 24 --layers 1 --out {out}"
    short += " --processes 0"
    code, text, error = run(f"{short} --fractions 0.2 1", capsys)
    assert code == 0, error
    assert "Every run had 2 steps." in text
    stored = read_results(out)
    assert [each["place"] for each in stored["best"]] == [10, 10, 54, 54]
    counts = {each["contender"]: each["parameters"] for each in stored["best"]}
    assert abs(counts["convnet"] / counts["softmax"] - 1) <= 0.05
    image_counts = {Run(path.parent).metrics()[-1]["tokens"] for path in out.glob("*/config.json")}
    assert len(image_counts) == 1  # 10 images or 54: as many were seen
    assert "<svg" in (out / "compare-accuracy.svg").read_text()
    with pytest.MonkeyPatch.context() as patch:  # a finished comparison is not measured again
        patch.setattr(vision, "compute_logits", None)
        code, _, error = run(f"{short} --fractions 0.2 1 --device cpu --resume", capsys)
    assert code == 0, error
    assert read_results(out) == stored
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for options, message in (
        ("--fractions 0.5", "already holds a comparison; give --resume"),
        ("--fractions 0.2 --resume", "has the run softmax-1-rate1-seed0, and yours does not"),
        ("--fractions 0.2 1 --seed 4 --resume", "has the run softmax-0.2-rate1-seed0"),
        ("--fractions 0.1 0.2 1 --learning-rate 0.5 --resume", "has learning_rate None, not 0.5"),
        ("--fraction 0.5", "Unknown option: --fraction. Did you mean --fractions?"),
    ):
        code, _, error = run(f"{short} {options}", capsys)
        assert (code, message in error) == (2, True), error
        now = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        assert now == before, options
    code, _, error = run(f"{short} --fractions 0.1 0.2 1 --resume", capsys)  # and more
    assert code == 0, error
    assert [each["place"] for each in read_results(out)["best"]][::2] == [6, 10, 54]
    code, _, error = run(f"{short} --fractions 0.5 --overwrite --no-convnet", capsys)
    assert code == 0, error
    assert [path.name for path in out.iterdir() if path.is_dir()] == ["softmax-0.5-rate1-seed0"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--fractions 2", "--fractions are 2; give fractions"),
        ("--fractions nan", "--fractions are nan; give fractions"),
        ("--fractions 1 nan", "give fractions"),
        ("--fractions 0.001 0.005 1", "of the 1,295 images; give only 0.001 (10), 1 (1,295)"),
        ("--seeds 0", "give 1 or more"),
        ("--epochs 1 --steps 5", "give one of them"),
        ("--attention favr", "did you mean 'favor'"),
        ("--attention softmax favr", "did you mean 'favor'"),
        ("--learning-rate -1", "learning_rate is -1"),
        ("--patch 3", "patch"),
    ],
)
def test_vision_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, message: str
) -> None:
    code, out, error = run(f"compare vision {options} --out {tmp_path / 'b'}", capsys)
    assert (code, out, error.count("\n")) == (2, "", 1), error
    assert message in error
    assert not (tmp_path / "b").exists()


def test_convnet_has_the_size_of_the_first_vit(tmp_path: Path) -> None:
    """A synthesizer has fewer parameters than softmax."""
    data = str(write_npz(tmp_path / "set.npz", 60))
    comparison = vision.VisionComparison(data, sizes={"width": 32, "layers": 2})
    sizes = {}
    for name in ("softmax", "synthesizer"):
        (variant,) = comparison.contenders([name])["convnet"]
        sizes[name] = int(variant.partition("=")[2])
        net = comparison._model(variant).parameter_count()
        assert abs(net / sizes[name] - 1) <= 0.05
    assert 20_000 < sizes["synthesizer"] < sizes["softmax"]


def test_vision_runs_get_equal_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All get the same minute: by this clock a step of the ViT lasts 7 s, of the ConvNet 13 s."""
    data = str(write_npz(tmp_path / "set.npz", 60))
    now = 0.0

    def loss(task: VisionTask, forward: Any, batch: Any) -> torch.Tensor:
        nonlocal now
        now += 7 if forward.kind == "vit" else 13
        return before(task, forward, batch)

    def evaluate(task: VisionTask, model: Any) -> dict[str, float]:
        nonlocal now
        now += 100  # does not count
        return measure(task, model)

    before, measure = VisionTask.loss, VisionTask.evaluate
    monkeypatch.setattr(VisionTask, "loss", loss)
    monkeypatch.setattr(VisionTask, "evaluate", evaluate)
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: now))
    comparison = vision.VisionComparison(
        data, fractions=(0.2, 1.0), sizes={"width": 24, "layers": 1}, training={"device": "cpu"}
    )
    result = compare(comparison, out=tmp_path / "m", minutes=1.0, seeds=1, quiet=True)
    runs = [each for each in result.attempts if isinstance(each, ComparisonRun)]
    steps = [(each.trial.contender, each.outcome.steps) for each in runs]
    assert steps == [("softmax", 9), ("convnet", 5)] * 2
    assert [60 * each.outcome.minutes for each in runs] == pytest.approx([63, 65] * 2)
