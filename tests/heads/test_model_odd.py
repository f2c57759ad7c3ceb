"""Odd models and odd texts on the bench of a model: numbers stay right, and what cannot be done is
said in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.bench._progress import SILENT
from attnlab.heads._assignment import Check, Outcome, check_exchange, choose, plan_cost, shuffled
from attnlab.heads._inputs import Material, read_images, read_material, spread
from attnlab.heads._measured_heads import Head, Measured
from attnlab.heads._mechanism_errors import measure_heads, scaled
from attnlab.heads._model_reader import pieces
from attnlab.heads._results import verdict
from attnlab.heads._run_heads import measure_model, reader_of
from attnlab.heads._settings import HeadSettings
from attnlab.heads._text_models import HuggingFaceTexts, OwnTexts, framed
from attnlab.huggingface._inspected_models import HuggingFaceSubject
from attnlab.interpret._attnlab_models import OwnSubject
from attnlab.models import create
from attnlab.tokenizer import Characters
from tests.support.command_line import run
from tests.support.head_models import (
    READ,
    SMALL,
    TEXT,
    encoder,
    language_model,
    peaked,
    transformers,
)
from tests.support.head_readers import bart, own_vit, vit
from tests.support.transformers_with_tokenizers import byte_pairs, word_pieces


def with_beta(beta: float) -> OwnTexts:
    tokens = Characters.train(TEXT)
    config = {"width": 24, "heads": 3, "layers": 2, "vocabulary": tokens.vocabulary, "context": 64}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = create({"model": "decoder", **config, "attention": f"softmax:beta={beta}"})
        peaked(model.eval())
    return OwnTexts(OwnSubject(model, tokens, "own"))


@pytest.mark.parametrize("beta", [2.0, 0.05])
def test_a_models_own_temperature_stays(beta: float) -> None:
    """Softmax in softmax's place changes nothing; nor does a plan that replaces nothing."""
    reader = with_beta(beta)
    windows = reader.windows(READ, SMALL)
    assert check_exchange(reader, windows.checking[0]) < 1e-6
    measured = measure_heads(reader, windows.choosing, ["window:window=4"], SMALL)
    nothing = choose(measured, 1e-9)
    assert {spec for specs in nothing.values() for spec in specs} == {"softmax"}
    outcome = Check(reader, windows.checking, measured, SILENT).outcome("nothing", nothing)
    assert outcome.worse.value == pytest.approx(0, abs=1e-6)
    assert scaled("window:window=4", beta) == f"window:window=4,beta={beta}"
    assert scaled("window:window=4,beta=3", beta) == "window:window=4,beta=3"
    assert scaled("elu", beta) == "elu"


def test_an_exchange_that_changes_the_model_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlab.heads._assignment.scaled", lambda spec, _: spec)
    reader = with_beta(2.0)
    with pytest.raises(ValueError, match="mechanisms cannot be compared in it"):
        check_exchange(reader, reader.windows(READ, SMALL).checking[0])


# Windows of several lengths


def test_a_short_window_counts_less() -> None:
    """Costs are of the long ones: a token that looks at itself must not pay for them."""
    head = Head(0, "a", 0, 8, {"elu": [0.8, 0.0]}, lengths=[(63, 63), (1, 1)])
    assert head.error("elu") == pytest.approx(0.8 * 63 / 64)
    assert Measured([head]).size == "1 to 63 tokens"


def pairs_of(path: Path, *texts: str) -> Material:
    rows = [{"text": text, "summary": text} for text in texts]
    path.write_text("\n".join(map(json.dumps, rows)))
    return read_material(path)


def test_a_short_text_takes_no_mechanism_away(tmp_path: Path) -> None:
    reader = bart()
    pairs = pairs_of(tmp_path / "pairs.jsonl", "a", TEXT[:200], TEXT[:150], TEXT[:100])
    windows = reader.windows(pairs, SMALL)
    found = measure_heads(reader, windows.choosing, ["window:window=16"], SMALL)
    first = found.heads[0]
    (short, _), (long, _) = first.lengths
    assert short < 16 < long
    assert first.errors["window:window=16"][0] == 0  # it sees all: softmax
    assert first.errors["window:window=16"][1] > 0
    assert first.rank_tokens == long  # of the longest
    assert not found.notes


