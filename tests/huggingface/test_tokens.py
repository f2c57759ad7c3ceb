"""Tokens of Hugging Face tokenizers: their texts, and the words they form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnlab.huggingface._token_words import HuggingFaceTokens


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers", reason="transformers is not installed")


def make_tokenizer(model: Any, before: Any, decoder: Any, **changes: Any) -> Any:
    """A tokenizer of the tokenizers library, wrapped for transformers."""
    from tokenizers import Tokenizer as Fast
    from transformers import PreTrainedTokenizerFast

    fast = Fast(model)
    fast.pre_tokenizer, fast.decoder = before, decoder
    return PreTrainedTokenizerFast(tokenizer_object=fast, **changes)


def texts_and_words(tokenizer: Any, text: str) -> tuple[list[str], list[int]]:
    tokens, encoding = HuggingFaceTokens(tokenizer), tokenizer(text, return_tensors="pt")
    ids = encoding["input_ids"][0].tolist()
    return [tokens.text(index) for index in ids], tokens.words(ids, tokens.word_hints(encoding))


@pytest.mark.usefixtures("transformers")
def test_byte_level_pieces() -> None:
    from tokenizers import decoders, models, pre_tokenizers

    letters = pre_tokenizers.ByteLevel.alphabet()
    names = [*letters, "æĹ", "Ġs", "Ġsa", "##"]
    vocabulary = {name: i for i, name in enumerate(names)}
    merges = [("æ", "Ĺ"), ("Ġ", "s"), ("Ġs", "a")]
    tokenizer = make_tokenizer(
        models.BPE(vocab=vocabulary, merges=merges),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    texts, words = texts_and_words(tokenizer, "I saw 日本")
    assert texts == ["I", " sa", "w", " ", "<0xE6><0x97>", "<0xA5>", "<0xE6>", "<0x9C>", "<0xAC>"]
    assert words == [0, 1, 1, 2, 3, 3, 4, 4, 4]


@pytest.mark.usefixtures("transformers")
def test_sentence_pieces_with_bytes() -> None:
    """As in Llama: ▁ is a space, unknown characters become bytes, a line break is one token."""
    from tokenizers import decoders, models, pre_tokenizers

    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁I", "▁sa", "w", "▁", "本"]
    names += [f"▁{i}" for i in range(9)]
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer = make_tokenizer(
        models.Unigram([(name, -1.0) for name in names], unk_id=0, byte_fallback=True),
        pre_tokenizers.Metaspace(),
        decoders.Sequence(steps),
    )
    texts, words = texts_and_words(tokenizer, "I saw\n日本")
    assert texts == [" I", " sa", "w", "\n", "<0xE6>", "<0x97>", "<0xA5>", "本"]
    assert words == [0, 1, 1, 2, 3, 3, 3, 4]


def test_words_that_end_with_a_mark(transformers: Any) -> None:
    """As in CLIP: bytes, and a mark at the end of each word."""
    names = ["<|startoftext|>", "<|endoftext|>"]
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    names += [*letters, *(f"{letter}</w>" for letter in letters), "do", "dog</w>"]
    tokenizer = transformers.CLIPTokenizer(
        vocab={name: i for i, name in enumerate(names)}, merges=[("d", "o"), ("do", "g</w>")]
    )
    texts, words = texts_and_words(tokenizer, "dog du 日")
    assert texts == [
        "<|startoftext|>", "dog ", "d", "u ", "<0xE6>", "<0x97>", "<0xA5> ", "<|endoftext|>",
    ]  # fmt: skip
    assert words == [0, 1, 2, 2, 3, 3, 3, 4]


def test_words_that_continue_with_a_mark(transformers: Any, tmp_path: Path) -> None:
    """As in fastBPE: CTRL, a tokenizer in Python."""
    names = ["<unk>", "w", "a@@", "n@@", "t", "ed", "wan@@", "wa@@", "w@@", "to"]
    (tmp_path / "v.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    (tmp_path / "m.txt").write_text("#v\nw a\nwa n\nt o</w>\n\n")
    tokenizer = transformers.CTRLTokenizer(str(tmp_path / "v.json"), str(tmp_path / "m.txt"))
    texts, words = texts_and_words(tokenizer, "want to w")
    assert texts == ["wan@@", "t", "to", "w"]
    assert words == [0, 0, 1, 2]


@pytest.mark.usefixtures("transformers")
def test_tokenizer_without_marks() -> None:
    """The words are those of the pre-tokenizer; without one, each token is a word."""
    from tokenizers import models, pre_tokenizers

    letters = sorted(set("Iwantedtobughr.") | {"日", "本"})
    vocabulary = {name: i for i, name in enumerate([*letters, "wa"])}
    before = pre_tokenizers.BertPreTokenizer()
    tokenizer = make_tokenizer(models.BPE(vocab=vocabulary, merges=[("w", "a")]), before, None)
    texts, words = texts_and_words(tokenizer, "I want.日本")
    assert texts == ["I", "wa", "n", "t", ".", "日", "本"]
    assert words == [0, 1, 1, 1, 2, 3, 3]
    assert HuggingFaceTokens(tokenizer).words([0, 1, 2], [None] * 3) == [0, 1, 2]
    whole = make_tokenizer(models.BPE(vocab=vocabulary, merges=[("w", "a")]), None, None)
    assert texts_and_words(whole, "want")[1] == [0, 1, 2]


def test_bytes_as_letters(transformers: Any) -> None:
    texts, words = texts_and_words(transformers.ByT5Tokenizer(), "a\u0080日 b")
    assert texts == [
        "a", "<0xC2>", "<0x80>", "<0xE6>", "<0x97>", "<0xA5>", " ", "b", "</s>",
    ]  # fmt: skip
    assert words == [0, 0, 0, 1, 1, 1, 2, 3, 4]
    assert texts_and_words(transformers.ByT5Tokenizer(), "dog")[1] == [0, 0, 0, 1]


class LargeTokenizer:
    """A tokenizer with as many tokens as Canine, whose names are slow to get."""

    all_special_ids: tuple[int, ...] = ()
    unk_token_id = mask_token_id = None

    def __len__(self) -> int:
        return 1_114_112

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        assert len(ids) < 10_000
        assert max(ids) > 1_100_000
        return [f"\u0120{index}" if index % 10 else f"{index}" for index in ids]


@pytest.mark.usefixtures("transformers")
def test_marks_are_detected_from_a_sample() -> None:
    assert HuggingFaceTokens(LargeTokenizer()).mark == "\u0120"


@pytest.mark.usefixtures("transformers")
def test_mask_token_is_a_word() -> None:
    from tokenizers import decoders, models, pre_tokenizers

    letters = pre_tokenizers.ByteLevel.alphabet()
    vocabulary = {name: i for i, name in enumerate([*letters, "Ġy", "Ġo", "Ġu"])}
    tokenizer = make_tokenizer(
        models.BPE(vocab=vocabulary, merges=[("Ġ", "y"), ("Ġ", "o"), ("Ġ", "u")]),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
        mask_token="<mask>",
    )
    texts, words = texts_and_words(tokenizer, "I<mask> you")
    assert texts == ["I", "<mask>", " y", "o", "u"]
    assert words == [0, 1, 2, 2, 2]
