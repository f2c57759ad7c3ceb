"""Corpora, pairs, titles and wordings; and text as ids that mean the same everywhere."""

from __future__ import annotations

import string
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attnlab.tasks.knowledge._data import (
    MAX_LINE,
    Library,
    Relation,
    body_of,
    default_held_out_fraction,
    digest,
    hold_out,
    most_common_answer,
    name_in,
    read_corpus,
    read_pairs,
    read_questions,
    relations_in,
    title_of,
)
from attnlab.tasks.knowledge._training_rows import KnowledgeTextEncoding
from attnlab.tasks.knowledge._world import WorldConfig, make_world
from attnlab.tasks.knowledge._world_vocabulary import QUESTIONS
from attnlab.tokenizer import BPE, Bytes, Characters
from tests.support.examples import examples

WORDS = st.text(string.ascii_letters + "äéłØß", min_size=2, max_size=9)
NAMES = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        (tmp_path / "given").write_bytes(content)
        return tmp_path / "given"

    return write


# Files


def test_corpora(file: Any) -> None:
    assert read_corpus(file(b"One.\n\n  \nTwo. \n")) == ["One.", "Two."]
    assert read_corpus(file("Zoë.".encode())) == ["Zoë."]
    assert read_corpus(file(b"\xef\xbb\xbfOne. A\r\nTwo. B\r\n")) == ["One. A", "Two. B"]
    assert read_corpus(file("One.\u2028Still one.\n".encode())) == ["One.\u2028Still one."]


def test_pairs(file: Any) -> None:
    assert read_pairs(file(b"Who?\tMe\nWhy? \t  So \n")) == [("Who?", "Me"), ("Why?", "So")]
    assert read_pairs(file(b"\xef\xbb\xbfWho?\tMe\r\n\r\nWhy?\tSo\r\n")) == [
        ("Who?", "Me"),
        ("Why?", "So"),
    ]


def test_questions_without_answers(file: Any) -> None:
    for content in (b"Who?\nWhy?\n", b"Who?\t\nWhy?\t \n", b"\xef\xbb\xbfWho?\r\nWhy?\t\r\n"):
        assert read_questions(file(content)) == [("Who?", None), ("Why?", None)]
        with pytest.raises(ValueError, match=r"given: has questions without answers"):
            read_pairs(file(content))
    assert read_questions(file(b"Who?\tMe\n")) == [("Who?", "Me")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "has no questions"),
        (b"\n \n\t\n", "has no questions"),
        (b"Who?\tMe\nWhy?\n", r"line 2 has no tab; each line is question, tab, answer"),
        (b"\n\nWho?\tMe\n\nWhy?\n", "line 5 has no tab"),
        (b"Who?\tMe\nWhy?\t\n", "line 2 has no answer"),
        (b"Who?\tMe\n\tSo\n", "line 2 has no question"),
        (b"Who?\tMe\tYou\nWhy?\tSo\n", "line 1 has more than one tab"),
        (b"Who?\tMe\t\n", "line 1 has more than one tab"),
        (b"a\tb\n" + b"a\n" * 7, "lines 2, 3, 4, 5, 6, ... have no tab"),
        (b"Who?\tMe\nWh\xff?\tSo\n", "line 2 is not UTF-8"),
        (b"\xef\xbb\xbfWho?\n\xff\n", "line 2 is not UTF-8"),
        (b"Who?\tMe\n" + b"x" * (MAX_LINE + 1), "line 2 has 20,001 characters"),
    ],
)
def test_errors_in_questions_name_the_line(content: bytes, problem: str, file: Any) -> None:
    with pytest.raises(ValueError, match=rf"given: {problem}"):
        read_questions(file(content))


