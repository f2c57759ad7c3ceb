"""Around attention in a stack: residual paths, LayerNorm, feed-forward layers.

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
from attnlab.claims.temperature import normal
from attnlab.layers import NORMS, FeedForward, MultiHead
from attnlab.mask import Mask
from attnlab.report import Series


class Stack(nn.Module):
    """Attention and, if wanted, feed-forward in turn; residual paths and LayerNorm can be left out.

    LayerNorm stands before each layer and at the end, as in attnlab's models.
    """

    def __init__(self, width: int, depth: int, *, norm: bool = True, feed: bool = True) -> None:
        super().__init__()
        self.residual, self.norm, self.each = True, norm, 2 if feed else 1
        self.layers = nn.ModuleList(
            layer
            for _ in range(depth)
            for layer in [MultiHead(width, 2), *([FeedForward(width)] if feed else [])]
        )

    def forward(self, x: Tensor, depth: int | None = None) -> Tensor:
        """(B, T, W) -> (B, T, W), through the first blocks or all."""
        for layer in self.layers[: None if depth is None else depth * self.each]:
            h = self._normed(x)
            new = layer(h, Mask()) if isinstance(layer, MultiHead) else layer(h)
            x = x + new if self.residual else new
        return self._normed(x)

    def _normed(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:]) if self.norm else x


STACKS = {
    "both": (True, True),
    "no LayerNorm": (True, False),
    "no residual paths": (False, True),
    "neither": (False, False),
}
"""With residual paths, with LayerNorm."""
GAINS = (0.5, 1.0)
"""Standard deviation of a weight times sqrt(inputs); at 1 a linear layer keeps its input's size."""


@claim(
    "layernorm-residual",
    topic="temperature",
    source="course",
    reference="Xiong et al. 2020 (arXiv 2002.04745) on gradients; Dong et al. 2021 (arXiv "
    "2103.03404) on tokens that become alike",
    statement="without residual paths or without LayerNorm, gradients at the first layer of a deep "
    "stack vanish or explode",
    why="""Through L layers a gradient is a product of L Jacobians, so it goes like g^L unless
    something holds g at 1. A residual path does so while the branches are small (I + small), and
    fails once their weights are large. LayerNorm does so nearly by itself: N(s x) = N(x), so its
    Jacobian at s x is 1/s of that at x, and a factor s of the layer before is taken out forward
    and backward. So either one may do alone: here residual paths at small weights, LayerNorm at
    both sizes, up to a factor of about a hundred over 30 layers, not of millions. Only without both
    does the gradient vanish or explode at either size, and that is the control. What residual paths
    are needed for is another thing: without them attention makes the tokens alike.""",
    judge=Above(
        100, "factor between first-layer gradients at depth 32 and 2, the least of all cases"
    ),
    control="without residual paths and without LayerNorm",
)
def layernorm_residual(trial: Trial) -> Evidence:
    depths = trial.pick([2, 8, 32], [2, 4, 8, 16, 32])
    wanted = ("neither",) if trial.control else ("no LayerNorm", "no residual paths")
    cases = [(name, gain) for name in ("both", *wanted) for gain in GAINS]
    logs: dict[tuple[str, float], list[list[float]]] = {case: [] for case in cases}
    differ: dict[str, float | int | str] = {}
    for repeat in range(trial.pick(4, 10)):
        stack = Stack(16, depths[-1]).double()
        for name, gain in cases:
            lengths, left = _gradients(trial, repeat, stack, name, gain, depths)
            logs[name, gain].append([math.log(each / lengths[0]) for each in lengths])
            differ[f"how much tokens differ at the end, {name}, weights {gain:g}"] = left
    factors = {
        case: _factor(mean_interval([row[-1] for row in rows])) for case, rows in logs.items()
    }
    lines = []
    for (name, gain), rows in logs.items():
        means = [math.exp(statistics.fmean(each)) for each in zip(*rows, strict=True)]
        points = [(float(depth), mean) for depth, mean in zip(depths, means, strict=True)]
        lines.append(Series(f"{name}, weights {gain:g}", points))
    return Evidence(
        min((factors[case] for case in cases if case[0] in wanted), key=lambda each: each.value),
        Lines("depth", "gradient at the first layer, depth 2 is 1", lines, True, True),
        details={f"factor, {n}, weights {g:g}": each.value for (n, g), each in factors.items()}
        | differ,
    )


def _factor(logs: Estimate) -> Estimate:
    """How many times larger or smaller, whichever it is."""
    low, high = logs.ends
    half = (high - low) / 2
    middle = abs(logs.value)
    return Estimate(*(math.exp(x) for x in (middle, max(0.0, middle - half), middle + half)))


def _gradients(
    trial: Trial, repeat: int, stack: Stack, name: str, gain: float, depths: list[int]
) -> tuple[list[float], float]:
    """Length of the gradient at the first attention layer's matrices, at each depth; and how far
    the last outputs are from their mean over tokens, as a share of their own length."""
    random, found = trial.random(repeat), []
    stack.residual, stack.norm = STACKS[name]
    for module in stack.modules():
        if isinstance(module, nn.Linear):
            std = gain / math.sqrt(module.in_features)
            nn.init.normal_(module.weight, std=std, generator=random)
            nn.init.zeros_(module.bias)
    x, probe = normal(random, 1, 8, 16), normal(random, 1, 8, 16)
    first = [each for each in stack.layers[0].parameters() if each.dim() == 2]
    for depth in depths:
        out = stack(x, depth)
        slopes = torch.autograd.grad((out * probe).sum(), first)
        found.append(math.sqrt(sum(float(slope.square().sum()) for slope in slopes)))
    out = out.detach()
    return found, float((out - out.mean(1, keepdim=True)).norm() / out.norm())


