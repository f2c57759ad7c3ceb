"""A bench's report: its JSON read back and never trusted, the terminal, Markdown, the commands."""

from __future__ import annotations

import copy
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attnlab.bench.markdown import as_table, marks, placed, report_markdown
from attnlab.bench.page import bench_page
from attnlab.bench.reading import read_report, report_of
from attnlab.bench.results import Cell, Drawn, Report, Section, Table, machine, report_json
from attnlab.bench.terminal import print_report
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from attnlab.bench import bench
from attnlab.bench.running import KINDS
from attnlab.bench.settings import QUICK, CostSettings, ErrorSettings, made
from attnlab.charts.plots import Bars, Heatmap, Lines
from attnlab.charts.terminal_heatmap import heatmap, short
from attnlab.mechanisms.compiled.build import Status
from tests.support.bench_reports import hostile, made_up, ratio_map
from tests.support.command_line import run

BEGIN, END = marks()

# JSON


@pytest.mark.parametrize("report", [made_up(), hostile(), Report([], {}, {})])
def test_a_report_read_back_is_the_same(report: Report, tmp_path: Path) -> None:
    raw = report_json(report)
    text = json.dumps(raw, allow_nan=False)
    path = tmp_path / "a.json"
    path.write_text(text)
    assert report_json(read_report(path)) == raw
    assert read_report(path).sections[:1] == report_of(raw).sections[:1]


def test_what_is_not_finite_survives() -> None:
    found = report_of(json.loads(json.dumps(report_json(made_up()))))
    drawn = found.sections[0].parts[0]
    assert isinstance(drawn, Drawn)
    assert isinstance(drawn.plot, Heatmap)
    assert drawn.plot.values[2][4] == math.inf
    assert drawn.plot.values[1][4] is None


