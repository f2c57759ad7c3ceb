"""The effects of a panel in a capture file: their header, and its conversion from and to records.

Letters: H captured heads, L layers and the embedding, P targets, T tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

from pydantic.dataclasses import dataclass
from torch import Tensor

from attnlab.interpret._array_header import CONFIG, ArrayHeader
from attnlab.interpret._records import (
    AnyText,
    EffectKind,
    EffectPart,
    Effects,
    EffectTarget,
    Fraction,
    ItemList,
    KeyEffect,
    KeyEffects,
    LensTable,
    NonEmptyList,
    NonNegativeInt,
    Number,
    PatchingTable,
)

DIGITS = 4  # significant digits of a number in the header
WriteArray = Callable[[Tensor, str], ArrayHeader]
ReadArray = Callable[[ArrayHeader], Tensor]


@dataclass(kw_only=True, config=CONFIG)
class LensHeader:
    layers: NonEmptyList[AnyText]
    vocabulary: ItemList[AnyText]
    """Each token of `best` once."""
    best: ItemList[ItemList[NonNegativeInt]]
    """(L, P): indices in the vocabulary."""
    best_probability: ArrayHeader
    target_probability: ArrayHeader
    top: ItemList[ItemList[tuple[AnyText, Fraction]]]


@dataclass(kw_only=True, config=CONFIG)
class PatchingHeader:
    layers: NonEmptyList[AnyText]
    clean_tokens: NonEmptyList[AnyText]
    corrupted_tokens: NonEmptyList[AnyText]
    restored: ArrayHeader
    clean: Number
    corrupted: Number
    description: AnyText


@dataclass(kw_only=True, config=CONFIG)
class EffectsHeader:
    kind: EffectKind
    sequence: NonNegativeInt | None
    measured: NonNegativeInt
    targets: NonEmptyList[EffectTarget]
    heads: ItemList[ArrayHeader | None]
    keys: KeyEffects | None
    lens: LensHeader | None
    patching: PatchingHeader | None
    reasons: dict[EffectPart, AnyText]


def effects_header(effects: Effects, write: WriteArray) -> EffectsHeader:
    """The header of effects, whose arrays go through `write`."""
    return EffectsHeader(
        kind=effects.kind,
        sequence=effects.sequence,
        measured=effects.measured,
        targets=[EffectTarget(each.token, _share(each.probability)) for each in effects.targets],
        heads=[None if x is None else write(x, "effects of heads") for x in effects.heads],
        keys=None if effects.keys is None else _round_keys(effects.keys),
        lens=None if effects.lens is None else _lens_header(effects.lens, write),
        patching=None if effects.patching is None else _patching_header(effects.patching, write),
        reasons=effects.reasons,
    )


def read_effects(header: EffectsHeader, read: ReadArray) -> Effects:
    """The effects that a checked header describes."""
    lens, patching = header.lens, header.patching
    return Effects(
        kind=header.kind,
        sequence=header.sequence,
        measured=header.measured,
        targets=header.targets,
        heads=[None if array is None else read(array) for array in header.heads],
        keys=header.keys,
        lens=None
        if lens is None
        else LensTable(
            lens.layers,
            [[lens.vocabulary[word] for word in row] for row in lens.best],
            read(lens.best_probability),
            read(lens.target_probability),
            lens.top,
        ),
        patching=None
        if patching is None
        else PatchingTable(
            patching.layers, patching.clean_tokens, patching.corrupted_tokens,
            read(patching.restored), patching.clean, patching.corrupted, patching.description,
        ),
        reasons=header.reasons,
    )  # fmt: skip


def _lens_header(lens: LensTable, write: WriteArray) -> LensHeader:
    words = {word: n for n, word in enumerate(dict.fromkeys(chain.from_iterable(lens.best)))}
    return LensHeader(
        layers=lens.layers,
        vocabulary=list(words),
        best=[[words[word] for word in row] for row in lens.best],
        best_probability=write(lens.best_probability, "lens"),
        target_probability=write(lens.target_probability, "lens"),
        top=[[(text, _share(p)) for text, p in row] for row in lens.top],
    )


def _patching_header(patching: PatchingTable, write: WriteArray) -> PatchingHeader:
    return PatchingHeader(
        layers=patching.layers,
        clean_tokens=patching.clean_tokens,
        corrupted_tokens=patching.corrupted_tokens,
        restored=write(patching.restored, "patching map"),
        clean=_rounded(patching.clean),
        corrupted=_rounded(patching.corrupted),
        description=patching.description,
    )


def _round_keys(keys: KeyEffects) -> KeyEffects:
    points = [
        KeyEffect(each.sequence, each.position, _rounded(each.weight), _rounded(each.effect))
        for each in keys.points
    ]
    correlation = None if keys.correlation is None else _rounded(keys.correlation)
    return replace(keys, points=points, correlation=correlation)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _share(value: float) -> float:
    return min(1.0, max(0.0, _rounded(value)))
