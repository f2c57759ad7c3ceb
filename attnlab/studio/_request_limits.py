"""How much one request may ask for. `responses.Limits` lists those that the pages know."""

from __future__ import annotations

PORT = 8642  # where the studio is found if no other is given
TEXT = 20_000  # characters of a text to summarize or to look at
QUESTIONS, QUESTION = 50, 500  # how many at once, and characters of one
SUMMARIES, BEAMS = 8, 16
PAIRS = 500_000  # characters of questions and answers to audit with
TOKENS = 256  # to write on
IMAGE_BYTES = 8 * 2**20
JSON_BYTES = 2**20
HEAD_BYTES = 2**19  # of address and headers: as many runs as may be named, with the longest names
NAME = 1024  # characters of a run's, model's or file's name
RUNS = 32  # that one reader follows or compares
ROWS = 5000  # of metrics in one answer
STREAMS = 256  # readers of events at the same time
BODY_SECONDS = 30.0  # that a body may take to come
WORK_SECONDS = 900.0  # that a model may take
WORKERS = 3  # processes with models
MODELS = 3  # that one of them keeps
WAITING = 32  # requests that wait for a worker
JOBS, KEPT_JOBS = 8, 64  # that wait, and that are remembered
CAPTURES, CAPTURE_BYTES = 16, 256 * 2**20  # that are kept, and all together
REPORT_BYTES = 64 * 2**20  # of an audit, a ledger or a bench
REPORTS = 200  # files of results that are listed
LOOK_TOKENS, LOOK_GIBIBYTES = 1024, 1.0
