"""bench speed, memory and decode: the comparison is right; no test asserts a time."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import attnlab
from attnlab._confidence_intervals import Estimate
from attnlab.bench import _measure_costs as costs
from attnlab.bench import _tour_table
from attnlab.bench._attention_pass import create_pass
from attnlab.bench._contenders import (
    Attend,
    AttnlabMechanism,
    Contender,
    PerformerPytorch,
    Sizes,
    SoftmaxMatrix,
    create_contenders,
    evaluate_formula,
)
from attnlab.bench._cost_report import (
    MEMORY,
    SPEED,
    CostCrossover,
    cost_crossover,
    cost_section,
    fit_exponent,
)
from attnlab.bench._decode_bench import StepDecoder, measure_decoding
from attnlab.bench._decode_report import decode_section
from attnlab.bench._memory_bench import measure_memory, peak_resident_bytes
from attnlab.bench._memory_limit import estimate_bytes, fits
from attnlab.bench._settings import CostSettings, DecodeSettings
from attnlab.bench._speed_bench import (
    MAX_SECONDS,
    Costs,
    TimedPass,
    is_too_slow,
    keys_that_fit,
    measure_speed,
)
from attnlab.mask import Mask
from attnlab.mechanisms import MECHANISMS
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms.kernel import KernelState
from attnlab.report import Table
from tests.support.command_line import run

SIZES = Sizes(heads=3, head_dim=8)
SMALL = CostSettings(lengths=(16, 32, 48), heads=1, head_dim=8, rounds=1)


# Contenders, and how many operations they need


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_every_card_has_a_valid_formula(name: str) -> None:
    card, letters = MECHANISMS[name].card, AttnlabMechanism(name).letters(SIZES, 100, causal=False)
    assert evaluate_formula(card.memory, letters) > 0
    assert AttnlabMechanism(name).flops(SIZES, 100, False) is not None


def test_operation_counts_by_hand() -> None:
    assert evaluate_formula("N^2 (D+R)", {"N": 10, "D": 3, "R": 4}) == 700
    # two products of N x N x D, each multiplied and added, three heads
    assert AttnlabMechanism("softmax").flops(SIZES, 100, False) == 3 * 2 * 2 * 100 * 100 * 8
    assert AttnlabMechanism("softmax").flops(SIZES, 100, True) == 3 * 2 * 100 * 100 * 8
    assert AttnlabMechanism("favor:features=16").flops(SIZES, 100, True) == 3 * 4 * 100 * 16 * 8
    assert AttnlabMechanism("elu").flops(SIZES, 100, False) == 3 * 4 * 100 * 8 * 8
    # features of 8 numbers: 1, 8 and 36 products; with 3 projected numbers 1, 3 and 6
    assert AttnlabMechanism("based").flops(SIZES, 100, True) == 3 * 4 * 100 * 45 * 8
    assert AttnlabMechanism("based:feature_dim=3").flops(SIZES, 100, True) == 3 * 4 * 100 * 10 * 8
    assert AttnlabMechanism("hedgehog").flops(SIZES, 100, True) == 3 * 4 * 100 * 16 * 8
    assert AttnlabMechanism("window:window=10").flops(SIZES, 100, True) == 3 * 4 * 100 * 10 * 8
    assert AttnlabMechanism("window:window=10").flops(SIZES, 100, False) == 3 * 4 * 100 * 19 * 8
    assert AttnlabMechanism("window:window=90").flops(SIZES, 100, False) == 3 * 4 * 100 * 100 * 8
    assert AttnlabMechanism("bigbird:block=4").flops(SIZES, 100, False) == 3 * 4 * 100 * 28 * 8
    # a window of 10 keys, or all 5 of a short text, and 16 features
    both = AttnlabMechanism("hedgehog_window:window=10")
    assert both.flops(SIZES, 100, True) == 3 * 4 * 100 * (10 + 16) * 8
    assert both.flops(SIZES, 5, True) == 3 * 4 * 5 * (5 + 16) * 8


def test_passes_that_would_take_gigabytes_are_skipped() -> None:
    assert fits(SoftmaxMatrix(), True, True, SIZES, 1024)
    assert not fits(SoftmaxMatrix(), True, False, SIZES, 65536)
    speed = measure_speed(
        [AttnlabMechanism("hard")], CostSettings(lengths=(16, 65536), heads=1, rounds=1)
    )
    assert set(speed.values["hard", True, False]) == {16}
    assert (
        "65,536 tokens on, where it would take more than 0.8 GB"
        in speed.skipped["hard", True, False]
    )


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("contender", "lengths"),
    [
        (SoftmaxMatrix(), (1024, 2048)),
        (AttnlabMechanism("polynomial"), (1024, 2048)),
        (AttnlabMechanism("hard"), (1024, 2048)),
        # all heads of a kernel share its scratch memory, which counts at short lengths
        (AttnlabMechanism("favor"), (16384, 32768)),
    ],
)
def test_memory_estimates_match_measured_passes(
    contender: Contender, lengths: tuple[int, ...], causal: bool, backward: bool
) -> None:
    """At several times the length that they are extrapolated from."""
    sizes = Sizes(2, 16)
    for tokens in lengths:
        module, attend = contender.create(sizes, tokens)
        call = create_pass(
            attend, sizes.inputs(tokens), list(module.parameters()), causal, backward
        )
        call()
        measured = costs.peak_tensor_bytes(call)
        estimate = estimate_bytes(contender, causal, backward, sizes, tokens)
        assert estimate == pytest.approx(measured, rel=0.15)  # heads share a mask


def test_a_pass_that_fits_is_not_skipped_with_one_that_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Gradients keep tensors that a forward pass frees."""
    contender, sizes = AttnlabMechanism("polynomial"), Sizes(1, 16)
    needed = [estimate_bytes(contender, True, back, sizes, 2048) for back in (False, True)]
    assert 1.4 * needed[0] < needed[1]
    monkeypatch.setattr("attnlab.bench._memory_limit.MAX_BYTES", sum(needed) / 2)
    measured = Costs()
    assert keys_that_fit(contender, sizes, 2048, measured)[:1] == [("polynomial", True, False)]
    assert ("polynomial", True, True) in measured.skipped


