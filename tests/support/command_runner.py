"""Runs documented commands: attnlab and its scripts in this process, others in their own."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from attnlab.extensions import forget_extensions
from tests.support.command_line import call
from tests.support.command_rules import RunnableCommand, runnable
from tests.support.markdown_blocks import ROOT, DocumentedCommand
from tests.support.studio_servers import run_studio_command

TIMEOUT = 1800.0  # seconds of a program in its own process


class CommandRunner:
    """Runs commands in a folder, one after the other."""

    def __init__(self, folder: Path, *, short: bool = True, skip: Collection[str] = ()) -> None:
        """`skip` has the lines that make need not run, because they run elsewhere."""
        self.folder, self.short, self.skip = folder, short, skip

    def run(self, documented: DocumentedCommand) -> str:
        """What it prints. It must succeed and write the files that it should."""
        if documented.place == "python":
            return self.python(documented.line)
        command = runnable(documented, short=self.short)
        with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as runs:
            patch.setenv("RUNS", runs)  # the folder of the benchmarks' runs
            for name, value in command.environment:
                patch.setenv(name, value)
            forget_extensions()
            code, output = self.program(command)
        expected = command.rule.code if command.rule and self.short else 0
        source = f"{documented.page}: {documented.line}\n{command.line}"
        assert code == expected, f"{source}: {code}\n{output[-3000:]}"
        for name in command.expected_files():
            assert list(self.folder.glob(name)), f"{source}: no {name}"
        return output

    def python(self, block: str) -> str:
        with redirect_stdout(StringIO()) as out:
            exec(compile(block, "block", "exec"), {"__name__": "__main__"})
        return out.getvalue()

    def program(self, command: RunnableCommand) -> tuple[int, str]:
        name, words = command.words[0], list(command.words)
        if words[:2] == ["attnlab", "studio"] and "--help" not in words:
            return studio(words[2:])
        if name == "attnlab":
            return in_this_process(words[1:])
        if name == "python" and words[1].endswith(".py") and self.short:
            return script(words[1:])
        if name == "make":
            return self.make(words[1])
        if name == "torchrun" and "--nnodes" in words:
            return nodes(words)
        if name in ("curl", "ssh"):
            return outside(words)
        if name == ".":
            return outside(["bash", "-e", "-c", f"{command.line} && command -v attnlab"])
        assert name in ("python", "torchrun", "pip"), f"nothing says how to run {name}"
        code, output = outside([str(Path(sys.prefix) / "bin" / name), *words[1:]])
        return 1 if "does not provide the extra" in output else code, output

    def make(self, target: str) -> tuple[int, str]:
        """Runs the commands of a target by the same rules, without the installation."""
        arguments = ["make", "-f", str(ROOT / "Makefile"), "-o", ".venv/.installed", target]
        with pytest.MonkeyPatch.context() as patch:
            for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # of the make that runs the tests
                patch.delenv(name, raising=False)
            code, output = outside([*arguments, *(["-n"] if self.short else [])])
        if not self.short:
            return code, output
        lines = [line.replace(".venv/bin/", "") for line in output.splitlines()]
        assert lines, output
        for command in (DocumentedCommand("Makefile", "text", line) for line in lines if code == 0):
            if runnable(command).line not in self.skip:
                output += self.run(command)
        return code, output


def studio(options: Sequence[str]) -> tuple[int, str]:
    """Start it, wait until it serves, then press Ctrl-C."""
    with run_studio_command(*options) as server:
        assert server.json("/api/runs")["runs"]
        return server.interrupt(), server.origin


def in_this_process(words: Sequence[str]) -> tuple[int, str]:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as error:
        code = call(shlex.join(words))
    return code, out.getvalue() + error.getvalue()


def script(words: Sequence[str]) -> tuple[int, str]:
    """A benchmark or an example. The attnlab commands that it starts run in this process too."""
    before, threads, path = set(sys.modules), torch.get_num_threads(), list(sys.path)
    output = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(output):
        patch.setattr(sys, "argv", list(words))
        patch.setattr(sys, "path", [str(Path(words[0]).resolve().parent), *path])
        patch.setattr(subprocess, "run", in_process_run(subprocess.run))
        try:
            runpy.run_path(words[0], run_name="__main__")
            code: Any = 0
        except SystemExit as ending:
            code = ending.code or 0
            print(code)
        finally:
            torch.set_num_threads(threads)
            folder = str(ROOT / "benchmarks")
            for name in set(sys.modules) - before:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
                    del sys.modules[name]
    return code if isinstance(code, int) else 1, output.getvalue()


def in_process_run(subprocess_run: Any) -> Any:
    """`subprocess.run` that runs attnlab in this process: starting Python takes longer."""

    def run(command: Any, **options: Any) -> Any:
        if list(command[:3]) != [sys.executable, "-m", "attnlab"]:
            return subprocess_run(command, **options)
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out:
            for name, value in (options.get("env") or {}).items():
                patch.setenv(name, value)
            code = call(shlex.join(command[3:]))
        if code and options.get("check"):
            raise subprocess.CalledProcessError(code, command, out.getvalue())
        return subprocess.CompletedProcess(command, code, out.getvalue())

    return run


def environment() -> dict[str, str]:
    """The environment in which this attnlab is imported, whatever the working folder is."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def outside(words: Sequence[str]) -> tuple[int, str]:
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment(), timeout=TIMEOUT, check=False
    )
    return done.returncode, done.stdout + done.stderr


def nodes(words: Sequence[str]) -> tuple[int, str]:
    """The same command as on each of several machines, all of them on this one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = str(Path(sys.prefix) / "bin" / words[0])
    command = [program, *(word.replace("PORT", str(port)) for word in words[1:])]
    count = int(words[words.index("--nnodes") + 1])
    with started(command, count) as processes:
        outputs = [process.communicate(timeout=TIMEOUT)[0] for process in processes]
        return max(abs(process.returncode) for process in processes), "\n".join(outputs)


@contextmanager
def started(command: Sequence[str], count: int) -> Iterator[list[subprocess.Popen[str]]]:
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    processes = [
        subprocess.Popen(command, text=True, env=environment(), **options) for _ in range(count)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


def at_studio(line: str, port: int, token: str) -> str:
    """A line of curl with the port and token of a running studio."""
    return re.sub(r"127\.0\.0\.1:8642", f"127.0.0.1:{port}", line.replace("TOKEN", token))
