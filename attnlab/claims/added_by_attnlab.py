"""Statements that the literature gets wrong or leaves open, tested by attnlab.

Letters: N repeats, n keys, m features, d dimensions, B batch, T tokens, V words, W width.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from attnlab.claims._claim import Bars, Evidence, Lines, Size, Trial, claim, mean_interval
from attnlab.claims._pretrained_models import SENTENCES, needs_models, trained_reader
from attnlab.claims.judges import Above, Below, OnlyWhen
from attnlab.claims.trained_words import rank_correlation
from attnlab.mechanisms._random_directions import sample_directions
from attnlab.report import Series

# What a token contributes


@claim(
    "value-length",
    topic="own",
    source="paper",
    statement="how much a token moves a head's output is its weight times the length of its value",
    quoted=True,
    why="""Leave token i out and rescale the other weights to sum to 1. The output becomes
    (c - a_i v_i) / (1 - a_i), so it moves by exactly a_i / (1 - a_i) |v_i - c|. What counts is how
    far a value is from the output, not how far it is from 0. If all values share a common part u,
    then c contains it too, and it cancels in v_i - c. But |v_i| is then about |u| for every token,
    and a_i |v_i| ranks tokens like the weights alone. Values of a trained encoder have a common
    part of about half their spread.""",
    reference="Kobayashi et al. 2020, Attention is not only a weight, arXiv 2004.10102",
    judge=OnlyWhen(
        Above(0.95, "rank correlation of a |v| with leaving the token out"),
        "the common part of the values / their spread",
        at_least=False,
    ),
    control="lengths and weights of other tokens",
)
def value_length(trial: Trial) -> Evidence:
    repeats = trial.pick(30, 300)
    lines: dict[str, list[tuple[float, float]]] = {}
    sweep = []
    for common_part in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0):
        correlations: dict[str, list[float]] = {}
        for repeat in range(repeats):
            weights, values = _sample_head(common_part, trial.generator(repeat))
            movement = leave_one_out(weights, values)
            for name, score in _contribution_scores(weights, values).items():
                if trial.control and name == "a |v|":
                    score = score.roll(1)
                correlations.setdefault(name, []).append(rank_correlation(score, movement))
        for name, measured in correlations.items():
            lines.setdefault(name, []).append((common_part, mean_interval(measured).value))
        sweep.append((common_part, mean_interval(correlations["a |v|"])))
    return Evidence(
        sweep[-1][1],
        Lines(
            "common part of the values / their spread",
            "rank correlation with leaving the token out",
            [Series(name, points) for name, points in lines.items()],
        ),
        sweep,
        details=_measure_minilm() if trial.size == "full" and not needs_models("minilm")() else {},
    )


def _sample_head(
    common_part: float, generator: torch.Generator, n: int = 32, d: int = 24
) -> tuple[Tensor, Tensor]:
    """Weights (n,), and values (n, d) of different lengths around a common part."""

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64)

    weights, direction = normal(n).softmax(0), normal(d)
    spread = normal(n, d) / d**0.5 * (normal(n, 1) / 2).exp()
    return weights, spread + common_part * direction / direction.norm()


def leave_one_out(weights: Tensor, values: Tensor) -> Tensor:
    """(n,): how far the output moves when each token is left out, by definition."""
    output = weights @ values
    movements = []
    for i in range(len(weights)):
        rest = weights.clone()
        rest[i] = 0
        movements.append((rest / rest.sum() @ values - output).norm())
    return torch.stack(movements)


def _contribution_scores(weights: Tensor, values: Tensor) -> dict[str, Tensor]:
    distances = (values - weights @ values).norm(dim=-1)
    return {
        "a": weights,
        "a |v|": weights * values.norm(dim=-1),
        "a / (1 - a) |v - c|": weights / (1 - weights) * distances,
    }


def _measure_minilm() -> dict[str, float | int | str]:
    """The same correlations on all heads of a real model."""
    correlations: dict[str, list[float]] = {}
    common_parts = []
    for text in SENTENCES[:3]:
        for layer in trained_reader("minilm").read(text, qkv=True).layers:
            assert layer.weights is not None
            assert layer.v is not None
            for rows, values in zip(layer.weights.double(), layer.v.double(), strict=True):
                mean = values.mean(0)
                common_parts.append(float(mean.norm() / (values - mean).norm(dim=-1).mean()))
                for weights in rows:
                    movement = leave_one_out(weights, values)
                    for name, score in _contribution_scores(weights, values).items():
                        correlations.setdefault(name, []).append(rank_correlation(score, movement))
    details: dict[str, float | int | str] = {
        f"in MiniLM, {name}": round(mean_interval(measured).value, 3)
        for name, measured in correlations.items()
    }
    return details | {"in MiniLM, common part": round(mean_interval(common_parts).value, 2)}


# Sinks


@claim(
    "off-by-one",
    topic="own",
    source="paper",
    statement="heads park weight on the first token because softmax cannot say nothing; "
    "1 added to its denominator ends that",
    quoted=True,
    why="""e^s_i / (1 + sum e^s_j) can be 0 for every key, so no head has to park weight. But
    training need not find that solution. The added 1 = e^0 acts as one more key with score 0 and
    value 0. It competes with the first token, whose value training can make 0 as well, and whose
    score it can raise without bound. Gradient descent uses both at once, and the first token
    nearly always wins. Parking ends only with weights that do not compete, 1 / (1 + e^-s_i) for
    each key separately. The task here is small: some words must copy the word before them, all
    others must output nothing.""",
    reference="Miller 2023, Attention is off by one; Xiao et al. 2023, arXiv 2309.17453; "
    "Gu et al. 2024, When attention sink emerges in language models, arXiv 2410.10781",
    judge=Below(0.1, "weight on the first token from words that should output nothing"),
    control="sigmoid weights, which do not compete",
)
def off_by_one(trial: Trial) -> Evidence:
    runs = {
        kind: [
            _train_idle_head_cached(kind, trial.seed, trial.size, repeat)
            for repeat in range(trial.pick(4, 8))
        ]
        for kind in ("softmax", "off by one", "sigmoid")
    }
    judged = runs["sigmoid" if trial.control else "off by one"]
    return Evidence(
        mean_interval([weight for weight, _ in judged]),
        Bars(
            "weight on the first token",
            {
                kind: mean_interval([weight for weight, _ in results])
                for kind, results in runs.items()
            },
        ),
        details={
            f"squared error, {kind}": round(mean_interval([loss for _, loss in results]).value, 4)
            for kind, results in runs.items()
        },
    )


VOCABULARY, COPYING, LENGTH = 12, 3, 16


@lru_cache(maxsize=64)
def _train_idle_head_cached(kind: str, seed: int, size: Size, repeat: int) -> tuple[float, float]:
    """Cached, because the control needs the same runs."""
    trial = Trial(seed, size)
    return train_idle_head(kind, trial.generator(repeat), trial.pick(200, 500))


def train_idle_head(kind: str, generator: torch.Generator, steps: int) -> tuple[float, float]:
    """Train one head; return its weight on the first token where it should be idle, and its loss.

    Token VOCABULARY begins each text. Scores depend on both words (q, k), and each word has an
    extra score for the position before it (back).
    """
    codes = torch.randn(VOCABULARY + 1, 8, generator=generator)
    codes[-1] = 0  # a word after the first token copies nothing
    sizes = ((VOCABULARY + 1, 16), (VOCABULARY + 1, 16), (VOCABULARY + 1, 8), (VOCABULARY + 1,))
    q, k, v, back = (
        torch.randn(size, generator=generator).mul_(0.1).requires_grad_() for size in sizes
    )
    optimizer = torch.optim.Adam([q, k, v, back], 2e-2)
    previous = torch.diag(torch.ones(LENGTH), -1)  # (T, T)
    future = torch.ones(LENGTH + 1, LENGTH + 1).triu(1).bool()
    for _ in range(steps):
        words = torch.randint(VOCABULARY, (32, LENGTH + 1), generator=generator)  # (B, T)
        words[:, 0] = VOCABULARY
        copying = (words < COPYING)[..., None]  # (B, T, 1)
        target = torch.where(copying, codes[words.roll(1, 1)], 0.0)  # (B, T, 8)
        scores = q[words] @ k[words].mT / 4 + back[words][..., None] * previous  # (B, T, T)
        weights = attention_weights(scores.masked_fill(future, -torch.inf), kind)
        loss = (weights @ v[words] - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    idle = ~copying[..., 0]
    idle[:, :4] = False  # these have few other tokens to attend to
    return float(weights.detach()[..., 0][idle].mean()), float(loss.detach())


def attention_weights(scores: Tensor, kind: str) -> Tensor:
    if kind == "sigmoid":
        return scores.sigmoid()
    if kind == "off by one":
        nothing = scores.new_zeros(*scores.shape[:-1], 1)
        return torch.cat([scores, nothing], -1).softmax(-1)[..., :-1]
    return scores.softmax(-1)


# Capacity


@claim(
    "feature-capacity",
    topic="own",
    source="paper",
    statement="with a good enough state, kernel attention of m features looks up any number of "
    "pairs as exactly as softmax",
    quoted=True,
    why="""A kernel mechanism reads phi(q)^T S from a state S of m rows, whatever rule wrote it. To
    return v_i for every k_i, the state must solve Phi S = V: n equations per column of the values,
    where Phi has n rows and rank at most m. For n <= m there is a solution. For n > m and random
    values, the best state by least squares loses a fraction 1 - m/n of their squares. Better
    features, sharper kernels and better update rules cannot help, only more features. Softmax with
    hard weights looks up any n. The usual state, a sum over pairs, is far from the best one even
    for n < m.""",
    reference="Schlag et al. 2021, Linear transformers are secretly fast weight programmers, arXiv "
    "2102.11174; Arora et al. 2024, Simple linear attention, arXiv 2402.18668",
    judge=OnlyWhen(
        Below(1e-6, "fraction of the values' squares that is lost, with the best possible state"),
        "pairs / features",
        at_least=False,
    ),
    control="the usual state, a normalized sum over all pairs",
)
def feature_capacity(trial: Trial) -> Evidence:
    m, repeats = trial.pick(48, 128), trial.pick(3, 10)
    ratios = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0)
    kinds = ("best state", "sum over pairs", "softmax, hard")
    lost: dict[str, list[list[float]]] = {kind: [[] for _ in ratios] for kind in kinds}
    for index, ratio in enumerate(ratios):
        n = round(ratio * m)
        for repeat in range(repeats):
            for kind, error in _lookup_errors(n, m, trial.generator(index, repeat)).items():
                lost[kind][index].append(error)
    judged = lost["sum over pairs" if trial.control else "best state"]
    figures = [mean_interval(values) for values in judged]
    lines = [
        Series(
            kind,
            [
                (ratio, mean_interval(values).value)
                for ratio, values in zip(ratios, errors, strict=True)
            ],
        )
        for kind, errors in lost.items()
    ]
    lines.append(Series("1 - m/n", [(ratio, max(0.0, 1 - 1 / ratio)) for ratio in ratios]))
    return Evidence(
        figures[-1],
        Lines("pairs / features", "fraction of the values' squares that is lost", lines),
        list(zip(ratios, figures, strict=True)),
        details={"features": m},
    )


def _lookup_errors(n: int, m: int, generator: torch.Generator, d: int = 16) -> dict[str, float]:
    """Fraction of the squares of n random values that is lost when each key looks up its value."""
    keys = torch.randn(n, d, generator=generator, dtype=torch.float64)
    keys = keys / keys.norm(dim=-1, keepdim=True) * 2  # (n, d)
    values = torch.randn(n, d, generator=generator, dtype=torch.float64)
    directions = sample_directions(
        m, d, int(torch.randint(2**31, (), generator=generator)), orthogonal=True
    )
    features = (
        keys @ directions.mT - keys.square().sum(-1, keepdim=True) / 2
    ).exp()  # (n, m): FAVOR+
    best = features @ torch.linalg.lstsq(features, values, driver="gelsd").solution
    kernel = features @ features.mT  # (n, n)
    usual = kernel / kernel.sum(-1, keepdim=True) @ values
    hard = (1e3 * keys @ keys.mT).softmax(-1) @ values
    outputs = {"best state": best, "sum over pairs": usual, "softmax, hard": hard}
    total = values.square().sum()
    return {kind: float((values - out).square().sum() / total) for kind, out in outputs.items()}
