"""What changes, told to all who listen: one watcher reads the folder for all of them.

A listener keeps its own place in each file and is only woken; whoever is slow is behind, and loses
nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Any

from attnlab.run_folder._file_names import METRICS
from attnlab.run_folder._metrics_tail import Part, Tail
from attnlab.studio import _request_limits as limits
from attnlab.studio._allowed_folders import Places
from attnlab.studio._event_stream import KEEP_ALIVE, event
from attnlab.studio._http_errors import Refused
from attnlab.studio._run_list import Entry, RunList

EVERY = 0.4  # seconds between two looks
ALIVE = 15.0  # between two signs of life
TAILS = 512  # files whose lines are known


class Hub:
    def __init__(self, places: Places) -> None:
        self.places, self.list = places, RunList(places)
        self.tails: OrderedDict[str, Tail] = OrderedDict()
        self.entries: dict[str, tuple[int, Entry]] = {}
        """Each with the count of changes when it last changed."""
        self.gone: dict[str, int] = {}
        self.count = 0
        self.pulse = asyncio.Event()
        self.listeners = 0
        self.watcher: asyncio.Task[None] | None = None
        self.closing = asyncio.Event()
        self.looking = asyncio.Lock()

    async def entries_now(self) -> list[Entry]:
        async with self.looking:  # two looks at once could be noted in the wrong order
            found = await asyncio.to_thread(self.list.entries)
            self._note(found)
        return found

    async def entry(self, run: str) -> Entry:
        self.places.run(run)
        for each in await self.entries_now():
            if each["id"] == run:
                return each
        raise Refused(404, f"There is no run {run[:80]}.")

    async def metrics(self, run: str, mark: str) -> Part:
        folder = self.places.run(run)
        tail = self._tail(run, folder / METRICS)
        return await asyncio.to_thread(tail.read, mark, limits.ROWS)

    def _tail(self, run: str, path: Any) -> Tail:
        tail = self.tails.setdefault(run, Tail(path))
        self.tails.move_to_end(run)
        while len(self.tails) > TAILS:
            self.tails.popitem(last=False)
        return tail

    def _note(self, found: list[Entry]) -> None:
        """Count what changed since the last look, and wake who listens."""
        before = self.count
        names = {each["id"] for each in found}
        for each in found:
            old = self.entries.get(each["id"])
            if old is None or old[1] != each:
                self.count += 1
                self.entries[each["id"]] = (self.count, each)
                self.gone.pop(each["id"], None)
        for name in [name for name in self.entries if name not in names]:
            self.count += 1
            del self.entries[name]
            self.gone[name] = self.count
            self.tails.pop(name, None)
        while len(self.gone) > TAILS:
            del self.gone[next(iter(self.gone))]
        if self.count != before:
            self.wake()

    def wake(self) -> None:
        pulse, self.pulse = self.pulse, asyncio.Event()
        pulse.set()

    async def _watch(self) -> None:
        """While anyone listens. The list's entries change with every row that is written."""
        while self.listeners:
            await self.entries_now()
            await asyncio.sleep(EVERY)

    def _changes(self, since: int) -> dict[str, Any]:
        changed = [entry for count, entry in self.entries.values() if count > since]
        gone = [name for name, count in self.gone.items() if count > since]
        return {"runs": changed, "gone": gone}

    async def follow(self, places: dict[str, str]) -> AsyncIterator[bytes]:
        """Events of these runs after these marks, and of the list; ends when the server does."""
        self.listeners += 1
        if self.watcher is None or self.watcher.done():
            self.watcher = asyncio.create_task(self._watch())
        try:
            await self.entries_now()
            seen = -1
            while not self.closing.is_set():
                pulse = self.pulse  # before reading: what comes meanwhile wakes us again
                if self.count != seen:
                    changes, seen = self._changes(seen), self.count
                    yield event("runs", changes, _id(places))
                async for chunk in self._rows(places):
                    yield chunk
                try:
                    await asyncio.wait_for(pulse.wait(), ALIVE)
                except TimeoutError:
                    yield KEEP_ALIVE
        finally:
            self.listeners -= 1

    async def _rows(self, places: dict[str, str]) -> AsyncIterator[bytes]:
        for run in places:
            more = True
            while more and not self.closing.is_set():
                try:
                    part = await self.metrics(run, places[run])
                except Refused:  # gone for now
                    break
                if part.next > part.after or part.again:
                    places[run] = part.mark
                    yield event("metrics", {"run": run, **part.json()}, _id(places))
                more = part.next < part.total

    def close(self) -> None:
        self.closing.set()
        self.wake()


def _id(places: dict[str, str]) -> str:
    """Where a reader stands, for it to go on from: the header Last-Event-ID."""
    return json.dumps(places, separators=(",", ":"))
