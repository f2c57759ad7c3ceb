"""What any model attends to, seen from outside: `with attnlab.capture(model) as seen:`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from torch import nn

from attnlab.interpret._adapters import listen
from attnlab.interpret._memory_limit import GIBIBYTES
from attnlab.interpret._recorder import CaptureOptions, Recorder, Seen


def capture(
    model: nn.Module,
    *,
    weights: bool = True,
    qkv: bool = False,
    gradients: bool = False,
    layers: Sequence[int | str] | None = None,
    heads: Sequence[int] | None = None,
    max_tokens: int = 2048,
    row: int = 0,
    memory: float = GIBIBYTES,
) -> AbstractContextManager[Seen]:
    """Record the attention of an attnlab or Hugging Face model that runs inside the `with`.

    The model is not changed, fused attention stays on, and its results are the same to the bit;
    but a Hugging Face model that does not use the library's attention interface runs its eager
    attention meanwhile, whose results differ by rounding, and a note says so. Calls that go on
    where the one before ended (decoding with a cache) are joined; of unrelated ones the last is
    kept. `gradients`: of what `backward` is called on inside the `with`, by the weights. `layers`
    (numbers in the order they run, or names), `heads`, one `row` of the batch and `max_tokens`
    bound the memory: a longer input is an error and never cut, because a part of a row would look
    like the whole. So is what would keep more than `memory` GiB of weights and gradients, told at
    the first layer.
    """
    return watch(
        model, CaptureOptions(weights, qkv, gradients, layers, heads, max_tokens, row, memory)
    )


@contextmanager
def watch(model: nn.Module, options: CaptureOptions) -> Iterator[Seen]:
    recorder = Recorder(model, options)
    with ExitStack() as stack:
        names = stack.enter_context(listen(model, recorder))
        if not names:
            raise ValueError(
                f"capture: {type(model).__name__} has no attention that attnlab knows; "
                "give an attnlab model or a Hugging Face model with attention"
            )
        recorder.expect(names)
        stack.callback(recorder.unhook)
        yield recorder.seen
    recorder.finish()
