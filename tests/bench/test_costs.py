"""bench speed, memory and decode: what is compared is right; no time is asserted."""

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
from attnlab.bench import _contenders as parties
from attnlab.bench import _measure_costs as costs
from attnlab.bench._attention_pass import pass_of
from attnlab.bench._contenders import Attend, Contender, Matrix, Ours, Performer, Sizes, counted
from attnlab.bench._cost_report import MEMORY, SPEED, Crossover, cost_section, crossover, fitted
from attnlab.bench._decode_bench import Decoder, measure_decoding
from attnlab.bench._decode_report import decode_section
from attnlab.bench._memory_bench import measure_memory, peak_bytes
from attnlab.bench._memory_limit import estimated_bytes, fits
from attnlab.bench._settings import CostSettings, DecodeSettings
from attnlab.bench._speed_bench import LONGEST, Costs, Job, fitting, measure_speed, too_long
from attnlab.mask import Mask
from attnlab.mechanisms import MECHANISMS
from attnlab.mechanisms import _compiled as compiled
from attnlab.mechanisms.kernel import KernelState
from attnlab.report import Table
from tests.support.command_line import run

SIZES = Sizes(heads=3, head_dim=8)
SMALL = CostSettings(lengths=(16, 32, 48), heads=1, head_dim=8, rounds=1)


# Who takes part, and how much arithmetic it must do


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_every_card_can_be_counted(name: str) -> None:
    card, letters = MECHANISMS[name].card, Ours(name).letters(SIZES, 100, causal=False)
    assert counted(card.memory, letters) > 0
    assert Ours(name).flops(SIZES, 100, False) is not None


def test_counts_by_hand() -> None:
    assert counted("N^2 (D+R)", {"N": 10, "D": 3, "R": 4}) == 700
    # two products of N x N x D, each multiplied and added, three heads
    assert Ours("softmax").flops(SIZES, 100, False) == 3 * 2 * 2 * 100 * 100 * 8
    assert Ours("softmax").flops(SIZES, 100, True) == 3 * 2 * 100 * 100 * 8
    assert Ours("favor:features=16").flops(SIZES, 100, True) == 3 * 4 * 100 * 16 * 8
    assert Ours("elu").flops(SIZES, 100, False) == 3 * 4 * 100 * 8 * 8
    assert Ours("window:window=10").flops(SIZES, 100, True) == 3 * 4 * 100 * 10 * 8
    assert Ours("window:window=10").flops(SIZES, 100, False) == 3 * 4 * 100 * 19 * 8
    assert Ours("window:window=90").flops(SIZES, 100, False) == 3 * 4 * 100 * 100 * 8
    assert Ours("bigbird:block=4").flops(SIZES, 100, False) == 3 * 4 * 100 * 28 * 8


def test_what_would_take_gigabytes_stays_out() -> None:
    assert fits(Matrix(), True, True, SIZES, 1024)
    assert not fits(Matrix(), True, False, SIZES, 65536)
    found = measure_speed([Ours("hard")], CostSettings(lengths=(16, 65536), heads=1, rounds=1))
    assert set(found.values["hard", True, False]) == {16}
    assert (
        "65,536 tokens on, where it would take more than 0.8 GB"
        in found.left_out["hard", True, False]
    )


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("party", [Matrix(), Ours("polynomial"), Ours("hard"), Ours("favor")])
def test_estimates_are_what_a_pass_holds(party: Contender, causal: bool, backward: bool) -> None:
    """Twice and four times as long as what they are made from."""
    sizes = Sizes(2, 16)
    for tokens in (1024, 2048):
        module, attend = party.create(sizes, tokens)
        call = pass_of(attend, sizes.inputs(tokens), list(module.parameters()), causal, backward)
        call()
        wanted = costs.most_alive(call)
        found = estimated_bytes(party, causal, backward, sizes, tokens)
        assert found == pytest.approx(wanted, rel=0.15)  # heads share a mask


