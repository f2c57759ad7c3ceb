"""Text to ids and back: characters, bytes, or byte pairs learned from a text."""

from __future__ import annotations

import codecs
import json
import re
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab._safe_files import write_whole
from attnlab.run_folder._file_names import TOKENIZER

if TYPE_CHECKING:
    from tokenizers import Tokenizer as HuggingFace
    from tokenizers.models import Model

__all__ = ["BPE", "Bytes", "Characters", "Tokenizer", "load_tokenizer"]

LARGEST_FILE = 64 * 2**20  # bytes; GPT-2's own file has 2 MB
PAD_SYMBOL, MASK_SYMBOL = "\u25a1", "\u2047"  # □ ⁇ as the course writes them
SPECIAL_TOKENS = ("<|pad|>", "<|mask|>", "<|end|>")  # ids 0, 1, 2 of Bytes and BPE
SURROGATES = re.compile("([\ud800-\udfff]+)")  # halves of UTF-16 pairs: legal in str, not in UTF-8


class Tokenizer(ABC):
    """Ids run from 0 to `vocabulary` - 1."""

    vocabulary: int
    pad: int = 0
    mask: int = 1
    end: int
    """The end of a text."""

    @abstractmethod
    def encode_counting(self, text: str) -> tuple[list[int], Counter[str]]:
        """The ids, and how often each character was unknown and had to be replaced."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids, which may also be the elements of an integer array."""

    @abstractmethod
    def _json(self) -> str: ...

    def content(self, position: int) -> bytes:
        """What one id stands for, in UTF-8: of byte tokens perhaps a part of a character."""
        return self.decode([position]).encode("utf-8", "surrogatepass")

    def encode(self, text: str) -> list[int]:
        return self.encode_counting(text)[0]

    def save(self, path: str | Path) -> None:
        """Write this file, or tokenizer.json in this folder: the whole file or none of it."""
        path = Path(path)
        target = path / TOKENIZER if path.is_dir() else path
        content = self._json().encode("utf-8")
        write_whole(target, lambda part: _write(part, content))

    def _checked(self, ids: Iterable[int]) -> Iterator[int]:
        for each in map(index, ids):
            if not 0 <= each < self.vocabulary:
                raise ValueError(
                    f"decode: id {each} is not in the vocabulary; "
                    f"ids run from 0 to {self.vocabulary - 1}"
                )
            yield each


class Characters(Tokenizer):
    """One id per character: 0 is □ (pad), 1 is ⁇ (mask), then the characters in their order.

    □ and ⁇ in a text become ids 0 and 1, so that the course's 'prefix⁇suffix⁇masked□□' can be
    written as plain text. `end` is the pad: an extra id would change the course's vocabulary, a
    newline stands inside texts, and which places are padding is told by a mask, not by an id.
    """

    def __init__(self, characters: str) -> None:
        if not characters:
            raise ValueError("characters: none given; one or more are needed")
        for character, times in Counter(characters).items():
            if times > 1:
                raise ValueError(f"characters: {character!r} stands there {times} times, not once")
            if character in PAD_SYMBOL + MASK_SYMBOL:
                raise ValueError(f"characters: {character!r} has its id already; leave it out")
            if SURROGATES.match(character):
                raise ValueError(f"characters: {character!r} is a lone surrogate, no character")
        self.characters = characters
        self._symbols = PAD_SYMBOL + MASK_SYMBOL + characters
        self._ids = {symbol: position for position, symbol in enumerate(self._symbols)}
        self.vocabulary = len(self._symbols)
        self.end = self.pad

    @classmethod
    def train(cls, texts: Iterable[str]) -> Characters:
        """The distinct characters of the texts by code point; lone surrogates stay unknown."""
        found = set().union(*texts) - {PAD_SYMBOL, MASK_SYMBOL}
        return cls("".join(sorted(each for each in found if not SURROGATES.match(each))))

    def encode_counting(self, text: str) -> tuple[list[int], Counter[str]]:
        ids = self._ids
        unknown = {each: self._replacement(each) for each in set(text) if each not in ids}
        if not unknown:
            return [ids[each] for each in text], Counter()
        known = ids | unknown
        return (
            [known[each] for each in text],
            Counter({each: text.count(each) for each in sorted(unknown)}),
        )

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self._symbols[each] for each in self._checked(ids))

    def _replacement(self, character: str) -> int:
        parts = unicodedata.normalize("NFKD", character)
        # Only a letter with its accents has one base: the "1" of "½" would be another number.
        base = parts[0] if all(map(unicodedata.combining, parts[1:])) else "?"
        for candidate in (base, "?", " "):
            if candidate in self.characters:
                return self._ids[candidate]
        return self.pad

    def _json(self) -> str:
        return json.dumps({"type": "characters", "characters": self.characters})


