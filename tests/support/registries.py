"""Restore the registries after a test or documentation page added to them."""

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
        for mounted in (app, compare.app):
            if name in mounted:
                del mounted[name]
    forget_extensions()
