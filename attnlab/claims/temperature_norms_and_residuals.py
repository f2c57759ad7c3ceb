"""The other parts of a stack: residual connections, LayerNorm, feed-forward layers.

Letters: B batch, T tokens, W width, R repeats with a model each.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnlab.claims._claim import Bars, Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.judges import Above, exact
from attnlab.claims.temperature import sample_normal
from attnlab.feed_forward import NORMS, FeedForward
from attnlab.layers import MultiHead
from attnlab.mask import Mask
from attnlab.report import Series


class AttentionStack(nn.Module):
    """Attention and (optional) feed-forward layers, with or without residual paths and LayerNorm.

    LayerNorm comes before each layer and at the end, as in attnlab's models.
    """

    def __init__(self, width: int, depth: int, *, norm: bool = True, feed: bool = True) -> None:
        super().__init__()
        self.residual, self.norm, self.layers_per_block = True, norm, 2 if feed else 1
        self.layers = nn.ModuleList(
            layer
            for _ in range(depth)
            for layer in [MultiHead(width, 2), *([FeedForward(width)] if feed else [])]
        )

    def forward(self, x: Tensor, depth: int | None = None) -> Tensor:
        """(B, T, W) -> (B, T, W), through the first `depth` blocks or all."""
        for layer in self.layers[: None if depth is None else depth * self.layers_per_block]:
            h = self._normalize(x)
            new = layer(h, Mask()) if isinstance(layer, MultiHead) else layer(h)
            x = x + new if self.residual else new
        return self._normalize(x)

    def _normalize(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:]) if self.norm else x


STACK_VARIANTS = {
    "both": (True, True),
    "no LayerNorm": (True, False),
    "no residual paths": (False, True),
    "neither": (False, False),
}
"""Whether each variant has residual paths, and LayerNorm."""
GAINS = (0.5, 1.0)
"""Standard deviation of a weight times sqrt(inputs). At 1 a linear layer keeps its input's size."""


@claim(
    "layernorm-residual",
    topic="temperature",
    source="course",
    reference="Xiong et al. 2020 (arXiv 2002.04745) on gradients; Dong et al. 2021 (arXiv "
    "2103.03404) on tokens that become alike",
    statement="without residual paths or without LayerNorm, gradients at the first layer of a deep "
    "stack vanish or explode",
    why="""Through L layers a gradient is a product of L Jacobians, so it grows or falls like g^L
    unless something keeps g near 1. A residual path does so while the branches are small (I +
    small), and fails if their weights are large. LayerNorm nearly does so alone: N(s x) = N(x), so
    its Jacobian at s x is 1/s of that at x, and a factor s of the previous layer cancels in the
    forward and the backward pass. So one of them can be enough: here residual paths at small
    weights, and LayerNorm at both sizes, up to a factor of about a hundred over 30 layers instead
    of millions. Only without both does the gradient vanish or explode at both sizes; this is the
    control. Residual paths are needed for another reason: without them attention makes the tokens
    equal.""",
    judge=Above(
        100, "factor between first-layer gradients at depth 32 and 2, the smallest of all cases"
    ),
    control="without residual paths and without LayerNorm",
)
def layernorm_residual(trial: Trial) -> Evidence:
    depths = trial.pick([2, 8, 32], [2, 4, 8, 16, 32])
    judged = ("neither",) if trial.control else ("no LayerNorm", "no residual paths")
    cases = [(name, gain) for name in ("both", *judged) for gain in GAINS]
    logs: dict[tuple[str, float], list[list[float]]] = {case: [] for case in cases}
    spreads: dict[str, float | int | str] = {}
    for repeat in range(trial.pick(4, 10)):
        stack = AttentionStack(16, depths[-1]).double()
        for name, gain in cases:
            lengths, token_spread = _first_layer_gradients(trial, repeat, stack, name, gain, depths)
            logs[name, gain].append([math.log(length / lengths[0]) for length in lengths])
            spreads[f"spread of the tokens at the end, {name}, weights {gain:g}"] = token_spread
    factors = {
        case: _factor_from_logs(mean_interval([row[-1] for row in rows]))
        for case, rows in logs.items()
    }
    lines = []
    for (name, gain), rows in logs.items():
        means = [math.exp(statistics.fmean(column)) for column in zip(*rows, strict=True)]
        points = [(float(depth), mean) for depth, mean in zip(depths, means, strict=True)]
        lines.append(Series(f"{name}, weights {gain:g}", points))
    return Evidence(
        min(
            (factors[case] for case in cases if case[0] in judged), key=lambda factor: factor.value
        ),
        Lines("depth", "gradient at the first layer, depth 2 is 1", lines, True, True),
        details={f"factor, {n}, weights {g:g}": factor.value for (n, g), factor in factors.items()}
        | spreads,
    )


