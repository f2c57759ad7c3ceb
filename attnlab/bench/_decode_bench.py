"""What one step of decoding costs, token by token, and what must be kept for it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnlab._confidence_intervals import Estimate
from attnlab.bench._contenders import Ours, Sizes
from attnlab.bench._measure_costs import threads
from attnlab.bench._memory_limit import decoder_fits, too_large
from attnlab.bench._progress import SILENT, Progress
from attnlab.bench._settings import DecodeSettings
from attnlab.bench._speed_bench import clock_of
from attnlab.mechanism import Mechanism
from attnlab.state import State

STEPS = 20  # of one sample
PIECE = 1024  # tokens absorbed at once: features of all at once could take gigabytes


@dataclass
class Steps:
    """Of each mechanism at each position."""

    seconds: dict[str, dict[int, Estimate]] = field(default_factory=dict)
    state_bytes: dict[str, dict[int, int]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass
class Decoder:
    """A mechanism that has read some tokens, and goes on."""

    mechanism: Mechanism
    state: State
    token: list[Tensor]  # q, k, v (1, H, 1, D)

    @staticmethod
    def after(party: Ours, sizes: Sizes, tokens: int, room: int) -> Decoder:
        mechanism = party.mechanism(sizes, tokens + room)
        _, k, v, _ = sizes.inputs(tokens)
        state = None
        for first in range(0, tokens, PIECE):
            piece = slice(first, first + PIECE)
            state = mechanism.absorb(k[:, :, piece], v[:, :, piece], state=state)
        assert state is not None
        return Decoder(mechanism, state.overwritable(), sizes.inputs(1, seed=1)[:3])

    def step(self) -> Tensor:
        """As the generator does: the old state may be written over."""
        q, k, v = self.token
        position = self.state.longest
        self.state = self.mechanism.absorb(k, v, state=self.state)
        return self.mechanism.read(q, self.state, position)


@torch.no_grad()
def measure_decoding(
    parties: Sequence[Ours], settings: DecodeSettings, progress: Progress = SILENT
) -> Steps:
    """Absorb one token, read for one, as the generator does. All in turn; medians of the rounds."""
    sizes, clock = Sizes(settings.heads, settings.head_dim), clock_of(settings.threads)
    room = (settings.rounds + 1) * STEPS
    progress.begin("decode", len(parties) * len(settings.positions) * (settings.rounds + 2))
    found, decoders = Steps(), dict[tuple[str, int], Decoder]()
    with threads(settings.threads):
        for party in parties:
            for position in settings.positions:
                progress.step(f"{party.name}, position {position:,}")
                if not decoder_fits(party, sizes, position + room):
                    reason = too_large(f"position {position:,}")
                    found.left_out.setdefault(party.name, reason)
                    continue
                made = Decoder.after(party, sizes, position, room)
                decoders[party.name, position] = made
                found.state_bytes.setdefault(party.name, {})[position] = made.state.nbytes
        if not decoders:
            raise ValueError(
                f"--positions {' '.join(map(str, settings.positions))}: all are left out "
                f"{next(iter(found.left_out.values()))}; give earlier ones"
            )
        samples: dict[tuple[str, int], list[float]] = {key: [] for key in decoders}
        for turn in range(settings.rounds + 1):
            for (name, position), decoder in decoders.items():
                progress.step(f"{name}, position {position:,}")
                begin = clock()
                for _ in range(STEPS):
                    decoder.step()
                if turn:  # the first one warms up, and moves buffers that are full
                    samples[name, position].append((clock() - begin) / STEPS)
    for (name, position), taken in samples.items():
        figure = Estimate(statistics.median(taken), min(taken), max(taken))
        found.seconds.setdefault(name, {})[position] = figure
    return found
