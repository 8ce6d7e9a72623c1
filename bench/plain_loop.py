"""A plain PyTorch loop for one model, as a peer of the engine.

`nn.Module`, fused QKV, the library's attention, AdamW and clipping; the same data maker as the
engine, so that only the training is compared. Pad positions are carried through the batch. With a
prefix, which replaces them, all gradients are computed, as the published code does. Dropout is
where the published code has it. In bfloat16 the forward pass is under `torch.autocast`.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from adaptlab.engine.items.digits import target_rows
from adaptlab.engine.items.task_items import items_of_steps
from adaptlab.plugins.task import DigitTask

STEPS = range(10**9)  # more than any benchmark takes


class Block(nn.Module):
    """A block of pre-norm attention and MLP."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, prefix: Tensor | None = None) -> Tensor:
        """Apply the block to x [B, T, C]; a prefix [P, C] replaces first rows."""
        source = x
        if prefix is not None:
            rows = prefix.expand(len(x), -1, -1)
            source = torch.cat([rows, x[:, prefix.shape[0] :]], 1)
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.first_norm(source)).chunk(3, -1)
        )
        share = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=share, is_causal=True)
        x = x + functional.dropout(self.out(mixed.transpose(1, 2).flatten(-2)), share)
        hidden = functional.gelu(self.up(self.second_norm(x)), approximate="tanh")
        return x + functional.dropout(self.down(hidden), share)


class PlainModel(nn.Module):
    """A model: embeddings, blocks, norm and head."""

    def __init__(
        self,
        layers: int,
        heads: int,
        width: int,
        vocabulary: int,
        context: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor, prefixes: Tensor | None = None) -> Tensor:
        """Return logits [B, T, V] for tokens [B, T]; prefixes are [L, P, C]."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        x = functional.dropout(x, self.dropout, self.training)
        for index, block in enumerate(self.blocks):
            x = block(x, None if prefixes is None else prefixes[index])
        return self.head(self.norm(x))


class PlainLoop:
    """One model trained step by step."""

    def __init__(
        self,
        task: DigitTask,
        layers: int,
        heads: int,
        width: int,
        *,
        batch: int,
        prefix: int = 0,
        pads: int = 0,
        dropout: float = 0.0,
        bfloat16: bool = False,
        device: str = "cpu",
    ) -> None:
        self.task, self.batch, self.pads = task, batch, max(prefix, pads)
        context = task.sequence_length() + self.pads
        model = PlainModel(layers, heads, width, task.vocabulary(), context, dropout)
        self.model = model.to(device)
        drawn = torch.randn(layers, prefix, width, device=device)
        self.prefixes = nn.Parameter(drawn) if prefix else None
        trained = [self.prefixes] if self.prefixes is not None else list(self.model.parameters())
        self.optimiser = torch.optim.AdamW(trained, 1e-3, betas=(0.9, 0.95), weight_decay=0.1)
        self.trained, self.bfloat16, self.device = trained, bfloat16, device
        self.items = items_of_steps(
            task, torch.zeros(1, dtype=torch.int64, device=device), batch, STEPS
        )

    def step(self) -> None:
        """Take one step on fresh items."""
        items = next(self.items)
        pads = torch.zeros(self.batch, self.pads, dtype=torch.int64, device=self.device)
        tokens = torch.cat([pads, items.tokens[0]], 1)
        rows = target_rows(self.task)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bfloat16):
            logits = self.model(tokens, self.prefixes)[:, self.pads + rows.start :]
        flat = logits.float().flatten(0, 1)
        loss = functional.cross_entropy(flat, items.targets[0].flatten())
        self.optimiser.zero_grad()
        self.model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimiser.step()

    @torch.no_grad()
    def answer(self, questions: Tensor) -> Tensor:
        """Answer questions [B, N] greedily, without a cache; gives [B, M]."""
        self.model.eval()
        tokens = questions
        for _ in range(self.task.target_length()):
            tokens = torch.cat([tokens, self.model(tokens)[:, -1:].argmax(-1)], 1)
        return tokens[:, questions.shape[1] :]
