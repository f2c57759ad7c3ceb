"""The texts of a Hugging Face tokenizer's tokens, and which words they form."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from attnlab.interpret._token_words import decode_readable, encode_text, word_numbers
from attnlab.tokenizer import byte_letters

# How tokenizers mark words in their vocabularies: a space before a word (byte pairs,
# SentencePiece), a piece that continues a word (WordPiece), the end of a word (CLIP, the first
# GPT, XLM), a piece before the end (fastBPE).
SPACES = ("\u0120", "\u2581")
CONTINUES, ENDS, NOT_ENDED = "##", "</w>", "@@"
MIN_FRACTION = 0.01  # of a vocabulary that must have a mark
SAMPLE_SIZE = 5000  # tokens: Canine has a million
BYTE = re.compile("<0x([0-9A-F]{2})>")
# GPT-2's letter for each byte; ByT5 writes the bytes that have none as themselves
BYTES = {chr(byte): byte for byte in range(0x80, 0x100)} | {
    letter: byte for byte, letter in enumerate(byte_letters())
}


class HuggingFaceTokens:
    """Texts and words of a tokenizer's tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.named = set(tokenizer.all_special_ids)
        """Ids of special tokens, whose text is their name."""
        # an unknown or masked word is a word, not a separator
        self.special = self.named - {tokenizer.unk_token_id, tokenizer.mask_token_id}

    @cached_property
    def mark(self) -> str:
        """The mark of words in its vocabulary: " " if spaces are tokens, "" if there is none."""
        count = len(self.tokenizer)
        sampled = self.tokenizer.convert_ids_to_tokens(
            list(range(0, count, count // SAMPLE_SIZE + 1))
        )
        names = [str(name) for name in sampled if name is not None]
        for mark in (*SPACES, CONTINUES):
            if sum(name.startswith(mark) for name in names) > MIN_FRACTION * len(names):
                return mark
        for mark in (ENDS, NOT_ENDED):
            if sum(name.endswith(mark) for name in names) > MIN_FRACTION * len(names):
                return mark
        space = self.tokenizer.convert_tokens_to_ids(" ")
        return "" if space in (None, self.tokenizer.unk_token_id) else " "

    def text(self, index: int) -> str:
        return decode_readable(self.content(index))

    def content(self, index: int) -> bytes:
        """The token's bytes in a text: spaces as spaces, pieces with their ## and @@."""
        token = self.tokenizer.convert_ids_to_tokens(index)
        if token is None:
            return encode_text(f"<{index}>")
        if index in self.named or self.mark in (CONTINUES, NOT_ENDED):
            return encode_text(token)
        if SPACES[1] in token:
            return encode_text(token.replace(SPACES[1], " "))
        decoded = self.tokenizer.decode([index], clean_up_tokenization_spaces=False)
        ended = self.mark == ENDS and token.endswith(ENDS)
        name = token.removesuffix(ENDS) if ended else token
        content = encode_text(decoded or name)
        if not decoded or "\ufffd" in decoded:
            content = _spelled_bytes(name) or content
        return content + b" " * ended

    def words(self, ids: list[int], hints: list[object]) -> list[int]:
        """The number of each token's word; `hints` come from `word_hints`."""
        contents = [self.content(index) for index in ids]
        alone = [index in self.special or index == self.tokenizer.mask_token_id for index in ids]
        if self.mark == CONTINUES:
            contents = [x[2:] if x.startswith(b"##") else b" " + x for x in contents]
        elif self.mark == NOT_ENDED:
            contents = [x[:-2] if x.endswith(b"@@") else x + b" " for x in contents]
        elif not self.mark:
            return _number_by_hints(hints)
        marked = self.mark in (CONTINUES, ENDS, NOT_ENDED)
        return word_numbers(contents, alone, marked=marked)

    def word_hints(self, encoding: Any) -> list[object]:
        """For each token the word that it was split from, if the tokenizer knows it, else None."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None or backend.pre_tokenizer is None or not encoding.is_fast:
            return [None] * len(encoding["input_ids"][0])
        pairs = zip(encoding.sequence_ids(0), encoding.word_ids(0), strict=True)
        return [None if word is None else (sequence, word) for sequence, word in pairs]


def _spelled_bytes(name: str) -> bytes | None:
    """The bytes of a token whose name spells them."""
    fallback = BYTE.fullmatch(name)
    if fallback:
        return bytes([int(fallback[1], 16)])
    if all(letter in BYTES for letter in name):
        return bytes(BYTES[letter] for letter in name)
    return None


def _number_by_hints(hints: list[object]) -> list[int]:
    """Neighbors with equal hints are one word; a token without a hint is a word."""
    words: list[int] = []
    for index, hint in enumerate(hints):
        same = index > 0 and hint is not None and hint == hints[index - 1]
        words.append((words[-1] if words else -1) + (not same))
    return words
