"""Variants of attention on small tasks: sparse weights, latent keys, differences, gates.

Letters: H heads, T tokens.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from attnlab.claims._ability_models import (
    AbilityTraining,
    attention_rows,
    differences,
    repeated_accuracies,
    train_ability,
    training_seeds,
)
from attnlab.claims._claim import Bars, Estimate, Evidence, Trial, claim, mean_interval
from attnlab.claims.abilities_recall import UNIFORM
from attnlab.claims.judges import Above, Below, Every
from attnlab.models import Decoder
from attnlab.tasks.simple import IGNORE

VARIANT_MODELS = "recall-variants"
RECALL = AbilityTraining("recall:pairs=8,length=32,vocabulary=64", steps=600)
CAPTURED_ROWS, SEEDS = 16, 5


@claim(
    "sparsemax-zeros",
    topic="abilities",
    source="paper",
    statement="sparsemax gives most keys a weight of exactly 0 and costs little accuracy",
    why="""Sparsemax projects the scores onto the simplex: a_i = max(0, s_i - tau), with tau such
    that the weights sum to 1. A key whose score is 1 or more below the largest has no weight at
    all, and no gradient either: a key that should have weight and has none cannot say so. The
    risk is that training gets stuck; here it must reach softmax's accuracy within 0.02 in equally
    many steps. Softmax, the control, has no zeros: e^s is never 0.""",
    judge=Every(
        Above(0.5, "fraction of visible weights that are exactly 0"),
        [Above(-0.02, "accuracy of sparsemax less that of softmax")],
    ),
    control="softmax instead of sparsemax",
    reference="Martins and Astudillo 2016, From softmax to sparsemax (arXiv 1602.02068); Correia "
    "et al. 2019, Adaptively sparse transformers (arXiv 1909.00015)",
    group=VARIANT_MODELS,
)
def sparsemax_zeros(trial: Trial) -> Evidence:
    name = "softmax" if trial.control else "sparsemax"
    zeros = []
    for seed in training_seeds(trial, SEEDS):
        rows = attention_rows(replace(RECALL, attention=name, seed=seed), CAPTURED_ROWS)
        zeros.append(sum(_zero_fraction(weights) for _, _, weights in rows) / len(rows))
    sparse, plain = (
        repeated_accuracies(trial, replace(RECALL, attention=each), seeds=SEEDS)
        for each in (name, "softmax")
    )
    return Evidence(
        mean_interval(zeros),
        Bars("accuracy", {name: mean_interval(sparse), "softmax": mean_interval(plain)}),
        parts={"accuracy of sparsemax less that of softmax": differences(sparse, plain)},
    )


def _zero_fraction(weights: Tensor) -> float:
    """Of the weights on the query's own and earlier tokens. (H, T, T)"""
    visible = torch.ones(weights.shape[-2:], dtype=torch.bool).tril()
    return float((weights[:, visible] == 0).float().mean())


@claim(
    "mla-cache",
    topic="abilities",
    source="paper",
    statement="latent keys (MLA) need a smaller cache than keys and values of all heads, at equal "
    "accuracy",
    why="""Multi-head attention keeps a key and a value of each head: 2 W numbers for a token, 64
    here. With latent keys a token keeps one vector c of 16 numbers, from which each head makes its
    key U_h c and its value V_h c; U_h moves to the query, so that nothing else is kept. The rank of
    all keys and values together is then at most 16, which is enough if they have little to say. The
    cache is counted in the bytes of the decoding state, without the convolution's. A latent of
    1 number, the control, has an even smaller cache and loses accuracy.""",
    judge=Every(
        Below(0.5, "bytes of the cache, latent keys / keys and values of all heads"),
        [Above(-0.02, "accuracy with latent keys less that without")],
    ),
    control="a latent key of 1 number",
    reference="DeepSeek-AI 2024, DeepSeek-V2, section 2.1 (arXiv 2405.04434)",
    group=VARIANT_MODELS,
)
def mla_cache(trial: Trial) -> Evidence:
    latent = replace(RECALL, attention=f"softmax:latent={1 if trial.control else 16}")
    accuracies = [repeated_accuracies(trial, each) for each in (latent, RECALL)]
    sizes = [
        cache_bytes(train_ability(replace(each, seed=training_seeds(trial)[0])))
        for each in (latent, RECALL)
    ]
    names = ("latent keys", "keys and values of all heads")
    return Evidence(
        Estimate(sizes[0] / sizes[1]),
        Bars(
            "accuracy",
            {name: mean_interval(each) for name, each in zip(names, accuracies, strict=True)},
        ),
        parts={"accuracy with latent keys less that without": differences(*accuracies)},
        details={f"bytes, {name}": size for name, size in zip(names, sizes, strict=True)},
    )


def cache_bytes(model: Decoder, tokens: int = 32) -> int:
    """The bytes of the keys and values of one row after `tokens` tokens."""
    with torch.no_grad():
        _, state = model.stack.prefill(torch.zeros(1, tokens).long(), torch.tensor([tokens]))
    return sum(block.attention.attention.nbytes for block in state.blocks)


@claim(
    "differential-cancels-noise",
    topic="abilities",
    source="paper",
    quoted=True,
    statement="differential attention puts less of its weight on irrelevant tokens than softmax",
    why="""Differential attention is softmax(q1 k1) - lambda softmax(q2 k2). What both softmaxes see
    cancels, as the noise in two wires of a cable does, and what only the first sees remains. The
    figure is the fraction of the absolute weight that a question puts on tokens that do not see
    its answer through the convolution, in the head that has least of it. Nothing forces the second
    softmax to learn the noise: on a task that softmax solves, a larger norm of the queries removes
    noise too. Weight of both signs counts, since both bring the values of irrelevant tokens into
    the output.""",
    judge=Below(-0.05, "fraction of the weight on irrelevant tokens, differential less softmax"),
    control="uniform weights instead of softmax",
    reference="Ye et al. 2024, Differential transformer (arXiv 2410.05258)",
    group=VARIANT_MODELS,
)
def differential_cancels_noise(trial: Trial) -> Evidence:
    compared = replace(RECALL, attention=UNIFORM, steps=1) if trial.control else RECALL
    plain, changed = (
        [noise_weight(replace(each, seed=seed)) for seed in training_seeds(trial, SEEDS)]
        for each in (compared, replace(RECALL, attention="differential"))
    )
    name = "uniform weights" if trial.control else "softmax"
    return Evidence(
        differences(changed, plain),
        Bars("fraction of the weight on irrelevant tokens", {
            name: mean_interval(plain), "differential": mean_interval(changed),
        }),
    )  # fmt: skip


def noise_weight(training: AbilityTraining) -> float:
    """The fraction of the absolute weight of questions that is not on their answer, of the head
    that has the smallest: heads that do nothing for the task are not counted. The convolution
    shows the answer to the next tokens too, so these count as the answer."""
    fractions = []
    for ids, targets, weights in attention_rows(training, CAPTURED_ROWS):
        for question in (targets != IGNORE).nonzero()[:, 0].tolist():
            row = weights[:, question].abs()  # (H, T)
            relevant = ids == targets[question]  # (T,)
            for distance in range(1, training.convolution):
                relevant[distance:] |= ids[:-distance] == targets[question]
            fractions.append(1 - row[:, relevant].sum(-1) / row.sum(-1))  # (H,)
    return float(torch.stack(fractions).mean(0).min())
