"""How answers are decoded for a metric that reads them."""

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
    mean of its samples or, if `kept` is `best`, with its best one (of matches, this is pass@n). An
    answer ends before the first of the texts in `stop`, beside the token that ends a text.

    Source: Holtzman et al. (ICLR 2020), section 3.1, nucleus sampling.
    """

    temperature: Annotated[float, Field(ge=0, le=5)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    samples: Annotated[int, Field(ge=1, le=MOST_SAMPLES)] = 1
    kept: Literal["mean", "best"] = "mean"
    stop: Annotated[tuple[StopSequence, ...], Field(max_length=8)] = ()

    @property
    def is_sampled(self) -> bool:
        """True if tokens are drawn."""
        return self.temperature > 0

    def cut(self, text: str) -> str:
        """Return an answer without the first stop sequence and what follows."""
        return text[: min((at for at in map(text.find, self.stop) if at >= 0), default=None)]


GREEDY = AnswerDecoding()
