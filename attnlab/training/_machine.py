"""Choose the device, and measure its peak matrix-multiplication speed."""

from __future__ import annotations

import time
from functools import lru_cache

import torch


def choose_device(name: str) -> torch.device:
    """The device of this name; `auto` chooses cuda, mps or cpu. Refuses a missing device."""
    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if available[kind]))
    if not available.get(name, False):
        names = ", ".join(kind for kind, present in available.items() if present)
        raise ValueError(f"device {name!r} is not on this machine; choose from auto, {names}")
    return torch.device(name)


def autocast(device: torch.device) -> torch.autocast:
    """bfloat16 on CUDA devices that support it; float32 elsewhere."""
    supported = device.type == "cuda" and torch.cuda.is_bf16_supported()
    return torch.autocast(device.type, torch.bfloat16, enabled=supported)


@lru_cache(maxsize=4)
def matmul_peak(device: torch.device, size: int = 1024, seconds: float = 0.2) -> float:
    """Floating-point operations per second of a large float32 product, the best of several."""
    a = torch.randn(size, size, device=device)
    best, stop = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < stop or best == float("inf"):
        begin = time.perf_counter()
        a @ a
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return 2 * size**3 / best
