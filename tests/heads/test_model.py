"""`attnlab heads`: errors match their definition, the choice of mechanisms, the command."""

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
from attnlab.bench._error_bench import UNIFORM
from attnlab.bench._progress import NO_PROGRESS
from attnlab.heads._assignment import (
    choose_mechanisms,
    control_window,
    plan_cost,
    shuffle_plan,
    single_mechanism_plan,
)
from attnlab.heads._measured_heads import CROSS, Head, MeasuredHeads, head_cost
from attnlab.heads._mechanism_errors import (
    UNIFORM_SPEC,
    HeadListener,
    candidate_specs,
    layer_numbers,
    measure_heads,
)
from attnlab.heads._run_heads import measure_model
from attnlab.heads._text_models import HuggingFaceTextReader
from attnlab.huggingface._inspected_models import InspectedHuggingFaceModel
from attnlab.interpret._attention_call import AttentionCall
from attnlab.report import Figure, Heatmap, Table
from tests.support.command_line import run
from tests.support.head_models import (
    INPUTS,
    READERS,
    SMALL,
    SPECS,
    TEXT,
    attnlab_decoder,
    language_model,
    transformers,
)
from tests.support.transformers_with_tokenizers import byte_pairs

# Errors


@pytest.mark.parametrize("name", READERS)
def test_errors_match_the_definition(name: str) -> None:
    """Each head alone, in float64, weights times values, against the head's own output."""
    reader = READERS[name]()
    window = reader.windows(INPUTS, SMALL).choosing[0]
    measured = measure_heads(reader, [window], SPECS, SMALL)
    with torch.no_grad(), attnlab.capture(reader.model, qkv=True) as captured:
        reader.run(window)
    assert len(measured.heads) == sum(len(layer.heads) for layer in captured.layers)
    mask = Mask(causal=reader.causal)
    for head in measured.heads:
        layer = next(layer for layer in captured.layers if layer.name == head.name)
        assert layer.weights is not None
        q, k, v = (select_head(x, layer.groups, head.head) for x in (layer.q, layer.k, layer.v))
        exact = layer.weights[head.head].double() @ v[0, 0]
        for spec in (UNIFORM, "window:window=4", "favor:features=8", "elu", "polynomial"):
            plain, _, option = (UNIFORM_SPEC if spec == UNIFORM else spec).partition(":")
            options: dict[str, Any] = {"beta": layer.scale} if plain not in WITHOUT_SCALE else {}
            if "=" in option:
                key, _, value = option.partition("=")
                options[key] = float(value) if key == "beta" else int(value)
            mechanism = create_mechanism(plain, head_dim=head.size, heads=1, **options).double()
            out = mechanism.weights(q, k, mask)[0, 0] @ v[0, 0]
            expected = float((out - exact).norm() / exact.norm())
            assert head.error(spec) == pytest.approx(expected, rel=2e-3, abs=1e-4), (spec, head)


WITHOUT_SCALE = ("elu", "polynomial")


def select_head(x: Tensor | None, groups: list[int], head: int) -> Tensor:
    """(1, 1, T, D) of one head, float64."""
    assert x is not None
    index = head if len(x) == len(groups) else groups[head]
    return x[index : index + 1].double()[None]


def create_call(q: Tensor, k: Tensor, v: Tensor, causal: bool = True) -> AttentionCall:
    """The call of a layer with softmax attention on these (H, T, D)."""
    softmax = create_mechanism("softmax", head_dim=q.shape[2], heads=len(q), beta=1.0)
    call = AttentionCall("layer", "decoder", "self", list(range(len(q))), len(q), 0, causal=causal)
    call.q, call.k, call.v, call.scale, call.groups = q, k, v, 1.0, list(range(len(q)))
    call.head_outputs = softmax(q[None], k[None], v[None], Mask(causal=causal))[0]
    return call


