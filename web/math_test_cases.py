"""Random instances of the playground's mathematics, computed by attnlab in float64.

python web/math_test_cases.py   rewrites web/src/playground/math-test-cases.json; a test compares it
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnlab.mask import Mask
from attnlab.mechanisms._random_directions import sample_directions
from attnlab.mechanisms.favor import Favor
from attnlab.mechanisms.fourier import Fourier
from attnlab.mechanisms.softmax import Softmax
from attnlab.position import RotaryPositions, SinusoidalPositions

PATH = Path(__file__).parent / "src" / "playground" / "math-test-cases.json"
INSTANCES_PER_KIND = 6


def attention(random: np.random.Generator) -> dict[str, Any]:
    n, d, m = random.integers(2, 8, 3)
    beta = float(random.uniform(0.1, 5))
    q, keys, values = random.normal(size=d), random.normal(size=(n, d)), random.normal(size=(n, m))
    allowed = random.random(n) < 0.7
    mask = Mask(keys=torch.from_numpy(allowed)[None])
    softmax = Softmax(head_dim=int(d), heads=1, beta=beta)
    weights = softmax.weights(heads(q[None]), heads(keys), mask)[0, 0, 0].numpy()
    positive = weights[weights > 0]
    return {
        "q": q, "keys": keys, "values": values, "beta": beta, "allowed": allowed,
        "weights": weights, "output": weights @ values,
        "entropy": -(positive * np.log(positive)).sum(),
    }  # fmt: skip


def causal(random: np.random.Generator) -> dict[str, Any]:
    n, d = random.integers(2, 7, 2)
    beta = float(random.uniform(0.1, 3))
    tokens = random.normal(size=(n, d))
    query, value = random.normal(size=(2, d, d))
    softmax = Softmax(head_dim=int(d), heads=1, beta=beta)
    weights = softmax.weights(heads(tokens @ query.T), heads(tokens), Mask(causal=True))
    weights = weights[0, 0].numpy()
    return {
        "tokens": tokens, "query": query, "value": value, "beta": beta, "weights": weights,
        "outputs": weights @ (tokens @ value.T),
    }  # fmt: skip


def noise(random: np.random.Generator) -> dict[str, Any]:
    """k ~ N(mu, isotropic I + radial mu mu^T), the mean of the heads' outputs, over samples."""
    n, samples, count = (int(each) for each in random.integers(2, 6, 3))
    keys, values, queries = (random.normal(size=(size, 2)) for size in (n, n, count))
    isotropic, radial = float(random.uniform(0, 0.5)), random.uniform(0, 1, n)
    beta, normals = float(random.uniform(0.5, 3)), random.normal(size=(samples, n, 3))
    noisy = keys + math.sqrt(isotropic) * normals[..., :2]
    noisy = noisy + np.sqrt(radial)[:, None] * normals[..., 2:] * keys  # (samples, n, 2)
    softmax = Softmax(head_dim=2, heads=1, beta=beta)
    query_rows = torch.from_numpy(queries).expand(samples, 1, count, 2)
    weights = softmax.weights(query_rows, torch.from_numpy(noisy)[:, None], Mask())[:, 0].numpy()
    outputs = (weights @ values).mean(1)  # (samples, 2)
    return {
        "keys": keys, "isotropic": isotropic, "radial": radial, "normals": normals,
        "queries": queries, "values": values, "beta": beta, "mean": outputs.mean(0),
        "variance": outputs.var(0, ddof=1).sum(),
    }  # fmt: skip


def features(random: np.random.Generator, index: int) -> dict[str, Any]:
    n, d, count = (int(each) for each in random.integers(2, 7, 3))
    beta = float(random.uniform(0.2, 1))
    kind = (Favor, Fourier)[index % 2]
    q, keys = heads(random.normal(size=(1, d))), heads(random.normal(size=(n, d)))
    mechanism = kind(
        head_dim=d, heads=1, features=2 * count, orthogonal=index % 4 < 2, seed=index, beta=beta
    )
    query_features, key_features = (
        mechanism.phi(each).divide_by_exp(torch.zeros(()))[0, 0] for each in (q, keys)
    )
    return {
        "kind": ("positive", "trigonometric")[index % 2], "q": q[0, 0, 0], "keys": keys[0, 0],
        "draws": mechanism.draws, "beta": beta,
        "weights": mechanism.weights(q, keys, Mask())[0, 0, 0],
        "kernel": (query_features @ key_features.mT)[0],
    }  # fmt: skip


def orthogonal(index: int) -> dict[str, Any]:
    count, size = 2 * index + 3, index % 3 + 2
    random, normals = torch.Generator().manual_seed(index), []
    for first in range(0, count, size):  # in the same order as sample_directions
        for rows in (size, min(size, count - first)):
            normals.append(torch.randn(rows, size, generator=random, dtype=torch.float64).flatten())
    draws = sample_directions(count, size, index, orthogonal=True)
    return {"count": count, "size": size, "normals": torch.cat(normals), "draws": draws}


def positions(random: np.random.Generator) -> dict[str, Any]:
    width, base = 2 * int(random.integers(1, 7)), float(random.uniform(5, 10_000))
    t, steps = int(random.integers(0, 2000)), int(random.integers(0, 50))
    code, x = SinusoidalPositions(width, base), random.normal(size=width)
    at = torch.tensor([[t]])
    return {
        "width": width, "base": base, "t": t, "steps": steps, "code": code(at)[0, 0],
        "shift": code.shift_matrix(steps), "x": x,
        "turned": RotaryPositions(width, base)(heads(x[None]), at)[0, 0, 0],
    }  # fmt: skip


def numbers(seed: int) -> dict[str, Any]:
    """Uniform numbers of mulberry32, and normal ones from them by Box and Muller."""
    state, uniforms = ((seed + 1) * 0x9E3779B1) % 2**32, []
    for _ in range(8):
        state = (state + 0x6D2B79F5) % 2**32
        t = (state ^ state >> 15) * (1 | state) % 2**32
        t = (t + (t ^ t >> 7) * (61 | t)) % 2**32 ^ t
        uniforms.append((t ^ t >> 14) / 2**32)
    normals = []
    for first, second in zip(uniforms[::2], uniforms[1::2], strict=True):
        size, angle = math.sqrt(-2 * math.log(1 - first)), 2 * math.pi * second
        normals += [size * math.cos(angle), size * math.sin(angle)]
    return {"seed": seed, "uniforms": uniforms, "normals": normals}


def heads(rows: Any) -> torch.Tensor:
    """(T, D) -> (1, 1, T, D)"""
    return torch.as_tensor(rows)[None, None]


def to_plain_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: to_plain_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [to_plain_json(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic | torch.Tensor) else value


def instances() -> dict[str, Any]:
    random, previous_dtype = np.random.default_rng(0), torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # also for buffers of draws and tables
    try:
        all_instances = {
            "attention": [attention(random) for _ in range(INSTANCES_PER_KIND)],
            "causal": [causal(random) for _ in range(INSTANCES_PER_KIND)],
            "noise": [noise(random) for _ in range(INSTANCES_PER_KIND)],
            "features": [features(random, index) for index in range(2 * INSTANCES_PER_KIND)],
            "orthogonal": [orthogonal(index) for index in range(INSTANCES_PER_KIND)],
            "positions": [positions(random) for _ in range(INSTANCES_PER_KIND)],
            "random": [numbers(seed) for seed in (0, 1, 2, 12345, 2**31)],
        }
        return to_plain_json(all_instances)
    finally:
        torch.set_default_dtype(previous_dtype)


def main() -> None:
    PATH.write_text(json.dumps(instances(), separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
