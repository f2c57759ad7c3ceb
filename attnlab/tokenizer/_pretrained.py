"""The tokenizer of a pretrained model, in the format of Hugging Face's tokenizers.

The file may be broken or hostile: its size is bounded, and a panic of the library is an error.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from attnlab._short_repr import one_line, short_repr
from attnlab.tokenizer import SURROGATES, Tokenizer, _text, byte_letters

if TYPE_CHECKING:
    from tokenizers import Tokenizer as HuggingFace

__all__ = ["Pretrained", "parse_pretrained"]

LARGEST_ID = 2**22
BYTE = re.compile("<0x([0-9A-F]{2})>")
T = TypeVar("T")


class Pretrained(Tokenizer):
    """Encodes exactly as the `tokenizers` library does with this file, without special tokens.

    Unlike in attnlab's own tokenizers, the names of special tokens in a text become their ids, as
    the prompts of chat models need them. Ids decode to the text that they stand for, with the space
    before it.
    """

    def __init__(
        self, tokenizer: HuggingFace, *, end: int, pad: int | None = None, mask: int | None = None
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = False
        self.tokenizer = tokenizer
        ids = tokenizer.get_vocab(with_added_tokens=True)
        self.vocabulary = 1 + max(ids.values(), default=-1)
        if not 0 < self.vocabulary <= LARGEST_ID:
            raise ValueError(f"its largest id is {self.vocabulary - 1}; give 0 to {LARGEST_ID - 1}")
        self.end, self.pad = end, end if pad is None else pad
        self.mask = self.pad if mask is None else mask
        for name, token in (("end", end), ("pad", self.pad), ("mask", self.mask)):
            if not 0 <= token < self.vocabulary:
                raise ValueError(f"{name} is {token}; ids run from 0 to {self.vocabulary - 1}")
        added = tokenizer.get_added_tokens_decoder()
        self._names = {number: token.content for number, token in added.items() if token.special}
        content = _content_function(json.loads(tokenizer.to_str()).get("decoder"))
        self._bytes = [b""] * self.vocabulary
        for text, number in ids.items():
            if number in added and number not in self._names:
                self._bytes[number] = text.encode("utf-8", "surrogatepass")
            elif number not in self._names:
                self._bytes[number] = content(text)
        plain, whole = (self._encode("a", special=special) for special in (False, True))
        count = next((i for i in range(len(whole)) if whole[i:][: len(plain)] == plain), 0)
        self._prefix, self._suffix = whole[:count], whole[count + len(plain) :]

    @property
    def begin(self) -> int:
        return self._prefix[-1] if self._prefix else self.end

    @property
    def added_ids(self) -> tuple[list[int], list[int]]:
        return self._prefix, self._suffix

    @property
    def special_ids(self) -> frozenset[int]:
        return frozenset({*self._names, self.pad, self.end} - {self.mask})

    def special_name(self, token: int) -> str | None:
        return self._names.get(token)

    def encode_counting(self, text: str) -> tuple[list[int], Counter[str]]:
        return self._encode(text, special=False), Counter()

    def encode_prompt(self, text: str) -> tuple[list[int], Counter[str]]:
        return [*self._prefix, *self.encode(text)] or [self.end], Counter()

    def encode_whole(self, text: str) -> list[int]:
        return self._encode(text, special=True)

    def join(self, first: list[int], second: list[int]) -> tuple[list[int], list[int]]:
        if not self._suffix:
            return super().join(first, second)
        rest = second[len(self._prefix) :]  # [CLS] one [SEP] two [SEP]
        return [*first, *rest], [0] * len(first) + [1] * len(rest)

    def _encode(self, text: str, *, special: bool) -> list[int]:
        clean = SURROGATES.sub("\ufffd", text)  # the library accepts only UTF-8
        encoded = without_panic(lambda: self.tokenizer.encode(clean, add_special_tokens=special))
        return list(encoded.ids)

    def decode(self, ids: Iterable[int]) -> str:
        """A model may have more ids than its tokenizer: they stand for no text."""
        known = (token for token in map(int, ids) if 0 <= token < self.vocabulary)
        return _text(b"".join(self._bytes[token] for token in known))

    def content(self, token: int) -> bytes:
        return self._bytes[token] if 0 <= token < self.vocabulary else b""

    def to_json(self) -> str:
        ids = {"end": self.end, "pad": self.pad, "mask": self.mask}
        return json.dumps(
            {"type": "pretrained", **ids, "tokenizer": json.loads(self.tokenizer.to_str())}
        )


def parse_pretrained(settings: dict[str, Any]) -> Pretrained:
    """The tokenizer that `Pretrained.to_json` describes."""
    ids = {name: settings.get(name) for name in ("end", "pad", "mask")}
    for name, value in ids.items():
        if type(value) is not int:
            raise ValueError(f"{name} is {short_repr(value)}; give an id")
    return open_pretrained(settings.get("tokenizer"), **ids)  # type: ignore[arg-type]


def open_pretrained(
    content: Any, *, end: int, pad: int | None = None, mask: int | None = None
) -> Pretrained:
    """The tokenizer of the parsed content of a tokenizer.json of Hugging Face."""
    from tokenizers import Tokenizer as HuggingFace

    text = json.dumps(content)
    return Pretrained(
        without_panic(lambda: HuggingFace.from_str(text)), end=end, pad=pad, mask=mask
    )


def without_panic(call: Callable[[], T]) -> T:
    """What `call` returns. An error of the library, which may be no Exception, is a ValueError."""
    try:
        return call()
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise ValueError(f"the tokenizers library failed ({one_line(error, 200)})") from None
        raise


def _content_function(decoder: Any) -> Callable[[str], bytes]:
    """From the text of a token in the vocabulary to the bytes that it stands for."""
    kinds = _decoder_kinds(decoder)
    byte_of = {letter: byte for byte, letter in enumerate(byte_letters())}

    def content(token: str) -> bytes:
        if "ByteLevel" in kinds and all(letter in byte_of for letter in token):
            return bytes(byte_of[letter] for letter in token)
        single = BYTE.fullmatch(token)
        if "ByteFallback" in kinds and single is not None:
            return bytes([int(single[1], 16)])
        if "WordPiece" in kinds:
            token = token[2:] if token.startswith("##") else f" {token}"
        elif kinds & {"Metaspace", "Replace"}:
            token = token.replace("\u2581", " ")
        return token.encode("utf-8", "surrogatepass")

    return content


def _decoder_kinds(decoder: Any) -> set[str]:
    if not isinstance(decoder, dict):
        return set()
    parts = decoder.get("decoders")
    nested = [_decoder_kinds(part) for part in parts] if isinstance(parts, list) else []
    return {str(decoder.get("type"))}.union(*nested)
