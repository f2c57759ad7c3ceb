"""Mechanisms on a model's own heads: errors by their definition, the choice, and its check."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import attnlab
from attnlab import Mask, create_mechanism
from attnlab.bench.activations import (
    EVEN,
    Ear,
    Head,
    Measured,
    candidates,
    cost,
    measure_heads,
    redrawn,
)
from attnlab.bench.assigning import (
    Check,
    Outcome,
    check_exchange,
    check_plans,
    choose,
    drawn_anew,
    plan_cost,
    planned,
    shuffled,
    the_same,
    usual_window,
)
from attnlab.bench.error import UNIFORM
from attnlab.bench.model import bench_model
from attnlab.bench.model_words import verdict
from attnlab.bench.progress import SILENT
from attnlab.bench.readers import HuggingFaceReader, OwnReader, Reader
from attnlab.bench.results import Table
from attnlab.bench.settings import ModelSettings
from attnlab.huggingface.calls import Call
from attnlab.looking.huggingface_subjects import HuggingFaceSubject
from attnlab.looking.own_subjects import OwnSubject
from attnlab.mechanisms import MECHANISMS
from attnlab.models import create
from attnlab.tokens import Characters
from tests.commands import run
from tests.test_look_huggingface import byte_pairs, word_pieces

transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")

TEXT = "I wanted to have a party, and bought a cake for it. Happy are those who have a cake. " * 12
SMALL = ModelSettings(
    tokens=48, windows=2, features=(8,), window=(4, 16), block=(4,), ranks=(2, 200), tolerance=0.3
)
SPECS = candidates((), SMALL, 48)


def language_model(**changes: Any) -> Reader:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2}
        heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 320}
        config = transformers.LlamaConfig(**sizes, **heads, **changes)
        model = peaked(transformers.LlamaForCausalLM(config).eval())
    return HuggingFaceReader(HuggingFaceSubject(model, byte_pairs(), "llama"))


def encoder(head: bool) -> Reader:
    kind = transformers.BertForMaskedLM if head else transformers.BertModel
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=18, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
            intermediate_size=30, max_position_embeddings=64,
        )  # fmt: skip
        return HuggingFaceReader(
            HuggingFaceSubject(peaked(kind(config).eval()), word_pieces(), "bert")
        )


def peaked(model: Any) -> Any:
    """With weights far from even."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(6)
    return model


def own_model() -> Reader:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        tokens = Characters.train(TEXT)
        config = {"width": 24, "heads": 3, "layers": 2, "vocabulary": tokens.vocabulary}
        model = create({"model": "decoder", **config, "context": 64}).eval()
        peaked(model)
    return OwnReader(OwnSubject(model, tokens, "own", asked=False))


READERS = {"llama": language_model, "own": own_model, "bert": lambda: encoder(False)}


# Errors


@pytest.mark.parametrize("name", READERS)
def test_errors_are_those_of_the_definition(name: str) -> None:
    """Each head alone, in float64, weights times values; the head's own output is the measure."""
    reader = READERS[name]()
    window = reader.windows(TEXT, SMALL).choosing[0]
    found = measure_heads(reader, [window], SPECS, SMALL)
    with torch.no_grad(), attnlab.capture(reader.model, qkv=True) as seen:
        reader.run(window)
    assert len(found.heads) == sum(len(layer.heads) for layer in seen.layers)
    mask = Mask(causal=reader.causal)
    for head in found.heads:
        layer = next(each for each in seen.layers if each.name == head.name)
        assert layer.weights is not None
        q, k, v = (_one(x, layer.groups, head.head) for x in (layer.q, layer.k, layer.v))
        exact = layer.weights[head.head].double() @ v[0, 0]
        for spec in (UNIFORM, "window:window=4", "favor:features=8", "elu", "polynomial"):
            plain, _, option = (EVEN if spec == UNIFORM else spec).partition(":")
            options: dict[str, Any] = {"beta": layer.scale} if plain not in NO_SCALE else {}
            if "=" in option:
                key, _, value = option.partition("=")
                options[key] = float(value) if key == "beta" else int(value)
            mechanism = create_mechanism(plain, head_dim=head.size, heads=1, **options).double()
            out = mechanism.weights(q, k, mask)[0, 0] @ v[0, 0]
            wanted = float((out - exact).norm() / exact.norm())
            assert head.error(spec) == pytest.approx(wanted, rel=2e-3, abs=1e-4), (spec, head)


