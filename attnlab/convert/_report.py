"""The report of a conversion."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from attnlab._confidence_intervals import format_number, mean_interval
from attnlab.bench._machine_info import describe_machine, library_versions
from attnlab.convert._results import (
    LABELS,
    ORIGINAL,
    REPLACED,
    Results,
    findings,
    format_bytes,
    format_signed,
)
from attnlab.convert._settings import TRANSFER
from attnlab.report import (
    Bars,
    Block,
    Cell,
    Command,
    Figure,
    Lines,
    Report,
    Section,
    Series,
    Table,
    Value,
)


def convert_report(results: Results, out: str, seconds: float) -> Report:
    conversion = results.conversion
    count = f"{len(conversion.plan)} of {conversion.all_layers} layers"
    title = f"{conversion.label}: {count} converted"
    blocks: list[Block] = [_loss_table(results), _loss_figure(results), _layer_table(results)]
    if results.training:
        blocks.append(_training_table(results))
    if results.costs:
        blocks += [_cost_table(results), *_cost_figures(results)]
    blocks += _commands(out)
    settings = {
        **asdict(conversion.settings),
        "model": conversion.label,
        "layers": list(conversion.plan),
        "attention": list(dict.fromkeys(conversion.plan.values())),
        "training_texts": conversion.texts,
        "new_parameters": conversion.new_parameters,
    }
    section = Section(
        "convert",
        title,
        findings=findings(results),
        blocks=blocks,
        settings=settings,
        measurements=_measurements(results),
    )
    machine = describe_machine(torch.get_num_threads())
    return Report("convert", title, [section], machine, library_versions(), seconds)


def _loss_table(results: Results) -> Table:
    rows: list[list[Cell]] = []
    for name in results.names:
        after = name not in (ORIGINAL, REPLACED)
        rows.append(
            [
                name,
                mean_interval(results.losses[name]),
                None if name == ORIGINAL else results.increase(name),
                None if name == ORIGINAL else format_signed(results.relative_increase(name)),
                _percent(results.gap_closed(name)) if after else None,
            ]
        )
    return Table(
        "The model's loss on held-out texts",
        ["model", "loss", "more", "relative", "gap closed"],
        rows,
        f"Loss per token over {len(results.losses[ORIGINAL])} texts of "
        f"{results.conversion.settings.tokens:,} tokens that no stage trained on, with 95% "
        "intervals over texts. More: than the original, text by text. Gap closed: of the increase "
        "by replacing alone.",
        drop=["relative", "gap closed"],
    )


def _loss_figure(results: Results) -> Figure:
    values = {name: mean_interval(results.losses[name]) for name in results.names}
    return Figure("Loss", Bars("loss per token", values), in_table=True)


def _layer_table(results: Results) -> Table:
    trained = results.errors.get(LABELS[TRANSFER], {})
    before = results.errors[REPLACED]
    rows: list[list[Cell]] = [
        [str(layer), spec, before[layer], trained.get(layer)]
        for layer, spec in results.conversion.plan.items()
    ]
    return Table(
        "Each converted layer on its own",
        ["layer", "mechanism", "not trained", "after transfer"],
        rows,
        "Mean square of the difference between the attention's output and that of softmax, as a "
        "fraction of softmax's mean square. Both take the queries, keys and values of the "
        "original model on the held-out texts.",
    )


def _training_table(results: Results) -> Table:
    names = ("parameters", "steps", "tokens", "seconds")
    rows: list[list[Cell]] = [
        [LABELS[stage].removeprefix("after "), *(float(facts[name]) for name in names)]
        for stage, facts in results.training.items()
    ]
    return Table("Training", ["stage", *names], rows)


def _cost_table(results: Results) -> Table:
    rows: list[list[Cell]] = []
    pairs = zip(results.costs["original"], results.costs["converted"], strict=True)
    for before, after in pairs:
        rows.append(
            [
                before.tokens,
                format_bytes(before.cache_bytes),
                format_bytes(after.cache_bytes),
                f"{1000 * before.seconds:.1f}",
                f"{1000 * after.seconds:.1f}",
                f"{before.seconds / after.seconds:.2f}",
            ]
        )
    return Table(
        "Generation by length",
        ["tokens", "cache", "converted", "ms per token", "converted, ms", "times faster"],
        rows,
        "Size of the state of one text, and the median time of its next token, on "
        f"{torch.get_num_threads()} threads.",
        drop=["cache", "ms per token"],
    )


def _cost_figures(results: Results) -> list[Figure]:
    def lines(name: str, scale: float) -> list[Series]:
        return [
            Series(model, [(cost.tokens, getattr(cost, name) * scale) for cost in costs])
            for model, costs in results.costs.items()
        ]

    options: dict[str, Any] = {"x_log": True, "y_log": True}
    return [
        Figure(
            "Memory of the cache",
            Lines("tokens", "MiB", lines("cache_bytes", 2**-20), **options),
            in_table=True,
        ),
        Figure(
            "Time of the next token",
            Lines("tokens", "ms", lines("seconds", 1000), **options),
            in_table=True,
        ),
    ]


def _commands(out: str) -> list[Block]:
    return [
        Command(f"attnlab language write {out} --prompt TEXT", "Write with the converted model."),
        Command(f"attnlab look {out} --text TEXT --out look.html", "See what it attends to."),
        Command(
            f"attnlab export {out} --to huggingface --out exported", "Use it with transformers."
        ),
    ]


def _percent(fraction: float | None) -> str | None:
    return None if fraction is None else format_number(fraction, percent=True)


def _measurements(results: Results) -> list[dict[str, Value]]:
    rows: list[dict[str, Value]] = [
        {"model": name, "text": number, "loss": loss}
        for name, losses in results.losses.items()
        for number, loss in enumerate(losses)
    ]
    rows += [
        {"model": name, "layer": layer, "error": error}
        for name, errors in results.errors.items()
        for layer, error in errors.items()
    ]
    rows += [
        {"model": name, "tokens": cost.tokens, "bytes": cost.cache_bytes, "seconds": cost.seconds}
        for name, costs in results.costs.items()
        for cost in costs
    ]
    rows += [{"stage": stage, **facts} for stage, facts in results.training.items()]
    return rows
