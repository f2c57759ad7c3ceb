"""What the structure of a model allows: depth, windows, short convolutions, a state that flips.

Letters: T tokens, L layers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor, nn

from attnlab.claims._ability_models import (
    TEST_ROWS,
    TEST_SEED,
    AbilityTraining,
    differences,
    draw_rows,
    make_rows,
    repeated_accuracies,
    train_ability,
    train_model,
    training_seeds,
)
from attnlab.claims._claim import Bars, Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.efficient_long_distance_copying import LSTMModel
from attnlab.claims.judges import Above, Below, exact
from attnlab.models import Decoder, StackConfig
from attnlab.report import Series
from attnlab.tasks.abilities.parity import Parity

INDUCTION_MODELS, PARITY_MODELS = "induction-models", "parity-models"


@claim(
    "window-reach",
    topic="abilities",
    source="paper",
    statement="L layers of windows of w keys, each query's own among them, see exactly "
    "L (w - 1) tokens back",
    why="""In one layer token t depends on the tokens t - w + 1 to t. Its vector then carries what
    those tokens saw in the layer below, so each layer adds w - 1 to the reach, and residual
    connections, norms and feed-forward layers add nothing: they work token by token. The gradient
    of an output with respect to an earlier embedding is exactly 0 beyond the reach. The usual
    "depth times window" counts the query's own key too often. The reach is an upper bound of what
    a trained model uses: what arrives over many layers is strongly mixed. One layer of full
    attention, the control, sees everything.""",
    judge=exact("largest |tokens back that have a gradient - L (w - 1)|", 0),
    control="one of the layers has full attention",
    reference="Beltagy et al. 2020, Longformer, section 3.1 (arXiv 2004.05150); Jiang et al. 2023, "
    "Mistral 7B (arXiv 2310.06825)",
)
def window_reach(trial: Trial) -> Evidence:
    worst, lines = 0.0, []
    for window in trial.pick((2, 3, 5), (2, 3, 5, 9)):
        points = []
        for layers in trial.pick((1, 2, 3), (1, 2, 3, 5)):
            stack = [f"window:window={window}"] * layers
            if trial.control:
                stack[0] = "softmax"
            reach = gradient_reach(stack, 3 + layers * window, trial.seed)
            worst = max(worst, abs(reach - layers * (window - 1)))
            points.append((float(layers), float(reach)))
        lines.append(Series(f"window of {window}", points))
    return Evidence(Estimate(worst), Lines("layers", "tokens back", lines))


def gradient_reach(attention: list[str], tokens: int, seed: int) -> int:
    """How far back the furthest embedding with a gradient is, from the last token."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = StackConfig(
            7, tokens, width=12, layers=len(attention), heads=3, attention=attention
        )
        model = Decoder(config).double().eval()
        ids = torch.randint(7, (1, tokens))
    embedded: list[Tensor] = []

    def keep(_: nn.Module, __: object, output: Tensor) -> Tensor:
        embedded.append(output.detach().requires_grad_())
        return embedded[-1]

    hook = model.stack.embedding.register_forward_hook(keep)
    model(ids)[0, -1].square().sum().backward()
    hook.remove()
    gradient = embedded[0].grad
    assert gradient is not None
    reached = gradient[0].abs().sum(-1).nonzero()  # positions of tokens that matter
    return tokens - 1 - int(reached.min())


PLAIN = AbilityTraining(
    "induction:length=16,tokens=6,vocabulary=16", convolution=0, position="rotary", steps=1500
)


@claim(
    "convolution-induction",
    topic="abilities",
    source="paper",
    statement="one layer of linear attention with the delta rule learns induction with a short "
    "convolution over queries, keys and values, and not without",
    why="""To continue a sequence, the state must hold each token under the token before it. Without
    a convolution, key and value of one write come from the same token, so the state of a single
    layer cannot join two neighbors. A convolution of 4 taps lets the key be made of the
    previous token and the value of the newest. That is why DeltaNet, Mamba and others have one. A
    convolution of one tap sees no neighbor: that is the control.""",
    judge=Above(0.3, "accuracy with a convolution of 4 tokens less that without"),
    control="a convolution of a single token",
    reference="Fu et al. 2022, Hungry Hungry Hippos (arXiv 2212.14052); Yang et al. 2024, "
    "Parallelizing linear transformers with the delta rule (arXiv 2406.06484)",
    group=INDUCTION_MODELS,
)
def convolution_induction(trial: Trial) -> Evidence:
    training = AbilityTraining(PLAIN.ability, "delta", steps=500)
    taps = 1 if trial.control else 4
    accuracies = {
        length: repeated_accuracies(trial, replace(training, convolution=length))
        for length in (0, taps)
    }
    return Evidence(
        differences(accuracies[taps], accuracies[0]),
        Bars("accuracy", {
            "no convolution" if length == 0 else f"convolution of {length}": mean_interval(values)
            for length, values in accuracies.items()
        }),
        details={"steps of training": training.steps},
    )  # fmt: skip


PARITY = AbilityTraining("parity:length=24", position="learned", convolution=0, steps=500)


@claim(
    "parity-one-layer",
    topic="abilities",
    source="paper",
    statement="one layer of softmax attention does not learn the parity of 24 bits",
    why="""Parity changes with every single bit. With softmax over n tokens one bit changes the
    output by about 1/n, and the feed-forward layer would have to tell apart n + 1 such levels
    that alternate between odd and even. Hahn shows that no fixed transformer does it for all
    lengths; at a fixed length weights exist, but training does not find them. The parity so far is
    asked after every bit, which helps; the accuracy is that of the last 6 bits, because the first
    ones are easy. One bit of state that flips is enough: an LSTM, the control, learns it.""",
    judge=Below(0.7, "accuracy at the last 6 of 24 bits; chance is 0.5"),
    control="an LSTM of the same width",
    reference="Hahn 2020, Theoretical limitations of self-attention in neural sequence models "
    "(arXiv 1906.06755)",
    group=PARITY_MODELS,
)
def parity_one_layer(trial: Trial) -> Evidence:
    names = ("an LSTM",) if trial.control else ("one layer of softmax",)
    by_bit = {
        name: torch.stack([
            parity_accuracy(name == "an LSTM", seed) for seed in training_seeds(trial)
        ])  # (seeds, T)
        for name in names
    }  # fmt: skip
    judged = by_bit[names[0]]
    lines = [
        Series(name, [(float(t + 1), y) for t, y in enumerate(bits.mean(0).tolist())])
        for name, bits in by_bit.items()
    ]
    return Evidence(
        mean_interval(judged[:, -6:].mean(1).tolist()),
        Lines("bits read", "accuracy", lines),
        details={"steps of training": PARITY.steps},
    )


@lru_cache(maxsize=32)
def parity_accuracy(lstm: bool, seed: int) -> Tensor:
    """The accuracy at each bit (T,)."""
    training = replace(PARITY, seed=seed)
    ability = training.make_ability()
    assert isinstance(ability, Parity)
    if lstm:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model: nn.Module = LSTMModel(training.width, ability.vocabulary)
        train_model(model, draw_rows(ability, training.batch_size, seed), training.steps)
    else:
        model = train_ability(training)
    ids, targets = make_rows(ability, TEST_ROWS, TEST_SEED)
    with torch.no_grad():
        return (model(ids).argmax(-1) == targets).float().mean(0)