@claim(
    "layernorm-batch",
    topic="temperature",
    source="paper",
    reference="Ba, Kiros and Hinton 2016, Layer Normalization (arXiv 1607.06450)",
    statement="LayerNorm of an example does not depend on the rest of the batch, BatchNorm's does",
    why="""LayerNorm takes mean and variance over the W numbers of one token:
    y = (x - mean(x)) / sqrt(var(x) + e). BatchNorm takes them over the batch, a pair for each of
    the W numbers, so while training every other example has a part in them; that part shrinks with
    the size of the batch like 1/sqrt(B), and never to 0. In evaluation BatchNorm uses averages kept
    from training, and then examples no longer see each other either. RMSNorm, which leaves out the
    mean, is like LayerNorm in this.""",
    judge=exact("largest change of an example when the others are replaced"),
    control="BatchNorm while training",
)
def layernorm_batch(trial: Trial) -> Evidence:
    sizes = trial.pick([2, 5, 16, 64], [2, 5, 16, 64, 256, 1024])
    kinds: dict[str, Callable[[int], nn.Module]] = {
        "LayerNorm": NORMS["layer"],
        "RMSNorm": NORMS["rms"],
        "BatchNorm, evaluation": lambda width: nn.BatchNorm1d(width).eval(),
        "BatchNorm, training": nn.BatchNorm1d,
    }
    found = {
        name: [(float(B), _change(trial, kind, B)) for B in sizes] for name, kind in kinds.items()
    }
    judged = ("BatchNorm, training",) if trial.control else ("LayerNorm", "RMSNorm")
    return Evidence(
        Estimate(max(change for name in judged for _, change in found[name])),
        Lines(
            "examples in the batch",
            "largest change of an example",
            [Series(name, points) for name, points in found.items()],
            x_log=True,
        ),
    )


def _change(trial: Trial, kind: Callable[[int], nn.Module], B: int) -> float:
    """Largest change of the first example when all others are drawn anew, over widths."""
    worst = 0.0
    for W in (3, 7, 24):
        for repeat in range(trial.pick(4, 50)):
            random = trial.random(B, W, repeat)
            norm, first = kind(W).double(), normal(random, 1, W)
            before = norm(torch.cat([first, normal(random, B - 1, W)]))[0]
            after = norm(torch.cat([first, normal(random, B - 1, W)]))[0]
            worst = max(worst, float((after - before).detach().abs().max()))
    return worst


@claim(
    "feed-forward",
    topic="temperature",
    source="course",
    statement="without the feed-forward layers, a stack cannot fit a position-wise nonlinear "
    "target that it fits with them",
    why="""With its weights held fixed, attention is linear in the values, so all nonlinearity is
    said to come from the feed-forward layers. But a softmax of products of tokens is nonlinear,
    and so is LayerNorm, which divides by a token's own length: behind a bias u it gives (u +
    x)/|u + x|, whose terms of second order are products of two entries of x. Here the target is y
    = x_1 x_2 and sequences have one token, so every attention weight is 1 and only LayerNorm is
    left: with it alone a stack leaves more of the variance than with feed-forward layers, yet far
    less than all of it, and the less the longer it is trained. The statement is true where
    nothing else is nonlinear: without LayerNorm too, the stack is one linear map, which explains
    nothing of a product. That is the control.""",
    judge=Above(0.5, "share of the variance left without feed-forward layers, less that with them"),
    control="no LayerNorm either: nothing but the feed-forward layers is nonlinear",
)
def feed_forward(trial: Trial) -> Evidence:
    left = {
        name: _left_after_fitting(trial, feed)
        for name, feed in (("with feed-forward layers", True), ("without them", False))
    }
    more = [b - a for a, b in zip(*left.values(), strict=True)]
    shares = {name: mean_interval(each) for name, each in left.items()}
    return Evidence(
        mean_interval(more),
        Bars("share of the target's variance that is left", shares),
        details={f"share left {name}": figure.value for name, figure in shares.items()},
    )


class Fit(nn.Module):
    """Numbers of a token in, one number out, a stack between."""

    def __init__(self, norm: bool, feed: bool) -> None:
        super().__init__()
        self.rise, self.fall = nn.Linear(3, 16), nn.Linear(16, 1)
        self.stack = Stack(16, 2, norm=norm, feed=feed)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, 3) -> (B, T)"""
        return self.fall(self.stack(self.rise(x)))[..., 0]


def _left_after_fitting(trial: Trial, feed: bool) -> list[float]:
    """Share of the variance of x_1 x_2 left on new inputs; all repeats are trained at once."""
    steps, repeats, random = trial.pick(120, 1000), trial.pick(4, 8), trial.random()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trial.seed)
        models = [Fit(not trial.control, feed) for _ in range(repeats)]
    weights, _ = stack_module_state(models)
    outputs = vmap(lambda own, x: functional_call(models[0], own, (x,)))
    optimizer = torch.optim.Adam(weights.values(), lr=0.015)

    def errors(batch: int) -> Tensor:
        x = torch.randn(repeats, batch, 1, 3, generator=random)
        # squared error; the target has variance 1
        return (outputs(weights, x) - x[..., 0] * x[..., 1]).square().mean((1, 2))  # (R,)

    with sdpa_kernel(SDPBackend.MATH):  # the fused one cannot take several models at once
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = 0.015 * (1 - step / steps)
            optimizer.zero_grad()
            errors(256).sum().backward()
            optimizer.step()
        with torch.no_grad():
            return errors(4096).tolist()
