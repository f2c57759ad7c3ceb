"""bench error: against a slow definition, with its control, and the sentences of its report."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnlab._create_mechanism import create_mechanism
from attnlab._join_words import format_ranges, join_words
from attnlab.bench._error_bench import (
    UNIFORM,
    Case,
    ErrorMeasurement,
    SampledInputs,
    create_cases,
    is_swept,
    measurable_specs,
    measure_errors,
    mechanism_name,
    relative_error,
    typical_features,
    uniform_weights,
)
from attnlab.bench._error_report import advice, error_section, findings
from attnlab.bench._error_results import ErrorResults
from attnlab.bench._run_bench import supported_specs
from attnlab.bench._settings import ErrorSettings
from attnlab.mask import Mask
from attnlab.mechanisms import MECHANISMS
from attnlab.mechanisms._random_directions import sample_directions
from attnlab.report import Figure, Heatmap, Report, Table, parse_report, to_json

SMALL = ErrorSettings(
    tokens=7, head_dim=5, head_dims=(3, 5), features=(4, 6), norms=(1.0, 3.0), seeds=2
)


# The errors themselves, pair by pair in float64


def slow_weights(kernel: Callable[[Tensor, Tensor], float], q: Tensor, k: Tensor, causal: bool):  # type: ignore[no-untyped-def]
    """(N, N): kernel(q_i, k_j) over its sum over the keys that i may see."""
    N = len(q)
    rows = torch.zeros(N, N, dtype=torch.float64)
    for i in range(N):
        for j in range(i + 1 if causal else N):
            rows[i, j] = kernel(q[i], k[j])
        rows[i] /= rows[i].sum()
    return rows


def softmax_kernel(q: Tensor, k: Tensor) -> float:
    return math.exp(float(q @ k) / math.sqrt(len(q)))


def favor_kernel(draws: Tensor) -> Callable[[Tensor, Tensor], float]:
    def kernel(q: Tensor, k: Tensor) -> float:
        q, k = (x / len(x) ** 0.25 for x in (q, k))
        halves = float(q @ q + k @ k) / 2
        return sum(math.exp(float(w @ (q + k)) - halves) for w in draws) / len(draws)

    return kernel


def fourier_kernel(draws: Tensor) -> Callable[[Tensor, Tensor], float]:
    def kernel(q: Tensor, k: Tensor) -> float:
        q, k = (x / len(x) ** 0.25 for x in (q, k))
        halves = float(q @ q + k @ k) / 2
        return math.exp(halves) * sum(math.cos(float(w @ (q - k))) for w in draws) / len(draws)

    return kernel


def elu_kernel(q: Tensor, k: Tensor) -> float:
    maps = (torch.where(x > 0, x + 1, x.exp()) for x in (q, k))
    return float(math.prod(maps, start=torch.ones(())).sum())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("spec", ["favor", "fourier", "elu", UNIFORM])
def test_errors_match_a_slow_definition(spec: str, causal: bool) -> None:
    settings = ErrorSettings(tokens=7, head_dim=5, norms=(2.5,), causal=causal, features=(6,))
    inputs = SampledInputs.sample(settings, 5, seed=3)
    q, k, v = 2.5 * inputs.q[0, 0], 2.5 * inputs.k[0, 0], inputs.v[0, 0]
    assert torch.allclose(q.norm(dim=1), torch.full((7,), 2.5, dtype=torch.float64))
    float32 = torch.float32  # as draws are kept
    kernels = {
        "favor": favor_kernel(
            sample_directions(6, 5, inputs.mechanism_seed, False).to(float32).double()
        ),
        "fourier": fourier_kernel(
            sample_directions(3, 5, inputs.mechanism_seed, False).to(float32).double()
        ),
        "elu": elu_kernel,
        UNIFORM: lambda _q, _k: 1.0,
    }
    case = Case(spec, 6, False) if spec in ("favor", "fourier") else Case(spec)
    rows = list(inputs.control_errors(0) if spec == UNIFORM else inputs.errors(case, 0))
    exact = slow_weights(softmax_kernel, q, k, causal)
    approximate = slow_weights(kernels[spec], q, k, causal)
    assert len(rows) == 1
    assert rows[0].weights == pytest.approx(
        float((approximate - exact).norm() / exact.norm()), rel=1e-6
    )
    output = float((approximate @ v - exact @ v).norm() / (exact @ v).norm())
    assert rows[0].output == pytest.approx(output, rel=1e-6)
    assert rows[0].output > 1e-3  # or nothing was compared


@given(st.integers(1, 6), st.integers(1, 6), st.booleans(), st.integers(0, 3))
def test_uniform_weights_count_allowed_keys(T: int, S: int, causal: bool, start: int) -> None:
    keys = torch.arange(S)[None] < max(1, S - 1)
    mask = Mask(causal=causal, keys=keys, start=start)
    weights = uniform_weights(mask, T, S)[0, 0]
    allowed = mask.allowed(T, S, torch.device("cpu"))
    assert allowed is not None
    for row, visible in zip(weights, allowed.expand(1, 1, T, S)[0, 0], strict=True):
        for weight, is_visible in zip(row.tolist(), visible.tolist(), strict=True):
            assert weight == pytest.approx(1 / int(visible.sum()) if is_visible else 0)


def test_causal_uniform_weights_average_earlier_values() -> None:
    v = torch.randn(5, 3, dtype=torch.float64)
    means = uniform_weights(Mask(causal=True), 5, 5)[0, 0] @ v
    for i in range(5):
        assert torch.allclose(means[i], v[: i + 1].mean(0))


# Theory


def feature_exponent(norm: float, orthogonal: bool) -> float:
    settings = ErrorSettings(
        tokens=64, head_dim=16, head_dims=(16,), features=(32, 64, 128, 256, 512), norms=(norm,),
        seeds=8,
    )  # fmt: skip
    rows = measure_errors(["favor"], settings, seed=1)
    return (
        ErrorResults(rows, ["favor"], settings).slope(Case("favor", None, orthogonal), norm).value
    )


def test_error_of_independent_directions_falls_as_one_over_the_square_root() -> None:
    assert feature_exponent(1.0, orthogonal=False) == pytest.approx(-0.5, abs=0.06)


def test_large_norms_break_the_square_root_law() -> None:
    """The test above can fail."""
    assert feature_exponent(8.0, orthogonal=False) > -0.25


def test_random_features_beat_uniform_weights_only_at_some_norms() -> None:
    settings = ErrorSettings(
        tokens=64, head_dim=64, head_dims=(64,), features=(1024,), norms=(3.0, 8.0), seeds=4
    )
    results = ErrorResults(measure_errors(["favor"], settings), ["favor"], settings)
    case = results.with_features[0]
    assert results.ratio(case, 3.0).ends[1] < 1
    assert results.ratio(case, 8.0).ends[0] > 1
    assert verdict_rows(results) == [["favor, 1,024 features", "3", "8", "3"]]
    assert findings(results)[1] == (
        "At norm 8, the nearest to N(0, I), better than uniform weights: none; worse: favor."
    )


def test_orthogonal_directions_help_fourier_features() -> None:
    settings = ErrorSettings(
        tokens=32, head_dim=16, head_dims=(16,), features=(64,), norms=(1.0,), seeds=4
    )
    results = ErrorResults(measure_errors(["fourier"], settings), ["fourier"], settings)
    case = results.with_features[0]
    other = Case("fourier", 64, False)
    assert results.ratio(case, 1.0, other=other).ends[1] < 0.6
    assert results.ratio(other, 1.0, other=case).ends[0] > 1


# Measurements


def test_every_case_at_every_norm_size_and_seed() -> None:
    rows = measure_errors(["favor", "hard"], SMALL)
    names = {row.case.name for row in rows}
    assert names == {
        UNIFORM, "hard", "favor, 4 features", "favor, 6 features",
        "favor, 4 features, independent", "favor, 6 features, independent",
    }  # fmt: skip
    assert {row.head_dim for row in rows} == {3, 5}
    for case in {row.case for row in rows}:
        case_rows = [row for row in rows if row.case == case and row.head_dim == 5]
        in_grid = case.spec == UNIFORM or case.orthogonal is True
        assert {(row.norm, row.seed) for row in case_rows} == {
            (n, s) for n in ((1, 3, None) if in_grid else (1, 3)) for s in (0, 1)
        }
    assert len(rows) == len({(row.case, row.head_dim, row.norm, row.seed) for row in rows})
    typical, other = typical_features(SMALL), 4
    norms = {
        count: {
            row.norm for row in rows if row.head_dim == 3 and row.case == Case("favor", count, True)
        }
        for count in (typical, other)
    }
    assert norms == {typical: {1, 3, None}, other: {SMALL.grid_norm, None}}


def test_larger_heads_have_smaller_errors_only_at_one_norm() -> None:
    """Sines and cosines with every head size and number of features, for both kinds of inputs."""
    settings = ErrorSettings(
        tokens=48, head_dim=16, head_dims=(4, 64), features=(64, 256), norms=(2.0,), seeds=4
    )
    rows = measure_errors(["fourier"], settings)
    results = ErrorResults(rows, ["fourier"], settings)
    for count in (64, 256):
        case = Case("fourier", count, True)
        ratio = {
            norm: results.error(case, norm, 64).value / results.error(case, norm, 4).value
            for norm in (2.0, None)
        }
        assert ratio[2.0] < 0.5
        assert ratio[None] > 1.5
    section = error_section(rows, ["fourier"], settings)
    maps = [
        block
        for block in section.blocks
        if isinstance(block, Figure) and "head size and number of features" in block.title
    ]
    assert [figure.title.rpartition(", |q")[0] or figure.title for figure in maps] == [
        "fourier: error by head size and number of features",
        "fourier: error by head size and number of features, q, k ~ N(0, I)",
    ]
    for figure, norm in zip(maps, (2.0, None), strict=True):
        assert isinstance(figure.plot, Heatmap)
        assert (figure.plot.rows, figure.plot.columns) == (["4", "64"], ["64", "256"])
        expected = results.error(Case("fourier", 256, True), norm, 4).value
        assert figure.plot.values[0][1] == pytest.approx(expected)
    assert "it falls from" in section.findings[-1]
    assert "q, k ~ N(0, I) it grows from" in section.findings[-1]


def test_inputs_from_a_normal_distribution() -> None:
    inputs = SampledInputs.sample(SMALL, 5, seed=0)
    q, k = inputs.at_norm(None)
    generator = torch.Generator().manual_seed(5)
    expected = [torch.randn(1, 1, 7, 5, generator=generator, dtype=torch.float64) for _ in "qk"]
    assert torch.allclose(q, expected[0])
    assert torch.allclose(k, expected[1])


def test_a_mechanism_that_sees_every_key_is_not_recommended() -> None:
    """bigbird's blocks of 64 cover 64 tokens, so its error of 0 says nothing."""
    settings = ErrorSettings(tokens=64, head_dim=8, head_dims=(8,), norms=(4.0, 8.0), seeds=2)

    def report(spec: str) -> str:
        section = error_section(measure_errors([spec], settings), [spec], settings)
        table = next(block for block in section.blocks if isinstance(block, Table))
        return " ".join([*section.findings, *section.advice, *map(str, table.rows[0])])

    covering = report("bigbird")
    assert "Equal to softmax, because every key of these 64 tokens is visible" in covering
    assert "bigbird within 10%" not in covering
    assert "equals softmax: sees every key" in covering
    assert "better than uniform weights: none" in covering
    sparse = report("bigbird:block=2")
    assert "Equal to softmax" not in sparse
    assert "sees every key" not in sparse


