"""What trained models attend to: their heads beside those of an untrained twin.

Letters: L layers, H heads, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attnlab.claims._claim import Bars, Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims._trained_models import Reader, needs, one_of, texts, trained, untrained
from attnlab.claims.judges import Above, exact
from attnlab.report import Series


@claim(
    "untrained-uniform",
    topic="trained",
    source="course",
    statement="an untrained encoder attends to all tokens about equally",
    why="""Initial weights are small (a standard deviation of 0.02), so a score q.k / sqrt(d) is
    near 0 for every key, exp of it near 1 and each weight near 1/n. The entropy of a row,
    -sum a ln a, is then near its largest value ln n. Training makes queries and keys longer, and
    weights differ. So any pattern that is found in a trained model must be looked for in its
    untrained twin first, where every head is an average over all tokens.""",
    judge=Above(0.95, "entropy of the weights as a share of ln n, mean of all heads"),
    control="the same encoder trained (MiniLM)",
    needs=needs("minilm"),
)
def untrained_uniform(trial: Trial) -> Evidence:
    shares = {
        "untrained": _entropies(untrained("minilm", trial.seed), texts(trial)),
        "trained": _entropies(trained("minilm"), texts(trial)),
    }  # each (texts, L)
    lines = [
        Series(name, [(float(layer + 1), float(y)) for layer, y in enumerate(found.mean(0))])
        for name, found in shares.items()
    ]
    decides = shares["trained" if trial.control else "untrained"]
    return Evidence(
        mean_interval(decides.mean(1).tolist()),
        Lines("layer", "entropy as a share of ln n", lines),
        details={"sentences": len(decides)},
    )


def _entropies(reader: Reader, read: Sequence[str]) -> Tensor:
    """(texts, L): of each layer's rows, as a share of the largest there can be."""
    found = []
    for text in read:
        weights = reader.read(text).weights.double()  # (L, H, T, T)
        entropy = -torch.special.xlogy(weights, weights).sum(-1)  # (L, H, T)
        found.append(entropy.mean((1, 2)) / math.log(weights.shape[-1]))
    return torch.stack(found)


@claim(
    "causal-backwards",
    topic="trained",
    source="course",
    statement="a causal model puts no weight on later tokens, a bidirectional one does",
    why="""A causal mask adds minus infinity to the scores of later keys, and e^-inf = 0 exactly,
    whatever was trained. So a_ts = 0 for s > t in each layer, and what the model says up to t
    cannot change when later tokens do. An encoder has no such mask: it looks
    both ways, so a later word changes what it says of an earlier one.""",
    judge=exact("largest weight on a later token, in all layers and heads (SmolLM2)"),
    control="a bidirectional model (MiniLM)",
    needs=needs("minilm", "smollm2"),
)
def causal_backwards(trial: Trial) -> Evidence:
    read = texts(trial)[: trial.pick(2, 12)]
    largest, shares, values = {}, {}, {}
    for label, name in (("SmolLM2, causal", "smollm2"), ("MiniLM, bidirectional", "minilm")):
        later = [trained(name).read(text).weights.triu(1) for text in read]  # (L, H, T, T)
        largest[name] = max(float(each.abs().max()) for each in later)
        shares[name] = [float(each.sum(-1).mean()) for each in later]
        values[label] = mean_interval(shares[name])
    decides = "minilm" if trial.control else "smollm2"
    return Evidence(
        Estimate(largest[decides]),
        Bars("share of the weight on later tokens", values),
        details={f"largest single weight, {name}": value for name, value in largest.items()},
    )


@claim(
    "first-token-sink",
    topic="trained",
    source="paper",
    statement="trained causal heads park weight on the first token",
    why="""Weights sum to 1, so a head that finds nothing to say must still look somewhere:
    c = sum a_i v_i is near 0 only if the weight lies on a token whose value is short. The
    first token is the only one that every query can see, so training makes it that place, whatever
    word stands there. Uniform weights would put 1/(t + 1) on it at position t. The sink is learned:
    an untrained twin has none.""",
    reference="Xiao et al. 2023, Efficient streaming language models with attention sinks, "
    "arXiv 2309.17453",
    judge=Above(0.25, "weight on the first token above uniform, mean of all heads (SmolLM2)"),
    control="the untrained twin",
    needs=needs("smollm2"),
)
def first_token_sink(trial: Trial) -> Evidence:
    read = texts(trial)[: trial.pick(3, 12)]
    lines, decides = [], Estimate(math.nan)
    details: dict[str, float | int | str] = {}
    for label, fresh in (("trained", False), ("untrained", True)):
        first = [
            one_of("smollm2", trial.seed, fresh=fresh).read(text).weights[..., 0] for text in read
        ]  # (L, H, T) each
        above = [float((each.mean((0, 1)) - _even(each))[4:].mean()) for each in first]
        curve = torch.stack([each.mean((1, 2)) for each in first]).mean(0)  # (L,)
        lines.append(Series(label, [(float(i + 1), float(y)) for i, y in enumerate(curve)]))
        most = [float((each[..., 4:].mean(-1) > 0.5).float().mean()) for each in first]
        details[f"heads with more than half of their weight there, {label}"] = round(
            sum(most) / len(most), 3
        )
        if fresh == trial.control:
            decides = mean_interval(above)
    return Evidence(decides, Lines("layer", "weight on the first token", lines), details=details)


def _even(first: Tensor) -> Tensor:
    """(T,): what uniform weights of a causal model put on the first token."""
    return 1 / torch.arange(1, first.shape[-1] + 1)
