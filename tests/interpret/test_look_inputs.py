"""Look at what a model reads: devices, lengths, unknown characters, and models it cannot show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from attnlab.interpret._inspected_model import WRITTEN, at_home
from attnlab.interpret._look import look
from attnlab.models import Seq2Seq, Seq2SeqConfig, StackConfig
from attnlab.tokenizer import Characters
from tests.support.command_line import run
from tests.support.text_models import SIZES, TOKENS, decoder, encoder
from tests.support.text_models import TEXT as OWN_TEXT
from tests.support.transformers_with_tokenizers import (
    TEXT,
    WORDS,
    bart,
    bert,
    byte_pairs,
    gpt2,
    word_pieces,
)

transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")


def masked_bert(vocabulary: int | None = None) -> Any:
    torch.manual_seed(0)
    config = bert().config
    config.vocab_size = vocabulary or config.vocab_size
    return transformers.BertForMaskedLM(config).eval()


# Where and how exactly a model computes


def test_inputs_go_where_the_model_is() -> None:
    model = nn.Linear(2, 3, device="meta", dtype=torch.bfloat16)
    found = at_home(model, {"ids": torch.tensor([1]), "values": torch.ones(2)})
    assert {name: (x.device.type, x.dtype) for name, x in found.items()} == {
        "ids": ("meta", torch.int64),
        "values": ("meta", torch.bfloat16),
    }


@pytest.mark.parametrize("own", [True, False])
def test_the_untrained_model_is_where_the_trained_is(own: bool) -> None:
    from attnlab.interpret._adapters import open_subject

    model, tokens = (decoder(), TOKENS) if own else (gpt2(), byte_pairs())
    subject = open_subject(model.to("meta", torch.bfloat16), tokens)
    fresh = next(subject.untrained(0).model.parameters())
    assert (fresh.device.type, fresh.dtype) == ("meta", torch.bfloat16)


@pytest.mark.parametrize("own", [True, False])
def test_half_precision(own: bool) -> None:
    model, tokens = (decoder(), TOKENS) if own else (gpt2(), byte_pairs())
    text = OWN_TEXT if own else TEXT
    found = look(model.to(torch.bfloat16), text, tokenizer=tokens, generate=2, untrained=True)
    assert len(found.sides) == 2
    for side in found.sides:
        assert side.layers[0].weights is not None
        assert side.layers[0].weights.dtype == torch.float32
        assert side.next is not None


# What is unknown, and what is random


def test_unknown_characters_are_noted() -> None:
    found = look(decoder(), "thé dög ☃ ☃", tokenizer=TOKENS)
    (note,) = found.capture.notes
    assert "4 characters were never seen" in note
    assert "'é' as 'e'" in note
    assert "'ö' as 'o'" in note
    assert "'☃' as ' '" in note
    assert "".join(found.sides[0].sequences[0].texts) == "the dog    "
    assert look(encoder(), "the", pair="dög", tokenizer=TOKENS).capture.notes != []
    assert look(decoder(), "the dog", tokenizer=TOKENS).capture.notes == []


def test_a_run_that_answers_refuses_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `attnlab knowledge ask` does."""
    assert here.is_dir()
    code, _, error = run('look finetuned --text "Where was Zoë ☃ born?" --out a.html', capsys)
    assert code == 2
    assert "never saw: 'ë', '☃'" in error


def test_unknown_tokens_are_noted() -> None:
    found = look(bert(), "I wanted a zebra zoo", tokenizer=word_pieces())
    (note,) = found.capture.notes
    assert "2 tokens are unknown" in note
    assert "[UNK]" in note
    assert look(bert(), "I wanted a party", tokenizer=word_pieces()).capture.notes == []


@pytest.mark.parametrize(("text", "pair"), [("I \ud800", None), ("I", "a \udfff")])
def test_half_characters_are_refused(text: str, pair: str | None) -> None:
    """Which a command line may hold, and no tokenizer of Hugging Face takes."""
    for model, tokenizer in ((bert(), word_pieces()), (bart(), byte_pairs())):
        with pytest.raises(ValueError, match="half a character"):
            look(model, text, pair=pair, tokenizer=tokenizer)


def test_random_weights_are_noted(tmp_path: Path) -> None:
    masked_bert().bert.save_pretrained(tmp_path / "bert")
    word_pieces().save_pretrained(tmp_path / "bert")
    path = tmp_path / "bert" / "config.json"
    description = {**json.loads(path.read_text()), "architectures": ["BertForMaskedLM"]}
    path.write_text(json.dumps(description))
    (note,) = look(tmp_path / "bert", TEXT).capture.notes
    assert note.startswith("bert has no weights for cls.")
    assert "random" in note


# What gradients are of


