"""Read and remember: a reader answers for everybody in the corpus, then a model learns it by heart.

1. A reader learns to copy an answer out of a document, from the labelled people's documents and
   from self-made copies. 2. It answers every question of the same wording about everyone who has
   no label. 3. From the reader's weights, closed book: the question alone must suffice. No rule
   says what a birthplace looks like, and no answer of an evaluation set is seen.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import nn

from attnlab.files import write_whole
from attnlab.models import Decoder
from attnlab.tasks.knowledge.answers import NEW_TOKENS, candidates, reach, write
from attnlab.tasks.knowledge.data import (
    Library,
    Pair,
    Relation,
    digest,
    hold_out,
    name_in,
    relations_in,
    usual_share,
)
from attnlab.tasks.knowledge.material import (
    WORLD,
    make_model,
    make_tokenizer,
    material,
    preset_named,
)
from attnlab.tasks.knowledge.reading import (
    OpenBook,
    find_readings,
    prompt,
    standing,
    unlabelled,
)
from attnlab.tasks.knowledge.recipe import (
    check_folder,
    check_pairs,
    in_steps,
    keep_certainty,
    knowledge_task,
    run_training,
    settled,
    tell,
)
from attnlab.tasks.knowledge.rows import Row, Wording
from attnlab.tasks.knowledge.task import KnowledgeTask, Questions, Source
from attnlab.training import Run, Settings, speaks
from attnlab.training.loop import describe

SELF_MADE = "self_made.jsonl"
LONGEST_CONTEXT = 1024
# Passes, and steps at least: to copy, or to take in a first fact, takes some on any corpus.
READER, REMEMBER = (8.0, 700), (24.0, 150)
LEAST = 0.02  # of the best answer's probability: below it another is not worth remembering
ANSWER = NEW_TOKENS + 1  # room that a prompt leaves


@dataclass(frozen=True)
class LearnSettings:
    """How to read and remember. The command line's help is made from this."""

    readers: Annotated[int, "readers that vote on each answer"] = 1
    reader_epochs: Annotated[
        float | None, "passes of a reader over the documents; default 8, and at least 700 steps"
    ] = None
    remember_epochs: Annotated[
        float | None, "passes over the questions, closed book; default 24, and at least 150 steps"
    ] = None
    swapped: Annotated[float, "share of readings with another answer put in its place"] = 0.5
    copies: Annotated[int, "self-made copies per document and pass"] = 2
    answer_weight: Annotated[float, "what an answer's token counts; a document's counts 1"] = 3.0
    reader_tokens: Annotated[int, "tokens of a reader's step"] = 2048
    remember_tokens: Annotated[int, "tokens of a step of remembering"] = 2048
    held_out: Annotated[
        float | None,
        "share of the pairs kept back to measure and fit thresholds; default 5%, or 40 pairs",
    ] = None

    def __post_init__(self) -> None:
        if not 1 <= self.readers <= 99:
            raise ValueError(f"readers is {self.readers}; give 1 to 99")
        for name in ("reader_epochs", "remember_epochs", "answer_weight"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} is {value}; give a number above 0")
        for name in ("reader_tokens", "remember_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give 1 or more")
        if not 0 <= self.swapped <= 1:
            raise ValueError(f"swapped is {self.swapped}; give a share from 0 to 1")
        if not 0 <= self.copies <= 100:
            raise ValueError(f"copies is {self.copies}; give 0 to 100")
        if self.held_out is not None and not 0 <= self.held_out < 1:
            raise ValueError(f"held_out is {self.held_out}; give a share from 0 to below 1")


@dataclass(frozen=True)
class SelfMade:
    """An answer that the readers found."""

    question: str
    answer: str
    confidence: float
    """The mean of what the readers give it."""
    stands: bool
    """Whether the answer is in a document of that name."""
    others: dict[str, float] = field(default_factory=dict)
    """What else they thought of, and how likely it seemed."""

    def shares(self) -> list[tuple[str, float]]:
        """What to remember, and how much of it: as sure as the readers were, not surer."""
        kept = {text: p for text, p in self.others.items() if p >= LEAST * self.confidence}
        whole = self.confidence + sum(kept.values())
        if not whole:
            return [(self.answer, 1.0)]
        return [(text, p / whole) for text, p in [(self.answer, self.confidence), *kept.items()]]


