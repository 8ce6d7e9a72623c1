"""Factors on attention from answers to label words of demonstrations."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.tensors import Float, Int


@dataclass(frozen=True)
class LabelWords:
    """The label words before items, and the rows that answer.

    Attributes:
        labels: the number of the demonstration to whose label a token belongs, −1 if to none.
        answering: the rows of each item that predict its answer.
    """

    labels: Int[Tensor, "R P"]
    answering: Int[Tensor, "R B M"]

    def factors(
        self, scales: Float[Tensor, "R H K"], length: int, rows: slice
    ) -> Float[Tensor, "R B H Q {length}"]:
        """Return the factors on the attention of some rows to all tokens.

        A row that answers has exp(`scales`) for the labels of the K demonstrations. All else is 1.
        """
        none = torch.zeros_like(scales[..., :1])
        of_token = self.labels[:, None].expand(-1, scales.shape[1], -1)
        exponents = torch.cat([none, scales], -1).gather(-1, of_token + 1)  # R, H, P
        exponents = functional.pad(exponents, (0, length - exponents.shape[-1]))
        answers = scales.new_zeros(*self.answering.shape[:2], length)
        answers = answers.scatter(-1, self.answering, 1)[..., rows]  # R, B, Q
        answers = lifted(answers, len(scales))
        return (answers[:, :, None, :, None] * exponents[:, None, :, None]).exp()