def test_linear_costs_are_not_extrapolated_as_quadratic() -> None:
    measured, call = Costs(), int
    for contender in (AttnlabMechanism("elu"), AttnlabMechanism("softmax")):
        for tokens in (100, 1000):
            flops = contender.flops(SIZES, tokens, True)
            assert flops is not None
            measured.flops[contender.name, True, tokens] = flops
    for name in ("elu", "softmax"):
        key = (name, True, False)
        too_slow = is_too_slow(TimedPass(key, 1000, call), {(key, 100): MAX_SECONDS / 50}, measured)
        assert too_slow == (name == "softmax")


@pytest.mark.parametrize("kind", ["speed", "memory", "decode"])
def test_lengths_beyond_any_memory(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    option = "--positions" if kind == "decode" else "--lengths"
    start = f"bench {kind} --quick --mechanisms elu --heads 1 --head-dim 8 --rounds 1 {option}"
    code, out, err = run(f"{start} 16 100000000000", capsys)
    assert (code, err) == (0, "")
    assert "more than 0.8 GB" in " ".join(out.split())
    code, out, err = run(f"{start} 10000000000 100000000000", capsys)
    assert (code, out) == (2, "")
    assert "10000000000 100000000000: all are skipped from" in err
    assert err.count("\n") == 1


def test_exact_attention_always_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PerformerPytorch, "installed", lambda: False)
    assert [each.name for each in create_contenders(["favor"])] == ["softmax", "favor"]
    assert [each.name for each in create_contenders(["softmax"])] == ["softmax"]
    all_names = [each.name for each in create_contenders(())]
    assert all_names[:2] == ["softmax", SoftmaxMatrix.name]
    assert set(MECHANISMS) < set(all_names)
    with pytest.raises(ValueError, match="no option 'fetures'"):
        create_contenders(["favor:fetures=3"])


@pytest.mark.parametrize("causal", [False, True])
def test_softmax_matrix_is_exact_attention(causal: bool) -> None:
    q, k, v, _ = SIZES.inputs(11)
    exact = (q.double() @ k.double().mT / math.sqrt(8)).masked_fill(
        torch.ones(11, 11).triu(1).bool() if causal else torch.zeros(11, 11).bool(), -math.inf
    )
    expected = (exact.softmax(-1) @ v.double()).float()
    for contender in (SoftmaxMatrix(), AttnlabMechanism("softmax")):
        _, attend = contender.create(SIZES, 11)
        torch.testing.assert_close(attend(q, k, v, causal), expected, atol=1e-5, rtol=1e-5)


PERFORMER_MODULE = """
import torch
class FastAttention(torch.nn.Module):
    def __init__(self, dim_heads, nb_features, causal):
        super().__init__()
        self.arguments = (dim_heads, nb_features, causal)
        print("unable to import cuda code")
    def forward(self, q, k, v):
        return v.cumsum(2) if self.arguments[2] else v.sum(2, keepdim=True).expand_as(v)
"""


