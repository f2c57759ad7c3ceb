"""Every intervention on a tiny model of each family that `look` opens: does it work or refuse?

    python benchmarks/family_interventions.py              all families that are not in the results
    python benchmarks/family_interventions.py bert t5      only these

Prints, for each family, what crashed or changed the model for good, and what was refused with
which line. After each call the model must have no hook and the same outputs, to the bit; an
exception inside an intervention must leave none either. The results are lines of JSON in
benchmarks/family_interventions.jsonl (not in the repository).
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import families
import torch
from torch import Tensor

RESULTS = families.ROOT / "benchmarks" / "family_interventions.jsonl"
ABLATIONS: tuple[Any, ...] = ("zero", "mean", "uniform", "resample")


def hooks_of(model: Any) -> int:
    """Hooks and replaced methods in a model."""
    replaced = ("forward", "weights", "read")
    return sum(
        len(module._forward_hooks)
        + len(module._forward_pre_hooks)
        + sum(name in vars(module) for name in replaced)
        for module in model.modules()
    )


def check_family(family: str, kinds: list[str]) -> dict[str, Any]:
    import family_checks as checks

    import attnlab
    from attnlab.interpret._adapters import open_model

    row: dict[str, Any] = {"family": family, "class": kinds[0]}
    try:
        model, inputs = checks.running_model(family, kinds)
    except checks.NotBuiltError as error:
        return {**row, "built": False, "reason": str(error)}
    row |= {"class": type(model).__name__, "built": True}
    if not checks.has_attention(model):
        return row
    with tempfile.TemporaryDirectory() as folder:
        options, image = look_options(model, inputs, Path(folder))
        opened = checks.attempt(
            partial(finish, partial(attnlab.look, model, control=False, **options))
        )
        row["look"] = opened
        if opened[0] != "equal":
            return row
        before, count = checks.run(model, inputs), hooks_of(model)
        again = checks.run(model, inputs)
        same = all(torch.equal(x, y) for x, y in zip(before, again, strict=True))
        inspected = open_model(model, options["tokenizer"])
        for name, call in calls(model, inspected, options, image):
            row[name] = checks.attempt(partial(finish, call))
            if hooks_of(model) != count:
                row[name] = ("wrong", f"{hooks_of(model) - count} hooks are left")
            after = checks.run(model, inputs)
            if same and not all(torch.equal(x, y) for x, y in zip(before, after, strict=True)):
                row[name] = ("wrong", "other outputs afterwards")
    return row


def look_options(
    model: Any, inputs: dict[str, Tensor], folder: Path
) -> tuple[dict[str, Any], Path | None]:
    """As in family_checks.check_look."""
    import family_checks as checks
    import family_models

    if model.main_input_name == "pixel_values" and "pixel_values" in inputs:
        image = checks.image_file(folder, inputs["pixel_values"])
        processor = checks.image_processor(inputs["pixel_values"])
        return {"image": image, "tokenizer": processor}, image
    ids = inputs.get("input_ids")
    text = checks.text_of([7] * family_models.T if ids is None else ids[0].tolist())
    if type(model).__name__.endswith("ForMaskedLM"):
        text = f"{text.rpartition(' ')[0]} <mask>"
    options = {"tokenizer": checks.tokenizer(), "text": text}
    if "decoder_input_ids" in inputs:
        options["pair"] = checks.text_of(inputs["decoder_input_ids"][0].tolist())
    return options, None


def finish(call: Callable[[], Any]) -> tuple[str, str]:
    """Reports are made too; look has none."""
    result = call()
    if hasattr(result, "report"):
        from attnlab.report import to_markdown

        to_markdown(result.report())
    return "equal", ""


def calls(
    model: Any, inspected: Any, options: dict[str, Any], image: Path | None
) -> Iterator[tuple[str, Callable[[], Any]]]:
    import attnlab
    from attnlab.interpret._adapters import attention_sites

    text, pair = options.get("text"), options.get("pair")
    one: Any = text if pair is None else (text, pair)
    rest = {"pair": pair} if pair is not None else {}
    single: dict[str, Any] = {"image": image} if image else rest
    many: dict[str, Any] = {"images": [image]} if image else {"texts": [one]}
    yield "record", lambda: attnlab.record(inspected, text, **single)
    for how in ABLATIONS:
        yield (
            f"importance {how}",
            partial(attnlab.head_importance, inspected, **many, metric="distance", how=how),
        )
    yield "importance loss", lambda: attnlab.head_importance(inspected, **many)
    yield "lens", lambda: attnlab.logit_lens(inspected, text, **single)
    yield "attribute", lambda: attribute(inspected, text, single)
    yield "look --effects", lambda: attnlab.look(model, control=False, effects=True, **options)
    yield "look --without", lambda: attnlab.look(model, without=("0.0",), **options)
    if text is not None:
        other = "w9 " + text.partition(" ")[2]
        yield "patch", lambda: attnlab.patching_map(inspected, text, other, 7, **rest)
        yield "find_heads", lambda: attnlab.find_heads(inspected)
        yield "average", lambda: attnlab.average(inspected, [text], 0, 0)
    for number, site in enumerate(attention_sites(model)[:3]):
        yield f"weights {number}", partial(weights_of_one_head, model, inspected, options, number)
        yield f"exception {number}", partial(exception_inside, inspected, options, site)


def attribute(inspected: Any, text: str | None, single: dict[str, Any]) -> Any:
    import attnlab

    result = attnlab.attribute(inspected, text, **single)
    error = abs(result.total - result.logit)
    assert error <= 1e-4 * max(1, abs(result.logit)), f"terms miss the logit by {error:.2g}"
    return result


def weights_of_one_head(model: Any, inspected: Any, options: dict[str, Any], number: int) -> None:
    import attnlab

    with attnlab.intervene(model).weights(number, 0, lambda A: A * 0.5):
        run_prepared(inspected, options)


def exception_inside(inspected: Any, options: dict[str, Any], site: Any) -> None:
    def fail(_: Tensor) -> Tensor:
        raise ZeroDivisionError("on purpose")

    with suppress(ZeroDivisionError, ValueError), site.edit_heads(fail):
        run_prepared(inspected, options)  # says ValueError: needs more than this input


def run_prepared(inspected: Any, options: dict[str, Any]) -> None:
    from attnlab.interpret._options import LookInput

    chosen = {name: options[name] for name in ("text", "pair", "image") if name in options}
    with torch.no_grad():
        inspected.run(inspected.prepare(LookInput(**chosen)))


def print_row(row: dict[str, Any]) -> None:
    print(row["family"], "" if row.get("look") else row.get("reason", "no attention"))
    for name, value in row.items():
        if isinstance(value, tuple | list) and value[0] != "equal":
            print(f"    {name}: {value[0]}: {value[1]}", flush=True)


def main() -> None:
    import family_checks
    from family_models import families as all_families

    family_checks.check_family = check_family
    known = all_families()
    unknown = [name for name in sys.argv[1:] if name not in known]
    if unknown:
        sys.exit(f"{unknown[0]}: is not a family of this transformers")
    done_before = families.read_rows(RESULTS)
    for name in sys.argv[1:] or [name for name in known if name not in done_before]:
        row = families.measure(name, known[name], 300, families.GIBIBYTES)
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print_row(row)


if __name__ == "__main__":
    sys.path.insert(0, str(families.ROOT))
    main()
