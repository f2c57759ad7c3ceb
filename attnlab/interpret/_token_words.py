"""Which word each token belongs to, and how a token that is no whole character is shown."""

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


def encoded(text: str) -> bytes:
    """UTF-8; half surrogates too, which a text may hold."""
    return text.encode("utf-8", "surrogatepass")


def readable(content: bytes) -> str:
    """As text; bytes that are no whole character as <0xE6>."""
    return content.decode("utf-8", "attnlab.named_bytes")


def words_of(
    contents: Sequence[bytes], alone: Sequence[bool], *, marked: bool = False
) -> list[int]:
    """The number of each token's word. Words are parted by white space, and around each token
    that is `alone`. In a script without spaces each token is a word, unless a tokenizer has
    `marked` words by itself: then white space says all. A character is never parted.
    """
    whole = b"".join(contents)
    words: list[int] = []
    word, place, parted = -1, 0, True
    for content, single in zip(contents, alone, strict=True):
        begins = parted or single or not content
        if not begins and whole[place] & 0xC0 != 0x80:  # else it goes on with a character
            before = whole[max(0, place - 4) : place].decode("utf-8", "ignore")[-1:]
            after = whole[place : place + 4].decode("utf-8", "ignore")[:1]
            spaced = before.isspace() or after.isspace()
            begins = spaced or (not marked and _unspaced(before, after))
        word += begins
        words.append(word)
        place += len(content)
        parted = single or not content
    return words


def _unspaced(before: str, after: str) -> bool:
    """Whether a word may begin between these: not with an accent or a vowel sign."""
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
