from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.unwritten_memory import nan_in_unwritten_memory


@pytest.fixture(autouse=True)
def unwritten_memory() -> Iterator[None]:
    with nan_in_unwritten_memory():
        yield
