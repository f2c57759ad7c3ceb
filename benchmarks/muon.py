"""One optimizer step of torch's Muon and of attnlab's, on the matrices of the small preset.

    python benchmarks/muon.py [--threads 1] [--repeats 5]

Both take turns in one run, and the best time of each counts.
"""

from __future__ import annotations

import argparse
import math
import time

import torch

from attnlab.training._muon import Muon

SHAPES = [(384, 128), (128, 128), (512, 128), (128, 512)] * 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    best = []
    optimizers = []
    for kind in (torch.optim.Muon, Muon):
        parameters = [torch.nn.Parameter(torch.randn(*shape)) for shape in SHAPES]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizers.append(kind(parameters, lr=0.02))
        best.append(math.inf)
    for _ in range(options.repeats + 1):
        for i, optimizer in enumerate(optimizers):
            start = time.perf_counter()
            optimizer.step()
            best[i] = min(best[i], time.perf_counter() - start)
    torch_seconds, attnlab_seconds = best
    print(
        f"{options.threads} thread(s): torch {torch_seconds * 1e3:.0f} ms, "
        f"attnlab {attnlab_seconds * 1e3:.0f} ms, "
        f"{torch_seconds / attnlab_seconds:.1f} times as fast"
    )


if __name__ == "__main__":
    main()