def test_errors_in_corpora(file: Any, tmp_path: Path) -> None:
    for content, problem in (
        (b"", "has no documents"),
        (b"\n  \r\n", "has no documents"),
        ("é.\n".encode("utf-16"), "line 1 is not UTF-8"),
        (b"a\n" * 8 + b"\xe9t\xe9\n", "line 9 is not UTF-8"),
        (b"a b c. " * 10_000, "line 1 has 70,000 characters, more than 20,000"),
    ):
        with pytest.raises(ValueError, match=problem) as caught:
            read_corpus(file(content))
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="nowhere: does not exist"):
        read_corpus(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is not a file"):
        read_corpus(tmp_path)
    assert read_corpus(file(b"x" * MAX_LINE)) == ["x" * MAX_LINE]


@given(
    st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=8),
    st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"]),
    st.booleans(),
)
def test_written_pairs_are_read_back(pairs: list[tuple[str, str]], ending: str, mark: bool) -> None:
    text = "".join(f"{question}\t{answer}{ending}" for question, answer in pairs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.tsv"
        path.write_bytes(text.encode("utf-8-sig" if mark else "utf-8"))
        assert read_pairs(path) == pairs


# Titles


@pytest.mark.parametrize(
    ("document", "title"),
    [
        ("Ada Byron. Byron was born in London .", "Ada Byron"),
        ("Ada M. Byron. Byron was born .", "Ada M. Byron"),
        ("J. R. R. Tolkien. He wrote .", "J. R. R. Tolkien"),
        ("J.R.R. Tolkien. He wrote .", "J.R.R. Tolkien"),
        ("Sammy Davis, Jr.. Sammy sang .", "Sammy Davis, Jr."),
        ("Martin Jr. King. He spoke .", "Martin Jr. King"),
        ("St. John Smith. He was .", "St. John Smith"),
        ("E. E.. He was .", "E. E."),
        ("Jean-Luc O'Neill. He was .", "Jean-Luc O'Neill"),
        ("Zoë Ångström. She was .", "Zoë Ångström"),
        ("Apollo 8. It flew .", "Apollo 8"),
        ("example.com. It is a site .", "example.com"),
        ("Ada Byron.", "Ada Byron"),
        ("Ada Byron", "Ada Byron"),
        ("no full stop at all", "no full stop at all"),
        ("Malcolm X", "Malcolm X"),
    ],
)
def test_titles(document: str, title: str) -> None:
    assert title_of(document) == title
    assert document.startswith(title)
    assert document == title + document[len(title) :]


def test_bodies() -> None:
    assert body_of("Ada M. Byron. Byron was born .") == "Byron was born ."
    assert body_of("Sammy Davis, Jr.. Sammy sang .") == "Sammy sang ."
    assert body_of("Ada Byron.") == body_of("Ada Byron") == ""


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_is_title_and_body(document: str) -> None:
    title, body = title_of(document), body_of(document)
    assert document.startswith(title)
    assert document.endswith(body) or document.strip().endswith(body)
    assert len(title) + len(body) <= len(document)


@given(NAMES, NAMES)
def test_a_name_and_a_full_stop_make_a_title(name: str, rest: str) -> None:
    assume(name.split()[-1] not in {"Jr", "Sr", "St", "Dr", "Mr", "Mrs", "Ms"})
    assert title_of(f"{name}. {rest} .") == name
    assert body_of(f"{name}. {rest} .") == f"{rest} ."


def test_titles_in_questions() -> None:
    documents = ["Ann Lee. A", "Ann Lee Smith. B", "Bob. C", "Sammy Davis, Jr.. D", "Ann Lee. E"]
    library = Library(documents)
    assert library.by_title["Ann Lee"] == ["Ann Lee. A", "Ann Lee. E"]
    for question, title in (
        ("Where was Ann Lee born?", "Ann Lee"),
        ("Where was Ann Lee Smith born?", "Ann Lee Smith"),  # the longest
        ("Who was Ann Lee?", "Ann Lee"),
        ("What was Ann Lee's profession?", "Ann Lee"),
        ("Where was Sammy Davis, Jr. born?", "Sammy Davis, Jr."),
        ("Who is Bob!", "Bob"),
        ("Where was Bobby born?", None),  # whole words alone
        ("Where was ann lee born?", None),
        ("", None),
    ):
        assert library.title_in(question) == title
    assert Library([]).title_in("Where was Ann Lee born?") is None


# Wordings


@given(NAMES, st.text(max_size=12), st.text(max_size=12))
def test_a_relation_finds_the_name_in_a_question(name: str, before: str, after: str) -> None:
    relation = Relation(before, after)
    assert relation.name_in(relation.ask(name)) == name
    assert name_in(relation.ask(name), [relation]) == (name, relation)


def test_relations_that_do_not_match() -> None:
    born = Relation("Where was ", " born?")
    assert str(born) == "Where was ... born?"
    for question in ("Where was born?", "Where was  born?", "When was Ada born?", "Where was Ada?"):
        assert born.name_in(question) is None
    assert Relation("aa", "aa").name_in("aaa") is None
    # of two that fit, the one that explains more of the question
    assert name_in("Where was Ada born?", [Relation("Where ", "?"), born]) == ("Ada", born)
    assert name_in("Who?", [born]) is None
    assert name_in("Who?", []) is None


@examples(25)
@given(
    st.sets(st.sampled_from(list(QUESTIONS)), min_size=1),
    st.integers(0, 5),
)
def test_several_relations(attributes: set[str], seed: int) -> None:
    world = make_world(WorldConfig(people=20, seed=seed, attributes=tuple(sorted(attributes))))
    library = Library(world.corpus)
    relations = relations_in([question for question, _ in world.train], library)
    expected = {Relation(*QUESTIONS[each].split("{name}")) for each in attributes}
    assert set(relations) == expected
    for person in world.people:
        assert library.by_title[person.name]
        for relation in relations:
            assert name_in(relation.ask(person.name), relations) == (person.name, relation)


def test_frequent_relations_come_first_and_rare_ones_are_ignored() -> None:
    library = Library([*(f"P{i} Lee. He ." for i in range(300)), "Ann Lee. She ."])
    questions = [f"Where was P{i} Lee born?" for i in range(200)]
    questions += [f"Who was P{i} Lee?" for i in range(100)]
    odd = "Where was Ann Lee Smith born?"  # Ann Lee has a document, Ann Lee Smith has not
    relations = relations_in([*questions, odd], library)
    assert relations == [Relation("Where was ", " born?"), Relation("Who was ", "?")]
    assert name_in(odd, relations) == ("Ann Lee Smith", relations[0])
    few = relations_in([*questions[:20], odd], library)
    assert few == [Relation("Where was ", " born?"), Relation("Where was ", " Smith born?")]


def test_a_title_inside_another_word_does_not_match() -> None:
    library = Library(["Ann. She .", "Was. It ."])
    assert relations_in(["Where is Annabel's Ann today?"], library) == [
        Relation("Where is Annabel's ", " today?")
    ]


def test_relations_without_documents() -> None:
    empty = Library([])
    born = Relation("Where was ", " born?")
    assert relations_in(["Where was Ada born?", "Where was Bo Li born?"], empty) == [born]
    # names that begin or end alike
    assert relations_in(["Where was Ada born?", "Where was Ama born?"], empty) == [born]
    job = ["What was Jones's job?", "What was James's job?"]
    assert relations_in(job, empty) == [Relation("What was ", "'s job?")]
    for hopeless in (["Where was Ada born?"], ["Where is Ada?", "When was Bo?"], [], ["a", "b"]):
        assert relations_in(hopeless, empty) == []


@given(st.lists(NAMES, min_size=2, max_size=6, unique=True))
def test_relations_without_documents_end_at_whole_words(names: list[str]) -> None:
    questions = [f"Where was {name} born?" for name in names]
    for relation in relations_in(questions, Library([])):
        assert relation.before.startswith("Where was ")
        assert relation.after.endswith(" born?")
        for question, name in zip(questions, names, strict=True):
            extracted = relation.name_in(question)
            # a whole word that all names share cannot be told from the wording
            assert extracted is None or set(extracted.split()) <= set(name.split())


# Keeping back


@given(
    st.lists(st.tuples(NAMES, NAMES), max_size=40),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 2**63 - 1),
)
def test_held_out_pairs(pairs: list[tuple[str, str]], share: float, seed: int) -> None:
    kept, held = hold_out(pairs, share, seed)
    assert (kept, held) == hold_out(pairs, share, seed)
    assert sorted(kept + held) == sorted(pairs)
    assert not {question for question, _ in kept} & {question for question, _ in held}
    assert kept == [pair for pair in pairs if pair in kept]  # in their order
    assert hold_out(pairs, 0, seed) == (pairs, [])
    # whoever is held out of some is held out of more
    assert set(held) <= set(hold_out([*pairs, ("More?", "Yes")], share, seed)[1])


