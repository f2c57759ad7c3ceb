"""All laws on one mechanism, attnlab's own or anybody's.

The tests of attnlab run the same functions with hypothesis choosing the inputs; here they are
drawn, so that nothing more needs to be installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import torch

from attnlab._create_mechanism import find_mechanism
from attnlab.laws import _card as cards
from attnlab.laws import _extreme_scores as extremes
from attnlab.laws import _single_call as calls
from attnlab.laws import _states as states
from attnlab.laws._compare import LawError, UnsuitableError
from attnlab.laws._trial import MAX_LENGTH, Inputs, build, draw_sizes, make_inputs, paths
from attnlab.mask import Mask
from attnlab.mechanism import Card, Mechanism


@dataclass(frozen=True)
class Finding:
    """One law on one mechanism with some options."""

    law: str
    options: Mapping[str, Any]
    """"torch": True among them: without the C kernels."""
    tried: int
    """Inputs; 0 where the card says that there is nothing to try."""
    problem: str = ""
    """What is wrong; empty if the law holds."""

    @property
    def holds(self) -> bool:
        return not self.problem


def check_laws(
    mechanism: str | type[Mechanism], *, examples: int = 20, seed: int = 0
) -> list[Finding]:
    """Every law on a mechanism, by name or class, at all options of its `trials`.

    `examples` inputs are drawn for each law: lengths, grouped heads, padding, where to cut.
    """
    if examples < 1:
        raise ValueError(f"check_laws: examples is {examples}; give 1 or more")
    kind = find_mechanism(mechanism) if isinstance(mechanism, str) else mechanism
    return [_tried(law, kind, options, examples, seed) for options in paths(kind) for law in LAWS]


def always(card: Card) -> bool:
    del card
    return True


class Law(NamedTuple):
    text: str
    check: Callable[[Mechanism, Random], None]
    applies: Callable[[Card], bool] = always
    once: bool = False
    """Draws nothing, so that one time is enough."""
    length: int = MAX_LENGTH
    """Of tables over positions."""


def _tried(
    law: Law, kind: type[Mechanism], options: dict[str, Any], examples: int, seed: int
) -> Finding:
    if not law.applies(kind.card):
        return Finding(law.text, options, 0)
    tried, wanted = 0, 1 if law.once else examples
    for example in range(5 * wanted):  # some inputs say nothing
        draw = Random(f"{seed} {law.text} {example}")
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(draw.randint(0, 2**31))
                law.check(build(kind, options, length=law.length), draw)
        except UnsuitableError:
            continue
        except LawError as problem:
            return Finding(law.text, options, tried + 1, str(problem))
        except Exception as problem:  # a mistake in the mechanism's own code
            text = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
            return Finding(law.text, options, tried + 1, text)
        tried += 1
        if tried == wanted:
            return Finding(law.text, options, tried)
    return Finding(law.text, options, tried, f"only {tried} of {wanted} inputs could be judged")


def _masks(mechanism: Mechanism, inputs: Inputs) -> list[Mask]:
    both = (False, True) if mechanism.card.causal else (False,)
    return [Mask(causal, inputs.keys) for causal in both]


def _definition(mechanism: Mechanism, draw: Random) -> None:
    inputs = make_inputs(mechanism, **draw_sizes(draw))
    for mask in _masks(mechanism, inputs):
        calls.check_definition(mechanism, inputs, mask)


def _definition_from_a_start(mechanism: Mechanism, draw: Random) -> None:
    card, size = mechanism.card, draw_sizes(draw, same_length=False)
    start = draw.randint(0 if card.needs_length else -3, 12)
    if not card.cross:  # queries must be a part of the sequence
        start = max(0, min(start, size["S"] - 1))
        size["T"] = min(size["T"], size["S"] - start)
    inputs = make_inputs(mechanism, **size)
    if card.causal:
        calls.check_definition(mechanism, inputs, Mask(True, inputs.keys, start))
    if card.cross:
        calls.check_definition(mechanism, inputs, Mask(False, inputs.keys, start))


def _padding(mechanism: Mechanism, draw: Random) -> None:
    inputs = make_inputs(mechanism, **draw_sizes(draw))
    for mask in _masks(mechanism, inputs):
        calls.check_padding(mechanism, inputs, mask)
        calls.check_padding_removed(mechanism, inputs, mask)


def _future(mechanism: Mechanism, draw: Random) -> None:
    size = draw_sizes(draw)
    inputs = make_inputs(mechanism, **size)
    calls.check_future(mechanism, inputs, Mask(True, inputs.keys), draw.randint(1, size["S"]))


def _decoding(mechanism: Mechanism, draw: Random) -> None:
    inputs = make_inputs(mechanism, **draw_sizes(draw))
    states.check_decoding(mechanism, inputs, Mask(True, inputs.keys))


def _ragged(mechanism: Mechanism, draw: Random) -> None:
    size = draw_sizes(draw)
    rows = torch.tensor([draw.randint(1, 12) for _ in range(size["B"])])
    length = int(rows.max()) + 1 + size["S"] % 5
    size.update(S=length, T=length, padding="none")
    states.check_ragged_decoding(mechanism, make_inputs(mechanism, **size), rows)


def _memory(mechanism: Mechanism, draw: Random) -> None:
    inputs = make_inputs(mechanism, **draw_sizes(draw, same_length=False))
    states.check_memory(mechanism, inputs, Mask(False, inputs.keys))


def _splitting(mechanism: Mechanism, draw: Random) -> None:
    size = draw_sizes(draw)
    inputs = make_inputs(mechanism, **size)
    cut = draw.randint(0, size["S"])
    states.check_splitting(mechanism, inputs, Mask(False, inputs.keys), cut)


def _nothing(mechanism: Mechanism, draw: Random) -> None:
    size = draw_sizes(draw)
    if mechanism.card.cross and draw.random() < 0.5:
        size["S"] = 0
    inputs = make_inputs(mechanism, **size)
    for mask in _masks(mechanism, inputs):
        calls.check_nothing(mechanism, inputs, mask)


def _extremes(mechanism: Mechanism, draw: Random) -> None:
    single = deepcopy(mechanism).float()
    seed = draw.randint(1, 1000)
    for largest in (1e2, 1e4):
        for causal in (False, True) if mechanism.card.causal else (False,):
            extremes.check_large_scores(single, mechanism, largest, causal, seed)
    if mechanism.card.causal:
        extremes.check_growing_keys(single, mechanism, seed)


def _card(mechanism: Mechanism, draw: Random) -> None:
    del draw
    cards.check_rows_and_signs(mechanism)
    cards.check_what_is_used(mechanism)
    cards.check_state_size(mechanism)
    cards.check_sight(mechanism)


def _refusals(mechanism: Mechanism, draw: Random) -> None:
    del draw
    cards.check_refusals(mechanism)


LAWS = (
    Law("1 forward equals weights @ v", _definition),
    Law("1 the same from any start", _definition_from_a_start),
    Law("2 padding changes nothing", _padding),
    Law("3 the future changes nothing", _future, lambda card: card.causal),
    Law("4 decoding equals one forward", _decoding, lambda card: card.causal),
    Law("4 unequal prompts decode as alone", _ragged, lambda card: card.causal),
    Law("5 reading memory equals cross-attention", _memory, lambda card: card.cross),
    Law("6 splitting an absorb changes nothing", _splitting),
    Law("7 nothing to look at gives zeros", _nothing),
    Law("7 extreme scores in float32", _extremes, once=True),
    Law("8 what it cannot do is refused", _refusals, once=True),
    Law("the card is true", _card, once=True, length=1000),
)
