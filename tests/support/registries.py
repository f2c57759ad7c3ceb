"""Registries as they were: what a test or a page of the documentation adds is gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from attnlab import MECHANISMS
from attnlab.cli import MOUNTED, app, compare
from attnlab.extensions import VARIABLE, forget_extensions
from attnlab.tasks.registry import TASKS


@contextmanager
def restored_registries() -> Iterator[None]:
    from attnlab.claims import CLAIMS

    before = [(registry, dict(registry)) for registry in (MECHANISMS, CLAIMS, TASKS)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "")
        forget_extensions()
        yield
    for registry, entries in before:
        registry.clear()
        registry.update(entries)  # type: ignore[arg-type]
    for name in MOUNTED - TASKS.entries.keys():
        MOUNTED.remove(name)
        del app[name]
        del compare.app[name]
    forget_extensions()
