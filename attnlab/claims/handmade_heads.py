"""What several heads are for: each has its own small projections and its own query.

Letters: B batch, T tokens, Q queries, W width, H heads, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim, mean_interval
from attnlab.claims.handmade import SOFT, make_handmade_layer
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
    why="""W_O has H D columns: H blocks of D columns side by side. As for any block matrix, [W_1
    ... W_H] times the stacked outputs o_1, ..., o_H is W_1 o_1 + ... + W_H o_H. So heads add to the
    output independently: each reads with its own V_h and writes with its own W_h, a map W_h V_h of
    rank at most D. You can therefore remove a head, or look at its contribution alone, without
    changing the others.""",
    judge=exact("largest |W_O [o_1 ... o_H] - sum of W_h o_h|"),
    control="each head with its neighbor's block",
)
def heads_are_channels(trial: Trial) -> Evidence:
    lines: dict[str, list[tuple[float, float]]] = {"its own block": [], "its neighbor's": []}
    for H, D, T in ((2, 7, 3), (3, 5, 11), (5, 4, 7), (8, 3, 13), (16, 2, 5)):
        own_error = neighbor_error = 0.0
        for repeat in range(trial.pick(5, 50)):
            generator = trial.generator(H, repeat)
            with seeded(generator):
                layer = MultiHead(H * D, H).double().requires_grad_(False)
            x = torch.randn(2, T, H * D, generator=generator, dtype=torch.float64)
            q, k, v = layer.project(x).unflatten(-1, (3, H, D)).permute(2, 0, 3, 1, 4)
            heads = layer.mechanism(q, k, v, Mask())  # (B, H, T, D)
            blocks = layer.out.weight.unflatten(1, (H, D)).transpose(0, 1)  # (H, W, D)
            whole = layer(x, Mask()) - layer.out.bias
            own_error = max(own_error, float((_sum_of_heads(heads, blocks) - whole).abs().max()))
            neighbor_error = max(
                neighbor_error, float((_sum_of_heads(heads, blocks.roll(1, 0)) - whole).abs().max())
            )
        lines["its own block"].append((float(H), own_error))
        lines["its neighbor's"].append((float(H), neighbor_error))
    judged = lines["its neighbor's" if trial.control else "its own block"]
    return Evidence(
        Estimate(max(error for _, error in judged)),
        Lines("heads", "largest error", [Series(*each) for each in lines.items()], True, True),
    )


def _sum_of_heads(heads: Tensor, blocks: Tensor) -> Tensor:
    """(B, T, W): the sum of what each head adds."""
    parts = [heads[:, h] @ blocks[h].mT for h in range(len(blocks))]
    return torch.stack(parts).sum(0)


WIDTH, LABELS, VALUES, FETCH_COUNT = 32, 8, 8, 4


class FetchModel(nn.Module):
    """One attention layer: query j must output the values of labels j, j + 1, ..., in this order.

    A token is the vector of a label plus that of a value, so a weighted mean of tokens does not
    show which value belongs to which label.
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
    why="""One head has one set of weights: it outputs sum a_i v_i. If it fetches four things at
    once, this sum does not show which is which. H heads at width W have W/H numbers each, and four
    heads can fetch four things separately. With too many heads, each score is a product of few
    numbers, and scores of rank W/H cannot select each of n keys: a head of size 1 can only select
    the largest and the smallest. Here such heads learn more slowly and end slightly lower. The best
    number depends on the task: if one thing is fetched, one head does equally well (the
    control).""",
    judge=Above(0.2, "accuracy of 4 heads less that of 1 head, at width 32, 4 things to fetch"),
    control="one thing to fetch",
    reference="Vaswani et al. 2017, table 3, arXiv 1706.03762; Bhojanapalli et al. 2020, Low-rank "
    "bottleneck in multi-head attention models, arXiv 2002.07028",
)
def heads_count(trial: Trial) -> Evidence:
    fetched = 1 if trial.control else FETCH_COUNT
    counts = [1, FETCH_COUNT] if trial.control else trial.pick([1, 4, 32], [1, 2, 4, 8, 16, 32])
    repeats, steps = trial.pick(3, 5), trial.pick(100, 600)
    accuracies_by_heads = {
        heads: [_fetch_accuracy(trial, repeat, heads, fetched, steps) for repeat in range(repeats)]
        for heads in counts
    }
    figures = {
        heads: mean_interval(accuracies) for heads, accuracies in accuracies_by_heads.items()
    }
    points = [(float(heads), figure.value) for heads, figure in figures.items()]
    ends = [figure.ends for figure in figures.values()]
    name = f"{fetched} things to fetch" if fetched > 1 else "one thing to fetch"
    chance = Series("chance", [(float(heads), 1 / VALUES) for heads in counts])
    gains = [
        many - one
        for many, one in zip(accuracies_by_heads[FETCH_COUNT], accuracies_by_heads[1], strict=True)
    ]
    return Evidence(
        mean_interval(gains),
        Lines("heads at width 32", "accuracy", [Series(name, points, ends), chance], x_log=True),
        details={f"accuracy at {heads} heads": figure.value for heads, figure in figures.items()},
    )