def test_performer_pytorch_takes_part_if_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "performer_pytorch.py").write_text(PERFORMER_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "performer_pytorch", sys)  # so that monkeypatch restores it
    del sys.modules["performer_pytorch"]
    assert PerformerPytorch.installed()
    assert PerformerPytorch().name in [each.name for each in create_contenders(())]
    named = [each.name for each in create_contenders(["favor"])]
    assert named == ["softmax", PerformerPytorch().name, "favor"]
    module, attend = PerformerPytorch(features=32).create(SIZES, 5)
    assert [each.arguments for each in module.children()] == [(8, 32, False), (8, 32, True)]
    q, k, v, _ = SIZES.inputs(5)
    assert torch.equal(attend(q, k, v, True), v.cumsum(2))
    speed = measure_speed([PerformerPytorch(32)], SMALL)
    assert set(speed.values[PerformerPytorch(32).name, True, True]) == {16, 32, 48}
    assert capsys.readouterr().out == ""
    # it keeps a state for each token only for gradients
    floats = [PerformerPytorch(32).floats(SIZES, 5, True, backward) for backward in (True, False)]
    assert floats == [5 * 32 * 8, 5 * 32]


# Passes


def test_backward_gives_the_gradients() -> None:
    contender = AttnlabMechanism("synthesizer")
    module, attend = contender.create(SIZES, 5)
    leaves = list(module.parameters())
    q, k, v, gradient = SIZES.inputs(5)
    gradients = create_pass(attend, [q, k, v, gradient], leaves, True, True)()
    assert isinstance(gradients, tuple)
    v = v.clone().requires_grad_()
    (attend(q, k, v, True) * gradient).sum().backward()
    torch.testing.assert_close(gradients[2], v.grad)
    assert len(gradients) == 3 + len(leaves)
    assert any(each is not None and bool(each.abs().sum() > 0) for each in gradients[3:])
    out = create_pass(attend, [q, k, v, gradient], leaves, True, False)()
    assert isinstance(out, Tensor)
    assert not out.requires_grad


def test_speed_measures_every_pass_and_restores_threads() -> None:
    before = torch.get_num_threads()
    speed = measure_speed([AttnlabMechanism("softmax"), AttnlabMechanism("linformer")], SMALL)
    assert torch.get_num_threads() == before
    keys = {("softmax", c, b) for c in (True, False) for b in (True, False)}
    assert set(speed.values) == keys | {("linformer", False, b) for b in (True, False)}
    for points in speed.values.values():
        assert set(points) == {16, 32, 48}
        assert all(0 < each.ends[0] <= each.value <= each.ends[1] for each in points.values())
    assert speed.peak > 1e6


# Memory


@dataclass(frozen=True)
class MemoryHog(Contender):
    """Allocates and writes this many megabytes during the call."""

    megabytes: int
    name = "hog"
    causal = (False,)

    def create(self, sizes: Sizes, tokens: int) -> tuple[nn.Module, Attend]:
        del sizes
        size = self.megabytes * 250_000 if tokens > 64 else 1

        def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
            del q, k, causal
            held = torch.ones(size)
            return v * held[0]

        return nn.Module(), attend

    def floats(self, sizes: Sizes, tokens: int, causal: bool, backward: bool) -> float:
        del sizes, tokens, causal, backward
        return 1.0


def test_peak_memory_does_not_depend_on_earlier_calls() -> None:
    key, sizes = ("hog", False, False), Sizes(1, 8)
    for megabytes in (200, 20, 100):
        peak = peak_resident_bytes(MemoryHog(megabytes), key, sizes, 128, 1) / 1e6
        assert peak == pytest.approx(megabytes, abs=4)


def test_memory_by_length() -> None:
    settings = CostSettings(lengths=(512, 1024), heads=1, head_dim=8)
    memory = measure_memory([SoftmaxMatrix(), AttnlabMechanism("softmax")], settings)
    whole = memory.values[SoftmaxMatrix.name, False, False]
    assert whole[1024].value >= 4e6  # at least the matrix
    assert whole[1024].value > 2.5 * whole[512].value
    assert memory.values["softmax", False, False][1024].value < 2e6


@dataclass(frozen=True)
class CrashingContender(MemoryHog):
    def create(self, sizes: Sizes, tokens: int) -> tuple[nn.Module, Attend]:
        del sizes, tokens
        os._exit(9)


def test_a_crashed_process_is_reported_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"hog at 128 tokens ended with exit code 9"):
        peak_resident_bytes(CrashingContender(1), ("hog", False, False), Sizes(1, 8), 128, 1)


