"""Read many mutants of every file that attnlab reads.

python -m tests.fuzz --mutants 200000 --seed 0
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from pathlib import Path

import torch

from tests.fuzz.base_files import root
from tests.fuzz.runner import Failure, Outcome, fuzz
from tests.fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--mutants", type=int, default=20_000, help="in all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", nargs="*", help="all if not given")
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args()
    torch.set_num_threads(1)  # threads do not survive a fork
    names = options.target or list(TARGETS)
    options.out.mkdir(parents=True, exist_ok=True)
    shares = sum(TARGETS[name].share for name in names)
    print(f"{'target':20} {'mutants':>8} {'per s':>6} {'accepted':>8} {'refused':>8} "
          f"{'slowest s':>9} {'MB more':>8} {'failures':>8}", flush=True)  # fmt: skip
    try:
        return read_mutants(options, names, shares)
    finally:
        shutil.rmtree(root())


def read_mutants(options: argparse.Namespace, names: list[str], shares: float) -> int:
    total = failed = 0
    for name in names:
        count = math.ceil(options.mutants * TARGETS[name].share / shares)
        outcome = fuzz(name, count, options.seed, options.out)
        total, failed = total + count, failed + len(outcome.failures)
        print(f"{name:20} {count:8,} {count / outcome.seconds:6.0f} {outcome.accepted:8,} "
              f"{outcome.refused:8,} {outcome.slowest:9.2f} {outcome.memory / 1e6:8.0f} "
              f"{len(outcome.failures):8}", flush=True)  # fmt: skip
        print_failures(outcome)
    print(f"{total:,} mutants, {failed} failures")
    return min(failed, 1)


def print_failures(outcome: Outcome) -> None:
    """Each kind of failure once, with the end of its traceback."""
    for path in outcome.slow[:5]:
        print(f"    slow: {path}", flush=True)
    kinds: dict[str, list[Failure]] = {}
    for failure in outcome.failures:
        kinds.setdefault(failure.problem.strip().splitlines()[-1][:150], []).append(failure)
    for problem, failures in kinds.items():
        print(f"    {len(failures)} x {problem}  ({failures[0].file})", flush=True)
        for line in failures[0].problem.strip().splitlines()[-7:-1]:
            print(f"        {line.strip()[:160]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
