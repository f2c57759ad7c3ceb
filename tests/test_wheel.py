"""The package as users install it: built, then used in a new environment, not in the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import attnlab
from tests.support.c_compiler import needs_compiler

ROOT = Path(__file__).parent.parent
SIZES = "--layers 1 --heads 2 --width 8 --context 16 --batch-tokens 32 --steps 2"


def check_output(
    *words: str | Path, folder: Path, environment: dict[str, str] | None = None
) -> str:
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{words}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("built")
    build = (sys.executable, "-m", "hatchling", "build", "-d", folder)
    check_output(*build, "-t", "sdist", folder=ROOT)
    with tarfile.open(folder / f"attnlab-{attnlab.__version__}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    check_output(*build, "-t", "wheel", folder=folder / f"attnlab-{attnlab.__version__}")
    return folder


def package_files() -> set[str]:
    paths = (ROOT / "attnlab").rglob("*")
    files = {path.relative_to(ROOT) for path in paths if path.is_file()}
    return {path.as_posix() for path in files if "__pycache__" not in path.parts}


def test_the_wheel_has_the_files_of_the_package_and_no_others(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == package_files()
    assert {"attnlab/mechanisms/_compiled/kernels.c", "attnlab/py.typed"} <= names
    assert any(re.fullmatch("attnlab/studio/static/.*[.]js", name) for name in names)


def test_the_source_distribution_has_no_other_files(built: Path) -> None:
    """Above all no web/node_modules."""
    with tarfile.open(built / f"attnlab-{attnlab.__version__}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    others = {".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert names == package_files() | others


def requirements_of(package: Distribution, extra: str = "") -> Iterator[tuple[str, str]]:
    """Names of the packages that it requires, directly or not, each with an extra or none."""
    for each in map(Requirement, package.requires or []):
        if each.marker is None or each.marker.evaluate({"extra": extra}):
            yield from ((each.name, wanted) for wanted in ("", *each.extras))


def link_requirements(package: Distribution, site_packages: Path) -> None:
    """Put links to what pip would install, and nothing else, into an environment."""
    waiting, done = list(requirements_of(package)), set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in done:
            continue
        done.add((name, extra))
        required = distribution(name)
        waiting += requirements_of(required, extra)
        for top in {file.parts[0] for file in required.files or []} - {"..", "__pycache__"}:
            if not (site_packages / top).exists():
                (site_packages / top).symlink_to(Path(str(required.locate_file(top))))


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and what it requires. Nothing is downloaded."""
    folder = tmp_path_factory.mktemp("environment")
    check_output(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder)
    python, (wheel,) = folder / "bin" / "python", built.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
    check_output(*pip, "--no-deps", "--no-index", wheel, folder=folder)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    (package,) = Distribution.discover(name="attnlab", path=[str(site_packages)])
    link_requirements(package, site_packages)
    return folder


@needs_compiler
def test_the_wheel_works_in_a_new_environment(installed: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}

    def call(program: str, *words: str) -> str:
        path = installed / "bin" / program
        return check_output(path, *words, folder=tmp_path, environment=environment)

    location = call("python", "-c", "import attnlab; print(attnlab.__file__)")
    assert Path(location.strip()).is_relative_to(installed)
    assert call("attnlab", "--version").strip() == attnlab.__version__
    (tmp_path / "text.txt").write_text("to be or not to be. " * 50)
    train = f"language train text.txt --attention favor {SIZES} --out run"
    call("attnlab", *train.split())
    assert list((tmp_path / ".cache/attnlab/compiled").glob("kernels-*.so"))
    assert "computed in C, because" in " ".join(call("attnlab", "mechanisms").split())
    call("attnlab", "look", "run", "--text", "to be", "--out", "page.html")
    (script,) = (ROOT / "attnlab/interpret").rglob("look*.js")
    assert script.read_text(encoding="utf-8")[:1000] in (tmp_path / "page.html").read_text()
