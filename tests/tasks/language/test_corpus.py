"""Large texts: streamed, cached and cut into rows as if they were in memory."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnlab.models import StackConfig
from attnlab.tasks.language import _corpus_cache as corpus_cache
from attnlab.tasks.language import _prepare as prepare
from attnlab.tasks.language import _task as language_task
from attnlab.tasks.language import _text_files as text_files
from attnlab.tasks.language import _tokenize as tokenizing
from attnlab.tasks.language._corpus import Corpus, IdFile, characters_per_token
from attnlab.tasks.language._prepare import TextFiles, encode_text, prepare_text
from attnlab.tasks.language._task import LanguageTask
from attnlab.tasks.language._training import evaluate, train_language
from attnlab.tokenizer import BPE, Bytes, Characters, Tokenizer
from attnlab.training import Run, Settings
from tests.support.private_cache import private_cache
from tests.support.whole_texts import (
    digest_of_rows,
    read_whole_documents,
    split_whole,
    whole_rows,
)

TEXT = "".join(f"{i} naïve words、{i % 5} make {i + i % 5}.\n\n  " for i in range(400))
TOKENIZERS: list[Tokenizer] = [Characters.train([TEXT]), Bytes(), BPE.train([TEXT], 300)]
SMALL = StackConfig(vocabulary=1, width=16, layers=1, heads=2, context=16)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Every text counts as large; the folder of the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", private_cache(tmp_path / "cache"))
    monkeypatch.setattr(prepare, "MAX_IN_MEMORY", 0)
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 700)
    monkeypatch.setattr(text_files, "PIECE", 300)
    monkeypatch.setattr(tokenizing, "BATCH", 1000)
    return tmp_path / "cache" / "attnlab" / "corpora"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.jsonl"
    documents = [*(TEXT[i : i + 97] + "x" for i in range(0, len(TEXT), 97)), "\ud800 alone", "x"]
    path.write_text("".join(json.dumps({"text": each}) + "\n" for each in documents))
    return path


# Rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text(max_size=40), max_size=5),
    st.sampled_from(TOKENIZERS),
    st.integers(1, 9),
    st.integers(0, 1),
)
def test_rows_equal_those_of_lists(
    documents: list[str], tokenizer: Tokenizer, context: int, overlap: int
) -> None:
    rows = Corpus.of(documents, tokenizer).rows(context, overlap)
    expected = whole_rows(documents, tokenizer, context, overlap)
    assert [row.tolist() for row in rows] == expected
    assert rows.lengths.tolist() == list(map(len, expected))
    assert rows.digest == digest_of_rows(expected)
    assert rows.characters == sum(map(len, documents))


@pytest.mark.parametrize("name", ["text", "lines"])
@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe"])
def test_a_large_file_gives_the_same_rows_as_a_small_one(
    name: str, kind: str, large: Path, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(name)
    prepared = prepare_text(TextFiles([path]), kind, 300, seed=1)
    train, validation = split_whole(read_whole_documents(path), 0.05, 1)
    expected = prepare.make_tokenizer(kind, train, 300)
    assert prepared.tokenizer.to_json() == expected.to_json()
    for corpus, documents in ((prepared.train, train), (prepared.validation, validation)):
        assert isinstance(corpus.ids, IdFile)
        rows = corpus.rows(16, 1)
        assert [row.tolist() for row in rows] == whole_rows(documents, expected, 16, 1)
        assert rows.characters == sum(map(len, documents))
    unknown = sum(sum(expected.encode_counting(each)[1].values()) for each in train + validation)
    assert sum(prepared.train.unknown.values()) == unknown
    assert len(list(large.iterdir())) == 2


@pytest.mark.usefixtures("large")
def test_training_from_the_cache_changes_nothing(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(name: str) -> dict[str, Any]:
        options: dict[str, Any] = {"tokenizer": "bpe", "tokenizer_size": 300, "model": SMALL}
        train_language(
            [text], out=tmp_path / name, settings=Settings(steps=4), quiet=True, **options
        )
        return Run(tmp_path / name).config()

    cached, again = train("cached"), train("again")
    measured = evaluate(tmp_path / "cached", [text])
    monkeypatch.setattr(prepare, "MAX_IN_MEMORY", 2**20)
    assert train("small") == cached == again
    assert evaluate(tmp_path / "cached", [text]) == measured
    first, other = (Run(tmp_path / name).model().state_dict() for name in ("cached", "small"))
    assert all(torch.equal(first[name], other[name]) for name in first)


# The cache


def count_builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    builds: list[int] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        builds.append(1)
        return tokenizing.tokenize(*arguments, **options)

    monkeypatch.setattr(corpus_cache, "tokenize", counted)
    return builds


@pytest.mark.usefixtures("large")
def test_a_text_is_tokenized_once(
    text: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    builds = count_builds(monkeypatch)
    first = prepare_text(TextFiles([text]), "characters", 300, seed=0)
    copy = tmp_path / "copy.txt"
    copy.write_bytes(text.read_bytes())
    prepare_text(TextFiles([copy]), "characters", 300, seed=0)
    prepare_text(TextFiles([copy]), "characters", 300, seed=5)  # one document: the same parts
    assert len(builds) == 1
    prepare_text(TextFiles([text]), "bytes", 300, seed=0)
    assert len(builds) == 2
    text.write_text(TEXT + "more")
    changed = prepare_text(TextFiles([text]), "characters", 300, seed=0)
    assert len(builds) == 3
    assert changed.train.rows(16, 1).digest != first.train.rows(16, 1).digest


def test_a_damaged_cache_is_made_again(
    text: Path, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = count_builds(monkeypatch)

    def digest() -> str:
        return prepare_text(TextFiles([text]), "bytes", 300, seed=0).train.rows(16, 1).digest

    expected = digest()
    (ids,), (plan,) = large.glob("*.ids"), large.glob("*.json")
    content = ids.read_bytes()
    sizes = [0, 1, 7, 8, 100, len(content) // 2, len(content) - 1]
    damaged = [content[:size] for size in sizes]
    damaged += [content[:50] + b"\xff\xff" + content[52:], content[1:], b"\xff" * 1000]
    damaged += [content.replace(b'"ids"', b'"ibs"'), content.replace(b"uint16", b"uint99")]
    for broken in damaged:
        before = len(builds)
        ids.write_bytes(broken)
        assert digest() == expected
        assert len(builds) == before + 1
        assert ids.read_bytes() == content
    for broken in (b"", b"{}", plan.read_bytes()[:-9], plan.read_bytes().replace(b"cut", b"kut")):
        plan.write_bytes(broken)
        assert digest() == expected
    assert len(builds) == 1 + len(damaged)


def test_a_cache_that_is_cut_while_it_is_read(text: Path, large: Path) -> None:
    rows = prepare_text(TextFiles([text]), "bytes", 300, seed=0).train.rows(16, 1)
    (ids,) = large.glob("*.ids")
    os.truncate(ids, 100)
    assert len(rows[0]) == 17
    with pytest.raises(OSError, match="was changed while it was in use"):
        rows[len(rows) - 1]


def test_the_oldest_files_of_the_cache_are_removed(
    text: Path, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(kind: str) -> Corpus:
        return prepare_text(TextFiles([text]), kind, 300, seed=0).train

    encode("bytes")
    (ids,) = large.glob("*.ids")
    monkeypatch.setattr(corpus_cache, "MAX_CACHE_BYTES", 2 * ids.stat().st_size)
    in_use = encode("characters")
    assert ids.exists()
    os.utime(ids, (1, 1))
    (large / ".dead.ids.1-2.part").mkdir()
    (large / ".dead.ids.1-2.part" / "dead.ids").write_bytes(b"left by a killed process")
    encode("bpe")
    assert not ids.exists()
    assert {path.suffix for path in large.iterdir()} == {".json", ".ids"}
    monkeypatch.setattr(corpus_cache, "MAX_CACHE_BYTES", 1)
    encode("bytes")
    assert [path.suffix for path in large.iterdir()] == [".ids"]  # what was made last stays
    assert in_use.rows(16, 1).digest  # still open


def test_a_cache_folder_that_cannot_be_written(text: Path, large: Path) -> None:
    large.parent.mkdir(parents=True, exist_ok=True)
    large.write_text("a file")
    with pytest.raises(ValueError, match="set XDG_CACHE_HOME to another folder"):
        prepare_text(TextFiles([text]), "bytes", 300, seed=0)


def test_a_file_that_changes_while_it_is_read(text: Path, large: Path) -> None:
    source = TextFiles([text])
    text.write_text(TEXT.replace("words", "birds"), encoding="utf-8")
    with pytest.raises(ValueError, match="changed while it was being read; start again"):
        prepare_text(source, "bytes", 300, seed=0)
    assert not list(large.glob("*"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.txt", b"a" * 5000 + b"\xff", "byte 5000 is 0xff"),
        ("a.txt", b"a" * 5000 + b"\0", "byte 5000 is zero"),
        ("a.txt", b" " * 5000, "is empty"),
        ("a.jsonl", b'{"text": "a"}\n' * 300 + b"{}", 'line 301 has no "text"'),
    ],
)
def test_a_large_file_that_is_no_text(
    name: str, content: bytes, words: str, large: Path, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for read in (lambda source: prepare_text(source, "bytes", 300, 0),
                 lambda source: encode_text(source, Bytes())):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            read(TextFiles([path]))
    assert list(large.iterdir()) == []


# Processes


def test_processes_end_when_their_parent_is_killed() -> None:
    program = textwrap.dedent("""
        import signal
        from attnlab.tasks.language._tokenize import TokenizingProcesses, Piece
        from attnlab.tokenizer import BPE
        with TokenizingProcesses(BPE.train(["a b"], 300)) as processes:
            (result,) = processes.encode([Piece("a b", True)])
            print(*(process.pid for process in processes.processes), flush=True)
            signal.pause()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        children = [int(each) for each in parent.stdout.readline().split()]
        assert children
        handles = [os.pidfd_open(child) for child in children]
        parent.kill()
    for handle in handles:
        ended, _, _ = select.select([handle], [], [], 120)  # readable when the process ends
        assert ended, "the process is still there after two minutes"
        os.close(handle)


