"""`attnlab heads` on encoder-decoders and image models: it measures and replaces every head."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import attnlab
from attnlab import Mask, create_mechanism
from attnlab.bench._error_bench import UNIFORM
from attnlab.heads._assignment import apply_plan, check_softmax_replacement, single_mechanism_plan
from attnlab.heads._inputs import HeadInputs, LabeledImage, read_images, read_inputs
from attnlab.heads._measured_heads import CROSS
from attnlab.heads._mechanism_errors import UNIFORM_SPEC, measure_heads
from attnlab.heads._model_reader import ModelReader
from attnlab.heads._run_heads import measure_model
from attnlab.heads._settings import HeadSettings
from attnlab.report import Table
from tests.support.command_line import run
from tests.support.head_models import INPUTS, SMALL, TEXT, language_model
from tests.support.head_readers import attnlab_seq2seq, attnlab_vit, bart, vit
from tests.support.transformers_with_tokenizers import byte_pairs

DIGITS = HeadInputs(images="digits")


MODELS: dict[str, tuple[Callable[[], ModelReader], HeadInputs]] = {
    "bart": (bart, INPUTS),
    "own pairs": (attnlab_seq2seq, INPUTS),
    "vit": (vit, DIGITS),
    "own vit": (attnlab_vit, DIGITS),
}


@pytest.mark.parametrize("name", MODELS)
def test_errors_of_every_head_match_the_definition(name: str) -> None:
    """Each head alone, in float64, weights times values, in all parts of the model."""
    create_reader, inputs = MODELS[name]
    reader = create_reader()
    window = reader.windows(inputs, SMALL).choosing[0]
    specs = ["window:window=4", "favor:features=8", "elu"]
    measured = measure_heads(reader, [window], specs, SMALL)
    with torch.no_grad(), attnlab.capture(reader.model, qkv=True) as captured:
        reader.run(window)
    layers = {layer.name: layer for layer in captured.layers if layer.name != "copy"}
    assert len(measured.heads) == sum(len(layer.heads) for layer in layers.values())
    parts = ["encoder", "decoder", CROSS] if "vit" not in name else ["encoder"]
    assert list(measured.parts) == parts
    for head in measured.heads:
        layer = layers[head.name]
        assert layer.weights is not None
        q, k, v = (select_head(x, head.head) for x in (layer.q, layer.k, layer.v))
        exact = layer.weights[head.head].double() @ v[0, 0]
        assert head.causal == (head.part == "decoder")
        assert head.lengths == [(q.shape[2], k.shape[2])]
        supported = specs[1:] if head.part == CROSS else specs
        assert list(head.errors) == [UNIFORM, *supported]
        for spec, options in (
            (UNIFORM, {"beta": 1e-20}),
            ("window:window=4", {"window": 4, "beta": layer.scale}),
            ("favor:features=8", {"features": 8, "beta": layer.scale}),
            ("elu", {}),
        ):
            if spec not in head.errors:
                continue
            plain = "softmax" if spec == UNIFORM else spec.partition(":")[0]
            mechanism = create_mechanism(plain, head_dim=head.size, heads=1, **options).double()
            out = mechanism.weights(q, k, Mask(causal=head.causal))[0, 0] @ v[0, 0]
            expected = float((out - exact).norm() / exact.norm())
            assert head.error(spec) == pytest.approx(expected, rel=2e-3, abs=1e-4), (spec, head)


def select_head(x: Tensor | None, head: int) -> Tensor:
    """(1, 1, T, D), float64."""
    assert x is not None
    return x[head].double()[None, None]


@pytest.mark.parametrize("name", MODELS)
def test_every_head_can_be_replaced(name: str) -> None:
    """Captured under a plan, each head has its mechanism's weights; then the model is restored."""
    create_reader, inputs = MODELS[name]
    reader = create_reader()
    window = reader.windows(inputs, SMALL).checking[0]
    assert check_softmax_replacement(reader, window) < 1e-6
    measured = measure_heads(reader, [window], ["window:window=4", "elu"], SMALL)
    with torch.no_grad():
        before = reader.run(window)
        with (
            apply_plan(reader.model, single_mechanism_plan(measured, UNIFORM_SPEC)),
            attnlab.capture(reader.model) as captured,
        ):
            after = reader.run(window)
        assert torch.equal(reader.run(window), before)
    assert not torch.allclose(before, after, atol=1e-4)
    for layer in captured.layers:
        assert layer.weights is not None
        T, S = layer.weights.shape[1:]
        allowed = torch.ones(T, S).tril() if layer.causal else torch.ones(T, S)
        uniform = (allowed / allowed.sum(1, keepdim=True)).expand(3, T, S)
        assert torch.allclose(layer.weights.float(), uniform, atol=1e-3), layer.name
    windows = single_mechanism_plan(measured, "window:window=4")
    with (
        torch.no_grad(),
        apply_plan(reader.model, windows),
        attnlab.capture(reader.model) as captured,
    ):
        reader.run(window)
    for layer in captured.layers:
        assert layer.weights is not None
        T, S = layer.weights.shape[1:]
        far = (torch.arange(T)[:, None] - torch.arange(S)).abs() >= 4
        assert (float(layer.weights[:, far].abs().max()) == 0) == (layer.kind == "self")


