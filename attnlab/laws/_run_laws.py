"""Run all laws on one mechanism, built in or your own.

The tests run the same functions with inputs from hypothesis. Here inputs are sampled at random, so
that you need not install hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

import torch

from attnlab._create_mechanism import find_mechanism
from attnlab.laws import _card_checks as cards
from attnlab.laws import _extreme_scores as extremes
from attnlab.laws import _single_call as calls
from attnlab.laws import _states as states
from attnlab.laws._compare import LawError, UnsuitableError
from attnlab.laws._law_inputs import (
    MAX_LENGTH,
    build_mechanism,
    make_inputs,
    option_sets,
    possible_masks,
    sample_sizes,
)
from attnlab.mask import Mask
from attnlab.mechanism import Card, Mechanism


@dataclass(frozen=True)
class LawResult:
    """The result of one law on one mechanism with one set of options."""

    law: str
    options: Mapping[str, Any]
    """They include "torch": True if the C kernels were off."""
    tried: int
    """Number of inputs; 0 if the law does not apply by the mechanism's card."""
    problem: str = ""
    """What went wrong; empty if the law holds."""

    @property
    def holds(self) -> bool:
        return not self.problem


def check_laws(
    mechanism: str | type[Mechanism], *, examples: int = 20, seed: int = 0
) -> list[LawResult]:
    """Check every law on a mechanism, given by name or class, at all options of its `trials`.

    Each law is checked on `examples` random inputs of varying length, head groups and padding.

    >>> import attnlab
    >>> findings = attnlab.check_laws("hard", examples=1)
    >>> all(finding.holds for finding in findings)
    True
    """
    if examples < 1:
        raise ValueError(f"check_laws: examples is {examples}; give 1 or more")
    kind = find_mechanism(mechanism) if isinstance(mechanism, str) else mechanism
    return [
        _check_law(law, kind, options, examples, seed)
        for options in option_sets(kind)
        for law in LAWS
    ]


def applies_to_all(card: Card) -> bool:
    del card
    return True


class Law(NamedTuple):
    text: str
    check: Callable[[Mechanism, Random], None]
    applies: Callable[[Card], bool] = applies_to_all
    once: bool = False
    """Its inputs are fixed, so that one check is enough."""
    length: int = MAX_LENGTH
    """The max_length of mechanisms with tables over positions."""


def _check_law(
    law: Law, kind: type[Mechanism], options: dict[str, Any], examples: int, seed: int
) -> LawResult:
    if not law.applies(kind.card):
        return LawResult(law.text, options, 0)
    tried, count = 0, 1 if law.once else examples
    for example in range(5 * count):  # some inputs are unsuitable
        random = Random(f"{seed} {law.text} {example}")
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(random.randint(0, 2**31))
                law.check(build_mechanism(kind, options, length=law.length), random)
        except UnsuitableError:
            continue
        except LawError as problem:
            return LawResult(law.text, options, tried + 1, str(problem))
        except Exception as problem:  # a mistake in the mechanism's own code
            text = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
            return LawResult(law.text, options, tried + 1, text)
        tried += 1
        if tried == count:
            return LawResult(law.text, options, tried)
    return LawResult(law.text, options, tried, f"only {tried} of {count} inputs were suitable")


def _definition(mechanism: Mechanism, random: Random) -> None:
    inputs = make_inputs(mechanism, **sample_sizes(random))
    for mask in possible_masks(mechanism, inputs.keys):
        calls.check_definition(mechanism, inputs, mask)


def _definition_from_a_start(mechanism: Mechanism, random: Random) -> None:
    card, size = mechanism.card, sample_sizes(random, same_length=False)
    start = random.randint(0 if card.needs_length else -3, 12)
    if not card.cross:  # queries must be a part of the sequence
        start = max(0, min(start, size["S"] - 1))
        size["T"] = min(size["T"], size["S"] - start)
    inputs = make_inputs(mechanism, **size)
    if card.causal:
        calls.check_definition(mechanism, inputs, Mask(True, inputs.keys, start))
    if card.cross:
        calls.check_definition(mechanism, inputs, Mask(False, inputs.keys, start))