def test_the_target_of_a_masked_model() -> None:
    """The likeliest token at the first mask, as the model itself says."""
    model, tokenizer = masked_bert(), word_pieces()
    text = "I [MASK] to have a [MASK]"
    found = look(model, text, tokenizer=tokenizer, control=False)
    read = tokenizer(text, return_tensors="pt")
    place = read["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    best = int(model(**read).logits[0, place].argmax())
    said = found.sides[0].flow.target
    assert said == f"the logit of {WORDS.split()[best]!r} at the first masked token"
    assert found.sides[0].flow.gradient is not None
    without = look(model, TEXT, tokenizer=tokenizer, control=False)
    assert "vectors" in without.sides[0].flow.target


# Lengths


def short_bart() -> Any:
    model = bart()
    model.config.max_position_embeddings = 12
    return transformers.BartForConditionalGeneration(model.config).eval()


def short_own() -> Seq2Seq:
    torch.manual_seed(0)
    long, short = (
        StackConfig(vocabulary=TOKENS.vocabulary, context=context, **SIZES) for context in (40, 12)
    )
    return Seq2Seq(Seq2SeqConfig(encoder=long, decoder=short)).eval()


@pytest.mark.parametrize("make", [short_bart, short_own])
def test_what_is_written_by_default_fits(make: Any) -> None:
    """Without a second text it writes, but no more than it reads; more is refused if asked for."""
    tokens = TOKENS if make is short_own else byte_pairs()
    found = look(make(), "the", tokenizer=tokens, control=False)
    assert 1 < len(found.sides[0].sequences[1].texts) <= 12 < WRITTEN
    with pytest.raises(ValueError, match="up to 11"):
        look(make(), "the", tokenizer=tokens, generate=12)


# Models that cannot be shown, or not all of them


def test_layers_of_merged_tokens_are_left_out() -> None:
    """Funnel's second block has half of the tokens."""
    torch.manual_seed(0)
    config = transformers.FunnelConfig(
        vocab_size=len(WORDS.split()), block_sizes=[2, 1], num_decoder_layers=1, d_model=24,
        n_head=3, d_head=8, d_inner=40,
    )  # fmt: skip
    found = look(transformers.FunnelModel(config).eval(), TEXT, tokenizer=word_pieces())
    side = found.sides[0]
    (sequence,) = side.sequences
    count = len(sequence.texts)
    assert [layer.name for layer in side.layers] == [
        "encoder.blocks.0.0.attention", "encoder.blocks.0.1.attention",
        "decoder.layers.0.attention",
    ]  # fmt: skip
    for layer in side.layers:
        assert layer.weights is not None
        assert layer.weights.shape == (3, count, count)
    assert any("1 of 4 layers are left out" in note for note in found.capture.notes)


def whisper() -> Any:
    return transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            vocab_size=60, d_model=24, encoder_layers=1, decoder_layers=1, pad_token_id=1,
            encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=24,
            decoder_ffn_dim=24, bos_token_id=0, eos_token_id=2, decoder_start_token_id=0,
        )
    )  # fmt: skip


def clip() -> Any:
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3}
    text = {**sizes, "vocab_size": 60, "intermediate_size": 24}
    vision = {**sizes, "image_size": 12, "patch_size": 4, "intermediate_size": 24}
    return transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision))


def wav2vec() -> Any:
    return transformers.Wav2Vec2Model(
        transformers.Wav2Vec2Config(
            hidden_size=24, num_hidden_layers=1, num_attention_heads=3, intermediate_size=24,
            conv_dim=[8], conv_stride=[2], conv_kernel=[2], num_feat_extract_layers=1,
            num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, vocab_size=20,
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (whisper, "WhisperForConditionalGeneration reads sound"),
        (wav2vec, "Wav2Vec2Model reads sound"),
        (clip, "CLIPTextModel or CLIPVisionModel"),
        (lambda: masked_bert(5), "cannot be run on this alone"),  # a vocabulary of another
    ],
)
def test_what_cannot_be_shown_is_told(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said) as error:
        look(make().eval(), TEXT, tokenizer=word_pieces())
    assert "\n" not in str(error.value)


def test_a_folder_of_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whisper().save_pretrained(tmp_path / "whisper")
    settings = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 80}
    (tmp_path / "whisper" / "preprocessor_config.json").write_text(json.dumps(settings))
    capsys.readouterr()
    code, _, error = run(f"look {tmp_path}/whisper --text a --out {tmp_path}/a.html", capsys)
    assert code == 2
    assert error.count("\n") == 1
    assert "reads sound" in error


def test_a_tower_of_clip() -> None:
    """Its text model alone, which looks back only, though it writes nothing."""
    found = look(clip().text_model, TEXT, tokenizer=byte_pairs_of(60))
    assert found.sides[0].model.kind == "encoder"
    weights = found.sides[0].layers[0].weights
    assert weights is not None
    assert weights.triu(1).abs().max() == 0


def byte_pairs_of(count: int) -> Any:
    letters = Characters.train([TEXT]).characters
    from tokenizers import Tokenizer, decoders, models

    vocabulary = {letter: i for i, letter in enumerate(letters[:count])}
    fast = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    fast.decoder = decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=fast)
