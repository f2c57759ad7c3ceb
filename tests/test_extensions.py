"""Mechanisms, tasks and claims from outside: files, modules, entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnlab import MECHANISMS, load_extension
from attnlab.extensions import VARIABLE, forget_extensions, load_extensions, load_named_extensions
from attnlab.tasks.registry import TASKS
from tests.support.command_line import run
from tests.support.registries import restored_registries

ROOT = Path(__file__).parent.parent

EXAMPLE = Path(__file__).parents[1] / "examples" / "squared_relu_attention.py"
CLAIM = """
from attnlab.claims._claim import Bars, Estimate, Evidence, claim
from attnlab.claims.judges import Below


@claim(
    "mine",
    topic="own",
    source="paper",
    statement="one is less than two",
    why="Because.",
    judge=Below(2.0, "a number"),
    control="three",
)
def mine(trial):
    value = 3.0 if trial.control else 1.0
    number = Estimate(value, value, value)
    return Evidence(number, Bars("a number", {"it": number}))
"""


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    with restored_registries():
        yield


def installed(folder: Path, entries: str, **modules: str) -> Path:
    """A folder as pip installs it: modules, and the metadata of a distribution."""
    info = folder / "fake-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(entries)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def in_process(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, with `path` among its site packages."""
    paths = [each for each in (str(path or ""), os.environ.get("PYTHONPATH", "")) if each]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment
    )


# Files