def test_held_out_fraction() -> None:
    pairs = [(f"Where was {i} born?", "Rome") for i in range(4000)]
    for share in (0.05, 0.1, 0.5):
        held = hold_out(pairs, share, 1)[1]
        assert len(held) / 4000 == pytest.approx(share, abs=0.02)
    assert hold_out(pairs, 0.1, 1)[1] != hold_out(pairs, 0.1, 2)[1]
    for wrong in (-0.1, 1, 2, float("nan")):
        with pytest.raises(ValueError, match="held-out fraction"):
            hold_out(pairs, wrong, 0)


def test_default_held_out_fraction() -> None:
    assert [default_held_out_fraction(pairs) for pairs in (0, 1, 9)] == [
        0,
        0,
        0,
    ]  # something must be learned
    for pairs in (10, 100, 300, 800, 2000, 100_000):
        assert 0.05 <= default_held_out_fraction(pairs) <= 0.2
        assert default_held_out_fraction(pairs) * pairs <= max(0.05 * pairs, 40)
    assert default_held_out_fraction(2000) == 0.05


def test_most_common_answer() -> None:
    pairs = [("a", "Rome"), ("b", "Paris"), ("c", "Rome"), ("d", "London")]
    assert most_common_answer(pairs) == "Rome"
    assert most_common_answer([("a", "Rome"), ("b", "Paris")]) == "Paris"  # equals: by alphabet


