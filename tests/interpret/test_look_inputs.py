"""The inputs of look: devices, lengths, unknown characters, and models it cannot show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from attnlab.interpret._inspected_model import DEFAULT_NEW_TOKENS, move_to_model
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


# Devices and precision


def test_inputs_move_to_the_device_of_the_model() -> None:
    model = nn.Linear(2, 3, device="meta", dtype=torch.bfloat16)
    moved = move_to_model(model, {"ids": torch.tensor([1]), "values": torch.ones(2)})
    assert {name: (x.device.type, x.dtype) for name, x in moved.items()} == {
        "ids": ("meta", torch.int64),
        "values": ("meta", torch.bfloat16),
    }


@pytest.mark.parametrize("own", [True, False])
def test_untrained_model_has_device_and_precision(own: bool) -> None:
    from attnlab.interpret._adapters import open_model

    model, tokens = (decoder(), TOKENS) if own else (gpt2(), byte_pairs())
    inspected = open_model(model.to("meta", torch.bfloat16), tokens)
    parameter = next(inspected.untrained(0).model.parameters())
    assert (parameter.device.type, parameter.dtype) == ("meta", torch.bfloat16)


@pytest.mark.parametrize("own", [True, False])
def test_half_precision(own: bool) -> None:
    model, tokens = (decoder(), TOKENS) if own else (gpt2(), byte_pairs())
    text = OWN_TEXT if own else TEXT
    result = look(model.to(torch.bfloat16), text, tokenizer=tokens, generate=2, untrained=True)
    assert len(result.panels) == 2
    for panel in result.panels:
        assert panel.layers[0].weights is not None
        assert panel.layers[0].weights.dtype == torch.float32
        assert panel.next_tokens is not None


# Unknown characters and random weights


def test_unknown_characters_are_noted() -> None:
    result = look(decoder(), "thé dög ☃ ☃", tokenizer=TOKENS)
    (note,) = result.capture.notes
    assert "4 characters are unknown to the tokenizer" in note
    assert "'é' as 'e'" in note
    assert "'ö' as 'o'" in note
    assert "'☃' as ' '" in note
    assert "".join(result.panels[0].sequences[0].texts) == "the dog    "
    assert look(encoder(), "the", pair="dög", tokenizer=TOKENS).capture.notes != []
    assert look(decoder(), "the dog", tokenizer=TOKENS).capture.notes == []


def test_question_with_unknown_characters_raises(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `attnlab knowledge ask` does."""
    assert here.is_dir()
    code, _, error = run('look finetuned --text "Where was Zoë ☃ born?" --out a.html', capsys)
    assert code == 2
    assert "never saw: 'ë', '☃'" in error


def test_unknown_tokens_are_noted() -> None:
    result = look(bert(), "I wanted a zebra zoo", tokenizer=word_pieces())
    (note,) = result.capture.notes
    assert "2 tokens are unknown" in note
    assert "[UNK]" in note
    assert look(bert(), "I wanted a party", tokenizer=word_pieces()).capture.notes == []


@pytest.mark.parametrize(("text", "pair"), [("I \ud800", None), ("I", "a \udfff")])
def test_lone_surrogates_raise(text: str, pair: str | None) -> None:
    """A command line may contain them, but no Hugging Face tokenizer accepts them."""
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


# The target of gradients


def test_target_of_a_masked_model() -> None:
    """The model's likeliest token at the first mask."""
    model, tokenizer = masked_bert(), word_pieces()
    text = "I [MASK] to have a [MASK]"
    result = look(model, text, tokenizer=tokenizer, control=False)
    inputs = tokenizer(text, return_tensors="pt")
    position = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    best = int(model(**inputs).logits[0, position].argmax())
    target = result.panels[0].flow.target
    assert target == f"the logit of {WORDS.split()[best]!r} at the first masked token"
    assert result.panels[0].flow.gradient is not None
    without = look(model, TEXT, tokenizer=tokenizer, control=False)
    assert "vectors" in without.panels[0].flow.target


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
def test_default_generation_fits(make: Any) -> None:
    """Without a second text it generates as much as fits; requesting more raises."""
    tokens = TOKENS if make is short_own else byte_pairs()
    result = look(make(), "the", tokenizer=tokens, control=False)
    assert 1 < len(result.panels[0].sequences[1].texts) <= 12 < DEFAULT_NEW_TOKENS
    with pytest.raises(ValueError, match="up to 11"):
        look(make(), "the", tokenizer=tokens, generate=12)


# Models that cannot be shown, or only in part


def test_layers_of_merged_tokens() -> None:
    """Funnel's second block has half of the tokens, which have no words."""
    torch.manual_seed(0)
    config = transformers.FunnelConfig(
        vocab_size=len(WORDS.split()), block_sizes=[2, 1], num_decoder_layers=1, d_model=24,
        n_head=3, d_head=8, d_inner=40,
    )  # fmt: skip
    result = look(transformers.FunnelModel(config).eval(), TEXT, tokenizer=word_pieces())
    panel = result.panels[0]
    text, merged = panel.sequences
    assert (text.name, merged.name) == ("text", "positions")
    assert [layer.name for layer in panel.layers] == [
        "encoder.blocks.0.0.attention", "encoder.blocks.0.1.attention",
        "encoder.blocks.1.0.attention", "decoder.layers.0.attention",
    ]  # fmt: skip
    assert panel.sequence_indices == [(0, 0), (0, 0), (1, 0), (0, 0)]
    for layer, (queries, keys) in zip(panel.layers, panel.sequence_indices, strict=True):
        assert layer.weights is not None
        lengths = [len(panel.sequences[index].texts) for index in (queries, keys)]
        assert list(layer.weights.shape[1:]) == lengths


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
    ("make", "message"),
    [
        (whisper, "WhisperForConditionalGeneration reads sound .*; give --sound FILE.wav"),
        (wav2vec, "Wav2Vec2Model reads sound"),
        (clip, "CLIPModel reads an image .*; give --image FILE"),
        (lambda: masked_bert(5), "needs more than this input"),  # too small a vocabulary
    ],
)
def test_unsupported_models(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        look(make().eval(), TEXT, tokenizer=word_pieces())
    assert "\n" not in str(error.value)


def test_folder_of_an_audio_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whisper().save_pretrained(tmp_path / "whisper")
    settings = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 80}
    (tmp_path / "whisper" / "preprocessor_config.json").write_text(json.dumps(settings))
    capsys.readouterr()
    code, _, error = run(f"look {tmp_path}/whisper --text a --out {tmp_path}/a.html", capsys)
    assert code == 2
    assert error.count("\n") == 1
    assert "reads sound" in error


def test_text_model_of_clip() -> None:
    """It is causal, though it generates nothing."""
    result = look(clip().text_model, TEXT, tokenizer=byte_pairs_of(60))
    assert result.panels[0].model.kind == "encoder"
    weights = result.panels[0].layers[0].weights
    assert weights is not None
    assert weights.triu(1).abs().max() == 0


def byte_pairs_of(count: int) -> Any:
    letters = Characters.train([TEXT]).characters
    from tokenizers import Tokenizer, decoders, models

    vocabulary = {letter: i for i, letter in enumerate(letters[:count])}
    fast = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    fast.decoder = decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=fast)