def planted_heads() -> MeasuredHeads:
    """Head 0 attends to its neighbors, head 1 uniformly, head 2 to one far token."""
    T, D = 64, 16
    positions = torch.arange(T)
    angle = positions[:, None] / torch.tensor([3.0, 6.0, 12.0, 24.0, 48.0, 96.0, 192.0, 384.0])
    near = 2.0 * torch.cat([angle.cos(), angle.sin()], 1)  # (T, D): close positions, close vectors
    generator = torch.Generator().manual_seed(1)
    content = torch.randn(T, D, generator=generator) * 3
    q = torch.stack([near, torch.zeros(T, D), content[positions // 2]])
    k = torch.stack([near, content, content])
    listener = HeadListener(["window:window=16", "elu"], (4,), NO_PROGRESS)
    listener.begin()
    listener.on_call(create_call(q, k, torch.randn(3, T, D, generator=generator)))
    return MeasuredHeads(list(listener.heads.values()), listener.notes)


def test_planted_heads_are_distinguished() -> None:
    measured = planted_heads()
    near, uniform, far = measured.heads
    assert near.error("window:window=16") < 0.1 < near.error(UNIFORM)
    assert uniform.error(UNIFORM) < 1e-5
    assert uniform.error("window:window=16") > 0.3
    assert far.error("window:window=16") > 0.5
    assert choose_mechanisms(measured, 0.1) == {"layer": ["window:window=16", "softmax", "softmax"]}


@pytest.mark.parametrize("causal", [True, False])
def test_low_rank_errors_match_the_singular_values(causal: bool) -> None:
    from attnlab.heads._mechanism_errors import low_rank_errors

    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 30, 5, generator=generator) for _ in range(3))
    call = create_call(q, k, v, causal)
    for head, errors in enumerate(low_rank_errors(call, (1, 7, 29, 30))):
        softmax = create_mechanism("softmax", head_dim=5, heads=1, beta=1.0)
        queries, keys = q[None, head : head + 1].double(), k[None, head : head + 1].double()
        A = softmax.weights(queries, keys, Mask(causal=causal))[0, 0]
        U, s, V = torch.linalg.svd(A)
        for rank, (weights, output) in errors.items():
            near = U[:, :rank] @ torch.diag(s[:rank]) @ V[:rank]
            assert weights == pytest.approx(float((A - near).norm() / A.norm()), abs=1e-7)
            exact = A @ v[head].double()
            expected = float((near @ v[head].double() - exact).norm() / exact.norm())
            assert output == pytest.approx(expected, abs=1e-7)
        assert errors[30] == (0.0, 0.0)


def test_candidate_specs_sweep_open_options() -> None:
    assert "window:window=16" in SPECS
    assert "bigbird:block=4" in SPECS
    assert "bigbird:block=4,window_blocks=9,random_blocks=0" in SPECS
    assert "favor:features=8" in SPECS
    assert "softmax" not in SPECS
    assert candidate_specs(["favor:features=6", "window"], SMALL, 10) == [
        "favor:features=6",
        "window:window=4",  # 16 keys are all of 10 tokens: softmax
    ]
    assert candidate_specs(["favor:orthogonal=false"], SMALL, 48) == [
        "favor:orthogonal=false,features=8"
    ]
    with pytest.raises(ValueError, match="has learned parameters"):
        candidate_specs(["linformer"], SMALL, 48)
    with pytest.raises(ValueError, match="based:feature_dim=3: has learned parameters"):
        candidate_specs(["based:feature_dim=3"], SMALL, 48)
    with pytest.raises(ValueError, match="name one mechanism"):
        candidate_specs(["2*elu+1*softmax"], SMALL, 48)
    with pytest.raises(ValueError, match="the heads already use it"):
        candidate_specs(["softmax"], SMALL, 48)


def test_error_names_layers_that_cannot_be_compared() -> None:
    sliding = transformers.MistralConfig(
        vocab_size=320, hidden_size=24, intermediate_size=40, num_hidden_layers=1,
        num_attention_heads=6, num_key_value_heads=2, sliding_window=8,
    )  # fmt: skip
    model = transformers.MistralForCausalLM(sliding).eval()
    reader = HuggingFaceTextReader(InspectedHuggingFaceModel(model, byte_pairs(), "mistral"))
    with pytest.raises(ValueError, match=r"no head could be measured.*more than causal"):
        measure_heads(reader, reader.windows(INPUTS, SMALL).choosing, SPECS, SMALL)


def test_layers_have_their_numbers_in_the_model() -> None:
    """Layers that are left out count too: text, maps, JSON and module names agree."""
    config = transformers.Gemma3TextConfig(
        vocab_size=320, hidden_size=24, intermediate_size=40, num_hidden_layers=4,
        num_attention_heads=6, num_key_value_heads=2, head_dim=4, sliding_window=8,
        layer_types=["sliding_attention", "full_attention"] * 2,
    )  # fmt: skip
    model = transformers.Gemma3ForCausalLM(config).eval()
    reader = HuggingFaceTextReader(InspectedHuggingFaceModel(model, byte_pairs(), "gemma"))
    section = measure_model(reader, TEXT, SMALL)
    rows = {(row["layer"], row["name"]) for row in section.measurements if "layer" in row}
    assert rows == {(n, f"model.layers.{n}.self_attn") for n in (1, 3)}
    (layers,) = [p for p in section.blocks if isinstance(p, Table) and "each layer" in p.title]
    assert {row[0] for row in layers.rows} == {"1", "3"}
    maps = [p.plot for p in section.blocks if isinstance(p, Figure) and isinstance(p.plot, Heatmap)]
    assert {tuple(heatmap.rows) for heatmap in maps} == {("1", "3")}


def test_layer_numbers_come_from_names_or_order() -> None:
    assert layer_numbers(["layers.1.attn", "layers.3.attn"]) == {
        "layers.1.attn": 1, "layers.3.attn": 3,
    }  # fmt: skip
    for names in (["a.0.b.0", "a.0.b.2"], ["text.3.attn2", "image.3.attn2"], ["layers.4", "copy"]):
        assert list(layer_numbers(names).values()) == [0, 1]


# The choice


def create_measured(errors: list[dict[str, float]], tokens: int = 512) -> MeasuredHeads:
    heads = [
        Head(
            0, "a", i, 64, {spec: [error] for spec, error in by_spec.items()}, causal=True,
            lengths=[(tokens, tokens)],
        )
        for i, by_spec in enumerate(errors)
    ]  # fmt: skip
    return MeasuredHeads(heads)


def test_the_cheapest_mechanism_within_the_tolerance_is_chosen() -> None:
    measured = create_measured(
        [
            {UNIFORM: 0.0, "window:window=64": 0.01, "window:window=32": 0.09, "elu": 0.2},
            {UNIFORM: 0.0, "window:window=64": 0.01, "window:window=32": 0.11, "elu": 0.2},
            {UNIFORM: 0.0, "window:window=64": 0.5, "window:window=32": 0.5, "elu": 0.5},
            {UNIFORM: 0.5, "hard": 0.0, "polynomial": 0.0, "elu": 0.2},  # as expensive as softmax
        ]
    )
    assert choose_mechanisms(measured, 0.1)["a"] == [
        "window:window=32", "window:window=64", "softmax", "softmax",
    ]  # fmt: skip
    assert choose_mechanisms(measured, 0.2)["a"][3] == "elu"
    # N^2/2 against N W of 512 tokens
    fraction = head_cost("window:window=32", 64, 512, 512, True) / head_cost(
        "softmax", 64, 512, 512, True
    )
    assert fraction == 32 / 256
    # a causal query sees its own block and half of the others around: 2 + 1 + 3 of 16 keys
    fraction = head_cost("bigbird:block=16", 64, 512, 512, True) / head_cost(
        "softmax", 64, 512, 512, True
    )
    assert fraction == 6 * 16 / 256
    fraction = head_cost("bigbird:block=16", 64, 512, 512, False) / head_cost(
        "softmax", 64, 512, 512, False
    )
    assert fraction == 7 * 16 / 512
    # 20 queries and 80 keys: each pair once, or sums over keys that each query reads
    assert head_cost("softmax", 8, 20, 80, False) == 4 * 20 * 80 * 8
    assert head_cost("elu", 8, 20, 80, False) == 4 * (20 + 80) / 2 * 8 * 8
    plan = choose_mechanisms(measured, 0.1)
    assert plan_cost(plan, measured) == pytest.approx((32 / 256 + 64 / 256 + 2) / 4)


def test_control_plans() -> None:
    plan = {
        "a": ["softmax", "elu", "window:window=4"],
        "b": ["softmax"] * 3,
        "cross": ["elu", "softmax"],
    }
    errors_by_spec = {"window:window=4": [0.1], "elu": [0.1]}
    heads = [Head(0, layer, head, 8, errors_by_spec) for layer in "ab" for head in range(3)]
    heads += [Head(2, "cross", head, 8, {"elu": [0.1]}, part=CROSS) for head in range(2)]
    measured = MeasuredHeads(heads)
    shuffled_plans = [shuffle_plan(plan, measured, seed) for seed in range(5)]
    for other in shuffled_plans:
        assert sorted(chain(other["a"], other["b"])) == sorted(chain(plan["a"], plan["b"]))
        assert [len(specs) for specs in other.values()] == [3, 3, 2]
        assert sorted(other["cross"]) == ["elu", "softmax"]  # windows have no cross-attention
    assert len({str(other) for other in shuffled_plans}) > 1
    assert single_mechanism_plan(measured, "elu") == {
        "a": ["elu"] * 3,
        "b": ["elu"] * 3,
        "cross": ["elu"] * 2,
    }
    assert single_mechanism_plan(measured, "window:window=4")["cross"] == ["softmax"] * 2
    assert single_mechanism_plan(measured, UNIFORM_SPEC)["cross"] == [UNIFORM_SPEC] * 2
    errors = {spec: [0.1] for spec in SPECS}
    for tokens, expected in ((48, "window:window=16"), (31, "window:window=4")):
        one_head = MeasuredHeads([Head(0, "a", 0, 8, errors, lengths=[(tokens, tokens)])])
        assert control_window(plan, one_head, SPECS) == "window:window=4"
        assert control_window({"a": ["softmax"]}, one_head, SPECS) == expected
        assert control_window(plan, one_head, ["elu"]) is None


# The report and the command


@pytest.mark.parametrize("name", READERS)
def test_report_names_the_cheapest_mechanism_of_each_head(name: str) -> None:
    section = measure_model(READERS[name](), TEXT, SMALL)
    losses = next(
        p for p in section.blocks if isinstance(p, Table) and "not used to choose" in p.title
    )
    assert losses.rows[0][0] == "as it is"
    heads = [row for row in section.measurements if "chosen" in row]
    by_head: dict[Any, list[Any]] = {}
    for row in heads:
        by_head.setdefault((row["name"], row["head"]), []).append(row)
    for rows in by_head.values():
        (choice,) = [row for row in rows if row["chosen"]]
        assert choice["error"] <= SMALL.tolerance
        cheaper = [
            row for row in rows
            if row["error"] <= SMALL.tolerance and row["cost"] < choice["cost"]
        ]  # fmt: skip
        assert [row["mechanism"] for row in cheaper] in ([], [UNIFORM])
    assert 2 <= len(section.findings) <= 3
    ranked = [row["rank"] for row in section.measurements if "rank" in row]
    assert set(ranked) == {2, 200}


def test_the_closest_mechanism_is_cheaper_than_softmax() -> None:
    """A mechanism as expensive as softmax may be closer, and is in the table."""
    section = measure_model(language_model(), TEXT, replace(SMALL, tolerance=1e-9, windows=1))
    rows: list[Any] = [row for row in section.measurements if "chosen" in row]
    rows = [row for row in rows if row["mechanism"] not in (UNIFORM, "softmax")]
    cheaper = [row for row in rows if row["cost"] < 1]
    assert len(cheaper) < len(rows)
    best = min(cheaper, key=lambda row: row["error"])
    sentence = f" tokens. The closest is {best['mechanism']}, with an error of "
    assert sentence in section.findings[0]
    assert isinstance(section.blocks[0], Figure)
    assert section.blocks[0].note.endswith("mean over 1 window of 48 tokens.")


def test_command_writes_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader = language_model()
    reader.model.save_pretrained(tmp_path / "model")  # type: ignore[operator]
    byte_pairs().save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text(TEXT)
    files = " ".join(f"--{kind} {tmp_path / kind}.{kind}" for kind in ("json", "html", "markdown"))
    code, out, err = run(
        f"heads {tmp_path / 'model'} --text {tmp_path / 'text.txt'} --quick "
        f"--tokens 40 --windows 1 --window 4 --tolerance 0.4 --mechanisms window elu {files}",
        capsys,
    )
    assert code == 0, err
    assert "which mechanism reproduces each head" in out
    report = json.loads((tmp_path / "json.json").read_text())
    (section,) = report["sections"]
    assert section["name"] == "heads"
    assert section["settings"]["tokens"] == 40
    assert section["settings"]["mechanisms"] == ["window:window=4", "elu"]
    page = (tmp_path / "html.html").read_text()
    assert "The cheapest mechanism of each head" in page
    assert "softmax" in (tmp_path / "markdown.markdown").read_text()


def test_a_model_folder_of_attnlab_is_measured(tmp_path: Path) -> None:
    reader = attnlab_decoder()
    reader.inspected.model.save_pretrained(tmp_path)
    reader.inspected.tokenizer.save(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    section = measure_model(tmp_path, tmp_path / "text.txt", SMALL, mechanisms=["window"])
    assert section.settings["measure"] == "next-token loss"
    assert {row["name"] for row in section.measurements if "name" in row} == {
        "stack.blocks.0.attention",
        "stack.blocks.1.attention",
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--text x.txt", ["MODEL"]),
        ("x", ["--text FILE"]),
        ("x --text x.txt --norms 2", ["--norms"]),
        ("x --text x.txt --images x", ["--text and --images", "one of them"]),
        ("x --text nothing.txt", ["nothing.txt", "does not exist"]),
        ("x --text x.txt --features 3", ["--features 3: give even numbers"]),
        ("x --text x.txt --windows 0", ["--windows 0: give 1 or more"]),
    ],
)
def test_mistakes_are_reported_in_one_line(
    arguments: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(f"heads {arguments}", capsys)
    assert code == 2
    assert err.count("\n") == 1
    for word in expected:
        assert word in err
