"""Converted models: what training gains, where they open, what a kill leaves, what is refused."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import attnlab
from attnlab.convert import ConvertSettings, _session, convert
from attnlab.convert._generation_costs import generation_costs
from attnlab.convert._low_rank import SCALE, LowRank, add_adapters, merge_adapters
from attnlab.convert._plan import join_heads, parse_layers, plan_heads
from attnlab.convert._replace_layers import replace_layers
from attnlab.convert._session import WORK
from attnlab.convert._source import open_source, read_texts
from attnlab.convert._stages import Adapters, Transfer, block_of
from attnlab.generate import generate
from attnlab.huggingface import export_run
from attnlab.layers import MultiHead
from attnlab.models import Decoder
from attnlab.report import Report, Section, read_report, to_json
from attnlab.run_folder import StartMode
from attnlab.tasks.language import load_language, write
from attnlab.tasks.language.kind import CONVERSION
from attnlab.training import InterruptedTraining
from tests.support.command_line import run
from tests.support.importable_models import V, tiny, transformers, write_word_tokenizer

WINDOW = "hedgehog_window:window=3"
FEW = ConvertSettings(steps=8, adapters=0.5, tokens=24, texts=3, lengths=(), save_every=2)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny models of two shapes, and a text of their words."""
    folder = tmp_path_factory.mktemp("convert")
    for case in ("llama", "gpt2"):
        tiny(case).save_pretrained(folder / case)
        write_word_tokenizer(folder / case)
    words = random.Random(0)
    numbers = (min(words.choices(range(V - 3), k=3)) for _ in range(3000))  # some are frequent
    text = " ".join(f"w{number}" for number in numbers)
    (folder / "text.txt").write_text(text)
    return folder


@pytest.fixture(scope="module")
def converted(here: Path) -> dict[str, tuple[Path, Report]]:
    made = {}
    for case, layers in (("llama", "1-2"), ("gpt2", "0,1")):
        out = here / f"{case}-converted"
        settings = replace(FEW, control=True, lengths=(32, 300))
        report = convert(
            here / case, here / "text.txt", out=out, attention=WINDOW, layers=layers,
            settings=settings, quiet=True,
        )  # fmt: skip
        made[case] = out, report
    return made


def ids(tokens: int = 21) -> torch.Tensor:
    return torch.randint(3, V, (2, tokens), generator=torch.Generator().manual_seed(2))


def tensors(model: Any) -> dict[str, torch.Tensor]:
    return dict(model.state_dict())


@pytest.mark.parametrize("case", ["llama", "gpt2"])
def test_the_run_opens_everywhere(
    case: str, converted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    out, _ = converted[case]
    model, _, config = load_language(out)
    assert isinstance(model, Decoder)
    assert not (out / WORK).exists()
    assert set(config["task"]["converted"].values()) == {WINDOW}
    used = [spec for spec in model.config.attention if spec == WINDOW]
    assert len(used) == 2
    assert write(out, ["w1 w2"], new_tokens=5, stop=False)[0][0]
    with torch.no_grad(), attnlab.capture(model) as seen:
        expected = model(ids())
    assert [layer.mechanism for layer in seen.layers].count("hedgehog_window") == 2
    exported = export_run(out, tmp_path / "exported")
    assert exported.needs_attnlab
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "exported", trust_remote_code=True
    ).eval()
    torch.testing.assert_close(loaded(ids()).logits, expected, atol=1e-5, rtol=1e-5)
    written = generate(model, ids(9).tolist(), new_tokens=4)
    options = {"attention_mask": torch.ones(2, 9), "eos_token_id": None, "pad_token_id": 0}
    again = loaded.generate(ids(9), max_new_tokens=4, do_sample=False, **options)
    assert [row[0].ids for row in written] == again[:, 9:].tolist()


