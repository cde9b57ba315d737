"""The small models of the device check, made of the layers that fine-tuning uses, and their random weights.

None has a kink (ReLU, max pooling): a value that rounding carries over one changes a whole gradient, on a sound device
too. None has a weight whose true gradient is zero (a convolution's bias before a batch norm): all of it would be noise.
"""

import torch
from torch import nn
from torch.nn import functional

PADDING = 0
WIDTH = 64


class TinyTransformer(nn.Module):
    """Embeddings, transformer layers and a head over the vocabulary, as in BERT or GPT but small; no dropout.

    Args:
        causal: Whether a token sees only those before it.
        vocabulary: How many tokens there are; token 0 is padding.
        layers: How many layers.
        longest: The most tokens of a sequence.
    """

    def __init__(self, *, causal: bool, vocabulary: int = 500, layers: int = 2, longest: int = 64) -> None:
        super().__init__()
        self.causal = causal
        self.tokens = nn.Embedding(vocabulary, WIDTH, padding_idx=PADDING)
        self.positions = nn.Embedding(longest, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of shape (batch, length, vocabulary) for token numbers of shape (batch, length)."""
        length = tokens.shape[1]
        places = torch.arange(length, device=tokens.device)
        hidden = self.tokens(tokens) + self.positions(places)
        future = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
        hidden = self.layers(
            hidden, mask=future if self.causal else None, src_key_padding_mask=tokens == PADDING
        )
        return self.head(hidden)


class ResidualBlocks(nn.Module):
    """An embedding, two residual linear blocks and an output layer: the model of pytorch issue 177116."""

    def __init__(self, vocabulary: int = 96) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of shape (batch, length, vocabulary) for token numbers of shape (batch, length)."""
        hidden = self.tokens(tokens)
        hidden = hidden + functional.gelu(self.first(hidden))
        hidden = hidden + functional.gelu(self.second(hidden))
        return self.head(hidden)


def conv_net() -> nn.Sequential:
    """Two convolutions, each with a batch norm, and a classifier: (batch, 3, height, width) to (batch, 10)."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.GELU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def random_tokens(batch: int, length: int, vocabulary: int, *, padded: int = 0) -> torch.Tensor:
    """Token numbers of shape (batch, length), none of them padding but up to `padded` at each sequence's end."""
    tokens = torch.randint(PADDING + 1, vocabulary, (batch, length))
    if padded:
        ends = length - torch.arange(batch) % (padded + 1)
        tokens[torch.arange(length) >= ends.unsqueeze(1)] = PADDING
    return tokens


def token_loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of predicting each next token, padding left out; `model` gives logits."""
    logits = model(tokens)[:, :-1].flatten(0, 1)
    return functional.cross_entropy(logits, tokens[:, 1:].flatten(), ignore_index=PADDING)


def gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    """The gradient of each weight, by its name."""
    return {
        f"gradient of {name}": weight.grad
        for name, weight in model.named_parameters()
        if weight.grad is not None
    }