def test_a_way_that_fits_is_not_left_out_with_one_that_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Gradients keep what a forward pass gives up."""
    party, sizes = Ours("polynomial"), Sizes(1, 16)
    needed = [estimated_bytes(party, True, back, sizes, 2048) for back in (False, True)]
    assert 1.4 * needed[0] < needed[1]
    monkeypatch.setattr("attnlab.bench._memory_limit.ROOM", sum(needed) / 2)
    found = Costs()
    assert fitting(party, sizes, 2048, found)[:1] == [("polynomial", True, False)]
    assert ("polynomial", True, True) in found.left_out


def test_what_is_linear_is_not_foretold_as_square() -> None:
    found, call = Costs(), int
    for party in (Ours("elu"), Ours("softmax")):
        for tokens in (100, 1000):
            flops = party.flops(SIZES, tokens, True)
            assert flops is not None
            found.flops[party.name, True, tokens] = flops
    for name in ("elu", "softmax"):
        way = (name, True, False)
        late = too_long(Job(way, 1000, call), {(way, 100): LONGEST / 50}, found)
        assert late == (name == "softmax")


@pytest.mark.parametrize("kind", ["speed", "memory", "decode"])
def test_lengths_beyond_any_memory(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    option = "--positions" if kind == "decode" else "--lengths"
    start = f"bench {kind} --quick --mechanisms elu --heads 1 --head-dim 8 --rounds 1 {option}"
    code, out, err = run(f"{start} 16 100000000000", capsys)
    assert (code, err) == (0, "")
    assert "more than 0.8 GB" in " ".join(out.split())
    code, out, err = run(f"{start} 10000000000 100000000000", capsys)
    assert (code, out) == (2, "")
    assert "10000000000 100000000000: all are left out from" in err
    assert err.count("\n") == 1


def test_exact_attention_always_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Performer, "installed", lambda: False)
    assert [each.name for each in parties.contenders(["favor"])] == ["softmax", "favor"]
    assert [each.name for each in parties.contenders(["softmax"])] == ["softmax"]
    everyone = [each.name for each in parties.contenders(())]
    assert everyone[:2] == ["softmax", Matrix.name]
    assert set(MECHANISMS) < set(everyone)
    with pytest.raises(ValueError, match="no option 'fetures'"):
        parties.contenders(["favor:fetures=3"])


@pytest.mark.parametrize("causal", [False, True])
def test_the_matrix_is_exact_attention(causal: bool) -> None:
    q, k, v, _ = SIZES.inputs(11)
    exact = (q.double() @ k.double().mT / math.sqrt(8)).masked_fill(
        torch.ones(11, 11).triu(1).bool() if causal else torch.zeros(11, 11).bool(), -math.inf
    )
    wanted = (exact.softmax(-1) @ v.double()).float()
    for party in (Matrix(), Ours("softmax")):
        _, attend = party.create(SIZES, 11)
        torch.testing.assert_close(attend(q, k, v, causal), wanted, atol=1e-5, rtol=1e-5)


PEER = """
import torch
class FastAttention(torch.nn.Module):
    def __init__(self, dim_heads, nb_features, causal):
        super().__init__()
        self.given = (dim_heads, nb_features, causal)
        print("unable to import cuda code")
    def forward(self, q, k, v):
        return v.cumsum(2) if self.given[2] else v.sum(2, keepdim=True).expand_as(v)
