"""What a hand-made self-attention layer can do: three tokens, four directions.

x_1 = u_d + u_b, x_2 = u_a, x_3 = u_c + u_b, with orthogonal u of length L; all runs through
attnlab's own layer with matrices set by hand, at an inverse temperature of 1.
Letters: B batch, T tokens, W width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from attnlab.claims._claim import Estimate, Evidence, Lines, Trial, claim
from attnlab.claims.judges import Above, Below
from attnlab.claims.retrieve import orthonormal
from attnlab.layers import MultiHead
from attnlab.mask import Mask
from attnlab.report import Series

LARGE = 5.0  # the L at which the statements are judged
LENGTHS = [0.5 + 0.5 * step for step in range(10)]  # up to LARGE
SOFT = "softmax:beta=1.0"


def handmade(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor | None = None,
    *,
    heads: int = 1,
    attention: str = SOFT,
) -> MultiHead:
    """The layer with these matrices, each (W, W): q = query @ x, head after head."""
    W = len(query)
    layer = MultiHead(W, heads, attention, bias=False).double().requires_grad_(False)
    layer.project.weight.copy_(torch.cat([query, key, value]))
    layer.out.weight.copy_(torch.eye(W) if out is None else out)
    return layer


def tokens(u: Tensor, added: Tensor | float = 0.0) -> Tensor:
    """(..., 3, W) from the directions (4, W); something may be added to x_2."""
    a, b, c, d = u
    second = a + added
    return torch.stack(torch.broadcast_tensors(d + b, second, c + b), dim=-2)


def plain(x: Tensor) -> Tensor:
    """Q = K = V = I."""
    eye = torch.eye(x.shape[-1], dtype=x.dtype)
    return handmade(eye, eye, eye)(x.reshape(-1, *x.shape[-2:]), Mask()).reshape(x.shape)


def outer(left: Tensor, right: Tensor) -> Tensor:
    return left[:, None] * right


def constructed(u: Tensor, *, query: Tensor | None = None, value: Tensor | None = None) -> Tensor:
    """(3, W): the outputs with the matrices of self-construct; one may be replaced."""
    a, b, c, d = u
    square = float(a @ a)
    query = (outer(d, a) + outer(c, d)) / square if query is None else query
    value = (outer(b, b) - outer(c, c)) / square if value is None else value
    return handmade(query, torch.eye(len(a)), value)(tokens(u)[None], Mask())[0]


def away(got: Tensor, wanted: Tensor) -> float:
    """How far, relative to what is wanted."""
    return float((got - wanted).norm() / wanted.norm())


def missed(outputs: Tensor, u: Tensor) -> float:
    """By how much c_2 = u_b and c_1 = u_b - u_c are missed."""
    _, b, c, _ = u
    return max(away(outputs[1], b), away(outputs[0], b - c))


Error = Callable[[Tensor], float]


def by_length(
    trial: Trial,
    errors: Mapping[str, Error],
    judged: Error,
    length: float = LARGE,
    theory: tuple[str, float] = ("sqrt(5/2)", math.sqrt(2.5)),
) -> Evidence:
    """Errors of the directions as their length L grows; one is judged at one length.

    In theory an error falls as a factor (its name, and its value) times e^(-L^2).
    """
    sizes = trial.pick([4, 7, 11], [4, 5, 7, 11, 16, 33])
    drawn = [
        orthonormal(4, width, trial.random(width, repeat))
        for width in sizes
        for repeat in range(trial.pick(1, 5))
    ]
    lines, details = [], {}
    for name, error in errors.items():
        worst = [(L, max(error(L * u) for u in drawn)) for L in LENGTHS]
        lines.append(Series(name, worst))
        for wanted in (0.01, 0.001):
            if worst[-1][1] <= wanted:
                details[f"L for {wanted:.1%} error, {name}"] = _needed(drawn[0], error, wanted)
    name, factor = theory
    lines.append(Series(f"{name} e^(-L^2)", [(L, factor * math.exp(-L * L)) for L in LENGTHS]))
    return Evidence(
        Estimate(max(judged(length * u) for u in drawn)),
        Lines("L", "largest relative error", lines, y_log=True),
        details=details,
    )


def _needed(u: Tensor, error: Error, wanted: float) -> float:
    """The smallest L with at most this error, by bisection: the error falls with it."""
    low, high = 0.1, LARGE
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if error(middle * u) <= wanted else (middle, high)
    return round(high, 3)


def against_right(
    trial: Trial, said: str, wrong: Callable[[Tensor], Tensor], correct: str
) -> Evidence:
    """Outputs said to be those of self-construct, beside those, which the control takes."""
    errors = {said: lambda u: missed(wrong(u), u), correct: lambda u: missed(constructed(u), u)}
    return by_length(trial, errors, errors[correct if trial.control else said])


@claim(
    "self-copy",
    topic="handmade",
    source="course",
    statement="with Q = K = V = I, c_2 is u_a",
    why="""x_2 = u_a scores L^2 with itself and 0 with x_1 and x_3, which share no direction with
    it. Its own weight is 1 / (1 + 2 e^(-L^2)), so c_2 misses u_a by about sqrt(10) e^(-L^2) of its
    length. At L = 1 only 58% of the weight stays at home; L = 2.4 is enough for one percent,
    because L enters squared and then as an exponent.""",
    judge=Below(0.01, "largest |c_2 - u_a| / L at L = 5"),
    control="L = 1",
)
def self_copy(trial: Trial) -> Evidence:
    def error(u: Tensor) -> float:
        return away(plain(tokens(u))[1], u[0])

    length, theory = 1.0 if trial.control else LARGE, ("sqrt(10)", math.sqrt(10))
    return by_length(trial, {"c_2 against u_a": error}, error, length, theory)


@claim(
    "self-cannot",
    topic="handmade",
    source="course",
    statement="adding u_c or u_d to x2 cannot make c_2 equal u_b",
    why="""With x_2 = u_a + s u_c + t u_d its own score is (1 + s^2 + t^2) L^2, that of x_1 is t L^2
    and that of x_3 is s L^2: its own is the largest for all s and t, since s^2 - s + 1 > 0. So
    x_2 keeps a weight w of at least 1/3, and c_2 has w u_a in it and only 1 - w of u_b: it stays
    at least sqrt(2)/3 = 0.47 of L away from u_b at every L. For large L it is x_2 itself, u_a + u_c
    or u_a + u_d. Other matrices can do it (the control).""",
    judge=Above(0.4, "smallest |c_2 - u_b| / L over all s, t and L that were tried"),
    control="the matrices of self-construct instead of Q = K = V = I",
)
def self_cannot(trial: Trial) -> Evidence:
    steps = torch.linspace(-3, 3, trial.pick(13, 61), dtype=torch.float64)
    u = orthonormal(4, 7, trial.random())
    tried, added, details = [], [], {}
    for L in LENGTHS:
        sums = steps[:, None, None] * u[2] + steps[:, None] * u[3]  # (s, t, W)
        outputs = plain(tokens(L * u, L * sums))[..., 1, :]
        tried.append((L, float((outputs - L * u[1]).norm(dim=-1).min()) / L))
        added.append((L, away(plain(tokens(L * u, L * u[2]))[1], L * u[1])))
    other = [(L, away(constructed(L * u)[1], L * u[1])) for L in LENGTHS]
    for name, which in (("u_c", u[2]), ("u_d", u[3])):
        out = plain(tokens(LARGE * u, LARGE * which))[1]
        details[f"|c_2 - (u_a + {name})| / L at L = 5"] = away(out, LARGE * (u[0] + which))
    lines = [
        Series("nearest of all s, t", tried),
        Series("u_c added", added),
        Series("other matrices: self-construct", other),
    ]
    return Evidence(
        Estimate(min(distance for _, distance in (other if trial.control else tried))),
        Lines("L", "distance of c_2 from u_b / L", lines),
        details={**details, "the bound sqrt(2)/3": math.sqrt(2) / 3},
    )


@claim(
    "self-add-b",
    topic="handmade",
    source="course",
    statement="adding u_b to x2 gives u_a + u_b, although x1.x2 and x3.x2 are then L^2, not 0",
    why="""x_2 = u_a + u_b scores 2 L^2 with itself and L^2 with x_1 and x_3, with which it shares
    u_b. What matters is the difference, L^2 as before: its own weight is 1 / (1 + 2 e^(-L^2)), and
    c_2 is u_a + u_b up to about sqrt(3) e^(-L^2). u_b is in all three tokens, so that part of c_2
    is right at every L. A softmax does not need other scores to be 0, only to be lower by far more
    than ln n.""",
    judge=Below(0.01, "largest |c_2 - (u_a + u_b)| / |u_a + u_b| at L = 5"),
    control="L = 1",
)
def self_add_b(trial: Trial) -> Evidence:
    def error(u: Tensor) -> float:
        return away(plain(tokens(u, u[1]))[1], u[0] + u[1])

    def error_in_b(u: Tensor) -> float:
        return abs(float(plain(tokens(u, u[1]))[1] @ u[1] / (u[1] @ u[1])) - 1)

    length, theory = 1.0 if trial.control else LARGE, ("sqrt(3)", math.sqrt(3))
    found = by_length(trial, {"c_2 against u_a + u_b": error}, error, length, theory)
    u = LARGE * orthonormal(4, 7, trial.random(7, 0))
    first, second, third = tokens(u, u[1])
    return Evidence(
        found.figure,
        found.plot,
        details={
            **found.details,
            "x1.x2 / L^2": float(first @ second) / LARGE**2,
            "x3.x2 / L^2": float(third @ second) / LARGE**2,
            "error of c_2 along u_b at L = 1": error_in_b(u / LARGE),
        },
    )


@claim(
    "self-construct",
    topic="handmade",
    source="course",
    statement="V = (u_b u_b^T - u_c u_c^T)/L^2, K = I, Q = (u_d u_a^T + u_c u_d^T)/L^2 give "
    "c_2 = u_b and c_1 = u_b - u_c (Q without the 1/L^2 too)",
    why="""u_a^T u_a = L^2, so Q x_2 = u_d: token 2 asks for u_d and finds it in x_1 alone, with the
    score L^2. Q x_1 = u_c, which is in x_3 alone. V keeps u_b and turns u_c round: V x_1 = u_b,
    V x_2 = 0, V x_3 = u_b - u_c. So c_2 = u_b and c_1 = u_b - u_c up to about sqrt(5/2) e^(-L^2).
    Without the 1/L^2 in Q the scores are L^4, and a smaller L is enough once L > 1; the 1/L^2 in V
    sets the length of the output and cannot be left out.""",
    judge=Below(0.01, "largest relative error of c_2 and c_1, both forms of Q, at L = 5"),
    control="V = I",
)
def self_construct(trial: Trial) -> Evidence:
    def error(u: Tensor, times: float = 1.0) -> float:
        a, _, c, d = u
        query = times * (outer(d, a) + outer(c, d)) / (a @ a)
        value = torch.eye(len(a), dtype=u.dtype) if trial.control else None
        return missed(constructed(u, query=query, value=value), u)

    def error_unscaled(u: Tensor) -> float:
        return error(u, float(u[0] @ u[0]))

    return by_length(
        trial,
        {"Q with 1/L^2": error, "Q without": error_unscaled},
        lambda u: max(error(u), error_unscaled(u)),
    )


@claim(
    "self-construct-typo",
    topic="handmade",
    source="course",
    statement="Q = (u_d u_d^T + u_c u_c^T)/L^2 does the same",
    quoted=True,
    why="""Q must send what a token is to what it looks for: u_a to u_d, u_d to u_c. This Q is a
    projector that sends u_d to u_d and u_c to u_c, and u_a to 0. So token 2 has q = 0 and averages
    all three values, c_2 = (2 u_b - u_c)/3, and token 1 looks for u_d and finds itself, c_1 = u_b.
    Right is Q = (u_d u_a^T + u_c u_d^T)/L^2 (the control).""",
    judge=Below(0.01, "largest relative error of c_2 = u_b and c_1 = u_b - u_c at L = 5"),
    control="Q = (u_d u_a^T + u_c u_d^T)/L^2",
)
def self_construct_typo(trial: Trial) -> Evidence:
    def wrong(u: Tensor) -> Tensor:
        _, _, c, d = u
        return constructed(u, query=(outer(d, d) + outer(c, c)) / (d @ d))

    return against_right(trial, "as stated", wrong, "u_d u_a^T + u_c u_d^T")


@claim(
    "self-construct-scale",
    topic="handmade",
    source="course",
    statement="V with 1/L instead of 1/L^2 does the same",
    quoted=True,
    why="""u_b u_b^T u_b = L^2 u_b, because u_b has the squared length L^2; only 1/L^2 makes it u_b
    again. With 1/L the weights are the same, but c_2 = L u_b and c_1 = L (u_b - u_c): L times too
    long, a relative error of L - 1, which is worst just where the weights are sharpest. It is right
    for L = 1, where the weights are not.""",
    judge=Below(0.01, "largest relative error of c_2 = u_b and c_1 = u_b - u_c at L = 5"),
    control="V with 1/L^2",
)
def self_construct_scale(trial: Trial) -> Evidence:
    def wrong(u: Tensor) -> Tensor:
        _, b, c, _ = u
        return constructed(u, value=(outer(b, b) - outer(c, c)) / b.norm())

    return against_right(trial, "V with 1/L", wrong, "V with 1/L^2")
