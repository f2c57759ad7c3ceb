"""The command line of summaries: writing, mistakes, looking, masks."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab.mechanism import Mechanism
from attnlab.tasks.summary import _docstrings as docstrings
from attnlab.tasks.summary import _mask_pictures as masks
from attnlab.tasks.summary import _training as recipe
from attnlab.tasks.summary._pairs import Columns, Pair
from attnlab.tasks.summary._task import SummaryTask, make_rows
from attnlab.tasks.summary._token_ids import SummaryTextEncoding
from tests.support.browser import Watched, chromium
from tests.support.command_line import run
from tests.support.summary_runs import TEXT, TINY, encoding, trained, written


def give(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    class Stdin:
        buffer = io.BytesIO(content)

    monkeypatch.setattr(sys, "stdin", Stdin())


# The command line


def test_write_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, TEXT.encode())
    code, out, err = run(f"summary write {trained()}", capsys)
    assert (code, out, err) == (0, "tool for maps\n", "")


def test_write_files_and_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "texts.txt"
    path.write_text(f"{TEXT.splitlines()[0]}\n\nPackage 4 is a game for mail and more.\n")
    code, out, _ = run(f"summary write {trained()} {path} --lines", capsys)
    assert (code, out) == (0, "tool for maps\ngame for mail\n")
    code, out, _ = run(f"summary write {trained()} {path} --lines --count 2 --json", capsys)
    results = json.loads(out)
    assert [each["text"] for each in results] == [f"{path}, line 1", f"{path}, line 3"]
    assert [len(each["summaries"]) for each in results] == [2, 2]
    assert [each["cut"] for each in results] == [0, 0]
    first = results[1]["summaries"][0]
    assert first["summary"] == "game for mail"
    assert first["score"] > first["log_probability"]
    assert (first["finished"], first["loops"]) == (True, False)
    code, out, err = run(f"summary write {trained()} {path} {path}", capsys)
    assert code == 0
    assert out.count("\n") == 2
    assert err == ""


def test_a_note_about_a_text_that_was_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    long = TEXT + " and so on" * 40
    give(monkeypatch, long.encode())
    code, _, err = run(f"summary write {trained()}", capsys)
    assert code == 0
    assert err.startswith("standard input has ")
    assert "this model reads 48" in err
    assert "cut off" in err
    short, path = tmp_path / "short.txt", tmp_path / "long.txt"
    short.write_text(TEXT)
    path.write_text(long)
    code, out, err = run(f"summary write {trained()} {short} {path} --json", capsys)
    assert err.startswith(f"{path} has ")
    results = json.loads(out)
    assert [each["text"] for each in results] == [str(short), str(path)]
    cut = encoding_of_run().encode_source(long)[1]
    assert [(each["tokens"], each["cut"]) for each in results] == [(16, 0), (48, cut)]


def encoding_of_run() -> SummaryTextEncoding:
    return recipe.load_summary(trained())[1]


def test_several_summaries_are_printed_with_their_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    code, out, err = run(f"summary write {trained()} {path} {path} --count 3", capsys)
    assert code == 0, err
    one, other = out.split("\n\n")
    assert one == other.rstrip("\n")
    head, *lines = one.splitlines()
    assert head.split() == ["score", "log-probability"]
    for line, each in zip(lines, written([TEXT], count=3)[0], strict=True):
        score, known, text = line.split(maxsplit=2)
        assert (float(score), float(known)) == (
            round(each.score, 2),
            round(each.log_probability, 2),
        )
        assert text == each.text + ("" if each.finished else " […]")
    code, out, _ = run(f"summary write {trained()} {path} --count 2 --temperature 1", capsys)
    assert out.splitlines()[0] == "log-probability"


def test_a_summary_without_an_end_is_marked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, TEXT.encode())
    code, out, _ = run(f"summary write {trained()} --max-new-tokens 2 --beams 1", capsys)
    assert (code, out) == (0, "tool for […]\n")


def test_blank_lines_are_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "blank.txt"
    path.write_text("\n \n")
    code, out, err = run(f"summary write {trained()} {path} --lines", capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "empty"), (b" \n ", "empty"), (b"\xff\xfe", "not UTF-8"), (b"a\0b", "binary")],
)
def test_input_that_is_not_text(
    content: bytes,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give(monkeypatch, content)
    code, out, err = run(f"summary write {trained()}", capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("evaluate none", ["none: not a run folder"]),
        ("write {run} none.txt", ["none.txt", "does not exist"]),
        ("evaluate {run} --data {rows} --text-column body", ["no 'body'"]),
        ("evaluate {run} --split train", ["test or validation"]),
        ("evaluate {run} --predictions nowhere/p.txt", ["no folder nowhere"]),
        ("evaluate {run} --predictions .", ["is a folder"]),
        ("evaluate {run} --predictions {rows}", ["already exists", "--overwrite"]),
        ("evaluate {run} --count 5", ["--count"]),
        ("train --data nothing", ["docstrings, debian"]),
        ("train --data {rows} --steps 1 --minutes 1 --out x", ["give one of them"]),
        ("train --data {rows} --smoothing 1 --out x", ["smoothing is 1"]),
        ("train --data nothing.csv --attention softmx --out x", ["softmx", "softmax"]),
        ("train --data nothing.csv --device tpu --out x", ["tpu"]),
        ("train --data nothing.csv --width 30 --out x", ["width is 30", "heads"]),
        ("train --data {rows} --attention softmx --out x", ["softmx", "softmax"]),
        ("train --data {rows} --cross-attention fourier --out x", ["not probabilities"]),
        ("write {run} {rows} --explain page.txt", ["NAME.html"]),
        ("masks --data {rows} --out x.png", ["NAME.svg"]),
        ("masks --data {rows} --tokens 0", ["tokens is 0; give 1 to 200"]),
        ("masks --data {rows} --tokens -3", ["tokens is -3"]),
        ("masks --data {rows} --texts 0", ["texts is 0; give 1 to 8"]),
        ("masks --data {rows} --tokens 5", ["only 0 of 240 pairs", "give more tokens"]),
        ("write {run} {rows} --beams 0", ["beams is 0; give 1 or more"]),
        ("write {run} {rows} --block-repeats -1", ["block-repeats is -1"]),
        ("write {run} {rows} --temperature 1 --top-k 0", ["leave it out"]),
        ("write {run} {rows} --temperature 1 --length-penalty 0.5", ["sampling has none"]),
    ],
)
def test_errors_are_one_line(
    command: str,
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"run": trained(), "rows": trained().parent / "rows.jsonl"}
    code, _, err = run(f"summary {command.format(**places)}", capsys)
    assert code == 2, err
    assert err.splitlines()[-1].startswith("attnlab: ")
    assert "Traceback" not in err
    for word in words:
        assert word in err.splitlines()[-1]


def test_a_run_of_another_task_is_refused(tmp_path: Path) -> None:
    config = {"task": {"name": "language"}, "model": {}, "training": {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="'language'; give a run of task 'summary'"):
        recipe.load_summary(tmp_path)


@pytest.mark.parametrize("name", ["text_tokens", "summary_tokens"])
def test_incomplete_configuration(name: str, tmp_path: Path) -> None:
    shutil.copytree(trained(), tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text())
    del config["task"][name]
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match=f"has no valid {name}"):
        recipe.load_summary(tmp_path / "run")


# Measuring


def measured_rows(
    rows: list[dict[str, str]], folder: Path, capsys: pytest.CaptureFixture[str], extra: str = ""
) -> tuple[str, str]:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "nonsense\n")
    code, out, err = run(f"summary evaluate {trained()} --data {path} {extra}", capsys)
    assert code == 0, err
    assert "1 of 3 rows skipped: not JSON in 1 (line 3)" in err  # with --json too
    return out, err


def test_summaries_too_long_have_no_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text": TEXT, "summary": "many words " * 20}] * 2
    evaluation = json.loads(measured_rows(rows, tmp_path, capsys, "--json")[0])
    assert (evaluation["loss"], evaluation["accuracy"]) == (None, None)
    assert evaluation["left_out"] == {
        "rows": 1, "why": "not JSON in 1 (line 3)", "too_long_for_loss": 2,
        "without_words_for_rouge": 0,
    }  # fmt: skip
    out, _ = measured_rows(rows, tmp_path, capsys)
    assert "loss – (2 summaries too long for it), next-token accuracy –" in out


def test_rouge_ignores_other_alphabets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"text": "Это очень длинный текст", "summary": "длинный текст"}] * 2
    out, _ = measured_rows(rows, tmp_path, capsys, "--json")
    evaluation = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert evaluation["ratio_to_first_words"] is None
    assert evaluation["left_out"]["without_words_for_rouge"] == 2
    out, _ = measured_rows(rows, tmp_path, capsys)
    assert "ROUGE-L is – times" in out
    assert "only sees Latin letters and digits: 2 reference summaries have none" in out


# Looking


def test_explain_shows_cross_attention_and_copying(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    code, _, err = run(f"summary write {trained()} {path} --explain {tmp_path}/page.html", capsys)
    assert code == 0, err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for name in ('"decoder.blocks.0.cross"', '"copy"'):
        assert name in page


def test_copy_layer_has_the_copy_weights() -> None:
    from attnlab.interpret._look import look
    from attnlab.tasks.summary._inspected_model import open_run_with_summary

    ((best,),) = written([TEXT])
    seen = look(open_run_with_summary(trained(), best.ids), TEXT, pair=best.text)
    layer = next(each for each in seen.panels[0].layers if each.name == "copy")
    source, target = seen.panels[0].sequences
    assert layer.kind == "cross"
    assert "".join(target.texts[1:]).strip() == best.text
    model, words, _ = recipe.load_summary(trained())
    ids, wrote = torch.tensor([source.ids]), torch.tensor([target.ids])
    assert model.copy is not None
    with torch.no_grad():
        memory = model.encoder(ids)
        wanted = model.copy.weights(
            model.decoder(wrote, None, memory), model.copy.absorb(memory, ids, None)
        )[0]
    assert layer.weights is not None
    assert torch.allclose(layer.weights.mean(0), wanted, atol=1e-3)
    # the row before a word writes it; each is copied from where it stands in the text
    copied = [source.texts[int(row.argmax())] for row in layer.weights.mean(0)[:-1]]
    assert copied == target.texts[1:]
    assert target.prompt == 1
    assert words.longest_text == 48


def test_explain_opens_at_the_copy_layer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a person sees first: a row for each written word, strongest where it was read."""
    path, page = tmp_path / "text.txt", tmp_path / "page.html"
    path.write_text(TEXT)
    code, _, err = run(f"summary write {trained()} {path} --explain {page}", capsys)
    assert code == 0, err
    with chromium() as browser:
        for scheme in ("light", "dark"):
            window = Watched(browser, color_scheme=scheme)
            shown = window.open(page)
            assert shown.locator(".attnlab").get_attribute("data-painted") == "cross"
            layer = shown.locator("label", has_text="Layer").locator("option:checked")
            assert layer.text_content() == "copy"
            window.press("t")
            rows = [each.split("\t") for each in shown.locator("tbody tr").all_inner_texts()]
            best: dict[str, tuple[float, str]] = {}
            for _, _, query, _, key, weight in rows:
                best[query] = max(best.get(query, (0.0, "")), (float(weight), key))
            for word in ("tool", "for", "maps"):
                assert [k for q, (_, k) in best.items() if word in q] == [
                    q for q in best if word in q
                ]
            window.check()
            window.close()


