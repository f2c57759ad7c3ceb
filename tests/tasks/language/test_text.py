"""Texts to train on: gathered without imports, read without surprises, split for good."""

from __future__ import annotations

import abc
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.tasks.language import _text_sources as text
from attnlab.tasks.language._prepare import TextFiles
from attnlab.tasks.language._split import split_documents
from attnlab.tasks.language._text_sources import documentation_text
from tests.support.whole_texts import split_whole

LIMIT = 300_000


@pytest.fixture(scope="module")
def documentation() -> list[str]:
    return documentation_text(LIMIT)


# Documentation


def test_documentation_is_substantial(documentation: list[str]) -> None:
    assert LIMIT - text.SHORTEST < sum(map(len, documentation)) <= LIMIT
    assert len(documentation) == len(set(documentation)) > 500
    assert min(map(len, documentation)) >= text.SHORTEST
    joined = "\n".join(documentation)
    assert joined.count(" the ") > 2000
    assert not text.NOT_TEXT.search(joined)
    assert joined == joined.encode("utf-8").decode("utf-8")


def test_documentation_is_clean(documentation: list[str]) -> None:
    unclean = [document for document in documentation if document != document.strip()]
    assert len(unclean) <= 1  # the one that was cut
    assert abc.__doc__ is not None
    assert abc.__doc__.strip() in documentation  # the library comes first


def test_documentation_is_deterministic(documentation: list[str]) -> None:
    assert documentation_text(LIMIT) == documentation
    shuffled = documentation_text(LIMIT, seed=1)
    assert shuffled != documentation
    assert sorted(shuffled) == sorted(documentation)


def test_documentation_imports_nothing_and_runs_everywhere() -> None:
    program = (
        "import sys\n"
        "from attnlab.tasks.language._text_sources import documentation_text, _all_sources\n"
        "names = {path.stem for path in _all_sources()}\n"
        "assert {'sympify', 'argparse'} <= names, 'sympy and the library are among the sources'\n"
        "import random, inspect\n"
        "before = set(sys.modules)\n"
        "documents = documentation_text(100_000)\n"
        "assert sum(map(len, documents)) > 99_000\n"
        "assert set(sys.modules) == before, set(sys.modules) - before\n"
        "assert not {'sympy', 'torch', 'numpy', 'antigravity'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def sources(root: Path, monkeypatch: pytest.MonkeyPatch, **content: str | bytes) -> None:
    """Roots of our own: `stdlib__a` becomes stdlib/a.py, `installed__b__c` installed/b/c.py."""
    for name, source in content.items():
        path = (root / Path(*name.split("__"))).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.encode() if isinstance(source, str) else source)
    paths = {"stdlib": "stdlib", "purelib": "installed", "platlib": "installed"}
    locations = {key: str(root / folder) for key, folder in paths.items()}
    monkeypatch.setattr(sysconfig, "get_paths", lambda: locations)


def sentence(name: str) -> str:
    return f"The sentence of {name}, long enough to be kept as a document."


def test_documentation_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    function = f'''
if True:
    try:
        pass
    except ValueError:
        async def f():
            """{sentence("f")}

            Then:
                indented.
            """
'''
    sources(
        tmp_path,
        monkeypatch,
        stdlib__z=f'class Z:\n    """{sentence("Z")}"""\n    def f(self):\n        """Short."""',
        stdlib__test__t=f'"""{sentence("a test")}"""',
        installed__a__f=function,
        installed__a__g=f'"""{sentence("Z")}"""\nraise SystemExit("imported!")',  # a copy
        installed__b=f'"""{sentence("b")} \\d"""',  # a SyntaxWarning, which is an error here
        installed__broken='"""No end',
        installed__nul=b'"""\0"""',
        installed__latin=f'# coding: latin-1\n"""{sentence("é")}"""'.encode("latin-1"),
        installed__wrong=f'"""{sentence("é")}"""'.encode("latin-1"),
        installed__surrogate=f'"""{sentence("a")} \\ud800"""',
        installed__deep="(" * 5000,
        installed__long="if 0: pass\n" + "elif 0: pass\n" * 1500,
    )
    (tmp_path / "installed" / "folder.py").mkdir()
    (tmp_path / "installed" / "loop").symlink_to(tmp_path)
    counts_reported: list[int] = []
    documents = documentation_text(progress=counts_reported.append)
    expected = [
        sentence("Z"),
        sentence("f") + "\n\nThen:\n    indented.",
        sentence("b") + r" \d",
        sentence("é"),
    ]
    assert sorted(documents) == sorted(expected)
    assert counts_reported == sorted(counts_reported)
    assert counts_reported[-1] == sum(map(len, expected))
    # The library first, the last document cut to fit, too short a rest left out.
    first = len(sentence("Z"))
    assert documentation_text(first + 39) == [sentence("Z")]
    assert set(documentation_text(first + 45)) == {sentence("Z"), sentence("f")[:45]}


def test_documentation_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"limit is 39; .* 40 characters"):
        documentation_text(39)
    sources(tmp_path, monkeypatch)
    with pytest.raises(ValueError, match="no source files"):
        documentation_text()


