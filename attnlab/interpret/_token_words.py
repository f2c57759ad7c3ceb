"""Which word each token belongs to, and how to show tokens that are parts of a character."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Sequence

# Scripts that are written without spaces: Thai, Lao, Burmese, Khmer, Chinese, Japanese.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff\uff00-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)


def encode_text(text: str) -> bytes:
    """UTF-8, also of lone surrogates, which a text may contain."""
    return text.encode("utf-8", "surrogatepass")


def decode_readable(content: bytes) -> str:
    """Decode UTF-8; bytes that are not a whole character become text like <0xE6>."""
    return content.decode("utf-8", "attnlab.named_bytes")


def word_numbers(
    contents: Sequence[bytes], alone: Sequence[bool], *, marked: bool = False
) -> list[int]:
    """The number of each token's word.

    White space separates words, and so does each token that is `alone`. In a script without
    spaces each token is a word, unless the tokenizer has `marked` the words itself: then only
    white space counts. A character is never split.
    """
    whole = b"".join(contents)
    words: list[int] = []
    word, offset, separated = -1, 0, True
    for content, single in zip(contents, alone, strict=True):
        begins = separated or single or not content
        if not begins and whole[offset] & 0xC0 != 0x80:  # otherwise it continues a character
            before = whole[max(0, offset - 4) : offset].decode("utf-8", "ignore")[-1:]
            after = whole[offset : offset + 4].decode("utf-8", "ignore")[:1]
            spaced = before.isspace() or after.isspace()
            begins = spaced or (not marked and _may_begin_word(before, after))
        word += begins
        words.append(word)
        offset += len(content)
        separated = single or not content
    return words


def _may_begin_word(before: str, after: str) -> bool:
    """Whether a word may begin between these characters: never with an accent or vowel sign."""
    if after and unicodedata.category(after).startswith("M"):
        return False
    return bool(UNSPACED.match(before) or UNSPACED.match(after))


def _named_bytes(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogatepass")(error)
    except UnicodeError:
        assert isinstance(error, UnicodeDecodeError)
        content = error.object[error.start : error.end]
        return "".join(f"<0x{byte:02X}>" for byte in content), error.end


codecs.register_error("attnlab.named_bytes", _named_bytes)