@given(st.lists(NAMES, max_size=3), st.lists(NAMES, max_size=3))
def test_digests_differ_for_different_texts(one: list[str], other: list[str]) -> None:
    assert (digest(one) == digest(other)) == (one == other)
    assert digest(one, other) == digest(list(one), list(other))
    assert digest(["a"], ["b"]) != digest(["a", "b"])


# Text to ids

BYTE_PAIRS = BPE.train(make_world(WorldConfig(people=60)).corpus, 400)
WORDINGS = {
    "bpe": KnowledgeTextEncoding(BYTE_PAIRS),
    "bytes": KnowledgeTextEncoding(Bytes()),
    "characters": KnowledgeTextEncoding(
        Characters.train([string.printable + "äéłØß", *make_world(WorldConfig()).corpus])
    ),
}


def inside(part: list[int], whole: list[int]) -> bool:
    return any(whole[i : i + len(part)] == part for i in range(len(whole) - len(part) + 1))


@given(NAMES)
@pytest.mark.parametrize("kind", list(WORDINGS))
def test_a_name_has_the_same_ids_everywhere(kind: str, name: str) -> None:
    encoding = WORDINGS[kind]
    ids = encoding.encode(name)
    assert encoding.encode(f"{name}. {name} was born in {name}, far away .")[: len(ids)] == ids
    for text in (f"Where was {name} born?", f"born in {name}, and", f"What is {name}'s job?"):
        assert inside(ids, encoding.encode(text)), text
    row = encoding.encode_pair(f"Where was {name} born?", name)
    assert row.ids[-len(ids) - 2 :] == [encoding.mask, *ids, encoding.mask]


@given(st.text(st.characters(codec="utf-8"), max_size=40))
@pytest.mark.parametrize("kind", ["bpe", "bytes"])
def test_decoding_restores_the_text_up_to_spaces(kind: str, text: str) -> None:
    encoding = WORDINGS[kind]
    assert encoding.decode(encoding.encode(text)) == " ".join(text.split())
    assert encoding.encode(" ".join(text.split())) == encoding.encode(text)
    encoding.check_characters(text, "this")


@given(st.text(string.printable, max_size=40))
def test_characters_are_kept_as_they_are(text: str) -> None:
    encoding = WORDINGS["characters"]
    assert len(encoding.encode(text)) == len(text)
    assert encoding.decode(encoding.encode(text)) == text.strip()
    encoding.check_characters(text, "this")


def test_unknown_characters_raise_an_error() -> None:
    encoding = KnowledgeTextEncoding(Characters.train(["abc ?"]))
    encoding.check_characters("a cab?", "this")
    with pytest.raises(ValueError, match=r"^question 3 has characters .* never saw: 'd', 'é'$"):
        encoding.check_characters("abcdéab", "question 3")
    with pytest.raises(ValueError, match=r"'e', 'f', 'g', 'h', 'i', \.\.\.$"):
        encoding.check_characters("efghijkl", "this")
    for kind in ("bpe", "bytes"):
        WORDINGS[kind].check_characters("\u4e00\U0001f600 é", "this")


def test_rows_by_hand() -> None:
    encoding = KnowledgeTextEncoding(Characters.train(["ab?"]))  # □ 0, ⁇ 1, ? 2, a 3, b 4
    assert encoding.encode_question("a?") == [3, 2, 1]
    row = encoding.encode_pair("a?", "b")
    assert row.ids == [3, 2, 1, 4, 1]
    assert row.weights == [0, 0, 1, 1, 1]
    assert encoding.encode_pair("a?", "b", weight=0.25).weights == [0, 0, 0.25, 0.25, 0.25]


# The course's files


def test_files_of_the_course(course_data: Path) -> None:
    library = Library(read_corpus(course_data / "wiki.txt"))
    pairs = read_pairs(course_data / "birth_places_train.tsv")
    questions = [question for question, _ in pairs]
    born = Relation("Where was ", " born?")
    assert relations_in(questions, library) == [born]
    assert relations_in(questions, Library([])) == [born]
    for name in ("birth_dev.tsv", "birth_test_inputs.tsv"):
        questions += [question for question, _ in read_questions(course_data / name)]
    names = [born.name_in(question) for question in questions]
    assert len(names) == 2937
    assert sum(name not in library.by_title for name in names) <= 2
    answers = [answer for _, answer in read_questions(course_data / "birth_test_inputs.tsv")]
    assert set(answers) == {None}
