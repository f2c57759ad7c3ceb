"""Tokens of Hugging Face tokenizers: what they stand for, and which words they make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnlab.huggingface._token_words import HuggingFaceTokens


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers", reason="transformers is not installed")


def made(model: Any, before: Any, decoder: Any, **changes: Any) -> Any:
    """A tokenizer of the tokenizers library, as transformers takes it."""
    from tokenizers import Tokenizer as Fast
    from transformers import PreTrainedTokenizerFast

    fast = Fast(model)
    fast.pre_tokenizer, fast.decoder = before, decoder
    return PreTrainedTokenizerFast(tokenizer_object=fast, **changes)


def seen(tokenizer: Any, text: str) -> tuple[list[str], list[int]]:
    tokens, read = HuggingFaceTokens(tokenizer), tokenizer(text, return_tensors="pt")
    ids = read["input_ids"][0].tolist()
    return [tokens.text(each) for each in ids], tokens.words(ids, tokens.word_hints(read))


@pytest.mark.usefixtures("transformers")
def test_byte_level_pieces() -> None:
    from tokenizers import decoders, models, pre_tokenizers

    letters = pre_tokenizers.ByteLevel.alphabet()
    names = [*letters, "æĹ", "Ġs", "Ġsa", "##"]
    vocabulary = {name: i for i, name in enumerate(names)}
    merges = [("æ", "Ĺ"), ("Ġ", "s"), ("Ġs", "a")]
    tokenizer = made(
        models.BPE(vocab=vocabulary, merges=merges),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    texts, words = seen(tokenizer, "I saw 日本")
    assert texts == ["I", " sa", "w", " ", "<0xE6><0x97>", "<0xA5>", "<0xE6>", "<0x9C>", "<0xAC>"]
    assert words == [0, 1, 1, 2, 3, 3, 4, 4, 4]


@pytest.mark.usefixtures("transformers")
def test_sentence_pieces_with_bytes() -> None:
    """As Llama's: ▁ is a space, and what has no piece is bytes; a line break is whole."""
    from tokenizers import decoders, models, pre_tokenizers

    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁I", "▁sa", "w", "▁", "本"]
    names += [f"▁{i}" for i in range(9)]
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer = made(
        models.Unigram([(name, -1.0) for name in names], unk_id=0, byte_fallback=True),
        pre_tokenizers.Metaspace(),
        decoders.Sequence(steps),
    )
    texts, words = seen(tokenizer, "I saw\n日本")
    assert texts == [" I", " sa", "w", "\n", "<0xE6>", "<0x97>", "<0xA5>", "本"]
    assert words == [0, 1, 1, 2, 3, 3, 3, 4]


def test_words_that_end_with_a_mark(transformers: Any) -> None:
    """CLIP's: bytes too, and a mark at the end of a word."""
    names = ["<|startoftext|>", "<|endoftext|>"]
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    names += [*letters, *(f"{letter}</w>" for letter in letters), "do", "dog</w>"]
    tokenizer = transformers.CLIPTokenizer(
        vocab={name: i for i, name in enumerate(names)}, merges=[("d", "o"), ("do", "g</w>")]
    )
    texts, words = seen(tokenizer, "dog du 日")
    assert texts == [
        "<|startoftext|>", "dog ", "d", "u ", "<0xE6>", "<0x97>", "<0xA5> ", "<|endoftext|>",
    ]  # fmt: skip
    assert words == [0, 1, 2, 2, 3, 3, 3, 4]


def test_words_that_go_on_with_a_mark(transformers: Any, tmp_path: Path) -> None:
    """fastBPE's, in Python alone: CTRL."""
    names = ["<unk>", "w", "a@@", "n@@", "t", "ed", "wan@@", "wa@@", "w@@", "to"]
    (tmp_path / "v.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    (tmp_path / "m.txt").write_text("#v\nw a\nwa n\nt o</w>\n\n")
    tokenizer = transformers.CTRLTokenizer(str(tmp_path / "v.json"), str(tmp_path / "m.txt"))
    texts, words = seen(tokenizer, "want to w")
    assert texts == ["wan@@", "t", "to", "w"]
    assert words == [0, 0, 1, 2]


@pytest.mark.usefixtures("transformers")
def test_no_mark_at_all() -> None:
    """Then the words are those that the tokenizer cut the text into; without it, each token."""
    from tokenizers import models, pre_tokenizers

    letters = sorted(set("Iwantedtobughr.") | {"日", "本"})
    vocabulary = {name: i for i, name in enumerate([*letters, "wa"])}
    before = pre_tokenizers.BertPreTokenizer()
    tokenizer = made(models.BPE(vocab=vocabulary, merges=[("w", "a")]), before, None)
    texts, words = seen(tokenizer, "I want.日本")
    assert texts == ["I", "wa", "n", "t", ".", "日", "本"]
    assert words == [0, 1, 1, 1, 2, 3, 3]
    assert HuggingFaceTokens(tokenizer).words([0, 1, 2], [None] * 3) == [0, 1, 2]
    whole = made(models.BPE(vocab=vocabulary, merges=[("w", "a")]), None, None)
    assert seen(whole, "want")[1] == [0, 1, 2]


def test_bytes_as_letters(transformers: Any) -> None:
    texts, words = seen(transformers.ByT5Tokenizer(), "a\u0080日 b")
    assert texts == [
        "a", "<0xC2>", "<0x80>", "<0xE6>", "<0x97>", "<0xA5>", " ", "b", "</s>",
    ]  # fmt: skip
    assert words == [0, 0, 0, 1, 1, 1, 2, 3, 4]
    assert seen(transformers.ByT5Tokenizer(), "dog")[1] == [0, 0, 0, 1]


class Many:
    """A tokenizer with as many tokens as Canine, whose names take time to make."""

    all_special_ids: tuple[int, ...] = ()
    unk_token_id = mask_token_id = None

    def __len__(self) -> int:
        return 1_114_112

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        assert len(ids) < 10_000
        assert max(ids) > 1_100_000
        return [f"\u0120{index}" if index % 10 else f"{index}" for index in ids]


@pytest.mark.usefixtures("transformers")
def test_not_all_tokens_are_asked_for_their_marks() -> None:
    assert HuggingFaceTokens(Many()).mark == "\u0120"


@pytest.mark.usefixtures("transformers")
def test_a_mask_is_a_word() -> None:
    from tokenizers import decoders, models, pre_tokenizers

    letters = pre_tokenizers.ByteLevel.alphabet()
    vocabulary = {name: i for i, name in enumerate([*letters, "Ġy", "Ġo", "Ġu"])}
    tokenizer = made(
        models.BPE(vocab=vocabulary, merges=[("Ġ", "y"), ("Ġ", "o"), ("Ġ", "u")]),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
        mask_token="<mask>",
    )
    texts, words = seen(tokenizer, "I<mask> you")
    assert texts == ["I", "<mask>", " y", "o", "u"]
    assert words == [0, 1, 2, 2, 2]
