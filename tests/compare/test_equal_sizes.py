"""Contenders with equally many parameters, or equally large decoding states; sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.compare._conclusions import conclude
from attnlab.compare._engine import compare
from attnlab.compare._plan import PlannedComparison, plan_comparison
from attnlab.compare._report import measurement
from attnlab.compare._runs import ComparisonRun, Failure
from attnlab.extensions import load_extension
from attnlab.models import Decoder, Encoder, EncoderConfig, StackConfig
from attnlab.report import Figure, Lines, Table
from attnlab.run_folder import StartMode
from attnlab.tasks._equal_sizes import Sizes, _bisect, equal_feed_width, state_bytes
from attnlab.tasks._simple_comparison import RecipeComparison, comparison_class
from attnlab.tasks.comparison import ComparisonTrial, TrialResult
from attnlab.tasks.registry import TASKS
from tests.support.registries import restored_registries

TINY = Path(__file__).parents[1] / "support" / "tiny_task.py"


@pytest.fixture(autouse=True)
def tiny() -> Iterator[None]:
    with restored_registries():
        load_extension(TINY)
        yield


def create_comparison(task: str = "tiny-copy", **options: Any) -> RecipeComparison:
    comparison = comparison_class(TASKS[task])(**options)
    assert isinstance(comparison, RecipeComparison)
    return comparison


def plan(comparison: RecipeComparison, attention: list[str], folder: Path) -> PlannedComparison:
    return plan_comparison(
        comparison,
        attention,
        folder=folder,
        budget=None,
        seeds=[0],
        factors=None,
        start=StartMode.NEW,
    )


def create_decoder(attention: str, **sizes: Any) -> Decoder:
    sizes = {"width": 12, "layers": 3, "heads": 2, **sizes}
    return Decoder(StackConfig(vocabulary=7, context=40, attention=attention, **sizes))


def test_state_bytes() -> None:
    """Keys and values of every token; those of the window; one matrix for each head."""
    assert state_bytes(create_decoder("softmax"), 11) == 4 * 3 * 2 * 12 * 11
    assert state_bytes(create_decoder("window:window=5"), 11) == 4 * 3 * 2 * 12 * 5
    assert state_bytes(create_decoder("window:window=5,sinks=1"), 11) == 4 * 3 * 2 * 12 * 6
    delta, more_heads = (create_decoder("retention", heads=heads) for heads in (2, 3))
    small, large = state_bytes(more_heads, 11), state_bytes(delta, 11)
    assert small is not None
    assert large is not None
    assert small < large
    assert state_bytes(delta, 5) == large == state_bytes(delta, 1)
    config = EncoderConfig(vocabulary=7, context=40, width=12, layers=1, heads=2)
    assert state_bytes(Encoder(config), 11) is None


def test_parameters_are_equal_within_two_percent(tmp_path: Path) -> None:
    comparison = create_comparison(model={"width": 32}, widths=())
    attention = ["softmax", "elu", "gla", "gated_delta", "based"]
    trials = plan(comparison, attention, tmp_path).trials
    counts = {
        trial.contender: comparison.build(trial.variant, dict(trial.model), None).parameter_count()
        for trial in trials
    }
    assert trials[0].model == ()
    assert {name for trial in trials[1:] for name, _ in trial.model} == {"feed_width"}
    for name, count in counts.items():
        assert abs(count / counts["softmax"] - 1) <= 0.02, name
    given = [comparison.build(name, {}, None).parameter_count() for name in ("softmax", "gla")]
    assert abs(given[1] / given[0] - 1) > 0.02  # they differ without it
    same_width = create_comparison(model={"width": 32}, equal="width")
    assert all(trial.model == () for trial in plan(same_width, attention, tmp_path).trials)


def test_parameters_that_cannot_be_equal_are_reported(tmp_path: Path) -> None:
    comparison = create_comparison(model={"feed_width": 1})
    planned = plan(comparison, ["softmax", "gated_delta"], tmp_path)
    assert planned.trials[1].model == (("feed_width", 1),)
    *_, line = comparison.notes(planned.trials)
    assert line.startswith("gated_delta has +")
    assert line.endswith("parameters compared with softmax; no sizes within 2% were found")
    result = compare(comparison, ["softmax", "gated_delta"], out=tmp_path, seeds=1, quiet=True)
    text = " ".join(result.report.sections[0].findings)
    assert "these differ in parameters: gated_delta (+" in text


def test_the_smallest_feed_width_is_taken_if_less_would_be_needed() -> None:
    def build(variant: str, sizes: Sizes) -> Decoder:
        return create_decoder(variant, **sizes)

    smallest = build("softmax", {"feed_width": 1}).parameter_count()
    assert equal_feed_width(round(0.99 * smallest), "softmax", {}, build) == 1
    assert equal_feed_width(smallest // 2, "softmax", {}, build) == 1  # the nearest


@pytest.mark.parametrize(
    ("possible", "target", "expected"),
    [
        (range(4, 97, 2), 505, [50, 52]),  # only even sizes
        (range(4, 97, 2), 5000, [96]),  # 97 is not possible
        (range(4, 98, 3), 505, [49, 52]),
        (range(4, 12), 505, [11]),  # the others are too large
        (range(4, 98), 505, [50, 51]),
        (range(0), 505, []),
    ],
)
def test_impossible_sizes_are_not_too_large(
    possible: range, target: int, expected: list[int]
) -> None:
    sizes = _bisect(target, lambda size: 10 * size if size in possible else None, 4, 97)
    assert sizes == [(size, 10 * size) for size in expected]


def test_states_are_equal_with_rotary_positions(tmp_path: Path) -> None:
    """Odd head sizes are impossible there."""
    comparison = create_comparison(
        equal="state", model={"width": 44, "heads": 2, "position": "rotary"}
    )
    trials = plan(comparison, ["elu", "gated_delta"], tmp_path).trials
    models = [comparison.build(trial.variant, dict(trial.model), None) for trial in trials]
    sizes = [state_bytes(model, comparison.test_length(None)) for model in models]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.05), trials


def test_states_are_equal(tmp_path: Path) -> None:
    comparison = create_comparison(
        equal="state", model={"width": 24, "heads": 2}, options={"letters": 9}
    )
    attention = ["elu", "gated_delta", "retention", "window"]
    trials = plan(comparison, attention, tmp_path).trials
    assert trials[3].variant.startswith("window:window=")  # the option that sets its size
    models = [comparison.build(trial.variant, dict(trial.model), None) for trial in trials]
    sizes = [state_bytes(model, comparison.test_length(None)) for model in models]
    for size, trial in zip(sizes, trials, strict=True):
        assert size == pytest.approx(sizes[0], rel=0.02), trial
    counts = [model.parameter_count() for model in models]
    assert counts == pytest.approx([counts[0]] * 4, rel=0.02)
    with pytest.raises(ValueError, match="two contenders would write into one folder"):
        plan(comparison, ["elu", "window", trials[3].variant], tmp_path)
    with pytest.raises(ValueError, match="--equal state: the state of softmax grows over 19 tok"):
        plan(comparison, ["softmax", "elu"], tmp_path)


def test_a_state_that_grows_has_equal_parameters_only(tmp_path: Path) -> None:
    comparison = create_comparison(
        equal="state", model={"width": 24, "heads": 2}, options={"letters": 9}
    )
    trials = plan(comparison, ["elu", "softmax"], tmp_path).trials
    assert trials[1].variant == "softmax"
    assert "width" not in dict(trials[1].model)
    counts = [
        comparison.build(trial.variant, dict(trial.model), None).parameter_count()
        for trial in trials
    ]
    assert counts[1] == pytest.approx(counts[0], rel=0.02)
    notes = comparison.notes(trials)
    assert notes[-1] == "softmax has a state that grows with the text"
    assert "no sizes within" not in " ".join(notes)


def test_a_changed_width_does_not_replace_that_of_the_sweep() -> None:
    """In the table of all runs, elu with the state of gla at width 32 is still at 32."""
    trial = ComparisonTrial("elu", "elu", 1.0, 0, 32.0, (("feed_width", 172), ("width", 31)))
    row = measurement(create_comparison(widths=(16, 32)), Failure(trial, "lost"))
    assert (row["width"], row["own width"], row["feed_width"]) == (32, 31, 172)


def test_a_sweep_over_the_width(tmp_path: Path) -> None:
    comparison = create_comparison(widths=(8, 16))
    result = compare(comparison, ["softmax", "elu"], out=tmp_path, steps=2, seeds=1, quiet=True)
    runs = [run for run in result.attempts if isinstance(run, ComparisonRun)]
    assert [run.trial.folder for run in runs] == [
        "softmax-8-rate1-seed0", "elu-8-rate1-seed0",
        "softmax-16-rate1-seed0", "elu-16-rate1-seed0",
    ]  # fmt: skip
    softmax = [run.outcome.state_bytes for run in runs if run.trial.contender == "softmax"]
    assert softmax == [4 * 2 * 8 * 7, 4 * 2 * 16 * 7]  # 7 tokens in a row
    figures = [
        block.title
        for section in result.report.sections
        for block in section.blocks
        if isinstance(block, Figure)
    ]
    assert figures[:2] == ["accuracy over width", "accuracy over bytes of decoding state"]
    assert "validation accuracy over minutes of training (width 16)" in figures
    header, *lines = (tmp_path / "compare.csv").read_text().splitlines()
    assert header.startswith("contender,mechanism,width,rate,seed,run,")
    assert len(lines) == 4
    again = create_comparison(widths=(8, 16, 24))
    options: dict[str, Any] = {"out": tmp_path, "steps": 2, "seeds": 1, "quiet": True}
    more = compare(again, ["softmax", "elu"], start=StartMode.RESUME, **options)
    assert len(more.attempts) == 6


def test_a_sweep_over_an_option_of_the_task(tmp_path: Path) -> None:
    comparison = create_comparison(sweep=("letters", "2", "4"))
    result = compare(comparison, ["softmax"], out=tmp_path, steps=2, seeds=1, quiet=True)
    runs = [run for run in result.attempts if isinstance(run, ComparisonRun)]
    assert [run.outcome.state_bytes for run in runs] == [4 * 2 * 8 * 5, 4 * 2 * 8 * 9]
    interval = result.conclusions.best[0].metrics["accuracy"]  # over 11 test rows
    assert interval.low is not None
    more = create_comparison(sweep=("letters", "1", "2", "4"))
    options: dict[str, Any] = {"out": tmp_path, "steps": 2, "seeds": 1, "quiet": True}
    assert len(compare(more, ["softmax"], start=StartMode.RESUME, **options).attempts) == 3


def test_a_sweep_is_resumed_only_with_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if only those of the second value changed."""
    options: dict[str, Any] = {"out": tmp_path, "steps": 2, "seeds": 1, "quiet": True}
    compare(create_comparison(sweep=("letters", "2", "4")), ["softmax"], **options)
    task = type(TASKS["tiny-copy"].load_recipe())
    original = task.rows

    def changed(self: Any, part: str, random: Any) -> Any:
        return original(self, part, random)[: 5 if self.letters == 4 else None]

    monkeypatch.setattr(task, "rows", changed)
    again = create_comparison(sweep=("letters", "2", "4"))
    with pytest.raises(ValueError, match=r"the comparison has data .* resume with the same"):
        compare(again, ["softmax"], start=StartMode.RESUME, **options)


