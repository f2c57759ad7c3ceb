"""Records the attention of any model: `with attnlab.capture(model) as captured:`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from torch import nn

from attnlab.interpret._adapters import listen
from attnlab.interpret._memory_limit import GIBIBYTES
from attnlab.interpret._recorder import CapturedAttention, CaptureOptions, Recorder


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
) -> AbstractContextManager[CapturedAttention]:
    """Record the attention of an attnlab or Hugging Face model that runs inside the `with`.

    The model and its fused attention stay unchanged, and its results are the same to the bit. One
    exception: a Hugging Face model that does not use the library's attention interface runs its
    eager attention meanwhile. Its results then differ by rounding, and a note says so.

    Calls that continue the one before (decoding with a cache) are joined. If the model reads
    unrelated inputs, only the last one is kept. With `gradients`, call `backward` inside the
    `with`; this records the gradient with respect to the weights.

    To limit the memory, set `layers` (numbers in the order they run, or names), `heads`, one `row`
    of the batch and `max_tokens`. A longer input is an error: it is never cut, because a part of a
    row would look like the whole. The first layer raises an error if weights and gradients need
    more than `memory` GiB.

    >>> import torch, attnlab
    >>> from attnlab.models import Decoder, StackConfig
    >>> model = Decoder(StackConfig(vocabulary=50, context=16, width=24, layers=2, heads=3)).eval()
    >>> with attnlab.capture(model) as captured:
    ...     _ = model(torch.tensor([[5, 6, 7]]))
    >>> [layer.name for layer in captured.layers]
    ['stack.blocks.0.attention', 'stack.blocks.1.attention']
    >>> captured.layers[0].weights.shape  # heads, queries, keys
    torch.Size([3, 3, 3])
    """
    return record(
        model, CaptureOptions(weights, qkv, gradients, layers, heads, max_tokens, row, memory)
    )


@contextmanager
def record(model: nn.Module, options: CaptureOptions) -> Iterator[CapturedAttention]:
    """As `capture`, with the options as one object."""
    recorder = Recorder(model, options)
    with ExitStack() as stack:
        names = stack.enter_context(listen(model, recorder))
        if not names:
            raise ValueError(
                f"capture: {type(model).__name__} has no attention layer that attnlab can record; "
                "give an attnlab model or a Hugging Face model with attention"
            )
        recorder.expect(names)
        stack.callback(recorder.unhook)
        yield recorder.captured
    recorder.finish()
