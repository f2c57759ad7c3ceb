"""Which families of Hugging Face models work with look, capture and attnlab-softmax.

    python benchmarks/families.py              all families that this commit has not run yet
    python benchmarks/families.py bert t5      only these, again
    python benchmarks/families.py --table      only writes the table again

Each family is one tiny model, and runs in a process of its own, with a limit of time and memory.
The results are lines of JSON in benchmarks/families.jsonl (not in the repository); the table is
docs/reference/families.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import attnlab

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "families.jsonl"
SECONDS, GIBIBYTES = 60, 8
PRELOADED = (
    "family_checks",
    "PIL.Image",
    "attnlab.interpret._look",
    "attnlab.interpret._figure",
    "attnlab.huggingface._inspected_models",
    "transformers.generation",
    "transformers.modeling_utils",
    "transformers.models.bert.modeling_bert",
    "transformers.models.vit.modeling_vit",
    "transformers.models.vit.image_processing_vit",
    "transformers.models.llava.modeling_llava",
    "transformers.models.resnet.modeling_resnet",
    "transformers.models.whisper.modeling_whisper",
)


def measure(family: str, kinds: list[str], seconds: int, gibibytes: float) -> dict[str, Any]:
    """The row of one family, from a forked process: the imports are already made."""
    reader, writer = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if not child:
        os.close(reader)
        _run_child(family, kinds, seconds, gibibytes, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    row: dict[str, Any] = {"family": family, "class": kinds[0]}
    if content:
        row = json.loads(content)
    else:
        row |= {"built": False, "reason": _death(status, seconds, gibibytes)}
    return {**row, "seconds": round(time.monotonic() - started, 1), "version": version()}


@cache
def version() -> str:
    """The commit of the code, and whether it was changed since; outside a repository attnlab's
    version."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else attnlab.__version__


def _run_child(family: str, kinds: list[str], seconds: int, gibibytes: float, writer: int) -> None:
    """Never returns. The limit of CPU time ends what hangs, also in native code."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    limit = int(gibibytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    null = os.open(os.devnull, os.O_WRONLY)
    if "FAMILIES_DEBUG" not in os.environ:
        os.dup2(null, 1)
        os.dup2(null, 2)
    from family_checks import check_family, last_line

    try:
        row = check_family(family, kinds)
    except BaseException as error:
        row = {"family": family, "class": kinds[0], "built": False, "reason": last_line(error)}
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(json.dumps(row).encode())
    os._exit(0)


def _death(status: int, seconds: int, gibibytes: float) -> str:
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number == signal.SIGXCPU:
        return f"takes longer than {seconds} seconds"
    return f"ended by signal {number} (the limit is {gibibytes:g} GiB)"


def read_rows(path: Path) -> dict[str, dict[str, Any]]:
    """The last row of each family."""
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["family"]: row for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", help="families to run again; none: all that are missing"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "reference" / "families.md")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="limit of CPU time")
    parser.add_argument("--memory", type=float, default=GIBIBYTES, help="GiB for each family")
    parser.add_argument("--table", action="store_true", help="run nothing, write the table")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from family_table import summary, write_page

    if not arguments.table:
        run_missing(arguments)
    rows = list(read_rows(arguments.results).values())
    if not arguments.names:
        write_page(rows, arguments.page)
    print(summary(rows))


def run_missing(arguments: argparse.Namespace) -> None:
    import torch
    from family_models import families

    torch.set_num_threads(1)
    for name in PRELOADED:  # before forking, so that no child has to
        import_module(name)
    known = families()
    unknown = [name for name in arguments.names if name not in known]
    if unknown:
        page = "docs/reference/families.md"
        sys.exit(f"{unknown[0]}: is not a family of this transformers; see {page}")
    rows = read_rows(arguments.results).items()
    done = {name for name, row in rows if row.get("version") == version()}
    names = arguments.names or [name for name in known if name not in done]
    for number, name in enumerate(names, 1):
        row = measure(name, known[name], arguments.seconds, arguments.memory)
        with arguments.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        parts = [f"{key} {row[key][0]}" for key in ("capture", "look", "replace") if key in row]
        text = ", ".join(parts) or row.get("reason", "no attention")
        print(f"{number}/{len(names)} {name}: {text} ({row['seconds']:g} s)", flush=True)


if __name__ == "__main__":
    main()
