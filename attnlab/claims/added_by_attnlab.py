"""Statements that the literature gets wrong or leaves open; attnlab's own experiments.

Letters: N repeats, n keys, m features, d dimensions, B batch, T tokens, V words, W width.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from attnlab.claims._claim import Bars, Evidence, Lines, Size, Trial, claim, mean_interval
from attnlab.claims._trained_models import TEXTS, needs, trained
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
    why="""Leave token i out and let the other weights grow to sum to 1 again: the output becomes
    (c - a_i v_i) / (1 - a_i), so it moves by exactly a_i / (1 - a_i) |v_i - c|. What counts is how
    far a value lies from the output, not how far it lies from 0. If all values share a common part
    u, c holds it too and it cancels in v_i - c, whereas |v_i| is then about |u| for every
    token and a_i |v_i| ranks tokens like the bare weights. Values of a trained encoder have a
    common part of about half their spread.""",
    reference="Kobayashi et al. 2020, Attention is not only a weight, arXiv 2004.10102",
    judge=OnlyWhen(
        Above(0.95, "rank correlation of a |v| with leaving the token out"),
        "the common part of the values by their spread",
        at_least=False,
    ),
    control="the lengths of other tokens' values, and their weights",
)
def value_length(trial: Trial) -> Evidence:
    repeats = trial.pick(30, 300)
    lines: dict[str, list[tuple[float, float]]] = {}
    sweep = []
    for common in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0):
        found: dict[str, list[float]] = {}
        for repeat in range(repeats):
            weights, values = _head(common, trial.random(repeat))
            moved = left_out(weights, values)
            for name, guess in _guesses(weights, values).items():
                if trial.control and name == "a |v|":
                    guess = guess.roll(1)
                found.setdefault(name, []).append(rank_correlation(guess, moved))
        for name, values_of in found.items():
            lines.setdefault(name, []).append((common, mean_interval(values_of).value))
        sweep.append((common, mean_interval(found["a |v|"])))
    return Evidence(
        sweep[-1][1],
        Lines(
            "common part of the values by their spread",
            "rank correlation with leaving out",
            [Series(name, points) for name, points in lines.items()],
        ),
        sweep,
        details=_in_minilm() if trial.size == "full" and not needs("minilm")() else {},
    )


def _head(
    common: float, random: torch.Generator, n: int = 32, d: int = 24
) -> tuple[Tensor, Tensor]:
    """Weights and values whose lengths differ, about a common part."""

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=random, dtype=torch.float64)

    weights, shared = normal(n).softmax(0), normal(d)
    spread = normal(n, d) / d**0.5 * (normal(n, 1) / 2).exp()
    return weights, spread + common * shared / shared.norm()


def left_out(weights: Tensor, values: Tensor) -> Tensor:
    """(n,): by the definition, how far the output moves when each token is left out."""
    whole = weights @ values
    found = []
    for i in range(len(weights)):
        rest = weights.clone()
        rest[i] = 0
        found.append((rest / rest.sum() @ values - whole).norm())
    return torch.stack(found)


def _guesses(weights: Tensor, values: Tensor) -> dict[str, Tensor]:
    away = (values - weights @ values).norm(dim=-1)
    return {
        "a": weights,
        "a |v|": weights * values.norm(dim=-1),
        "a / (1 - a) |v - c|": weights / (1 - weights) * away,
    }


def _in_minilm() -> dict[str, float | int | str]:
    """The same on all heads of a real model."""
    found: dict[str, list[float]] = {}
    common = []
    for text in TEXTS[:3]:
        for layer in trained("minilm").read(text, qkv=True).layers:
            assert layer.weights is not None
            assert layer.v is not None
            for rows, values in zip(layer.weights.double(), layer.v.double(), strict=True):
                middle = values.mean(0)
                common.append(float(middle.norm() / (values - middle).norm(dim=-1).mean()))
                for weights in rows:
                    moved = left_out(weights, values)
                    for name, guess in _guesses(weights, values).items():
                        found.setdefault(name, []).append(rank_correlation(guess, moved))
    details: dict[str, float | int | str] = {
        f"in MiniLM, {name}": round(mean_interval(each).value, 3) for name, each in found.items()
    }
    return details | {"in MiniLM, common part": round(mean_interval(common).value, 2)}


# Sinks


@claim(
    "off-by-one",
    topic="own",
    source="paper",
    statement="heads park weight on the first token because softmax cannot say nothing; "
    "1 added to its denominator ends that",
    quoted=True,
    why="""e^s_i / (1 + sum e^s_j) can be 0 for every key, so nobody must park weight. But that it
    can does not mean that it will. The added 1 = e^0 is one more key with score 0 and value 0, and
    it competes with a first token whose value training can make 0 as well and whose score it
    can raise without bound: descent takes both ways at once, and nearly always the first token
    wins. What ends it is weights that do not compete, 1 / (1 + e^-s_i) for each key by
    itself: there parking brings nothing. Measured on a small task: some words must copy the word
    before them, all others must say nothing.""",
    reference="Miller 2023, Attention is off by one; Xiao et al. 2023, arXiv 2309.17453; "
    "Gu et al. 2024, When attention sink emerges in language models, arXiv 2410.10781",
    judge=Below(0.1, "weight on the first token of words that have nothing to say"),
    control="sigmoid weights, which do not compete",
)
def off_by_one(trial: Trial) -> Evidence:
    found = {
        kind: [_parked(kind, trial.seed, trial.size, place) for place in range(trial.pick(4, 8))]
        for kind in ("softmax", "off by one", "sigmoid")
    }
    decides = found["sigmoid" if trial.control else "off by one"]
    return Evidence(
        mean_interval([first for first, _ in decides]),
        Bars(
            "weight on the first token",
            {kind: mean_interval([first for first, _ in each]) for kind, each in found.items()},
        ),
        details={
            f"squared error, {kind}": round(mean_interval([loss for _, loss in each]).value, 4)
            for kind, each in found.items()
        },
    )


VOCABULARY, COPYING, LENGTH = 12, 3, 16


@lru_cache(maxsize=64)
def _parked(kind: str, seed: int, size: Size, place: int) -> tuple[float, float]:
    """Kept, because the control asks for the same."""
    trial = Trial(seed, size)
    return parked(kind, trial.random(place), trial.pick(200, 500))


def parked(kind: str, random: torch.Generator, steps: int) -> tuple[float, float]:
    """One head, trained: its weight on the first token where it should be idle, and its error.

    Token VOCABULARY begins each text. A word looks by itself (q, k) and one place back (back).
    """
    codes = torch.randn(VOCABULARY + 1, 8, generator=random)
    codes[-1] = 0  # a word behind the first token copies nothing
    sizes = ((VOCABULARY + 1, 16), (VOCABULARY + 1, 16), (VOCABULARY + 1, 8), (VOCABULARY + 1,))
    q, k, v, back = (
        torch.randn(size, generator=random).mul_(0.1).requires_grad_() for size in sizes
    )
    optimizer = torch.optim.Adam([q, k, v, back], 2e-2)
    before = torch.diag(torch.ones(LENGTH), -1)  # (T, T)
    later = torch.ones(LENGTH + 1, LENGTH + 1).triu(1).bool()
    for _ in range(steps):
        words = torch.randint(VOCABULARY, (32, LENGTH + 1), generator=random)  # (B, T)
        words[:, 0] = VOCABULARY
        copying = (words < COPYING)[..., None]  # (B, T, 1)
        wanted = torch.where(copying, codes[words.roll(1, 1)], 0.0)  # (B, T, 8)
        scores = q[words] @ k[words].mT / 4 + back[words][..., None] * before  # (B, T, T)
        weights = weigh(scores.masked_fill(later, -torch.inf), kind)
        loss = (weights @ v[words] - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    idle = ~copying[..., 0]
    idle[:, :4] = False  # there are few others to look at
    return float(weights.detach()[..., 0][idle].mean()), float(loss.detach())


def weigh(scores: Tensor, kind: str) -> Tensor:
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
    give v_i for k_i for all i is n equations per column of the values, Phi S = V, with Phi of
    n rows and rank m at most: for n <= m there is a solution, for n > m and random
    values the best state by least squares leaves a share 1 - m/n of their squares. Better
    features, sharper kernels and better update rules cannot help, only more features. Softmax with
    hard weights looks up any n. The usual state, a sum over pairs, is far from the best already for
    n < m.""",
    reference="Schlag et al. 2021, Linear transformers are secretly fast weight programmers, arXiv "
    "2102.11174; Arora et al. 2024, Simple linear attention, arXiv 2402.18668",
    judge=OnlyWhen(
        Below(1e-6, "share of the values' squares that is lost, best state there is"),
        "pairs by features",
        at_least=False,
    ),
    control="the usual state, a normalized sum over all pairs",
)
def feature_capacity(trial: Trial) -> Evidence:
    m, repeats = trial.pick(48, 128), trial.pick(3, 10)
    shares = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0)
    kinds = ("best state", "sum over pairs", "softmax, hard")
    lost: dict[str, list[list[float]]] = {kind: [[] for _ in shares] for kind in kinds}
    for place, by in enumerate(shares):
        n = round(by * m)
        for repeat in range(repeats):
            for kind, error in _lookups(n, m, trial.random(place, repeat)).items():
                lost[kind][place].append(error)
    decides = lost["sum over pairs" if trial.control else "best state"]
    figures = [mean_interval(each) for each in decides]
    lines = [
        Series(kind, [(by, mean_interval(each).value) for by, each in zip(shares, of, strict=True)])
        for kind, of in lost.items()
    ]
    lines.append(Series("1 - m/n", [(by, max(0.0, 1 - 1 / by)) for by in shares]))
    return Evidence(
        figures[-1],
        Lines("pairs by features", "share of the values' squares that is lost", lines),
        list(zip(shares, figures, strict=True)),
        details={"features": m},
    )


def _lookups(n: int, m: int, random: torch.Generator, d: int = 16) -> dict[str, float]:
    """The share of n random values' squares that is lost when each key asks for its own."""
    keys = torch.randn(n, d, generator=random, dtype=torch.float64)
    keys = keys / keys.norm(dim=-1, keepdim=True) * 2  # (n, d)
    values = torch.randn(n, d, generator=random, dtype=torch.float64)
    draws = sample_directions(
        m, d, int(torch.randint(2**31, (), generator=random)), orthogonal=True
    )
    features = (keys @ draws.mT - keys.square().sum(-1, keepdim=True) / 2).exp()  # (n, m): FAVOR+
    best = features @ torch.linalg.lstsq(features, values, driver="gelsd").solution
    kernel = features @ features.mT  # (n, n)
    usual = kernel / kernel.sum(-1, keepdim=True) @ values
    hard = (1e3 * keys @ keys.mT).softmax(-1) @ values
    found = {"best state": best, "sum over pairs": usual, "softmax, hard": hard}
    whole = values.square().sum()
    return {kind: float((values - out).square().sum() / whole) for kind, out in found.items()}
