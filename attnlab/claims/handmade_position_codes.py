"""What a layer knows of order: with position codes everything, without them nothing.

Letters: B batch, T tokens, W width, H heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attnlab.claims._claim import Bars, Estimate, Evidence, Lines, Trial, claim
from attnlab.claims.handmade import handmade
from attnlab.claims.judges import exact
from attnlab.claims.retrieve import orthonormal
from attnlab.layers import Block
from attnlab.mask import Mask
from attnlab.position import SinusoidalPositions
from attnlab.report import Series


@contextmanager
def seeded(random: torch.Generator) -> Iterator[None]:
    """What draws from PyTorch's own generator, such as a layer's first weights, draws from here."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=random)))
        yield


@claim(
    "identity-and-permutation",
    topic="handmade",
    source="course",
    statement="hard self-attention with position codes is any chosen permutation, identity "
    "included",
    why="""Let token t carry the code p_t beside its content, with orthonormal codes. The matrix
    Q = m sum_t p_s(t) p_t^T sends the code of t to that of s(t), so with K = I the score of t is m
    with token s(t) and 0 with all others; V takes the content alone. Hard weights are then the
    permutation matrix of s, exactly; soft ones miss it by (T - 1) e^(-m). It needs as many
    dimensions for codes as tokens: Q must send T independent codes wherever one likes.""",
    judge=exact("largest error of the permuted content"),
    control="no position codes",
)
def identity_and_permutation(trial: Trial) -> Evidence:
    worst = 0.0
    sharp = [float(m) for m in range(2, 41, 2)]
    lines: dict[int, list[tuple[float, float]]] = {}
    for T, content in ((2, 3), (5, 7), (11, 4), (29, 13)):
        for repeat in range(trial.pick(8, 100)):
            random = trial.random(T, repeat)
            x, codes = _with_codes(T, content, random)
            order = torch.randperm(T, generator=random) if repeat else torch.arange(T)
            wanted = x[order, :content]
            if trial.control:
                x[:, content:] = 0
            worst = max(worst, _order_error(x, codes, order, wanted, 1.0, "hard"))
        points = [(m, _order_error(x, codes, order, wanted, m, "softmax:beta=1.0")) for m in sharp]
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


def _with_codes(T: int, content: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Tokens (T, content + T), and their codes (T, T)."""
    codes = orthonormal(T, T, random)
    held = torch.randn(T, content, generator=random, dtype=torch.float64)
    return torch.cat([held, codes], dim=-1), codes


def _order_error(
    x: Tensor, codes: Tensor, order: Tensor, wanted: Tensor, m: float, attention: str
) -> float:
    content = wanted.shape[-1]
    query, key, value = torch.zeros(3, x.shape[-1], x.shape[-1], dtype=torch.float64)
    query[content:, content:] = m * codes[order].mT @ codes
    key[content:, content:] = torch.eye(len(codes))
    value[:content, :content] = torch.eye(content)
    out = handmade(query, key, value, attention=attention)(x[None], Mask())[0, :, :content]
    return float((out - wanted).abs().max())


MECHANISMS = ("softmax", "hard", "elu", "relu", "favor")
"""Those that know nothing of where a key stands."""


@claim(
    "permutation-equivariance",
    topic="handmade",
    source="course",
    statement="without position codes, permuting the tokens permutes the outputs",
    why="""Let P be a permutation matrix. The scores of P X are P (X Q^T K X^T) P^T, the softmax of
    each row does not care in which order its entries stand, and P A P^T P X V = P (A X V), since
    P^T P = I. Norms, feed-forward layers and residual paths work on each token by itself, so a
    whole stack f has f(P X) = P f(X). Position codes break it (the control), and so do a causal
    mask and mechanisms that look at where a key stands, as a window does.""",
    judge=exact("largest |f(P x) - P f(x)| of two blocks, five mechanisms"),
    control="sinusoidal position codes added",
    reference="Lee et al. 2019, Set Transformer, arXiv 1810.00825",
)
def permutation_equivariance(trial: Trial) -> Evidence:
    found: dict[str, float] = {}
    for repeat in range(trial.pick(1, 10)):
        for T, W, H in ((5, 12, 3), (7, 8, 2), (23, 20, 5)):
            random = trial.random(T, repeat)
            x = torch.randn(2, T, W, generator=random, dtype=torch.float64)
            order = torch.randperm(T, generator=random)
            codes = SinusoidalPositions(W)(torch.arange(T)[None]).double()
            kinds = {name: (name, Mask(), 0 * codes) for name in MECHANISMS}
            kinds["softmax with positions"] = ("softmax", Mask(), codes)
            kinds["softmax, causal"] = ("softmax", Mask(causal=True), 0 * codes)
            kinds["window"] = ("window:window=2", Mask(), 0 * codes)
            for name, (attention, mask, added) in kinds.items():
                blocks = _blocks(W, H, attention, random)
                error = _apply(blocks, x[:, order] + added, mask)
                error = (error - _apply(blocks, x + added, mask)[:, order]).abs().max()
                found[name] = max(found.get(name, 0.0), float(error))
    judged = ["softmax with positions"] if trial.control else MECHANISMS
    return Evidence(
        Estimate(max(found[name] for name in judged)),
        Bars("largest difference", {name: Estimate(error) for name, error in found.items()}),
    )


def _blocks(W: int, H: int, attention: str, random: torch.Generator) -> nn.ModuleList:
    with seeded(random):
        blocks = nn.ModuleList([Block(W, H, attention) for _ in range(2)])
    return blocks.double().eval().requires_grad_(False)


def _apply(blocks: nn.ModuleList, x: Tensor, mask: Mask) -> Tensor:
    for block in blocks:
        x = block(x, mask)
    return x
