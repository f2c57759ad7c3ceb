"""Text to ids and back: characters, bytes, byte pairs, or the tokenizer of a pretrained model."""

from __future__ import annotations

import codecs
import json
import re
import sys
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab._pretokenize import UNITS
from attnlab._safe_files import write_atomically
from attnlab._short_repr import one_line, short_repr
from attnlab.run_folder._file_names import TOKENIZER

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer as HuggingFace
    from tokenizers.models import Model

__all__ = ["BPE", "Bytes", "Characters", "Tokenizer", "load_tokenizer"]

MAX_FILE_BYTES = 64 * 2**20  # GPT-2's own file has 2 MB
PAD_SYMBOL, MASK_SYMBOL = "\u25a1", "\u2047"  # □ ⁇ as the course writes them
SPECIAL_TOKENS = ("<|pad|>", "<|mask|>", "<|end|>")  # ids 0, 1, 2 of Bytes and BPE
MAX_REMEMBERED_UNITS = 2**18  # about 60 MB
LONGEST_REMEMBERED_UNIT = 40  # characters; longer ones rarely come again
SURROGATES = re.compile("([\ud800-\udfff]+)")  # halves of UTF-16 pairs: legal in str, not in UTF-8


class Tokenizer(ABC):
    """Converts text to token ids and back. Ids run from 0 to `vocabulary` - 1."""

    vocabulary: int
    pad: int = 0
    mask: int = 1
    end: int
    """The id that ends a text."""

    @abstractmethod
    def encode_counting(self, text: str) -> tuple[list[int], Counter[str]]:
        """The ids, and how often each unknown character was replaced."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids: a list, or the elements of an integer array."""

    @abstractmethod
    def to_json(self) -> str:
        """The content of tokenizer.json."""

    def content(self, token: int) -> bytes:
        """The UTF-8 bytes of one id; for byte tokens perhaps only a part of a character."""
        return self.decode([token]).encode("utf-8", "surrogatepass")

    def encode(self, text: str) -> list[int]:
        return self.encode_counting(text)[0]

    def encode_array(self, text: str) -> tuple[np.ndarray, Counter[str]]:
        """`encode_counting` for long texts: the ids as an array of `id_type`."""
        import numpy as np

        ids, replaced = self.encode_counting(text)
        return np.array(ids, self.id_type), replaced

    @property
    def id_type(self) -> np.dtype:
        """The smallest unsigned integers that hold every id."""
        import numpy as np

        return np.min_scalar_type(self.vocabulary - 1)

    @property
    def begin(self) -> int:
        """The id before a text."""
        return self.end

    def encode_prompt(self, text: str) -> tuple[list[int], Counter[str]]:
        """`encode_counting` of a text that a model continues: it begins with `begin`."""
        ids, replaced = self.encode_counting(text)
        return [self.begin, *ids], replaced

    @property
    def added_ids(self) -> tuple[list[int], list[int]]:
        """The ids that `encode_whole` adds before and after a text."""
        return [], []

    def encode_whole(self, text: str) -> list[int]:
        """The ids of a text as a model reads it alone. A pretrained tokenizer may add some."""
        return self.encode(text)

    def join(self, first: list[int], second: list[int]) -> tuple[list[int], list[int]]:
        """Two texts, each from `encode_whole`, as a model reads them together: the ids, and the
        number of each id's text."""
        return [*first, self.end, *second], [0] * (len(first) + 1) + [1] * len(second)

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that stand for no text; `mask` is not one of them."""
        return frozenset({self.pad, self.end} - {self.mask})

    def special_name(self, token: int) -> str | None:
        """How to show an id that stands for no text; None for any other."""
        if token == self.mask:
            return MASK_SYMBOL
        return SPECIAL_TOKENS[token] if token < len(SPECIAL_TOKENS) else None

    def save(self, path: str | Path) -> None:
        """Write this file, or tokenizer.json in this folder, atomically."""
        path = Path(path)
        target = path / TOKENIZER if path.is_dir() else path
        content = self.to_json().encode("utf-8")
        write_atomically(target, lambda part: _write(part, content))

    def _checked(self, ids: Iterable[int]) -> Iterator[int]:
        for token in map(index, ids):
            if not 0 <= token < self.vocabulary:
                raise ValueError(
                    f"decode: id {token} is not in the vocabulary; "
                    f"ids run from 0 to {self.vocabulary - 1}"
                )
            yield token


class Characters(Tokenizer):
    """One id per character: 0 is □ (pad), 1 is ⁇ (mask), then the characters in their order.

    □ and ⁇ in a text become ids 0 and 1, so that you can write the course's
    'prefix⁇suffix⁇masked□□' as plain text. `end` equals the pad id: an extra id would change the
    course's vocabulary, and newlines occur inside texts. Padding is marked by a mask, not by an id.
    """

    def __init__(self, characters: str) -> None:
        if not characters:
            raise ValueError("characters is empty; give one or more")
        for character, times in Counter(characters).items():
            if times > 1:
                raise ValueError(f"characters: {character!r} occurs {times} times; give it once")
            if character in PAD_SYMBOL + MASK_SYMBOL:
                raise ValueError(f"characters: {character!r} has a reserved id; leave it out")
            if SURROGATES.match(character):
                raise ValueError(f"characters: {character!r} is a lone surrogate, not a character")
        self.characters = characters
        self._symbols = PAD_SYMBOL + MASK_SYMBOL + characters
        self._ids = {symbol: token for token, symbol in enumerate(self._symbols)}
        self.vocabulary = len(self._symbols)
        self.end = self.pad

    @classmethod
    def train(cls, texts: Iterable[str]) -> Characters:
        """The distinct characters of the texts by code point; lone surrogates stay unknown."""
        characters: set[str] = set()
        known = b""  # the ASCII characters among them; most texts have no other
        for text in texts:
            if text.isascii():
                new = text.encode("ascii").translate(None, known).decode("ascii")
                known += bytes(map(ord, set(new)))
                characters.update(new)
            else:
                characters.update(text)
        characters -= {PAD_SYMBOL, MASK_SYMBOL}
        return cls("".join(sorted(c for c in characters if not SURROGATES.match(c))))

    def encode_counting(self, text: str) -> tuple[list[int], Counter[str]]:
        ids = self._ids
        replaced = {c: self._replacement(c) for c in set(text) if c not in ids}
        if replaced:
            ids = ids | replaced
        counts = Counter({c: text.count(c) for c in sorted(replaced)})
        return [ids[c] for c in text], counts

    def encode_array(self, text: str) -> tuple[np.ndarray, Counter[str]]:
        import numpy as np

        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        ids = self._ids_by_code[codes]
        unknown, where, counts = np.unique(codes[ids < 0], return_inverse=True, return_counts=True)
        if len(unknown):
            characters = list(map(chr, unknown.tolist()))
            ids[ids < 0] = np.array([self._replacement(c) for c in characters])[where]
            return ids.astype(self.id_type), Counter(
                dict(zip(characters, counts.tolist(), strict=True))
            )
        return ids.astype(self.id_type), Counter()

    @cached_property
    def _ids_by_code(self) -> np.ndarray:
        """The id of each code point, -1 for an unknown one."""
        import numpy as np

        ids = np.full(sys.maxunicode + 1, -1, np.int32)
        ids[[ord(symbol) for symbol in self._symbols]] = np.arange(self.vocabulary)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self._symbols[token] for token in self._checked(ids))

    def _replacement(self, character: str) -> int:
        parts = unicodedata.normalize("NFKD", character)
        # Only a letter with accents has a base: for "½" it would be "1", another number.
        base = parts[0] if all(map(unicodedata.combining, parts[1:])) else "?"
        for candidate in (base, "?", " "):
            if candidate in self.characters:
                return self._ids[candidate]
        return self.pad

    def special_name(self, token: int) -> str | None:
        return MASK_SYMBOL if token == self.mask else None

    def to_json(self) -> str:
        return json.dumps({"type": "characters", "characters": self.characters})


class Bytes(Tokenizer):
    """One id per byte of UTF-8: 0 pad, 1 mask, 2 end, then the 256 bytes. No text is unknown.

    The three special ids decode to empty text.
    """

    vocabulary = len(SPECIAL_TOKENS) + 256
    end = 2

    def encode_counting(self, text: str) -> tuple[list[int], Counter[str]]:
        first = len(SPECIAL_TOKENS)
        return [first + byte for byte in text.encode("utf-8", "surrogatepass")], Counter()

    def encode_array(self, text: str) -> tuple[np.ndarray, Counter[str]]:
        import numpy as np

        content = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        return content + self.id_type.type(len(SPECIAL_TOKENS)), Counter()

    def decode(self, ids: Iterable[int]) -> str:
        first = len(SPECIAL_TOKENS)
        return _text(bytes(token - first for token in self._checked(ids) if token >= first))

    def content(self, token: int) -> bytes:
        byte = token - len(SPECIAL_TOKENS)
        return bytes([byte]) if byte >= 0 else b""

    def to_json(self) -> str:
        return json.dumps({"type": "bytes"})


class BPE(Tokenizer):
    """Byte-pair encoding with Hugging Face's tokenizers. No text is unknown.

    Ids: 0 pad, 1 mask, 2 end, the 256 bytes, then the merges. The names of special tokens inside a
    text are ordinary text, and their ids decode to empty text, so that no document can end itself.
    (Other programs that open the file may parse these names; Hugging Face does by default.)
    """

    end = 2

    def __init__(self, tokenizer: HuggingFace) -> None:
        tokenizer.encode_special_tokens = (
            True  # encode their names as text; the file does not store this
        )
        self._tokenizer = tokenizer
        self.vocabulary = tokenizer.get_vocab_size()
        byte_of = {letter: byte for byte, letter in enumerate(byte_letters())}
        self._bytes = [b""] * self.vocabulary  # the bytes of each id; empty for special ids
        self._byte_ids = [0] * 256
        self._unit_ids: dict[str, bytes] = {}
        for text, token in tokenizer.get_vocab().items():
            if text not in SPECIAL_TOKENS:
                self._bytes[token] = bytes(byte_of[letter] for letter in text)
            if len(text) == 1:
                self._byte_ids[byte_of[text]] = token

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int = 4096) -> BPE:
        """Merge pairs that occur at least twice, up to `vocabulary` ids; short texts give fewer."""
        from tokenizers import models, trainers

        if vocabulary < Bytes.vocabulary:
            raise ValueError(
                f"vocabulary is {vocabulary}; give {Bytes.vocabulary} or more, because the special "
                "tokens and the bytes need that many"
            )
        # The trainer adds the special tokens last. Added before, their names in the texts would
        # count as words, and merges would learn to spell them.
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
        # The library accepts only UTF-8. Lone surrogates, every second part, are encoded as bytes.
        for number, part in enumerate(SURROGATES.split(text)):
            if number % 2:
                ids += [self._byte_ids[byte] for byte in part.encode("utf-8", "surrogatepass")]
            else:
                ids += self._tokenizer.encode(part, add_special_tokens=False).ids
        return ids, Counter()

    def encode_array(self, text: str) -> tuple[np.ndarray, Counter[str]]:
        """Encodes each unit of the text once and remembers it: texts repeat their words."""
        import numpy as np

        if len(self._unit_ids) > MAX_REMEMBERED_UNITS:
            self._unit_ids.clear()
        units, known = UNITS.findall(text), self._unit_ids
        new = [unit for unit in set(units) if unit not in known]
        broken = [unit for unit in new if SURROGATES.search(unit)] if not text.isascii() else []
        for unit in broken:
            known[unit] = np.array(self.encode(unit), self.id_type).tobytes()
        new = [unit for unit in new if unit not in known] if broken else new
        encoded = self._tokenizer.encode_batch_fast(new, add_special_tokens=False)
        for unit, encoding in zip(new, encoded, strict=True):
            known[unit] = np.array(encoding.ids, self.id_type).tobytes()
        ids = np.frombuffer(b"".join(map(known.__getitem__, units)), self.id_type)
        for unit in (*new, *broken):
            if len(unit) > LONGEST_REMEMBERED_UNIT:
                del known[unit]
        return ids, Counter()

    def decode(self, ids: Iterable[int]) -> str:
        return _text(b"".join(self._bytes[token] for token in self._checked(ids)))

    def content(self, token: int) -> bytes:
        return self._bytes[token]

    def to_json(self) -> str:
        return self._tokenizer.to_str(pretty=True)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """The tokenizer of this file, or of the tokenizer.json in this folder.

    >>> from attnlab.tokenizer import Characters, load_tokenizer
    >>> Characters.train(["the cat"]).save("tokenizer.json")
    >>> tokenizer = load_tokenizer("tokenizer.json")
    >>> tokenizer.decode(tokenizer.encode("cat"))
    'cat'
    """
    path = Path(path)
    file = path / TOKENIZER if path.is_dir() else path
    try:
        return parse_tokenizer(_read(file))
    except FileNotFoundError:
        raise ValueError(f"{file}: does not exist") from None
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error.strerror})") from None
    except RecursionError:
        raise ValueError(f"{file}: is nested too deeply for a tokenizer") from None
    except ValueError as error:  # includes bad UTF-8 and bad JSON
        reason = one_line(error)
        raise ValueError(f"{file}: not an attnlab tokenizer: {reason}") from None


def _read(file: Path) -> str:
    if file.exists() and not file.is_file():
        raise ValueError("not a regular file")
    with file.open("rb") as stream:
        content = stream.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"more than {MAX_FILE_BYTES // 2**20} MB")
    return content.decode("utf-8")


def parse_tokenizer(content: str) -> Tokenizer:
    """The tokenizer of the content of a tokenizer.json."""
    settings = json.loads(content)
    kind = settings.get("type") if isinstance(settings, dict) else None
    if kind == "characters":
        characters = settings.get("characters")
        if not isinstance(characters, str):
            raise ValueError('"characters" must be a string of all characters')
        return Characters(characters)
    if kind == "bytes":
        return Bytes()
    if kind == "pretrained":
        from attnlab.tokenizer._pretrained import parse_pretrained

        return parse_pretrained(settings)
    if isinstance(settings, dict) and isinstance(settings.get("model"), dict):
        return _parse_bpe(settings)
    raise ValueError(
        '"type" is not "characters", "bytes" or "pretrained", and there is no BPE "model"'
    )


def _parse_bpe(settings: dict[str, Any]) -> BPE:
    """Take only what was learned from the file; the rest must equal what `train` writes.

    Hugging Face's format allows far more, and its parser panics on some bad files.
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


