"""Every command, and the studio's worker, refuse a stranger's configuration in one line."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from attnlab.models import StackConfig
from attnlab.studio._http_errors import RequestError
from attnlab.studio._worker import EventSender
from attnlab.studio._worker_runs import run_capability
from attnlab.tasks.language import train_language
from attnlab.training import Settings
from tests.support.command_line import call
from tests.support.memory_limit import extra_memory

SIZES: dict[str, Any] = {"context": 13, "width": 12, "layers": 2, "heads": 3}
LARGE = 2**30


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "text.txt").write_text("to be or not to be. " * 40, encoding="utf-8")
    train_language(
        [folder / "text.txt"],
        out=folder / "run",
        model=StackConfig(vocabulary=1, **SIZES),
        settings=Settings(steps=1),
        quiet=True,
    )
    return folder


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"layers": 10**9}, "layers is 1,000,000,000; give at most 2,048"),
        ({"attention": "favor:features=1000000000"}, "features is 1,000,000,000; give at most"),
        ({"attention": "favor:features=30000"}, "the configured model is larger than the file"),
        ({"width": "x"}, "width is 'x'; give a whole number"),
    ],
    ids=str,
)
def test_every_command_refuses_it_in_one_line(
    changes: dict[str, Any], problem: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trained / "run" / "config.json"
    good = path.read_text(encoding="utf-8")
    config = json.loads(good)
    config["model"] |= changes
    path.write_text(json.dumps(config), encoding="utf-8")
    run, text = trained / "run", trained / "text.txt"
    try:
        for command in (
            f"language write {run} --prompt be",
            f"language evaluate {run} {text}",
            f"look {run} --text be --out {trained / 'page.html'}",
            f"heads {run} --text {text}",
        ):
            with extra_memory(LARGE):
                code = call(command)
            printed = capsys.readouterr()
            assert code == 2, command
            assert problem in printed.err
            assert printed.err.count("\n") == 1
        with extra_memory(LARGE), pytest.raises(RequestError, match=re.escape(problem)) as caught:
            run_capability("generate", {"folder": str(run)}, b"", EventSender(io.BytesIO()))
        assert caught.value.status == 409
    finally:
        path.write_text(good, encoding="utf-8")
