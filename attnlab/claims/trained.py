"""What trained models attend to: their heads beside those of an untrained twin.

Letters: L layers, H heads, T tokens.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import cycle

import torch
from torch import Tensor

from attnlab.charts import Series
from attnlab.claims.base import Bars, Evidence, Figure, Plot, Size, Trial, claim, over
from attnlab.claims.judges import Above, exact
from attnlab.claims.models import TEXTS, Read, Reader, needs, one_of, trained, untrained
from attnlab.looking.patterns import head_patterns


def texts(trial: Trial) -> Sequence[str]:
    """An even number of sentences, so that both halves are alike."""
    return TEXTS[: trial.pick(6, len(TEXTS))]


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
        over(decides.mean(1).tolist()),
        Plot("layer", "entropy as a share of ln n", lines),
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
        values[label] = over(shares[name])
    decides = "minilm" if trial.control else "smollm2"
    return Evidence(
        Figure(largest[decides]),
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
    lines, decides = [], Figure(math.nan)
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
            decides = over(above)
    return Evidence(decides, Plot("layer", "weight on the first token", lines), details=details)


def _even(first: Tensor) -> Tensor:
    """(T,): what uniform weights of a causal model put on the first token."""
    return 1 / torch.arange(1, first.shape[-1] + 1)


# Patterns: the best head is chosen on one half of the sentences and measured on the other

PAIRS = (
    ("big", "large"), ("car", "vehicle"), ("house", "home"), ("doctor", "physician"),
    ("rich", "wealthy"), ("boat", "ship"), ("stone", "rock"), ("child", "kid"),
    ("begin", "start"), ("street", "road"), ("happy", "glad"), ("gift", "present"),
    ("fast", "quick"), ("smart", "clever"), ("job", "work"), ("error", "mistake"),
    ("forest", "woods"), ("story", "tale"), ("movie", "film"), ("shop", "store"),
    ("angry", "mad"), ("answer", "reply"), ("cold", "chilly"), ("enemy", "foe"),
)  # fmt: skip
FILLERS = ("blue", "window", "music", "seven", "paper", "garden", "metal", "winter", "lemon")
CHANCE = 1 / 5  # a list has six words
KINDS = ("previous token", "next token", "marks [CLS], [SEP]", "same word", "similar meaning")


@claim(
    "head-patterns",
    topic="trained",
    source="paper",
    statement="heads for previous token, next token, separators, same word, similar meaning exist "
    "in a trained encoder, not in an untrained one",
    why="""A head whose q and k read positions can look one token back, one that reads words can
    look at equal or related words. With m the weight on what a pattern names and c what uniform
    weights would put there, a head scores (m - c) / (1 - c): 0 is chance, 1 is all there is. With
    72 heads some score well by luck, so for each pattern the best head is chosen on one half of the
    sentences and measured on the other. In an untrained twin all weights are near 1/n and no head
    scores. Words of equal or similar meaning are looked for in lists of six words, among the weight
    that a word gives to the other five. How clear patterns are differs much: they are tendencies
    rather than rules.""",
    reference="Clark et al. 2019, What does BERT look at?, arXiv 1906.04341",
    judge=Above(0.25, "score of the best head of the weakest of the five patterns (MiniLM)"),
    control="the untrained twin",
    needs=needs("minilm"),
)
def head_patterns_exist(trial: Trial) -> Evidence:
    found: dict[str, Figure] = {}
    weakest = Figure(math.inf)
    for fresh in (False, True):
        scores = _pattern_scores(trial.seed, trial.size, fresh)
        best = {kind: _held_out(scores[kind]) for kind in KINDS}
        label = "untrained: " if fresh else ""
        found |= {f"{label}{kind}": figure for kind, figure in best.items()}
        if fresh == trial.control:
            weakest = min(best.values(), key=lambda figure: figure.value)
    clear = sum(found[kind].value >= 0.5 for kind in KINDS)
    return Evidence(
        weakest,
        Bars("score of the best head on the other half", found),
        details={"patterns with more than half of what chance leaves": clear},
    )


def _held_out(scores: Tensor) -> Figure:
    """(texts, L, H): the head that is best on every other text, measured on the others."""
    best = int(scores[::2].mean(0).argmax())
    return over(scores[1::2].flatten(1)[:, best].tolist())


@lru_cache(maxsize=4)
def _pattern_scores(seed: int, size: Size, fresh: bool) -> dict[str, Tensor]:
    """For each kind (texts, L, H); kept, because the control asks for the same."""
    trial, reader = Trial(seed, size), one_of("minilm", seed, fresh=fresh)
    reads = [reader.read(text) for text in texts(trial)]
    return {
        "previous token": _named(reads, "previous token"),
        "next token": _named(reads, "next token"),
        "marks [CLS], [SEP]": torch.stack([_on_marks(read) for read in reads]),
        "same word": _in_lists(reader, trial, [(one, one) for one, _ in PAIRS]),
        "similar meaning": _in_lists(reader, trial, PAIRS),
    }


def _named(reads: Sequence[Read], name: str) -> Tensor:
    """(texts, L, H): by attnlab's own score of patterns."""
    return torch.tensor([
        [
            [each.scores[name] for each in head_patterns(layer, read.sequence, read.sequence)]
            for layer in read.layers
        ]
        for read in reads
    ])  # fmt: skip


