"""The laws that every mechanism must obey, as checks for any mechanism: docs/laws.md."""

from __future__ import annotations

from attnlab.laws._compare import LawError
from attnlab.laws._run_laws import LAWS, LawResult, check_laws

__all__ = ["LAWS", "LawError", "LawResult", "check_laws"]
