"""What `make test` tries of many examples; `make test-slow` tries all of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

ALL = "ATTNLAB_ALL_EXAMPLES" in os.environ


def examples(count: int) -> settings:
    """Settings for `count` examples of hypothesis, or a third of them, the same in every run."""
    return settings(max_examples=count if ALL else -(-count // 3))


def slow_unless(quick: Collection[str], values: Iterable[str]) -> list[Any]:
    """Values for `parametrize`. All but those of `quick` run in `make test-slow` alone."""
    return [
        pytest.param(value, marks=[] if value in quick else [pytest.mark.slow]) for value in values
    ]
