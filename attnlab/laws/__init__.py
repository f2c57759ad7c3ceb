"""The laws that every mechanism obeys, to be tried on any: docs/laws.md."""

from __future__ import annotations

from attnlab.laws._compare import LawError
from attnlab.laws._run_laws import LAWS, Finding, check_laws

__all__ = ["LAWS", "Finding", "LawError", "check_laws"]
