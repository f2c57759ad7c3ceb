"""Encode documents as a stream of token ids, with several processes if the text is large."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from attnlab._cores import available_cores
from attnlab._message_frames import pack_frame, read_frame
from attnlab.tasks.language._text_files import PIECE
from attnlab.tokenizer import BPE, Tokenizer, parse_tokenizer

MAX_PROCESSES = 8
BATCH = PIECE  # characters that are sent to a process together


@dataclass
class Piece:
    """A piece of a document."""

    text: str
    starts_document: bool


Encoded = tuple[np.ndarray, Counter[str]]
"""Ids, and how often each unknown character was replaced."""
Encode = Callable[[list[str]], list[Encoded]]


@dataclass(frozen=True)
class TokenizedDocuments:
    """How many ids, with both end tokens, and characters each document has."""

    lengths: np.ndarray
    characters: np.ndarray
    unknown: Counter[str]


def tokenize(
    documents: Iterable[Iterable[str]],
    tokenizer: Tokenizer,
    write: Callable[[np.ndarray], Any],
    *,
    in_processes: bool = False,
) -> TokenizedDocuments:
    """Write the ids of documents in pieces, each document between `begin` and `end`."""
    begin, end = (np.array([i], tokenizer.id_type) for i in (tokenizer.begin, tokenizer.end))
    lengths, characters = array("q"), array("q")
    unknown: Counter[str] = Counter()
    with _encoder(tokenizer, in_processes) as encode:
        for piece, (ids, replaced) in encode(_pieces(documents)):
            if piece.starts_document:
                write(np.concatenate([end, begin, ids] if lengths else [begin, ids]))
                lengths.append(2)
                characters.append(0)
            else:
                write(ids)
            lengths[-1] += len(ids)
            characters[-1] += len(piece.text)
            unknown.update(replaced)
    if lengths:
        write(end)
    return TokenizedDocuments(np.array(lengths, np.int64), np.array(characters, np.int64), unknown)


def _pieces(documents: Iterable[Iterable[str]]) -> Iterator[Piece]:
    for document in documents:
        for number, text in enumerate(document):
            yield Piece(text, starts_document=not number)


EncodePieces = Callable[[Iterable[Piece]], Iterator[tuple[Piece, Encoded]]]


@contextmanager
def _encoder(tokenizer: Tokenizer, in_processes: bool) -> Iterator[EncodePieces]:
    """Characters and bytes are looked up faster than another process could receive them."""
    if in_processes and isinstance(tokenizer, BPE):
        with TokenizingProcesses(tokenizer) as processes:
            yield processes.encode
    else:
        yield lambda pieces: ((piece, tokenizer.encode_array(piece.text)) for piece in pieces)


class TokenizingProcesses:
    """Processes that encode pieces, in their order.

    They are no forks, because PyTorch's threads would not survive one, and they do not import the
    main module of your program. A thread of this process serves each of them. They end with it,
    also if it is killed, because then their input ends.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.count = min(MAX_PROCESSES, available_cores())
        self.processes: list[subprocess.Popen[bytes]] = []
        self.local = threading.local()

    def __enter__(self) -> TokenizingProcesses:
        self.threads = ThreadPoolExecutor(self.count, initializer=self._start)
        return self

    def __exit__(self, *_: object) -> None:
        self.threads.shutdown(cancel_futures=True)
        for process in self.processes:
            process.kill()
            process.communicate()

    def _start(self) -> None:
        source = str(Path(__file__).parents[3])
        paths = [source, os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "TOKENIZERS_PARALLELISM": "false",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self.processes.append(process)
        self.local.process = process
        _send(cast(IO[bytes], process.stdin), [self.tokenizer.to_json().encode()])

    def encode(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, Encoded]]:
        waiting: deque[tuple[list[Piece], Future[list[np.ndarray]]]] = deque()
        for batch in chain(_batches(pieces), [None] * 2 * self.count):
            if batch is not None:
                waiting.append((batch, self.threads.submit(self._encode_batch, batch)))
            if waiting and (batch is None or len(waiting) > 2 * self.count):
                done, future = waiting.popleft()
                for piece, ids in zip(done, future.result(), strict=True):
                    yield piece, (ids, Counter())

    def _encode_batch(self, batch: list[Piece]) -> list[np.ndarray]:
        process = self.local.process
        try:
            _send(process.stdin, [_to_bytes(piece.text) for piece in batch])
            contents = _receive(process.stdout)
            return [np.frombuffer(content, self.tokenizer.id_type) for content in contents]
        except (EOFError, BrokenPipeError):
            raise ValueError(
                "a process that tokenizes the text has ended; there may be too little memory"
            ) from None


def _batches(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    batch: list[Piece] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece.text)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _send(stream: IO[bytes], contents: Sequence[bytes]) -> None:
    stream.write(pack_frame({"sizes": list(map(len, contents))}, b"".join(contents)))
    stream.flush()


def _receive(stream: IO[bytes]) -> list[bytes]:
    """What `_send` sent; EOFError at the end, also in the middle of a message."""
    try:
        frame = read_frame(stream)
    except ValueError:  # it was cut, so it is not JSON
        frame = None
    if frame is None:
        raise EOFError
    message, joined = frame
    ends = list(accumulate(message["sizes"], initial=0))
    if len(joined) < ends[-1]:
        raise EOFError
    return [joined[first:last] for first, last in pairwise(ends)]


def _serve() -> None:
    """Encode what the process that started this one sends, until it closes the pipe."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too, and then its input ends
    source, target = sys.stdin.buffer, sys.stdout.buffer
    try:
        tokenizer = parse_tokenizer(_receive(source)[0].decode())
        while True:
            texts = (content.decode("utf-8", "surrogatepass") for content in _receive(source))
            _send(target, [tokenizer.encode_array(text)[0].tobytes() for text in texts])
    except (EOFError, BrokenPipeError):
        os._exit(0)


if __name__ == "__main__":
    _serve()
