"""Texts with summaries: files, bad rows, splits, the built-in sources."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab._cache import cache_folder
from attnlab.tasks.summary import _data_sources as sources
from attnlab.tasks.summary import _debian_packages as debian
from attnlab.tasks.summary import _docstrings as docstrings
from attnlab.tasks.summary._data_sources import load_pairs
from attnlab.tasks.summary._pairs import Columns, Pair, digest, read_pairs, split_pairs


def file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


ROWS = [("one two", "one"), ('a "quoted", text', "quoted"), ("three\nlines\nhere", "three")]


def test_three_formats_are_equivalent(tmp_path: Path) -> None:
    lines = file(
        tmp_path, "a.jsonl", "".join(json.dumps({"text": t, "summary": s}) + "\n" for t, s in ROWS)
    )
    table = "text,summary\r\none two,one\r\n" + '"a ""quoted"", text",quoted\r\n'
    table += '"three\nlines\nhere",three\r\n'
    expected = [Pair(*row) for row in ROWS]
    assert read_pairs(lines).pairs == expected
    assert read_pairs(file(tmp_path, "a.csv", table)).pairs == expected
    tabs = 'summary\tother\ttext\none\tx\tone two\nquoted\ty\ta "quoted", text\n'
    assert read_pairs(file(tmp_path, "a.tsv", tabs)).pairs == expected[:2]


def test_columns_have_any_name(tmp_path: Path) -> None:
    path = file(tmp_path, "a.csv", "body,title,id\nlong text,short,7\n")
    loaded = read_pairs(path, Columns("body", "title", "id"))
    assert loaded.pairs == [Pair("long text", "short", "7")]


def test_bad_rows_are_counted_and_named_by_line(tmp_path: Path) -> None:
    rows = ['{"text": "a b", "summary": "a"}', "", "{broken", '{"text": "a"}', "[1]",
            '{"text": "", "summary": "x"}', '{"text": 5, "summary": "x"}',
            '{"text": "c d", "summary": "c"}']  # fmt: skip
    loaded = read_pairs(file(tmp_path, "a.jsonl", "\n".join(rows)))
    assert len(loaded.pairs) == 2
    assert loaded.bad_rows == [
        (3, "not JSON"),
        (4, "no 'summary'"),
        (5, "not a JSON object"),
        (6, "'text' is empty"),
        (7, "'text' is not text"),
    ]
    assert "5 of 7 rows skipped" in loaded.describe_bad_rows("a.jsonl")
    assert "not JSON in 1 (line 3)" in loaded.describe_bad_rows("a.jsonl")


def test_a_table_counts_lines_through_quoted_newlines(tmp_path: Path) -> None:
    loaded = read_pairs(file(tmp_path, "a.csv", 'text,summary\n"a\nb",x\nonly one\nc,y\n,z\n'))
    assert [pair.summary for pair in loaded.pairs] == ["x", "y"]
    assert loaded.bad_rows == [(4, "1 fields, not 2"), (6, "'text' is empty")]


def test_an_unclosed_quote_raises_an_error(tmp_path: Path) -> None:
    rows = ["text,summary", "a,b", '"a stray quote,c', "d,e", "f,g"]
    with pytest.raises(ValueError, match=r"begins at line 3 .* lines 3 to 5 cannot be separated"):
        read_pairs(file(tmp_path, "end.csv", "\n".join(rows) + "\n"))
    rows.insert(4, 'h,"i"')  # a later quote seems to close it
    with pytest.raises(ValueError, match=r"begins at line 3 .* lines 3 to 5 cannot"):
        read_pairs(file(tmp_path, "later.csv", "\n".join(rows) + "\n"))
    with pytest.raises(ValueError, match="begins at line 1"):
        read_pairs(file(tmp_path, "header.csv", 'text,"summary\na,b\n'))
    rows = ["text,summary", "a,b", '"c" d,e', "f,g", 'h,"i']  # within a line: that row alone
    loaded = read_pairs(file(tmp_path, "row.csv", "\n".join(rows)))
    assert [pair.summary for pair in loaded.pairs] == ["b", "g"]
    assert [line for line, _ in loaded.bad_rows] == [3, 5]
    assert "not a row of a table" in loaded.describe_bad_rows("row.csv")


@given(st.lists(st.tuples(*[st.text('ab"\n, x', min_size=1)] * 2), min_size=1, max_size=9))
def test_csv_round_trip(rows: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with (Path(folder) / "a.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows([("text", "summary"), *rows])
        whole = [row for row in rows if row[0].strip() and row[1].strip()]
        if not whole:
            return
        loaded = read_pairs(Path(folder) / "a.csv")
    assert loaded.pairs == [Pair(text.strip(), " ".join(s.split())) for text, s in whole]
    assert len(loaded.bad_rows) == len(rows) - len(whole)


def test_bad_rows_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file(tmp_path, "a.jsonl", '{"text": "a b", "summary": "a"}\nnonsense\n')
    assert len(load_pairs(path)) == 1
    assert "1 of 2 rows skipped: not JSON in 1 (line 2)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "text,title\na,b\n", ["no column 'summary'", "'title'", "--summary-column"]),
        ("a.csv", "text,summary,text\na,b,c\n", ["'text' twice"]),
        ("a.jsonl", '{"text": "a"}\n', ["has no text with a summary", "no 'summary'"]),
        ("a.csv", "text,summary\n", ["has no rows"]),
        ("a.jsonl", b"\xff\xfe\x00", ["not UTF-8"]),
        ("a.jsonl", b"a\x00b", ["binary"]),
        ("a.jsonl", "  \n", ["is empty"]),
        ("a.txt", "text", [".jsonl, .csv or .tsv"]),
    ],
)
def test_errors_in_files(tmp_path: Path, name: str, content: str | bytes, words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"a\.") as error:
        read_pairs(file(tmp_path, name, content))
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_one_column_for_both_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="both"):
        read_pairs(file(tmp_path, "a.csv", "x\na\n"), Columns("x", "x"))


def test_unknown_sources_are_named() -> None:
    with pytest.raises(ValueError, match="docstrings, debian"):
        load_pairs("docstring")
    with pytest.raises(ValueError, match="does not exist"):
        load_pairs("none.jsonl")


@given(
    groups=st.lists(st.integers(0, 30), min_size=40, max_size=90),
    share=st.floats(0.02, 0.4),
    seed=st.integers(0, 9),
)
def test_a_split_keeps_groups_together(groups: list[int], share: float, seed: int) -> None:
    pairs = [Pair(f"text {i}", "s", f"g{group}") for i, group in enumerate(groups)]
    if len(set(groups)) < 3:
        return
    split = split_pairs(pairs, share, seed)
    parts = [split.train, split.validation, split.test]
    assert sorted(p.text for part in parts for p in part) == sorted(p.text for p in pairs)
    assert all(parts)
    names = [{pair.group for pair in part} for part in parts]
    assert not names[0] & names[1]
    assert not names[0] & names[2]
    assert not names[1] & names[2]
    assert split == split_pairs(pairs, share, seed)


def test_split_fractions_with_small_groups() -> None:
    pairs = [Pair(f"text {i}", "s", f"g{i // 2}") for i in range(1000)]
    split = split_pairs(pairs, 0.1, 0)
    assert 100 <= len(split.validation) <= 101
    assert 100 <= len(split.test) <= 101
    assert split_pairs(pairs, 0.1, 1) != split


def test_copies_of_a_text_stay_together() -> None:
    pairs = [Pair(f"text {i % 5}", f"s{i}") for i in range(50)]
    split = split_pairs(pairs, 0.2)
    assert not {p.text for p in split.train} & {p.text for p in split.test + split.validation}


def test_too_few_groups_and_invalid_fractions() -> None:
    with pytest.raises(ValueError, match="2 groups"):
        split_pairs([Pair("a", "b", "x"), Pair("c", "d", "y")])
    with pytest.raises(ValueError, match=r"0\.9"):
        split_pairs([Pair("a", "b")], 0.9)


def test_digest_depends_on_every_field() -> None:
    pairs = [Pair("a", "b", "c"), Pair("a", "b", "d"), Pair("a", "c", "c"), Pair("b", "b", "c")]
    assert len({digest([pair]) for pair in pairs}) == 4


# Docstrings

SOURCE = '''
"""Tools for the small things of every day.

