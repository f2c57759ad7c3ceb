"""Attention as a kernel: random sines and cosines compared with positive random features.

Both estimate exp(q.k), with q and k divided by d^(1/4); then r = |q|^2 = |k|^2.
Letters: R samples of all features, C features, n keys, d dimensions.
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
from attnlab.claims.kernels import sample_normal, sample_on_sphere
from attnlab.layers import MultiHead
from attnlab.mask import Mask
from attnlab.report import Mark, Series

D, FEATURES = 16, 64


def positive_features(w: Tensor, x: Tensor) -> Tensor:
    """exp(w.x - |x|^2/2) / sqrt(C): w (R, C, d), x (n, d) -> (R, n, C)."""
    return (x @ w.mT - x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(w.shape[1])


def trigonometric_features(w: Tensor, x: Tensor) -> Tensor:
    """cos w.x and sin w.x times exp(|x|^2/2), for half of the directions: C features again."""
    projections = x @ w[:, ::2].mT  # (R, n, C/2)
    size = (x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(projections.shape[-1])
    return torch.cat([projections.cos(), projections.sin()], dim=-1) * size  # (R, n, C)


MAPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sines and cosines": trigonometric_features,
    "positive features": positive_features,
}


def sample_at_angle(
    generator: torch.Generator, cosine: float, r: float, n: int
) -> tuple[Tensor, Tensor]:
    """A query (1, d) and n keys (n, d) at this angle to it, all of squared length r."""
    q = sample_on_sphere(generator, 1, D, r)
    orthogonal = sample_normal(generator, n, D)
    orthogonal = orthogonal - (orthogonal @ q.mT) * q / r  # the part orthogonal to q
    orthogonal = orthogonal * math.sqrt(r) / orthogonal.norm(dim=-1, keepdim=True)
    return q, cosine * q + math.sqrt(1 - cosine**2) * orthogonal


COSINES = [step / 4 for step in range(-4, 5)]
ValuesByMap = dict[str, Tensor]


def measure_by_cosine(
    trial: Trial, measure: Callable[[torch.Generator, float, int], ValuesByMap], repeats: int
) -> dict[float, ValuesByMap]:
    """The measurements at each angle between q and k, with different random numbers."""
    return {
        cosine: measure(trial.generator(index), cosine, repeats)
        for index, cosine in enumerate(COSINES)
    }


@claim(
    "trig-unstable",
    topic="kernels",
    source="paper",
    statement="sin/cos features give tiny or negative denominators where true weights are small; "
    "positive features never do",
    why="""A product of sines and cosines is exp(|q|^2/2 + |k|^2/2) times a mean of cosines. This
    mean should be exp(-|q - k|^2/2), which may be small, but its noise is always about 1/sqrt(C).
    Where q and k point in opposite directions, the noise is larger than the mean, and the sum over
    the keys can have either sign; dividing by it gives weights of any size. Positive features have
    a relative error of sqrt((e^(|q+k|^2) - 1)/C), smallest where q and k point in opposite
    directions, and no negative terms. Where q and k point in the same direction their sum can be
    too small, but it is never negative.""",
    judge=Above(0.1, "fraction of denominators below a tenth of the exact one, cos(q, k) = -3/4"),
    control="positive features on the same inputs and directions",
    reference="Choromanski et al. 2021, Rethinking Attention with Performers",
)
def trig_unstable(trial: Trial) -> Evidence:
    ratios = measure_by_cosine(trial, _relative_denominators, trial.pick(300, 3000))
    fractions = {
        name: [(cosine, _fraction_below(ratios[cosine][name], 0.1).value) for cosine in COSINES]
        for name in MAPS
    }
    judged = "positive features" if trial.control else "sines and cosines"
    lines = [Series(name, points) for name, points in fractions.items()]
    smallest = min(float(values["positive features"].min()) for values in ratios.values())
    return Evidence(
        _fraction_below(ratios[-0.75][judged], 0.1),
        Lines(
            "cosine of the angle between q and the keys",
            "fraction below a tenth of the exact one",
            lines,
        ),
        details={
            "fraction below zero, sines and cosines at -3/4": _fraction_below(
                ratios[-0.75]["sines and cosines"], 0.0
            ).value,
            "smallest denominator with positive features / exact one": smallest,
        },
    )


def _relative_denominators(generator: torch.Generator, cosine: float, repeats: int) -> ValuesByMap:
    """(R,) for each map: the sum over 32 keys, r = 2, divided by the exact one."""
    q, k = sample_at_angle(generator, cosine, 2.0, 32)
    w = sample_normal(generator, repeats, FEATURES, D)
    exact = (q @ k.mT).exp().sum()
    return {
        name: (phi(w, q) @ phi(w, k).mT).sum((1, 2)) / exact  # (R,)
        for name, phi in MAPS.items()
    }


def _fraction_below(values: Tensor, limit: float) -> Estimate:
    return fraction_interval(int((values < limit).sum()), len(values))


SYMBOLS, PAIRS, WIDTH, BATCH_SIZE = 16, 8, 16, 32
GUESSING_LOSS = math.log(SYMBOLS)


class LookupModel(nn.Module):
    """One layer of attention that reads pairs (name, fact) and outputs the fact of each name."""

    def __init__(self, attention: str) -> None:
        super().__init__()
        self.names, self.facts = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(SYMBOLS, WIDTH)
        for table in (self.names, self.facts):
            nn.init.normal_(
                table.weight, std=0.25
            )  # short keys, so that both feature maps start well
        self.attention = MultiHead(WIDTH, 1, attention, memory_width=WIDTH)
        self.answer = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, names: Tensor, facts: Tensor) -> Tensor:
        memory = self.names(names) + self.facts(facts)  # (B, n, W)
        logits: Tensor = self.answer(self.attention(self.names(names), Mask(), memory))
        return logits


def train_losses(attention: str, seed: int, steps: int) -> list[float]:
    """The loss of each training step, with Adam and gradients clipped to norm 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LookupModel(attention)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    losses = []
    for _ in range(steps):
        names = torch.rand(BATCH_SIZE, SYMBOLS, generator=generator).argsort(1)[:, :PAIRS]
        facts = torch.randint(SYMBOLS, (BATCH_SIZE, PAIRS), generator=generator)
        loss = F.cross_entropy(model(names, facts).flatten(0, 1), facts.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


@claim(
    "trig-training",
    topic="kernels",
    source="paper",
    statement="training with sin/cos features is unstable where positive features train well",
    why="""The task is to look up a fact by its name, so q and k must grow until one key stands
    out. At first both are short, the kernel is easy to estimate, and both kinds of features learn
    equally well. As |q - k|^2 grows, the noise exp(|q - k|^2/2)/sqrt(C) of sines and cosines
    exceeds 1, and denominators come near zero or become negative. Weights are then much larger than
    1, and so are losses and gradients. Clipping gradients does not help, since the forward pass
    itself is wrong. A sum of positive features stays positive, and training continues.""",
    judge=Above(0.5, "fraction of runs whose loss rises above twice that of guessing"),
    control="positive features",
    reference="Choromanski et al. 2021, Rethinking Attention with Performers",
)
def trig_training(trial: Trial) -> Evidence:
    steps, runs = trial.pick(60, 200), trial.pick(5, 12)
    kinds = {"sines and cosines": "fourier:features=64", "positive features": "favor:features=64"}
    judged = "positive features" if trial.control else "sines and cosines"
    losses = {
        name: [
            train_losses(spec, 1000 * trial.seed + run, steps)
            for run in range(runs if name == judged else 1)
        ]
        for name, spec in kinds.items()
    }
    unstable = sum(not max(run) <= 2 * GUESSING_LOSS for run in losses[judged])
    lines = [Series(f"{name}, one run", _points_by_step(rows[0])) for name, rows in losses.items()]
    final_losses = sorted(run[-1] for run in losses[judged])
    return Evidence(
        fraction_interval(unstable, runs),
        Lines(
            "steps of training",
            "loss",
            lines,
            y_log=True,
            marks=[Mark("guessing", y=GUESSING_LOSS)],
        ),
        details={
            f"runs with {judged} that rise above twice guessing": f"{unstable} of {runs}",
            f"median loss at the end, {judged}": round(final_losses[runs // 2], 3),
            "loss of guessing": round(GUESSING_LOSS, 3),
        },
    )


def _points_by_step(values: Sequence[float]) -> list[tuple[float, float]]:
    return [(float(step), value) for step, value in enumerate(values) if math.isfinite(value)]


@claim(
    "positive-always-better",
    topic="kernels",
    source="course",
    quoted=True,
    statement="positive features are better everywhere",
    why="""With C features each, the squared relative error of positive ones is
    (e^(|q+k|^2) - 1)/C, that of sines and cosines (e^(|q-k|^2) - 2 + e^(-|q-k|^2))/C. At q = k the
    second is zero for every sample, since cos^2 + sin^2 = 1, while the first is largest. They are
    equal near a right angle: positive features are better where q and k point in opposite
    directions, which is where the kernel is small and errors do the most harm. Correct is: better
    where q.k is well below zero, worse where it is above. Single samples have heavy tails, so this
    experiment compares mean absolute errors, not squared ones.""",
    judge=Below(0.0, "mean error of positive minus sin/cos features, at the worst angle"),
    control="only angles of 120 degrees and more",
    reference="Choromanski et al. 2021, Rethinking Attention with Performers",
)
def positive_always_better(trial: Trial) -> Evidence:
    errors = measure_by_cosine(trial, _kernel_errors, trial.pick(1000, 10_000))
    judged = [cosine for cosine in COSINES if cosine <= -0.5] if trial.control else COSINES
    excess = {
        cosine: mean_interval(
            (errors[cosine]["positive features"] - errors[cosine]["sines and cosines"]).tolist()
        )
        for cosine in judged
    }
    worst = max(judged, key=lambda cosine: excess[cosine].value)
    lines = [
        Series(name, [(cosine, float(errors[cosine][name].mean())) for cosine in COSINES])
        for name in MAPS
    ]
    at_one = errors[1.0]["sines and cosines"].max()
    return Evidence(
        excess[worst],
        Lines(
            "cosine of the angle between q and k", "relative error of exp(q.k), 64 features", lines
        ),
        details={
            "cosine of the worst angle": worst,
            "largest relative error of sines and cosines at q = k": float(at_one),
        },
    )


def _kernel_errors(generator: torch.Generator, cosine: float, repeats: int) -> ValuesByMap:
    """(R,) for each map: |error| of exp(q.k), relative, r = 1."""
    q, k = sample_at_angle(generator, cosine, 1.0, 1)
    w = sample_normal(generator, repeats, FEATURES, D)
    exact = math.exp(float(q[0] @ k[0]))
    return {
        name: ((phi(w, q) * phi(w, k)).sum((1, 2)) / exact - 1).abs() for name, phi in MAPS.items()
    }
