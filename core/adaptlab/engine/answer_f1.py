"""Token F1 of answers by greedy decoding."""

from collections.abc import Sequence

import torch
from torch import Tensor

from adaptlab.engine.answering import decoded
from adaptlab.engine.evaluate import scored_parts
from adaptlab.engine.item_texts import ItemTexts, expected_tokens, item_texts, without_end
from adaptlab.engine.items import Items
from adaptlab.engine.model import Model
from adaptlab.engine.tensors import Bool
from adaptlab.measurements.results import Split
from adaptlab.plugins.task import Task
from adaptlab.text.token_f1 import answer_words, mean_token_f1, token_f1


@torch.no_grad()
def token_f1s(
    model: Model, task: Task, split: Split, right: Bool[Tensor, "R N"], *, attached: bool = True
) -> list[float]:
    """Return the mean token F1 of the first N items of a split, by replicate.

    `right` are the items that scoring found correct. Their F1 is 1, so only items that some
    replicate gets wrong are decoded. Without `attached`, the base model answers alone.
    """
    texts, right = item_texts(task, split), right.cpu()
    replicates, samples = right.shape
    scores = right.double().tolist()

    def answer(items: Items) -> Tensor:
        return model.answers(items, task=task, attached=attached)

    for places, items in scored_parts(model, task, split, samples, replicates):
        wrong = (~right[:, places]).any(0).nonzero().flatten()
        if not len(wrong):
            continue
        asked = items.each(lambda tensor, some=wrong: tensor[:, some.to(tensor.device)])
        given = decoded(texts, places[wrong], asked, answer)
        for column, place in enumerate(places[wrong].tolist()):
            expected = without_end(expected_tokens(asked, column), texts.end)
            answers = [row[column] for row in given]
            for replicate, score in enumerate(_scores(texts, answers, expected, replicates)):
                if not right[replicate, place]:
                    scores[replicate][place] = score
    return [mean_token_f1(row) for row in scores]


def _scores(
    texts: ItemTexts, answers: Sequence[list[int]], expected: Sequence[int], replicates: int
) -> list[float]:
    """Return the F1 of one item's answers, by replicate.

    Replicates whose answers cannot differ share one, as in `lifted`.
    """
    words = answer_words(texts.written(expected))
    found = [token_f1(answer_words(texts.written(tokens)), words) for tokens in answers]
    return [found[replicate * len(found) // replicates] for replicate in range(replicates)]
