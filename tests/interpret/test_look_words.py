"""Which word a token belongs to, and the texts of tokens that are parts of a character."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab.interpret._look import look
from attnlab.interpret._token_words import UNSPACED, decode_readable, encode_text, word_numbers
from attnlab.models import Decoder, StackConfig
from attnlab.tokenizer import BPE, Bytes, Characters, Tokenizer

SAMPLE = "I saw 日本語 and 👍🏽"


def contents_of(texts: list[str]) -> list[bytes]:
    return [encode_text(text) for text in texts]


def test_words_by_white_space() -> None:
    texts = ["the", " d", "og", " ", "x", "[SEP]", "y", "z ", "q", "", "r"]
    alone = [text == "[SEP]" for text in texts]
    assert word_numbers(contents_of(texts), alone) == [0, 1, 1, 2, 3, 4, 5, 5, 6, 7, 8]


def test_words_of_scripts_without_spaces() -> None:
    """日本 and 語 are two tokens without a space between them; กี is a letter and a vowel sign."""
    texts = ["in", "日本", "語", "ok", "ก", "ี", "ม"]
    assert word_numbers(contents_of(texts), [False] * 7) == [0, 1, 2, 3, 4, 4, 5]
    assert word_numbers(contents_of(texts), [False] * 7, marked=True) == [0] * 7
    parts = [b"a", b"\xe6", b"\x97", b"\xa5\xe6", b"\x9c\xac", b"\xe8\xaa\x9e"]
    assert word_numbers(parts, [False] * 6) == [0, 1, 1, 1, 1, 2]


@given(st.text("ab 日本語กี\u3000👍\u0301", max_size=12), st.data())
def test_words_depend_only_on_characters(text: str, data: st.DataObject) -> None:
    """Any split of a text, against a definition by the characters before and after each cut."""
    whole = encode_text(text)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(whole) - 1)))) if whole else [])
    cuts = [cut for cut in cuts if cut < len(whole)]
    edges = [0, *cuts, len(whole)]
    contents = [whole[a:b] for a, b in pairwise(edges)] if whole else []
    words = word_numbers(contents, [False] * len(contents))
    starts = {len(encode_text(text[:i])): i for i in range(len(text))}
    for number, cut in enumerate(cuts, start=1):
        same = words[number] == words[number - 1]
        if cut not in starts:
            assert same
            continue
        before, after = text[starts[cut] - 1], text[starts[cut]]
        accent = after in "\u0301ี"
        unspaced = (UNSPACED.match(before) or UNSPACED.match(after)) and not accent
        assert same == (not before.isspace() and not after.isspace() and not unspaced)
    assert words == sorted(words)


def test_names_of_incomplete_characters() -> None:
    assert decode_readable("é".encode()) == "é"
    assert decode_readable(b" \xe6\x97") == " <0xE6><0x97>"
    assert decode_readable(b"\xa5a") == "<0xA5>a"
    assert decode_readable("\ufffd".encode()) == "\ufffd"
    assert decode_readable(encode_text("\ud800")) == "\ud800"


@pytest.mark.parametrize("tokens", [Bytes(), BPE.train(["I saw and I saw and"], 270)])
def test_byte_tokenizers_of_attnlab(tokens: Tokenizer) -> None:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"width": 24, "layers": 1, "heads": 3}
    model = Decoder(StackConfig(vocabulary=tokens.vocabulary, context=40, **sizes))
    (sequence,) = look(model, SAMPLE, tokenizer=tokens, control=False).panels[0].sequences
    assert sequence.ids == tokens.encode(SAMPLE)
    text = "".join(sequence.texts)
    assert "\ufffd" not in text
    assert "<0xE6><0x97><0xA5>" in text
    index = sequence.texts.index("<0xE6>")
    assert len(set(sequence.words[index : index + 3])) == 1
    assert sequence.words[index + 3] == sequence.words[index] + 1


def test_byte_pairs_keep_their_spaces() -> None:
    text = "the dog ran in the park"
    tokens = BPE.train([text] * 3, 300)
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"width": 24, "layers": 1, "heads": 3}
    model = Decoder(StackConfig(vocabulary=tokens.vocabulary, context=40, **sizes))
    (sequence,) = look(model, text, tokenizer=tokens, control=False).panels[0].sequences
    assert "".join(sequence.texts) == text
    assert sequence.words[-1] == len(text.split()) - 1


def test_bytes_of_attnlab_tokens() -> None:
    tokens = Bytes()
    contents = [tokens.content(index) for index in range(tokens.vocabulary)]
    assert contents[:3] == [b""] * 3
    assert contents[3:] == [bytes([byte]) for byte in range(256)]
    assert Characters("ab").content(3) == b"b"
