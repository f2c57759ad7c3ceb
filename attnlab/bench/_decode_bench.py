"""Measures the cost of one decoding step by position, and the size of the decoding state."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnlab._confidence_intervals import Estimate
from attnlab.bench._contenders import AttnlabMechanism, Sizes
from attnlab.bench._measure_costs import threads
from attnlab.bench._memory_limit import decoder_fits, too_large_reason
from attnlab.bench._progress import NO_PROGRESS, BenchProgress
from attnlab.bench._settings import DecodeSettings
from attnlab.bench._speed_bench import select_clock
from attnlab.gates import Gates, sample_gates
from attnlab.mechanism import Mechanism
from attnlab.state import State

STEPS = 20  # decoding steps in one timed sample
CHUNK = 1024  # tokens absorbed at once: the features of all tokens could take gigabytes


@dataclass
class DecodingCosts:
    """Costs of each mechanism at each position; `skipped` has the reasons for missing positions."""

    seconds: dict[str, dict[int, Estimate]] = field(default_factory=dict)
    state_bytes: dict[str, dict[int, int]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


@dataclass
class StepDecoder:
    """A mechanism with the state of some tokens, which decodes more of them."""

    mechanism: Mechanism
    state: State
    token: list[Tensor]  # q, k, v (1, H, 1, D)
    gates: Gates  # of one token

    @staticmethod
    def after(
        contender: AttnlabMechanism, sizes: Sizes, tokens: int, new_tokens: int
    ) -> StepDecoder:
        """With the state after `tokens` random tokens, and capacity for `new_tokens` more."""
        mechanism: Any = contender.mechanism(sizes, tokens + new_tokens)
        _, k, v, _ = sizes.inputs(tokens)
        random = torch.Generator().manual_seed(0)
        state = None
        for first in range(0, tokens, CHUNK):
            chunk = slice(first, first + CHUNK)
            gates = sample_gates(mechanism.gates, k[:, :, chunk], random)
            state = mechanism.absorb(k[:, :, chunk], v[:, :, chunk], state=state, **gates)
        assert state is not None
        token = sizes.inputs(1, seed=1)[:3]
        gates = sample_gates(mechanism.gates, token[1], random)
        return StepDecoder(mechanism, state.overwritable(), token, gates)

    def step(self) -> Tensor:
        """One step as in generation: it may overwrite the old state."""
        q, k, v = self.token
        position = self.state.longest
        absorb: Any = self.mechanism.absorb
        self.state = absorb(k, v, state=self.state, **self.gates)
        return self.mechanism.read(q, self.state, position)


@torch.no_grad()
def measure_decoding(
    contenders: Sequence[AttnlabMechanism],
    settings: DecodeSettings,
    progress: BenchProgress = NO_PROGRESS,
) -> DecodingCosts:
    """Absorb one token and read one output, as in generation. Each round measures everything in
    turn; the result is the median of the rounds."""
    sizes, clock = Sizes(settings.heads, settings.head_dim), select_clock(settings.threads)
    new_tokens = (settings.rounds + 1) * STEPS
    progress.begin("decode", len(contenders) * len(settings.positions) * (settings.rounds + 2))
    costs, decoders = DecodingCosts(), dict[tuple[str, int], StepDecoder]()
    with threads(settings.threads):
        for contender in contenders:
            for position in settings.positions:
                progress.step(f"{contender.name}, position {position:,}")
                if not decoder_fits(contender, sizes, position + new_tokens):
                    reason = too_large_reason(f"position {position:,}")
                    costs.skipped.setdefault(contender.name, reason)
                    continue
                decoder = StepDecoder.after(contender, sizes, position, new_tokens)
                decoders[contender.name, position] = decoder
                costs.state_bytes.setdefault(contender.name, {})[position] = decoder.state.nbytes
        if not decoders:
            raise ValueError(
                f"--positions {' '.join(map(str, settings.positions))}: all are skipped "
                f"{next(iter(costs.skipped.values()))}; give earlier ones"
            )
        samples: dict[tuple[str, int], list[float]] = {key: [] for key in decoders}
        for turn in range(settings.rounds + 1):
            for (name, position), decoder in decoders.items():
                progress.step(f"{name}, position {position:,}")
                begin = clock()
                for _ in range(STEPS):
                    decoder.step()
                if turn:  # the first round warms up, and grows buffers that are full
                    samples[name, position].append((clock() - begin) / STEPS)
    for (name, position), seconds in samples.items():
        median = Estimate(statistics.median(seconds), min(seconds), max(seconds))
        costs.seconds.setdefault(name, {})[position] = median
    return costs