@pytest.mark.parametrize("case", ["llama", "gpt2"])
def test_only_the_converted_layers_change(case: str, here: Path, converted: Any) -> None:
    original, model = Decoder.from_huggingface(here / case), load_language(converted[case][0])[0]
    layers = [1, 2] if case == "llama" else [0, 1]
    changed = {
        name
        for name, tensor in tensors(original).items()
        if not torch.equal(tensor, tensors(model)[name])
    }
    assert changed == {
        f"stack.blocks.{layer}.attention.{part}.weight"
        for layer in layers
        for part in ("project", "out")
    }
    new = set(tensors(model)) - set(tensors(original))
    assert new == {
        f"stack.blocks.{layer}.attention.mechanism.{name}"
        for layer in layers
        for name in ("directions", "factor")
    }


def test_the_first_stage_lowers_the_error_of_every_layer(here: Path, tmp_path: Path) -> None:
    report = convert(
        here / "llama", here / "text.txt", out=tmp_path / "out", attention=WINDOW,
        settings=replace(FEW, steps=20, adapters=0.0, learning_rate=0.1), quiet=True,
    )  # fmt: skip
    rows: Any = report.sections[0].measurements
    errors = [row for row in rows if "error" in row]
    before, after = (
        {row["layer"]: row["error"] for row in errors if row["model"] == name}
        for name in ("replaced, not trained", "after attention transfer")
    )
    assert list(before) == [0, 1, 2]
    for layer, error in before.items():
        assert after[layer] < 0.95 * error, (layer, error, after[layer])
    assert not [row for row in rows if row.get("model") == "after adapters"]


def test_the_report_has_every_loss_and_cost(converted: Any) -> None:
    for case, (out, report) in converted.items():
        section = report.sections[0]
        assert to_json(read_report(out / CONVERSION)) == to_json(report)
        assert "<html" in (out / "convert.html").read_text()
        rows: Any = section.measurements
        names = list(dict.fromkeys(row["model"] for row in rows if "loss" in row))
        assert names == [
            "original", "replaced, not trained", "random features, not trained",
            "adapters around random features", "after attention transfer", "after adapters",
        ]  # fmt: skip
        losses = [row for row in rows if "loss" in row]
        assert all(sum(row["model"] == name for row in losses) == 3 for name in names)
        costs = {(r["model"], r["tokens"]): r["bytes"] for r in rows if "bytes" in r}
        if case == "llama":  # gpt2 reads 32 tokens only
            grown = [costs[name, 300] - costs[name, 32] for name in ("original", "converted")]
            assert 0 < grown[1] < grown[0] / 2  # two layers of three do not grow
        assert {r["stage"]: r["steps"] for r in rows if "stage" in r} == {
            "control": 4, "transfer": 4, "adapters": 4,
        }  # fmt: skip
        final = [r["loss"] for r in rows if r.get("model") == "after adapters"]
        model = load_language(out)[0]
        assert isinstance(model, Decoder)
        assert f"{sum(final) / 3:.4f} after training" in section.findings[0]
        assert "control" in section.findings[1]
        lines = (out / "metrics.jsonl").read_text().splitlines()
        steps = [json.loads(line)["step"] for line in lines]
        assert steps == list(range(1, 9))


def test_adapters_merge_exactly_and_leave_the_original_alone(here: Path) -> None:
    original = Decoder.from_huggingface(here / "llama").requires_grad_(False)
    before = {name: x.clone() for name, x in tensors(original).items()}
    model = replace_layers(original, {1: "softmax"})
    layer = block_of(model, 1).attention
    parts = add_adapters(layer, 2)
    torch.testing.assert_close(model(ids()), original(ids()), atol=0, rtol=0)
    generator = torch.Generator().manual_seed(0)
    for part in parts:
        part.up.data.normal_(generator=generator)
    with torch.no_grad():
        expected = model(ids())
        assert not torch.allclose(expected, original(ids()))
        low = parts[0]
        rows = slice(layer.sizes[0], layer.sizes[0] + layer.sizes[1])  # those of the keys
        change = SCALE * low.up[rows] @ low.down[1]
        wanted = before["stack.blocks.1.attention.project.weight"][rows] + change
        merge_adapters(layer)
        torch.testing.assert_close(layer.project.weight[rows], wanted)
        assert torch.equal(model(ids()), expected)
    assert not any(isinstance(module, LowRank) for module in model.modules())
    assert set(tensors(model)) == set(before)
    assert all(torch.equal(x, before[name]) for name, x in tensors(original).items())