def test_a_sweep_makes_options_possible() -> None:
    """20 pairs do not fit into the default length of recall, but into those of the sweep."""
    comparison = create_comparison("recall", options={"pairs": 20}, sweep=("length", "80", "93"))
    settings = comparison.plan()
    assert settings["pairs"] == 20
    assert "length" not in settings
    assert list(settings["data"]) == [80, 93]
    assert "pairs 20, vocabulary 256" in comparison.describe()


def test_chance_depends_on_the_sweep(tmp_path: Path) -> None:
    comparison = create_comparison(
        "copy",
        options={"length": 3},
        model={"width": 8, "layers": 1, "heads": 2},
        training={"batch_size": 5},
        sweep=("symbols", "2", "32"),
    )
    assert comparison.describe() == "The rows have length 3. Guessing would give 3.1% to 50%."
    result = compare(comparison, ["softmax"], out=tmp_path, steps=2, seeds=1, quiet=True)
    chances = [(2, "chance", {"accuracy": 1 / 2}), (32, "chance", {"accuracy": 1 / 32})]
    assert (result.conclusions.baseline, result.conclusions.baselines) == (None, chances)
    blocks = [block for section in result.report.sections for block in section.blocks]
    best = next(block for block in blocks if isinstance(block, Table))
    assert [row[:2] for row in best.rows[-2:]] == [["2", "chance"], ["32", "chance"]]
    figure = next(block for block in blocks if isinstance(block, Figure))
    assert isinstance(figure.plot, Lines)
    assert figure.plot.series[-1].points == [(2, 1 / 2), (32, 1 / 32)]


