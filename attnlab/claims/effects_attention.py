"""What the prediction owes to attention: cutting the attention to one token.

Letters: B batch, L layers, H heads, T tokens, n tokens that are cut in turn.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache, partial

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlab.claims._claim import Bars, Evidence, Trial, claim, mean_interval
from attnlab.claims._pretrained_models import SENTENCES, needs_models, trained_reader
from attnlab.claims.judges import Above, Below, Every
from attnlab.claims.trained_words import rank_correlation
from attnlab.interpret._intervene import intervene
from attnlab.interpret._key_effects import cut_weights
from attnlab.interpret._model_input import ModelInput, read_input
from attnlab.report import Mark

MODELS = ("SmolLM2", "MiniLM")


@claim(
    "weight-predicts-effect",
    topic="effects",
    source="paper",
    statement="the more attention a token gets, the more the prediction changes when attention to "
    "it is forbidden",
    why="""An output is sum_j a_j v_j, so that a_j decides how much of v_j arrives. But what arrives
    can be useless: a head parks weight that it does not need on a token whose value is small, and
    the residual path, the feed-forward layers and other heads carry the same information. Here one
    token at a time may not be attended to, in all layers and heads at once, and the rest of each
    row is scaled to the same sum. In the language model only the last position is cut, and the
    effect is the size of the change of the log-probability of the token that it predicts. In the
    sentence encoder all positions are cut, and the effect is how far the mean of the output vectors
    moves. The weight is the mean over layers and heads. The figure is Spearman's rank correlation
    over the tokens of a text; the details leave out the first token (and [SEP]), which gets
    the most weight.""",
    judge=Every(
        Above(0.5, "rank correlation of a token's weight with its effect (SmolLM2)"),
        [Above(0.5, "rank correlation (MiniLM)")],
    ),
    control="the weights in random order",
    reference="Jain and Wallace 2019, Attention is not explanation (arXiv 1902.10186); "
    "Wiegreffe and Pinter 2019, Attention is not not explanation (arXiv 1908.04626)",
    needs=needs_models("minilm", "smollm2"),
)
def weight_predicts_effect(trial: Trial) -> Evidence:
    # one generator for both models: the control differs only in the order of the weights
    correlations = {name: list[float]() for name in MODELS}
    inner: dict[str, list[float]] = {f"{name}, without special tokens": [] for name in MODELS}
    texts = sample_beginnings(trial, trial.pick(6, 20))
    for number, text in enumerate(texts):
        for name in MODELS:
            weights, effects = weights_and_effects(name, text)  # (T,) each
            if trial.control:
                order = torch.randperm(len(weights), generator=trial.generator(number))
                weights = weights[order]
            correlations[name].append(rank_correlation(weights, effects))
            words = slice(1, -1 if name == "MiniLM" else None)
            inner[f"{name}, without special tokens"].append(
                rank_correlation(weights[words], effects[words])
            )
    bars = {name: mean_interval(values) for name, values in {**correlations, **inner}.items()}
    return Evidence(
        bars["SmolLM2"],
        Bars("rank correlation of weight and effect", bars),
        parts={"rank correlation (MiniLM)": bars["MiniLM"]},
        details={name: str(bars[name]) for name in inner} | {"texts": len(texts)},
    )


@lru_cache(maxsize=64)
def weights_and_effects(name: str, text: str) -> tuple[Tensor, Tensor]:
    """For each token the mean weight on it, and the effect if it is cut; (T,) each. Cached, because
    the control needs the same."""
    reader = trained_reader(name.lower())
    source = read_input(reader.inspected, text)
    query = None if name == "MiniLM" else source.ids.shape[1] - 1
    rows = slice(None) if query is None else slice(query, None)
    weights = reader.read(text).weights[:, :, rows].mean((0, 1, 2))  # (T,)
    return weights, cut_effects(source, query)


def cut_effects(source: ModelInput, query: int | None) -> Tensor:
    """(T,): how the prediction at `query`, or the mean vector, changes without each token."""
    T = source.ids.shape[1]
    keys = torch.arange(T)
    change = intervene(source.model)
    for number in range(len(change.sites)):
        edit = partial(cut_weights, query=query, keys=keys, scale=True)
        change = change.weights(number, None, edit)
    whole = source.run().values  # (1, T, V) or (1, T, W)
    with change:
        cut = source.repeated(T).run().values
    if query is None:
        return (cut.mean(1) - whole.mean(1)).norm(dim=-1)
    target = int(whole[0, query].argmax())
    before, after = (x[:, query].log_softmax(-1)[:, target] for x in (whole, cut))
    return (after - before).abs()


def sample_beginnings(trial: Trial, count: int) -> list[str]:
    """The first 12 to 20 words of two sentences each, so that most end within a sentence."""
    texts = []
    for number in range(count):
        generator = trial.generator(number, 1)
        order = torch.randperm(len(SENTENCES), generator=generator)[:2].tolist()
        words = " ".join(SENTENCES[index] for index in order).split()
        length = int(torch.randint(12, 21, (), generator=generator))
        texts.append(" ".join(words[:length]))
    return texts


def sample_sentences(trial: Trial, count: int) -> list[str]:
    """Different sentences, in an order that the seed decides."""
    order = torch.randperm(len(SENTENCES), generator=trial.generator())[:count]
    return [SENTENCES[int(index)] for index in order]


NEAR = 16  # tokens after the first one, to which it is also context


@claim(
    "sink-cut-early",
    topic="effects",
    source="paper",
    statement="in early layers the attention to the first token can be cut at no loss",
    quoted=True,
    why="""Trained causal heads park weight on the first token, and most of it in later layers. But
    the first token is also a word. The tokens right after it have little else to read, and lose
    their context if it is cut: their loss decides here. To tokens 16 or more later it is a sink and
    hardly context: cut for them alone, nothing is lost in the first third of the layers (the
    control). In the other two thirds the same cut costs much: there the weight falls on tokens that
    now say too much, as with a window that drops the first token (window-needs-sinks). The rest of
    each row is scaled to sum to 1; the loss is that of all next tokens.""",
    judge=Below(0.05, "loss added, first token cut in the first third of the layers (SmolLM2)"),
    control=f"cut only for tokens {NEAR} or more later",
    reference="Xiao et al. 2023, Efficient streaming language models with attention sinks, figure 2"
    " (arXiv 2309.17453)",
    needs=needs_models("smollm2"),
)
def sink_cut_early(trial: Trial) -> Evidence:
    texts = [
        " ".join(sample_sentences(Trial(1000 * trial.seed + number), trial.pick(2, 5)))
        for number in range(trial.pick(5, 16))
    ]
    L = len(intervene(trained_reader("smollm2").inspected.model).sites)
    cuts = {
        "first third of the layers": (range(L // 3), 1),
        f"first third, tokens {NEAR} or more later": (range(L // 3), NEAR),
        f"other two thirds, tokens {NEAR} or more later": (range(L // 3, L), NEAR),
        "first layer alone": (range(1), 1),
    }
    added = {
        name: mean_interval([added_loss(text, *cut) for text in texts])
        for name, cut in cuts.items()
    }
    weights = first_token_weights(texts[0])  # (L,)
    return Evidence(
        added[list(cuts)[1 if trial.control else 0]],
        Bars("added loss in nats", added, [Mark("threshold", y=0.05)]),
        details={
            **{f"loss added, {name}": str(figure) for name, figure in added.items()},
            "weight on the first token, first third of the layers": float(weights[: L // 3].mean()),
            "weight on the first token, other layers": float(weights[L // 3 :].mean()),
            "texts": len(texts),
        },
    )


def added_loss(text: str, layers: range, start: int) -> float:
    """In nats, if queries from `start` on do not attend to the first token in these layers."""
    return loss_without_first(text, layers, start) - loss_without_first(text, range(0), 1)


@lru_cache(maxsize=512)
def loss_without_first(text: str, layers: range, start: int) -> float:
    """Cached, because the control needs the same."""
    source = read_input(trained_reader("smollm2").inspected, text)
    change = intervene(source.model)
    for number in layers:
        change = change.weights(number, None, partial(without_first, start=start))
    with change if layers else nullcontext():
        logits = source.run().values
    return float(F.cross_entropy(logits[0, :-1].float(), source.ids[0, 1:]))


def without_first(A: Tensor, *, start: int) -> Tensor:
    """Weights (B, T, T) of queries that do not attend to the first token, from `start` on."""
    A[:, start:, 0] = 0
    return A / A.sum(-1, keepdim=True)


def first_token_weights(text: str) -> Tensor:
    """(L,): the mean weight of all other queries on the first token."""
    weights = trained_reader("smollm2").read(text).weights  # (L, H, T, T)
    return weights[:, :, 1:, 0].mean((1, 2))
