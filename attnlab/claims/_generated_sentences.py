"""Generates sentences in which one word should attend to another: a verb, a pronoun or a title.

The two halves of a set share no name and no noun. A head that is selected on one half because it
prefers a certain name therefore gains nothing on the other half.
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
OPENINGS = ("", "today", "yes ,", "as usual", "on some days", "they say that")

Sentence = tuple[str, str, str, str]
"""The text, the attending word, the word it should attend to, and the other candidate."""


class HalfVocabulary:
    """Chooses from every other word of a list, so that the two halves share no names."""

    def __init__(self, rng: random.Random, half: int) -> None:
        self.rng, self.half = rng, half

    def choose_word(self, words: str) -> str:
        return self.rng.choice(words.split()[self.half :: 2])

    def choose(self, words: Sequence[str]) -> str:
        return self.rng.choice(words)


def _make_verb_sentences(words: HalfVocabulary, count: int) -> list[Sentence]:
    sentences = []
    for number in range(count):
        noun, thing, verb = (
            words.choose_word(ANIMATE),
            words.choose_word(THINGS),
            words.choose(VERBS),
        )
        opening = words.choose(OPENINGS)
        middle = (
            f"the {noun} near the {thing} {verb}" if number % 2 else
            f"near the {thing} the {noun} {verb}"
        )  # fmt: skip
        sentences.append((f"{opening} {middle} .", verb, noun, thing))
    return sentences


def _make_pronoun_sentences(words: HalfVocabulary, count: int) -> list[Sentence]:
    sentences = []
    for number in range(count):
        she, he = words.choose_word(WOMEN), words.choose_word(MEN)
        nearer = number % 2
        pronoun, target, other = ("she", she, he) if number // 2 % 2 else ("he", he, she)
        first, second = (other, target) if nearer else (target, other)
        reporting_verb, verb = words.choose(("told", "asked", "wrote to")), words.choose(VERBS)
        opening = words.choose(OPENINGS)
        sentences.append(
            (
                f"{opening} {first} {reporting_verb} {second} that {pronoun} {verb} .",
                pronoun,
                target,
                other,
            )
        )
    return sentences


def _make_title_sentences(words: HalfVocabulary, count: int) -> list[Sentence]:
    sentences = []
    for number in range(count):
        she, he = words.choose_word(WOMEN), words.choose_word(MEN)
        title, target, other = ("mrs", she, he) if number // 2 % 2 else ("mr", he, she)
        first, second = (other, target) if number % 2 else (target, other)
        verb, surname = words.choose(VERBS), words.choose(("smith", "brown", "miller", "young"))
        opening = words.choose(OPENINGS)
        sentences.append(
            (
                f"{opening} {first} and {second} are here , and {title} {surname} {verb} .",
                title,
                target,
                other,
            )
        )
    return sentences


SENTENCE_MAKERS = {
    "verb to subject": _make_verb_sentences,
    "pronoun to name": _make_pronoun_sentences,
    "title to name": _make_title_sentences,
}


def make_sentences(kind: str, rng: random.Random, count: int) -> list[Sentence]:
    """Random sentences of one kind. The second half uses other names and nouns than the first."""
    return [
        sentence
        for half in (0, 1)
        for sentence in SENTENCE_MAKERS[kind](HalfVocabulary(rng, half), count // 2)
    ]