def test_a_match_above_chance_depends_on_the_sweep() -> None:
    """An accuracy of 10% is better than guessing among 32 symbols and worse than among 2."""
    comparison = create_comparison("copy", sweep=("symbols", "2", "32"))
    runs = [
        ComparisonRun(
            ComparisonTrial(name, name, 1.0, seed, place),
            TrialResult({"accuracy": 0.1}, 0.1, 1, 1, 1.0),
        )
        for name in ("softmax", "elu")
        for seed in (0, 1, 2)
        for place in (2.0, 32.0)
    ]
    conclusions = conclude(comparison, ["softmax", "elu"], runs)
    verdicts = [difference.verdict for difference in conclusions.differences]
    assert verdicts == ["not learned enough", "matches"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"equal": "speed"}, "--equal is 'speed'; choose from parameters, state, width"),
        ({"widths": (8,), "sweep": ("layers", "1")}, "--widths and --sweep exclude each other"),
        ({"sweep": ("leters", "1")}, "is no option of the task or the model; did you mean 'let"),
        ({"sweep": ("letters",)}, "--sweep letters: has no values; give one or more"),
        ({"sweep": ("letters", "two")}, "--sweep letters: 'two' is not a number"),
        ({"sweep": ("letters", "nan")}, "--sweep letters: 'nan' is not a number"),
        ({"options": {"length": 3}}, "has no option 'length'; there are letters"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_comparison(**options)


def test_a_contender_that_cannot_do_the_task_is_a_failure(tmp_path: Path) -> None:
    comparison = create_comparison()
    options: dict[str, Any] = {"out": tmp_path, "steps": 2, "seeds": 2, "quiet": True}
    result = compare(comparison, ["softmax", "linformer"], **options)
    failures = [run for run in result.attempts if isinstance(run, Failure)]
    assert [failure.trial.contender for failure in failures] == ["linformer"] * 2
    assert "no causal form" in failures[0].problem
    assert "no causal form" in (tmp_path / "compare.html").read_text()
    assert "no causal form" in (tmp_path / "compare.csv").read_text()
    again = compare(comparison, ["softmax", "linformer"], start=StartMode.RESUME, **options)
    assert again.attempts == result.attempts
    with pytest.raises(ValueError, match="no causal form"):  # all are impossible
        compare(comparison, ["linformer"], **{**options, "out": tmp_path / "other"})
    odd = create_comparison(widths=(8, 9))
    with pytest.raises(ValueError, match="heads"):  # at width 9, for all
        compare(odd, ["softmax", "elu"], **{**options, "out": tmp_path / "other"})
    assert not (tmp_path / "other").exists()
