"""A call of the fake worker whose module kills its process at the first import.

The variable DYING_IMPORT_MARKER names the file that records this.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

marker = Path(os.environ["DYING_IMPORT_MARKER"])
if not marker.exists():
    marker.touch()
    os.kill(os.getpid(), signal.SIGKILL)


def dying_import(*_: Any) -> tuple[str, bytes]:
    return "imported", b""
