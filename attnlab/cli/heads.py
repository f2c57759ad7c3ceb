"""attnlab heads: which mechanism could take softmax's place in each head of a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from cyclopts import Parameter

from attnlab._command_options import given, grouped, options_of
from attnlab.cli._report_options import Bar, Common, Outputs
from attnlab.heads._settings import HeadSettings

HeadOptions: Any = options_of(HeadSettings, unset=True, told=True)


@dataclass(frozen=True)
class HeadOutputs(Outputs):
    """Where a report goes."""

    kind: ClassVar[str] = "heads"


@grouped(common=Common, settings=HeadOptions, outputs=HeadOutputs)
def heads(
    model: Annotated[Path, Parameter(help="Folder of an attnlab or Hugging Face model.")],
    /,
    *,
    text: Annotated[
        Path | None,
        Parameter(
            help="What it reads: a text file; with .jsonl, .csv or .tsv texts and their summaries, "
            "for an encoder-decoder."
        ),
    ] = None,
    images: Annotated[
        Path | None,
        Parameter(
            help="What a model of images reads: a folder of them, or a data set for vision runs "
            "(digits, fashion)."
        ),
    ] = None,
    common: Any = Common(),  # noqa: B008 (frozen)
    settings: Any = HeadOptions(),  # noqa: B008
    outputs: Any = HeadOutputs(),  # noqa: B008
) -> None:
    """Which mechanism reproduces each head of a model, at which cost; checked by its own loss."""
    chosen = given(settings, unset=True)
    if text is None and images is None:
        raise ValueError(f"{model}: what does it read? give --text FILE too, or --images")
    if text is not None and images is not None:
        raise ValueError("--text and --images: give one of them")
    if images is not None and "tokens" in chosen:
        raise ValueError("--tokens: goes with --text; a model cuts its images itself")
    outputs.check()
    from attnlab.heads import heads as measure

    with Bar() as bar:
        report = measure(
            model,
            text,
            images=images,
            mechanisms=common.mechanisms,
            quick=common.quick,
            seed=common.seed,
            progress=bar,
            **chosen,
        )
    outputs.write(report, charts=True)
