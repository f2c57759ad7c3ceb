"""Bad input raises one ValueError of one line."""

from __future__ import annotations

from typing import Any

import pytest

from attnlab import Mask, Mechanism
from attnlab.laws._law_inputs import LawInputs


def expect_error(call: Any, *words: str) -> None:
    """The call raises a ValueError of one line that contains all `words`."""
    with pytest.raises(ValueError, match=r".+") as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


def expect_refused(mechanism: Mechanism, x: LawInputs, mask: Mask, *words: str) -> None:
    """`forward` and `weights` both refuse these inputs, in a line with the mechanism's name."""
    expect_error(lambda: x.output(mechanism, mask), mechanism.name, *words)
    expect_error(lambda: x.weights(mechanism, mask), mechanism.name, *words)