def test_a_process_that_ends_is_reported() -> None:
    tokenizer = TOKENIZERS[2]
    with tokenizing.TokenizingProcesses(tokenizer) as processes:
        piece = tokenizing.Piece("0 words", starts_document=True)
        ((_, (ids, _)),) = processes.encode([piece])
        assert ids.tolist() == tokenizer.encode("0 words")
        for process in processes.processes:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        with pytest.raises(ValueError, match="a process that tokenizes the text has ended"):
            list(processes.encode([piece] * 9))


# Samples


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda each: type(each).__name__)
def test_characters_of_a_sample_add_up(tokenizer: Tokenizer) -> None:
    documents = [TEXT[:333], "□ ⁇ é", "漢字" * 9, "\ud800"]
    rows = Corpus.of(documents, tokenizer).rows(5, 1)
    assert rows.sample(10**6, 0, tokenizer) is rows
    per_token = characters_per_token(tokenizer)
    counted = 0
    for row, is_last in zip(rows, rows.is_last, strict=True):
        counted += int(per_token[row[1:-1] if is_last else row[1:]].sum())
    known = sum(map(len, documents))
    assert counted == known
    part = rows.sample(200, 3, tokenizer)
    assert 190 < part.lengths.sum() <= 200
    assert part.characters == sum(
        int(per_token[row[1:-1] if is_last else row[1:]].sum())
        for row, is_last in zip(part, part.is_last, strict=True)
    )
    assert np.array_equal(part.starts, rows.sample(200, 3, tokenizer).starts)
    assert not np.array_equal(part.starts, rows.sample(200, 4, tokenizer).starts)


