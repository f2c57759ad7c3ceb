"""Builds the C kernels on the machine that will run them, once, and loads them.

Not at install: a wheel with a library inside would have to be built for every system and could use
no instruction that the oldest of them lacks (half the speed or less), and an install must not fail
for want of a compiler. At first use the machine is known. The library stays in the cache folder,
under a name made of all that it depends on. Without a compiler attnlab computes in PyTorch alone.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from attnlab._safe_files import write_atomically

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
# this machine's own instructions: clang on ARM knows the second spelling alone
TARGETS: tuple[list[str], ...] = (["-march=native"], ["-mcpu=native"], [])
PATIENCE = 300  # seconds; it takes about 5


@dataclass(frozen=True)
class Status:
    """Whether the kernels are there, and why or why not."""

    library: ctypes.CDLL | None
    reason: str
    """Half a sentence for people."""

    @property
    def active(self) -> bool:
        return self.library is not None


@lru_cache(maxsize=1)
def status() -> Status:
    """Builds if need be; never raises."""
    if os.environ.get(SWITCH, "1") == "0":
        return Status(None, f"the environment says {SWITCH}=0")
    compiler = _compiler()
    if compiler is None:
        return Status(
            None, "no C compiler (cc, gcc or clang) was found; install one for more speed"
        )
    try:
        path = cache_folder() / f"kernels-{_key(compiler)}.so"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lambda part: _compile(compiler, part))
        library = ctypes.CDLL(str(path))
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # no home folder is one
        return Status(None, f"the C kernels could not be built ({_short(error)})")
    _join_team(library)
    return Status(library, f"{compiler.name} has built the kernels (in {path.parent})")


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "attnlab" / "compiled"


def _compiler() -> Path | None:
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        found = shutil.which(name) if name else None
        if found is not None:
            return Path(found)
    return None


def _key(compiler: Path) -> str:
    """Of sources, compiler and processor: a library for another must not be loaded."""
    real = compiler.resolve()
    facts = [str(real), str(real.stat().st_mtime_ns), repr((FLAGS, TARGETS)), _processor()]
    texts = [path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob("*.[ch]"))]
    return hashlib.sha256("\0".join(facts + texts).encode()).hexdigest()[:16]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    telling = ("model name", "flags", "Features", "CPU part")
    return platform.machine() + "".join(
        sorted({line for line in lines if line.startswith(telling)})
    )


def _compile(compiler: Path, to: Path) -> None:
    for target in TARGETS:
        paths = (str(path) for path in (to, SOURCES / "kernels.c"))
        command = [str(compiler), *FLAGS, *target, "-o", *paths, "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode == 0:
            return
    raise subprocess.SubprocessError(f"{compiler.name}: {done.stderr}")


def _join_team(library: ctypes.CDLL) -> None:
    """Give the library PyTorch's own OpenMP threads, where they can be found."""
    try:
        own = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        team = ctypes.cast(own.GOMP_parallel, ctypes.c_void_p)
    except (OSError, AttributeError):
        return  # it starts threads itself
    library.attnlab_use_team.argtypes = [ctypes.c_void_p]
    library.attnlab_use_team.restype = None
    library.attnlab_use_team(team)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