@pytest.mark.skipif(not compiled.status().active, reason=compiled.status().reason)
@pytest.mark.parametrize("name", ["bigbird", "favor"])
def test_scratch_memory_of_c_kernels_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = torch.randn(3, 1, 2, 300, 16)
    call = partial(attnlab.attention, q, k, v, name, causal=True)
    with costs.one_thread():
        call()
        compiled.peak_scratch_bytes()
        call()
        scratch, again = compiled.peak_scratch_bytes(), compiled.peak_scratch_bytes()
        peak = costs.peak_bytes_no_grad(call)
        monkeypatch.setattr(costs, "peak_scratch_bytes", int)
        without = costs.peak_bytes_no_grad(call)
    assert scratch > 4 * 16 * 16
    assert again == 0  # nothing is held between calls
    assert without < peak <= without + scratch


@pytest.mark.parametrize("name", ["bigbird", "favor"])
def test_tensor_memory_agrees_with_resident_memory(name: str) -> None:
    sizes, tokens = Sizes(4, 64), 16_384
    contender = next(each for each in create_contenders([name]) if each.name == name)
    resident = peak_resident_bytes(contender, (name, False, False), sizes, tokens, 1)
    q, k, v, _ = sizes.inputs(tokens)
    _, attend = contender.create(sizes, tokens)
    peak = costs.peak_bytes_no_grad(lambda: attend(q, k, v, False))
    assert peak == pytest.approx(resident, rel=0.25)


# Decoding


@pytest.mark.parametrize("spec", ["softmax", "elu", "favor:features=16", "window:window=4"])
def test_a_step_equals_the_last_row_of_a_forward_pass(spec: str) -> None:
    with torch.no_grad():
        decoder = StepDecoder.after(AttnlabMechanism(spec), SIZES, tokens=9, new_tokens=3)
        _, k, v, _ = SIZES.inputs(9)
        q_new, k_new, v_new = decoder.token
        output = decoder.step()
        mechanism = decoder.mechanism
        keys, values = torch.cat([k, k_new], 2), torch.cat([v, v_new], 2)
        queries = torch.cat([torch.zeros_like(k), q_new], 2)
        whole = mechanism(queries, keys, values, Mask(causal=True))
    torch.testing.assert_close(output, whole[:, :, -1:], atol=1e-5, rtol=1e-5)


def test_a_step_overwrites_the_previous_state() -> None:
    """The bench measures what generation does: it updates sums in place."""
    decoder = StepDecoder.after(AttnlabMechanism("elu"), SIZES, tokens=9, new_tokens=3)
    before = decoder.state
    assert isinstance(before, KernelState)
    with torch.no_grad():
        decoder.step()
        if compiled.status().active:
            assert isinstance(decoder.state, KernelState)
            assert decoder.state.sums.data_ptr() == before.sums.data_ptr()
        with pytest.raises(ValueError, match="overwritten"):
            decoder.mechanism.read(decoder.token[0], before, 9)


def test_state_sizes() -> None:
    settings = DecodeSettings(positions=(5, 50), heads=2, head_dim=8, rounds=1)
    decoding = measure_decoding(
        [AttnlabMechanism("softmax"), AttnlabMechanism("favor:features=16")], settings
    )
    assert decoding.state_bytes["softmax"] == {5: 2 * 2 * 5 * 8 * 4, 50: 2 * 2 * 50 * 8 * 4}
    sums = 2 * 16 * (8 + 1) * 4 + 2 * 16 * 4
    assert decoding.state_bytes["favor:features=16"] == {5: sums, 50: sums}
    section = decode_section(decoding, settings)
    assert "The state has a constant size: favor:features=16." in section.findings
    assert len(section.measurements) == 4


# Exponents and crossovers of known curves


def curve(
    scale: float, power: float, lengths: tuple[int, ...] = (100, 200, 400)
) -> dict[int, Estimate]:
    return {n: Estimate(scale * n**power) for n in lengths}


def test_fit_exponent_of_power_laws() -> None:
    slope = fit_exponent(curve(3, 1.5))
    assert slope is not None
    assert slope.value == pytest.approx(1.5)
    assert slope.ends[1] - slope.ends[0] < 1e-6
    assert fit_exponent({100: Estimate(1.0), 200: Estimate(0.0), 400: Estimate(0.0)}) is None
    assert fit_exponent(curve(1, 1), smallest=1e9) is None


