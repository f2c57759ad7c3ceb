"""What a trained encoder does with words: references, meaning in context, importance.

Letters: L layers, H heads, T tokens.
"""

from __future__ import annotations

import random
from functools import lru_cache

import torch
from torch import Tensor

from attnlab.claims._claim import (
    Bars,
    Estimate,
    Evidence,
    Trial,
    claim,
    fraction_interval,
    mean_interval,
)
from attnlab.claims._generated_sentences import SENTENCE_MAKERS, make_sentences
from attnlab.claims._pretrained_models import (
    SentenceReader,
    get_reader,
    needs_models,
    sentences_for,
    trained_reader,
)
from attnlab.claims.judges import Above, Below, Every
from attnlab.interpret._options import LookInput


@claim(
    "subject-and-pronoun",
    topic="trained",
    source="paper",
    statement="a verb attends to its subject rather than to a nearer noun, a pronoun or title to "
    "the name it stands for",
    why="""Some heads of trained encoders follow grammar: for 'the doctor near the lake sleeps' you
    can compare a(sleeps, doctor) with a(sleeps, lake). Of 72 heads some do well by luck, so for
    each kind the best head is selected on one half of the sentences and measured on the other. That
    half has other names and nouns, so that a head that prefers a certain name gains nothing.
    Position alone must not help, so the subject (or the name) is the nearer word in half of the
    sentences: a head that always prefers the nearer word gets 50%. The result shows that a head
    prefers the correct word, not that the model needs this head.""",
    reference="Clark et al. 2019, What does BERT look at?, arXiv 1906.04341",
    judge=Above(
        0.7, "fraction of new sentences where the best head prefers the correct word (MiniLM)"
    ),
    control="an untrained copy",
    needs=needs_models("minilm"),
)
def grammatical_attention(trial: Trial) -> Evidence:
    bars: dict[str, Estimate] = {}
    judged = Estimate(0.0)
    for untrained in (False, True):
        label = ", untrained" if untrained else ""
        hits, total = 0, 0
        for kind, correct in _prefers_correct_word(
            trial.seed, trial.pick(80, 400), untrained
        ).items():
            selection, new = correct.chunk(2)  # (N / 2, L H) each
            best = int(selection.float().mean(0).argmax())
            new_hits = int(new[:, best].sum())
            bars[f"{kind}{label}"] = fraction_interval(new_hits, len(new))
            hits, total = hits + new_hits, total + len(new)
        if untrained == trial.control:
            judged = fraction_interval(hits, total)
    return Evidence(judged, Bars("fraction of sentences with the correct word", bars))


@lru_cache(maxsize=4)
def _prefers_correct_word(seed: int, count: int, untrained: bool) -> dict[str, Tensor]:
    """For each kind (N, L H): whether the word attends more to the correct word than to the other.

    Cached, because the control needs the same.
    """
    rng = random.Random(seed)
    reader = get_reader("minilm", seed, untrained=untrained)
    correct = {}
    for kind in SENTENCE_MAKERS:
        examples = make_sentences(kind, rng, count)
        rows = []
        reads = reader.read_all([text for text, _, _, _ in examples])
        for read, (_, word, target, other) in zip(reads, examples, strict=True):
            row = read.weights[:, :, read.position_of(word)].flatten(0, 1)  # (L H, T)
            rows.append(row[:, read.position_of(target)] > row[:, read.position_of(other)])
        correct[kind] = torch.stack(rows)
    return correct


# One word in two contexts, at the same position in both, because positions change keys too

HOMONYMS = (
    ("I was just going to play at the park .", "I was going to a play in the park .", "play"),
    ("We sat down on the bank of the river .", "We got money from the bank in town .", "bank"),
    ("They found a small bat in the cave .", "He swung the wooden bat at the ball .", "bat"),
    ("The spring broke in the old clock .", "The spring came late after the winter .", "spring"),
    ("She wore a golden ring on her hand .", "I heard the phone ring in the hall .", "ring"),
    ("You can try to park in the street .", "We met at the park near the school .", "park"),
    ("The farmer built a pen for the pigs .", "She wrote with a pen on the paper .", "pen"),
    ("A bird with a long bill ate the fish .", "We paid for the large bill at the bar .", "bill"),
)
WEIGHT_CHANGE = "1 - cosine of the weights it gives"
DIFFERENT_POSITIONS = (
    "I was going to play at the park .",
    "I was going to a play in the park .",
    "play",
)


