"""`attnlab runs`: the list of run folders, and one run with its curves."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from attnlab.cli._run_curves import chart, smooth
from attnlab.cli._run_details import print_run
from attnlab.cli._run_table import print_runs
from attnlab.report._terminal_lines import canvas
from attnlab.run_folder import _metrics as metrics_module
from attnlab.run_folder._config import CONFIG_BYTES, TaskSection
from attnlab.run_folder._metrics import read_metrics
from attnlab.run_folder._run_list import find_runs

MODEL = {"model": "decoder", "attention": "softmax", "width": 48, "bias": True, "tie": False}


def make_run(
    folder: Path, rows: list[Any] | None = None, *, weights: bool = False, **changes: Any
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "task": {"name": "language"},
        "model": MODEL,
        "training": {"steps": 8, "learning_rate": 0.003, "max_gradient_norm": None},
        "parameters": 3_312_345,
        "versions": {"attnlab": "0.1.0", "torch": "2.13.0"},
        **changes,
    }
    (folder / "config.json").write_text(json.dumps(config))
    if rows is not None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "metrics.jsonl").write_text(text)
    if weights:
        (folder / "model.safetensors").write_bytes(b"0" * 1234)
    return folder


def metrics_row(step: int, loss: float, /, **validation: float) -> dict[str, Any]:
    facts = {
        "step": step,
        "loss": loss,
        "tokens": 700 * step,
        "padding": 0.25,
        "seconds": 50 * step,
    }
    return {**facts, "validation": validation} if validation else facts


def table_text(folder: Path, width: int = 80) -> str:
    file = io.StringIO()
    print_runs(folder, False, Console(file=file, width=width))
    return file.getvalue()


def details_text(folder: Path, width: int = 80) -> str:
    file = io.StringIO()
    print_run(folder, Console(file=file, width=width))
    return file.getvalue()


def as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    print_runs(folder, True)

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out, parse_constant=refuse)
    return rows


def words_of_line(name: str, text: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [name])


# The list


def test_table_of_runs_in_each_state(tmp_path: Path) -> None:
    make_run(
        tmp_path / "done",
        [metrics_row(7, 2.5, loss=1.75), metrics_row(8, 2.25, loss=1.875)],
        weights=True,
    )
    make_run(tmp_path / "half", [metrics_row(3, 2.5)])
    make_run(tmp_path / "last", [metrics_row(8, 2.5)])  # the weights are still being written
    make_run(tmp_path / "new")
    text = table_text(tmp_path)
    begin = ["language", "softmax", "3.3M"]
    assert words_of_line("done", text)[1:-1] == [*begin, "done", "2.25", "loss", "1.75"]
    assert words_of_line("half", text)[1:-1] == [*begin, "3/8", "37%", "2.5", "-"]
    assert words_of_line("last", text)[1:-1] == [*begin, "8/8", "100%", "2.5", "-"]
    assert words_of_line("new", text)[1:-1] == [*begin, "0/8", "0%", "-", "-"]


def test_minutes_decide_when_a_run_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has far fewer steps than its settings name, which count for nothing then."""
    training = {"steps": 1000, "minutes": 0.5}
    make_run(tmp_path / "done", [metrics_row(80, 2.5)], weights=True, training=training)
    make_run(tmp_path / "half", [metrics_row(40, 2.5)], training=training)
    text = table_text(tmp_path)
    assert words_of_line("done", text)[4:6] == ["done", "2.5"]
    assert words_of_line("half", text)[4:6] == ["40", "2.5"]
    assert "%" not in text
    assert "80 steps, done" in details_text(tmp_path / "done")
    assert [run["done"] for run in as_json(tmp_path, capsys)] == [True, False]