@pytest.mark.parametrize("name", MODELS)
def test_report_has_all_parts_of_the_model(name: str) -> None:
    create_reader, inputs = MODELS[name]
    reader = create_reader()
    options = {"text": None, "images": "digits"} if inputs is DIGITS else {"text": TEXT}
    section = measure_model(reader, settings=SMALL, **options)
    heads = [row for row in section.measurements if "chosen" in row]
    for key in {(row["name"], row["head"]) for row in heads}:
        rows = [row for row in heads if (row["name"], row["head"]) == key]
        (choice,) = [row for row in rows if row["chosen"]]
        assert choice["error"] <= SMALL.tolerance  # type: ignore[operator]
        is_cross = rows[0]["part"] == CROSS
        assert is_cross != any(str(row["mechanism"]).startswith("window") for row in rows)
    for part in {row["part"] for row in heads}:  # each counts its layers from 0
        layers = {(row["name"], row["layer"]) for row in heads if row["part"] == part}
        assert sorted(number for _, number in layers) == list(range(len(layers)))  # type: ignore[type-var]
        numbered = [(re.search(r"\d+", str(name)), number) for name, number in layers]
        assert all(int(match[0]) == number for match, number in numbered if match)
    (table,) = [p for p in section.blocks if isinstance(p, Table) and "each layer" in p.title]
    names = {str(row[0]) for row in table.rows}
    if inputs is DIGITS:
        assert section.settings["measure"] == "loss of the classes"
        assert names == {"0", "1"}
        assert any(
            "images not used to choose" in getattr(block, "title", "") for block in section.blocks
        )
    else:
        assert section.settings["measure"] == "loss of its own words"
        assert {name.split()[0] for name in names} == {"encoder", "decoder", "cross"}


# Inputs