def test_a_seed_repeats_and_other_seeds_differ() -> None:
    first, again = (measure_errors(["favor"], SMALL, seed=5) for _ in "ab")
    other = measure_errors(["favor"], SMALL, seed=6)
    assert first == again
    assert [row.output for row in first] != [row.output for row in other]
    one = [row.output for row in first if row.seed == 0]
    assert one != [row.output for row in first if row.seed == 1]


def test_mechanisms_do_not_reuse_the_inputs_random_numbers() -> None:
    """The same seed for both would make the first direction the first query."""
    inputs = SampledInputs.sample(SMALL, 5, seed=0)
    draws = sample_directions(4, 5, inputs.mechanism_seed, False)
    assert relative_error(draws[0] / draws[0].norm(), inputs.q[0, 0, 0]) > 0.1


def test_a_mechanism_with_given_features_is_not_swept() -> None:
    assert is_swept("favor", "features")
    assert not is_swept("favor:features=32", "features")
    assert not is_swept("elu", "features")
    assert create_cases("favor:features=32", SMALL, swept=True) == [Case("favor:features=32")]
    case = Case("favor:beta=0.5", 8, True)
    mechanism = create_mechanism(
        "favor", head_dim=4, heads=1, features=8, beta=0.5, orthogonal=True
    )
    assert case.full_spec == "favor:beta=0.5,features=8,orthogonal=True"
    assert mechanism.get_buffer("draws").shape == (8, 4)