def test_windows_that_are_softmax_everywhere_are_left_out_and_named(tmp_path: Path) -> None:
    pairs = pairs_of(tmp_path / "p.jsonl", *[TEXT[:60]] * 4)
    reader = bart()
    windows = reader.windows(pairs, SMALL)
    found = measure_heads(reader, windows.choosing, ["window:window=60", "elu"], SMALL)
    assert all("window:window=60" not in head.errors for head in found.heads)
    assert sum("Left out as being softmax" in note for note in found.notes) == 2  # of both stacks
    with pytest.raises(ValueError, match=r"nothing to measure\. Left out as being softmax on 65"):
        measure_model(own_vit(), None, SMALL, images="digits", mechanisms=["window:window=70"])


def test_chance_deals_at_the_same_cost() -> None:
    reader = bart()
    measured = measure_heads(reader, reader.windows(READ, SMALL).choosing, ["elu"], SMALL)
    plan = choose(measured, 10)
    plan = {layer: ["elu", *specs[1:-1], "softmax"] for layer, specs in plan.items()}
    for seed in range(5):
        dealt = shuffled(plan, measured, seed)
        assert plan_cost(dealt, measured) == pytest.approx(plan_cost(plan, measured))


def test_one_window_cannot_tell() -> None:
    chosen = Outcome("within 0.1", [1.0], [1.0], 0.5, 0.5, 0.1)
    control = Outcome("all window", [2.0], [1.0], 0.5, 0.5, 0.1, control=True)
    told = verdict(chosen, [control])
    assert "not surely so over 1 window: all window" in told