They are here so that nobody has to write them again and again, and all are tested well.
"""
raise SystemExit("never imported")
def good():
    """Return the first line of it.

    This body is long enough to be a text: it has a dozen words and some more of them.
    """
def goes_on():
    """This first line is not whole, because it
    goes on in the next one, and on, and on, and on, and on, and on, and on, and on.
    """
def signature():
    """foo(x, y) -> z

    This body is long enough to be a text: it has a dozen words and some more of them.
    """
def short():
    """Return the first line.

    Too short.
    """
'''


def test_docstrings_are_parsed_and_cleaned(tmp_path: Path) -> None:
    pairs = docstrings.docstring_pairs("some.module", file(tmp_path, "a.py", SOURCE))
    assert {pair.summary for pair in pairs} == {
        "Tools for the small things of every day.",
        "Return the first line of it.",
    }
    assert {pair.group for pair in pairs} == {"some.module"}
    assert all("first line" not in pair.text for pair in pairs)


def test_sources_have_their_modules_names() -> None:
    names = dict(docstrings.sources())
    assert names["json.decoder"].name == "decoder.py"
    assert names["numpy.linalg"].name == "__init__.py"
    assert {"torch.nn.functional", "sympy.core.expr"} <= names.keys()


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two modules alone, and a cache of our own."""
    folder = tmp_path / "lib"
    folder.mkdir()
    file(folder, "a.py", SOURCE)
    file(folder, "b.py", SOURCE.replace("first line of", "second line of"))
    monkeypatch.setattr(docstrings, "package_roots", lambda: {docstrings.STANDARD: folder})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def test_pairs_are_cached_by_content(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = load_pairs("docstrings", quiet=True)
    assert len(pairs) == 2  # equal bodies count once
    kept = list(cache_folder("summary").iterdir())
    assert len(kept) == 1
    with monkeypatch.context() as patch:
        patch.setattr(docstrings, "docstring_pairs", lambda *_: pytest.fail("parsed again"))
        assert load_pairs("docstrings", quiet=True) == pairs
    file(few, "a.py", SOURCE.replace("small", "large"))
    load_pairs("docstrings", quiet=True)
    assert len(list(cache_folder("summary").iterdir())) == 2
    for path in cache_folder("summary").iterdir():
        path.write_bytes(b"\xff")
    assert len(load_pairs("docstrings", quiet=True)) == 2  # what was broken is made anew


def test_loading_prints_progress(few: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert few.exists()
    load_pairs("docstrings")
    assert "saved 2 pairs in" in capsys.readouterr().err


def test_progress_in_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "PROGRESS_SECONDS", -1.0)
    assert list(sources.with_progress([5, 6], "reading", quiet=False)) == [5, 6]
    assert "reading: 1 of 2" in capsys.readouterr().err


# Debian

PACKAGES = """Package: vim
Version: 2

Package: vim-tiny
Source: vim (2.1)

Package: old
Version: 1
"""
LONG = (
    "Vim is an almost compatible version of the editor vi.\n Many new features were added, among\n"
    " them multi level undo, syntax highlighting and a history of the command line.\n"
)
DESCRIPTIONS = f"""Package: vim
Description-md5: aa
Description-en: Vi IMproved - enhanced vi editor
 {LONG} .
 This one is compiled with a standard set of features.

Package: vim-tiny
Description-md5: bb
Description-en: Vi IMproved - compact version
 {LONG}
Package: old
Description-md5: cc
Description-en: transitional package
 {LONG.replace("Vim", "Old")}
Package: tiny
Description-md5: dd
Description-en: too short a text
 It has few words.
"""


def test_descriptions_become_pairs() -> None:
    pairs = debian.parse_pairs([PACKAGES, DESCRIPTIONS])
    assert pairs == [
        Pair(" ".join(LONG.split()), "Vi IMproved - compact version", "vim")
    ]  # the shortest of those that begin alike


def test_lists_in_texts_keep_their_lines() -> None:
    rest = " Some words\n go on.\n .\n Features:\n  * one\n  * two\n and an end."
    assert debian._join_lines(rest) == "Some words go on.\nFeatures:\n* one\n* two\nand an end."


def test_error_without_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ValueError, match=r"no apt.*docstrings"):
        debian.package_lists(tmp_path, print)