def test_all_mechanisms_without_learned_parameters_take_part() -> None:
    expected = {
        name
        for name, kind in MECHANISMS.items()
        if not kind.card.learned and not kind.gates and kind.card.bidirectional
    } - {"softmax"}
    assert {mechanism_name(spec) for spec in measurable_specs((), 256)} == expected


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("softmax", "errors are measured against it"),
        ("based:feature_dim=3", "based:feature_dim=3: has learned parameters"),
        ("linformer", "learned parameters"),
        ("favour", "did you mean 'favor'"),
        ("2*window+2*softmax", "name one mechanism"),
    ],
)
def test_errors_for_unmeasurable_mechanisms(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("'", ".")):
        measurable_specs([spec], 256)


# Sentences, from invented numbers


def invented_results(ratios: dict[float, float], uniform: float = 0.4) -> ErrorResults:
    settings = ErrorSettings(
        head_dim=64, head_dims=(64,), features=(256,), norms=tuple(ratios), seeds=3
    )
    rows = []
    for norm, ratio in ratios.items():
        for seed in range(3):
            noise = 1 + 0.01 * seed
            rows.append(ErrorMeasurement(Case(UNIFORM), 64, norm, seed, uniform * noise, uniform))
            rows += [
                ErrorMeasurement(Case("favor", 256, orthogonal), 64, norm, seed, value, value)
                for orthogonal, value in ((True, ratio * uniform), (False, 2 * ratio * uniform))
            ]
    return ErrorResults(rows, ["favor"], settings)


