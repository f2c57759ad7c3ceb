"""Sentences in which one word should look at another: a verb, a pronoun, a title.

The two halves of a set share no name and no noun, so that a head that is chosen on one half cannot
do well on the other by liking a name.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

ANIMATE = """
    doctor teacher farmer king girl boy driver soldier artist writer singer actor lawyer nurse
    priest judge pilot captain queen prince officer player student worker sailor guard
"""
THINGS = """
    lake house tree river bridge church garden tower school hill forest castle station museum
    market hotel factory road wall gate fountain beach mountain field barn cave
"""
VERBS = ("sleeps", "laughs", "waits", "eats", "speaks", "sings", "works", "dreams", "writes")
WOMEN = """
    mary anna sarah helen julia emma alice laura maria jane elizabeth margaret catherine rose
    lucy kate amy susan karen linda nancy lisa rachel claire ruth martha
"""
MEN = """
    john peter david james robert thomas george paul henry william charles edward richard
    michael joseph frank daniel martin simon philip andrew stephen kevin brian eric jack
"""
FIRST = ("", "today", "yes ,", "as usual", "on some days", "they say that")

Sentence = tuple[str, str, str, str]
"""Text, the word that looks, the word it should look at, the other one."""


class Words:
    """Draws from every other word of a list, so that two halves share none of their names."""

    def __init__(self, draw: random.Random, half: int) -> None:
        self.draw, self.half = draw, half

    def one(self, words: str) -> str:
        return self.draw.choice(words.split()[self.half :: 2])

    def any(self, words: Sequence[str]) -> str:
        return self.draw.choice(words)


def _verbs(words: Words, count: int) -> list[Sentence]:
    found = []
    for number in range(count):
        who, thing, verb = words.one(ANIMATE), words.one(THINGS), words.any(VERBS)
        first = words.any(FIRST)
        middle = (
            f"the {who} near the {thing} {verb}" if number % 2 else
            f"near the {thing} the {who} {verb}"
        )  # fmt: skip
        found.append((f"{first} {middle} .", verb, who, thing))
    return found


def _pronouns(words: Words, count: int) -> list[Sentence]:
    found = []
    for number in range(count):
        she, he = words.one(WOMEN), words.one(MEN)
        nearer = number % 2
        pronoun, wanted, other = ("she", she, he) if number // 2 % 2 else ("he", he, she)
        one, two = (other, wanted) if nearer else (wanted, other)
        told, verb = words.any(("told", "asked", "wrote to")), words.any(VERBS)
        first = words.any(FIRST)
        found.append(
            (f"{first} {one} {told} {two} that {pronoun} {verb} .", pronoun, wanted, other)
        )
    return found


def _titles(words: Words, count: int) -> list[Sentence]:
    found = []
    for number in range(count):
        she, he = words.one(WOMEN), words.one(MEN)
        title, wanted, other = ("mrs", she, he) if number // 2 % 2 else ("mr", he, she)
        one, two = (other, wanted) if number % 2 else (wanted, other)
        verb, last = words.any(VERBS), words.any(("smith", "brown", "miller", "young"))
        first = words.any(FIRST)
        found.append(
            (
                f"{first} {one} and {two} are here , and {title} {last} {verb} .",
                title,
                wanted,
                other,
            )
        )
    return found


MAKERS = {"verb to subject": _verbs, "pronoun to name": _pronouns, "title to name": _titles}


def sentences(kind: str, draw: random.Random, count: int) -> list[Sentence]:
    """The second half has other names and nouns than the first."""
    return [each for half in (0, 1) for each in MAKERS[kind](Words(draw, half), count // 2)]