def test_lists_are_downloaded_into_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only if the system has none; all that apt writes goes into our folder."""
    monkeypatch.setattr(shutil, "which", lambda _: "apt-get")
    monkeypatch.setattr(debian, "HELPER", Path(sys.executable))
    calls: list[list[str]] = []

    def apt(command: list[str], on_wait: Callable[[], None] = lambda: None) -> bytes:
        on_wait()
        calls.append(list(command))
        own = f"Dir::State::lists={tmp_path / 'lists'}" in command
        if command[1] == "update":
            assert own
            for name in ("x_Packages", "x_Translation-en"):
                file(tmp_path / "lists", name, "")
        paths = f"Packages\t$(LANGUAGE)\t{tmp_path}/lists/x_Packages\n"
        paths += f"Translations\ten\t{tmp_path}/lists/x_Translation-en\n"
        return paths.encode() if own else b"Packages\t$(LANGUAGE)\t/nowhere\n"

    monkeypatch.setattr(debian, "_run", apt)
    messages: list[str] = []
    paths = debian.package_lists(tmp_path, messages.append)
    assert [path.name for path in paths] == ["x_Packages", "x_Translation-en"]
    assert [call[1] for call in calls] == ["indextargets", "indextargets", "update", "indextargets"]
    hooks = next(each for each in calls[2] if each.startswith("--config-file="))
    text = Path(hooks.partition("=")[2]).read_text()
    for name in ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success"):
        assert f"#clear APT::Update::{name};" in text
    assert "downloading" in messages[0]
    assert "MB on disk so far" in messages[1]
    assert debian.package_lists(tmp_path, messages.append) == paths
    assert len(messages) == 2  # they are there now


@pytest.mark.skipif(shutil.which("apt-config") is None, reason="needs apt")
def test_the_systems_hooks_are_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By apt's own reading of the file that is given to it."""
    system = tmp_path / "system.conf"
    system.write_text('APT::Update::Post-Invoke { "touch /hook"; };\n')
    monkeypatch.setenv("APT_CONFIG", str(system))
    monkeypatch.setattr(debian, "_run", lambda command, _: commands.append(command))
    commands: list[list[str]] = []
    debian._download(tmp_path, print)
    options = [each for each in commands[0] if each.startswith("--config-file=")]
    dump = [subprocess.check_output(["apt-config", *given, "dump"]) for given in ([], options)]
    assert b"touch /hook" in dump[0]
    assert b"touch /hook" not in dump[1]


