"""A short causal convolution over the tokens, for each channel, with a decoding state.

Letters: B batch, T tokens, C channels, K taps of the convolution.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.mask import Mask


class ShortConvolution(nn.Module):
    """silu(sum over j < K of weight_j x_{t-j}): each token sees its own input and K - 1 before it.

    It restarts with each packed document, and padding counts as zeros.
    """

    def __init__(self, channels: int, taps: int) -> None:
        super().__init__()
        self.taps = taps
        self.weight = nn.Parameter(torch.empty(taps, channels).uniform_(-1, 1) * taps**-0.5)

    def forward(self, x: Tensor, mask: Mask, recent: Tensor | None = None) -> Tensor:
        """(B, T, C) -> (B, T, C), after the last K - 1 inputs `recent` (B, K - 1, C)."""
        T = x.shape[1]
        x = self._masked(x, mask)
        earlier = x.new_zeros(len(x), self.taps - 1, x.shape[2]) if recent is None else recent
        whole = torch.cat([earlier.to(x.dtype), x], dim=1)  # (B, K - 1 + T, C)
        position = None if mask.segments is None else mask.positions(T, x.device)
        total = self.weight[0] * x
        for j in range(1, self.taps):
            shifted = whole[:, self.taps - 1 - j : self.taps - 1 - j + T]
            if position is not None:  # not from the document before
                shifted = shifted.masked_fill((position < j)[..., None], 0)
            total = total + self.weight[j] * shifted
        return F.silu(total)

    def state(self, x: Tensor, mask: Mask, recent: Tensor | None = None) -> Tensor:
        """The last K - 1 inputs of each right-padded row: (B, K - 1, C)."""
        x = self._masked(x, mask)
        earlier = x.new_zeros(len(x), self.taps - 1, x.shape[2]) if recent is None else recent
        whole = torch.cat([earlier.to(x.dtype), x], dim=1)
        if mask.keys is None:
            return whole[:, whole.shape[1] - self.taps + 1 :]
        last = mask.keys.sum(1, keepdim=True)  # (B, 1) tokens of each row
        index = last + torch.arange(self.taps - 1, device=x.device)  # (B, K - 1)
        return whole.gather(1, index[..., None].expand(-1, -1, x.shape[2]))

    @staticmethod
    def _masked(x: Tensor, mask: Mask) -> Tensor:
        return x if mask.keys is None else x.masked_fill(~mask.keys[..., None], 0)