def _agrees(settings: Any, expected: Any) -> bool:
    """Whether they are equal; other versions of the library may leave out some settings."""
    if not isinstance(settings, dict) or not isinstance(expected, dict):
        return bool(settings == expected)
    return all(key in expected and _agrees(value, expected[key]) for key, value in settings.items())


def _check_vocabulary(vocabulary: Any) -> None:
    if not isinstance(vocabulary, dict):
        raise ValueError('its "model" has no "vocab"')
    ids, letters = list(vocabulary.values()), set(byte_letters())
    if any(type(token) is not int for token in ids) or sorted(ids) != list(range(len(ids))):
        raise ValueError(f'the ids in "vocab" are not 0 to {len(ids) - 1}, each once')
    if [vocabulary.get(token) for token in SPECIAL_TOKENS] != [0, 1, 2]:
        raise ValueError(f'"vocab" does not begin with {", ".join(SPECIAL_TOKENS)}')
    if not letters <= vocabulary.keys():
        raise ValueError('"vocab" lacks some of the 256 bytes')
    for token in vocabulary.keys() - set(SPECIAL_TOKENS):
        if not token or not letters.issuperset(token):
            raise ValueError(f'"vocab" holds {short_repr(token)}, which is not made of bytes')


def _checked_merges(merges: Any, tokens: set[str]) -> list[tuple[str, str]]:
    """The merges as pairs. A merge may neither use nor produce a special token."""
    if not isinstance(merges, list):
        raise ValueError('its "model" has no "merges"')
    pairs = []
    for merge in merges:
        parts = merge.split(" ") if isinstance(merge, str) else merge  # older files: "a b"
        if not isinstance(parts, list) or len(parts) != 2 or not {*map(type, parts)} <= {str}:
            raise ValueError(f'"merges" holds {short_repr(merge)}, which is no pair of tokens')
        if not {*parts, "".join(parts)} <= tokens:
            raise ValueError(f'"merges" holds {short_repr(merge)}, which is not in "vocab"')
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
    """GPT-2's visible character for each byte: from Latin-1 if visible there, else from 256 on."""
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
    """Decode UTF-8. A model may generate any bytes: broken sequences become U+FFFD."""
    return content.decode("utf-8", "attnlab.surrogate_or_replace")


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