def verdict_rows(results: ErrorResults) -> list[list[Any]]:
    """The rows of the table of norms at which each mechanism beats uniform weights."""
    section = error_section(results.rows, results.specs, results.settings)
    table = next(block for block in section.blocks if isinstance(block, Table))
    return [list(row) for row in table.rows]


def test_sentences_follow_the_numbers() -> None:
    results = invented_results({1: 3.0, 2: 0.5, 3: 0.2, 4: 1.001, 8: 7.0})
    assert verdict_rows(results) == [["favor, 256 features", "2 to 3", "1 and 8", "1 to 8"]]
    rest = "use softmax, or train the model with the mechanism in place."
    assert advice(results) == [
        f"At norms 1 to 2 and 4 to 8 nothing measured is reliably within 10% of softmax: {rest}",
        "At norm 3: favor, 256 features within 10% of softmax.",
    ]
    assert advice(invented_results({1: 0.1, 2: 0.2})) == [
        "At norms 1 to 2: favor, 256 features within 10% of softmax."
    ]
    assert advice(invented_results({1: 1e-12})) == [  # an exact mechanism is within 10% too
        "At norm 1: favor, 256 features within 10% of softmax."
    ]
    assert (
        advice(invented_results({1: 0.1}, uniform=0.05)) == []
    )  # uniform weights are enough there
    assert verdict_rows(invented_results({1: 2.0, 2: 3.0})) == [
        ["favor, 256 features", "none", "1 to 2", "1 to 2"]
    ]


