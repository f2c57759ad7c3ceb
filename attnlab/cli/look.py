"""attnlab look: see what a model attends to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab.command_options import several
from attnlab.interpret.memory import GIBIBYTES


def look(
    model: Annotated[
        Path, Parameter(help="Folder of an attnlab or Hugging Face model, or a capture file.")
    ],
    /,
    *,
    text: Annotated[str | None, Parameter(help="What the model reads.")] = None,
    pair: Annotated[
        str | None, Parameter(help="A second text; of an encoder-decoder what is written.")
    ] = None,
    image: Annotated[Path | None, Parameter(help="What a vision model sees.")] = None,
    generate: Annotated[int, Parameter(help="Tokens to write on, then look at all.")] = 0,
    compare: Annotated[Path | None, Parameter(help="Another model on the same input.")] = None,
    untrained: Annotated[
        bool, Parameter(negative="", help="Compare with the same model, not trained.")
    ] = False,
    compare_text: Annotated[str | None, Parameter(help="Compare with another text.")] = None,
    neurons: Annotated[
        bool, Parameter(negative="", help="Keep queries, keys and values too: a larger page.")
    ] = False,
    layers: Annotated[list[int] | None, several("Only these, from 0.")] = None,
    heads: Annotated[list[int] | None, several("Only these, from 0.")] = None,
    max_tokens: Annotated[int, Parameter(help="Refuse longer inputs.")] = 2048,
    gradients: Annotated[
        bool, Parameter(help="Gradient-weighted attention, by one backward pass.")
    ] = True,
    control: Annotated[
        bool, Parameter(help="Patterns of an untrained model beside those of each head.")
    ] = True,
    memory: Annotated[
        float, Parameter(help="Refuse what takes more GiB: weights, gradients and flow.")
    ] = GIBIBYTES,
    seed: Annotated[int, Parameter(help="Of untrained weights.")] = 0,
    title: Annotated[str | None, Parameter(help="Above the page.")] = None,
    out: Annotated[Path, Parameter(help="The page; or NAME.attnlab, a capture file.")] = Path(
        "look.html"
    ),
    overwrite: Annotated[bool, Parameter(negative="", help="Replace --out.")] = False,
) -> None:
    """See what a model attends to: one page that works offline."""
    from attnlab.interpret.api import check_out
    from attnlab.interpret.api import look as looking
    from attnlab.interpret.summary import print_summary

    check_out(out, overwrite)
    found = looking(
        str(model),
        text,
        pair=pair,
        image=image,
        generate=generate,
        compare=None if compare is None else str(compare),
        untrained=untrained,
        compare_text=compare_text,
        neurons=neurons,
        layers=layers,
        heads=heads,
        max_tokens=max_tokens,
        gradients=gradients,
        control=control,
        memory=memory,
        seed=seed,
        title=title,
    )
    found.save(out, overwrite=overwrite)
    print_summary(found, out)