def _fetch_accuracy(trial: Trial, repeat: int, heads: int, fetched: int, steps: int) -> float:
    """Accuracy on a new batch after training."""
    generator = trial.generator(repeat)
    with seeded(generator):
        model = FetchModel(heads, fetched)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    indices = (torch.arange(LABELS)[:, None] + torch.arange(fetched)) % LABELS  # (Q, fetched)

    def batch(size: int) -> tuple[Tensor, Tensor]:
        values = torch.randint(VALUES, (size, LABELS), generator=generator)
        return values, values[:, indices]  # (B, T), (B, Q, fetched)

    for _ in range(steps):
        values, target = batch(32)
        loss = F.cross_entropy(model(values).flatten(0, -2), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    values, target = batch(256)
    with torch.no_grad():
        return float((model(values).argmax(-1) == target).float().mean())


@claim(
    "by-content-by-position",
    topic="handmade",
    source="course",
    statement="hand-set weights can attend by content, by position, or both",
    why="""Let a token carry a one-hot kind and a position code p_t. By content: the matrix m I
    between kinds gives a score of m for tokens of the same kind and 0 for others, so each token
    averages its kind. By position: the matrix m M_-1 between codes, with the shift matrix
    M_-1 p_t = p_(t-1), has its largest score at the previous token. Both: scores add,
    (kind, kind) + slope * (position), so the last token of the same kind wins. The scores only have
    to differ by much more than ln T.""",
    judge=Below(0.001, "largest error of a weight against the intended pattern, m = 80"),
    control="tokens without position codes",
)
def by_content_by_position(trial: Trial) -> Evidence:
    factors = [5.0 * 2**step for step in range(5)]
    lines: dict[str, list[tuple[float, float]]] = {}
    for m in factors:
        for repeat in range(trial.pick(3, 30)):
            for T, kinds, W in ((5, 2, 6), (11, 4, 16), (23, 3, 10)):
                generator = trial.generator(T, repeat)
                kind = torch.randint(kinds, (T,), generator=generator)
                for name, error in _pattern_errors(
                    kind, kinds, W, m, codes=not trial.control
                ).items():
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
            f"at m = {factors[-1]:.0f}, {name}": points[-1][1] for name, points in lines.items()
        },
    )


def _pattern_errors(kind: Tensor, kinds: int, W: int, m: float, *, codes: bool) -> dict[str, float]:
    """The largest error of a weight for each of the three patterns.

    Tokens also carry one-hot names and V selects them, so that the output is the weights.
    """
    T = len(kind)
    position = SinusoidalPositions(W)
    code = position(torch.arange(T)[None])[0].double() * codes
    same = F.one_hot(kind, kinds).double()
    equal = same @ same.mT
    previous = torch.eye(T, dtype=torch.float64).roll(1, 0)  # row t is e_(t - 1)
    last = torch.zeros(T, T, dtype=torch.float64)
    last.scatter_(1, (equal * torch.arange(1, T + 1)).argmax(-1, keepdim=True), 1)
    kind_slice, code_slice = slice(0, kinds), slice(kinds, kinds + W)
    width = kinds + W + T
    x = torch.cat([same, code, torch.eye(T, dtype=torch.float64)], dim=-1)
    match_kinds, shift, prefer_late = torch.zeros(3, width, width, dtype=torch.float64)
    match_kinds[kind_slice, kind_slice] = torch.eye(kinds)
    shift[code_slice, code_slice] = position.shift_matrix(-1)
    # the slowest sine grows with the position; a kind's one-hot code has the sum 1
    prefer_late[kinds + W - 2, kind_slice] = 1 / float(position.frequencies[-1])
    value = torch.zeros(width, width, dtype=torch.float64)
    value[-T:, -T:] = torch.eye(T)

    def error(query: Tensor, expected: Tensor, rows: slice = slice(None)) -> float:
        layer = make_handmade_layer(query, torch.eye(width), value, attention=SOFT)
        weights = layer(x[None], Mask())[0, :, -T:]
        return float((weights - expected)[rows].abs().max())

    return {
        "by content: all of the same kind": error(
            m * match_kinds, equal / equal.sum(-1, keepdim=True)
        ),
        "by position: the previous token": error(m * shift, previous, slice(1, None)),
        "by both: the last of the same kind": error(m * (T * match_kinds + prefer_late), last),
    }