def _factor_from_logs(logs: Estimate) -> Estimate:
    """The factor by which it is larger or smaller, always at least 1."""
    low, high = logs.ends
    half = (high - low) / 2
    middle = abs(logs.value)
    return Estimate(*(math.exp(x) for x in (middle, max(0.0, middle - half), middle + half)))


def _first_layer_gradients(
    trial: Trial, repeat: int, stack: AttentionStack, name: str, gain: float, depths: list[int]
) -> tuple[list[float], float]:
    """Norm of the gradient of the first attention layer's matrices at each depth, and the distance
    of the last outputs from their mean over tokens, relative to their norm."""
    generator, lengths = trial.generator(repeat), []
    stack.residual, stack.norm = STACK_VARIANTS[name]
    for module in stack.modules():
        if isinstance(module, nn.Linear):
            std = gain / math.sqrt(module.in_features)
            nn.init.normal_(module.weight, std=std, generator=generator)
            nn.init.zeros_(module.bias)
    x, direction = sample_normal(generator, 1, 8, 16), sample_normal(generator, 1, 8, 16)
    first = [parameter for parameter in stack.layers[0].parameters() if parameter.dim() == 2]
    for depth in depths:
        out = stack(x, depth)
        gradients = torch.autograd.grad((out * direction).sum(), first)
        lengths.append(math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients)))
    out = out.detach()
    return lengths, float((out - out.mean(1, keepdim=True)).norm() / out.norm())


@claim(
    "layernorm-batch",
    topic="temperature",
    source="paper",
    reference="Ba, Kiros and Hinton 2016, Layer Normalization (arXiv 1607.06450)",
    statement="LayerNorm of an example does not depend on the rest of the batch, BatchNorm's does",
    why="""LayerNorm takes mean and variance over the W numbers of one token:
    y = (x - mean(x)) / sqrt(var(x) + e). BatchNorm takes them over the batch, a pair for each of
    the W numbers, so that in training every other example influences them. This influence shrinks
    like 1/sqrt(B) with the batch size B, but never to 0. In evaluation BatchNorm uses averages
    stored during training, and examples no longer influence each other. RMSNorm, which omits the
    mean, behaves like LayerNorm.""",
    judge=exact("largest change of an example when the others are replaced"),
    control="BatchNorm in training mode",
)
def layernorm_batch(trial: Trial) -> Evidence:
    sizes = trial.pick([2, 5, 16, 64], [2, 5, 16, 64, 256, 1024])
    norms: dict[str, Callable[[int], nn.Module]] = {
        "LayerNorm": NORMS["layer"],
        "RMSNorm": NORMS["rms"],
        "BatchNorm, evaluation": lambda width: nn.BatchNorm1d(width).eval(),
        "BatchNorm, training": nn.BatchNorm1d,
    }
    changes = {
        name: [(float(B), _largest_change(trial, make_norm, B)) for B in sizes]
        for name, make_norm in norms.items()
    }
    judged = ("BatchNorm, training",) if trial.control else ("LayerNorm", "RMSNorm")
    return Evidence(
        Estimate(max(change for name in judged for _, change in changes[name])),
        Lines(
            "examples in the batch",
            "largest change of an example",
            [Series(name, points) for name, points in changes.items()],
            x_log=True,
        ),
    )