def places(raw: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in the JSON."""
    inner = (
        raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    )
    return [path, *(each for key, value in inner for each in places(value, (*path, key)))]


RAW = report_json(made_up())
PLACES = places(RAW)[1:]
STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 1.5, 10**400, "x", "\ud800", "inf", [], [[]], [None], {}, {"kind": "lines"},
     {"value": []}, "x" * 5000]
)  # fmt: skip


def refusal(raw: Any) -> str:
    """Why it is no report; empty if it is one."""
    try:
        report_of(raw)
    except ValueError as error:
        return str(error)
    return ""


@given(st.sampled_from(PLACES), STRANGE)
def test_no_strange_value_anywhere_is_more_than_a_line(place: tuple[Any, ...], value: Any) -> None:
    """It is refused in one line, or what was read can be drawn in every way."""
    raw = copy.deepcopy(RAW)
    at = raw
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    if problem := refusal(raw):
        assert "\n" not in problem
        return
    report = report_of(raw)
    print_report(report, Console(file=io.StringIO(), width=80))
    assert report_markdown(report)
    json.dumps(report_json(report), allow_nan=False)


@given(st.sampled_from([place for place in PLACES if isinstance(place[-1], str)]))
def test_what_is_missing_is_refused_or_not_needed(place: tuple[Any, ...]) -> None:
    raw = copy.deepcopy(RAW)
    at = raw
    for key in place[:-1]:
        at = at[key]
    del at[place[-1]]
    free = {"settings", "measurements", "machine", "versions"} & set(place[:-1])
    optional = place[-1] in ("low", "high", "centre", "value", "drop") or free
    problem = refusal(raw)
    assert "\n" not in problem
    assert problem or optional or place[-1] in ("x", "y"), place  # x or y of a mark


WRONG = {
    "not JSON": ("{", "is not JSON"),
    "no object": ("[]", "is no report"),
    "another format": ('{"format": "attnlab-claims"}', "is no report"),
    "another version": ('{"format": "attnlab-bench", "version": 2}', "has version 2; this attnlab"),
    "NaN": ('{"format": "attnlab-bench", "version": NaN}', "is not JSON"),
    "deep": ("[" * 100_000, "is not JSON"),
    "bytes": ("\x00\x01", "is not JSON"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_a_file_that_is_none(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, words = WRONG[name]
    path = tmp_path / "a.json"
    path.write_text(text)
    code, out, err = run(f"bench show {path}", capsys)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_neither_folder_nor_pipe_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, words in ((".", "is no file"), ("pipe", "is no file"), ("no", "is not there")):
        code, out, err = run(f"bench show {tmp_path / name}", capsys)
        assert (code, out) == (2, "")
        assert words in err


def test_tables_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="a row of 1 cells under a header of 2"):
        Table("t", ["a", "b"], [["x"]])


# The terminal and Markdown


def printed(report: Report, width: int = 100, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=width, **options)
    print_report(report, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_everything_is_printed_at_any_width(width: int) -> None:
    text = printed(made_up(), width)
    assert max(map(len, text.splitlines())) <= width
    for wanted in ("favor, 256", "What to use", "Where features beat", "softmax", "processor"):
        assert wanted in text
    assert "gpu" not in text  # not known


def test_a_hostile_report_stays_text() -> None:
    text = printed(hostile())
    assert "\x1b" not in text
    assert "\x00" not in text
    assert "\u202e" not in text
    assert "</script>" in text


def test_a_map_has_its_numbers_and_colours() -> None:
    lines = heatmap(ratio_map(), width=80)
    text = [line.plain for line in lines]
    assert text[0].split() == ["features", "0.5", "1", "2", "4", "8"]
    assert text[1].split() == ["16", "0.01", "0.04", "0.16", "0.64", "2.56"]
    assert text[2].split()[-1] == "-"
    assert text[3].split()[-1] == "inf"
    styles = [str(span.style) for span in lines[1].spans]
    blue, orange = (tuple(map(int, each[len("white on rgb("):-1].split(",")))
                    for each in (styles[0], styles[-1]))  # fmt: skip
    assert blue[2] > blue[0]
    assert orange[0] > orange[2]
    cut = [line.plain for line in heatmap(ratio_map(), width=30)]
    assert cut[-1].endswith("norm |q~ (1 more column does not fit)")


def test_short_numbers() -> None:
    numbers = (0.0, 0.01234, 1.2345, 99.94, 1234.5, 1234567.0, 1e-7, math.inf)
    assert [short(each) for each in numbers] == [
        "0", "0.0123", "1.23", "99.9", "1,234", "1e6", "1e-7", "inf"
    ]  # fmt: skip


def test_markdown_has_every_table_and_map_once() -> None:
    text = report_markdown(made_up(), level=3)
    assert text.count("\n### ") + text.startswith("### ") == 3
    assert "| 16 | 0.01 | 0.04 | 0.16 | 0.64 | 2.56 |" in text
    assert "| favor | 5.25 | 40 | 0.97 (0.90 to 1.04) | 1,500 | 8% |" in text
    assert "Time by length: causal" not in text  # its table says the same
    assert "**Error by features**" in text
    assert "| 0 | window:window=64 |" in text
    for line in text.splitlines():
        assert not line.startswith("|") or line.count("|") - line.count("\\|") > 2


def test_drawings_as_tables() -> None:
    parts = [part for part in made_up().sections[0].parts if isinstance(part, Drawn)]
    kinds = {type(part.plot): as_table(part) for part in reversed(parts)}
    assert set(kinds) == {Lines, Bars, Heatmap}
    assert kinds[Heatmap].rows[0][1:] == list(ratio_map().values[0])
    assert [row[0] for row in kinds[Lines].rows] == ["softmax", "favor", "window"]


# Python


def test_bench_from_python() -> None:
    report = bench(
        ["error", "decode"], mechanisms=["favor", "linformer"], quick=True, tokens=16, seeds=2,
        head_dims=(8,), head_dim=8, features=(4, 8), positions=(4, 8), rounds=1,
    )  # fmt: skip
    assert [section.name for section in report.sections] == ["error", "decode"]
    names = {row["mechanism"] for row in report.sections[0].measurements}
    assert names == {"favor", "uniform weights"}  # linformer is learned, and not causal
    assert report_json(report_of(report_json(report))) == report_json(report)
    assert report.machine["threads"] == 1


def test_who_is_named_twice_takes_part_once() -> None:
    report = bench(
        ["error"], mechanisms=["elu", "elu", " elu"], tokens=8, head_dim=4, head_dims=(4,), seeds=2,
        norms=(1, 2),
    )  # fmt: skip
    names = [str(row["mechanism"]) for row in report.sections[0].measurements]
    assert names.count("elu") == 4  # two norms, two seeds


def test_bench_all_kinds_are_known() -> None:
    with pytest.raises(ValueError, match="no bench 'taste'"):
        bench(["taste"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="no setting 'sedds'; did you mean 'seeds'"):
        bench(["error"], sedds=3)
    assert KINDS == ("error", "speed", "memory", "decode")


def test_settings_that_are_given_win_over_quick() -> None:
    found = made(ErrorSettings, True, {"seeds": 7, "lengths": (1, 2)})
    assert (found.seeds, found.tokens) == (7, QUICK[ErrorSettings]["tokens"])
    assert made(CostSettings, False, {"lengths": (64, 32, 64)}).lengths == (32, 64)


# The commands


def test_the_error_command_writes_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = "--tokens 16 --head-dim 8 --head-dims 8 --features 4 8 --norms 1 4 --seeds 2"
    files = f"--json {tmp_path}/a.json --html {tmp_path}/a.html --markdown {tmp_path}/a.md"
    code, out, err = run(f"bench error --mechanisms favor elu {small} {files}", capsys)
    assert (code, err) == (0, "")
    assert "favor, 8 features:" in out
    report = read_report(tmp_path / "a.json")
    assert report.sections[0].settings["norms"] == [1, 4]
    assert "favor, 8 features" in (tmp_path / "a.md").read_text()
    assert '"attnlab-bench"' in (tmp_path / "a.html").read_text()
    code, again, err = run(f"bench show {tmp_path}/a.json --markdown {tmp_path}/b.md", capsys)
    assert (code, err) == (0, "")
    assert (tmp_path / "b.md").read_text() == (tmp_path / "a.md").read_text()
    assert again.splitlines()[:5] == out.splitlines()[:5]


def test_a_report_goes_into_the_marked_place_of_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else of the page changes, and a second report takes the first one's place."""
    report, page = tmp_path / "a.json", tmp_path / "page.md"
    report.write_text(json.dumps(report_json(made_up())))
    page.write_text(f"# Costs\n\nBy hand.\n\n{BEGIN}\nan old report\n{END}\n\n## More\u2028\n")
    for _ in range(2):
        code, out, err = run(f"bench show {report} --into {page}", capsys)
        assert (code, err) == (0, "")
        assert out.splitlines()[-1] == str(page)
        text = page.read_text()
        inside = report_markdown(made_up(), level=3).strip()
        assert text == f"# Costs\n\nBy hand.\n\n{BEGIN}\n\n{inside}\n\n{END}\n\n## More\u2028\n"
    assert placed(placed(text, "once"), "twice") == placed(text, "twice")


def test_a_page_may_have_places_with_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, page = tmp_path / "a.json", tmp_path / "page.md"
    report.write_text(json.dumps(report_json(made_up())))
    first, last = marks("kernels")
    assert first == "<!-- attnlab bench kernels -->"
    page.write_text(f"{BEGIN}\none\n{END}\n{first}\ntwo\n{last}\n")
    code, _, err = run(f"bench show {report} --into {page} --mark kernels", capsys)
    assert (code, err) == (0, "")
    inside = report_markdown(made_up(), level=3).strip()
    assert page.read_text() == f"{BEGIN}\none\n{END}\n{first}\n\n{inside}\n\n{last}\n"


@pytest.mark.parametrize("name", ["", "kernels"])
def test_the_page_of_measured_costs_has_its_places(name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "benchmarks.md"
    assert "\n\nhere it is\n\n" in placed(page.read_text(encoding="utf-8"), "here it is", name)


@pytest.mark.parametrize("kind", ["json", "html", "markdown"])
def test_no_file_is_replaced_unasked(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, there = tmp_path / "a.json", tmp_path / "there.html"
    report.write_text(json.dumps(report_json(made_up())))
    there.write_text("mine")
    code, out, err = run(f"bench show {report} --{kind} {there}", capsys)
    assert (code, out) == (2, "")
    assert f"{there}: is there already; give --overwrite or another name" in err
    assert there.read_text() == "mine"
    code, _, err = run(f"bench show {report} --{kind} {there} --overwrite", capsys)
    assert (code, err) == (0, "")
    assert there.read_text() != "mine"


def test_a_report_says_by_which_path_it_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    without = Status(None, "no C compiler was found")
    monkeypatch.setattr("attnlab.mechanisms.compiled.status", lambda: without)
    report = Report([], machine(1), {})
    told = "PyTorch (no C compiler was found)"
    assert report_json(report)["machine"]["kernels"] == told
    assert f"kernels {told}" in " ".join(printed(report).split())
    assert f"kernels {told}" in report_markdown(report)
    assert told in bench_page(report)


def test_a_narrow_terminal_leaves_out_what_tells_least() -> None:
    row: list[Cell] = ["as it is", "3.6071", "+0.002", "30%", "78%", 1.25]
    header = ["attention", "next-token loss", "more", "replaced", "products", "CPU s"]
    for drop, gone in ((["CPU s", "replaced"], ["replaced", "CPU s"]), ([], ["next-token loss"])):
        table = Table("t", header, [row], drop=drop)
        text = printed(Report([Section("a", "A", parts=[table])], {}, {}), 46)
        assert f"For want of width without {' and '.join(gone)}." in " ".join(text.split())
        shown = next(line for line in text.splitlines() if line.startswith("attention"))
        assert [name for name in header if name not in shown] == gone


def test_no_sign_of_markdown_is_seen_at_the_end() -> None:
    assert "\\`" not in report_markdown(made_up()).splitlines()[-1]


@pytest.mark.parametrize("page", ["", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}\n{END}\n{BEGIN}\n{END}"])
def test_a_page_without_its_two_marks_is_left_alone(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.md"
    path.write_text(page)
    code, out, err = run(f"bench error --quick --into {path}", capsys)
    assert (code, out) == (2, "")
    assert f"--into {path}: a report goes between a line {BEGIN} and a line {END}" in err
    assert err.count("\n") == 1
    assert path.read_text() == page


@pytest.mark.parametrize("kind", ["speed", "memory", "decode"])
def test_the_cost_commands(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = "--positions 8 16" if kind == "decode" else "--lengths 64 128"
    code, out, err = run(
        f"bench {kind} --quick --mechanisms elu window:window=8 --heads 1 --head-dim 8 "
        f"--rounds 1 {sizes}",
        capsys,
    )
    assert (code, err) == (0, "")
    for wanted in ("softmax", "elu", "window:window=8", "exponent"):
        assert wanted in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("error --mechanisms favour", "did you mean 'favor'"),
        ("error --mechanisms linformer", "learned parameters"),
        ("error --mechanisms softmax", "is what errors are measured against"),
        ("error --mechanisms favor:fetures=3", "no option 'fetures'"),
        ("error --norms 0", "--norms 0: give numbers above 0"),
        ("error --norms nan", "--norms nan"),
        ("error --features 3", "--features 3: give even numbers"),
        ("error --seeds 0", "--seeds 0: give 1 or more"),
        ("error --tokens 2000000", "--tokens 2,000,000: whole matrices of weights at 9 norms"),
        ("error --features 1000000000", "--features 1,000,000,000: of 256 tokens and head size"),
        ("error --seed 99999999999999999999", "give a number from 0 to 2147483647"),
        ("error --seed -1", "--seed -1: give a number from 0"),
        ("speed --lengths 64", "--lengths 64: give 2 or more lengths, for an exponent"),
        ("speed --lengths 100000000", "--lengths 100,000,000: give 2 or more lengths"),
        ("decode --positions 4096", "--positions 4,096: give 2 or more positions"),
        ("speed --lengths 4 8", "--lengths 4 8: give 16 or more"),
        ("speed --threads 0", "--threads 0: give 1 or more"),
        ("speed --mechanisms 2*elu+1*favor", "one mechanism at a time"),
        ("decode --mechanisms linformer", "no causal form"),
        ("all --mechanisms favour", "did you mean 'favor'"),
        ("error --quick --html {folder}", "is a folder"),
        ("error --quick --json {folder}", "is a folder"),
        ("error --quick --json {folder}/no/a.json", "there is no folder"),
        ("error --quick --html {folder}/a.txt", "NAME.html"),
        ("error --quick --json /proc/a.json", "/proc/a.json: nothing can be written to /proc"),
        ("error --quick --html /proc/a.html", "/proc/a.html: nothing can be written to /proc"),
        ("error --json {folder}/a --markdown {folder}/./a", "--json and --markdown: both name"),
        (
            "error --json {folder}/a.html --html {folder}/../{name}/a.html",
            "--json and --html: both",
        ),
        ("error --quick --into {folder}/no.md", "there is no such page"),
        ("error --quick --mark kernels", "--mark kernels: of which page? give --into FILE too"),
        ("taste", "taste"),
        ("show", "REPORT"),
    ],
)
def test_mistakes_are_one_line(
    arguments: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = arguments.format(folder=tmp_path, name=tmp_path.name)
    code, out, err = run(f"bench {filled}", capsys)
    assert (code, out) == (2, ""), err
    assert words in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_two_names_of_one_file_are_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, link = tmp_path / "page.md", tmp_path / "link.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    link.symlink_to(page)
    code, out, err = run(f"bench error --markdown {link} --into {page} --overwrite", capsys)
    assert (code, out) == (2, "")
    assert f"--markdown and --into: both name {page}; give two files" in err


def test_a_file_that_fails_takes_nothing_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was measured is printed, and the other files are written."""

    def full(*_: object) -> None:
        raise OSError("no room")

    report = tmp_path / "a.json"
    report.write_text(json.dumps(report_json(made_up())))
    monkeypatch.setattr("attnlab.cli.bench.write_json", full)
    files = f"--json {tmp_path}/b.json --markdown {tmp_path}/b.md"
    code, out, err = run(f"bench show {report} {files}", capsys)
    assert code != 0
    assert err == "attnlab: no room\n"
    assert "beats uniform weights" in out
    assert out.splitlines()[-1] == f"{tmp_path}/b.md"
    assert (tmp_path / "b.md").exists()


def test_the_command_line_waits_for_no_torch() -> None:
    program = "import sys, attnlab.cli.bench; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_interrupt_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Section:
        raise KeyboardInterrupt

    monkeypatch.setattr("attnlab.bench.running.measure_errors", interrupted)
    code, _, _ = run(f"bench error --json {tmp_path}/a.json --html {tmp_path}/a.html", capsys)
    assert code == 130
    assert list(tmp_path.iterdir()) == []