@given(st.lists(st.floats(0.001, 0.249) | st.floats(0.251, 4), min_size=1, max_size=9))
def test_advice_is_right_for_every_norm(ratios: list[float]) -> None:
    """Each norm occurs in one line, and that line is right for its error."""
    results = invented_results({n + 1: ratio for n, ratio in enumerate(ratios)})
    advised: dict[int, bool] = {}
    for line in advice(results):
        listed = (
            line.removeprefix("At norm")
            .removeprefix("s")
            .partition(" nothing" if "nothing" in line else ":")[0]
        )
        for run in listed.replace(" and ", ", ").split(", "):
            first, _, last = run.partition(" to ")
            norms = range(int(first), int(last or first) + 1)
            assert not advised.keys() & set(norms)
            advised |= dict.fromkeys(norms, "nothing" not in line)
    errors = {n + 1: 0.4 * ratio for n, ratio in enumerate(ratios)}
    assert advised == {norm: error <= 0.1 for norm, error in errors.items()}


def test_findings_name_the_norms_of_small_errors() -> None:
    far = findings(invented_results({1: 1.0, 2: 1.0}))
    assert far[0].endswith(
        "within 10% of softmax at none of these norms (head size 64, 256 tokens)."
    )
    near = findings(invented_results({1: 1.0, 2: 1.0}, uniform=0.05))
    assert near[0].endswith("of softmax at norms 1 to 2 (head size 64, 256 tokens).")
    results = invented_results({1: 1.0})
    equal = [replace(row, output=0.4) for row in results.rows]
    assert verdict_rows(ErrorResults(equal, ["favor"], results.settings))[0][-1] == "none"
    exact = [replace(row, output=1e-15) for row in results.rows]
    assert verdict_rows(ErrorResults(exact, ["favor"], results.settings))[0][1:3] == ["1", "none"]


@pytest.mark.parametrize("norm", [1e-9, 1e-200, 1e150])
def test_extreme_norms(norm: float) -> None:
    """With equal scores uniform weights have no error; huge scores are not finite."""
    settings = ErrorSettings(
        tokens=8, head_dim=4, head_dims=(4,), features=(4, 8), norms=(norm, 2 * norm), seeds=2
    )
    specs = ["favor", "fourier", "hard", "elu"]
    section = error_section(measure_errors(specs, settings), specs, settings)
    assert section.findings
    report = Report("bench", "Error", [section])
    assert parse_report(json.loads(to_json(report))).sections[0].name == "error"


def test_one_seed_has_findings_without_intervals() -> None:
    settings = ErrorSettings(tokens=8, head_dim=4, head_dims=(4,), features=(4,), norms=(1.0,),
                             seeds=1)  # fmt: skip
    section = error_section(measure_errors(["favor"], settings), ["favor"], settings)
    assert section.findings
    assert len(section.measurements) == 3


def test_ranges_and_joined() -> None:
    assert format_ranges([1, 2, 3, 4], [True, True, False, True]) == "1 to 2 and 4"
    assert format_ranges([1, 2], [False, False]) == ""
    assert join_words(["a", "b", "c"]) == "a, b and c"
    assert join_words([]) == ""


def test_mechanisms_that_exist_only_in_causal_form_are_left_out_of_several_benches() -> None:
    specs = ["retention", "favor", "linformer"]
    assert supported_specs("error", specs, causal=False, strict=False) == ["favor"]
    assert supported_specs("error", specs, causal=True, strict=False) == ["retention", "favor"]
