"""Describes the machine and the library versions: times mean nothing without them."""

from __future__ import annotations

import platform
from importlib.metadata import version

import attnlab
from attnlab._cores import available_cores
from attnlab.mechanisms._compiled import status

CPUINFO = "/proc/cpuinfo"


def describe_machine(threads: int) -> dict[str, str | int | None]:
    kernels = status()
    return {
        "processor": _processor_name(),
        "cores": available_cores(),
        "threads": threads,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "kernels": "C" if kernels.active else f"PyTorch ({kernels.reason})",
    }


def _processor_name() -> str:
    try:
        with open(CPUINFO, encoding="utf-8") as file:  # noqa: PTH123 (a device, not a path)
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def library_versions() -> dict[str, str]:
    return {"attnlab": attnlab.__version__, "torch": version("torch")}
