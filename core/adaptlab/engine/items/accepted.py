"""Items of which several answers can be right."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from adaptlab.engine.items.items import Answer, Items
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.tensors import Bool, Float, Int


@dataclass(frozen=True)
class AcceptedItems(Items):
    """Items with the first of their right answers, for one seed.

    Attributes:
        others: the prompts of items with each of their further right answers.
        owners: the item of each further answer.
    """

    others: Items | None = None
    owners: Int[Tensor, "Q"] | None = None

    def on(self, device: torch.device) -> "AcceptedItems":
        """Return the items on a device."""

        def there(tensor: Tensor) -> Tensor:
            return tensor.to(device)

        assert self.others is not None
        assert self.owners is not None
        return replace(self.each(there), others=self.others.each(there), owners=there(self.owners))

    def right(
        self, logits: Float[Tensor, "A B M V"], answer: Answer | None = None
    ) -> Bool[Tensor, "A B"]:
        """Return a mask of the items that get any of their right answers.

        The first token follows the prompt alone, so only answers that begin with it are read.
        """
        right = super().right(logits)
        if self.others is None or right.all():
            return right
        assert self.owners is not None
        assert answer is not None
        begins = logits[:, :, 0].argmax(-1)[:, self.owners] == self.others.targets[0, :, 0]
        possible = (begins & ~right[:, self.owners]).any(0).nonzero().squeeze(-1)
        found = torch.zeros_like(right, dtype=torch.int64)
        for some in possible.split(right.shape[1]):
            read = self.others.each(lambda tensor, some=some: tensor[:, some])
            one = lifted(read.right(answer(read)), len(right))
            found.index_add_(1, self.owners[some], one.to(found.dtype))
        return right | (found > 0)