def test_the_best_headline_follows_the_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        metrics_row(1, 3, bleu=0.2, loss=1),
        metrics_row(2, 3, bleu=0.5, loss=2),
        metrics_row(3, 3, bleu=math.nan),
    ]
    make_run(tmp_path / "a", rows, task={"name": "summary", "headline": "bleu", "better": "higher"})
    make_run(tmp_path / "b", rows)
    first, second = as_json(tmp_path, capsys)
    assert (first["best"], first["best_step"], first["headline"]) == (0.5, 2, "bleu")
    assert (second["best"], second["best_step"], second["better"]) == (1, 1, "lower")
    assert words_of_line("a", table_text(tmp_path))[-3:-1] == ["bleu", "0.5"]


def test_json_has_full_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "deep" / "one", [metrics_row(5, 2.123456789, loss=math.inf)])
    make_run(tmp_path / "two", [metrics_row(5, math.nan)])
    (tmp_path / "zero").mkdir()
    (tmp_path / "zero" / "config.json").write_text('{"task"')
    one, two, zero = as_json(tmp_path, capsys)
    assert one["run"] == "deep/one"
    assert (one["loss"], one["parameters"], one["tokens"]) == (2.123456789, 3_312_345, 3500)
    assert one["best"] is None
    assert two["loss"] is None
    assert zero["problem"] == "config.json is not JSON"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"attention": ["window", "window", "softmax"]}, "window x2, softmax"),
        (
            {"encoder": {"attention": "favor"}, "decoder": MODEL, "cross_attention": "softmax"},
            "favor / softmax",
        ),
        ({"model": "convnet"}, None),
        ({"attention": {"not": "text"}}, None),
    ],
)
def test_mechanism_column(
    model: Any, expected: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path, model=model)
    (summary,) = as_json(tmp_path, capsys)
    assert summary["mechanism"] == expected
    assert summary["run"] == tmp_path.name
    assert "language" in table_text(tmp_path)


def test_the_table_fits_and_keeps_whole_names(tmp_path: Path) -> None:
    name = "a-long-name-of-a-run/" + "another-long-name-" * 3
    rows = [metrics_row(123_456, 1.2345e-5, accuracy_of_all=0.123456)]
    task = {"name": "a task with a name", "headline": "accuracy_of_all"}
    make_run(
        tmp_path / name, rows, task=task, training={"steps": 999_900}, model={"attention": "x" * 99}
    )
    text = table_text(tmp_path)
    assert max(map(len, text.splitlines())) <= 80
    assert "123.5k/999.9k 12%" in text
    assert "".join(line[: line.find(" ")] for line in text.splitlines()[2:]) == name


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"task": {"name', "is not JSON"),
        (b"", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1, 2]", "does not describe a run"),
        (b'{"model": "decoder", "width": 3}', "does not describe a run"),
        (b" " * (CONFIG_BYTES + 1), "is too large"),
    ],
)
def test_damaged_and_foreign_folders_have_a_reason(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    make_run(tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.json").write_bytes(content)
    text = table_text(tmp_path)
    assert f"bad: config.json {reason}" in text.splitlines()
    assert words_of_line("good", text)
    with pytest.raises(ValueError, match=reason):
        print_run(tmp_path / "bad")


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "config.json")
    os.mkfifo(make_run(tmp_path / "run") / "metrics.jsonl")
    text = table_text(tmp_path)
    assert "pipe: config.json cannot be read" in text
    assert "0/8 0%" in text


@pytest.mark.parametrize("value", [None, True, "x", [], [1], {"a": {}}, -3, 10**400, 1e308])
def test_values_of_any_type_are_tolerated(
    value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("step", "loss", "tokens", "padding", "seconds")
    rows = [value, dict.fromkeys(names, value), {"step": 1, "validation": value}]
    rows += [{"step": value, "validation": {"loss": value, "step": value}}]
    make_run(tmp_path / "a", rows, task=value, model=value, training=value, versions=value)
    changes: dict[str, Any] = {
        "task": {"name": value, "headline": value, "better": value},
        "model": {"attention": value, "encoder": value, "cross_attention": value},
        "training": {"steps": value},
        "parameters": value,
    }
    make_run(tmp_path / "b", rows[::-1], **changes)
    assert len(as_json(tmp_path, capsys)) == 2
    assert table_text(tmp_path)
    for name in "ab" if isinstance(value, dict) else "b":  # else "a" does not describe a run
        assert "config.json" in details_text(tmp_path / name)


def test_the_search_is_bounded(tmp_path: Path) -> None:
    make_run(tmp_path / "1/2/3/4")
    make_run(tmp_path / "1/2/3/4/5")
    make_run(tmp_path / ".hidden/run")
    run = make_run(tmp_path / "run")
    make_run(run / "checkpoints" / "step-3")
    make_run(run / "child")
    (tmp_path / "link").symlink_to(run)
    (run / "loop").symlink_to(tmp_path)
    runs = [str(path.relative_to(tmp_path)) for path in find_runs(tmp_path)]
    assert runs == ["1/2/3/4", "run", "run/child"]


def test_unreadable_folders_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path / "closed")
    make_run(tmp_path / "open")
    scan = os.scandir

    def guarded(path: Path) -> Any:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", guarded)
    assert [path.name for path in find_runs(tmp_path)] == ["open"]


def test_no_runs_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = table_text(tmp_path, width=20)
    assert text.count("\n") == 1
    assert text.startswith(f"no runs found below {tmp_path}")
    assert "attnlab language train --out runs/first" in text
    assert as_json(tmp_path, capsys) == []


def test_a_path_without_runs_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, reason in (("gone", "does not exist"), ("file", "is not a folder")):
        with pytest.raises(ValueError, match=reason) as caught:
            print_runs(tmp_path / name, False)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"config\.json is missing"):
        print_run(tmp_path)


