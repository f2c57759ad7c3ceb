"""`bench` in Python and on the command line: its files, and its errors in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from attnlab.bench import bench
from attnlab.bench._machine_info import describe_machine
from attnlab.bench._run_bench import KINDS
from attnlab.bench._settings import CostSettings, ErrorSettings, create_settings
from attnlab.mechanisms._compiled.build import Status
from attnlab.report import (
    Section,
    markers,
    parse_report,
    place_between_markers,
    read_report,
    to_json,
    to_markdown,
)
from tests.support.bench_reports import invented_report
from tests.support.command_line import run

BEGIN, END = markers()

# Python


def test_bench_from_python() -> None:
    report = bench(
        ["error", "decode"], mechanisms=["favor", "linformer"], quick=True, tokens=16, seeds=2,
        head_dims=(8,), head_dim=8, features=(4, 8), positions=(4, 8), rounds=1,
    )  # fmt: skip
    assert [section.name for section in report.sections] == ["error", "decode"]
    names = {row["mechanism"] for row in report.sections[0].measurements}
    assert names == {"favor", "uniform weights"}  # linformer is learned, and not causal
    assert to_json(parse_report(json.loads(to_json(report)))) == to_json(report)
    assert report.machine["threads"] == 1


def test_a_mechanism_named_twice_is_measured_once() -> None:
    report = bench(
        ["error"], mechanisms=["elu", "elu", " elu"], tokens=8, head_dim=4, head_dims=(4,), seeds=2,
        norms=(1, 2),
    )  # fmt: skip
    names = [str(row["mechanism"]) for row in report.sections[0].measurements]
    assert names.count("elu") == 4  # two norms, two seeds


def test_unknown_kinds_and_settings_are_errors() -> None:
    with pytest.raises(ValueError, match="no bench 'taste'"):
        bench(["taste"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="no setting 'sedds'; did you mean 'seeds'"):
        bench(["error"], sedds=3)
    assert KINDS == ("error", "speed", "memory", "decode")


def test_options_override_quick() -> None:
    settings = create_settings(ErrorSettings, True, {"seeds": 7, "lengths": (1, 2)})
    assert (settings.seeds, settings.tokens) == (7, ErrorSettings.quick["tokens"])
    assert create_settings(CostSettings, False, {"lengths": (64, 32, 64)}).lengths == (32, 64)


# The commands


def test_error_command_writes_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = "--tokens 16 --head-dim 8 --head-dims 8 --features 4 8 --norms 1 4 --seeds 2"
    files = f"--json {tmp_path}/a.json --html {tmp_path}/a.html --markdown {tmp_path}/a.md"
    code, out, err = run(f"bench error --mechanisms favor elu {small} {files}", capsys)
    assert (code, err) == (0, "")
    assert "favor, 8 features" in out
    report = read_report(tmp_path / "a.json")
    assert report.sections[0].settings["norms"] == [1, 4]
    assert "favor, 8 features" in (tmp_path / "a.md").read_text()
    assert '"attnlab-report"' in (tmp_path / "a.html").read_text()
    code, again, err = run(f"bench show {tmp_path}/a.json --markdown {tmp_path}/b.md", capsys)
    assert (code, err) == (0, "")
    assert (tmp_path / "b.md").read_text() == (tmp_path / "a.md").read_text()
    assert again.splitlines()[:5] == out.splitlines()[:5]


def test_a_report_goes_between_the_markers_of_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else of the page changes, and a second report replaces the first one."""
    report, page = tmp_path / "a.json", tmp_path / "page.md"
    report.write_text(to_json(invented_report()))
    page.write_text(f"# Costs\n\nBy hand.\n\n{BEGIN}\nan old report\n{END}\n\n## More\u2028\n")
    for _ in range(2):
        code, out, err = run(f"bench show {report} --into {page}", capsys)
        assert (code, err) == (0, "")
        assert out.splitlines()[-1] == str(page)
        text = page.read_text()
        inside = to_markdown(invented_report(), level=3).strip()
        assert text == f"# Costs\n\nBy hand.\n\n{BEGIN}\n\n{inside}\n\n{END}\n\n## More\u2028\n"
    assert place_between_markers(
        place_between_markers(text, "once"), "twice"
    ) == place_between_markers(text, "twice")


def test_a_page_may_have_named_markers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, page = tmp_path / "a.json", tmp_path / "page.md"
    report.write_text(to_json(invented_report()))
    first, last = markers("kernels")
    assert first == "<!-- attnlab bench kernels -->"
    page.write_text(f"{BEGIN}\none\n{END}\n{first}\ntwo\n{last}\n")
    code, _, err = run(f"bench show {report} --into {page} --mark kernels", capsys)
    assert (code, err) == (0, "")
    inside = to_markdown(invented_report(), level=3).strip()
    assert page.read_text() == f"{BEGIN}\none\n{END}\n{first}\n\n{inside}\n\n{last}\n"