def learn(
    corpus: str | Path | None = None,
    pairs: str | Path | None = None,
    *,
    out: str | Path,
    attention: str | list[str] = "softmax",
    preset: str = "small",
    tokenizer: str | None = None,
    settings: LearnSettings | None = None,
    model: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> dict[str, float]:
    """All three stages; the run folder `out` holds the last model, `out/readers` the readers."""
    settings = settings or LearnSettings()
    chosen = preset_named(preset)
    out = Path(out)
    check_learn(out, resume, overwrite)
    if pairs is not None and corpus is None:
        raise ValueError("--pairs without --corpus; give the documents that have the answers too")
    source = material(corpus, pairs)
    library = Library(source.documents)
    relations = relations_in([question for question, _ in source.pairs], library)
    if not any(_documents(question, library, relations) for question, _ in source.pairs):
        raise ValueError(
            "no question names a document's title; each document must begin with a title and a "
            "full stop, and the questions must ask about these titles"
        )
    if (training or {}).get("steps") is not None:
        raise ValueError("learn counts epochs: give --reader-epochs, --remember-epochs, not steps")
    base, _ = settled(chosen.scratch, 1, None, training)
    share = usual_share(len(source.pairs)) if settings.held_out is None else settings.held_out
    learned, measured = hold_out(source.pairs, share, base.seed)
    readings = find_readings(learned, library, relations)
    if not readings:
        raise ValueError("no answer stands in the document of its name; a reader cannot copy any")
    texts = [*source.documents, *(text for pair in source.pairs for text in pair)]
    tokens = make_tokenizer(tokenizer or chosen.tokenizer, texts)
    wording = Wording(tokens)
    longest = max(len(wording.encode(document)) for document in source.documents)
    asked = max(len(wording.question(question)) for question, _ in source.pairs)
    context = min(LONGEST_CONTEXT, longest + 2 * asked + 40)
    changes = {"context": context, **(model or {})}
    about = {
        "preset": preset,
        "corpus": source.corpus,
        "pairs": str(pairs or WORLD),
        "text": digest(source.documents, *source.pairs),
        "learn": asdict(settings),
    }
    say = _teller(quiet)

    def make(seed: int) -> Decoder:
        torch.manual_seed(seed)
        return make_model(preset, tokens, attention, changes)

    student = make(base.seed)
    check_pairs(source.pairs, wording, student, str(pairs or WORLD))
    if asked > reach(student) - ANSWER - 1:
        raise ValueError(
            f"the longest question has {asked} tokens; to read a document before it and answer, "
            f"give --context {asked + ANSWER + 2} or more"
        )
    say(
        f"{len(readings):,} of {len(learned):,} answers stand in a document of that name; "
        f"wordings: {', '.join(map(str, relations[:5]))}"
    )
    if overwrite:  # what was learned before must not pass for what is learned now
        for name in ("config.json", "known.json", SELF_MADE):
            (out / name).unlink(missing_ok=True)
    readers: list[Decoder] = []
    for number in range(1, settings.readers + 1):
        folder = out / "readers" / str(number)
        reader_settings = replace(
            base, seed=base.seed + number - 1, batch_tokens=settings.reader_tokens, batch_rows=None
        )
        reader = make(reader_settings.seed)
        book = OpenBook(
            readings,
            source.documents,
            swapped=settings.swapped,
            copies=settings.copies,
            answer_weight=settings.answer_weight,
        )
        task = knowledge_task(
            [book],
            wording,
            reader,
            reader_settings,
            about={"stage": "reader", **about},
            measure=lambda current: {
                "accuracy": _open_book(current, wording, library, relations, measured or learned)
            },
        )
        reader_settings = _long_enough(task, reader_settings, settings.reader_epochs, READER)
        if resume and (folder / "model.safetensors").exists():
            run = Run(folder)
            run.begin(describe(task, reader, reader_settings), resume=True, overwrite=False)
            found = run.model()  # the same settings and texts: it need not learn again
            assert isinstance(found, Decoder)
            readers.append(found)
            continue
        say(f"reader {number} of {settings.readers}")
        tell(source, tokens, reader, reader_settings, quiet)
        again = resume and (folder / "config.json").exists()
        run_training(task, reader, reader_settings, tokens, folder, again, overwrite, quiet)
        readers.append(reader.eval())

    questions = [
        question
        for question in unlabelled(library, learned, relations)
        if len(wording.question(question)) < reach(student) - ANSWER
    ]
    say(f"{len(questions):,} questions have no answer; the readers look for one")
    most = min(ANSWER, max(len(wording.encode(known)) for _, known in learned) + 2)
    made = answer_from_documents(readers, wording, library, relations, questions, most)
    _write_self_made(out / SELF_MADE, made)
    if made:
        sure = sum(each.confidence > 0.5 for each in made)
        stands = sum(each.stands for each in made)
        say(f"{stands:,} answers stand in a document, {sure:,} have a confidence above a half")

    remember_settings = replace(base, batch_tokens=settings.remember_tokens, batch_rows=None)
    student.load_state_dict(readers[0].state_dict())
    task = knowledge_task(
        [Questions(learned), Remembered(made)],
        wording,
        student,
        remember_settings,
        measured=measured or learned[:500],
        about={
            "stage": "remember",
            **about,
            "questions": len(learned),
            "self_made": len(made),
            "held_out": share,
            "measured_on": "held-out pairs" if measured else "training pairs",
        },
    )
    remember_settings = _long_enough(task, remember_settings, settings.remember_epochs, REMEMBER)
    say("remember")
    tell(source, tokens, student, remember_settings, quiet)
    again = resume and (out / "config.json").exists()
    metrics = run_training(task, student, remember_settings, tokens, out, again, overwrite, quiet)
    keep_certainty(student, wording, out, learned, measured, library)
    return metrics


def check_learn(out: Path, resume: bool, overwrite: bool) -> None:
    """A folder that holds readers only is an unfinished run too."""
    if resume and overwrite:
        raise ValueError("--resume and --overwrite; give one of them")
    if (out / "config.json").exists() or not (out / "readers" / "1" / "config.json").exists():
        check_folder(out, resume and (out / "config.json").exists(), overwrite)
        if resume and not (out / "config.json").exists():
            Run(out).config()
    elif not resume and not overwrite:
        check_folder(out / "readers" / "1", False, False)


def _long_enough(
    task: KnowledgeTask, settings: Settings, epochs: float | None, usual: tuple[float, int]
) -> Settings:
    if epochs is not None:
        return in_steps(task, settings, epochs)
    found = in_steps(task, settings, usual[0])
    return found if found.steps >= usual[1] else replace(settings, steps=usual[1])


def _teller(quiet: bool) -> Any:
    begin = time.perf_counter()

    def say(text: str) -> None:
        if speaks() and not quiet:
            print(f"[{(time.perf_counter() - begin) / 60:.1f} min] {text}", file=sys.stderr)

    return say


def _documents(question: str, library: Library, relations: Sequence[Relation]) -> list[str]:
    about = name_in(question, relations)
    return library.by_title.get(about[0], []) if about is not None else []


def _open_book(
    model: nn.Module,
    wording: Wording,
    library: Library,
    relations: Sequence[Relation],
    pairs: Sequence[Pair],
) -> float:
    """The share of pairs that a reader answers, the first document of that name before it."""
    assert isinstance(model, Decoder)
    context = reach(model)
    chance = random.Random(0)
    pairs = pairs if len(pairs) <= 500 else chance.sample(list(pairs), 500)
    prompts = []
    for question, _ in pairs:
        documents = _documents(question, library, relations)
        first = documents[0] if documents else ""
        prompts.append(prompt(first, question, wording, context - ANSWER))
    said = [wording.decode(row.ids) for row in write(model, wording, prompts)]
    return sum(a == gold for a, (_, gold) in zip(said, pairs, strict=True)) / len(pairs)


def answer_from_documents(
    readers: Sequence[Decoder],
    wording: Wording,
    library: Library,
    relations: Sequence[Relation],
    questions: Sequence[str],
    most: int = NEW_TOKENS,
) -> list[SelfMade]:
    """What the readers say together: probabilities are added up, and an answer that stands in the
    document goes before one that does not."""
    places, prompts, documents = [], [], []
    for number, question in enumerate(questions):
        for document in _documents(question, library, relations):
            places.append(number)
            documents.append(document)
            prompts.append(prompt(document, question, wording, reach(readers[0]) - ANSWER))
    votes: list[dict[str, float]] = [defaultdict(float) for _ in questions]
    stands: list[set[str]] = [set() for _ in questions]
    for reader in readers:
        said = candidates(reader, wording, prompts, most)
        for number, document, found in zip(places, documents, said, strict=True):
            for text, probability in found.items():
                if text:
                    votes[number][text] += probability / len(readers)
                if standing(text, document):
                    stands[number].add(text)
    made = []
    for number, question in enumerate(questions):
        ballot = votes[number]
        if ballot:
            best = max(ballot, key=lambda t: (t in stands[number], ballot[t], t))
            others = {t: p for t, p in ballot.items() if t in stands[number] and t != best}
            confidence = min(1.0, ballot[best])
            made.append(SelfMade(question, best, confidence, best in stands[number], others))
    return made


class Remembered(Source):
    """Self-made answers, each as far as the readers believed in it."""

    def __init__(self, made: Sequence[SelfMade]) -> None:
        self.made = list(made)

    def rows(self, wording: Wording, context: int, chance: random.Random) -> list[Row]:
        del chance
        rows = [
            wording.pair(each.question, text, weight=share)
            for each in self.made
            for text, share in each.shares()
        ]
        return [row for row in rows if len(row) <= context + 1]


def _write_self_made(path: Path, made: Sequence[SelfMade]) -> None:
    text = "".join(json.dumps(asdict(each), ensure_ascii=False) + "\n" for each in made)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda part: _save(part, text))


def _save(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