def test_crossovers() -> None:
    exact = curve(1, 2)
    near = cost_crossover(curve(250, 1), exact)
    assert near.tokens == pytest.approx(250)
    assert near.measured
    assert str(near) == "250"
    assert cost_crossover(curve(50, 1), exact) == CostCrossover(0, True)
    far = cost_crossover(curve(1500, 1), exact)
    assert far.tokens == pytest.approx(1500)
    assert not far.measured
    assert str(far) == "(1,500)"
    # four times the longest length at most: no measurement comes near 3,500,000 tokens
    assert str(cost_crossover(curve(1590, 1), exact)) == "(1,600)"
    assert str(cost_crossover(curve(3_500_000, 1), exact)) == "> 1,600"
    noisy = {n: Estimate(0.9 * n**2, 0.5 * n**2, 1.1 * n**2) for n in (100, 200, 400)}
    assert str(cost_crossover(noisy, exact)) == "alike"
    assert str(cost_crossover(curve(2, 2), exact)) == "never"
    assert (
        str(cost_crossover(curve(0.001, 3), curve(1, 1, (50,)))) == "never"
    )  # no length in common
    # fast, then slow, then fast: only the last change counts
    again = {100: Estimate(1.0), 200: Estimate(80_000.0), 400: Estimate(80_000.0)}
    assert cost_crossover(again, exact).tokens > 200


def known_costs() -> Costs:
    measured = Costs(peak=1e9)
    for causal in (True, False):
        for backward in (True, False):
            measured.values["softmax", causal, backward] = curve(1e-6, 2)
            measured.values["linear", causal, backward] = curve(2e-4, 1)
            measured.values["slow", causal, backward] = curve(4e-6, 2)
            measured.flops["softmax", causal, 400] = 4e7
    measured.skipped["slow", True, False] = "from 800 tokens on, where it would take gigabytes"
    return measured


def test_report_section_of_known_costs() -> None:
    settings = CostSettings(lengths=(100, 200, 400))
    section = cost_section(known_costs(), SPEED, settings)
    assert section.findings[0] == (
        "Causal, forward, 400 tokens: faster than softmax are linear 2 times."
    )
    assert section.findings[-2:] == [
        "Grows about linearly with the number of tokens: linear.",
        "Grows faster, in at least one form: softmax and slow.",
    ]
    assert "Causal, forward, this machine: softmax is beaten by linear from 200 tokens on." in (
        section.advice
    )
    tables = [part for part in section.blocks if isinstance(part, Table)]
    assert len(tables) == 4
    rows = {row[0]: row for row in tables[0].rows}
    assert [round(float(str(each)), 6) for each in rows["softmax"][1:4]] == [10, 40, 160]
    assert rows["softmax"][-1] == "25%"  # 4e7 / 0.16 s over 1e9
    assert rows["linear"][-2] == "200"
    assert rows["slow"][-2] == "never"
    assert "Left out from 800 tokens on, where it would take gigabytes: slow" in tables[0].note
    memory = cost_section(known_costs(), MEMORY, settings)
    assert memory.advice == []
    assert "smaller than softmax" in memory.findings[0]


def test_advice_names_a_mechanism_that_is_always_faster() -> None:
    measured = Costs(peak=1e9)
    measured.values = {("softmax", True, False): curve(2, 2), ("fast", True, False): curve(1, 1)}
    section = cost_section(measured, SPEED, CostSettings(lengths=(100, 200, 400)))
    assert section.advice == [
        "Causal, forward, this machine: softmax is beaten by fast at all lengths from 100 on."
    ]


def test_advice_recommends_softmax_if_it_is_fastest() -> None:
    measured = Costs(peak=1e9)
    measured.values = {("softmax", True, False): curve(1, 1), ("slow", True, False): curve(2, 1)}
    section = cost_section(measured, SPEED, CostSettings(lengths=(100, 200, 400)))
    assert section.advice == [
        "Causal, forward, this machine: up to 400 tokens exact softmax is fastest; use it."
    ]


# The tour


def test_tour_marks_mechanisms_that_see_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """bigbird with blocks of 64 has no error on 128 tokens because it skips nothing."""
    kinds = {name: MECHANISMS[name] for name in ("softmax", "bigbird", "elu")}
    monkeypatch.setattr(_tour_table, "MECHANISMS", kinds)
    remarks = {row.name: _tour_table.remarks_on(row) for row in _tour_table.measure_tour(128, 0)}
    assert remarks == {"softmax": "", "bigbird": "sees all keys", "elu": ""}
    kinds.pop("elu")
    longer = {row.name: _tour_table.remarks_on(row) for row in _tour_table.measure_tour(1024, 0)}
    assert longer["bigbird"] == ""
