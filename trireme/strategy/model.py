"""The model to be trained: a transformer, as far as memory and speed depend on it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Transformer:
    """A decoder-only transformer.

    Attributes:
        layers: Its blocks.
        width: Features of a token.
        heads: Attention heads.
        vocabulary: Tokens that there are.
        hidden: Width of a feed-forward layer.
        query_width: Width of queries, of all heads.
        kv_width: Width of keys, and of values; less where heads share them.
        kv_heads: Heads of keys, and of values.
        gated: LLaMA's block: SwiGLU, root-mean-square norms, no biases, no dropout. Otherwise
            GPT's, which has layer norms, biases and dropout.
        tied: One matrix serves tokens coming in and going out.
        positions: Learnt ones; 0 where positions are rotated.
        fused: Attention never has its matrix of scores, as in FlashAttention.
    """

    layers: int
    width: int
    heads: int
    vocabulary: int
    hidden: int
    query_width: int
    kv_width: int
    kv_heads: int
    gated: bool = True
    tied: bool = True
    positions: int = 0
    fused: bool = True

    @property
    def matrices(self) -> int:
        """Parameters in the matrices of a block."""
        attention = 2 * self.width * (self.query_width + self.kv_width)
        return attention + (3 if self.gated else 2) * self.width * self.hidden

    @property
    def vectors(self) -> int:
        """Parameters of a block's norms and biases."""
        if self.gated:
            return 2 * self.width
        return 6 * self.width + self.query_width + 2 * self.kv_width + self.hidden

    @property
    def block(self) -> int:
        """Parameters of a block."""
        return self.matrices + self.vectors

    @property
    def norm(self) -> int:
        """Parameters of the norm behind the blocks."""
        return self.width * (1 if self.gated else 2)

    @property
    def embedding(self) -> int:
        """Parameters of the matrix of tokens."""
        return self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """All of them."""
        ends = self.embedding * (1 if self.tied else 2) + self.positions * self.width
        return self.layers * self.block + ends + self.norm

    def operations(self, length: int) -> int:
        """Returns the floating-point operations that a token costs in training.

        Source: https://arxiv.org/abs/2204.02311, appendix B.
        """
        return 6 * self.parameters + 12 * self.layers * self.width * length


def llama(layers: int, width: int, heads: int, vocabulary: int) -> Transformer:
    """Returns the network that language_model.py trains."""
    hidden = -(-8 * width // (3 * 256)) * 256
    return Transformer(layers, width, heads, vocabulary, hidden, width, width, heads)


def of_size(parameters: int) -> Transformer:
    """Returns a network like LLaMA's with about so many parameters.

    Its blocks number a 128th of its width, as LLaMA's 7B and 13B and GPT-3 have it.
    """
    width = 128 * (parameters / (12 * 128**2)) ** (1 / 3)
    step = 512 if width >= 1024 else 64
    width = max(step, round(width / step) * step)
    heads = width // (128 if width >= 4096 else 64)
    vocabulary = min(32000, max(64, parameters // (4 * width) // 64 * 64))
    one_block = llama(1, width, heads, vocabulary)
    return llama(
        max(1, round((parameters - one_block.embedding) / one_block.block)),
        width,
        heads,
        vocabulary,
    )
