"""Read many mutants of every file that attnlab reads.

python -m tests.fuzz --mutants 200000 --seed 0
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--mutants", type=int, default=20_000, help="in all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", nargs="*", help="all if not given")
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"))
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")

    import torch

    from tests.fuzz.runner import fuzz
    from tests.fuzz.targets import TARGETS

    torch.set_num_threads(1)  # threads do not survive a fork
    names = options.target or list(TARGETS)
    options.out.mkdir(parents=True, exist_ok=True)
    each = -(-options.mutants // len(names))
    total = failed = 0
    print(f"{'target':20} {'mutants':>8} {'per s':>7} {'accepted':>8} {'refused':>8} "
          f"{'slowest s':>9} {'MB more':>8} {'failures':>8}", flush=True)  # fmt: skip
    for name in names:
        outcome = fuzz(name, each, options.seed, options.out)
        total += outcome.mutants
        failed += len(outcome.failures)
        print(f"{name:20} {outcome.mutants:8,} {outcome.mutants / outcome.seconds:7.0f} "
              f"{outcome.accepted:8,} {outcome.refused:8,} {outcome.slowest:9.2f} "
              f"{outcome.memory / 1e6:8.0f} {len(outcome.failures):8}", flush=True)  # fmt: skip
        kinds = Counter(
            failure.problem.strip().splitlines()[-1][:150] for failure in outcome.failures
        )
        for problem, count in kinds.most_common(12):
            example = next(
                f for f in outcome.failures if f.problem.strip().splitlines()[-1][:150] == problem
            )
            print(f"    {count} x {problem}  ({example.file})", flush=True)
            for line in example.problem.strip().splitlines()[-7:-1]:
                print(f"        {line.strip()[:160]}", flush=True)
    print(f"{total:,} mutants, {failed} failures")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
