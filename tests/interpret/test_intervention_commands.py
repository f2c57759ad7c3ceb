"""The commands of interventions, and models that `look` opens: they work, or refuse in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import attnlab
from attnlab.interpret._capture_file import read
from tests.support.command_line import run
from tests.support.hand_written_models import Edits
from tests.support.hand_written_models import run as by_hand
from tests.support.transformers_with_tokenizers import (
    TEXT,
    bart,
    bert,
    byte_pairs,
    gpt2,
    llama,
    t5,
    word_pieces,
)

OTHER = "I wanted to have to party"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    gpt2().save_pretrained(folder / "gpt2")
    byte_pairs().save_pretrained(folder / "gpt2")
    (folder / "notes.txt").write_text(f"{TEXT} {OTHER}\n" * 12)
    return folder


def rows_of(path: Path) -> Any:
    return json.loads(path.read_text())["sections"][0]["measurements"]


def test_importance(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "heads.json"
    command = f"heads {folder}/gpt2 --importance --text {folder}/notes.txt --windows 3 --tokens 20"
    code, printed, errors = run(f"{command} --json {out}", capsys)
    assert (code, errors) == (0, "")
    assert "Effect of each head" in printed
    rows = rows_of(out)
    assert [(row["layer"], row["head"]) for row in rows] == [
        (n, h) for n in (0, 1) for h in range(3)
    ]
    text = (folder / "notes.txt").read_text()
    ids = byte_pairs()(text)["input_ids"]
    pieces = [ids[start : start + 20] for start in range(0, 3 * (len(ids) // 3), len(ids) // 3)]
    expected = attnlab.head_importance(gpt2(), pieces)
    assert [row["effect"] for row in rows] == pytest.approx(
        [head.effect for head in expected.heads], abs=1e-6
    )


def test_the_lens_and_patching(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lens.json"
    code, printed, _ = run(f"lens {folder}/gpt2 --text '{TEXT}' --json {out}", capsys)
    assert code == 0
    assert "layer by layer" in printed
    lens = attnlab.logit_lens(gpt2(), TEXT, tokenizer=byte_pairs())
    assert [row["predicted"] for row in rows_of(out)] == [c[0][0] for row in lens.top for c in row]
    code, printed, _ = run(f"lens {folder}/gpt2 --text '{TEXT}' --tuned {folder}/notes.txt", capsys)
    assert code == 0
    assert "What the probes gain" in printed
    out = tmp_path / "patch.json"
    code, printed, _ = run(
        f"patch {folder}/gpt2 --clean '{TEXT}' --corrupted '{OTHER}' --answer ' have' --json {out} "
        f"--html {tmp_path}/patch.html",
        capsys,
    )
    assert code == 0
    assert "it restores 100% of the difference" in " ".join(printed.split())
    assert [row["restored"] for row in rows_of(out)][4] == pytest.approx(1, abs=1e-3)
    assert (tmp_path / "patch.html").exists()


def test_look_without_a_head(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "look.attnlab"
    code, _, errors = run(
        f"look {folder}/gpt2 --text '{TEXT}' --without 0.1 1.2 --no-control --out {out}", capsys
    )
    assert (code, errors) == (0, "")
    whole, without = read(out).panels
    assert without.label == f"{whole.label} without 0.1, 1.2"
    model = gpt2()
    ids = torch.tensor([byte_pairs()(TEXT)["input_ids"]])

    def zero(layer: int, z: Any) -> Any:
        z = z.clone()
        z[:, {0: 1, 1: 2}[layer]] = 0
        return z

    for panel, edits in ((whole, Edits()), (without, Edits(heads=zero))):
        logits = by_hand(model, ids, edits=edits).logits[0]
        assert panel.next_tokens is not None
        best = panel.next_tokens.top[-1][0][1]
        assert best == pytest.approx(float(logits[-1].softmax(-1).max()), abs=1e-5)
    first, second = whole.layers[0].weights, without.layers[0].weights
    assert first is not None
    assert second is not None
    assert torch.equal(first, second)  # the pattern of a head that is off stays visible
    assert not any(layer.doubtful for layer in without.layers)


BAD = [
    ("look MODEL --text a --without 0.9", "no head 9 in transformer.h.0.attn, which has 3"),
    ("look MODEL --text a --without 9.0", "no layer 9; give LAYER.HEAD with 0 to 1"),
    ("look MODEL --text a --without first", "no head 'first'; give LAYER.HEAD"),
    ("look MODEL --text a --without 0.1 --untrained", "exclude each other"),
    ("heads MODEL --importance", "needs something to read"),
    ("heads MODEL --importance --text FILE --metric best", "no metric 'best'; give one of loss"),
    ("heads MODEL --importance --text FILE --windows 0", "--windows 0; give 1 or more"),
    ("heads MODEL --importance --text FILE --tokens 0", "--tokens 0; give 16 or more"),
    ("heads MODEL --importance --text FILE --how best", "how is 'best'; give one of zero"),
    ("heads MODEL --importance --text FILE --tolerance 0.1", "no meaning with --importance"),
    ("heads MODEL --importance --text FILE --metric logit --answer zebra", "is 5 tokens"),
    ("heads MODEL --text FILE --metric loss", "need --importance; give it too"),
    ("lens MODEL", "this model reads a text: give --text"),
    ("lens MODEL --text ''", "the text has no tokens"),
    ("patch MODEL --clean 'a b' --corrupted 'a b c' --answer a", "equally many tokens"),
    ("patch MODEL --clean 'a b' --corrupted 'a b' --answer a", "the same tokens"),
    ("patch MODEL --clean 'a b' --corrupted 'a c' --answer zebra", "give a text of one token"),
    ("patch nowhere --clean 'a b' --corrupted 'a c' --answer a", "nowhere: does not exist"),
]


@pytest.mark.parametrize(("command", "message"), BAD, ids=[command for command, _ in BAD])
def test_bad_input_is_one_line(
    command: str, message: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = command.replace("MODEL", f"{folder}/gpt2").replace("FILE", f"{folder}/notes.txt")
    if command.startswith("look"):
        command += f" --out {tmp_path}/look.html"
    code, _, errors = run(command, capsys)
    assert code == 2
    assert message in errors
    assert errors.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("make", [gpt2, llama, bert, t5, bart], ids=lambda make: make.__name__)
def test_models_that_look_opens(make: Any) -> None:
    """Each call gives a result whose values are finite, or refuses in one line."""
    model = make()
    tokenizer = word_pieces() if make is bert else byte_pairs()
    text = "a party" if make is bert else TEXT
    options = {"tokenizer": tokenizer}
    pair: dict[str, Any] = {"pair": "to have"} if make in (t5, bart) else {}
    cache = attnlab.record(model, text, **options, **pair)
    assert all(cache[name].isfinite().all() for name in cache.names())
    result = attnlab.head_importance(model, [text], metric="distance", **options)
    assert all(head.effect > 0 for head in result.heads)
    assert result.replayed
    if make is bert:
        for refused in (attnlab.logit_lens, attnlab.attribute):
            with pytest.raises(ValueError, match="returns vectors and predicts no token"):
                refused(model, text, **options)
        return
    lens = attnlab.logit_lens(model, text, **options, **pair)
    assert lens.divergence[-1].abs().max() < 1e-5
    terms = attnlab.attribute(model, text, **options, **pair)
    assert terms.total == pytest.approx(terms.logit, abs=1e-4)
    assert terms.token == lens.top[-1][-1][0][0]
    assert "terms sum to" in str(terms.report())
