"""What the tokens of a Hugging Face tokenizer stand for, and which words they make."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from attnlab.interpret._token_words import encoded, readable, words_of
from attnlab.tokenizer import byte_letters

# How tokenizers mark words in their vocabularies: a space before a word (byte pairs,
# SentencePiece), a piece that goes on with a word (WordPiece), the end of a word (CLIP, the first
# GPT, XLM), a piece that is not the end (fastBPE).
SPACES = ("\u0120", "\u2581")
GOES_ON, ENDS, NOT_ENDED = "##", "</w>", "@@"
SHARE = 0.01  # of a vocabulary; what is rarer is no custom
SAMPLED = 5000  # of its tokens: Canine has a million
BYTE = re.compile("<0x([0-9A-F]{2})>")
# GPT-2's letter for each byte; ByT5 writes the bytes that have none as themselves
BYTES = {chr(byte): byte for byte in range(0x80, 0x100)} | {
    letter: byte for byte, letter in enumerate(byte_letters())
}


class HuggingFaceTokens:
    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.named = set(tokenizer.all_special_ids)
        """Ids whose text is their name."""
        # an unknown or masked word is a word: no separator, and nothing to hide
        self.special = self.named - {tokenizer.unk_token_id, tokenizer.mask_token_id}

    @cached_property
    def mark(self) -> str:
        """By which its vocabulary tells words apart: " " where spaces are tokens, "" if by
        nothing."""
        count = len(self.tokenizer)
        sampled = self.tokenizer.convert_ids_to_tokens(list(range(0, count, count // SAMPLED + 1)))
        names = [str(each) for each in sampled if each is not None]
        for mark in (*SPACES, GOES_ON):
            if sum(name.startswith(mark) for name in names) > SHARE * len(names):
                return mark
        for mark in (ENDS, NOT_ENDED):
            if sum(name.endswith(mark) for name in names) > SHARE * len(names):
                return mark
        space = self.tokenizer.convert_tokens_to_ids(" ")
        return "" if space in (None, self.tokenizer.unk_token_id) else " "

    def text(self, index: int) -> str:
        return readable(self.content(index))

    def content(self, index: int) -> bytes:
        """As it stands in a text, spaces as spaces, pieces with their ## and @@."""
        token = self.tokenizer.convert_ids_to_tokens(index)
        if token is None:
            return encoded(f"<{index}>")
        if index in self.named or self.mark in (GOES_ON, NOT_ENDED):
            return encoded(token)
        if SPACES[1] in token:
            return encoded(token.replace(SPACES[1], " "))
        said = self.tokenizer.decode([index], clean_up_tokenization_spaces=False)
        ended = self.mark == ENDS and token.endswith(ENDS)
        name = token.removesuffix(ENDS) if ended else token
        found = encoded(said or name)
        if not said or "\ufffd" in said:
            found = _bytes(name) or found
        return found + b" " * ended

    def words(self, ids: list[int], hints: list[object]) -> list[int]:
        """The number of each token's word; `hints` are what `word_hints` said of them."""
        contents = [self.content(index) for index in ids]
        alone = [index in self.special or index == self.tokenizer.mask_token_id for index in ids]
        if self.mark == GOES_ON:
            contents = [x[2:] if x.startswith(b"##") else b" " + x for x in contents]
        elif self.mark == NOT_ENDED:
            contents = [x[:-2] if x.endswith(b"@@") else x + b" " for x in contents]
        elif not self.mark:
            return _numbered(hints)
        marked = self.mark in (GOES_ON, ENDS, NOT_ENDED)
        return words_of(contents, alone, marked=marked)

    def word_hints(self, encoding: Any) -> list[object]:
        """Of each token of a text the word that it was cut from, None where nobody knows."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None or backend.pre_tokenizer is None or not encoding.is_fast:
            return [None] * len(encoding["input_ids"][0])
        pairs = zip(encoding.sequence_ids(0), encoding.word_ids(0), strict=True)
        return [None if word is None else (sequence, word) for sequence, word in pairs]


def _bytes(name: str) -> bytes | None:
    """Of a token whose name spells bytes."""
    fallback = BYTE.fullmatch(name)
    if fallback:
        return bytes([int(fallback[1], 16)])
    if all(letter in BYTES for letter in name):
        return bytes(BYTES[letter] for letter in name)
    return None


def _numbered(hints: list[object]) -> list[int]:
    """A word where hints are alike; without a hint a token is a word."""
    words: list[int] = []
    for place, hint in enumerate(hints):
        same = place > 0 and hint is not None and hint == hints[place - 1]
        words.append((words[-1] if words else -1) + (not same))
    return words