# Masks


def test_masks_by_hand() -> None:
    words = encoding()
    pairs = [Pair("one two three", "one"), Pair("one", "one two")]
    drawn = {each.name: each.allowed for each in masks.batch_masks(pairs, words)}
    rows, _ = make_rows(pairs, words)
    (S, T), (s, t) = ((len(source), len(target)) for source, target in rows)
    assert list(drawn) == ["encoder padding", "decoder padding", "cross", "decoder self"]
    assert drawn["encoder padding"].shape == (2, S, S)
    assert drawn["cross"].shape == (2, max(T, t), S)
    assert drawn["encoder padding"][1].sum() == S * s
    assert drawn["cross"][0].all()
    assert drawn["decoder padding"][0].sum() == T * max(T, t)
    assert not drawn["decoder self"].triu(1).any()


def test_masks_match_the_model() -> None:
    """Heard from every mechanism in a step of training; real tokens never see padding."""
    pairs = [Pair("one two three", "one"), Pair("one", "one two and more")]
    task = SummaryTask(pairs, pairs, encoding(), smoothing=0.0, about={})
    model = TINY.build(task.encoding.tokenizer.vocabulary, 0)
    masks_used: list[torch.Tensor] = []

    def listen(_: Any, inputs: tuple[Any, ...]) -> None:
        q, k, _, mask = inputs
        allowed = mask.allowed(q.shape[2], k.shape[2], q.device)
        masks_used.append(allowed[:, 0].expand(2, q.shape[2], -1))

    for module in model.modules():
        if isinstance(module, Mechanism):
            module.register_forward_pre_hook(listen)
    batch = task.collate([0, 1], 0)
    task.loss(model, batch)
    drawn = {each.name: each.allowed for each in masks.batch_masks(pairs, task.encoding)}
    assert len(masks_used) >= 3
    used = [drawn["encoder padding"], drawn["decoder self"], drawn["cross"]]
    for one, other in zip(masks_used, used, strict=False):
        assert torch.equal(one, other)
    real = batch["labels"] >= 0
    assert not (drawn["decoder self"] & real[:, :, None] & ~real[:, None, :]).any()


