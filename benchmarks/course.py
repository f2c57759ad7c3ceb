"""A plain character GPT, as courses teach it: the reference of the other benchmarks.

Nothing here is slow on purpose. It is the first version that you would write: separate products for
query, key and value, attention as a matrix, every row padded to the full context, and sampling that
reads the whole text again for each new character.

Letters: B batch, T tokens, W width, H heads, D head size, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.layers import Block
from attnlab.models import Decoder
from attnlab.position import LearnedPositions

VOCABULARY, CONTEXT, WIDTH, LAYERS, HEADS, DROPOUT = 256, 128, 256, 4, 8, 0.1
PARAMETERS = 3_323_392
PADDING = 0
ROWS = 128  # in a batch


class CourseAttention(nn.Module):
    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.weights_dropout = nn.Dropout(DROPOUT)
        self.out_dropout = nn.Dropout(DROPOUT)
        lower = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril()
        self.register_buffer("mask", lower[None, None])  # (1, 1, context, context)

    def forward(self, x: Tensor) -> Tensor:
        B, T, W = x.shape
        q = self.query(x).view(B, T, HEADS, W // HEADS).transpose(1, 2)  # (B, H, T, D)
        k = self.key(x).view(B, T, HEADS, W // HEADS).transpose(1, 2)  # (B, H, T, D)
        v = self.value(x).view(B, T, HEADS, W // HEADS).transpose(1, 2)  # (B, H, T, D)
        scores = q @ k.transpose(-2, -1) / math.sqrt(W // HEADS)  # (B, H, T, T)
        scores = scores.masked_fill(~self.mask[:, :, :T, :T], -math.inf)
        weights = self.weights_dropout(F.softmax(scores, dim=-1))  # (B, H, T, T)
        joined = (weights @ v).transpose(1, 2).contiguous().view(B, T, W)  # (B, T, W)
        return self.out_dropout(self.out(joined))


class CourseBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.attention = CourseAttention()
        self.feed_norm = nn.LayerNorm(WIDTH)
        self.rise = nn.Linear(WIDTH, 4 * WIDTH)
        self.fall = nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.dropout(self.fall(F.gelu(self.rise(self.feed_norm(x)))))


class CourseModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Parameter(torch.zeros(1, CONTEXT, WIDTH))
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.Sequential(*[CourseBlock() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.apply(_initialize)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, V)"""
        x = self.dropout(self.embedding(ids) + self.position[:, : ids.shape[1]])  # (B, T, W)
        return self.head(self.norm(self.blocks(x)))


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


class CourseTrainer:
    """The body of the training loop: one batch, one step."""

    def __init__(self, model: CourseModel, learning_rate: float) -> None:
        self.model = model.train()
        matrices = [p for p in model.parameters() if p.dim() >= 2]
        vectors = [p for p in model.parameters() if p.dim() < 2]
        groups = [
            {"params": matrices, "weight_decay": 0.1},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95))

    def step(self, rows: Sequence[Tensor]) -> float:
        """Trains on texts up to the context; each id is predicted from those before it."""
        padded = torch.full((len(rows), CONTEXT), PADDING)  # (B, context)
        for i, row in enumerate(rows):
            padded[i, : len(row)] = row
        ids, targets = padded[:, :-1], padded[:, 1:]  # (B, T)
        logits = self.model(ids)  # (B, T, V)
        loss = F.cross_entropy(
            logits.reshape(-1, VOCABULARY), targets.reshape(-1), ignore_index=PADDING
        )
        self.model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


@torch.no_grad()
def write(model: CourseModel, prompt: Sequence[int], new_tokens: int) -> list[int]:
    """The likeliest continuation of one prompt. It reads the whole text for each new token."""
    model.eval()
    text = torch.tensor([prompt])  # (1, T)
    for _ in range(new_tokens):
        logits = model(text[:, -CONTEXT:])[:, -1]  # (1, V)
        text = torch.cat([text, logits.argmax(-1, keepdim=True)], dim=1)
    return text[0, len(prompt) :].tolist()


@torch.no_grad()
def load_weights(course: CourseModel, decoder: Decoder) -> None:
    """Copies the weights of attnlab's model; its one product for q, k and v becomes three."""
    stack = decoder.stack
    assert isinstance(stack.position, LearnedPositions)
    course.embedding.load_state_dict(stack.embedding.state_dict())
    course.position.copy_(stack.position.table[None])
    for target, source in zip(course.blocks, stack.blocks, strict=True):
        assert isinstance(target, CourseBlock)
        assert isinstance(source, Block)
        attention, project = target.attention, source.attention.project
        layers = (attention.query, attention.key, attention.value)
        for layer, weight, bias in zip(
            layers, project.weight.chunk(3), project.bias.chunk(3), strict=True
        ):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        attention.out.load_state_dict(source.attention.out.state_dict())
        target.attention_norm.load_state_dict(source.attention_norm.state_dict())
        target.feed_norm.load_state_dict(source.feed_norm.state_dict())
        target.rise.load_state_dict(source.feed_forward.rise.state_dict())
        target.fall.load_state_dict(source.feed_forward.fall.state_dict())
    course.norm.load_state_dict(stack.norm.state_dict())
    course.head.load_state_dict(decoder.head.state_dict())


def parameter_count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