def test_the_list_imports_nothing_slow(tmp_path: Path) -> None:
    make_run(tmp_path / "run", [metrics_row(3, 2.5, loss=1.5)])
    program = (
        "import sys; from pathlib import Path; from attnlab.cli.runs import runs, show\n"
        "runs(Path(sys.argv[1])); assert 'pydantic' not in sys.modules\n"
        "show(Path(sys.argv[1], 'run'))\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_hostile_names_are_only_text(tmp_path: Path) -> None:
    name = "[bold]x[/red]\x1b[31m\n\u202e"
    folder = make_run(
        tmp_path / os.fsdecode(b"[link=x]\x1b[2J\xff"),
        [metrics_row(1, 2.5, **{name: 1.0})],
        task={"name": name, "headline": name, name: name},
        model={"attention": name, name: name},
        training={name: name, "steps": 3},
        versions={name: name},
    )
    (folder / f"[bold]{'y' * 99}\x1b").write_text("")
    (folder / "checkpoints" / "step-[/red]").mkdir(parents=True)
    for text in (table_text(tmp_path, 160), details_text(folder, 160)):
        assert "[link=x]?[2J?" in text
        assert "[bold]x[/r" in text
        assert not set("\x1b\u202e") & set(text)
        text.encode()
    for encoding in ("ascii", "latin-1"):
        file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        print_runs(tmp_path, False, Console(file=file, width=80))
        print_run(folder, Console(file=file, width=80))
        file.flush()


# Metrics


def test_a_truncated_last_line_is_left_out(tmp_path: Path) -> None:
    make_run(tmp_path / "one", [metrics_row(3, 2.5), metrics_row(4, 2.25)])
    with (tmp_path / "one" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "loss": 1.')
    assert words_of_line("one", table_text(tmp_path))[4:7] == ["4/8", "50%", "2.25"]
    assert "last 2.25" in details_text(tmp_path / "one")


def test_many_rows_are_thinned(tmp_path: Path) -> None:
    count = 100_000
    rows = [metrics_row(step, 1 + 1 / step) for step in range(1, count + 1)]
    rows[776]["validation"] = {"loss": 0.5}  # a row that thinning alone would leave out
    rows[778]["validation"] = {"loss": 0.75}
    make_run(tmp_path / "one", rows, training={"steps": count})
    assert words_of_line("one", table_text(tmp_path))[4:6] == ["100k/100k", "100%"]
    metrics = read_metrics(tmp_path / "one" / "metrics.jsonl", TaskSection(), samples=70)
    assert 70 <= len(metrics.rows) <= 72
    assert (metrics.rows[0]["step"], metrics.rows[-1]["step"]) == (1, count)
    assert (metrics.best, metrics.best_step) == (0.5, 777)
    assert [each["step"] for each in metrics.validations] == [777, 779]
    assert "validation loss: last 0.75, lowest 0.5 at step 777" in details_text(tmp_path / "one")


def test_only_the_end_of_a_huge_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_run(tmp_path, [metrics_row(step, 2.0) for step in range(1, 100)]) / "metrics.jsonl"
    monkeypatch.setattr(metrics_module, "METRICS_BYTES", 1000)
    metrics = read_metrics(path, TaskSection(), samples=1000)
    assert 5 < len(metrics.rows) < 15
    assert metrics.last["step"] == 99
    path.write_bytes(b"x" * 300_000 + b'\n{"step": 7}\n')  # one line without end
    assert read_metrics(path, TaskSection()).last == {"step": 7}


def test_validations_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "SAMPLES", 5)
    path = (
        make_run(tmp_path, [metrics_row(step, 2.0, loss=step) for step in range(1, 100)])
        / "metrics.jsonl"
    )
    metrics = read_metrics(path, TaskSection())
    assert len(metrics.validations) <= 10
    assert (metrics.best, metrics.validations[-1]["step"]) == (1, 99)


# One run


def test_the_facts_of_a_run(tmp_path: Path) -> None:
    task = {"name": "language", "corpus": "tiny.txt"}
    rows = [metrics_row(step, 3 - step / 4, loss=2.0, accuracy=step / 8) for step in range(1, 9)]
    run = make_run(tmp_path / "first", rows, weights=True, task=task)
    whole = run / "checkpoints" / "step-000000008"
    part = run / "checkpoints" / "step-000000004"
    for folder, names in (
        (whole, ("model.safetensors", "optimizer.safetensors", "state.json")),
        (part, ("model.safetensors",)),
    ):
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_bytes(b"0" * 500)
    text = details_text(run)
    facts = {
        line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in text.splitlines()[1:10]
    }
    assert facts["task"] == "language, corpus tiny.txt"
    assert facts["model"] == "decoder, attention softmax, width 48, bias"
    assert facts["parameters"] == "3,312,345"
    assert facts["training"] == "steps 8, learning_rate 0.003"
    assert facts["versions"] == "attnlab 0.1.0, torch 2.13.0"
    assert facts["progress"] == "8 steps, done"
    assert facts["best"] == "loss 2 at step 1"
    assert facts["time trained"] == "6 min 40 s"
    assert facts["tokens"] == "5,600"
    assert "25.0% of a batch" in text
    for title in ("training loss, smoothed: last 1,", "validation loss:", "validation accuracy:"):
        assert title in text
    assert words_of_line("model.safetensors", text)[1:] == ["1.2kB", "the", "trained", "weights"]
    assert words_of_line("checkpoints", text)[1] == "2.0kB"
    assert words_of_line("step-000000008", text)[1:2] == ["1.5kB"]
    assert "lacks" not in " ".join(words_of_line("step-000000008", text))
    assert "lacks optimizer.safetensors, state.json" in text
    assert max(map(len, text.splitlines())) <= 80


def test_encoder_and_decoder_have_lines_of_their_own(tmp_path: Path) -> None:
    stacks = {"encoder": {"attention": "favor", "layers": 3}, "decoder": {"layers": 5}}
    text = details_text(
        make_run(tmp_path, model={"model": "seq2seq", **stacks, "cross_attention": "softmax"})
    )
    assert words_of_line("model", text)[1:] == ["seq2seq,", "cross_attention", "softmax"]
    assert words_of_line("encoder", text)[1:] == ["attention", "favor,", "layers", "3"]
    assert words_of_line("decoder", text)[1:] == ["layers", "5"]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_curves_adapt_to_the_console(width: int, tmp_path: Path) -> None:
    text = details_text(make_run(tmp_path, [metrics_row(step, step) for step in (1, 2, 7)]), width)
    axis = next(line for line in text.splitlines() if "└" in line)
    assert len(axis) == min(width, 100)


def test_without_utf8_everything_is_ascii(tmp_path: Path) -> None:
    run = make_run(tmp_path / "é", [metrics_row(1, 2.0), metrics_row(2, 1.0)])
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    print_run(run, Console(file=file, width=40))
    file.flush()
    text = raw.getvalue().decode("ascii")
    assert "*" in text
    assert "+---" in text


# Curves


def test_a_small_curve_by_hand() -> None:
    # four dots, rising: left 3 (bit 40) and right 2 (20), then left 1 (02) and right 0 (08)
    rising = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]
    assert canvas(rising, 2, 1, ascii_only=False) == ["\u2860\u280a"]
    assert canvas(rising, 4, 4, ascii_only=True) == ["   *", "  * ", " *  ", "*   "]
    # two points are joined; a steep line fills its columns
    steep = ["*  ", " * ", " * ", "  *", "  *"]
    assert canvas([(0.0, 4.0), (2.0, 0.0)], 3, 5, ascii_only=True) == steep


