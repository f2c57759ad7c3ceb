"""Sends changes of runs to all clients: one task reads the runs folder for all of them.

Each client has its own position in each metrics file and is only woken up. So a slow client falls
behind but misses nothing. Clients at the same position share what is read and formatted there.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from attnlab.run_folder._file_names import METRICS
from attnlab.run_folder._metrics_tail import MetricsChunk, MetricsTail
from attnlab.studio import _request_limits as limits
from attnlab.studio._allowed_folders import AllowedFolders
from attnlab.studio._event_stream import KEEP_ALIVE, format_event, id_line
from attnlab.studio._http_errors import RequestError
from attnlab.studio._run_list import Entry, RunList

POLL_SECONDS = 0.4
POLL_SECONDS_PER_LISTENER = 0.002  # if that is more: to send a change to all takes time
KEEP_ALIVE_SECONDS = 15.0
MAX_TAILS = 512  # metrics files whose line positions are kept
MAX_SHARED = 64  # events that are kept for clients at the same position


@dataclass(frozen=True)
class NewRows:
    """The event with the next rows after a mark, and the mark after them."""

    mark: str
    event: bytes = b""
    """Without an id, because that depends on all runs that a client follows."""
    more: bool = False


class RunWatcher:
    def __init__(self, folders: AllowedFolders) -> None:
        self.folders, self.list = folders, RunList(folders)
        self.tails: OrderedDict[str, MetricsTail] = OrderedDict()
        self.entries: dict[str, tuple[int, Entry]] = {}
        """Entries by run id, each with the change count at its last change."""
        self.deleted: dict[str, int] = {}
        """Change counts by the ids of deleted runs."""
        self.change_count = 0
        self.wakeup = asyncio.Event()
        self.listeners = 0
        self.poller: asyncio.Task[None] | None = None
        self.closing = asyncio.Event()
        self.reading = asyncio.Lock()
        self.next_read: asyncio.Task[list[Entry]] | None = None
        self.shared: OrderedDict[tuple[str, str], asyncio.Task[NewRows]] = OrderedDict()
        """New rows by run and mark, until listeners are woken."""
        self.shared_changes: dict[int, bytes] = {}
        """Events of the list by the change count that a client knows, until something changes."""

    async def read_entries(self) -> list[Entry]:
        """The runs as they are now. All that call while one read is going on share the next one."""
        if self.next_read is None:
            self.next_read = asyncio.create_task(self._read_entries())
        return await asyncio.shield(self.next_read)

    async def _read_entries(self) -> list[Entry]:
        async with self.reading:  # two reads at once could be recorded in the wrong order
            self.next_read = None
            entries = await asyncio.to_thread(self.list.entries)
            self._record_changes(entries)
        return entries

    async def read_entry(self, run: str) -> Entry:
        return await asyncio.to_thread(self.list.entry, run)

    async def read_metrics(self, run: str, mark: str) -> MetricsChunk:
        folder = self.folders.run_folder(run)
        tail = self._tail(run, folder / METRICS)
        return await asyncio.to_thread(tail.read, mark, limits.METRIC_ROWS)

    def _tail(self, run: str, path: Any) -> MetricsTail:
        tail = self.tails.setdefault(run, MetricsTail(path))
        self.tails.move_to_end(run)
        while len(self.tails) > MAX_TAILS:
            self.tails.popitem(last=False)
        return tail

    def _record_changes(self, entries: list[Entry]) -> None:
        """Counts what changed since the last read."""
        before = self.change_count
        names = {entry["id"] for entry in entries}
        for entry in entries:
            old = self.entries.get(entry["id"])
            if old is None or old[1] != entry:
                self.change_count += 1
                self.entries[entry["id"]] = (self.change_count, entry)
                self.deleted.pop(entry["id"], None)
        for name in [name for name in self.entries if name not in names]:
            self.change_count += 1
            del self.entries[name]
            self.deleted[name] = self.change_count
            self.tails.pop(name, None)
        while len(self.deleted) > MAX_TAILS:
            del self.deleted[next(iter(self.deleted))]
        if self.change_count != before:
            self.shared_changes.clear()

    def wake_listeners(self) -> None:
        self.shared.clear()
        wakeup, self.wakeup = self.wakeup, asyncio.Event()
        wakeup.set()

    async def _poll(self, known_count: int) -> None:
        """Reads while anyone listens. An entry changes with every row of metrics.

        Only this wakes the listeners: requests see changes too, but may be many.
        """
        while self.listeners:
            await asyncio.sleep(max(POLL_SECONDS, POLL_SECONDS_PER_LISTENER * self.listeners))
            await self.read_entries()
            if self.change_count != known_count:
                known_count = self.change_count
                self.wake_listeners()

    def _changes(self, since: int) -> bytes:
        """The event with all changes after this change count."""
        if since not in self.shared_changes:
            changed = [entry for count, entry in self.entries.values() if count > since]
            deleted = [name for name, count in self.deleted.items() if count > since]
            event = format_event("runs", {"runs": changed, "gone": deleted})
            self.shared_changes[since] = event
        return self.shared_changes[since]

    async def follow(self, marks: dict[str, str]) -> AsyncIterator[bytes]:
        """Events of the list, and of the runs in `marks` after their marks, until the shutdown."""
        self.listeners += 1
        try:
            await self.read_entries()
            if self.poller is None or self.poller.done():
                self.shared.clear()
                self.poller = asyncio.create_task(self._poll(self.change_count))
            last_count = -1
            while not self.closing.is_set():
                wakeup = self.wakeup  # before reading, so that a change meanwhile wakes us again
                changes = b""
                if self.change_count != last_count:
                    changes = id_line(_event_id(marks)) + self._changes(last_count)
                    last_count = self.change_count
                async for rows in self._new_rows(marks):
                    yield changes + rows  # at once: each piece costs a system call
                    changes = b""
                if changes:
                    yield changes
                try:
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        await wakeup.wait()
                except TimeoutError:
                    yield KEEP_ALIVE
        finally:
            self.listeners -= 1

    async def _new_rows(self, marks: dict[str, str]) -> AsyncIterator[bytes]:
        for run in marks:
            more = True
            while more and not self.closing.is_set():
                rows = await self._shared_rows(run, marks[run])
                if rows.event:
                    marks[run] = rows.mark
                    yield id_line(_event_id(marks)) + rows.event
                more = rows.more

    async def _shared_rows(self, run: str, mark: str) -> NewRows:
        task = self.shared.get((run, mark))
        if task is None:
            task = asyncio.create_task(self._read_rows(run, mark))
            self.shared[run, mark] = task
            while len(self.shared) > MAX_SHARED:
                self.shared.popitem(last=False)
        return await asyncio.shield(task)

    async def _read_rows(self, run: str, mark: str) -> NewRows:
        try:
            part = await self.read_metrics(run, mark)
        except RequestError:  # the run does not exist at the moment
            return NewRows(mark)
        if part.next == part.after and not part.again:
            return NewRows(mark)
        event = format_event("metrics", {"run": run, **part.json()})
        return NewRows(part.mark, event, part.next < part.total)

    def close(self) -> None:
        self.closing.set()
        self.wake_listeners()


def _event_id(marks: dict[str, str]) -> str:
    """The client's positions. It sends them back in the header Last-Event-ID to continue there."""
    return json.dumps(marks, separators=(",", ":"))