@claim(
    "context-changes-keys",
    topic="trained",
    source="course",
    statement='keys of "play" differ between "going to play at the park" and "going to a play in '
    'the park", while attention looks alike',
    why="""A key is k = W_K x, and from the second layer on x holds what attention brought from
    other words: the verb and the noun get different keys although the word is the same. The
    comparison needs care. In these two sentences the word is at different positions, and in an
    untrained model, whose position codes are as long as its word vectors, this alone changes the
    keys (details). So the experiment uses sentences with the word at the same position. Then the
    keys of the first layer are equal. In an untrained copy, whose attention only averages, the keys
    hardly change, while in the trained model they do. The weights that the word gives change less:
    they count as alike if they change by at most 0.1.""",
    judge=Every(
        Above(0.05, "1 - cosine of the word's keys in two meanings, layers 2 to 6 (MiniLM)"),
        [Below(0.1, WEIGHT_CHANGE)],
    ),
    control="an untrained copy",
    needs=needs_models("minilm"),
)
def context_changes_keys(trial: Trial) -> Evidence:
    bars: dict[str, Estimate] = {}
    details: dict[str, float | int | str] = {}
    judged = weight_change = Estimate(0.0)
    for untrained in (False, True):
        reader = get_reader("minilm", trial.seed, untrained=untrained)
        label = "untrained" if untrained else "trained"
        changes = torch.stack(
            [_context_changes(reader, *pair) for pair in HOMONYMS]
        )  # (pairs, 2, L)
        keys, rows = changes[:, 0, 1:].mean(1), changes[:, 1, 1:].mean(1)
        bars[f"keys, {label}"] = mean_interval(keys.tolist())
        bars[f"attention of the word, {label}"] = mean_interval(rows.tolist())
        moved = _context_changes(reader, *DIFFERENT_POSITIONS)[0, 1:].mean()
        details[f"keys of play at two positions, {label}"] = round(float(moved), 3)
        if untrained == trial.control:
            judged, weight_change = bars[f"keys, {label}"], bars[f"attention of the word, {label}"]
    plot = Bars("change: 1 - cosine of keys, or of weights", bars)
    return Evidence(judged, plot, details=details, parts={WEIGHT_CHANGE: weight_change})


def _context_changes(reader: SentenceReader, one: str, other: str, word: str) -> Tensor:
    """(2, L): 1 - cosine of the word's keys, and of its rows of weights, mean over heads.

    If the sentences differ in length, only the common positions of the rows are compared.
    """
    reads = [reader.read(text, qkv=True) for text in (one, other)]
    a, b = ((read.keys[:, :, read.position_of(word)], read.weights[:, :, read.position_of(word)])
            for read in reads)  # fmt: skip
    shared = min(a[1].shape[-1], b[1].shape[-1])
    return torch.stack([
        1 - torch.cosine_similarity(a[0], b[0], -1).mean(1),
        1 - torch.cosine_similarity(a[1][..., :shared], b[1][..., :shared], -1).mean(1),
    ])  # fmt: skip


@claim(
    "gradient-at-attended",
    topic="trained",
    source="course",
    statement="gradients are larger at strongly attended words",
    why="""The output of a head is c = sum a_i v_i, so dc/dv_i = a_i: a word's value counts by its
    weight. But the gradient at the word's vector also passes through queries, keys, the residual
    path and all other layers, so this need not be true of a whole model. The experiment measures
    the rank correlation, over the words of a sentence, between the weight that a word receives
    (mean of all layers, heads and queries) and the norm of the gradient at its embedding. The
    gradient is that of the sentence's mean vector along random directions. [CLS] and [SEP] are left
    out: they get much weight and are not words.""",
    judge=Above(0.3, "rank correlation of weight received and gradient (MiniLM)"),
    control="weights shuffled among the words of the sentence",
    needs=needs_models("minilm"),
)
def gradient_at_attended(trial: Trial) -> Evidence:
    reader = trained_reader("minilm")
    correlations: dict[str, list[float]] = {}
    shuffled: list[float] = []
    for number, text in enumerate(sentences_for(trial)):
        read = reader.read(text)
        words = ~torch.tensor(read.sequence.special)
        gradient = _gradient_norms(reader, text, trial.generator(number))[words]
        received = read.weights.mean((1, 2))[:, words]  # (L, words)
        correlations.setdefault("all layers", []).append(
            rank_correlation(received.mean(0), gradient)
        )
        for layer, layer_weights in enumerate(received, 1):
            correlations.setdefault(f"layer {layer}", []).append(
                rank_correlation(layer_weights, gradient)
            )
        shuffled.append(
            _shuffled_correlation(received.mean(0), gradient, trial.generator(number, 1))
        )
    correlations["shuffled"] = shuffled
    return Evidence(
        mean_interval(shuffled if trial.control else correlations["all layers"]),
        Bars(
            "rank correlation with the gradient",
            {name: mean_interval(v) for name, v in correlations.items()},
        ),
    )


def _shuffled_correlation(
    one: Tensor, other: Tensor, generator: torch.Generator, shuffles: int = 50
) -> float:
    """Mean correlation over many random orders of the first: the chance level."""
    orders = [torch.randperm(len(one), generator=generator) for _ in range(shuffles)]
    return sum(rank_correlation(one[order], other) for order in orders) / shuffles


def _gradient_norms(
    reader: SentenceReader, text: str, generator: torch.Generator, directions: int = 4
) -> Tensor:
    """(T,): norm of the gradient at each token's embedding, over random directions."""
    inputs = dict(reader.inspected.prepare(LookInput(text)).inputs)
    model = reader.inspected.model
    vectors = model.get_input_embeddings()(inputs.pop("input_ids")).detach().requires_grad_()
    mean = model(inputs_embeds=vectors, **inputs).last_hidden_state[0].mean(0)  # (W,)
    gradients = []
    for _ in range(directions):
        direction = torch.randn(mean.shape, generator=generator)
        gradients.append(torch.autograd.grad(mean @ direction, vectors, retain_graph=True)[0][0])
    return torch.stack(gradients).pow(2).sum((0, 2)).sqrt()


def rank_correlation(one: Tensor, other: Tensor) -> float:
    """Spearman's rank correlation. Measured numbers have no ties."""
    ranks = torch.stack([values.argsort().argsort().double() for values in (one, other)])
    return float(torch.corrcoef(ranks)[0, 1])
