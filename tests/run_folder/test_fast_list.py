"""`attnlab runs` reads and prints quickly, with the same result as the slow way."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from attnlab.cli._run_table import rich_table, row_texts, runs_table
from attnlab.run_folder import _metrics as metrics
from attnlab.run_folder._config import TaskSection
from attnlab.run_folder._run_list import Summary
from tests.support.examples import examples

STEPS = st.integers(0, 99) | st.just("x") | st.none()
ROWS = st.fixed_dictionaries(
    {"step": STEPS, "loss": st.floats(0, 9)},
    optional={"validation": st.dictionaries(st.sampled_from(["loss", "other"]), st.floats(0, 9))},
)
LINES = st.one_of(
    ROWS.map(json.dumps),
    ROWS.map(json.dumps),
    ROWS.map(lambda row: json.dumps(row)[:-3]),
    st.sampled_from(["", "\r", "3", '"validation"', '{"validation": {"loss": 0}}\r{"step": 1}']),
    st.builds(lambda row, length: json.dumps({"x": "y" * length, **row}), ROWS, st.integers(0, 90)),
)


@examples(200)
@given(
    lines=st.lists(LINES, max_size=60),
    end=st.sampled_from(["", "\n"]),
    block=st.integers(1, 300),
    line=st.integers(40, 130),
    limit=st.sampled_from([500, 10**6]),
)
def test_metrics_are_those_of_all_lines(
    lines: list[str],
    end: str,
    block: int,
    line: int,
    limit: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Blocks and the longest line have any size, so that lines cross them in every way."""
    path = tmp_path_factory.getbasetemp() / "metrics.jsonl"
    path.write_text("\n".join(lines) + end)
    task = TaskSection(headline="loss", better="lower")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "BLOCK_BYTES", block)
        patch.setattr(metrics, "LINE_BYTES", line)
        patch.setattr(metrics, "METRICS_BYTES", limit)
        fast = metrics.read_metrics(path, task)
        patch.setattr(metrics, "_validations_and_tail", metrics._lines)
        assert metrics.read_metrics(path, task) == fast


def test_only_validations_and_the_end_are_separated(tmp_path: Path) -> None:
    """So the time does not depend on the other rows much."""
    rows = [json.dumps({"step": step, "loss": 1.0}) for step in range(5000)]
    rows[2500] = json.dumps({"step": 2500, "validation": {"loss": 0.5}})
    path = tmp_path / "metrics.jsonl"
    path.write_text("\n".join(rows) + "\n")
    needed = list(metrics._validations_and_tail(path))
    assert needed == [f"{row}\n".encode() for row in (rows[2500], *rows[-metrics.TAIL_LINES :])]


NAMES = st.text("ab/ -é日[:", min_size=1, max_size=40) | st.text(min_size=1, max_size=9)
SUMMARIES = st.builds(
    Summary,
    run=NAMES,
    folder=st.just("folder"),
    task=st.none() | NAMES,
    mechanism=st.none() | NAMES,
    parameters=st.none() | st.integers(0, 10**18),
    step=st.integers(0, 10**7),
    steps=st.none() | st.integers(1, 10**7),
    done=st.booleans(),
    loss=st.none() | st.floats(),
    headline=NAMES,
    best=st.none() | st.floats(),
    modified=st.none() | st.floats(0, 1e9),  # ages in days, which are the same in both tables
)


@examples(100)
@given(
    runs=st.lists(SUMMARIES, min_size=1, max_size=9),
    width=st.integers(20, 160),
    terminal=st.booleans(),
    encoding=st.sampled_from(["utf-8", "ascii"]),
)
def test_the_table_is_the_one_that_rich_prints(
    runs: list[Summary], width: int, terminal: bool, encoding: str
) -> None:
    def printed(parts: bool) -> bytes:
        content = io.BytesIO()
        file = io.TextIOWrapper(content, encoding=encoding)
        console = Console(file=file, width=width, force_terminal=terminal, color_system="truecolor")
        if parts:
            for part in runs_table(runs, console):
                console.print(part)
        else:
            console.print(rich_table([row_texts(run, console) for run in runs]))
        file.flush()
        return content.getvalue()

    assert printed(parts=True) == printed(parts=False)
