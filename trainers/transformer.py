"""A decoder-only transformer, its sizes by name, and what it costs to train.

Root-mean-square norms, rotary positions, SwiGLU, and one matrix for tokens coming in and going out,
as in https://arxiv.org/abs/2302.13971.
"""

import zlib
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import nn
from torch.utils.checkpoint import checkpoint


class Shape(NamedTuple):
    """How large a network is: blocks, features of a token, attention heads, and tokens."""

    layers: int
    width: int
    heads: int
    vocabulary: int


# GPT-2's vocabulary of 50,257 is filled up, so that it can be divided among processes.
SIZES = {
    "toy": Shape(4, 128, 4, 256),
    "gpt2-124m": Shape(12, 768, 12, 50304),
    "gpt2-350m": Shape(24, 1024, 16, 50304),
    "gpt2-1.5b": Shape(48, 1600, 25, 50304),
    "llama-7b": Shape(32, 4096, 32, 32000),
}


def hidden_width(width: int) -> int:
    """Returns the width of a feed-forward layer: 8/3 of the network's, as a multiple of 256."""
    return -(-8 * width // (3 * 256)) * 256


def rotate(x: torch.Tensor) -> torch.Tensor:
    """Rotates each pair of features by position, https://arxiv.org/abs/2104.09864."""
    half = x.shape[-1] // 2
    positions = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
    features = torch.arange(half, device=x.device, dtype=torch.float32)
    angles = torch.outer(positions, 10000 ** (-features / half))
    one, other = x.float().chunk(2, -1)
    turned = one * angles.cos() - other * angles.sin(), one * angles.sin() + other * angles.cos()
    return torch.cat(turned, -1).type_as(x)


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.features = width // heads
        self.query, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns what each position takes from those before it."""
        # As many heads as there are: with tensor parallelism each process has some of them.
        query, key, value = (
            layer(x).unflatten(-1, (-1, self.features)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(rotate(query), rotate(key), value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """SwiGLU, https://arxiv.org/abs/2002.05202."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, hidden_width(width), bias=False) for _ in range(2))
        self.down = nn.Linear(hidden_width(width), width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns what each position makes of itself."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.RMSNorm(width, 1e-5), Attention(width, heads)
        self.feed_norm, self.feed = nn.RMSNorm(width, 1e-5), FeedForward(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the features of the next block."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed(self.feed_norm(x))


class Head(nn.Module):
    """Compares features with those of all tokens."""

    def forward(self, x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Returns logits; a module of its own, so that a strategy can say how it is divided."""
        return F.linear(x, tokens)


class LanguageModel(nn.Module):
    """The network, or one of its pipeline stages; parameters have the same names in both.

    Args:
        stage: Which stage; the first and the last both have the tokens' matrix.
        recompute: In training keep only what is between blocks, and compute the rest again.
    """

    def __init__(
        self,
        layers: int,
        width: int,
        heads: int,
        vocabulary: int,
        stage: int = 0,
        stages: int = 1,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.first, self.last, self.recompute = stage == 0, stage == stages - 1, recompute
        stage_layers = range(stage * layers // stages, (stage + 1) * layers // stages)
        if self.first or self.last:
            self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleDict({str(number): Block(width, heads) for number in stage_layers})
        if self.last:
            self.norm, self.head = nn.RMSNorm(width, 1e-5), Head()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns logits, (samples, length, vocabulary), for tokens, (samples, length).

        A stage takes what the one before it returns, and returns what the next one takes.
        """
        if self.first:
            x = self.embedding(x.long())
        for block in self.blocks.values():
            again = self.recompute and self.training
            x = checkpoint(block, x, use_reentrant=False) if again else block(x)
        return self.head(self.norm(x), self.embedding.weight) if self.last else x


def initial(name: str, shape: torch.Size, layers: int, seed: int) -> torch.Tensor:
    """Returns the initial value of a parameter, as in GPT-2, the same wherever it is computed."""
    if len(shape) == 1:
        return torch.ones(shape)
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    added = name.endswith(("out.weight", "down.weight"))
    return torch.randn(shape, generator=generator) * (0.02 / (2 * layers) ** 0.5 if added else 0.02)