def test_mask_texts_are_uncut_and_differ_in_length(tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    rows = [{"text": "word " * (2 + i // 10), "summary": "some words"} for i in range(50)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = masks.example_masks(data, Columns(), texts=5)[0].allowed[:, 0].sum(1).tolist()
    assert sorted(read) == [2, 3, 4, 5, 6]
    read = masks.example_masks(data, Columns(), texts=7, tokens=4)[0].allowed[:, 0].sum(1).tolist()
    assert set(read[:3]) == set(read) == {2, 3, 4}


def test_masks_of_long_texts_need_no_option(tmp_path: Path) -> None:
    """Of Debian's packages hardly any has 32 tokens: as many are drawn as the shortest need."""
    data = tmp_path / "rows.jsonl"
    rows = [{"text": "word " * (40 + i), "summary": "some words"} for i in range(50)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = masks.example_masks(data, Columns(), texts=3)[0].allowed[:, 0].sum(1).tolist()
    assert sorted(read) == [40, 41, 42]
    with pytest.raises(ValueError, match=r"at most 39 tokens, but you want 3; give more tokens"):
        masks.example_masks(data, Columns(), texts=3, tokens=39)
    rows = [{"text": "word " * 300, "summary": "some words"} for _ in range(9)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        ValueError, match=r"only 0 of 9 pairs .* at most 200 tokens, but you want 3$"
    ):
        masks.example_masks(data, Columns(), texts=3)


def test_docstrings_are_not_all_read_for_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    known = docstrings.docstring_pairs

    def docstring_pairs(module: str, path: Path) -> list[Pair]:
        read.append(module)
        return known(module, path)

    monkeypatch.setattr(docstrings, "docstring_pairs", docstring_pairs)
    batch_masks = masks.example_masks("docstrings", Columns())
    assert len(batch_masks[0].allowed) == 3
    assert len(read) < 1000 < len(list(docstrings.sources()))


@given(st.integers(1, 8), st.integers(1, 30), st.integers(1, 30), st.integers(12, 100))
def test_masks_fit_the_terminal_width(B: int, T: int, S: int, width: int) -> None:
    allowed = torch.ones(B, T, S, dtype=torch.bool)
    text = masks.format_masks([masks.BatchMask("cross", "who looks at whom", allowed)], width)
    assert all(len(line) <= width for line in text.splitlines())
    assert text.count("█") == (B * T * S if width >= S else 0)


def test_masks_in_the_terminal_and_as_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "masks.svg"
    data = trained().parent / "rows.jsonl"
    code, text, err = run(f"summary masks --data {data} --texts 2 --out {out}", capsys)
    assert code == 0, err
    for name in ("encoder padding", "decoder padding", "cross", "decoder self"):
        assert f"{name}:" in text
        assert name in out.read_text()
    assert "█" in text
    assert "·" in text
    code, _, err = run(f"summary masks --data {data} --texts 99", capsys)
    assert code == 2
    assert "1 to 8" in err


def test_help_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    train_help, write_help = (
        run(f"summary {name} --help", capsys)[1] for name in ("train", "write")
    )
    assert "--copy" in train_help
    assert "--no-copy" in train_help
    assert "--block-repeats" in write_help
