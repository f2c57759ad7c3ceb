from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from attnlab.claims import Claim, Result, run_claim
from attnlab.claims._claim import Size
from attnlab.tasks.knowledge._world import World, WorldConfig, make_world
from attnlab.tasks.summary import _docstrings as docstrings
from tests.support.browser import Watched, chromium
from tests.support.course_files import write_files
from tests.support.knowledge_runs import make_runs
from tests.support.private_cache import private_cache

# No deadline: the machines are shared, and a slow example is not a wrong one. The same examples in
# every run, so that a failure in CI is the failure at home.
hypothesis.settings.register_profile("attnlab", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("attnlab")
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def default_world() -> World:
    return make_world(WorldConfig())


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small world, and one run of each kind; nobody changes them."""
    folder = tmp_path_factory.mktemp("knowledge")
    make_runs(folder)
    return folder


@pytest.fixture(scope="module")
def all_runs(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each kind."""
    from tests.support.studio_client import make_runs_of_each_kind

    return make_runs_of_each_kind(tmp_path_factory.mktemp("studio") / "runs", made)


@pytest.fixture(scope="module")
def client(all_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a studio over these runs and a Hugging Face model."""
    from tests.support.small_transformers import small
    from tests.support.studio_servers import studio_client

    model = tmp_path_factory.mktemp("models") / "gpt2"
    small("gpt2").save_pretrained(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", private_cache(tmp_path_factory.mktemp("cache")))
        with studio_client(all_runs, [model]) as client:
            yield client


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own with all of it."""
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def course_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own with files like the course's."""
    monkeypatch.chdir(tmp_path)
    return write_files(tmp_path)


@pytest.fixture
def few_docstrings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three packages of the standard library: all docstrings would take a minute to parse."""
    library = docstrings.package_roots()[docstrings.STANDARD]
    few = {name: library / name for name in ("email", "json", "logging")}
    monkeypatch.setattr(docstrings, "package_roots", lambda: few)
    monkeypatch.setenv("XDG_CACHE_HOME", private_cache(tmp_path / "cache"))


@pytest.fixture
def claims_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims in this process: to start one for each costs more than most of them."""

    def run_here(wanted: list[Claim], *, seed: int, size: Size, **_: object) -> Iterator[Result]:
        return (run_claim(each, seed, size) for each in wanted)

    monkeypatch.setattr("attnlab.cli.claims.run_claims", run_here)


@pytest.fixture(scope="session")
def course_data() -> Path:
    """The course's own files."""
    folder = Path(os.environ.get("ATTNLAB_DATA", "")) / "knowledge"
    names = ("wiki.txt", "birth_places_train.tsv", "birth_dev.tsv")
    if "ATTNLAB_DATA" not in os.environ or not all((folder / name).exists() for name in names):
        pytest.skip("the course's files are not here: ATTNLAB_DATA names no folder with them")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """For one file: while it runs, nobody else in this thread may have an event loop."""
    with chromium() as started:
        yield started


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    made = Watched(browser)
    yield made
    made.close()


@pytest.fixture
def window(browser: Any, server: Any) -> Iterator[Any]:
    """A browser window on the studio that the test file's own `server` started."""
    from tests.support.studio_window import Window

    made = Window(browser, server)
    yield made
    made.close()