def _largest_change(trial: Trial, make_norm: Callable[[int], nn.Module], B: int) -> float:
    """Largest change of the first example when all others are replaced, over all widths."""
    worst = 0.0
    for W in (3, 7, 24):
        for repeat in range(trial.pick(4, 50)):
            generator = trial.generator(B, W, repeat)
            norm, first = make_norm(W).double(), sample_normal(generator, 1, W)
            before = norm(torch.cat([first, sample_normal(generator, B - 1, W)]))[0]
            after = norm(torch.cat([first, sample_normal(generator, B - 1, W)]))[0]
            worst = max(worst, float((after - before).detach().abs().max()))
    return worst


@claim(
    "feed-forward",
    topic="temperature",
    source="course",
    statement="without the feed-forward layers, a stack cannot fit a position-wise nonlinear "
    "target that it fits with them",
    why="""For fixed weights, attention is linear in the values, so people say that all nonlinearity
    comes from the feed-forward layers. But a softmax of products of tokens is nonlinear, and so is
    LayerNorm, which divides by a token's length: after a bias u it gives (u + x)/|u + x|, whose
    second-order terms are products of two entries of x. Here the target is y = x_1 x_2, and
    sequences have one token, so every attention weight is 1 and only LayerNorm is nonlinear. With
    LayerNorm alone, a stack leaves more variance unexplained than with feed-forward layers, but far
    less than all of it, and less the longer it is trained. The statement is true if nothing else is
    nonlinear: without LayerNorm too, the stack is one linear map, which explains nothing of a
    product. This is the control.""",
    judge=Above(
        0.5, "fraction of variance unexplained without feed-forward layers, minus that with them"
    ),
    control="no LayerNorm either: nothing but the feed-forward layers is nonlinear",
)
def feed_forward(trial: Trial) -> Evidence:
    unexplained = {
        name: _unexplained_variance(trial, feed)
        for name, feed in (("with feed-forward layers", True), ("without them", False))
    }
    differences = [
        without_layers - with_layers
        for with_layers, without_layers in zip(*unexplained.values(), strict=True)
    ]
    fractions = {name: mean_interval(values) for name, values in unexplained.items()}
    return Evidence(
        mean_interval(differences),
        Bars("fraction of the target's variance left unexplained", fractions),
        details={
            f"fraction unexplained {name}": figure.value for name, figure in fractions.items()
        },
    )


class FitModel(nn.Module):
    """A stack that maps the three numbers of each token to one number."""

    def __init__(self, norm: bool, feed: bool) -> None:
        super().__init__()
        self.embed, self.project = nn.Linear(3, 16), nn.Linear(16, 1)
        self.stack = AttentionStack(16, 2, norm=norm, feed=feed)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, 3) -> (B, T)"""
        return self.project(self.stack(self.embed(x)))[..., 0]


def _unexplained_variance(trial: Trial, feed: bool) -> list[float]:
    """Fraction of the variance of x_1 x_2 unexplained on new inputs; trains all repeats at once."""
    steps, repeats, generator = trial.pick(120, 1000), trial.pick(4, 8), trial.generator()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        models = [FitModel(not trial.control, feed) for _ in range(repeats)]
    weights, _ = stack_module_state(models)
    outputs = vmap(lambda model_weights, x: functional_call(models[0], model_weights, (x,)))
    optimizer = torch.optim.Adam(weights.values(), lr=0.015)

    def errors(batch: int) -> Tensor:
        x = torch.randn(repeats, batch, 1, 3, generator=generator)
        # squared error; the target has variance 1
        return (outputs(weights, x) - x[..., 0] * x[..., 1]).square().mean((1, 2))  # (R,)

    with sdpa_kernel(SDPBackend.MATH):  # the fused kernel does not support several models at once
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = 0.015 * (1 - step / steps)
            optimizer.zero_grad()
            errors(256).sum().backward()
            optimizer.step()
        with torch.no_grad():
            return errors(4096).tolist()