@pytest.mark.parametrize("name", ["", "kernels"])
def test_benchmarks_page_has_its_markers(name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "measurements.md"
    assert "\n\nhere it is\n\n" in place_between_markers(
        page.read_text(encoding="utf-8"), "here it is", name
    )


@pytest.mark.parametrize("kind", ["json", "html", "markdown"])
def test_files_are_not_replaced_without_overwrite(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, existing = tmp_path / "a.json", tmp_path / "there.html"
    report.write_text(to_json(invented_report()))
    existing.write_text("old")
    code, out, err = run(f"bench show {report} --{kind} {existing}", capsys)
    assert (code, out) == (2, "")
    assert f"{existing}: already exists; give --overwrite or another name" in err
    assert existing.read_text() == "old"
    code, _, err = run(f"bench show {report} --{kind} {existing} --overwrite", capsys)
    assert (code, err) == (0, "")
    assert existing.read_text() != "old"


def test_machine_info_names_the_kernels_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    without = Status(None, "no C compiler was found")
    monkeypatch.setattr("attnlab.bench._machine_info.status", lambda: without)
    assert describe_machine(1)["kernels"] == "PyTorch (no C compiler was found)"


@pytest.mark.parametrize("page", ["", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}\n{END}\n{BEGIN}\n{END}"])
def test_a_page_without_its_markers_is_left_alone(
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
def test_cost_commands(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = "--positions 8 16" if kind == "decode" else "--lengths 64 128"
    code, out, err = run(
        f"bench {kind} --quick --mechanisms elu window:window=8 --heads 1 --head-dim 8 "
        f"--rounds 1 {sizes}",
        capsys,
    )
    assert (code, err) == (0, "")
    for word in ("softmax", "elu", "window:window=8", "exponent"):
        assert word in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("error --mechanisms favour", "did you mean 'favor'"),
        ("error --mechanisms linformer", "learned parameters"),
        ("error --mechanisms softmax", "errors are measured against it"),
        ("error --mechanisms favor:fetures=3", "no option 'fetures'"),
        ("error --norms 0", "--norms 0: give numbers above 0"),
        ("error --norms nan", "--norms nan"),
        ("error --features 3", "--features 3: give even numbers"),
        ("error --seeds 0", "--seeds 0: give 1 or more"),
        ("error --tokens 2000000", "--tokens 2,000,000: the matrices of weights at 9 norms"),
        (
            "error --features 1000000000",
            "--features 1,000,000,000: the features of 256 tokens with head size",
        ),
        ("error --seed 99999999999999999999", "give a number from 0 to 2147483647"),
        ("error --seed -1", "--seed is -1; give a number from 0"),
        ("speed --lengths 64", "--lengths 64: an exponent needs 2 or more lengths"),
        ("speed --lengths 100000000", "--lengths 100,000,000: an exponent needs 2 or more lengths"),
        ("decode --positions 4096", "--positions 4,096: an exponent needs 2 or more positions"),
        ("speed --lengths 4 8", "--lengths 4 8: give 16 or more"),
        ("speed --threads 0", "--threads 0: give 1 or more"),
        ("speed --mechanisms 2*elu+1*favor", "name one mechanism"),
        ("decode --mechanisms linformer", "no causal form"),
        ("all --mechanisms favour", "did you mean 'favor'"),
        ("error --quick --html {folder}", "is a folder"),
        ("error --quick --json {folder}", "is a folder"),
        ("error --quick --json {folder}/no/a.json", "there is no folder"),
        ("error --quick --html {folder}/a.txt", "NAME.html"),
        ("error --quick --json /proc/a.json", "/proc/a.json: cannot write to /proc"),
        ("error --quick --html /proc/a.html", "/proc/a.html: cannot write to /proc"),
        ("error --json {folder}/a --markdown {folder}/./a", "--json and --markdown both write"),
        (
            "error --json {folder}/a.html --html {folder}/../{name}/a.html",
            "--json and --html both",
        ),
        ("error --quick --into {folder}/no.md", "no.md: does not exist"),
        ("error --quick --mark kernels", "--mark kernels needs a page; give --into FILE too"),
        ("error --text a.txt --model folder", "use attnlab heads MODEL"),
        ("error --model folder --images digits --tolerance 1", "use attnlab heads MODEL"),
        ("taste", "taste"),
        ("show", "REPORT"),
    ],
)
def test_mistakes_are_reported_in_one_line(
    arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = arguments.format(folder=tmp_path, name=tmp_path.name)
    code, out, err = run(f"bench {filled}", capsys)
    assert (code, out) == (2, ""), err
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_link_and_its_file_cannot_both_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, link = tmp_path / "page.md", tmp_path / "link.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    link.symlink_to(page)
    code, out, err = run(f"bench error --markdown {link} --into {page} --overwrite", capsys)
    assert (code, out) == (2, "")
    assert f"--markdown and --into both write {page}; give two files" in err


def test_other_files_are_written_if_one_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is printed, and the other files are written."""

    def raise_disk_full(*_: object, **__: object) -> str:
        raise OSError("disk full")

    report = tmp_path / "a.json"
    report.write_text(to_json(invented_report()))
    monkeypatch.setattr("attnlab.report._json.to_json", raise_disk_full)
    files = f"--json {tmp_path}/b.json --markdown {tmp_path}/b.md"
    code, out, err = run(f"bench show {report} {files}", capsys)
    assert code != 0
    assert err == "attnlab: disk full\n"
    assert "beats uniform weights" in out
    assert out.splitlines()[-1] == f"{tmp_path}/b.md"
    assert (tmp_path / "b.md").exists()


def test_command_line_does_not_import_torch() -> None:
    program = "import sys, attnlab.cli.bench, attnlab.cli.heads; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_interrupt_leaves_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> Section:
        raise KeyboardInterrupt

    monkeypatch.setattr("attnlab.bench._run_bench.measure_errors", interrupt)
    code, _, _ = run(f"bench error --json {tmp_path}/a.json --html {tmp_path}/a.html", capsys)
    assert code == 130
    assert list(tmp_path.iterdir()) == []
