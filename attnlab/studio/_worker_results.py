"""In a worker: claims and benches, which take minutes, and what the pages need of their code."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from attnlab._safe_files import read_json, write_json, write_text
from attnlab.bench._progress import BenchProgress
from attnlab.bench._run_bench import bench as measure
from attnlab.claims._claim import CLAIMS, TOPICS
from attnlab.claims._ledger import ledger
from attnlab.claims._registry import chosen
from attnlab.claims._run_claims import run
from attnlab.report import to_json
from attnlab.studio import _request_limits as limits
from attnlab.studio._result_files import claims as kept_claims
from attnlab.studio._worker import Teller

LEDGER = "claims-{size}.json"


def registry(given: dict[str, Any], content: bytes, tell: Teller) -> tuple[Any, bytes]:
    """Every claim, without a result."""
    del given, content, tell
    rows = [
        {
            "id": each.name,
            "topic": each.topic,
            "source": each.source,
            "statement": each.statement,
            "quoted": each.quoted,
            "why": each.why,
            "reference": each.reference,
            "measured": each.judge.name,
            "threshold": each.judge.threshold,
            "control": {"what": each.control},
            "alone": each.alone,
        }
        for each in CLAIMS.values()
    ]
    return {"registry": rows, "topics": TOPICS}, b""


def claims(given: dict[str, Any], content: bytes, tell: Teller) -> tuple[Any, bytes]:
    """Run some; what was run before at this size stands beside them in the file.

    Each is written as it ends: whatever ends the job then, it is kept.
    """
    del content
    wanted, count = chosen(given["ids"]), 0
    under_way: dict[str, None] = {}
    path = Path(given["cache"]) / LEDGER.format(size=given["size"])
    path.parent.mkdir(parents=True, exist_ok=True)

    def progress() -> None:
        done = {"done": count, "of": len(wanted), "message": ", ".join(under_way)}
        tell("progress", done)

    def begun(name: str) -> None:
        under_way[name] = None
        progress()

    progress()
    for result in run(wanted, size=given["size"], begun=begun):
        write_json(path, joined(known_in(path), ledger([result], seed=0, size=given["size"])))
        count += 1
        under_way.pop(result.name, None)
        progress()
    return {}, b""


def known_in(path: Path) -> Any:
    """What was run before, read just before it is written anew; None: nothing, or broken."""
    try:
        return kept_claims(read_json(path, limits.REPORT_BYTES))
    except ValueError:
        return None


def joined(old: Any, new: dict[str, Any]) -> dict[str, Any]:
    """The rows of a ledger before, replaced by those of a new one; in the registry's order."""
    now = time.time()
    rows = {each["id"]: {**each, "time": now} for each in new["claims"]}
    alike = old is not None and all(old.get(name) == new[name] for name in ("seed", "size"))
    for each in old["claims"] if alike else ():
        rows.setdefault(each["id"], each)
    return {**new, "claims": [rows[name] for name in CLAIMS if name in rows]}


class Told(BenchProgress):
    """A bench's progress, sent to the server."""

    def __init__(self, tell: Teller) -> None:
        self.tell, self.what, self.done, self.of = tell, "", 0, 0

    def begin(self, what: str, steps: int) -> None:
        self.what, self.done, self.of = what, 0, steps
        self.step(by=0)

    def step(self, what: str = "", by: int = 1) -> None:
        self.done += by
        message = f"{self.what}: {what}" if what else self.what
        self.tell("progress", {"done": self.done, "of": self.of, "message": message})


def bench(given: dict[str, Any], content: bytes, tell: Teller) -> tuple[Any, bytes]:
    """One part, measured now, in a file of its own."""
    del content
    report = measure([given["part"]], quick=given["quick"], progress=Told(tell))
    folder = Path(given["cache"])
    folder.mkdir(parents=True, exist_ok=True)
    name = f"bench-{given['part']}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    write_text(folder / name, to_json(report))
    return {"name": name}, b""
