"""What models lose without some of their heads.

Letters: L layers, H heads, T tokens, D head size, R rows.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

import attnlab
from attnlab.claims._claim import (
    Bars,
    Estimate,
    Evidence,
    Lines,
    Trial,
    claim,
    fraction_interval,
    mean_interval,
)
from attnlab.claims._pretrained_models import needs_models, trained_reader
from attnlab.claims.effects_attention import sample_sentences
from attnlab.claims.efficient_synthesizer import TAY
from attnlab.claims.judges import Above, Below, Every, exact
from attnlab.interpret._head_importance import head_importance
from attnlab.interpret._intervene import intervene
from attnlab.models import Decoder, StackConfig
from attnlab.report import Mark, Series

Heads = Sequence[tuple[int, int]]
LITTLE = 0.01  # of the loss


@claim(
    "heads-removable",
    topic="effects",
    source="paper",
    statement="most heads of a trained model can be removed one at a time at little loss",
    why="""A layer adds the outputs of its heads to the residual stream, so that removing one head
    takes away one of H terms. What it wrote is often written again, by another head or a later
    layer, or is not needed in this text. This says nothing about removing several: two heads that
    do the same can both be removed alone, and not together. The outputs of a head become 0, and
    little means at most 1% of the loss. The control removes all heads of a layer at once: what
    they write together is missed more often.""",
    judge=Above(0.75, "fraction of heads that add at most 1% to the loss (SmolLM2)"),
    control="all heads of a layer at once",
    reference="Michel et al. 2019, Are sixteen heads really better than one? (arXiv 1905.10650); "
    "Voita et al. 2019 (arXiv 1905.09418)",
    needs=needs_models("smollm2"),
)
def heads_removable(trial: Trial) -> Evidence:
    text = " ".join(sample_sentences(trial, trial.pick(2, 5)))
    heads, layers = head_effects(text, trial.pick(3, 1))
    shares = {"heads": heads, "all heads of a layer": layers}
    fractions = {
        name: fraction_interval(sum(x <= LITTLE for x in values), len(values))
        for name, values in shares.items()
    }
    lines = [
        Series(name, [(i / len(values), x) for i, x in enumerate(sorted(values))])
        for name, values in shares.items()
    ]
    return Evidence(
        fractions["all heads of a layer" if trial.control else "heads"],
        Lines("fraction of the parts", "added loss / loss", lines, marks=[Mark("1%", y=LITTLE)]),
        details={
            "heads that lower the loss": sum(x < 0 for x in heads),
            "heads that add more than 10%": sum(x > 0.1 for x in heads),
            "heads": len(heads),
        },
    )


@lru_cache(maxsize=8)
def head_effects(text: str, every: int) -> tuple[list[float], list[float]]:
    """What heads, and what layers without all their heads, add to the loss, relative to it. Of each
    `every`-th layer. Cached, because the control needs the same."""
    inspected = trained_reader("smollm2").inspected
    model, ids = inspected.model, inspected.processor(text, return_tensors="pt").input_ids
    counts = [site.heads or 0 for site in intervene(model).sites]
    heads = [(layer, head) for layer in range(0, len(counts), every) for head in range(counts[0])]
    measured = head_importance(model, ids, heads=heads)
    layers = []
    for layer in range(len(counts)):
        with torch.no_grad(), intervene(model).ablate(layer):
            logits = model(ids, use_cache=False).logits
        layers.append(
            float(F.cross_entropy(logits[0, :-1].float(), ids[0, 1:])) - measured.baseline
        )
    effects = [head.effect / measured.baseline for head in measured.heads]
    return effects, [added / measured.baseline for added in layers]


RANDOM = "share of the copying lost without as many random heads"
COPIED, DRAWS = 24, 5  # tokens of a row before they are repeated; draws of random heads


@claim(
    "induction-heads-copy",
    topic="effects",
    source="paper",
    statement="without its induction heads a model no longer copies from its context, and without "
    "as many random heads it still does",
    why="""An induction head attends to the token after an earlier occurrence of the current one,
    and predicts that it comes again. Random tokens, repeated once, cannot be predicted in any other
    way. The heads are found on other random tokens, by their weights alone: a score of at least
    0.4. Without them the copy should fail. As many random heads are the comparison: a model that
    lost any heads might fail too. Backup heads, which begin to copy when others stop, would speak
    against the statement.""",
    judge=Every(
        Above(0.5, "share of the copying lost without the induction heads (SmolLM2)"),
        [Below(0.25, RANDOM)],
    ),
    control="induction heads and random heads exchanged",
    reference="Olsson et al. 2022, In-context learning and induction heads (arXiv 2209.11895)",
    needs=needs_models("smollm2"),
)
def induction_heads_copy(trial: Trial) -> Evidence:
    induction, others = split_heads(trial.seed)
    ids = repeated_tokens(trial.generator(), trial.pick(4, 8))
    whole = copy_accuracies(ids, ())
    random = [
        [others[int(index)] for index in torch.randperm(len(others), generator=generator)][
            : len(induction)
        ]
        for generator in (trial.generator(draw, 1) for draw in range(trial.pick(3, DRAWS)))
    ]
    kept = {
        "induction": copy_accuracies(ids, tuple(induction)),
        "random": torch.stack([copy_accuracies(ids, tuple(heads)) for heads in random]).mean(0),
    }
    lost = {name: mean_interval((1 - rows / whole).tolist()) for name, rows in kept.items()}
    without, compared = ("random", "induction") if trial.control else ("induction", "random")
    bars = {"whole model": whole} | {f"without {name} heads": rows for name, rows in kept.items()}
    return Evidence(
        lost[without],
        Bars("accuracy of copying", {name: mean_interval(x.tolist()) for name, x in bars.items()}),
        parts={RANDOM: lost[compared]},
        details={
            "induction heads": len(induction),
            "heads": len(induction) + len(others),
            "accuracy of the whole model": float(whole.mean()),
            "rows": len(ids),
        },
    )


@lru_cache(maxsize=4)
def split_heads(seed: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The induction heads, and all others."""
    scored = attnlab.find_heads(trained_reader("smollm2").inspected, "induction", seed=seed)
    induction = [(head.layer, head.head) for head in scored.heads]
    heads = [(layer, head) for layer, row in enumerate(scored.scores) for head in range(len(row))]
    return induction, [head for head in heads if head not in induction]


