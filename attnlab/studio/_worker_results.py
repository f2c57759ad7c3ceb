"""In a worker: runs claims and benches, which take minutes, and lists all claims."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from attnlab._safe_files import read_json, write_json, write_text
from attnlab.bench._progress import BenchProgress
from attnlab.bench._run_bench import bench as measure
from attnlab.claims._claim import CLAIMS, TOPICS
from attnlab.claims._ledger import make_ledger
from attnlab.claims._registry import select_claims
from attnlab.claims._run_claims import run_claims
from attnlab.report import to_json
from attnlab.studio import _request_limits as limits
from attnlab.studio._result_files import check_ledger
from attnlab.studio._worker import EventSender

LEDGER = "claims-{size}.json"


def registry(
    arguments: dict[str, Any], attached: bytes, send_event: EventSender
) -> tuple[Any, bytes]:
    """Every claim, without results."""
    del arguments, attached, send_event
    rows = [
        {
            "id": claim.name,
            "topic": claim.topic,
            "source": claim.source,
            "statement": claim.statement,
            "quoted": claim.quoted,
            "why": claim.why,
            "reference": claim.reference,
            "measured": claim.judge.name,
            "threshold": claim.judge.threshold,
            "control": {"what": claim.control},
            "alone": claim.alone,
        }
        for claim in CLAIMS.values()
    ]
    return {"registry": rows, "topics": TOPICS}, b""


def claims(
    arguments: dict[str, Any], attached: bytes, send_event: EventSender
) -> tuple[Any, bytes]:
    """Runs some claims and adds them to the ledger of this size.

    It writes each result at once, so that a job that ends early keeps them.
    """
    del attached
    selected, done = select_claims(arguments["ids"]), 0
    running: dict[str, None] = {}
    path = Path(arguments["cache"]) / LEDGER.format(size=arguments["size"])
    path.parent.mkdir(parents=True, exist_ok=True)

    def send_progress() -> None:
        message = ", ".join(running)
        send_event("progress", {"done": done, "total": len(selected), "message": message})

    def on_start(name: str) -> None:
        running[name] = None
        send_progress()

    send_progress()
    for result in run_claims(selected, size=arguments["size"], on_start=on_start):
        new = make_ledger([result], seed=0, size=arguments["size"])
        write_json(path, merge_ledger(read_previous_ledger(path), new))
        done += 1
        running.pop(result.name, None)
        send_progress()
    return {}, b""


def read_previous_ledger(path: Path) -> Any:
    """The ledger in the file; None without one, or if it is broken."""
    try:
        return check_ledger(read_json(path, limits.REPORT_BYTES))
    except ValueError:
        return None


def merge_ledger(old: Any, new: dict[str, Any]) -> dict[str, Any]:
    """The rows of the new ledger, and those of the old one that it lacks, in the claims' order."""
    now = time.time()
    rows = {row["id"]: {**row, "time": now} for row in new["claims"]}
    known = {"seeds": 1, **(old or {})}  # ledgers of attnlab 0.1 have no number of seeds
    same = all(known.get(name) == new.get(name, 1) for name in ("seed", "seeds", "size"))
    for row in old["claims"] if same else ():
        rows.setdefault(row["id"], row)
    return {**new, "claims": [rows[name] for name in CLAIMS if name in rows]}


class BenchProgressSender(BenchProgress):
    """Sends the progress of a bench to the server."""

    def __init__(self, send_event: EventSender) -> None:
        self.send_event, self.what, self.done, self.total = send_event, "", 0, 0

    def begin(self, what: str, steps: int) -> None:
        self.what, self.done, self.total = what, 0, steps
        self.step(by=0)

    def step(self, what: str = "", by: int = 1) -> None:
        self.done += by
        message = f"{self.what}: {what}" if what else self.what
        self.send_event("progress", {"done": self.done, "total": self.total, "message": message})


def bench(arguments: dict[str, Any], attached: bytes, send_event: EventSender) -> tuple[Any, bytes]:
    """Measures one part of the bench and writes the report to a new file."""
    del attached
    part, quick = arguments["part"], arguments["quick"]
    report = measure([part], quick=quick, progress=BenchProgressSender(send_event))
    folder = Path(arguments["cache"])
    folder.mkdir(parents=True, exist_ok=True)
    name = f"bench-{part}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    write_text(folder / name, to_json(report))
    return {"name": name}, b""
