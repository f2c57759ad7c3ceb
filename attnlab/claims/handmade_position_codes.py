"""The order of tokens: a layer knows it with position codes, and not without them.

Letters: B batch, T tokens, W width, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attnlab.claims._claim import Bars, Estimate, Evidence, Lines, Trial, claim
from attnlab.claims.handmade import make_handmade_layer
from attnlab.claims.judges import exact
from attnlab.claims.retrieve import orthonormal
from attnlab.layers import Block
from attnlab.mask import Mask
from attnlab.position import SinusoidalPositions
from attnlab.report import Series


@contextmanager
def seeded(generator: torch.Generator) -> Iterator[None]:
    """Seeds PyTorch's global generator, which initializes layers, from this one for a while."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield


@claim(
    "identity-and-permutation",
    topic="handmade",
    source="course",
    statement="hard self-attention with position codes is any chosen permutation, identity "
    "included",
    why="""Let token t carry the code p_t beside its content, with orthonormal codes. The matrix
    Q = m sum_t p_s(t) p_t^T maps the code of t to that of s(t). With K = I, token t has the score m
    with token s(t) and 0 with all others; V selects the content. Hard weights are then exactly the
    permutation matrix of s; soft weights have an error of (T - 1) e^(-m). The codes need as many
    dimensions as there are tokens, because Q must map T independent codes in any order.""",
    judge=exact("largest error of the permuted content"),
    control="no position codes",
)
def identity_and_permutation(trial: Trial) -> Evidence:
    worst = 0.0
    factors = [float(m) for m in range(2, 41, 2)]
    lines: dict[int, list[tuple[float, float]]] = {}
    for T, content in ((2, 3), (5, 7), (11, 4), (29, 13)):
        for repeat in range(trial.pick(8, 100)):
            generator = trial.generator(T, repeat)
            x, codes = _sample_tokens_with_codes(T, content, generator)
            order = torch.randperm(T, generator=generator) if repeat else torch.arange(T)
            expected = x[order, :content]
            if trial.control:
                x[:, content:] = 0
            worst = max(worst, _permutation_error(x, codes, order, expected, 1.0, "hard"))
        points = [
            (m, _permutation_error(x, codes, order, expected, m, "softmax:beta=1.0"))
            for m in factors
        ]
        lines[T] = points
    return Evidence(
        Estimate(worst),
        Lines(
            "m",
            "largest error with soft weights",
            [Series(f"{T} tokens", points) for T, points in lines.items()],
            y_log=True,
        ),
    )


def _sample_tokens_with_codes(
    T: int, content: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Tokens (T, content + T), and their codes (T, T)."""
    codes = orthonormal(T, T, generator)
    contents = torch.randn(T, content, generator=generator, dtype=torch.float64)
    return torch.cat([contents, codes], dim=-1), codes


def _permutation_error(
    x: Tensor, codes: Tensor, order: Tensor, expected: Tensor, m: float, attention: str
) -> float:
    content = expected.shape[-1]
    query, key, value = torch.zeros(3, x.shape[-1], x.shape[-1], dtype=torch.float64)
    query[content:, content:] = m * codes[order].mT @ codes
    key[content:, content:] = torch.eye(len(codes))
    value[:content, :content] = torch.eye(content)
    out = make_handmade_layer(query, key, value, attention=attention)(x[None], Mask())[
        0, :, :content
    ]
    return float((out - expected).abs().max())


CONTENT_MECHANISMS = ("softmax", "hard", "elu", "relu", "favor")
"""Mechanisms that do not use the positions of keys."""


@claim(
    "permutation-equivariance",
    topic="handmade",
    source="course",
    statement="without position codes, permuting the tokens permutes the outputs",
    why="""Let P be a permutation matrix. The scores of P X are P (X Q^T K X^T) P^T, the softmax of
    a row does not depend on the order of its entries, and P A P^T P X V = P (A X V), since P^T P =
    I. Norms, feed-forward layers and residual paths process each token separately, so a whole stack
    f has f(P X) = P f(X). Position codes break this (the control), and so do a causal mask and
    mechanisms that use the positions of keys, such as a window.""",
    judge=exact("largest |f(P x) - P f(x)| of two blocks, five mechanisms"),
    control="sinusoidal position codes added",
    reference="Lee et al. 2019, Set Transformer, arXiv 1810.00825",
)
def permutation_equivariance(trial: Trial) -> Evidence:
    errors: dict[str, float] = {}
    for repeat in range(trial.pick(1, 10)):
        for T, W, H in ((5, 12, 3), (7, 8, 2), (23, 20, 5)):
            generator = trial.generator(T, repeat)
            x = torch.randn(2, T, W, generator=generator, dtype=torch.float64)
            order = torch.randperm(T, generator=generator)
            codes = SinusoidalPositions(W)(torch.arange(T)[None]).double()
            cases = {name: (name, Mask(), 0 * codes) for name in CONTENT_MECHANISMS}
            cases["softmax with positions"] = ("softmax", Mask(), codes)
            cases["softmax, causal"] = ("softmax", Mask(causal=True), 0 * codes)
            cases["window"] = ("window:window=2", Mask(), 0 * codes)
            for name, (attention, mask, position_codes) in cases.items():
                blocks = _make_blocks(W, H, attention, generator)
                error = _apply_blocks(blocks, x[:, order] + position_codes, mask)
                error = (
                    (error - _apply_blocks(blocks, x + position_codes, mask)[:, order]).abs().max()
                )
                errors[name] = max(errors.get(name, 0.0), float(error))
    judged = ["softmax with positions"] if trial.control else CONTENT_MECHANISMS
    return Evidence(
        Estimate(max(errors[name] for name in judged)),
        Bars("largest difference", {name: Estimate(error) for name, error in errors.items()}),
    )


def _make_blocks(W: int, H: int, attention: str, generator: torch.Generator) -> nn.ModuleList:
    with seeded(generator):
        blocks = nn.ModuleList([Block(W, H, attention) for _ in range(2)])
    return blocks.double().eval().requires_grad_(False)


def _apply_blocks(blocks: nn.ModuleList, x: Tensor, mask: Mask) -> Tensor:
    for block in blocks:
        x = block(x, mask)
    return x
