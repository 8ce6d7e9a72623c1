"""How answers are decoded for a metric that reads them."""

from math import comb
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from adaptlab.values import Value

MOST_SAMPLES = 64

StopSequence = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class AnswerDecoding(Value):
    """How answers are decoded for a metric that reads them.

    With `temperature: 0`, the likeliest token is next. Otherwise each token is drawn from the
    likeliest ones that together have the probability `top_p`, at this temperature. A draw depends
    on the seed, the item, the sample and the position, and on nothing else.

    `samples` answers are drawn to every item. They are nested in it: an item counts once, with the
    mean of its samples or, if `kept` is `best`, with the best of `best_of` of them, in the mean
    over all choices of so many; by default of all. Of matches, this is pass@k, without bias. An
    answer ends before the first of the texts in `stop`, beside the token that ends a text.

    Sources: Holtzman et al. (ICLR 2020), section 3.1, nucleus sampling; Chen et al. (arXiv
    2107.03374), equation 1, pass@k.
    """

    temperature: Annotated[float, Field(ge=0, le=5)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    samples: Annotated[int, Field(ge=1, le=MOST_SAMPLES)] = 1
    kept: Literal["mean", "best"] = "mean"
    best_of: Annotated[int, Field(ge=1, le=MOST_SAMPLES)] | None = Field(
        default=None,
        exclude_if=lambda count: count is None,  # older jobs keep their digests
    )
    stop: Annotated[tuple[StopSequence, ...], Field(max_length=8)] = ()

    @property
    def is_sampled(self) -> bool:
        """True if tokens are drawn."""
        return self.temperature > 0

    def weights(self) -> tuple[float, ...]:
        """Return the weights of an item's samples, the best one first.

        They are the chances that a sample is the best of `best_of` drawn without replacement from
        all n: C(n - place, k - 1) / C(n, k), with places from 1. For 0 and 1, c of n right, the
        weighted mean is pass@k = 1 - C(n - c, k) / C(n, k).
        """
        if self.kept == "mean":
            return (1 / self.samples,) * self.samples
        number, chosen = self.samples, self.best_of or self.samples
        every = comb(number, chosen)
        return tuple(comb(place, chosen - 1) / every for place in reversed(range(number)))

    def cut(self, text: str) -> str:
        """Return an answer without the first stop sequence and what follows."""
        return text[: min((at for at in map(text.find, self.stop) if at >= 0), default=None)]


GREEDY = AnswerDecoding()