def test_loss_of_pairs_is_the_loss_of_the_summaries(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [{"text": TEXT[i:200], "summary": TEXT[i : i + 20]} for i in range(8)]
    path.write_text("\n".join(map(json.dumps, [*rows, {"text": "nothing"}])))
    inputs = read_inputs(path)
    reader = bart()
    windows = reader.windows(inputs, SMALL)
    assert (len(windows.choosing), len(windows.checking)) == (2, 2)
    assert reader.measure == "loss of the summaries"
    assert any("1 of 9 rows skipped" in note for note in reader.notes)
    window = windows.checking[0]
    labels = torch.tensor([byte_pairs()(text_target=rows[4]["summary"])["input_ids"]])
    assert torch.equal(window.labels, labels[0])  # type: ignore[arg-type]
    with torch.no_grad():
        loss = reader.model(input_ids=window.inputs["source"], labels=labels).loss
    assert float(reader.evaluate(window, 0)) == pytest.approx(float(loss), rel=1e-5)

    seq2seq = attnlab_seq2seq()
    window = seq2seq.windows(inputs, SMALL).checking[0]
    tokens = seq2seq.inspected.tokenizer  # type: ignore[attr-defined]
    ids = tokens.encode(rows[4]["summary"])
    assert window.inputs["target"].tolist() == [[tokens.end, *ids]]
    with torch.no_grad():
        logits = seq2seq.model(window.inputs["source"], window.inputs["target"])[0]
    loss = F.cross_entropy(logits, torch.tensor([*ids, tokens.end]))
    assert float(seq2seq.evaluate(window, 0)) == pytest.approx(float(loss), rel=1e-5)


def test_without_pairs_the_decoder_reads_generated_text() -> None:
    for reader in (bart(), attnlab_seq2seq()):
        window = reader.windows(INPUTS, SMALL).choosing[0]
        assert window.inputs["source"].shape == (1, SMALL.tokens)
        assert window.labels is not None
        with torch.no_grad():
            best = reader.run(window)[0].argmax(-1)
        assert torch.equal(best, window.labels)  # greedy: the likeliest token at each position


def test_a_model_without_a_head_is_scored_by_its_vectors() -> None:
    reader = bart(head=False)
    window = reader.windows(INPUTS, SMALL).checking[0]
    assert (reader.measure, window.labels) == ("distance", None)
    with torch.no_grad():
        out = reader.model(
            input_ids=window.inputs["source"], decoder_input_ids=window.inputs["source"]
        )
    assert torch.equal(reader.run(window), out.last_hidden_state)
    headless = vit(head=False)
    assert headless.windows(DIGITS, SMALL).choosing[0].labels is None
    assert headless.measure == "distance"


def test_images_are_held_out_and_have_their_classes() -> None:
    reader = attnlab_vit()
    windows = reader.windows(DIGITS, HeadSettings())
    assert (len(windows.choosing), len(windows.checking)) == (16, 16)
    from attnlab.tasks.vision._dataset import split_dataset
    from attnlab.tasks.vision._open_data import open_data

    held_out = split_dataset(open_data("digits")).validation
    for window in (*windows.choosing, *windows.checking):
        assert window.labels is not None
        pixels = (window.inputs["images"] * 255).round().to(torch.uint8)
        rows = (held_out.pixels == pixels).flatten(1).all(1).nonzero()[:, 0]
        assert int(window.labels[0]) in held_out.labels[rows].tolist()
        with torch.no_grad():
            loss = F.cross_entropy(reader.model(window.inputs["images"]), window.labels)
        assert float(reader.evaluate(window, 0)) == pytest.approx(float(loss), rel=1e-5)


def test_images_of_a_folder_need_no_classes(tmp_path: Path) -> None:
    pillow: Any = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for number in range(5):
        noise = torch.randint(0, 255, (20, 30, 3), dtype=torch.uint8)
        pillow.fromarray(noise.numpy()).save(tmp_path / f"{number}.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    for reader in (attnlab_vit(), vit()):
        windows = reader.windows(HeadInputs(images=str(tmp_path)), HeadSettings())
        assert (len(windows.choosing), len(windows.checking)) == (2, 2)
        assert reader.measure == "distance"
        assert any("broken.png" in note for note in reader.notes)
        output = reader.evaluate(windows.checking[0], 0)
        assert reader.score(output, output) == 0
    with pytest.raises(ValueError, match="has 1 readable image; give 2 or more"):
        read_images(str(tmp_path / "0.png"), 16, 4)
    with pytest.raises(ValueError, match=r"nothing\.npz: does not exist"):
        read_images(str(tmp_path / "nothing.npz"), 16, 4)


def write_class_folders(folder: Path) -> None:
    """Twelve images of each of two classes."""
    pillow: Any = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    for name in ("3", "7"):
        (folder / name).mkdir()
        for number in range(12):
            noise = torch.randint(0, 255, (20, 30, 3), dtype=torch.uint8)
            pillow.fromarray(noise.numpy()).save(folder / name / f"{number}.png")


def test_a_folder_of_classes_is_read_at_the_models_size(tmp_path: Path) -> None:
    write_class_folders(tmp_path)
    for reader in (attnlab_vit(), vit()):
        windows = reader.windows(HeadInputs(images=str(tmp_path)), HeadSettings(windows=1))
        assert reader.measure == "loss of the classes"
        labels = {int(window.labels) for window in (*windows.choosing, *windows.checking)}  # type: ignore[arg-type]
        assert labels <= {3, 7}
        assert not any(
            "held out" in note for note in reader.notes
        )  # 2 are needed, and 2 are held out


def test_notes_name_too_few_held_out_images(tmp_path: Path) -> None:
    """A model of attnlab may have learned from the others; a model of transformers uses all."""
    write_class_folders(tmp_path)
    few = f"{tmp_path}: only 2 of its images are held out, fewer than 12; "
    own, other = attnlab_vit(), vit()
    settings, folder = HeadSettings(windows=6), HeadInputs(images=str(tmp_path))
    assert len(own.windows(folder, settings).choosing) == 1
    assert own.notes[0].startswith(f"{few}the model may have learned from the others")
    assert len(other.windows(folder, settings).choosing) == 6
    assert other.notes == [f"{few}all images are used."]
    for number in range(9):
        (tmp_path / "7" / f"{number}.png").unlink()
    with pytest.raises(
        ValueError, match="only 1 of its images is held out, and the model may have"
    ):
        attnlab_vit().windows(folder, settings)


def test_images_are_resized_and_converted_to_gray() -> None:
    reader = attnlab_vit()  # gray, 8 pixels
    gray = LabeledImage(torch.full((3, 28, 28), 102, dtype=torch.uint8))
    assert torch.allclose(reader.pixels(gray), torch.full((1, 1, 8, 8), 0.4), atol=1e-5)
    assert reader.notes == ["Images of 28 pixels were resized to 8."]
    same = torch.arange(64, dtype=torch.uint8).view(1, 8, 8)
    assert torch.equal(reader.pixels(LabeledImage(same)), same[None] / 255)
    color = torch.stack([torch.full((8, 8), v, dtype=torch.uint8) for v in (255, 0, 0)])
    assert torch.allclose(reader.pixels(LabeledImage(color)), torch.full((1, 1, 8, 8), 0.299))


def test_errors_for_the_wrong_kind_of_input() -> None:
    with pytest.raises(ValueError, match="this model reads a text; give --text FILE"):
        language_model().windows(DIGITS, SMALL)
    with pytest.raises(ValueError, match="this model reads images; give --images"):
        attnlab_vit().windows(INPUTS, SMALL)
    with pytest.raises(ValueError, match="give either a text or images"):
        read_inputs(None)


def test_command_reads_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attnlab_vit().inspected.model.save_pretrained(tmp_path / "model")
    code, out, err = run(
        f"heads {tmp_path / 'model'} --images digits --quick --windows 2 --window 8 "
        f"--mechanisms window elu --json {tmp_path / 'heads.json'}",
        capsys,
    )
    assert code == 0, err
    assert "images not used to choose" in " ".join(out.split())
    (section,) = json.loads((tmp_path / "heads.json").read_text())["sections"]
    assert section["settings"]["reads"] == "images"
