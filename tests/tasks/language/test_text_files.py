"""Text files are read in chunks as if they were read whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnlab._pretokenize import last_break
from attnlab.tasks.language import _text_files as text_files
from attnlab.tasks.language._text_files import cut_pieces, file_documents, text_chunks
from tests.support.command_line import run
from tests.support.whole_texts import read_whole, read_whole_documents


def outcome(read: Iterator[str]) -> str:
    """The text, or the error."""
    try:
        return "".join(read)
    except ValueError as error:
        return f"error: {error}"


def whole(path: Path) -> Iterator[str]:
    yield read_whole(path)


fragments = st.one_of(
    st.sampled_from([b"\r", b"\n", b"\r\n", b"\xef\xbb\xbf", b"\0", b"\xff", b"\xe2\x82", b" "]),
    st.text(max_size=5).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.binary(max_size=3),
)


@given(st.lists(fragments, max_size=12).map(b"".join), st.integers(1, 9))
@example(b"a\r\nb\r", 2)
@example(b"\xef\xbb\xbfab\xff", 1)
@example("ab€".encode()[:-1], 1)
@example("€€".encode() + b"\x82", 4)
def test_chunks_are_the_text_or_the_same_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "chunks.txt"
    path.write_bytes(content)
    received: list[bytes] = []
    expected = outcome(whole(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "CHUNK_BYTES", size)
        assert outcome(text_chunks(path, received.append)) == expected
    if not expected.startswith("error"):
        assert b"".join(received) == content


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])).map("{}x".format), min_size=1),
    st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    st.integers(1, 9),
)
def test_json_lines_in_chunks(
    tmp_path_factory: pytest.TempPathFactory, documents: list[str], newline: str, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "chunks.jsonl"
    lines = [json.dumps({"text": document}, ensure_ascii=False) for document in documents]
    path.write_bytes(newline.join([*lines, ""]).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "CHUNK_BYTES", size)
        patch.setattr(text_files, "PIECE", 3)
        patch.setattr(text_files, "MAX_PIECE", 7)
        pieces = ["".join(document) for document in file_documents(path)]
    assert pieces == read_whole_documents(path) == documents


def test_a_line_must_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text('{"text": "a"}\n{"text": "' + "a" * 3000 + '"}\n')
    monkeypatch.setattr(text_files, "MAX_LINE", 2000)
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 100)
    with pytest.raises(ValueError, match="line 2 has more than 2,000 characters"):
        list(map(list, file_documents(path)))


words = st.text(st.sampled_from("ab _.、。漢é\n \u00a0"), max_size=60)


@given(words, st.lists(st.integers(0, 60)), st.integers(1, 9), st.integers(0, 9))
def test_pieces_do_not_depend_on_the_chunks(
    text: str, cuts: list[int], size: int, more: int
) -> None:
    bounds = [0, *sorted(cuts), len(text)]
    chunks = [text[a:b] for a, b in pairwise(bounds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "PIECE", size)
        patch.setattr(text_files, "MAX_PIECE", size + more)
        pieces = list(cut_pieces([text]))
        assert list(cut_pieces(chunks)) == pieces
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= size + more


def test_breaks_by_hand() -> None:
    assert last_break("one two", 0, size=7, limit=9) is None  # more may follow
    assert last_break("one two ", 0, size=7, limit=9) == 7
    assert last_break("one two three", 4, size=5, limit=9) == 7
    assert last_break("onetwothree four", 0, size=5, limit=12) == 11  # the next one
    assert last_break("one.  two", 0, size=6, limit=7) == 7  # "." and " " may be one token
    assert last_break("漢字。漢字", 0, size=3, limit=9) == 2


# What is no file of text


@pytest.fixture
def strange_files(tmp_path: Path) -> dict[str, Path]:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "link.tsv").symlink_to("/dev/zero")
    return {"pipe": tmp_path / "pipe.jsonl", "device": Path("/dev/zero"), "folder": tmp_path,
            "link": tmp_path / "link.tsv"}  # fmt: skip


@pytest.mark.parametrize("strange", ["pipe", "device", "folder", "link"])
@pytest.mark.parametrize(
    "command",
    [
        "language train {path} --out run",
        "summary train --data {path} --out run",
        "knowledge pretrain --corpus {path} --out run",
        "knowledge finetune scratch --pairs {path} --out run",
        "knowledge learn --corpus {path} --pairs {path} --out run",
    ],
)
def test_pipes_devices_and_folders_are_refused(
    strange: str,
    command: str,
    strange_files: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = strange_files[strange]
    code, _, err = run(command.format(path=path), capsys)
    assert code == 2, err
    assert err.startswith(f"attnlab: {path}: ")
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()
