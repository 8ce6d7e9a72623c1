"""Texts that are read in several windows, whose likelihoods add up."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from adaptlab.engine.items.items import Answer, Items
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.tensors import Bool, Float, Int


@dataclass(frozen=True)
class PassageItems(Items):
    """The first windows of texts with all further ones, for one seed.

    Attributes:
        windows: the further windows of all items, in passes.
        owners: the item of each further window.
    """

    windows: tuple[Items, ...] = ()
    owners: Int[Tensor, "Q"] | None = None

    def on(self, device: torch.device) -> "PassageItems":
        """Return the items on a device."""

        def there(tensor: Tensor) -> Tensor:
            return tensor.to(device)

        assert self.owners is not None
        windows = tuple(one.each(there) for one in self.windows)
        return replace(self.each(there), windows=windows, owners=there(self.owners))

    def right(
        self, logits: Float[Tensor, "A B M V"], answer: Answer | None = None
    ) -> Bool[Tensor, "A B"]:
        """Return a mask of the texts that greedy decoding gives in every window."""
        right = super().right(logits)
        if not self.windows or not right.any():
            return right
        assert answer is not None
        wrong = self._summed([(~one.right(answer(one))).double() for one in self.windows])
        return right & (wrong == 0)

    def item_losses(self, logits: Float[Tensor, "A B M V"], answer: Answer) -> Float[Tensor, "A B"]:
        """Return the cross-entropy of each text over all windows."""
        losses = super().item_losses(logits, answer)
        if not self.windows:
            return losses
        return losses + self._summed([one.item_losses(answer(one), answer) for one in self.windows])

    def counted_tokens(self) -> Int[Tensor, "B"]:
        """Return the tokens of each text, those of all windows."""
        counted = super().counted_tokens()
        if not self.windows:
            return counted
        each = [one.counted_tokens().double().unsqueeze(0) for one in self.windows]
        return counted + self._summed(each)[0].to(counted.dtype)

    def _summed(self, each: list[Float[Tensor, "A Q2"]]) -> Float[Tensor, "A B"]:
        """Return the sums of the windows' values by item."""
        assert self.owners is not None
        rows = max(map(len, each))
        values = torch.cat([lifted(one, rows) for one in each], -1)
        sums = values.new_zeros(rows, self.tokens.shape[1])
        return sums.index_add(1, self.owners, values)
