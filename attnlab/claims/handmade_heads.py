"""What heads are for: small projections side by side, each with a question of its own.

Letters: B batch, T tokens, Q queries, W width, H heads, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.handmade import SOFT, handmade
from attnlab.claims.handmade_position_codes import seeded
from attnlab.claims.judges import Above, Below, exact
from attnlab.layers import MultiHead
from attnlab.mask import Mask
from attnlab.position import SinusoidalPositions
from attnlab.report import Series


@claim(
    "heads-are-channels",
    topic="handmade",
    source="course",
    statement="concatenation then W_O is a sum of one small projection per head",
    why="""W_O of H D columns is H blocks of D columns side by side, and [W_1 ... W_H] times the
    stacked outputs o_1, ..., o_H is W_1 o_1 + ... + W_H o_H, as for any block matrix. So heads add
    to the output independently: each one reads with its own V_h and writes with its own W_h, a
    map W_h V_h of rank at most D. One may therefore cut a head out, or look at what it alone adds,
    without touching the others.""",
    judge=exact("largest |W_O [o_1 ... o_H] - sum of W_h o_h|"),
    control="each head with its neighbor's block",
)
def heads_are_channels(trial: Trial) -> Evidence:
    lines: dict[str, list[tuple[float, float]]] = {"its own block": [], "its neighbor's": []}
    for H, D, T in ((2, 7, 3), (3, 5, 11), (5, 4, 7), (8, 3, 13), (16, 2, 5)):
        own = other = 0.0
        for repeat in range(trial.pick(5, 50)):
            random = trial.random(H, repeat)
            with seeded(random):
                layer = MultiHead(H * D, H).double().requires_grad_(False)
            x = torch.randn(2, T, H * D, generator=random, dtype=torch.float64)
            q, k, v = layer.project(x).unflatten(-1, (3, H, D)).permute(2, 0, 3, 1, 4)
            heads = layer.mechanism(q, k, v, Mask())  # (B, H, T, D)
            blocks = layer.out.weight.unflatten(1, (H, D)).transpose(0, 1)  # (H, W, D)
            whole = layer(x, Mask()) - layer.out.bias
            own = max(own, float((_summed(heads, blocks) - whole).abs().max()))
            other = max(other, float((_summed(heads, blocks.roll(1, 0)) - whole).abs().max()))
        lines["its own block"].append((float(H), own))
        lines["its neighbor's"].append((float(H), other))
    judged = lines["its neighbor's" if trial.control else "its own block"]
    return Evidence(
        Estimate(max(error for _, error in judged)),
        Lines("heads", "largest error", [Series(*each) for each in lines.items()], True, True),
    )


def _summed(heads: Tensor, blocks: Tensor) -> Tensor:
    """(B, T, W): what each head adds, one after the other."""
    parts = [heads[:, h] @ blocks[h].mT for h in range(len(blocks))]
    return torch.stack(parts).sum(0)


WIDTH, LABELS, VALUES, FETCHED = 32, 8, 8, 4


class Fetch(nn.Module):
    """One attention layer: query j must bring the values of labels j, j + 1, ..., in this order.

    A token is a label's vector plus a value's: a weighted mean of tokens does not tell which
    value belongs to which label.
    """

    def __init__(self, heads: int, fetched: int) -> None:
        super().__init__()
        self.labels, self.values, self.queries = (
            nn.Embedding(count, WIDTH) for count in (LABELS, VALUES, LABELS)
        )
        self.attention = MultiHead(WIDTH, heads, memory_width=WIDTH)
        self.read = nn.Linear(WIDTH, fetched * VALUES)

    def forward(self, values: Tensor) -> Tensor:
        """The value of each label (B, T) -> logits (B, Q, fetched, values)."""
        memory = self.labels.weight + self.values(values)  # (B, T, W)
        queries = self.queries.weight.expand(len(values), -1, -1)
        out = self.attention(queries, Mask(), memory)
        return self.read(out).unflatten(-1, (-1, VALUES))


@claim(
    "heads-count",
    topic="handmade",
    source="paper",
    statement="how many heads one takes at equal width changes the result",
    why="""One head has one set of weights: it brings sum a_i v_i, and of four things fetched at
    once it cannot say which is which. H heads at width W have W/H numbers each; four heads fetch
    four things one by one. With too many heads a score is a product of few numbers, and scores of
    rank W/H cannot single out each of n keys: a head of one number finds only the largest and the
    smallest. Such heads learn more slowly and end a little lower here. How many are best depends on
    the task: where one thing is fetched, one head does as well (the control).""",
    judge=Above(0.2, "accuracy of 4 heads less that of 1 head, at width 32, 4 things to fetch"),
    control="one thing to fetch",
    reference="Vaswani et al. 2017, table 3, arXiv 1706.03762; Bhojanapalli et al. 2020, Low-rank "
    "bottleneck in multi-head attention models, arXiv 2002.07028",
)
def heads_count(trial: Trial) -> Evidence:
    fetched = 1 if trial.control else FETCHED
    counts = [1, FETCHED] if trial.control else trial.pick([1, 4, 32], [1, 2, 4, 8, 16, 32])
    repeats, steps = trial.pick(3, 5), trial.pick(100, 600)
    found = {
        heads: [_fetch_accuracy(trial, repeat, heads, fetched, steps) for repeat in range(repeats)]
        for heads in counts
    }
    figures = {heads: mean_interval(accuracies) for heads, accuracies in found.items()}
    measured = [(float(heads), figure.value) for heads, figure in figures.items()]
    ends = [figure.ends for figure in figures.values()]
    name = f"{fetched} things to fetch" if fetched > 1 else "one thing to fetch"
    chance = Series("chance", [(float(heads), 1 / VALUES) for heads in counts])
    gains = [many - one for many, one in zip(found[FETCHED], found[1], strict=True)]
    return Evidence(
        mean_interval(gains),
        Lines("heads at width 32", "accuracy", [Series(name, measured, ends), chance], x_log=True),
        details={f"accuracy at {heads} heads": figure.value for heads, figure in figures.items()},
    )


def _fetch_accuracy(trial: Trial, repeat: int, heads: int, fetched: int, steps: int) -> float:
    """After training on fresh batches; on values that were not trained on."""
    random = trial.random(repeat)
    with seeded(random):
        model = Fetch(heads, fetched)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    places = (torch.arange(LABELS)[:, None] + torch.arange(fetched)) % LABELS  # (Q, fetched)

    def batch(size: int) -> tuple[Tensor, Tensor]:
        values = torch.randint(VALUES, (size, LABELS), generator=random)
        return values, values[:, places]  # (B, T), (B, Q, fetched)

    for _ in range(steps):
        values, wanted = batch(32)
        loss = F.cross_entropy(model(values).flatten(0, -2), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    values, wanted = batch(256)
    with torch.no_grad():
        return float((model(values).argmax(-1) == wanted).float().mean())


@claim(
    "by-content-by-position",
    topic="handmade",
    source="course",
    statement="hand-set weights can attend by content, by position, or both",
    why="""Let a token carry a one-hot kind and a position code p_t. By content: m I between kinds
    scores m for tokens of the same kind and 0 for others, so the token averages its kind. By
    position: m M_-1 between codes, with the shift matrix M_-1 p_t = p_(t-1), has its largest score
    at the token before. Both: scores add, (kind, kind) + slope * (position), so among those of
    the same kind the last one wins. All it takes is that the scores differ by far more than
    ln T.""",
    judge=Below(0.001, "largest error of a weight against the wanted pattern, m = 80"),
    control="tokens without position codes",
)
def by_content_by_position(trial: Trial) -> Evidence:
    sharp = [5.0 * 2**step for step in range(5)]
    lines: dict[str, list[tuple[float, float]]] = {}
    for m in sharp:
        for repeat in range(trial.pick(3, 30)):
            for T, kinds, W in ((5, 2, 6), (11, 4, 16), (23, 3, 10)):
                random = trial.random(T, repeat)
                kind = torch.randint(kinds, (T,), generator=random)
                for name, error in _patterns(kind, kinds, W, m, codes=not trial.control).items():
                    points = lines.setdefault(name, [])
                    if points and points[-1][0] == m:
                        points[-1] = (m, max(points[-1][1], error))
                    else:
                        points.append((m, error))
    return Evidence(
        Estimate(max(points[-1][1] for points in lines.values())),
        Lines(
            "m", "largest error of a weight", [Series(*each) for each in lines.items()], True, True
        ),
        details={
            f"at m = {sharp[-1]:.0f}, {name}": points[-1][1] for name, points in lines.items()
        },
    )


def _patterns(kind: Tensor, kinds: int, W: int, m: float, *, codes: bool) -> dict[str, float]:
    """The largest error of a weight for each of the three ways to attend.

    V = I and one-hot names of the tokens in the input make the output the weights themselves.
    """
    T = len(kind)
    position = SinusoidalPositions(W)
    code = position(torch.arange(T)[None])[0].double() * codes
    same = F.one_hot(kind, kinds).double()
    alike = same @ same.mT
    before = torch.eye(T, dtype=torch.float64).roll(1, 0)  # row t is e_(t - 1)
    last = torch.zeros(T, T, dtype=torch.float64)
    last.scatter_(1, (alike * torch.arange(1, T + 1)).argmax(-1, keepdim=True), 1)
    content, place = slice(0, kinds), slice(kinds, kinds + W)
    width = kinds + W + T
    x = torch.cat([same, code, torch.eye(T, dtype=torch.float64)], dim=-1)
    match, shift, late = torch.zeros(3, width, width, dtype=torch.float64)
    match[content, content] = torch.eye(kinds)
    shift[place, place] = position.shift_matrix(-1)
    # the slowest sine grows with the position; a kind's one-hot code has the sum 1
    late[kinds + W - 2, content] = 1 / float(position.frequencies[-1])
    value = torch.zeros(width, width, dtype=torch.float64)
    value[-T:, -T:] = torch.eye(T)

    def error(query: Tensor, wanted: Tensor, rows: slice = slice(None)) -> float:
        layer = handmade(query, torch.eye(width), value, attention=SOFT)
        weights = layer(x[None], Mask())[0, :, -T:]
        return float((weights - wanted)[rows].abs().max())

    return {
        "by content: all of the same kind": error(m * match, alike / alike.sum(-1, keepdim=True)),
        "by position: the token before": error(m * shift, before, slice(1, None)),
        "by both: the last of the same kind": error(m * (T * match + late), last),
    }
