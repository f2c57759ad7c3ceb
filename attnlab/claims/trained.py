"""What trained models attend to, compared with an untrained copy of the same model.

Letters: L layers, H heads, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attnlab.claims._claim import Bars, Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims._pretrained_models import (
    SentenceReader,
    get_reader,
    needs_models,
    sentences_for,
    trained_reader,
    untrained_reader,
)
from attnlab.claims.judges import Above, exact
from attnlab.report import Series


@claim(
    "untrained-uniform",
    topic="trained",
    source="course",
    statement="an untrained encoder attends to all tokens about equally",
    why="""Initial weights are small (a standard deviation of 0.02), so a score q.k / sqrt(d) is
    near 0 for every key, its exp is near 1 and each weight near 1/n. The entropy of a row,
    -sum a ln a, is then near its maximum ln n. Training makes queries and keys longer, and weights
    differ. So when you find a pattern in a trained model, check first that it does not occur in an
    untrained copy, where every head averages all tokens.""",
    judge=Above(0.95, "entropy of the weights / ln n, mean of all heads"),
    control="the same encoder, trained (MiniLM)",
    needs=needs_models("minilm"),
)
def untrained_uniform(trial: Trial) -> Evidence:
    entropies = {
        "untrained": _normalized_entropies(
            untrained_reader("minilm", trial.seed), sentences_for(trial)
        ),
        "trained": _normalized_entropies(trained_reader("minilm"), sentences_for(trial)),
    }  # each (texts, L)
    lines = [
        Series(name, [(float(layer + 1), float(y)) for layer, y in enumerate(values.mean(0))])
        for name, values in entropies.items()
    ]
    judged = entropies["trained" if trial.control else "untrained"]
    return Evidence(
        mean_interval(judged.mean(1).tolist()),
        Lines("layer", "entropy / ln n", lines),
        details={"sentences": len(judged)},
    )


def _normalized_entropies(reader: SentenceReader, texts: Sequence[str]) -> Tensor:
    """(texts, L): the mean entropy of each layer's rows, divided by its maximum."""
    entropies = []
    for text in texts:
        weights = reader.read(text).weights.double()  # (L, H, T, T)
        entropy = -torch.special.xlogy(weights, weights).sum(-1)  # (L, H, T)
        entropies.append(entropy.mean((1, 2)) / math.log(weights.shape[-1]))
    return torch.stack(entropies)


@claim(
    "causal-backwards",
    topic="trained",
    source="course",
    statement="a causal model puts no weight on later tokens, a bidirectional one does",
    why="""A causal mask adds minus infinity to the scores of later keys, and e^-inf = 0 exactly,
    whatever the model learned. So a_ts = 0 for s > t in each layer, and the outputs up to t do not
    change when later tokens do. An encoder has no such mask: it attends in both directions, so a
    later word changes the output for an earlier one.""",
    judge=exact("largest weight on a later token, in all layers and heads (SmolLM2)"),
    control="a bidirectional model (MiniLM)",
    needs=needs_models("minilm", "smollm2"),
)
def causal_backwards(trial: Trial) -> Evidence:
    texts = sentences_for(trial)[: trial.pick(2, 12)]
    largest, fractions, bars = {}, {}, {}
    for label, name in (("SmolLM2, causal", "smollm2"), ("MiniLM, bidirectional", "minilm")):
        future_weights = [
            trained_reader(name).read(text).weights.triu(1) for text in texts
        ]  # (L, H, T, T)
        largest[name] = max(float(weights.abs().max()) for weights in future_weights)
        fractions[name] = [float(weights.sum(-1).mean()) for weights in future_weights]
        bars[label] = mean_interval(fractions[name])
    judged = "minilm" if trial.control else "smollm2"
    return Evidence(
        Estimate(largest[judged]),
        Bars("fraction of the weight on later tokens", bars),
        details={f"largest single weight, {name}": value for name, value in largest.items()},
    )


@claim(
    "first-token-sink",
    topic="trained",
    source="paper",
    statement="trained causal heads park weight on the first token",
    why="""Weights sum to 1, so a head that finds nothing relevant must still attend somewhere:
    c = sum a_i v_i is near 0 only if the weight is on a token whose value is short. The first token
    is the only one that every query can attend to, so training uses it for this, whatever word it
    is. Uniform weights would put 1/(t + 1) on it at position t. The sink is learned: an untrained
    copy has none.""",
    reference="Xiao et al. 2023, Efficient streaming language models with attention sinks, "
    "arXiv 2309.17453",
    judge=Above(0.25, "weight on the first token above uniform, mean of all heads (SmolLM2)"),
    control="an untrained copy",
    needs=needs_models("smollm2"),
)
def first_token_sink(trial: Trial) -> Evidence:
    texts = sentences_for(trial)[: trial.pick(3, 12)]
    lines, judged = [], Estimate(math.nan)
    details: dict[str, float | int | str] = {}
    for label, untrained in (("trained", False), ("untrained", True)):
        first_weights = [
            get_reader("smollm2", trial.seed, untrained=untrained).read(text).weights[..., 0]
            for text in texts
        ]  # (L, H, T) each
        above_uniform = [
            float((weights.mean((0, 1)) - _uniform_weight(weights))[4:].mean())
            for weights in first_weights
        ]
        curve = torch.stack([weights.mean((1, 2)) for weights in first_weights]).mean(0)  # (L,)
        lines.append(Series(label, [(float(i + 1), float(y)) for i, y in enumerate(curve)]))
        parked = [
            float((weights[..., 4:].mean(-1) > 0.5).float().mean()) for weights in first_weights
        ]
        details[f"heads with more than half of their weight there, {label}"] = round(
            sum(parked) / len(parked), 3
        )
        if untrained == trial.control:
            judged = mean_interval(above_uniform)
    return Evidence(judged, Lines("layer", "weight on the first token", lines), details=details)


def _uniform_weight(first: Tensor) -> Tensor:
    """(T,): the weight on the first token if a causal model's weights are uniform."""
    return 1 / torch.arange(1, first.shape[-1] + 1)