@pytest.mark.skipif(not debian.HELPER.exists(), reason="needs apt")
def test_compressed_lists_are_read(tmp_path: Path) -> None:
    plain = file(tmp_path, "x_Packages", "Package: vim\nNote: caf\xe9".encode("latin-1"))
    packed = file(tmp_path, "y_Packages.gz", gzip.compress("Package: é".encode()))
    assert debian.read_package_list(plain) == "Package: vim\nNote: caf\ufffd"
    assert debian.read_package_list(packed) == "Package: é"
    with pytest.raises(ValueError, match="apt failed"):
        debian.read_package_list(tmp_path / "none")


def test_debian_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lists = {"x_Packages": PACKAGES, "x_Translation-en": DESCRIPTIONS}
    monkeypatch.setattr(debian, "package_lists", lambda *_: [Path(name) for name in lists])
    monkeypatch.setattr(debian, "read_package_list", lambda path: lists[path.name])
    pairs = load_pairs("debian")
    assert [pair.summary for pair in pairs] == ["Vi IMproved - compact version"]
    assert "saved 1 pairs in" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(debian, "parse_pairs", lambda _: pytest.fail("made again"))
        assert load_pairs("debian") == pairs
    lists["x_Translation-en"] = DESCRIPTIONS.replace("compact", "small")
    assert load_pairs("debian")[0].summary == "Vi IMproved - small version"
    assert {each[0].summary for each in sources.cached_versions("debian")} == {
        "Vi IMproved - small version", "Vi IMproved - compact version",
    }  # fmt: skip


def test_a_long_wait_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "PROGRESS_SECONDS", 0.05)
    reported = tmp_path / "reported"
    wait = f"until [ -e {reported} ]; do sleep 0.01; done; echo done"
    assert debian._run(["sh", "-c", wait], reported.touch).strip() == b"done"
    monkeypatch.setattr(debian, "TIMEOUT", 0.1)
    with pytest.raises(ValueError, match="took longer"):
        debian._run([sys.executable, "-c", "import time; time.sleep(60)"])


def test_an_apt_failure_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="apt failed"):
        debian._run([sys.executable, "-c", "raise SystemExit(3)"])
    del tmp_path
