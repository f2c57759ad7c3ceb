"""Write safetensors files, with the errors of every other file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file into a new folder, as `write_atomically` makes it.

    A full disk is an OSError, as for any other file. safetensors lets only the owner read the file;
    like all others it gets the mode that the umask asks for, and gave to the folder.
    """
    try:
        save_file(dict(tensors), path)
        path.chmod(path.parent.stat().st_mode & 0o666)
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise OSError(str(error)) from error
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
