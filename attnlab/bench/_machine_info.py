"""Where it ran, and by which path: times mean nothing without."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

import attnlab
from attnlab.mechanisms._compiled import status

PROCESSORS = "/proc/cpuinfo"


def machine(threads: int) -> dict[str, str | int | None]:
    kernels = status()
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "threads": threads,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "kernels": "C" if kernels.active else f"PyTorch ({kernels.reason})",
    }


def _processor() -> str:
    try:
        with open(PROCESSORS, encoding="utf-8") as file:  # noqa: PTH123 (a device, not a path)
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    return {"attnlab": attnlab.__version__, "torch": version("torch")}