NO_SCALE = ("elu", "polynomial")


def _one(x: Tensor | None, groups: list[int], head: int) -> Tensor:
    """(1, 1, T, D) of one head, float64."""
    assert x is not None
    place = head if len(x) == len(groups) else groups[head]
    return x[place : place + 1].double()[None]


def call_of(q: Tensor, k: Tensor, v: Tensor, causal: bool = True) -> Call:
    """As if a layer had softmax attention with these (H, T, D)."""
    softmax = create_mechanism("softmax", head_dim=q.shape[2], heads=len(q), beta=1.0)
    made = Call("layer", "decoder", "self", list(range(len(q))), len(q), 0, causal=causal)
    made.q, made.k, made.v, made.scale, made.groups = q, k, v, 1.0, list(range(len(q)))
    made.given = softmax(q[None], k[None], v[None], Mask(causal=causal))[0]
    return made


def planted() -> Measured:
    """Head 0 looks at its neighbours, head 1 at nothing, head 2 back at one far token."""
    T, D = 64, 16
    at = torch.arange(T)
    angle = at[:, None] / torch.tensor([3.0, 6.0, 12.0, 24.0, 48.0, 96.0, 192.0, 384.0])
    near = 2.0 * torch.cat([angle.cos(), angle.sin()], 1)  # (T, D): close positions, close vectors
    draws = torch.Generator().manual_seed(1)
    content = torch.randn(T, D, generator=draws) * 3
    q = torch.stack([near, torch.zeros(T, D), content[at // 2]])
    k = torch.stack([near, content, content])
    ear = Ear(["window:window=16", "elu"], (4,), SILENT)
    ear.begin()
    ear.hear(call_of(q, k, torch.randn(3, T, D, generator=draws)))
    return Measured(list(ear.heads.values()), ear.notes, T)


def test_planted_heads_are_told_apart() -> None:
    found = planted()
    near, nothing, far = found.heads
    assert near.error("window:window=16") < 0.1 < near.error(UNIFORM)
    assert nothing.error(UNIFORM) < 1e-5
    assert nothing.error("window:window=16") > 0.3
    assert far.error("window:window=16") > 0.5
    assert choose(found, 0.1, causal=True) == {"layer": ["window:window=16", "softmax", "softmax"]}


@pytest.mark.parametrize("causal", [True, False])
def test_the_rank_bound_is_that_of_the_singular_values(causal: bool) -> None:
    from attnlab.bench.activations import rank_errors

    draws = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 30, 5, generator=draws) for _ in range(3))
    call = call_of(q, k, v, causal)
    for head, found in enumerate(rank_errors(call, (1, 7, 29, 30))):
        softmax = create_mechanism("softmax", head_dim=5, heads=1, beta=1.0)
        one, two = q[None, head : head + 1].double(), k[None, head : head + 1].double()
        A = softmax.weights(one, two, Mask(causal=causal))[0, 0]
        U, s, V = torch.linalg.svd(A)
        for rank, (weights, output) in found.items():
            near = U[:, :rank] @ torch.diag(s[:rank]) @ V[:rank]
            assert weights == pytest.approx(float((A - near).norm() / A.norm()), abs=1e-7)
            wanted = A @ v[head].double()
            apart = float((near @ v[head].double() - wanted).norm() / wanted.norm())
            assert output == pytest.approx(apart, abs=1e-7)
        assert found[30] == (0.0, 0.0)


def test_what_is_swept() -> None:
    assert "window:window=16" in SPECS
    assert "bigbird:block=4" in SPECS
    assert "bigbird:block=4,window_blocks=9,random_blocks=0" in SPECS
    assert "favor:features=8" in SPECS
    assert "softmax" not in SPECS
    assert candidates(["favor:features=6", "window"], SMALL, 10) == [
        "favor:features=6",
        "window:window=4",  # 16 keys are all of 10 tokens: softmax
    ]
    assert candidates(["favor:orthogonal=false"], SMALL, 48) == [
        "favor:orthogonal=false,features=8"
    ]
    with pytest.raises(ValueError, match="has learned parameters"):
        candidates(["linformer"], SMALL, 48)
    with pytest.raises(ValueError, match="one mechanism at a time"):
        candidates(["2*elu+1*softmax"], SMALL, 48)
    with pytest.raises(ValueError, match="softmax is what the heads have already"):
        candidates(["softmax"], SMALL, 48)


def test_layers_that_cannot_be_compared_are_named() -> None:
    sliding = transformers.MistralConfig(
        vocab_size=320, hidden_size=24, intermediate_size=40, num_hidden_layers=1,
        num_attention_heads=6, num_key_value_heads=2, sliding_window=8,
    )  # fmt: skip
    model = transformers.MistralForCausalLM(sliding).eval()
    reader = HuggingFaceReader(HuggingFaceSubject(model, byte_pairs(), "mistral"))
    with pytest.raises(ValueError, match=r"no head could be measured.*more than causal"):
        measure_heads(reader, reader.windows(TEXT, SMALL).choosing, SPECS, SMALL)


# The choice


def made(errors: list[dict[str, float]], tokens: int = 512) -> Measured:
    heads = [
        Head(0, "a", i, 64, {spec: [error] for spec, error in each.items()})
        for i, each in enumerate(errors)
    ]
    return Measured(heads, [], tokens)


def test_the_cheapest_within_the_tolerance_is_chosen() -> None:
    found = made(
        [
            {UNIFORM: 0.0, "window:window=64": 0.01, "window:window=32": 0.09, "elu": 0.2},
            {UNIFORM: 0.0, "window:window=64": 0.01, "window:window=32": 0.11, "elu": 0.2},
            {UNIFORM: 0.0, "window:window=64": 0.5, "window:window=32": 0.5, "elu": 0.5},
            {UNIFORM: 0.5, "hard": 0.0, "polynomial": 0.0, "elu": 0.2},  # as dear as softmax
        ]
    )
    assert choose(found, 0.1, causal=True)["a"] == [
        "window:window=32", "window:window=64", "softmax", "softmax",
    ]  # fmt: skip
    assert choose(found, 0.2, causal=True)["a"][3] == "elu"
    # N^2/2 against N W of 512 tokens
    assert cost("window:window=32", 64, 512, True) / cost("softmax", 64, 512, True) == 32 / 256
    # a causal query sees its own block and half of the others around: 2 + 1 + 3 of 16 keys
    share = cost("bigbird:block=16", 64, 512, True) / cost("softmax", 64, 512, True)
    assert share == 6 * 16 / 256
    share = cost("bigbird:block=16", 64, 512, False) / cost("softmax", 64, 512, False)
    assert share == 7 * 16 / 512
    plan = choose(found, 0.1, causal=True)
    assert plan_cost(plan, found, True) == pytest.approx((32 / 256 + 64 / 256 + 2) / 4)


def test_controls_have_the_same_mechanisms() -> None:
    plan = {"a": ["softmax", "elu", "window:window=4"], "b": ["softmax"] * 3}
    dealt = [shuffled(plan, seed) for seed in range(5)]
    for each in dealt:
        assert sorted(chain(*each.values())) == sorted(chain(*plan.values()))
        assert [len(specs) for specs in each.values()] == [3, 3]
    assert len({str(each) for each in dealt}) > 1
    assert the_same(plan, "elu") == {"a": ["elu"] * 3, "b": ["elu"] * 3}
    assert usual_window(plan, SPECS) == "window:window=4"
    assert usual_window({"a": ["softmax"]}, SPECS) == "window:window=16"
    assert usual_window(plan, ["elu"]) is None


# The check


@pytest.mark.parametrize("name", READERS)
def test_a_plan_is_what_the_model_computes(name: str) -> None:
    """Captured under the plan, each head's weights are its mechanism's own."""
    reader = READERS[name]()
    window = reader.windows(TEXT, SMALL).checking[0]
    assert check_exchange(reader, window) < 1e-6
    names = list(measure_heads(reader, [window], ["elu"], SMALL).layers)
    H = len(measure_heads(reader, [window], ["elu"], SMALL).of(names[0]))
    plan = {names[1]: ["window:window=4", EVEN, *["softmax"] * (H - 2)]}
    with torch.no_grad():
        before = reader.run(window)
        with planned(reader.model, plan), attnlab.capture(reader.model) as seen:
            after = reader.run(window)
        assert torch.equal(reader.run(window), before)  # all is as it was
    assert not torch.allclose(before, after, atol=1e-4)
    first, second = (layer.weights for layer in seen.layers)
    assert first is not None
    assert second is not None
    T = window.shape[1]
    at = torch.arange(T)
    far = (at[:, None] - at).abs() >= 4
    assert float(second[0][far].abs().max()) == 0
    allowed = at[:, None] >= at if reader.causal else torch.ones(T, T).bool()
    even = allowed / allowed.sum(1, keepdim=True)
    assert torch.allclose(second[1].float(), even, atol=1e-3)
    assert float((second[2].float() - even).abs().max()) > 0.01


def test_outcomes_are_the_models_own_loss() -> None:
    reader = language_model()
    windows = reader.windows(TEXT, SMALL)
    found = measure_heads(reader, windows.choosing, SPECS, SMALL)
    outcomes = check_plans(reader, windows.checking, found, SPECS, SMALL.tolerance)
    assert [each.name.split(":")[0] for each in outcomes] == [
        "as it is",
        "within 0.15",
        "within 0.3",
        "within 0.6",
        "0.3 on heads by chance",
        "all window",
        "all uniform weights",
    ]
    with torch.no_grad():
        wanted = [float(reader.model(input_ids=ids, labels=ids).loss) for ids in windows.checking]
    assert outcomes[0].scores == pytest.approx(wanted, rel=1e-5)
    assert outcomes[0].cost == 1
    assert outcomes[-1].cost == 0
    assert outcomes[-1].share == 1
    assert outcomes[1].cost >= outcomes[2].cost >= outcomes[3].cost
    assert outcomes[1].scores != outcomes[-1].scores


@pytest.mark.parametrize("name", ["llama", "own"])
@pytest.mark.parametrize("seed", [0, 7])
def test_the_check_has_draws_that_nothing_was_chosen_on(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every layer, of both kinds of models, and others for every seed."""
    made: list[Tensor] = []

    def heard(self: Any, *arguments: Any, **options: Any) -> Tensor:
        made.append(self.get_buffer("draws").clone())
        return forward(self, *arguments, **options)

    kind = MECHANISMS["favor"]
    forward = kind.forward
    monkeypatch.setattr(kind, "forward", heard)
    reader = READERS[name]()
    reader.seed = seed
    windows = reader.windows(TEXT, SMALL)
    measured = measure_heads(reader, windows.choosing[:1], ["favor:features=8"], SMALL)
    chosen_on = len(made)
    plan = the_same(choose(measured, 0.1, True), "favor:features=8")
    Check(reader, windows.checking[:1], measured, SILENT).outcome("all", plan)
    assert chosen_on == len(made) - chosen_on == 2  # two layers each
    choosing, checking = made[:chosen_on], made[chosen_on:]
    for draws in checking:
        assert all(not torch.equal(draws, other) for other in choosing)
    assert not torch.equal(checking[0], checking[1])
    usual = create_mechanism("favor", head_dim=measured.heads[0].size, heads=1, features=8)
    assert torch.equal(choosing[0], usual.get_buffer("draws")) == (seed == 0)


def test_draws_of_ones_own_are_moved_too() -> None:
    assert redrawn("favor:seed=3,orthogonal=false", 4) == "favor:seed=7,orthogonal=false"
    assert redrawn("elu", 4) == "elu"
    plan = {"a": ["elu", "favor:features=8"], "b": ["favor:features=8", "elu"]}
    assert drawn_anew(plan, 0) == {
        "a": ["elu", "favor:features=8,seed=1"],
        "b": ["favor:features=8,seed=2", "elu"],
    }


def told_of(name: str, scores: list[float], control: bool = True) -> Outcome:
    return Outcome(name, scores, [1.0] * len(scores), 0.5, 0.5, 0.1, control)


def test_controls_are_judged() -> None:
    chosen = told_of("within 0.1", [1.0, 1.1, 1.0, 1.1], control=False)
    worse = told_of("all window", [2.0, 2.1, 2.0, 2.2])
    better = told_of("all uniform weights", [0.9, 1.0, 0.9, 1.0])
    unsure = told_of("0.1 on heads by chance", [2.0, 0.9, 1.1, 1.0])
    assert verdict(chosen, [worse]) == ["All controls do worse than what was chosen, as they must."]
    assert verdict(chosen, [worse, better, unsure]) == [
        "A control did no worse than what was chosen (all uniform weights): this text cannot tell "
        "whether the choice is right.",
        "Worse than what was chosen, but not surely so over 4 windows: 0.1 on heads by chance; "
        "more --windows would tell.",
    ]
    assert verdict(chosen, []) == []


def test_a_control_that_is_what_was_chosen_is_left_out() -> None:
    reader, settings = language_model(), replace(SMALL, tolerance=50.0)
    section = bench_model(reader, TEXT, settings, mechanisms=["window:window=4"])
    losses = next(p for p in section.parts if isinstance(p, Table) and "own word" in p.title)
    assert [row[0] for row in losses.rows][-2:] == ["within 100", "all uniform weights"]
    told = [line for line in section.findings if "would be what was chosen" in line]
    assert len(told) == 1
    controls = {row["attention"] for row in section.measurements if row.get("control")}
    assert controls == {"all uniform weights"}


def test_windows_do_not_overlap_and_both_halves_have_some() -> None:
    reader = own_model()
    assert isinstance(reader, OwnReader)
    ids = torch.tensor(reader.encode(TEXT))
    found = reader.windows(TEXT, SMALL)
    assert (len(found.choosing), len(found.checking), found.tokens) == (2, 2, 48)
    places = []
    for window in (*found.choosing, *found.checking):
        starts = [i for i in range(len(ids) - 47) if torch.equal(ids[i : i + 48], window[0])]
        places.append(starts)
    assert all(places)
    short = reader.windows(TEXT[:40], SMALL)
    assert (len(short.choosing), short.tokens) == (1, 20)
    with pytest.raises(ValueError, match="the text has 20 tokens; give one of 32 or more"):
        reader.windows(TEXT[:20], SMALL)


def test_an_encoder_with_a_head_guesses_the_same_tokens_each_time() -> None:
    reader = encoder(head=True)
    assert reader.meaning == "masked"
    window = reader.windows(TEXT, SMALL).checking[0]
    assert window[0, 0] == 2  # [CLS]
    assert window[0, -1] == 3  # [SEP]
    one, two = (float(reader.said(window, number)) for number in (0, 1))
    assert float(reader.said(window, 0)) == one
    assert one != two
    bare = encoder(head=False)
    assert bare.meaning == "vectors"
    said = bare.said(window, 0)
    assert bare.score(said, said) == 0
    assert bare.score(2 * said, said) == pytest.approx(1)


# The whole


@pytest.mark.parametrize("name", READERS)
def test_a_section_says_what_to_use(name: str) -> None:
    section = bench_model(READERS[name](), TEXT, SMALL)
    losses = next(p for p in section.parts if isinstance(p, Table) and "own word" in p.title)
    assert losses.rows[0][0] == "as it is"
    heads = [row for row in section.measurements if "chosen" in row]
    by_head: dict[Any, list[Any]] = {}
    for row in heads:
        by_head.setdefault((row["name"], row["head"]), []).append(row)
    for rows in by_head.values():
        (chosen,) = [row for row in rows if row["chosen"]]
        assert chosen["error"] <= SMALL.tolerance
        cheaper = [
            row for row in rows
            if row["error"] <= SMALL.tolerance and row["cost"] < chosen["cost"]
        ]  # fmt: skip
        assert [row["mechanism"] for row in cheaper] in ([], [UNIFORM])
    assert "".join(section.advice)
    ranked = [row["rank"] for row in section.measurements if "rank" in row]
    assert set(ranked) == {2, 200}


def test_the_command_writes_all_that_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = language_model()
    reader.model.save_pretrained(tmp_path / "model")  # type: ignore[operator]
    byte_pairs().save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text(TEXT)
    files = " ".join(f"--{kind} {tmp_path / kind}.{kind}" for kind in ("json", "html", "markdown"))
    code, out, err = run(
        f"bench error --model {tmp_path / 'model'} --text {tmp_path / 'text.txt'} --quick "
        f"--tokens 40 --windows 1 --window 4 --tolerance 0.4 --mechanisms window elu {files}",
        capsys,
    )
    assert code == 0, err
    assert "which mechanism reproduces each head" in out
    report = json.loads((tmp_path / "json.json").read_text())
    (section,) = report["sections"]
    assert section["name"] == "model"
    assert section["settings"]["tokens"] == 40
    assert section["settings"]["mechanisms"] == ["window:window=4", "elu"]
    page = (tmp_path / "html.html").read_text()
    assert "The cheapest mechanism of each head" in page
    assert "softmax" in (tmp_path / "markdown.markdown").read_text()


def test_a_folder_of_attnlab_is_read(tmp_path: Path) -> None:
    reader = own_model()
    assert isinstance(reader, OwnReader)
    reader.subject.model.save_pretrained(tmp_path)
    reader.subject.tokenizer.save(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    section = bench_model(tmp_path, tmp_path / "text.txt", SMALL, mechanisms=["window"])
    assert section.settings["measure"] == "next-token loss"
    assert {row["name"] for row in section.measurements if "name" in row} == {
        "stack.blocks.0.attention",
        "stack.blocks.1.attention",
    }


def test_of_an_encoder_decoder_the_encoder_is_read() -> None:
    config = transformers.BartConfig(
        vocab_size=320, d_model=24, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=3, decoder_attention_heads=3,
    )  # fmt: skip
    model = peaked(transformers.BartForConditionalGeneration(config).eval())
    reader = HuggingFaceReader(HuggingFaceSubject(model, byte_pairs(), "bart"))
    assert (reader.causal, reader.meaning) == (False, "vectors")
    window = reader.windows(TEXT, SMALL).checking[0]
    with torch.no_grad():
        whole = model(input_ids=window, decoder_input_ids=window[:, :1])
        assert torch.equal(reader.run(window), whole.encoder_last_hidden_state)
    section = bench_model(reader, TEXT, SMALL, mechanisms=["window", "favor"])
    names = {row["name"] for row in section.measurements if "name" in row}
    assert names == {"layers.0.self_attn"}
    assert any("heads of its encoder" in line for line in section.findings)


def test_images_are_refused() -> None:
    config = transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=1, num_attention_heads=3, intermediate_size=32,
        image_size=8, patch_size=4,
    )  # fmt: skip
    model = transformers.ViTModel(config).eval()
    reader = transformers.ViTImageProcessor()
    with pytest.raises(ValueError, match="kind vision; a bench reads texts"):
        HuggingFaceReader(HuggingFaceSubject(model, reader, "vit"))


def test_names_too_long_for_a_terminal_are_letters() -> None:
    from attnlab.charts.plots import Heatmap
    from attnlab.charts.terminal_heatmap import heatmap

    names = ["window:window=64", "softmax"]
    drawn = Heatmap("head", "layer", "z", ["0", "1"], ["0"], [[1, 0]], names=names)
    assert str(heatmap(drawn, width=60)[1]).split() == ["0", "softmax", "window:windo~"]
    lines = [str(line) for line in heatmap(drawn, width=36)]
    assert lines[1].split() == ["0", "b", "a"]
    assert [line.split() for line in lines[3:]] == [["a", names[0]], ["b", names[1]]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--text x.txt", ["--model FOLDER"]),
        ("--model x", ["--text FILE"]),
        ("--model x --text x.txt --norms 2", ["--norms", "without --model"]),
        ("--tolerance 0.2", ["--tolerance", "with --model"]),
        ("--model x --text nothing.txt", ["nothing.txt", "No such file"]),
    ],
)
def test_mistakes_are_one_line(
    arguments: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(f"bench error {arguments}", capsys)
    assert code == 2
    assert err.count("\n") == 1
    for word in words:
        assert word in err