def test_the_option_reaches_a_command_and_its_processes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = run("mechanisms squared_relu", capsys)
    assert code == 2
    assert "attnlab --extension FILE.py" in err
    code, out, _ = run(f"--extension {EXAMPLE} mechanisms", capsys)
    assert code == 0
    assert "\nsquared_relu" in out
    program = "import attnlab; attnlab.create_mechanism('squared_relu', head_dim=4, heads=2)"
    done = in_process("-c", program)  # inherits the variable that the option has set
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--extension", ["--extension has no file"]),
        ("--extension= mechanisms", ["--extension has no file"]),
        ("--extension nowhere.py mechanisms", ["nowhere.py", "does not exist"]),
        ("--extension no.such.module mechanisms", ["no.such.module", "cannot be imported"]),
    ],
)
def test_a_wrong_option_is_one_line(
    arguments: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(arguments, capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert all(word in err for word in words), err


def test_a_file_with_a_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own_claim.py"
    path.write_text(CLAIM)
    assert [each.name for each in load_extension(path)] == ["mine"]
    assert [each.name for each in load_extension(path)] == ["mine"]  # again, as in a notebook
    code, out, err = run("claims mine", capsys)
    assert code == 0, err
    assert "mine  holds" in out
    path.write_text(CLAIM.replace('"mine",', '"value-length",'))
    with pytest.raises(ValueError, match=r"own_claim.py: .*'value-length'.*choose another"):
        load_extension(path)
    path.write_text(CLAIM.replace('"own"', '"none"'))
    with pytest.raises(ValueError, match=r"own_claim.py: .*topic 'none'; use retrieve"):
        load_extension(path)


# Entry points


def test_entry_points_are_loaded(tmp_path: Path) -> None:
    """An entry point names a module, or one object."""
    entries = (
        "[attnlab.mechanisms]\nmine = fake_mechanism:SquaredRelu\nagain = fake_module\n"
        "[attnlab.claims]\nmine = fake_claims\n"
    )
    text = EXAMPLE.read_text().replace("@register_mechanism\n", "")
    modules = {
        "fake_mechanism": text,
        "fake_module": text.replace('"squared_relu"', '"logistic"'),
        "fake_claims": CLAIM,
    }
    folder = installed(tmp_path, entries, **modules)
    done = in_process("-m", "attnlab", "mechanisms", path=folder)
    assert done.returncode == 0, done.stderr
    assert "\nsquared_relu" in done.stdout
    assert "\nlogistic" in done.stdout
    done = in_process(
        "-m", "attnlab", "mechanisms", "check", "logistic", "--examples=1", path=folder
    )
    assert done.returncode == 0, done.stderr
    done = in_process("-m", "attnlab", "claims", "--list", path=folder)
    assert "mine" in done.stdout


def test_a_broken_package_prints_one_line_and_does_not_stop_others(tmp_path: Path) -> None:
    entries = "[attnlab.mechanisms]\nbad = fake_broken\nempty = fake_empty\ntaken = fake_taken:A\n"
    built_in = "from attnlab.mechanisms.softmax import Softmax as A"
    folder = installed(tmp_path, entries, fake_broken="1 / 0", fake_empty="", fake_taken=built_in)
    done = in_process("-m", "attnlab", "--help", path=folder)
    assert (done.returncode, done.stderr) == (0, "")
    done = in_process("-m", "attnlab", "mechanisms", path=folder)
    assert done.returncode == 0
    assert "\nsoftmax" in done.stdout
    lines = sorted(done.stderr.splitlines())
    assert len(lines) == 3, lines
    assert lines[0].startswith("attnlab: entry point bad of fake 1.2: cannot be loaded (Zero")
    assert "fake_empty defines nothing for attnlab.mechanisms" in lines[1]
    assert "choose another name" in lines[2]


def test_help_does_not_load_entry_points(tmp_path: Path) -> None:
    entries = "[attnlab.mechanisms]\nslow = fake_slow\n[attnlab.claims]\nslow = fake_slow\n"
    folder = installed(tmp_path, entries, fake_slow="raise SystemExit('loaded')")
    done = in_process("-m", "attnlab", "--help", path=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--extension FILE.py" in done.stdout
    program = "import sys, attnlab.cli; print('torch' in sys.modules)"
    assert in_process("-c", program).stdout == "False\n"


def test_a_group_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "import os; os.environ['TIMES'] = os.environ.get('TIMES', '') + 'x'; 1 / 0"
    monkeypatch.setenv("TIMES", "")
    monkeypatch.syspath_prepend(
        installed(tmp_path, "[attnlab.mechanisms]\nonce = fake_once\n", fake_once=module)
    )
    forget_extensions()
    for _ in range(3):
        load_extensions("attnlab.mechanisms")
        assert "softmax" in list(MECHANISMS)
    assert os.environ["TIMES"] == "x"


# Tasks

TASK = """
from attnlab.tasks.kind import TaskKind

TASK = TaskKind("own-task", "A task of a test.", headline="loss", better="lower", recipe="no:one")
"""


def test_a_file_with_a_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own_task.py"
    path.write_text(TASK)
    code, out, err = run(f"--extension {path} --help", capsys)
    assert code == 0, err
    assert "own-task" in out
    assert TASKS["own-task"].help == "A task of a test."
    for command in ("own-task", "compare own-task"):  # it names a module that is not there
        code, out, err = run(f"--extension {path} {command}", capsys)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert "no:one: cannot be loaded (No module named 'no')" in err


def test_a_task_may_have_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also that of something in the module which makes its commands."""
    own = (ROOT / "examples" / "own_task.py").read_text(encoding="utf-8")
    (tmp_path / "own.py").write_text(own.replace('name = "letters"', 'name = "load"'))
    code, out, error = run(f"--extension {tmp_path / 'own.py'} load train --help", capsys)
    assert code == 0, error
    assert "--steps" in out


def test_files_of_one_name_are_different_extensions(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "own.py").write_text((ROOT / "examples" / "own_task.py").read_text())
    (tmp_path / "other" / "own.py").write_text("x = 1\n")
    load_extension(tmp_path / "own.py")
    with pytest.raises(ValueError, match="defines no extension"):
        load_extension(tmp_path / "other" / "own.py")


def test_a_broken_file_raises_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.py").write_text("1 / 0\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "bad.py"))
    forget_extensions()
    for _ in range(2):
        with pytest.raises(ValueError, match="ZeroDivisionError"):
            load_named_extensions()