"""


def test_a_peer_takes_part_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "performer_pytorch.py").write_text(PEER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "performer_pytorch", sys)  # as it was again afterwards
    del sys.modules["performer_pytorch"]
    assert Performer.installed()
    assert Performer().name in [each.name for each in parties.contenders(())]
    named = [each.name for each in parties.contenders(["favor"])]
    assert named == ["softmax", Performer().name, "favor"]
    module, attend = Performer(features=32).create(SIZES, 5)
    assert [each.given for each in module.children()] == [(8, 32, False), (8, 32, True)]
    q, k, v, _ = SIZES.inputs(5)
    assert torch.equal(attend(q, k, v, True), v.cumsum(2))
    found = measure_speed([Performer(32)], SMALL)
    assert set(found.values[Performer(32).name, True, True]) == {16, 32, 48}
    assert capsys.readouterr().out == ""
    # a state for each token is kept for gradients alone
    sizes = [Performer(32).floats(SIZES, 5, *way) for way in ((True, True), (True, False))]
    assert sizes == [5 * 32 * 8, 5 * 32]


# Passes


def test_backward_gives_the_gradients() -> None:
    party = Ours("synthesizer")
    module, attend = party.create(SIZES, 5)
    leaves = list(module.parameters())
    q, k, v, gradient = SIZES.inputs(5)
    found = pass_of(attend, [q, k, v, gradient], leaves, True, True)()
    assert isinstance(found, tuple)
    v = v.clone().requires_grad_()
    (attend(q, k, v, True) * gradient).sum().backward()
    torch.testing.assert_close(found[2], v.grad)
    assert len(found) == 3 + len(leaves)
    assert any(each is not None and bool(each.abs().sum() > 0) for each in found[3:])
    out = pass_of(attend, [q, k, v, gradient], leaves, True, False)()
    assert isinstance(out, Tensor)
    assert not out.requires_grad


def test_speed_measures_every_way_and_leaves_threads_alone() -> None:
    before = torch.get_num_threads()
    found = measure_speed([Ours("softmax"), Ours("linformer")], SMALL)
    assert torch.get_num_threads() == before
    ways = {("softmax", c, b) for c in (True, False) for b in (True, False)}
    assert set(found.values) == ways | {("linformer", False, b) for b in (True, False)}
    for points in found.values.values():
        assert set(points) == {16, 32, 48}
        assert all(0 < each.ends[0] <= each.value <= each.ends[1] for each in points.values())
    assert found.peak > 1e6


# Memory


@dataclass(frozen=True)
class Hog(Contender):
    """Holds so many megabytes for a moment, all of them written to."""

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


def test_peak_memory_is_what_was_held_whatever_ran_before() -> None:
    way, sizes = ("hog", False, False), Sizes(1, 8)
    for megabytes in (200, 20, 100):
        taken = peak_bytes(Hog(megabytes), way, sizes, 128, 1) / 1e6
        assert taken == pytest.approx(megabytes, abs=4)


def test_memory_by_length() -> None:
    settings = CostSettings(lengths=(512, 1024), heads=1, head_dim=8)
    found = measure_memory([Matrix(), Ours("softmax")], settings)
    whole = found.values[Matrix.name, False, False]
    assert whole[1024].value >= 4e6  # at least the matrix
    assert whole[1024].value > 2.5 * whole[512].value
    assert found.values["softmax", False, False][1024].value < 2e6


@dataclass(frozen=True)
class Crash(Hog):
    def create(self, sizes: Sizes, tokens: int) -> tuple[nn.Module, Attend]:
        del sizes, tokens
        os._exit(9)


def test_a_process_that_dies_is_one_line() -> None:
    with pytest.raises(ValueError, match=r"hog at 128 tokens was ended .*exit code 9"):
        peak_bytes(Crash(1), ("hog", False, False), Sizes(1, 8), 128, 1)


@pytest.mark.skipif(not compiled.status().active, reason=compiled.status().reason)
@pytest.mark.parametrize("name", ["bigbird", "favor"])
def test_memory_that_kernels_in_c_work_in(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = torch.randn(3, 1, 2, 300, 16)
    call = partial(attnlab.attention, q, k, v, name, causal=True)
    with costs.one_thread():
        call()
        compiled.most_scratch()
        call()
        scratch, again = compiled.most_scratch(), compiled.most_scratch()
        found = costs.peak_bytes(call)
        monkeypatch.setattr(costs, "most_scratch", int)
        without = costs.peak_bytes(call)
    assert scratch > 4 * 16 * 16
    assert again == 0  # nothing is held between calls
    assert without < found <= without + scratch


@pytest.mark.parametrize("name", ["bigbird", "favor"])
def test_memory_agrees_with_what_a_process_had_resident(name: str) -> None:
    sizes, tokens = Sizes(4, 64), 16_384
    party = next(each for each in parties.contenders([name]) if each.name == name)
    resident = peak_bytes(party, (name, False, False), sizes, tokens, 1)
    q, k, v, _ = sizes.inputs(tokens)
    _, attend = party.create(sizes, tokens)
    counted = costs.peak_bytes(lambda: attend(q, k, v, False))
    assert counted == pytest.approx(resident, rel=0.25)


# Decoding


@pytest.mark.parametrize("spec", ["softmax", "elu", "favor:features=16", "window:window=4"])
def test_a_step_is_the_last_row_of_a_forward(spec: str) -> None:
    with torch.no_grad():
        decoder = Decoder.after(Ours(spec), SIZES, tokens=9, room=3)
        _, k, v, _ = SIZES.inputs(9)
        q_new, k_new, v_new = decoder.token
        found = decoder.step()
        mechanism = decoder.mechanism
        keys, values = torch.cat([k, k_new], 2), torch.cat([v, v_new], 2)
        queries = torch.cat([torch.zeros_like(k), q_new], 2)
        whole = mechanism(queries, keys, values, Mask(causal=True))
    torch.testing.assert_close(found, whole[:, :, -1:], atol=1e-5, rtol=1e-5)


def test_a_step_writes_over_the_state_before_it() -> None:
    """What is measured is what the generator does: sums are updated in place."""
    decoder = Decoder.after(Ours("elu"), SIZES, tokens=9, room=3)
    before = decoder.state
    assert isinstance(before, KernelState)
    with torch.no_grad():
        decoder.step()
        if compiled.status().active:
            assert isinstance(decoder.state, KernelState)
            assert decoder.state.sums.data_ptr() == before.sums.data_ptr()
        with pytest.raises(ValueError, match="overwritten"):
            decoder.mechanism.read(decoder.token[0], before, 9)


def test_states_are_as_large_as_they_must_be() -> None:
    settings = DecodeSettings(positions=(5, 50), heads=2, head_dim=8, rounds=1)
    found = measure_decoding([Ours("softmax"), Ours("favor:features=16")], settings)
    assert found.state_bytes["softmax"] == {5: 2 * 2 * 5 * 8 * 4, 50: 2 * 2 * 50 * 8 * 4}
    sums = 2 * 16 * (8 + 1) * 4 + 2 * 16 * 4
    assert found.state_bytes["favor:features=16"] == {5: sums, 50: sums}
    section = decode_section(found, settings)
    assert "What is kept never grows: favor:features=16." in section.findings
    assert len(section.measurements) == 4


# Exponents and crossovers of known curves


def curve(
    scale: float, power: float, lengths: tuple[int, ...] = (100, 200, 400)
) -> dict[int, Estimate]:
    return {n: Estimate(scale * n**power) for n in lengths}


def test_exponents_of_powers() -> None:
    slope = fitted(curve(3, 1.5))
    assert slope is not None
    assert slope.value == pytest.approx(1.5)
    assert slope.ends[1] - slope.ends[0] < 1e-6
    assert fitted({100: Estimate(1.0), 200: Estimate(0.0), 400: Estimate(0.0)}) is None
    assert fitted(curve(1, 1), smallest=1e9) is None


def test_crossovers() -> None:
    exact = curve(1, 2)
    meets = crossover(curve(250, 1), exact)
    assert meets.tokens == pytest.approx(250)
    assert meets.sure
    assert str(meets) == "250"
    assert crossover(curve(50, 1), exact) == Crossover(0, True)
    far = crossover(curve(1500, 1), exact)
    assert far.tokens == pytest.approx(1500)
    assert not far.sure
    assert str(far) == "(1,500)"
    noisy = {n: Estimate(0.9 * n**2, 0.5 * n**2, 1.1 * n**2) for n in (100, 200, 400)}
    assert str(crossover(noisy, exact)) == "alike"
    assert str(crossover(curve(2, 2), exact)) == "never"
    assert str(crossover(curve(0.001, 3), curve(1, 1, (50,)))) == "never"  # no length in common
    # fast, then slow, then fast: only the last change counts
    again = {100: Estimate(1.0), 200: Estimate(80_000.0), 400: Estimate(80_000.0)}
    assert crossover(again, exact).tokens > 200


def known_costs() -> Costs:
    found = Costs(peak=1e9)
    for causal in (True, False):
        for backward in (True, False):
            found.values["softmax", causal, backward] = curve(1e-6, 2)
            found.values["linear", causal, backward] = curve(2e-4, 1)
            found.values["slow", causal, backward] = curve(4e-6, 2)
            found.flops["softmax", causal, 400] = 4e7
    found.left_out["slow", True, False] = "from 800 tokens on, where it would take gigabytes"
    return found


def test_a_section_of_known_costs() -> None:
    settings = CostSettings(lengths=(100, 200, 400))
    section = cost_section(known_costs(), SPEED, settings)
    assert section.findings[0] == (
        "Causal, forward, 400 tokens: faster than softmax are linear 2 times."
    )
    assert section.findings[-2:] == [
        "Grows about linearly with the number of tokens: linear.",
        "Grows faster than that, in one form at least: softmax and slow.",
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


def test_everywhere_is_what_was_measured() -> None:
    found = Costs(peak=1e9)
    found.values = {("softmax", True, False): curve(2, 2), ("fast", True, False): curve(1, 1)}
    section = cost_section(found, SPEED, CostSettings(lengths=(100, 200, 400)))
    assert section.advice == [
        "Causal, forward, this machine: softmax is beaten by fast at all lengths from 100 on."
    ]


def test_where_exact_attention_is_fastest_it_says_so() -> None:
    found = Costs(peak=1e9)
    found.values = {("softmax", True, False): curve(1, 1), ("slow", True, False): curve(2, 1)}
    section = cost_section(found, SPEED, CostSettings(lengths=(100, 200, 400)))
    assert section.advice == [
        "Causal, forward, this machine: up to 400 tokens exact softmax is fastest; use it."
    ]