def test_a_chart_by_hand() -> None:
    points = [(10.0, 1.0), (20.0, 0.5), (80.0, 0.0)]
    assert chart(points, 13, 3, ascii_only=True) == [
        "  1 |*",
        "0.5 | ***",
        "  0 |    ****",
        "    +--------",
        "     10    80",
    ]
    assert chart(points, 13, 3, ascii_only=False)[-2] == "    └────────"


@pytest.mark.parametrize("ascii_only", [False, True])
def test_charts_of_few_and_extreme_points(ascii_only: bool) -> None:
    mark = "*" if ascii_only else "\u2802"  # the left dot of row 5 of 12, the second of its four
    nan, inf = math.nan, math.inf
    assert chart([], 40, 3, ascii_only) == ["no values yet"]
    assert chart([(1, nan), (2, inf)], 40, 3, ascii_only) == ["no values yet"]
    one = chart([(3, 2.5), (4, nan)], 40, 3, ascii_only)
    assert one[1].startswith("2.5 ")
    assert one[1][5:] == mark
    assert one[-1].strip() == "3"
    constant = chart([(3, 2.5), (4, 2.5), (9, 2.5)], 40, 3, ascii_only)
    assert len(constant[1]) == 40
    assert constant[1].count(constant[1][-1]) == 35
    near = chart([(1, 1.0000001), (2, 1.0000002)], 40, 3, ascii_only)
    assert near[0].split()[0] == "1.0000002"
    assert near[2].split()[0] == "1.0000001"
    assert chart([(1, -1e100), (2, 1e100)], 40, 3, ascii_only)[0].strip().startswith("1e+100")


def test_values_that_are_not_finite_are_counted(tmp_path: Path) -> None:
    text = details_text(
        make_run(
            tmp_path,
            [
                metrics_row(1, 2.0),
                metrics_row(2, math.nan),
                metrics_row(3, math.inf),
                metrics_row(4, 1.0),
            ],
        )
    )
    assert "last 1, lowest 1 at step 4, highest 2; 2 not finite" in text


def test_smoothing_is_a_centered_mean() -> None:
    line = [(float(step), 3.0 * step) for step in range(211)]
    assert smooth(line) == line  # a straight line stays, at its ends too
    spike = [(float(step), 5.0 if step == 100 else 0.0) for step in range(211)]
    assert {step: value for step, value in smooth(spike) if value} == {
        98.0: 1.0,
        99.0: 1.0,
        100.0: 1.0,
        101.0: 1.0,
        102.0: 1.0,
    }
    assert smooth(spike[:7]) == spike[:7]
