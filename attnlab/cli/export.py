"""attnlab export: a run in the format of another library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from attnlab._command_options import RunFolder, flag, option


def export(
    run: RunFolder,
    /,
    *,
    to: Annotated[Literal["huggingface"], option("Library to write for.")] = "huggingface",
    out: Annotated[Path, option("Folder to write.")] = Path("exported"),
    overwrite: Annotated[bool, flag("Replace the model in --out.")] = False,
) -> None:
    """Write a run as a folder that transformers loads."""
    del to  # there is one
    from attnlab.huggingface import export_run

    exported = export_run(run, out, overwrite=overwrite)
    needs = (
        "needs attnlab and trust_remote_code=True" if exported.needs_attnlab else "needs no attnlab"
    )
    print(f"{out}: {exported.class_name} of transformers; {needs}")
