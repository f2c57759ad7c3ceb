"""What a self-attention layer with hand-set matrices can do: three tokens, four directions.

x_1 = u_d + u_b, x_2 = u_a, x_3 = u_c + u_b, with orthogonal u of length L. Every experiment uses
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


def make_handmade_layer(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor | None = None,
    *,
    heads: int = 1,
    attention: str = SOFT,
) -> MultiHead:
    """A layer with these matrices, each (W, W): q = query @ x, the heads one after another."""
    W = len(query)
    layer = MultiHead(W, heads, attention, bias=False).double().requires_grad_(False)
    layer.project.weight.copy_(torch.cat([query, key, value]))
    layer.out.weight.copy_(torch.eye(W) if out is None else out)
    return layer


def make_tokens(u: Tensor, added: Tensor | float = 0.0) -> Tensor:
    """(..., 3, W): the tokens for the directions (4, W), with `added` added to x_2."""
    a, b, c, d = u
    second = a + added
    return torch.stack(torch.broadcast_tensors(d + b, second, c + b), dim=-2)


def identity_attention(x: Tensor) -> Tensor:
    """The outputs with Q = K = V = I."""
    eye = torch.eye(x.shape[-1], dtype=x.dtype)
    return make_handmade_layer(eye, eye, eye)(x.reshape(-1, *x.shape[-2:]), Mask()).reshape(x.shape)


def outer(left: Tensor, right: Tensor) -> Tensor:
    return left[:, None] * right


def attend_constructed(
    u: Tensor, *, query: Tensor | None = None, value: Tensor | None = None
) -> Tensor:
    """(3, W): the outputs with the matrices of self-construct; you can replace one of them."""
    a, b, c, d = u
    square = float(a @ a)
    query = (outer(d, a) + outer(c, d)) / square if query is None else query
    value = (outer(b, b) - outer(c, c)) / square if value is None else value
    return make_handmade_layer(query, torch.eye(len(a)), value)(make_tokens(u)[None], Mask())[0]


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """|actual - expected| / |expected|."""
    return float((actual - expected).norm() / expected.norm())


def construction_error(outputs: Tensor, u: Tensor) -> float:
    """The larger relative error of c_2 = u_b and c_1 = u_b - u_c."""
    _, b, c, _ = u
    return max(relative_error(outputs[1], b), relative_error(outputs[0], b - c))


Error = Callable[[Tensor], float]


def errors_by_length(
    trial: Trial,
    errors: Mapping[str, Error],
    judged: Error,
    length: float = LARGE,
    theory: tuple[str, float] = ("sqrt(5/2)", math.sqrt(2.5)),
) -> Evidence:
    """Largest errors as the length L of the directions grows; `judged` is the error at `length`.

    In theory, errors fall like a factor (its name and its value) times e^(-L^2).
    """
    sizes = trial.pick([4, 7, 11], [4, 5, 7, 11, 16, 33])
    samples = [
        orthonormal(4, width, trial.generator(width, repeat))
        for width in sizes
        for repeat in range(trial.pick(1, 5))
    ]
    lines, details = [], {}
    for name, error in errors.items():
        largest = [(L, max(error(L * u) for u in samples)) for L in LENGTHS]
        lines.append(Series(name, largest))
        for limit in (0.01, 0.001):
            if largest[-1][1] <= limit:
                details[f"L for {limit:.1%} error, {name}"] = _required_length(
                    samples[0], error, limit
                )
    name, factor = theory
    lines.append(Series(f"{name} e^(-L^2)", [(L, factor * math.exp(-L * L)) for L in LENGTHS]))
    return Evidence(
        Estimate(max(judged(length * u) for u in samples)),
        Lines("L", "largest relative error", lines, y_log=True),
        details=details,
    )


def _required_length(u: Tensor, error: Error, limit: float) -> float:
    """The smallest L with at most this error, by bisection, because the error falls with L."""
    low, high = 0.1, LARGE
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if error(middle * u) <= limit else (middle, high)
    return round(high, 3)


def compare_with_correct(
    trial: Trial, wrong_name: str, wrong_outputs: Callable[[Tensor], Tensor], correct_name: str
) -> Evidence:
    """Compares wrong outputs with those of self-construct, which the control uses."""
    errors = {
        wrong_name: lambda u: construction_error(wrong_outputs(u), u),
        correct_name: lambda u: construction_error(attend_constructed(u), u),
    }
    return errors_by_length(trial, errors, errors[correct_name if trial.control else wrong_name])


@claim(
    "self-copy",
    topic="handmade",
    source="course",
    statement="with Q = K = V = I, c_2 is u_a",
    why="""x_2 = u_a scores L^2 with itself and 0 with x_1 and x_3, which share no direction with
    it. Its weight on itself is 1 / (1 + 2 e^(-L^2)), so the relative error of c_2 is about
    sqrt(10) e^(-L^2). At L = 1 only 58% of the weight is on x_2 itself; L = 2.4 is enough for one
    percent error, because L enters squared and in an exponent.""",
    judge=Below(0.01, "largest |c_2 - u_a| / L at L = 5"),
    control="L = 1",
)
def self_copy(trial: Trial) -> Evidence:
    def error(u: Tensor) -> float:
        return relative_error(identity_attention(make_tokens(u))[1], u[0])

    length, theory = 1.0 if trial.control else LARGE, ("sqrt(10)", math.sqrt(10))
    return errors_by_length(trial, {"c_2 against u_a": error}, error, length, theory)


@claim(
    "self-cannot",
    topic="handmade",
    source="course",
    statement="adding u_c or u_d to x2 cannot make c_2 equal u_b",
    why="""With x_2 = u_a + s u_c + t u_d, its score with itself is (1 + s^2 + t^2) L^2, with x_1 it
    is t L^2 and with x_3 it is s L^2. The first is the largest for all s and t, since
    s^2 - s + 1 > 0. So x_2 keeps a weight w of at least 1/3 on itself, and c_2 contains w u_a and
    only (1 - w) u_b: its distance from u_b is at least sqrt(2)/3 = 0.47 times L, at every L. For
    large L, c_2 is x_2 itself: u_a + u_c or u_a + u_d. Other matrices can do it (the control).""",
    judge=Above(0.4, "smallest |c_2 - u_b| / L over all s, t and L that were tried"),
    control="the matrices of self-construct instead of Q = K = V = I",
)
def self_cannot(trial: Trial) -> Evidence:
    steps = torch.linspace(-3, 3, trial.pick(13, 61), dtype=torch.float64)
    u = orthonormal(4, 7, trial.generator())
    nearest, added, details = [], [], {}
    for L in LENGTHS:
        sums = steps[:, None, None] * u[2] + steps[:, None] * u[3]  # (s, t, W)
        outputs = identity_attention(make_tokens(L * u, L * sums))[..., 1, :]
        nearest.append((L, float((outputs - L * u[1]).norm(dim=-1).min()) / L))
        added.append(
            (L, relative_error(identity_attention(make_tokens(L * u, L * u[2]))[1], L * u[1]))
        )
    other = [(L, relative_error(attend_constructed(L * u)[1], L * u[1])) for L in LENGTHS]
    for name, direction in (("u_c", u[2]), ("u_d", u[3])):
        out = identity_attention(make_tokens(LARGE * u, LARGE * direction))[1]
        details[f"|c_2 - (u_a + {name})| / L at L = 5"] = relative_error(
            out, LARGE * (u[0] + direction)
        )
    lines = [
        Series("nearest of all s, t", nearest),
        Series("u_c added", added),
        Series("other matrices: self-construct", other),
    ]
    return Evidence(
        Estimate(min(distance for _, distance in (other if trial.control else nearest))),
        Lines("L", "distance of c_2 from u_b / L", lines),
        details={**details, "the bound sqrt(2)/3": math.sqrt(2) / 3},
    )


@claim(
    "self-add-b",
    topic="handmade",
    source="course",
    statement="adding u_b to x2 gives u_a + u_b, although x1.x2 and x3.x2 are then L^2, not 0",
    why="""x_2 = u_a + u_b scores 2 L^2 with itself and L^2 with x_1 and x_3, with which it shares
    u_b. What matters is the difference, which is L^2 as before: its weight on itself is 1 / (1 + 2
    e^(-L^2)), and c_2 is u_a + u_b up to about sqrt(3) e^(-L^2). All three tokens contain u_b, so
    that part of c_2 is correct at every L. A softmax does not need the other scores to be 0; they
    only have to be lower by much more than ln n.""",
    judge=Below(0.01, "largest |c_2 - (u_a + u_b)| / |u_a + u_b| at L = 5"),
    control="L = 1",
)
def self_add_b(trial: Trial) -> Evidence:
    def error(u: Tensor) -> float:
        return relative_error(identity_attention(make_tokens(u, u[1]))[1], u[0] + u[1])

    def error_in_b(u: Tensor) -> float:
        return abs(float(identity_attention(make_tokens(u, u[1]))[1] @ u[1] / (u[1] @ u[1])) - 1)

    length, theory = 1.0 if trial.control else LARGE, ("sqrt(3)", math.sqrt(3))
    evidence = errors_by_length(trial, {"c_2 against u_a + u_b": error}, error, length, theory)
    u = LARGE * orthonormal(4, 7, trial.generator(7, 0))
    first, second, third = make_tokens(u, u[1])
    return Evidence(
        evidence.figure,
        evidence.plot,
        details={
            **evidence.details,
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
    why="""u_a^T u_a = L^2, so Q x_2 = u_d: token 2 looks for u_d and finds it only in x_1, with the
    score L^2. Q x_1 = u_c, which only x_3 contains. V keeps u_b and changes the sign of u_c:
    V x_1 = u_b, V x_2 = 0, V x_3 = u_b - u_c. So c_2 = u_b and c_1 = u_b - u_c up to about
    sqrt(5/2) e^(-L^2). Without the 1/L^2 in Q the scores are L^4, and a smaller L is enough once
    L > 1. The 1/L^2 in V sets the length of the output and is necessary.""",
    judge=Below(0.01, "largest relative error of c_2 and c_1, both forms of Q, at L = 5"),
    control="V = I",
)
def self_construct(trial: Trial) -> Evidence:
    def error(u: Tensor, factor: float = 1.0) -> float:
        a, _, c, d = u
        query = factor * (outer(d, a) + outer(c, d)) / (a @ a)
        value = torch.eye(len(a), dtype=u.dtype) if trial.control else None
        return construction_error(attend_constructed(u, query=query, value=value), u)

    def error_unscaled(u: Tensor) -> float:
        return error(u, float(u[0] @ u[0]))

    return errors_by_length(
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
    why="""Q must map what a token contains to what it looks for: u_a to u_d, and u_d to u_c. This Q
    is a projection that maps u_d to u_d, u_c to u_c, and u_a to 0. So token 2 has q = 0 and
    averages all three values, c_2 = (2 u_b - u_c)/3, and token 1 looks for u_d and finds itself,
    c_1 = u_b. Correct is Q = (u_d u_a^T + u_c u_d^T)/L^2 (the control).""",
    judge=Below(0.01, "largest relative error of c_2 = u_b and c_1 = u_b - u_c at L = 5"),
    control="Q = (u_d u_a^T + u_c u_d^T)/L^2",
)
def self_construct_typo(trial: Trial) -> Evidence:
    def wrong(u: Tensor) -> Tensor:
        _, _, c, d = u
        return attend_constructed(u, query=(outer(d, d) + outer(c, c)) / (d @ d))

    return compare_with_correct(trial, "as stated", wrong, "u_d u_a^T + u_c u_d^T")


@claim(
    "self-construct-scale",
    topic="handmade",
    source="course",
    statement="V with 1/L instead of 1/L^2 does the same",
    quoted=True,
    why="""u_b u_b^T u_b = L^2 u_b, because u_b has the squared length L^2, so only the factor 1/L^2
    gives u_b again. With 1/L the weights are the same, but c_2 = L u_b and c_1 = L (u_b - u_c) are
    L times too long: a relative error of L - 1, largest where the weights are sharpest. The lengths
    are correct for L = 1, but there the weights are not sharp enough.""",
    judge=Below(0.01, "largest relative error of c_2 = u_b and c_1 = u_b - u_c at L = 5"),
    control="V with 1/L^2",
)
def self_construct_scale(trial: Trial) -> Evidence:
    def wrong(u: Tensor) -> Tensor:
        _, b, c, _ = u
        return attend_constructed(u, value=(outer(b, b) - outer(c, c)) / b.norm())

    return compare_with_correct(trial, "V with 1/L", wrong, "V with 1/L^2")