def test_only_a_part_of_much_validation_text_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Corpus.of([TEXT], TOKENIZERS[0])

    def make() -> LanguageTask:
        return LanguageTask(corpus, corpus, TOKENIZERS[0], objective="causal", context=16)

    assert len(make().validation) == len(make().train)
    monkeypatch.setattr(language_task, "VALIDATION_TOKENS", 1000)
    task = make()
    assert 900 < task.validation.lengths.sum() <= 1000
    assert task.validation.characters < 1000
    assert len(task.train) == -(-(len(TEXT) + 1) // 16)


@pytest.mark.usefixtures("large")
def test_bpe_learns_from_a_sample_of_a_long_text(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = prepare_text(TextFiles([text]), "bpe", 300, seed=0).tokenizer
    seen: list[str] = []

    def train(texts: Iterable[str], vocabulary: int) -> Tokenizer:
        del vocabulary
        seen.extend(texts)
        return whole

    monkeypatch.setattr(BPE, "train", train)
    monkeypatch.setattr(prepare, "BPE_SAMPLE", 5000)
    learned = prepare_text(TextFiles([text]), "bpe", 300, seed=1)
    assert 2000 < len("".join(seen)) < 8000
    assert max(TEXT.index(piece) for piece in seen) > len(TEXT) / 2  # from everywhere
    assert learned.tokenizer.to_json() == whole.to_json()
    monkeypatch.setattr(BPE, "train", None)  # a run that is resumed keeps its tokenizer
    again = prepare_text(TextFiles([text]), "bpe", 300, seed=2, learned=whole)
    assert again.tokenizer.to_json() == whole.to_json()


@pytest.mark.usefixtures("large")
def test_a_large_file_that_is_not_split(text: Path) -> None:
    corpus = encode_text(TextFiles([text]), TOKENIZERS[1])
    assert corpus.lengths.tolist() == [len(TEXT.encode()) + 2]