# Files


def read_documents(paths: Sequence[str | Path]) -> list[str]:
    return list(map("".join, TextFiles(paths).documents("reading")))


def test_read_documents(tmp_path: Path) -> None:
    plain, lines, marked = tmp_path / "a.txt", tmp_path / "b.JSONL", tmp_path / "c.md"
    plain.write_bytes("One.\r\n\r\nStill öne.\r".encode())
    lines.write_text('{"text": "two\\n", "id": 3}\n\n{"text": "thr\u2028ee"}\n', encoding="utf-8")
    marked.write_bytes(b"\xef\xbb\xbffour")
    expected = ["One.\n\nStill öne.\n", "two\n", "thr\u2028ee", "four"]
    assert read_documents([plain, lines, marked]) == expected
    assert read_documents([str(marked), plain]) == ["four", expected[0]]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.txt", b"", "is empty"),
        ("a.txt", b" \n\t", "is empty"),
        ("a.txt", b"abc\xe9def", "not UTF-8 text (byte 3 is 0xe9)"),
        ("a.txt", b"\xef\xbb\xbfab\xff", "not UTF-8 text (byte 5 is 0xff)"),
        ("a.txt", "text".encode("utf-16"), "not UTF-8 text (byte 0 is 0xff)"),
        ("a.txt", b"ab\x00", "binary, not text (byte 2 is zero)"),
        ("a.jsonl", b'{"text": "a"}\n{text}', "line 2 is not JSON"),
        ("a.jsonl", b'{"text": "a"}\n\n' + b"[" * 100_000, "line 3 is not JSON"),
        ("a.jsonl", b'{"body": "a"}', 'line 1 has no "text"'),
        ("a.jsonl", b'"text"', 'line 1 has no "text"'),
        ("a.jsonl", b'{"text": 3}', 'line 1 has no "text"'),
        ("a.jsonl", b'{"text": " "}', 'line 1 has no "text"'),
    ],
)
def test_errors_in_files_are_one_line(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert_refused(path, words)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert_refused(tmp_path / "missing.txt", "does not exist")
    assert_refused(tmp_path, "is a folder")
    (tmp_path / "loop.txt").symlink_to("loop.txt")
    assert_refused(tmp_path / "loop.txt", "cannot be read")
    with pytest.raises(ValueError, match="no files"):
        read_documents([])


def assert_refused(path: Path, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read_documents([path])
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert words in message
    assert "\n" not in message


# Splits


any_text = st.text(st.characters(), min_size=2, max_size=9)


def split(
    documents: Sequence[str], fraction: float = 0.05, seed: int = 0
) -> tuple[list[str], list[str]]:
    """Training and validation documents. Each document comes as single characters."""
    chosen = split_documents(documents, fraction, seed)
    parts = list(map("".join, chosen.parts(documents)))
    held_out = chosen.validation.tolist()
    training = [each for each, held in zip(parts, held_out, strict=True) if not held]
    assert "".join(chosen.training(documents)) == "".join(training)
    assert chosen.training_characters == sum(map(len, training))
    return training, [each for each, held in zip(parts, held_out, strict=True) if held]


@given(st.lists(any_text, min_size=1), st.floats(0.01, 0.99), st.integers(0, 3))
def test_splitting_a_stream_equals_splitting_in_memory(
    documents: list[str], fraction: float, seed: int
) -> None:
    assert split(documents, fraction, seed) == split_whole(documents, fraction, seed)


@given(st.lists(any_text, min_size=2), st.floats(0.01, 0.99), st.integers(0, 3))
def test_split_documents(documents: list[str], fraction: float, seed: int) -> None:
    train, validation = split(documents, fraction, seed)
    assert train
    assert validation
    assert sorted(train + validation) == sorted(documents)
    if len(set(documents)) > 1:
        assert not set(train) & set(validation)
        assert split(documents[::-1], fraction, seed) == (train[::-1], validation[::-1])


@given(any_text, st.floats(0.01, 0.99))
def test_split_one_document(document: str, fraction: float) -> None:
    [train], [validation] = split([document], fraction)
    assert train + validation == document
    assert train
    assert validation
    assert abs(len(validation) - fraction * len(document)) <= 1


def test_split_by_hand() -> None:
    assert split(["abcdefghij"], fraction=0.3) == (["abcdefg"], ["hij"])
    assert split(["a", "a", "a"]) == (["a", "a"], ["a"])


def test_split_fraction_seed_and_growth() -> None:
    documents = [f"document {number}" for number in range(3000)]
    train, validation = split(documents)
    assert 110 < len(validation) < 190
    assert split(documents, seed=1)[1] != validation
    fewer = split(documents[:1500])
    assert set(fewer[0]) <= set(train)
    assert set(fewer[1]) <= set(validation)


def test_split_errors() -> None:
    for fraction in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="fraction"):
            split(["a", "b"], fraction)
    with pytest.raises(ValueError, match="no documents"):
        split([])
    with pytest.raises(ValueError, match="1 characters"):
        split(["a"])
