"""How much one request may use. `_responses.Limits` lists the limits that the pages know."""

from __future__ import annotations

PORT = 8642  # the default
TEXT_CHARACTERS = 20_000  # of a text to summarize, continue or inspect
QUESTIONS, QUESTION_CHARACTERS = 50, 500  # per request, and per question
GENERATIONS, BEAMS = 8, 16
PAIRS_CHARACTERS = 500_000  # of questions and answers for an audit
NEW_TOKENS = 256  # that a model may generate
IMAGE_BYTES = 8 * 2**20
JSON_BYTES = 2**20
HEADER_BYTES = 2**19  # of address and headers: enough for COMPARED_RUNS of the longest names
NAME_CHARACTERS = 1024  # of a run's, model's or file's name
COMPARED_RUNS = 32  # that one client follows or compares
METRIC_ROWS = 5000  # in one response
CONNECTIONS = 1024  # open at the same time
OTHER_FILES = 256  # that may be open besides connections: runs that are read, pipes to workers
EVENT_STREAMS = 640  # open at the same time
HEADER_SECONDS = 10.0  # for address and headers to arrive
BODY_SECONDS = 30.0  # for a request body to arrive
LINGER_SECONDS = 5.0  # for the rest of a request to arrive after its response
WRITE_SECONDS = 60.0  # for a client to read what it was sent; it can continue in a new connection
WORK_SECONDS = 900.0  # for a model to answer
WORKERS = 3  # processes that hold models
MODELS_PER_WORKER = 3
WAITING_REQUESTS = 32  # that wait for a worker
JOBS, REMEMBERED_JOBS = 8, 64  # unfinished ones, and all that are listed
CAPTURES, CAPTURE_BYTES = 16, 256 * 2**20  # kept in memory, and their total size
REPORT_BYTES = 64 * 2**20  # of an audit, ledger or bench file
LISTED_REPORTS = 200
LOOK_TOKENS, LOOK_GIBIBYTES = 1024, 1.0
SWITCHED_HEADS = 4096  # that are off at the same time
