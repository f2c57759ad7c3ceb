"""Tokenizers: round trips, arbitrary texts, and broken files."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnlab import tokenizer as tokens
from attnlab._pretokenize import last_break
from attnlab.tokenizer import BPE, SPECIAL_TOKENS, Bytes, Characters, Tokenizer, load_tokenizer
from tests.support.examples import examples

TEXTS = ["the cat sat on the mat\n", "the hat, the bat: naïve 猫 <|end|><|end|> <|end|>\n"] * 5
CHARACTERS = Characters.train(TEXTS)
BYTES = Bytes()
PAIRS = BPE.train(TEXTS, vocabulary=280)
ALL: list[Tokenizer] = [CHARACTERS, BYTES, PAIRS]

any_text = st.text(st.characters())  # lone surrogates too
tricky = [
    "",
    "\ud83d\ude00",  # two halves, not one emoji
    "x\udc80\ud800y",
    "👩\u200d👩\u200d👧\ufe0f",
    "\u200b\u200e\ufeff\x00\r\n\u2028",
    "<|pad|><|mask|><|end|>",
    " " * 70,
    "\U0010ffff",
]


def tricky_examples(test: Callable[..., None]) -> Callable[..., None]:
    for text in tricky:
        test = example(text)(test)
    return test


def named(tokenizer: Tokenizer) -> str:
    return type(tokenizer).__name__


# Arrays

WORDS = BPE.train(
    ["it's don't we'll   the  cat\n\n (cats): 12 a1 naïve ëé.", "!!! ??? 's"] * 3, 330
)
near_ascii = st.text(
    st.sampled_from("aZ's te09!?.(_ \t\n\r\x0b\x1c\x1f\x85\xa0\u2003\u3000\u200bé½猫٣—\ud800")
)


@pytest.mark.parametrize("tokenizer", [*ALL, WORDS], ids=named)
@tricky_examples
@given(st.one_of(any_text, near_ascii))
@examples(400)
def test_arrays_have_the_same_ids(tokenizer: Tokenizer, text: str) -> None:
    ids, replaced = tokenizer.encode_array(text)
    assert (ids.tolist(), replaced) == tokenizer.encode_counting(text)
    assert ids.dtype == tokenizer.id_type


@given(near_ascii, st.integers(1, 9))
@examples(400)
def test_pieces_have_the_tokens_of_the_whole(text: str, size: int) -> None:
    ids: list[int] = []
    start = 0
    while (end := last_break(text, start, size, limit=1000)) is not None:
        ids, start = ids + WORDS.encode(text[start:end]), end
    assert ids + WORDS.encode(text[start:]) == WORDS.encode(text)


def test_units_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_REMEMBERED_UNITS", 5)
    tokenizer = BPE.train(TEXTS, vocabulary=280)
    for number in range(50):
        text = f"word {number} " + "long" * number
        assert tokenizer.encode_array(text)[0].tolist() == tokenizer.encode(text)
        assert len(tokenizer._unit_ids) <= 5 + 4
        assert max(map(len, tokenizer._unit_ids)) <= tokens.LONGEST_REMEMBERED_UNIT


# Values by hand


def test_characters_have_the_course_ids() -> None:
    tokenizer = Characters.train(["ba\n", "cab"])
    assert (tokenizer.vocabulary, tokenizer.pad, tokenizer.mask, tokenizer.end) == (6, 0, 1, 0)
    assert tokenizer.characters == "\nabc"
    assert tokenizer.encode("cab\n") == [5, 3, 4, 2]
    assert tokenizer.encode("a⁇b⁇c□□") == [3, 1, 4, 1, 5, 0, 0]
    assert tokenizer.decode([3, 1, 4, 1, 5, 0, 0]) == "a⁇b⁇c□□"


def test_the_symbols_of_the_course_are_no_further_characters() -> None:
    tokenizer = Characters.train(["a⁇b□"])
    assert tokenizer.characters == "ab"
    assert tokenizer.vocabulary == 4
    assert tokenizer.end == tokenizer.pad


def test_characters_are_sorted_by_code_point() -> None:
    assert Characters.train(["éaZ😀z!"]).characters == "!Zazé😀"


def test_bytes_by_hand() -> None:
    assert (BYTES.vocabulary, BYTES.pad, BYTES.mask, BYTES.end) == (259, 0, 1, 2)
    assert BYTES.encode("a€") == [3 + 0x61, 3 + 0xE2, 3 + 0x82, 3 + 0xAC]
    assert BYTES.decode([0, 1, 3 + 0x61, 2]) == "a"


def test_pairs_by_hand() -> None:
    tokenizer = BPE.train(["abab abab"], vocabulary=300)
    # 256 bytes sorted by their letter: "!" is the first, so "a" is 3 + 0x61 - 0x21.
    assert tokenizer.encode("a") == [67]
    # a+b is the most frequent pair, then ab+ab; the space joins the second word.
    assert tokenizer.encode("ab") == [259]
    assert tokenizer.encode("abab") == [260]
    assert tokenizer.vocabulary == 261  # " abab" occurs once, and once is not learned
    assert (tokenizer.pad, tokenizer.mask, tokenizer.end) == (0, 1, 2)


# Round trips


@given(any_text)
@tricky_examples
def test_bytes_round_trip(text: str) -> None:
    ids = BYTES.encode(text)
    assert BYTES.decode(ids) == text
    assert all(3 <= each < 259 for each in ids)


@given(any_text)
@tricky_examples
def test_pairs_round_trip(text: str) -> None:
    ids, unknown = PAIRS.encode_counting(text)
    assert PAIRS.decode(ids) == text
    assert all(3 <= each < PAIRS.vocabulary for each in ids)
    assert not unknown


@given(st.lists(st.text(), min_size=1))
def test_characters_round_trip(texts: list[str]) -> None:
    joined = "".join(texts)
    if not set(joined) - set("□⁇"):
        with pytest.raises(ValueError, match="characters is empty"):
            Characters.train(texts)
        return
    tokenizer = Characters.train(texts)
    assert tokenizer.vocabulary == 2 + len(set(joined) - set("□⁇"))
    for text in texts:
        ids, unknown = tokenizer.encode_counting(text)
        assert tokenizer.decode(ids) == text
        assert not unknown


@given(any_text)
@tricky_examples
def test_characters_replace_and_count_what_they_do_not_know(text: str) -> None:
    ids, unknown = CHARACTERS.encode_counting(text)
    known_characters = set(CHARACTERS.characters) | set("□⁇")
    assert unknown == Counter(each for each in text if each not in known_characters)
    assert ids == CHARACTERS.encode(text)
    assert len(ids) == len(text)
    for before, after in zip(text, CHARACTERS.decode(ids), strict=True):
        assert after in known_characters
        assert after == before or before not in known_characters


@pytest.mark.parametrize(
    ("characters", "text", "decoded"),
    [
        ("e? ", "é", "e"),
        ("e? ", "e\u0301", "e?"),  # the accent is a character of its own here
        ("eé?", "é", "é"),
        ("A? ", "Å\u212b", "AA"),
        ("A?", "Ａ", "A"),
        ("1?", "½", "?"),  # not one half made one
        ("x? ", "é", "?"),
        ("x ", "é", " "),
        ("x", "é", "□"),
        ("x?", "\ud800", "?"),
        ("x", "\u00a0\n", "□□"),
        ("x ", "\u00a0", " "),
    ],
)
def test_replacements(characters: str, text: str, decoded: str) -> None:
    tokenizer = Characters(characters)
    ids, unknown = tokenizer.encode_counting(text)
    assert tokenizer.decode(ids) == decoded
    assert sum(unknown.values()) == sum(each not in characters for each in text)


def test_lone_surrogates_are_no_characters() -> None:
    assert Characters.train(["a\ud83d", "\ude00b"]).characters == "ab"


# Decoding any ids


@pytest.mark.parametrize("tokenizer", ALL, ids=named)
def test_ids_out_of_range(tokenizer: Tokenizer) -> None:
    last = tokenizer.vocabulary - 1
    tokenizer.decode(range(tokenizer.vocabulary))
    for wrong in (-1, last + 1, 10**30):
        with pytest.raises(ValueError, match=f"id {wrong} .* 0 to {last}"):
            tokenizer.decode([0, wrong])
    with pytest.raises(TypeError):
        tokenizer.decode([0.5])  # type: ignore[list-item]


@pytest.mark.parametrize("tokenizer", ALL, ids=named)
def test_ids_from_an_array(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(np.array(tokenizer.encode("the cat"), dtype=np.int32)) == "the cat"
    assert tokenizer.decode(iter(tokenizer.encode("the cat"))) == "the cat"
    assert tokenizer.decode([]) == ""


@given(st.lists(st.integers(0, 258)))
def test_any_bytes_decode_and_broken_ones_are_replaced(ids: list[int]) -> None:
    content = bytes(each - 3 for each in ids if each > 2)
    text = BYTES.decode(ids)
    assert BYTES.decode(BYTES.encode(text)) == text
    if b"\xed" not in content:  # the first byte of every surrogate
        assert text == content.decode("utf-8", "replace")


def test_a_broken_sequence_does_not_cost_the_surrogates() -> None:
    ids = [*BYTES.encode("a\ud800b"), 3 + 0xFF, *BYTES.encode("€")[:2]]
    assert BYTES.decode(ids) == "a\ud800b\ufffd\ufffd"
    assert PAIRS.decode(PAIRS.encode("€")[:-1]) == "\ufffd"


@pytest.mark.parametrize("tokenizer", [BYTES, PAIRS], ids=named)
def test_special_ids_decode_to_nothing(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([0, 1, 2]) == ""


# Special tokens in a text


@given(st.text(), st.sampled_from(SPECIAL_TOKENS), st.text())
def test_the_names_of_special_tokens_are_text(before: str, name: str, after: str) -> None:
    for tokenizer in (BYTES, PAIRS):
        ids = tokenizer.encode(before + name + after)
        assert not {0, 1, 2} & set(ids)
        assert tokenizer.decode(ids) == before + name + after


def test_names_of_special_tokens_in_the_training_text(tmp_path: Path) -> None:
    tokenizer = BPE.train(["<|end|><|end|> <|end|>"] * 50, vocabulary=400)
    tokenizer.save(tmp_path)
    for each in (tokenizer, load_tokenizer(tmp_path)):
        assert min(each.encode("<|end|>")) > 2
        assert each.decode(each.encode("<|end|>")) == "<|end|>"


# Training of pairs


def test_training_is_deterministic() -> None:
    program = (
        "from tests.models.test_tokens import PAIRS; import hashlib; "
        "print(hashlib.sha256(PAIRS.to_json().encode()).hexdigest())"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "3")
    }
    assert len(hashes) == 1
    assert BPE.train(TEXTS, vocabulary=280).to_json() == PAIRS.to_json()


def test_training_keeps_to_the_size() -> None:
    assert BPE.train(TEXTS, vocabulary=262).vocabulary == 262
    assert BPE.train([], vocabulary=262).vocabulary == 259
    assert BPE.train(["\ud800a"] * 3, vocabulary=262).decode([67]) == "a"
    with pytest.raises(ValueError, match=r"vocabulary is 258; give 259"):
        BPE.train(TEXTS, vocabulary=258)


def test_training_shortens() -> None:
    assert len(PAIRS.encode(TEXTS[0])) < len(BYTES.encode(TEXTS[0])) / 1.5


# Files


@pytest.mark.parametrize("tokenizer", ALL, ids=named)
def test_save_and_load(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    file = tmp_path / "tokenizer.json"
    assert [file] == list(tmp_path.iterdir())
    for place in (tmp_path, file, str(file)):
        loaded = load_tokenizer(place)
        assert type(loaded) is type(tokenizer)
        for text in ["the naïve cat 猫⁇□\n", *tricky]:
            assert loaded.encode_counting(text) == tokenizer.encode_counting(text)
            assert loaded.decode(loaded.encode(text)) == tokenizer.decode(tokenizer.encode(text))
        assert (loaded.vocabulary, loaded.pad, loaded.mask, loaded.end) == (
            tokenizer.vocabulary,
            tokenizer.pad,
            tokenizer.mask,
            tokenizer.end,
        )
    load_tokenizer(file).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == file.read_bytes()


def test_the_formats(tmp_path: Path) -> None:
    Characters("aé").save(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_bytes()) == {
        "type": "characters",
        "characters": "aé",
    }
    BYTES.save(tmp_path / "b.json")
    assert json.loads((tmp_path / "b.json").read_bytes()) == {"type": "bytes"}


def test_hugging_face_opens_the_file(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as HuggingFace

    PAIRS.save(tmp_path)
    reference = HuggingFace.from_file(str(tmp_path / "tokenizer.json"))
    assert reference.encode("the naïve cat").ids == PAIRS.encode("the naïve cat")
    assert reference.decode(PAIRS.encode("the naïve cat")) == "the naïve cat"
    assert [reference.token_to_id(name) for name in SPECIAL_TOKENS] == [0, 1, 2]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_file_alone(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Characters("old").save(tmp_path)

    def fail(*_: object) -> None:
        assert len(list(tmp_path.iterdir())) == 2  # written beside it, in the same folder
        raise OSError("disk full")

    monkeypatch.setattr(*((os, "fsync", fail) if step == "fsync" else (Path, "replace", fail)))
    with pytest.raises(OSError, match="disk full"):
        Characters("new").save(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["tokenizer.json"]
    loaded = load_tokenizer(tmp_path)
    assert isinstance(loaded, Characters)
    assert loaded.characters == "old"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "Expecting value"),
        (b"\xff\xfe", "utf-8"),
        (b"{", "Expecting"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", '"type"'),
        (b"3", '"type"'),
        (b"{}", '"type"'),
        (b'{"type": "words"}', '"type"'),
        (b'{"type": ["bytes"]}', '"type"'),
        (b'{"model": []}', '"model"'),
        (b'{"type": "characters"}', '"characters" must be'),
        (b'{"type": "characters", "characters": ["a"]}', '"characters" must be'),
        (b'{"type": "characters", "characters": ""}', "characters is empty"),
        (b'{"type": "characters", "characters": "abca"}', "'a' occurs 2 times"),
        (b'{"type": "characters", "characters": "a\\u25a1"}', "has a reserved id"),
        (b'{"type": "characters", "characters": "\\ud800"}', "lone surrogate"),
    ],
)
def test_bad_files_are_one_line(content: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_bytes(content)
    assert_refused(file, words)


def assert_refused(file: Path, words: str) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.json") as caught:
        load_tokenizer(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert words in message
    assert "\n" not in message


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.json: does not exist"):
        load_tokenizer(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.mkdir()
    with pytest.raises(ValueError, match=r"tokenizer\.json: .*not a regular file"):
        load_tokenizer(tmp_path)
    file.rmdir()
    assert tokens.MAX_FILE_BYTES == 64 * 2**20
    monkeypatch.setattr(tokens, "MAX_FILE_BYTES", 2**20)
    file.write_bytes(b" " * 2**20 + b"1")
    assert_refused(file, "more than 1 MB")


Change = Callable[[dict[str, Any]], object]


def in_model(**changes: Any) -> Change:
    return lambda settings: settings["model"].update(changes)


def with_vocabulary(change: Change) -> Change:
    return lambda settings: change(settings["model"]["vocab"])


def another_added_token(settings: dict[str, Any]) -> None:
    settings["added_tokens"].append(settings["added_tokens"][0] | {"id": 279, "content": "cat"})


def a_merge_that_spells_a_special_token(settings: dict[str, Any]) -> None:
    settings["model"]["vocab"]["<|end|"] = 280
    settings["model"]["merges"].append(["<|end|", ">"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (in_model(type="WordLevel"), "byte-level BPE"),
        (in_model(dropout=0.5), "byte-level BPE"),
        (in_model(continuing_subword_prefix="##"), "byte-level BPE"),  # panics in the library
        (lambda settings: settings.update(normalizer={"type": "Lowercase"}), "byte-level BPE"),
        (lambda settings: settings.update(pre_tokenizer=None), "byte-level BPE"),
        (lambda settings: settings.update(truncation={"max_length": 2}), "byte-level BPE"),
        (lambda settings: settings["added_tokens"].pop(), "byte-level BPE"),
        (lambda settings: settings["added_tokens"][0].update(id=77), "byte-level BPE"),
        (lambda settings: settings["added_tokens"][2].update(special=False), "byte-level BPE"),
        (another_added_token, "byte-level BPE"),
        (in_model(vocab=None), 'no "vocab"'),
        (with_vocabulary(lambda vocab: vocab.update(a=True)), "not 0 to"),
        (with_vocabulary(lambda vocab: vocab.update(a=68)), "not 0 to"),
        (with_vocabulary(lambda vocab: vocab.update(a=2**70)), "not 0 to"),
        (with_vocabulary(lambda vocab: vocab.update({"<|pad|>": 1, "<|mask|>": 0})), "begin with"),
        (with_vocabulary(lambda vocab: vocab.update({"aa": vocab.pop("a")})), "256 bytes"),
        (with_vocabulary(lambda vocab: vocab.update({"猫": 280})), "'猫'"),
        (with_vocabulary(lambda vocab: vocab.update({"": 280})), "''"),
        (in_model(merges=None), 'no "merges"'),
        (in_model(merges=["a"]), "no pair"),
        (in_model(merges=[["a", 1]]), "no pair"),
        (in_model(merges=[3]), "no pair"),
        (in_model(merges=[["a", "zz"]]), 'not in "vocab"'),
        (a_merge_that_spells_a_special_token, 'not in "vocab"'),
    ],
)
def test_bad_files_of_pairs_are_one_line(change: Change, words: str, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    content = json.loads(PAIRS.to_json())
    file.write_text(json.dumps(content))
    assert load_tokenizer(file).vocabulary == 280  # before the change it is a good one
    change(content)
    file.write_text(json.dumps(content))
    assert_refused(file, words)


def test_older_files_of_pairs(tmp_path: Path) -> None:
    content = json.loads(PAIRS.to_json())
    content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"]]
    del content["model"]["ignore_merges"], content["pre_tokenizer"]["use_regex"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert load_tokenizer(tmp_path).encode(TEXTS[1]) == PAIRS.encode(TEXTS[1])


@examples(50)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["type", "characters", "model", "vocab"]), inner)
        ),
    )
)
def test_any_json_loads_or_is_refused(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    file = tmp_path_factory.mktemp("any") / "tokenizer.json"
    file.write_text(json.dumps(value))
    message = ""
    try:
        assert load_tokenizer(file).vocabulary > 2
    except ValueError as error:
        message = str(error)
    assert not message or message.startswith(f"{file}: ")


# What it costs to import


def test_torch_and_tokenizers_stay_out() -> None:
    source = Path(tokens.__file__).read_text(encoding="utf-8")
    imported = [
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [node.names[0].name])
    ]
    assert "torch" not in {str(name).split(".")[0] for name in imported}
    program = (
        "import sys; from attnlab.tokenizer import Bytes, Characters; "
        "Characters.train(['ab']).encode('ba'); Bytes().encode('a'); "
        "assert not {'torch', 'tokenizers', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