def _on_marks(read: Read) -> Tensor:
    """(L, H): words that look at the marks, above chance."""
    marks = torch.tensor(read.sequence.special)
    return _above_chance(read.weights[:, :, ~marks][..., marks].sum(-1).mean(-1), marks)


def _in_lists(reader: Reader, trial: Trial, pairs: Sequence[tuple[str, str]]) -> Tensor:
    """(pairs, L, H): how much two words look at each other rather than at others of their list.

    Weight on the word itself and on the marks is left aside: most heads have most of it there.
    """
    draw = random.Random(trial.seed)
    lists = []
    for one, other in list(pairs) * trial.pick(2, 6):
        lists.append([one, other, *draw.sample(FILLERS, 4)])
        draw.shuffle(lists[-1])
    found = []
    reads = reader.read_all([" ".join(words) for words in lists])
    for (one, other), words, read in zip(cycle(pairs), lists, reads, strict=False):
        i, j = (words.index(one) + 1, len(words) - words[::-1].index(other))  # [CLS] is before
        assert [read.sequence.texts[k] for k in (i, j)] == [one, other]
        both = (_among_words(read, i, j) + _among_words(read, j, i)) / 2
        found.append((both - CHANCE) / (1 - CHANCE))
    return torch.stack(found).unflatten(0, (-1, len(pairs))).mean(0)


def _among_words(read: Read, word: int, other: int) -> Tensor:
    """(L, H): what a word gives to another one of all that it gives to other words."""
    row = read.weights[:, :, word, 1:-1].clone()  # the marks stand at both ends
    row[..., word - 1] = 0
    return row[..., other - 1] / row.sum(-1)


def _above_chance(mass: Tensor, named: Tensor) -> Tensor:
    chance = float(named.float().mean())
    return (mass - chance) / (1 - chance)


@claim(
    "layers-differ",
    topic="trained",
    source="paper",
    statement="heads of different layers attend differently, more than heads of one layer do",
    why="""Two heads are as far apart as the Jensen-Shannon divergence of their rows says,
    JS = (KL(a, m) + KL(b, m)) / 2 with m = (a + b) / 2, averaged over all tokens. Heads of a layer
    read the same vectors, heads of different layers read what others have already mixed. So if
    layers have work of their own, pairs from two layers are further apart on average than
    pairs of one layer. If the layer said nothing, the ratio would be 1, as it is when heads are
    dealt to layers by chance.""",
    reference="Clark et al. 2019, What does BERT look at?, arXiv 1906.04341",
    judge=Above(1.05, "distance of heads of two layers over that of heads of one layer (MiniLM)"),
    control="heads dealt to layers by chance",
    needs=needs("minilm"),
)
def layers_differ(trial: Trial) -> Evidence:
    ratios, between = [], []
    for number, text in enumerate(texts(trial)):
        weights = trained("minilm").read(text).weights.double()  # (L, H, T, T)
        layers, heads = weights.shape[:2]
        distances = _jensen_shannon(weights.flatten(0, 1))  # (L H, L H)
        layer = torch.arange(layers).repeat_interleave(heads)
        if trial.control:
            layer = layer[torch.randperm(len(layer), generator=trial.random(number))]
        apart = (layer[:, None] - layer).abs()
        itself = torch.eye(len(layer), dtype=torch.bool)
        by_gap = [float(distances[(apart == gap) & ~itself].mean()) for gap in range(layers)]
        ratios.append(float(distances[apart > 0].mean()) / by_gap[0])
        between.append(by_gap)
    curve = torch.tensor(between).mean(0).tolist()
    return Evidence(
        over(ratios),
        Plot(
            "layers between two heads",
            "Jensen-Shannon divergence",
            [Series("mean of all pairs", [(float(gap), y) for gap, y in enumerate(curve)])],
        ),
    )


def _jensen_shannon(weights: Tensor) -> Tensor:
    """(heads, T, T) -> (heads, heads), the mean over tokens."""
    own = torch.special.xlogy(weights, weights).sum(-1).mean(-1)  # minus the entropy
    found = []
    for each in weights:
        middle = (each + weights) / 2  # (heads, T, T)
        found.append(-torch.special.xlogy(middle, middle).sum(-1).mean(-1))
    return torch.stack(found) + (own[:, None] + own) / 2
