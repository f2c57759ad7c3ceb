"""`attnlab heads` on unusual models and texts: numbers stay right, and errors are one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.bench._progress import NO_PROGRESS
from attnlab.heads._assignment import (
    PlanCheck,
    PlanOutcome,
    check_softmax_replacement,
    choose_mechanisms,
    plan_cost,
    shuffle_plan,
)
from attnlab.heads._inputs import HeadInputs, read_images, read_inputs, spread_indices
from attnlab.heads._measured_heads import Head, MeasuredHeads
from attnlab.heads._mechanism_errors import measure_heads, with_scale
from attnlab.heads._model_reader import cut_pieces
from attnlab.heads._results import control_verdict
from attnlab.heads._run_heads import create_reader, measure_model
from attnlab.heads._settings import HeadSettings
from attnlab.heads._text_models import AttnlabTextReader, HuggingFaceTextReader, find_special_tokens
from attnlab.huggingface._inspected_models import InspectedHuggingFaceModel
from attnlab.interpret._attnlab_models import InspectedAttnlabModel
from attnlab.models import create
from attnlab.tokenizer import Characters
from tests.support.command_line import run
from tests.support.head_models import (
    INPUTS,
    SMALL,
    TEXT,
    encoder,
    language_model,
    sharpen_attention,
    transformers,
)
from tests.support.head_readers import attnlab_vit, bart, vit
from tests.support.transformers_with_tokenizers import byte_pairs, word_pieces


def decoder_with_beta(beta: float) -> AttnlabTextReader:
    tokens = Characters.train(TEXT)
    config = {"width": 24, "heads": 3, "layers": 2, "vocabulary": tokens.vocabulary, "context": 64}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = create({"model": "decoder", **config, "attention": f"softmax:beta={beta}"})
        sharpen_attention(model.eval())
    return AttnlabTextReader(InspectedAttnlabModel(model, tokens, "own"))


@pytest.mark.parametrize("beta", [2.0, 0.05])
def test_the_temperature_of_the_model_is_kept(beta: float) -> None:
    """Replacing softmax by softmax changes nothing, nor does a plan that replaces nothing."""
    reader = decoder_with_beta(beta)
    windows = reader.windows(INPUTS, SMALL)
    assert check_softmax_replacement(reader, windows.checking[0]) < 1e-6
    measured = measure_heads(reader, windows.choosing, ["window:window=4"], SMALL)
    unchanged = choose_mechanisms(measured, 1e-9)
    assert {spec for specs in unchanged.values() for spec in specs} == {"softmax"}
    outcome = PlanCheck(reader, windows.checking, measured, NO_PROGRESS).outcome(
        "unchanged", unchanged
    )
    assert outcome.score_increase.value == pytest.approx(0, abs=1e-6)
    assert with_scale("window:window=4", beta) == f"window:window=4,beta={beta}"
    assert with_scale("window:window=4,beta=3", beta) == "window:window=4,beta=3"
    assert with_scale("elu", beta) == "elu"


def test_a_softmax_replacement_that_changes_the_output_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("attnlab.heads._assignment.with_scale", lambda spec, _: spec)
    reader = decoder_with_beta(2.0)
    with pytest.raises(ValueError, match="mechanisms cannot be compared in it"):
        check_softmax_replacement(reader, reader.windows(INPUTS, SMALL).checking[0])


# Windows of several lengths


def test_a_short_window_counts_less() -> None:
    """Errors are weighted by length, as costs are."""
    head = Head(0, "a", 0, 8, {"elu": [0.8, 0.0]}, lengths=[(63, 63), (1, 1)])
    assert head.error("elu") == pytest.approx(0.8 * 63 / 64)
    assert MeasuredHeads([head]).lengths_text == "1 to 63 tokens"


def write_and_read_pairs(path: Path, *texts: str) -> HeadInputs:
    rows = [{"text": text, "summary": text} for text in texts]
    path.write_text("\n".join(map(json.dumps, rows)))
    return read_inputs(path)


def test_a_short_text_removes_no_mechanism(tmp_path: Path) -> None:
    reader = bart()
    pairs = write_and_read_pairs(tmp_path / "pairs.jsonl", "a", TEXT[:200], TEXT[:150], TEXT[:100])
    windows = reader.windows(pairs, SMALL)
    measured = measure_heads(reader, windows.choosing, ["window:window=16"], SMALL)
    first = measured.heads[0]
    (short, _), (long, _) = first.lengths
    assert short < 16 < long
    assert first.errors["window:window=16"][0] == 0  # it sees all keys, as softmax does
    assert first.errors["window:window=16"][1] > 0
    assert first.rank_tokens == long  # of the longest
    assert not measured.notes


def test_mechanisms_that_equal_softmax_are_left_out_with_a_note(tmp_path: Path) -> None:
    pairs = write_and_read_pairs(tmp_path / "p.jsonl", *[TEXT[:60]] * 4)
    reader = bart()
    windows = reader.windows(pairs, SMALL)
    measured = measure_heads(reader, windows.choosing, ["window:window=60", "elu"], SMALL)
    assert all("window:window=60" not in head.errors for head in measured.heads)
    assert sum("they equal softmax" in note for note in measured.notes) == 2  # of both stacks
    with pytest.raises(
        ValueError, match=r"nothing to measure\. Left out because they equal softmax on 65"
    ):
        measure_model(attnlab_vit(), None, SMALL, images="digits", mechanisms=["window:window=70"])


def test_shuffled_plans_cost_the_same() -> None:
    reader = bart()
    measured = measure_heads(reader, reader.windows(INPUTS, SMALL).choosing, ["elu"], SMALL)
    plan = choose_mechanisms(measured, 10)
    plan = {layer: ["elu", *specs[1:-1], "softmax"] for layer, specs in plan.items()}
    for seed in range(5):
        other = shuffle_plan(plan, measured, seed)
        assert plan_cost(other, measured) == pytest.approx(plan_cost(plan, measured))


def test_one_window_gives_no_certain_verdict() -> None:
    choice = PlanOutcome("within 0.1", [1.0], [1.0], 0.5, 0.5, 0.1)
    control = PlanOutcome("all window", [2.0], [1.0], 0.5, 0.5, 0.1, control=True)
    assert "within the uncertainty over 1 window: all window" in control_verdict(choice, [control])


def test_only_parts_of_a_huge_text_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its windows are still evenly spread, and start with a whole word."""
    words = [f"{number:05}" for number in range(20_000)]
    encoded_texts = list[str]()

    def encode(text: str) -> list[int]:
        encoded_texts.append(text)
        return [int(word) for word in text.split() if len(word) == 5]

    monkeypatch.setattr("attnlab.heads._model_reader.MAX_CHARACTERS", 12_000)
    windows = cut_pieces(" ".join(words), encode, 50, 6, "own")
    assert [ids[-1] - ids[0] for ids in windows] == [49] * 6
    starts = [ids[0] for ids in windows]
    assert starts[0] == 0
    assert all(abs(start - 20_000 * n / 6) < 2 for n, start in enumerate(starts))
    assert sum(map(len, encoded_texts)) <= 12_000
    assert (
        cut_pieces("a" * 13_000, lambda text: [0] * (len(text) // 100), 50, 2, "own")
        == [[0] * 50] * 2
    )  # its parts are too short, so all of it is encoded
    monkeypatch.undo()
    assert cut_pieces(" ".join(words), encode, 50, 6, "own") == [
        list(range(start, start + 50)) for start in range(0, 19_998, 3333)
    ]


# Models


def test_a_tokenizer_need_not_know_letters() -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    vocabulary = {"[CLS]": 0, "[SEP]": 1, "C": 2, "G": 3, "T": 4}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(BPE(vocabulary, [])), cls_token="[CLS]", sep_token="[SEP]"
    )
    assert tokenizer("a")["input_ids"] == []
    assert find_special_tokens(tokenizer) == ([], [])
    assert find_special_tokens(word_pieces()) == ([2], [3])
    config = transformers.GPT2Config(vocab_size=5, n_embd=8, n_layer=1, n_head=2, n_positions=32)
    model = transformers.GPT2LMHeadModel(config).eval()
    reader = HuggingFaceTextReader(InspectedHuggingFaceModel(model, tokenizer, "dna"))
    assert reader.windows(HeadInputs("CGT" * 30), SMALL).tokens == 32


def test_encoder_and_decoder_have_their_own_limits(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"vocab_size": 18, "intermediate_size": 16}
    encoder_config = transformers.BertConfig(**sizes, max_position_embeddings=40)
    decoder_config = transformers.BertConfig(
        **sizes, max_position_embeddings=24, is_decoder=True, add_cross_attention=True
    )
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(
        encoder_config, decoder_config
    )
    config.decoder_start_token_id, config.pad_token_id = 2, 0
    model = transformers.EncoderDecoderModel(config).eval()
    inspected = InspectedHuggingFaceModel(model, word_pieces(), "bert2bert")
    assert (inspected.limit("encoder"), inspected.limit("decoder")) == (40, 24)
    section = measure_model(
        create_reader(inspected), write_pairs(tmp_path, TEXT, TEXT), SMALL, mechanisms=["elu"]
    )
    assert {row["part"] for row in section.measurements if "part" in row} == {
        "encoder", "decoder", "cross-attention",
    }  # fmt: skip


def write_pairs(folder: Path, *texts: str) -> Path:
    write_and_read_pairs(folder / "pairs.jsonl", *texts)
    return folder / "pairs.jsonl"


def test_an_error_of_transformers_becomes_one_line() -> None:
    config = transformers.GPT2Config(vocab_size=8, n_embd=8, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config).eval()
    with pytest.raises(ValueError, match="gpt2: a GPT2LMHeadModel needs more than this input"):
        HuggingFaceTextReader(
            InspectedHuggingFaceModel(model, byte_pairs(), "gpt2")
        )  # with a vocabulary of 320


def test_models_that_do_more_than_softmax_are_errors() -> None:
    config = transformers.T5Config(
        vocab_size=320, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()
    reader = create_reader(InspectedHuggingFaceModel(model, byte_pairs(), "t5"))
    with pytest.raises(ValueError, match=r"^t5: no head .* adds a bias to its scores\.$") as error:
        measure_model(reader, TEXT, SMALL)
    assert "attn_implementation" not in str(error.value)


def test_a_summary_starts_with_the_start_token_of_the_model() -> None:
    """mBART moves the last token to the front; BART has a token of its own."""
    config = transformers.MBartConfig(
        vocab_size=320, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16,
        decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2,
    )  # fmt: skip
    model = transformers.MBartForConditionalGeneration(config).eval()
    reader = create_reader(InspectedHuggingFaceModel(model, byte_pairs(), "mbart"))
    target, labels = reader.encode_target("I am happy")  # type: ignore[attr-defined]
    shifted = model.prepare_decoder_input_ids_from_labels(torch.tensor([labels]))
    assert target == shifted[0].tolist()
    assert target[0] == labels[-1]
    target, labels = bart().encode_target("I am happy")
    assert target == [2, *labels[:-1]]


def test_a_decoder_reads_the_texts_of_pairs(tmp_path: Path) -> None:
    reader = language_model()
    reader.windows(read_inputs(write_pairs(tmp_path, TEXT, TEXT)), SMALL)
    assert any("Only the texts of the pairs were read" in note for note in reader.notes)


# Images


def write_images(folder: Path, count: int, broken: int = 0) -> Path:
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
    loaded = read_images(str(write_images(tmp_path / "half", 24, broken=2)), 8, 12)
    assert len(loaded.images) == 12
    assert "and 11 more" in loaded.notes[0]
    assert spread_indices(7, 3) == [0, 2, 4]
    assert spread_indices(3, 7) == [0, 1, 2]


def test_class_folders_with_few_images(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "stray", 1)
    for name in ("3", "7"):
        write_images(folder / name, 3)
    loaded = read_images(str(folder), 8, 4)
    assert {image.name for image in loaded.images} == {"3", "7"}
    assert "too few images to hold some out" in loaded.notes[0]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no images; give a folder of images"):
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
    reader = create_reader(InspectedHuggingFaceModel(model, processor, "gray"))
    windows = reader.windows(HeadInputs(images="digits"), HeadSettings(windows=1))
    assert windows.choosing[0].inputs["pixel_values"].shape == (1, 1, 8, 8)
    assert vit().windows(HeadInputs(images="digits"), HeadSettings(windows=1)).choosing


# Messages


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("x --images digits --tokens 32", ["--tokens", "needs --text"]),
        ("x --text columns.csv", ["no column 'text'", "needs the columns text and summary"]),
    ],
)
def test_mistakes_are_reported_in_one_line(
    arguments: str,
    expected: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "columns.csv").write_text("one,two\na,b\n")
    code, _, err = run(f"heads {arguments}", capsys)
    assert code == 2
    assert err.count("\n") == 1
    for word in expected:
        assert word in err
    assert "--text-column" not in err


def test_error_for_too_few_tokens_in_a_window() -> None:
    """--tokens is 16, but [CLS] and [SEP] are two of them."""
    with pytest.raises(ValueError, match="leave 14 tokens of text in a window"):
        encoder(head=False).windows(INPUTS, HeadSettings(tokens=16))
