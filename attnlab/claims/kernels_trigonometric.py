"""Attention as a kernel: random sines and cosines against positive random features.

Both stand for exp(q.k), q and k divided by d^(1/4); r = |q|^2 = |k|^2 after that.
Letters: R draws of all features, C features, n keys, d dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.claims._claim import (
    Estimate,
    Evidence,
    Lines,
    Trial,
    claim,
    fraction_interval,
    mean_interval,
)
from attnlab.claims.judges import Above, Below
from attnlab.claims.kernels import normal, sphere
from attnlab.layers import MultiHead
from attnlab.mask import Mask
from attnlab.report import Mark, Series

D, FEATURES = 16, 64


def positive(w: Tensor, x: Tensor) -> Tensor:
    """exp(w.x - |x|^2/2) / sqrt(C): w (R, C, d), x (n, d) -> (R, n, C)."""
    return (x @ w.mT - x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(w.shape[1])


def trigonometric(w: Tensor, x: Tensor) -> Tensor:
    """cos w.x and sin w.x times exp(|x|^2/2), of half of the directions: as many features."""
    along = x @ w[:, ::2].mT  # (R, n, C/2)
    size = (x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(along.shape[-1])
    return torch.cat([along.cos(), along.sin()], dim=-1) * size  # (R, n, C)


MAPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sines and cosines": trigonometric,
    "positive features": positive,
}


def at_angle(random: torch.Generator, cosine: float, r: float, n: int) -> tuple[Tensor, Tensor]:
    """A query (1, d) and n keys (n, d) at this angle to it, all of squared length r."""
    q = sphere(random, 1, D, r)
    side = normal(random, n, D)
    side = side - (side @ q.mT) * q / r  # what is orthogonal to q
    side = side * math.sqrt(r) / side.norm(dim=-1, keepdim=True)
    return q, cosine * q + math.sqrt(1 - cosine**2) * side


COSINES = [step / 4 for step in range(-4, 5)]
Measured = dict[str, Tensor]


def by_cosine(
    trial: Trial, measure: Callable[[torch.Generator, float, int], Measured], repeats: int
) -> dict[float, Measured]:
    """What is measured at each angle of q and k, with draws of its own."""
    return {at: measure(trial.random(place), at, repeats) for place, at in enumerate(COSINES)}


@claim(
    "trig-unstable",
    topic="kernels",
    source="paper",
    statement="sin/cos features give tiny or negative denominators where true weights are small; "
    "positive features never do",
    why="""A product of sines and cosines is exp(|q|^2/2 + |k|^2/2) times a mean of cosines, which
    is to be as small as exp(-|q - k|^2/2) but has a noise of about 1/sqrt(C) whatever its size.
    Where q and k point apart, the noise is larger than the mean, and the sum over the keys has
    either sign; dividing by it makes weights of any size. Positive features have a relative
    error of sqrt((e^(|q+k|^2) - 1)/C), least where q and k point apart, and no term below zero.
    Where q and k point the same way they can fall short of the true sum, but never below zero.""",
    judge=Above(0.1, "share of denominators below a tenth of the true one, cos(q, k) = -3/4"),
    control="positive features on the same inputs and draws",
    reference="Choromanski et al. 2021, Rethinking Attention with Performers",
)
def trig_unstable(trial: Trial) -> Evidence:
    ratios = by_cosine(trial, _denominators, trial.pick(300, 3000))
    low = {
        name: [(at, _share_below(ratios[at][name], 0.1).value) for at in COSINES] for name in MAPS
    }
    chosen = "positive features" if trial.control else "sines and cosines"
    lines = [Series(name, points) for name, points in low.items()]
    smallest = min(float(each["positive features"].min()) for each in ratios.values())
    return Evidence(
        _share_below(ratios[-0.75][chosen], 0.1),
        Lines("cosine of the angle of q and the keys", "share below a tenth of the true", lines),
        details={
            "share below zero, sines and cosines at -3/4": _share_below(
                ratios[-0.75]["sines and cosines"], 0.0
            ).value,
            "smallest of all with positive features, over the true one": smallest,
        },
    )


def _denominators(random: torch.Generator, cosine: float, repeats: int) -> Measured:
    """(R,) for each map: the sum over 32 keys, r = 2, divided by the true one."""
    q, k = at_angle(random, cosine, 2.0, 32)
    w = normal(random, repeats, FEATURES, D)
    true = (q @ k.mT).exp().sum()
    return {
        name: (phi(w, q) @ phi(w, k).mT).sum((1, 2)) / true  # (R,)
        for name, phi in MAPS.items()
    }


def _share_below(values: Tensor, limit: float) -> Estimate:
    return fraction_interval(int((values < limit).sum()), len(values))


SYMBOLS, PAIRS, WIDTH, BATCH = 16, 8, 16, 32
GUESSING = math.log(SYMBOLS)


class Lookup(nn.Module):
    """Reads pairs (name, fact) and answers with the fact of each name: one layer of attention."""

    def __init__(self, attention: str) -> None:
        super().__init__()
        self.names, self.facts = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(SYMBOLS, WIDTH)
        for table in (self.names, self.facts):
            nn.init.normal_(table.weight, std=0.25)  # short keys: both kinds begin well
        self.attention = MultiHead(WIDTH, 1, attention, memory_width=WIDTH)
        self.answer = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, names: Tensor, facts: Tensor) -> Tensor:
        memory = self.names(names) + self.facts(facts)  # (B, n, W)
        logits: Tensor = self.answer(self.attention(self.names(names), Mask(), memory))
        return logits


def losses(attention: str, seed: int, steps: int) -> list[float]:
    """While training with Adam and gradients clipped to length 1, as is usual."""
    random = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Lookup(attention)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    found = []
    for _ in range(steps):
        names = torch.rand(BATCH, SYMBOLS, generator=random).argsort(1)[:, :PAIRS]
        facts = torch.randint(SYMBOLS, (BATCH, PAIRS), generator=random)
        loss = F.cross_entropy(model(names, facts).flatten(0, 1), facts.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        found.append(loss.item())
    return found


@claim(
    "trig-training",
    topic="kernels",
    source="paper",
    statement="training with sin/cos features is unstable where positive features train well",
    why="""The task is to look up a fact by its name, so q and k must grow until one key stands
    out. At first both are short, the kernel is easy, and both kinds of features learn alike.
    As |q - k|^2 grows, the noise exp(|q - k|^2/2)/sqrt(C) of sines and cosines passes 1 and
    denominators come near zero or below it: weights are then many times larger than 1, and so are
    losses and gradients. Clipping gradients does not help, since the forward pass itself is
    broken. A sum of positive features stays positive, and learning goes on.""",
    judge=Above(0.5, "share of runs whose loss rises above twice that of guessing"),
    control="positive features",
    reference="Choromanski et al. 2021, Rethinking Attention with Performers",
)
def trig_training(trial: Trial) -> Evidence:
    steps, runs = trial.pick(60, 200), trial.pick(5, 12)
    kinds = {"sines and cosines": "fourier:features=64", "positive features": "favor:features=64"}
    chosen = "positive features" if trial.control else "sines and cosines"
    found = {
        name: [
            losses(spec, 1000 * trial.seed + each, steps)
            for each in range(runs if name == chosen else 1)
        ]
        for name, spec in kinds.items()
    }
    broken = sum(not max(each) <= 2 * GUESSING for each in found[chosen])
    lines = [Series(f"{name}, one run", _each_step(rows[0])) for name, rows in found.items()]
    ends = sorted(each[-1] for each in found[chosen])
    return Evidence(
        fraction_interval(broken, runs),
        Lines("steps of training", "loss", lines, y_log=True, marks=[Mark("guessing", y=GUESSING)]),
        details={
            f"runs with {chosen} that rise above twice guessing": f"{broken} of {runs}",
            f"median loss at the end, {chosen}": round(ends[runs // 2], 3),
            "loss of guessing": round(GUESSING, 3),
        },
    )


def _each_step(values: Sequence[float]) -> list[tuple[float, float]]:
    return [(float(step), value) for step, value in enumerate(values) if math.isfinite(value)]


@claim(
    "positive-always-better",
    topic="kernels",
    source="course",
    quoted=True,
    statement="positive features are better everywhere",
    why="""With C features each, the squared relative error of positive ones is
    (e^(|q+k|^2) - 1)/C, that of sines and cosines (e^(|q-k|^2) - 2 + e^(-|q-k|^2))/C. At q = k the
    second is zero for every draw, since cos^2 + sin^2 = 1, while the first is at its worst. They
    cross near a right angle: positive features are better where q and k point apart, which is
    where the kernel is small and errors do the most harm. Right: better where q.k is well below
    zero, worse where it is above. Single draws have heavy tails, so the mean size of the error
    decides here, not its square.""",
    judge=Below(0.0, "mean error of positive minus sin/cos features, at the worst angle"),
    control="angles of 120 degrees and more alone",
    reference="Choromanski et al. 2021, Rethinking Attention with Performers",
)
def positive_always_better(trial: Trial) -> Evidence:
    errors = by_cosine(trial, _errors, trial.pick(1000, 10_000))
    judged = [at for at in COSINES if at <= -0.5] if trial.control else COSINES
    excess = {
        at: mean_interval(
            (errors[at]["positive features"] - errors[at]["sines and cosines"]).tolist()
        )
        for at in judged
    }
    worst = max(judged, key=lambda at: excess[at].value)
    lines = [
        Series(name, [(at, float(errors[at][name].mean())) for at in COSINES]) for name in MAPS
    ]
    at_one = errors[1.0]["sines and cosines"].max()
    return Evidence(
        excess[worst],
        Lines("cosine of the angle of q and k", "relative error of exp(q.k), 64 features", lines),
        details={
            "cosine of the worst angle": worst,
            "largest relative error of sines and cosines at q = k": float(at_one),
        },
    )


def _errors(random: torch.Generator, cosine: float, repeats: int) -> Measured:
    """(R,) for each map: |error| of exp(q.k), relative, r = 1."""
    q, k = at_angle(random, cosine, 1.0, 1)
    w = normal(random, repeats, FEATURES, D)
    true = math.exp(float(q[0] @ k[0]))
    return {
        name: ((phi(w, q) * phi(w, k)).sum((1, 2)) / true - 1).abs() for name, phi in MAPS.items()
    }