def test_a_stopped_conversion_resumes_to_the_same_weights(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops in each stage and while the run is written."""
    options: Any = {"attention": WINDOW, "layers": "0,2", "settings": FEW, "quiet": True}
    whole, out = tmp_path / "whole", tmp_path / "out"
    convert(here / "llama", here / "text.txt", out=whole, **options)
    stops: list[tuple[Any, str, int]] = [
        (Transfer, "loss", 3), (Adapters, "loss", 3),
        (_session, "save_tensors", 1),
    ]  # fmt: skip
    start = StartMode.NEW
    for owner, name, call in stops:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, stopping(getattr(owner, name), call))
            with pytest.raises(KeyboardInterrupt):
                convert(here / "llama", here / "text.txt", out=out, start=start, **options)
        assert not (out / "config.json").exists()
        start = StartMode.RESUME
    with pytest.raises(ValueError, match="unfinished conversion; give --resume"):
        convert(here / "llama", here / "text.txt", out=out, **options)
    other = {**options, "settings": replace(FEW, rank=3)}
    with pytest.raises(ValueError, match="rank 8, not 3; resume with the same settings"):
        convert(here / "llama", here / "text.txt", out=out, start=start, **other)
    report = convert(here / "llama", here / "text.txt", out=out, start=start, **options)
    expected, actual = tensors(load_language(whole)[0]), tensors(load_language(out)[0])
    assert all(torch.equal(actual[name], tensor) for name, tensor in expected.items())
    assert not (out / WORK).exists()
    again = convert(here / "llama", here / "text.txt", out=out, start=start, **options)
    assert to_json(again) == to_json(report)  # it is finished: nothing is computed


def stopping(original: Any, call: int) -> Any:
    count = 0

    def function(*arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == call:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    return function


def test_a_signal_saves_a_checkpoint(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os
    import signal

    loss = Transfer.loss

    def interrupted(self: Transfer, *inputs: Any) -> torch.Tensor:
        os.kill(os.getpid(), signal.SIGTERM)
        return loss(self, *inputs)

    monkeypatch.setattr(Transfer, "loss", interrupted)
    with pytest.raises(InterruptedTraining, match="continue with --resume"):
        convert(
            here / "llama", here / "text.txt", out=tmp_path / "out", layers="0", attention=WINDOW,
            settings=FEW, quiet=True,
        )  # fmt: skip
    assert list((tmp_path / "out" / WORK / "transfer" / "checkpoints").glob("step-*1"))


BAD = {
    "--layers 7": "there is no layer 7; the model has 3, 0 to 2",
    "--layers 2-1": "names no layer",
    "--layers x": "names no layer",
    "--attention gla": "takes gates (log_decay), which a model with softmax does not make",
    "--attention linformer": "choose another",
    "--attention synthesizer": "choose another",
    "--attention fourier:convolution=4": "needs stack.blocks.0.attention.convolution",
    "--attention nothing": "no mechanism 'nothing'",
    "--attention hedgehog_window:width=3": "no option 'width'",
    "--tokens 5000": "no document of 5000 tokens, the longest has",
    "--steps 0": "steps is 0; give 1 or more",
    "--adapters 2": "adapters is 2.0; give a fraction from 0 to 1",
    "--precision half": "precision is 'half'; choose from float32, bfloat16",
    "--heads text.txt": "is not JSON",
    "--text missing.txt": "missing.txt: does not exist",
    "--resume": "start without --resume",
    "--out llama --overwrite": "is the model itself; give another folder",
}


@pytest.mark.parametrize("options", BAD)
def test_what_cannot_be_converted_is_one_line(
    options: str, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(here)
    out = tmp_path / "out"
    usual = {"--text": "text.txt", "--tokens": "24", "--out": str(out)}
    rest = " ".join(f"{name} {x}" for name, x in usual.items() if name not in options)
    code, _, errors = run(f"convert llama {rest} {options}", capsys)
    assert code == 2, errors
    assert BAD[options] in errors
    assert errors.count("\n") == 1
    assert not out.exists()


def test_models_that_are_no_decoders(here: Path, tmp_path: Path) -> None:
    tiny("bert").save_pretrained(tmp_path / "bert")
    write_word_tokenizer(tmp_path / "bert")
    with pytest.raises(ValueError, match="is a model of kind encoder; give a decoder"):
        convert(tmp_path / "bert", here / "text.txt", out=tmp_path / "out", settings=FEW)
    with pytest.raises(ValueError, match="this model reads at most 32"):
        convert(
            here / "gpt2", here / "text.txt", out=tmp_path / "out", settings=replace(FEW, tokens=33)
        )


def heads_file(folder: Path, choice: dict[int, list[str]], kind: str = "heads") -> Path:
    rows: list[dict[str, Any]] = [
        {"layer": layer, "head": head, "mechanism": spec, "chosen": True, "part": "decoder"}
        for layer, specs in choice.items()
        for head, spec in enumerate(specs)
    ]
    report = Report(kind, "made up", [Section("heads", "made up", measurements=rows)])
    (folder / "heads.json").write_text(to_json(report))
    return folder / "heads.json"


def test_head_by_head(here: Path, tmp_path: Path) -> None:
    soft, elu = "softmax", "elu"
    file = heads_file(tmp_path, {0: [soft, elu, elu, elu, soft, soft], 1: [soft] * 6})
    options: Any = {"settings": FEW, "quiet": True, "heads": file}
    with pytest.warns(UserWarning, match="learns nothing, so only adapters are trained"):
        convert(here / "llama", here / "text.txt", out=tmp_path / "as chosen", **options)
    model = load_language(tmp_path / "as chosen")[0]
    assert model.config.attention == ["1*softmax+3*elu+2*softmax", "softmax", "softmax"]
    convert(here / "llama", here / "text.txt", out=tmp_path / "other", attention=WINDOW, **options)
    model = load_language(tmp_path / "other")[0]
    assert model.config.attention[0] == f"1*softmax+3*{WINDOW}+2*softmax"
    layer = block_of(model, 0).attention  # type: ignore[arg-type]
    assert isinstance(layer, MultiHead)
    file = heads_file(tmp_path, {0: [elu]}, "bench")
    with pytest.raises(ValueError, match="is a report of bench; give one of attnlab heads"):
        convert(here / "llama", here / "text.txt", out=tmp_path / "new", heads=file)


def test_texts_begin_as_the_tokenizer_begins_them(here: Path) -> None:
    source = open_source(here / "llama")
    texts = read_texts([here / "text.txt"], [here / "text.txt"], source, FEW)
    for text in (texts.train[0], texts.train[5], texts.held_out[1]):
        assert text.shape == (24,)
        assert text[0] == 1  # <s>


def test_plans() -> None:
    assert parse_layers("all", 4) == [0, 1, 2, 3]
    assert parse_layers(" 3, 0-1 ", 4) == [0, 1, 3]
    assert join_heads(["elu", "elu"]) == "elu"
    with pytest.raises(ValueError, match="head 5 of layer 0, but the model has 2 heads"):
        plan_heads({0: {5: "elu"}}, [0], 2, None, Path("heads.json"))
    with pytest.raises(ValueError, match="needs softmax in every head"):
        plan_heads({0: {0: "softmax"}}, [0], 2, "elu", Path("heads.json"))


def test_costs_are_left_out_where_the_model_reads_no_such_length(here: Path) -> None:
    model = Decoder.from_huggingface(here / "gpt2")  # reads 32 tokens
    (cost,) = generation_costs(model, [2048])
    assert cost.tokens == 32
    assert cost.cache_bytes == 2 * 2 * 32 * 24 * 4  # layers, keys and values, tokens, width