def _padding(mechanism: Mechanism, random: Random) -> None:
    inputs = make_inputs(mechanism, **sample_sizes(random))
    for mask in possible_masks(mechanism, inputs.keys):
        calls.check_padding(mechanism, inputs, mask)
        calls.check_padding_removed(mechanism, inputs, mask)


def _future(mechanism: Mechanism, random: Random) -> None:
    size = sample_sizes(random)
    inputs = make_inputs(mechanism, **size)
    calls.check_future(mechanism, inputs, Mask(True, inputs.keys), random.randint(1, size["S"]))


def _decoding(mechanism: Mechanism, random: Random) -> None:
    inputs = make_inputs(mechanism, **sample_sizes(random))
    states.check_decoding(mechanism, inputs, Mask(True, inputs.keys))


def _unequal_prompts(mechanism: Mechanism, random: Random) -> None:
    size = sample_sizes(random)
    rows = torch.tensor([random.randint(1, 12) for _ in range(size["B"])])
    length = int(rows.max()) + 1 + size["S"] % 5
    size.update(S=length, T=length, padding="none")
    states.check_unequal_prompts(mechanism, make_inputs(mechanism, **size), rows)


def _memory(mechanism: Mechanism, random: Random) -> None:
    inputs = make_inputs(mechanism, **sample_sizes(random, same_length=False))
    states.check_memory(mechanism, inputs, Mask(False, inputs.keys))


def _splitting(mechanism: Mechanism, random: Random) -> None:
    size = sample_sizes(random)
    inputs = make_inputs(mechanism, **size)
    cut = random.randint(0, size["S"])
    states.check_splitting(mechanism, inputs, Mask(False, inputs.keys), cut)


def _no_visible_keys(mechanism: Mechanism, random: Random) -> None:
    size = sample_sizes(random)
    if mechanism.card.cross and random.random() < 0.5:
        size["S"] = 0
    inputs = make_inputs(mechanism, **size)
    for mask in possible_masks(mechanism, inputs.keys):
        calls.check_no_visible_keys(mechanism, inputs, mask)


def _extremes(mechanism: Mechanism, random: Random) -> None:
    single = deepcopy(mechanism).float()
    seed = random.randint(1, 1000)
    for largest in (1e2, 1e4):
        for mask in possible_masks(mechanism):
            extremes.check_large_scores(single, mechanism, largest, mask.causal, seed)
    if mechanism.card.causal:
        extremes.check_growing_keys(single, mechanism, seed)
    extremes.check_decays(single, mechanism, seed)


def _packing(mechanism: Mechanism, random: Random) -> None:
    size = sample_sizes(random)
    inputs = make_inputs(mechanism, **size)
    numbers = [sorted(random.randint(0, 3) for _ in range(size["S"])) for _ in range(size["B"])]
    for mask in possible_masks(mechanism, inputs.keys):
        calls.check_packing(mechanism, inputs, replace(mask, segments=torch.tensor(numbers)))


def _card(mechanism: Mechanism, random: Random) -> None:
    del random
    cards.check_rows_and_signs(mechanism)
    cards.check_used_inputs(mechanism)
    cards.check_state_size(mechanism)
    cards.check_visible_keys(mechanism)


def _refusals(mechanism: Mechanism, random: Random) -> None:
    del random
    cards.check_refusals(mechanism)


LAWS = (
    Law("1 forward equals weights @ v", _definition),
    Law("1 the same from any start", _definition_from_a_start),
    Law("2 padding changes nothing", _padding),
    Law("3 the future changes nothing", _future, lambda card: card.causal),
    Law("4 decoding equals one forward", _decoding, lambda card: card.causal),
    Law("4 unequal prompts decode as alone", _unequal_prompts, lambda card: card.causal),
    Law("5 reading memory equals cross-attention", _memory, lambda card: card.cross),
    Law("6 splitting an absorb changes nothing", _splitting),
    Law("7 nothing to look at gives zeros", _no_visible_keys),
    Law("7 extreme scores in float32", _extremes, once=True),
    Law("8 what it cannot do is refused", _refusals, once=True),
    Law("9 packed documents are as if alone", _packing, lambda card: card.packs),
    Law("the card is true", _card, once=True, length=1000),
)