class Bytes(Tokenizer):
    """One id per byte of UTF-8: 0 pad, 1 mask, 2 end, then the 256 bytes. Nothing is unknown.

    The three special ids decode to nothing.
    """

    vocabulary = len(SPECIAL_TOKENS) + 256
    end = 2

    def encode_counting(self, text: str) -> tuple[list[int], Counter[str]]:
        first = len(SPECIAL_TOKENS)
        return [first + byte for byte in text.encode("utf-8", "surrogatepass")], Counter()

    def decode(self, ids: Iterable[int]) -> str:
        first = len(SPECIAL_TOKENS)
        return _text(bytes(each - first for each in self._checked(ids) if each >= first))

    def content(self, position: int) -> bytes:
        byte = position - len(SPECIAL_TOKENS)
        return bytes([byte]) if byte >= 0 else b""

    def _json(self) -> str:
        return json.dumps({"type": "bytes"})


class BPE(Tokenizer):
    """Byte pairs merged by frequency, through Hugging Face's tokenizers. Nothing is unknown.

    0 pad, 1 mask, 2 end, the 256 bytes, then the merges. The special tokens' names inside a text
    are text like any other, and their ids decode to nothing: no document can end itself. (Other
    programs that open the file decide for themselves; Hugging Face's default parses the names.)
    """

    end = 2

    def __init__(self, tokenizer: HuggingFace) -> None:
        tokenizer.encode_special_tokens = True  # "encode" their names as text; is not in the file
        self._tokenizer = tokenizer
        self.vocabulary = tokenizer.get_vocab_size()
        byte_of = {letter: byte for byte, letter in enumerate(byte_letters())}
        self._bytes = [b""] * self.vocabulary  # of each id; the special ones stay empty
        self._byte_ids = [0] * 256
        for token, position in tokenizer.get_vocab().items():
            if token not in SPECIAL_TOKENS:
                self._bytes[position] = bytes(byte_of[letter] for letter in token)
            if len(token) == 1:
                self._byte_ids[byte_of[token]] = position

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int = 4096) -> BPE:
        """Merge what occurs twice or more until `vocabulary` ids exist; short texts give fewer."""
        from tokenizers import models, trainers

        if vocabulary < Bytes.vocabulary:
            raise ValueError(
                f"vocabulary {vocabulary}: the special tokens and the bytes alone take "
                f"{Bytes.vocabulary}; give that or more"
            )
        # The trainer adds the special tokens in the end. Were they known before, their names in
        # the texts would count as one word each, and merges would come to spell them.
        tokenizer = _byte_level(models.BPE())
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary,
            min_frequency=2,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=byte_letters(),
            show_progress=False,
        )
        tokenizer.train_from_iterator((SURROGATES.sub("", text) for text in texts), trainer)
        return cls(tokenizer)

    def encode_counting(self, text: str) -> tuple[list[int], Counter[str]]:
        ids: list[int] = []
        # The library takes UTF-8 alone, so lone surrogates, every second part, go byte by byte.
        for position, part in enumerate(SURROGATES.split(text)):
            if position % 2:
                ids += [self._byte_ids[byte] for byte in part.encode("utf-8", "surrogatepass")]
            else:
                ids += self._tokenizer.encode(part, add_special_tokens=False).ids
        return ids, Counter()

    def decode(self, ids: Iterable[int]) -> str:
        return _text(b"".join(self._bytes[each] for each in self._checked(ids)))

    def content(self, position: int) -> bytes:
        return self._bytes[position]

    def _json(self) -> str:
        return self._tokenizer.to_str(pretty=True)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer of this file, or of the tokenizer.json in this folder."""
    path = Path(path)
    file = path / TOKENIZER if path.is_dir() else path
    try:
        return _parsed(_read(file))
    except FileNotFoundError:
        raise ValueError(f"{file}: there is no such file") from None
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error.strerror})") from None
    except RecursionError:
        raise ValueError(f"{file}: is nested too deeply for a tokenizer") from None
    except ValueError as error:  # bad UTF-8 and bad JSON are of this kind too
        reason = " ".join(str(error).split())
        raise ValueError(f"{file}: is no tokenizer of ours: {reason}") from None


def _read(file: Path) -> str:
    if file.exists() and not file.is_file():
        raise ValueError("not a regular file")
    with file.open("rb") as stream:
        content = stream.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise ValueError(f"more than {LARGEST_FILE // 2**20} MB")
    return content.decode("utf-8")


def _parsed(content: str) -> Tokenizer:
    settings = json.loads(content)
    kind = settings.get("type") if isinstance(settings, dict) else None
    if kind == "characters":
        characters = settings.get("characters")
        if not isinstance(characters, str):
            raise ValueError('"characters" must be a text of all characters')
        return Characters(characters)
    if kind == "bytes":
        return Bytes()
    if isinstance(settings, dict) and isinstance(settings.get("model"), dict):
        return _parsed_bpe(settings)
    raise ValueError('neither "type" is "characters" or "bytes", nor is there a "model" of BPE')


def _parsed_bpe(settings: dict[str, Any]) -> BPE:
    """Only what was learned is taken from the file; the rest must be what `train` would write.

    Hugging Face's format can do far more than this, and its parser panics on some bad files.
    """
    from tokenizers import models

    model = dict(settings["model"])
    vocabulary, merges = model.pop("vocab", None), model.pop("merges", None)
    expected = json.loads(_with_special_tokens(models.BPE()).to_str())
    del expected["model"]["vocab"], expected["model"]["merges"]
    if not _agrees(settings | {"model": model}, expected):
        raise ValueError(
            "only plain byte-level BPE is supported, with no normalizer, no post-processor and "
            f"no added tokens but {', '.join(SPECIAL_TOKENS)}"
        )
    _check_vocabulary(vocabulary)
    pairs = _checked_merges(merges, vocabulary.keys() - set(SPECIAL_TOKENS))
    return BPE(_with_special_tokens(models.BPE(vocab=vocabulary, merges=pairs)))


def _agrees(given: Any, expected: Any) -> bool:
    """Equal, but that other versions of the library may leave out some settings."""
    if not isinstance(given, dict) or not isinstance(expected, dict):
        return bool(given == expected)
    return all(key in expected and _agrees(value, expected[key]) for key, value in given.items())


def _check_vocabulary(vocabulary: Any) -> None:
    if not isinstance(vocabulary, dict):
        raise ValueError('its "model" has no "vocab"')
    ids, letters = list(vocabulary.values()), set(byte_letters())
    if any(type(each) is not int for each in ids) or sorted(ids) != list(range(len(ids))):
        raise ValueError(f'the ids in "vocab" are not 0 to {len(ids) - 1}, each once')
    if [vocabulary.get(token) for token in SPECIAL_TOKENS] != [0, 1, 2]:
        raise ValueError(f'"vocab" does not begin with {", ".join(SPECIAL_TOKENS)}')
    if not letters <= vocabulary.keys():
        raise ValueError('"vocab" lacks some of the 256 bytes')
    for token in vocabulary.keys() - set(SPECIAL_TOKENS):
        if not token or not letters.issuperset(token):
            raise ValueError(f'"vocab" holds {token!r}, which is not made of bytes')


def _checked_merges(merges: Any, tokens: set[str]) -> list[tuple[str, str]]:
    """The special tokens are not among the tokens that a merge may make or use."""
    if not isinstance(merges, list):
        raise ValueError('its "model" has no "merges"')
    pairs = []
    for merge in merges:
        parts = merge.split(" ") if isinstance(merge, str) else merge  # older files: "a b"
        if not isinstance(parts, list) or len(parts) != 2 or not {*map(type, parts)} <= {str}:
            raise ValueError(f'"merges" holds {merge!r}, which is no pair of tokens')
        if not {*parts, "".join(parts)} <= tokens:
            raise ValueError(f'"merges" holds {merge!r}, which is not in "vocab"')
        pairs.append((parts[0], parts[1]))
    return pairs


def _byte_level(model: Model) -> HuggingFace:
    from tokenizers import Tokenizer as HuggingFace
    from tokenizers import decoders, pre_tokenizers

    tokenizer = HuggingFace(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _with_special_tokens(model: Model) -> HuggingFace:
    tokenizer = _byte_level(model)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def byte_letters() -> list[str]:
    """GPT-2's visible letter for each byte: its own in Latin-1 if there is one, else 256 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(byte if byte in visible else 256 + hidden.index(byte)) for byte in range(256)]


def _surrogate_or_replace(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogatepass")(error)
    except UnicodeError:
        return codecs.lookup_error("replace")(error)


codecs.register_error("attnlab.surrogate_or_replace", _surrogate_or_replace)


def _text(content: bytes) -> str:
    """A model may write any bytes: broken sequences become U+FFFD, only whole ones are text."""
    return content.decode("utf-8", "attnlab.surrogate_or_replace")


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
