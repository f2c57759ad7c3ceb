"""Build the C kernels at first use, on the machine that runs them, and load them.

They are not built at install time: a wheel with a library would be needed for every system, could
not use newer processor instructions (half the speed or less), and installing must not fail without
a compiler. The library stays in the cache folder, under a hash of everything it depends on. Without
a compiler, attnlab computes in PyTorch, and a note says so.
"""

from __future__ import annotations

import ctypes
import hashlib
import multiprocessing
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from attnlab._cache import cache_folder
from attnlab._notes import warn_caller
from attnlab.mechanisms._compiled.library_cache import load_or_build

SWITCH = "ATTNLAB_COMPILED"
SOURCES = Path(__file__).parent
FLAGS = [
    "-O2",
    "-ftree-vectorize",
    "-std=gnu11",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fPIC",
    "-shared",
]
# the instructions of this machine; clang on ARM accepts only the second spelling
TARGETS: tuple[list[str], ...] = (["-march=native"], ["-mcpu=native"], [])
TIMEOUT = 300  # seconds; compiling takes about 5


@dataclass(frozen=True)
class Status:
    """Whether the kernels are loaded, and why or why not."""

    library: ctypes.CDLL | None
    reason: str
    """A clause that follows "because"."""

    @property
    def active(self) -> bool:
        return self.library is not None


@lru_cache(maxsize=1)
def status() -> Status:
    """The kernels, built if necessary; never raises."""
    if os.environ.get(SWITCH, "1") == "0":
        return Status(None, f"the environment variable {SWITCH} is 0")
    compiler = _compiler()
    if compiler is None:
        return Status(
            None, "no C compiler (cc, gcc or clang) was found; install one for more speed"
        )
    try:
        folder = cache_folder("compiled")
        library = load_or_build(folder, _key(compiler), lambda output: _compile(compiler, output))
    except OSError as error:
        hint = "set XDG_CACHE_HOME to a folder of your own"
        return Status(None, f"the cache folder cannot be used ({_short(error)}); {hint}")
    except (RuntimeError, subprocess.SubprocessError) as error:  # also without a home folder
        return Status(None, f"the C kernels could not be built ({_short(error)})")
    _use_pytorch_threads(library)
    return Status(library, f"{compiler.name} built the kernels (in {folder})")


@lru_cache(maxsize=1)
def note_if_off() -> None:
    """A note, once, where the kernels would be used and cannot be.

    Processes of a pool have a parent that gives the note.
    """
    wanted = os.environ.get(SWITCH, "1") != "0" and multiprocessing.parent_process() is None
    if wanted and not status().active:
        warn_caller(
            "the C kernels are off: some mechanisms are computed in PyTorch alone, several times "
            f"slower, because {status().reason} ({SWITCH}=0 hides this note)"
        )


def _compiler() -> Path | None:
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        path = shutil.which(name) if name else None
        if path is not None:
            return Path(path)
    return None


def _key(compiler: Path) -> str:
    """A hash of sources, compiler and processor, so that no other library is loaded."""
    real = compiler.resolve()
    facts = [str(real), str(real.stat().st_mtime_ns), repr((FLAGS, TARGETS)), _processor()]
    texts = [path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob("*.[ch]"))]
    return hashlib.sha256("\0".join(facts + texts).encode()).hexdigest()[:16]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    relevant = ("model name", "flags", "Features", "CPU part")
    return platform.machine() + "".join(
        sorted({line for line in lines if line.startswith(relevant)})
    )


def _compile(compiler: Path, output: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(output.parent)}  # leaves nothing elsewhere if killed
    for target in TARGETS:
        paths = (str(path) for path in (output, SOURCES / "kernels.c"))
        command = [str(compiler), *FLAGS, *target, "-o", *paths, "-lpthread"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT, env=environment
            )
        except OSError as error:
            raise subprocess.SubprocessError(f"{compiler}: {error.strerror}") from error
        if done.returncode == 0:
            return
    raise subprocess.SubprocessError(f"{compiler.name}: {done.stderr}")


def _use_pytorch_threads(library: ctypes.CDLL) -> None:
    """Let the library use PyTorch's OpenMP threads, if they can be found."""
    try:
        torch_library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        team = ctypes.cast(torch_library.GOMP_parallel, ctypes.c_void_p)
    except (OSError, AttributeError):
        return  # the library then starts its own threads
    library.attnlab_use_team.argtypes = [ctypes.c_void_p]
    library.attnlab_use_team.restype = None
    library.attnlab_use_team(team)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