def test_a_huge_text_is_not_made_into_tokens_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its windows are spread all the same, and begin with a word."""
    words = [f"{number:05}" for number in range(20_000)]
    asked = list[str]()

    def encode(text: str) -> list[int]:
        asked.append(text)
        return [int(word) for word in text.split() if len(word) == 5]

    monkeypatch.setattr("attnlab.heads._model_reader.HUGE", 12_000)
    found = pieces(" ".join(words), encode, 50, 6, "own")
    assert [each[-1] - each[0] for each in found] == [49] * 6
    starts = [each[0] for each in found]
    assert starts[0] == 0
    assert all(abs(start - 20_000 * n / 6) < 2 for n, start in enumerate(starts))
    assert sum(map(len, asked)) <= 12_000
    assert (
        pieces("a" * 13_000, lambda text: [0] * (len(text) // 100), 50, 2, "own") == [[0] * 50] * 2
    )  # parts too short for it: then the whole
    monkeypatch.undo()
    assert pieces(" ".join(words), encode, 50, 6, "own") == [
        list(range(at, at + 50)) for at in range(0, 19_998, 3333)
    ]


# Models


def test_a_tokenizer_need_not_know_letters() -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    vocabulary = {"[CLS]": 0, "[SEP]": 1, "C": 2, "G": 3, "T": 4}
    reader = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(BPE(vocabulary, [])), cls_token="[CLS]", sep_token="[SEP]"
    )
    assert reader("a")["input_ids"] == []
    assert framed(reader) == ([], [])
    assert framed(word_pieces()) == ([2], [3])
    config = transformers.GPT2Config(vocab_size=5, n_embd=8, n_layer=1, n_head=2, n_positions=32)
    model = transformers.GPT2LMHeadModel(config).eval()
    found = HuggingFaceTexts(HuggingFaceSubject(model, reader, "dna"))
    assert found.windows(Material("CGT" * 30), SMALL).tokens == 32


def test_two_models_in_one_have_two_limits(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"vocab_size": 18, "intermediate_size": 16}
    one = transformers.BertConfig(**sizes, max_position_embeddings=40)
    two = transformers.BertConfig(
        **sizes, max_position_embeddings=24, is_decoder=True, add_cross_attention=True
    )
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(one, two)
    config.decoder_start_token_id, config.pad_token_id = 2, 0
    model = transformers.EncoderDecoderModel(config).eval()
    subject = HuggingFaceSubject(model, word_pieces(), "bert2bert")
    assert (subject.limit("encoder"), subject.limit("decoder")) == (40, 24)
    section = measure_model(
        reader_of(subject), write_pairs(tmp_path, TEXT, TEXT), SMALL, mechanisms=["elu"]
    )
    assert {row["part"] for row in section.measurements if "part" in row} == {
        "encoder", "decoder", "cross-attention",
    }  # fmt: skip


def write_pairs(folder: Path, *texts: str) -> Path:
    pairs_of(folder / "pairs.jsonl", *texts)
    return folder / "pairs.jsonl"


def test_what_a_library_says_is_one_line() -> None:
    config = transformers.GPT2Config(vocab_size=8, n_embd=8, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config).eval()
    with pytest.raises(ValueError, match="gpt2: a GPT2LMHeadModel cannot be run on this alone"):
        HuggingFaceTexts(HuggingFaceSubject(model, byte_pairs(), "gpt2"))  # of 320 words


def test_models_that_do_more_than_softmax_are_told() -> None:
    config = transformers.T5Config(
        vocab_size=320, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()
    reader = reader_of(HuggingFaceSubject(model, byte_pairs(), "t5"))
    with pytest.raises(ValueError, match=r"^t5: .*; mechanisms cannot be compared in it$") as told:
        measure_model(reader, TEXT, SMALL)
    assert "attn_implementation" not in str(told.value)


def test_a_summary_begins_as_the_model_has_it() -> None:
    """mBART moves the last token to the front; BART has a token of its own."""
    config = transformers.MBartConfig(
        vocab_size=320, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16,
        decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2,
    )  # fmt: skip
    model = transformers.MBartForConditionalGeneration(config).eval()
    reader = reader_of(HuggingFaceSubject(model, byte_pairs(), "mbart"))
    read, wanted = reader.target("I am happy")  # type: ignore[attr-defined]
    labels = torch.tensor([wanted])
    assert read == model.prepare_decoder_input_ids_from_labels(labels)[0].tolist()
    assert read[0] == wanted[-1]
    read, wanted = bart().target("I am happy")
    assert read == [2, *wanted[:-1]]


def test_a_decoder_reads_the_texts_of_pairs(tmp_path: Path) -> None:
    reader = language_model()
    reader.windows(read_material(write_pairs(tmp_path, TEXT, TEXT)), SMALL)
    assert any("texts alone were read" in note for note in reader.notes)


# Images


def pictures(folder: Path, count: int, broken: int = 0) -> Path:
    pillow: Any = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    folder.mkdir(parents=True)
    for number in range(count):
        path = folder / f"{number:03}.png"
        if broken and number % broken == 0:
            path.write_bytes(b"no image")
        else:
            pillow.fromarray(torch.full((9, 9, 3), number, dtype=torch.uint8).numpy()).save(path)
    return folder


def test_broken_images_are_replaced_by_others(tmp_path: Path) -> None:
    found = read_images(str(pictures(tmp_path / "half", 24, broken=2)), 8, 12)
    assert len(found.shown) == 12
    assert "and 11 more" in found.notes[0]
    assert spread(7, 3) == [0, 2, 4]
    assert spread(3, 7) == [0, 1, 2]


def test_classes_come_before_strays_and_few_images_will_do(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "stray", 1)
    for name in ("3", "7"):
        pictures(folder / name, 3)
    found = read_images(str(folder), 8, 4)
    assert {each.name for each in found.shown} == {"3", "7"}
    assert "too few images to hold some out" in found.notes[0]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no images here; give a folder of images"):
        read_images(str(tmp_path / "empty"), 8, 4)


def test_a_gray_model_gets_gray_images() -> None:
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        image_size=8, patch_size=4, num_channels=1,
    )  # fmt: skip
    model = transformers.ViTModel(config).eval()
    processor = transformers.ViTImageProcessor(
        size={"height": 8, "width": 8}, image_mean=[0.5], image_std=[0.5]
    )
    reader = reader_of(HuggingFaceSubject(model, processor, "gray"))
    windows = reader.windows(Material(images="digits"), HeadSettings(windows=1))
    assert windows.choosing[0].inputs["pixel_values"].shape == (1, 1, 8, 8)
    assert vit().windows(Material(images="digits"), HeadSettings(windows=1)).choosing


# Words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("x --images digits --tokens 32", ["--tokens", "needs --text"]),
        ("x --text columns.csv", ["no column 'text'", "a bench reads text and summary"]),
    ],
)
def test_mistakes_are_one_line(
    arguments: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "columns.csv").write_text("one,two\na,b\n")
    code, _, err = run(f"heads {arguments}", capsys)
    assert code == 2
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert "--text-column" not in err


def test_too_few_tokens_at_once_are_told_as_such() -> None:
    """16 are asked for, but [CLS] and [SEP] are two of them."""
    with pytest.raises(ValueError, match="would read 14 tokens of a text at once, by --tokens"):
        encoder(head=False).windows(READ, HeadSettings(tokens=16))
