"""What answers look like, found from the answers alone."""

from __future__ import annotations

import pytest

from attnlab.tasks.knowledge._answer_shapes import AnswerShapes, shape_of
from attnlab.tasks.knowledge._data import body_of
from attnlab.tasks.knowledge._pretraining_objectives import Entities

DOCUMENTS = [
    "Ada Byron. She was a painter, born on 4 May 1850 in Rome, and joined the Bank of New York .",
    "Bo Li. He was a weaver who was born in 1901 in Oslo and played the flute, horn and viola .",
    "Cy Ono. It was cold and he was a farmer in section net of lib.util in 12 towns .",
    "Di Xu. It joined in on time and played on .",
    "Ed Ito. It joined in on time and played on .",
]


@pytest.mark.parametrize(
    ("answer", "shape"),
    [
        ("Rome", ("A",)),
        ("New York", ("A", "A")),
        ("1850", ("0000",)),
        ("4 May 1850", ("0", "A", "0000")),
        ("painter", ("a",)),
        ("film director", ("a", "a")),
        ("Bank of New York.", ("A", "of", "A", "A")),
        ("flute, horn, viola", ("a,", "a,", "a")),
        ("lib.util.deep", ("a.a",)),
        ("3,204", ("0,000",)),
    ],
)
def test_shapes_by_hand(answer: str, shape: tuple[str, ...]) -> None:
    assert shape_of(answer.split()) == shape


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["Paris", "New York"], ["Rome", "Bank", "New York"]),
        (["1822"], ["1850"]),
        (["3 June 1822"], ["4 May 1850"]),
        (["weaver", "farmer"], ["painter"]),
        (["House of Lords", "Bank of New York"], ["Bank of New", "Bank of New York"]),
        (["1822", "weaver"], ["painter", "1850"]),
    ],
)
def test_strings_like_the_answers_are_recalled(answers: list[str], expected: list[str]) -> None:
    objective = Entities()
    objective.prepare(DOCUMENTS, answers)
    texts = objective.texts(DOCUMENTS[0])
    assert {*expected} <= {*texts}
    assert not {"was", "She was"} & {*texts}
    if not any(answer[0].isupper() for answer in answers):
        assert {*texts} == {*expected}


def test_lists_and_dotted_names() -> None:
    shapes = AnswerShapes(["lute, bass and drum", "os.path"], DOCUMENTS)
    words = [body_of(document).split() for document in DOCUMENTS]
    assert [words[1][slice(*span)] for span in shapes.spans(words[1])] == [
        ["flute,", "horn", "and", "viola"]
    ]
    assert [words[2][slice(*span)] for span in shapes.spans(words[2])] == [["lib.util"]]
    assert not shapes.capitalized
    assert AnswerShapes([], DOCUMENTS).spans(words[0]) == []
