"""Learned positions in a pass of the library's model.

This module decides their order, their numbers, and who sees whom.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.tensors import Bool, Int
from adaptlab.families.transformers import Transformers


@dataclass(frozen=True)
class Positions:
    """The learned positions of a pass.

    They come before the content in the tensors.

    In order: rows of a suffix, tokens of a late prompt, rows of a prefix, tokens of a prompt.
    `keys` are learned directly and come before all of these in attention. `answer_start` is the
    content position that produces the first answer token, and `first` the row of the first content
    position in a table of positions.
    """

    suffix: int
    late: int
    rows: int
    prompt: int
    keys: int
    answer_start: int
    is_causal: bool = True
    first: int = 0

    @classmethod
    def of(cls, attached: Attachments, family: Transformers) -> "Positions":
        """Return the positions that a method adds."""

        def longest(rows: Iterable[Tensor]) -> int:
            return max((tensor.shape[1] for tensor in rows), default=0)

        return cls(
            suffix=longest(attached.suffixes.values()),
            late=longest(() if attached.late_prompt is None else (attached.late_prompt,)),
            rows=longest(attached.attention_inputs.values()),
            prompt=longest(() if attached.prompt is None else (attached.prompt,)),
            keys=longest(keys for keys, _ in attached.keys_values.values()),
            answer_start=attached.answer_start,
            is_causal=not family.is_encoder,
            first=family.first_position(),
        )

    @property
    def count(self) -> int:
        """The positions in the tensors before the content."""
        return self.suffix + self.late + self.rows + self.prompt

    @property
    def before(self) -> int:
        """The rotary position of the first content position."""
        return self.keys + self.rows + self.prompt

    def rotary(self, length: int, device: torch.device) -> Int[Tensor, "N"]:
        """Return the rotary positions of all, of which only distances count.

        Rows and virtual tokens stand right before the content; learned keys all stand at 0, where
        nothing is turned. A suffix and a late prompt end at the question's last token.
        """
        first = self.before
        end = first + self.answer_start + 1
        parts = [(end - self.suffix, end), (end - self.late, end), (self.keys, first + length)]
        return torch.cat([torch.arange(*part, device=device) for part in parts])

    def absolute(self, length: int, device: torch.device) -> Int[Tensor, "N"]:
        """Return the absolute positions of learned positions and content.

        Those of learned positions are not used.
        """
        return torch.arange(-self.count, length, device=device).clamp_min(0) + self.first

    def visible(self, length: int, device: torch.device) -> Bool[Tensor, "N N"]:
        """Return what every query position may see, causally within the content.

        Without a causal mask, virtual tokens also see all content and one another. Rows give keys
        and values only, so what they see does not matter.
        """
        size, before = self.count + length, self.count
        late, rows = self.suffix, self.suffix + self.late
        seen = torch.ones(size, size, dtype=torch.bool, device=device).tril()
        seen[:, :before] &= torch.eye(size, dtype=torch.bool, device=device)[:, :before]
        asked = torch.arange(length, device=device) < self.answer_start
        seen[before:, :rows] = ~asked.unsqueeze(1)
        seen[before:, rows:before] = True
        prompt = slice(rows + self.rows, before)
        seen[prompt, rows:before] = True
        seen[prompt, prompt] &= torch.ones_like(seen[prompt, prompt]).tril()
        seen[late:rows, late:rows] = torch.ones_like(seen[late:rows, late:rows]).tril()
        seen[late:rows, rows:before] = True
        seen[late:rows, before : before + self.answer_start + 1] = True
        if not self.is_causal:
            seen[prompt, rows:] = True
            seen[late:rows, late:] = True
        return seen