def repeated_tokens(generator: torch.Generator, rows: int) -> Tensor:
    """(R, 2 COPIED): random tokens, each row repeated once. The first ids are special tokens."""
    vocabulary = trained_reader("smollm2").inspected.model.config.vocab_size
    ids = torch.stack(
        [torch.randperm(vocabulary - 100, generator=generator)[:COPIED] + 100 for _ in range(rows)]
    )
    return ids.repeat(1, 2)


def copy_accuracies(ids: Tensor, heads: Heads) -> Tensor:
    """(R,): the fraction of repeated tokens that the model without these heads predicts."""
    model = trained_reader("smollm2").inspected.model
    change = intervene(model)
    for layer, head in heads:
        change = change.ablate(layer, head)
    with torch.no_grad(), change if heads else nullcontext():
        logits = model(ids, use_cache=False).logits
    right = logits[:, COPIED:-1].argmax(-1) == ids[:, COPIED + 1 :]
    return right.float().mean(1)


KINDS = ("synthesizer", "synthesizer_random", "synthesizer_factorized", "softmax")


@claim(
    "synthesizer-ablation",
    topic="effects",
    source="attnlab",
    statement="the heads of a synthesizer can be ablated like those of softmax attention",
    why="""What a head adds to the residual stream is A v W_O, with its own rows of the output
    projection W_O. Ablating it sets A v to 0, wherever A comes from: a synthesizer has no keys, but
    it has A and v. So the model must be the one in which the head's part of W_O is 0, for all three
    synthesizers as for softmax attention. Setting its scores to 0, which one might take for the
    same, gives equal weights to all tokens, and the head still writes their mean.""",
    judge=exact("distance of an ablated head from a model without its part of W_O, relative"),
    control="its scores set to 0 instead of its output",
    reference=TAY,
)
def synthesizer_ablation(trial: Trial) -> Evidence:
    worst = dict.fromkeys(KINDS, 0.0)
    for kind in KINDS:
        for repeat in range(trial.pick(1, 5)):
            generator = trial.generator(repeat)
            model = random_decoder(kind, generator)
            ids = torch.randint(0, 20, (2, 7), generator=generator)
            for layer in range(2):
                for head in range(3):
                    change = intervene(model).ablate(
                        layer, head, "uniform" if trial.control else "zero"
                    )
                    with torch.no_grad(), change:
                        ablated = model(ids)
                    expected = without_head(model, layer, head, ids)
                    distance = (ablated - expected).norm() / expected.norm()
                    worst[kind] = max(worst[kind], float(distance))
    return Evidence(
        Estimate(max(worst[kind] for kind in KINDS[:-1])),
        Bars("largest relative distance", {kind: Estimate(worst[kind]) for kind in KINDS}),
        details={kind: worst[kind] for kind in KINDS},
    )


def random_decoder(attention: str, generator: torch.Generator) -> Decoder:
    """Two layers with weights so large that attention is far from uniform."""
    model = Decoder(StackConfig(20, 7, width=12, layers=2, heads=3, attention=attention))
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


@torch.no_grad()
def without_head(model: Decoder, layer: int, head: int, ids: Tensor) -> Tensor:
    """The logits of a copy whose output projection does not read this head."""
    changed = copy.deepcopy(model)
    attention: Any = changed.stack.blocks[layer].attention
    D = attention.head_dim
    attention.out.weight[:, head * D : (head + 1) * D] = 0
    logits: Tensor = changed(ids)
    return logits
