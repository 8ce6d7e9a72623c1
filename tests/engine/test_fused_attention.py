"""Attention by kernels, against torch in float64."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from tests.engine.kernel_results import drawn, near
from torch import Tensor

from adaptlab.engine.kernels import fused_attention as fused
from adaptlab.engine.kernels import grouped
from adaptlab.engine.kernels.dropout_masks import Masks
from adaptlab.engine.kernels.fused_attention import QueryPlace, fused_attention

pytestmark = pytest.mark.usefixtures("products")


@dataclass(frozen=True)
class Case:
    """Sizes, and which replicates share queries, keys and values of content."""

    replicates: int
    items: int
    heads: int
    rows: int
    positions: int
    width: int
    learned: int = 0
    of_content: int | None = None
    of_queries: int | None = None
    of_tokens: int | None = None
    vocabulary: int | None = None
    dropout: float = 0.0

    @property
    def tokens(self) -> Tensor | None:
        """Tokens [R, B, N] of items, if what is read depends on them only."""
        if self.vocabulary is None:
            return None
        shape = (self.of_tokens or self.replicates, self.items, self.positions)
        (numbers,) = drawn(shape, dtype=torch.float32)
        return (numbers * 100).long() % self.vocabulary

    @property
    def place(self) -> QueryPlace:
        """The last rows of the positions."""
        masks, first = None, self.positions - self.rows
        if self.dropout:
            step, seeds = torch.tensor(5), torch.arange(self.replicates) * 3 - 1
            rows = slice(first, None)
            masks = Masks(self.dropout, 2**60 + 1, step, seeds, 7, self.positions, rows)
        return QueryPlace(self.tokens, first, masks)

    def given(self) -> list[Tensor]:
        """Queries, keys, values, and the learned keys and values."""
        content, items = self.of_content or self.replicates, self.vocabulary or self.items
        queries = self.of_queries or content
        by_position = (
            (queries, items, self.rows, self.heads, self.width),
            (content, items, self.positions, self.heads, self.width),
            (content, items, self.positions, self.heads, self.width),
        )
        of_learned = (self.replicates, 1, self.heads, self.learned, self.width)
        tensors = drawn(*by_position, *[of_learned] * 2, dtype=torch.float32)
        own = [tensor.transpose(2, 3) for tensor in tensors[:3]]
        own[0] = own[0] * self.width**-0.5
        return [*own, *tensors[3:]] if self.learned else own


CASES = {
    "one head": Case(2, 70, 1, 10, 19, 96),
    "every row": Case(3, 5, 4, 19, 19, 24),
    "pads": Case(2, 64, 1, 10, 19, 32, learned=1),
    "several learned positions": Case(2, 33, 2, 3, 40, 17, learned=5),
    "replicates that share content": Case(6, 9, 2, 4, 11, 8, learned=3, of_content=2),
    "replicates with queries of their own": Case(
        6, 9, 2, 4, 11, 8, learned=3, of_content=2, of_queries=6
    ),
    "queries that other replicates share than keys": Case(
        6, 9, 2, 4, 11, 8, learned=3, of_content=3, of_queries=2
    ),
    "tokens": Case(2, 150, 2, 5, 9, 12, vocabulary=5),
    "tokens and learned positions": Case(2, 150, 1, 5, 9, 12, learned=2, vocabulary=4),
    "tokens of several replicates": Case(
        6, 70, 1, 5, 9, 8, learned=2, of_content=2, of_tokens=3, vocabulary=4
    ),
    "tokens of more replicates than weights": Case(
        6, 70, 1, 5, 9, 8, learned=2, of_content=1, vocabulary=4
    ),
    "dropout": Case(3, 130, 2, 4, 12, 16, learned=1, dropout=0.3),
    "one row": Case(1, 40, 1, 1, 33, 40),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def looked_up(table: Tensor, tokens: Tensor) -> Tensor:
    return grouped.chosen(table.transpose(2, 3), tokens).transpose(2, 3)


def plain(case: Case, given: Sequence[Tensor]) -> Tensor:
    """Attention by torch, in the precision of what is given."""
    queries, keys, values = given[:3]
    place, tokens = case.place, case.tokens
    if tokens is not None:
        tokens = grouped.lifted(tokens, case.replicates)
        tables = [grouped.lifted(each, case.replicates) for each in (queries, keys, values)]
        queries = looked_up(tables[0], tokens[..., place.first_row :])
        keys, values = looked_up(tables[1], tokens), looked_up(tables[2], tokens)
    every = [grouped.lifted(each, case.replicates) for each in (queries, keys, values)]
    queries, keys, values = every
    scores = queries @ keys.transpose(-1, -2)
    ahead = torch.ones(case.positions, case.positions).triu(1)[place.first_row :] > 0
    scores = scores.masked_fill(ahead, -torch.inf)
    if case.learned:
        learned = [each.expand(-1, case.items, -1, -1, -1) for each in given[3:]]
        scores = torch.cat([queries @ learned[0].transpose(-1, -2), scores], -1)
        values = torch.cat([learned[1], values], -2)
    pattern = scores.softmax(-1)
    if place.masks is not None:
        pattern = place.masks.applied(pattern)
    return (pattern @ values).transpose(2, 3).flatten(-2)


def computed(case: Case, given: Sequence[Tensor]) -> Tensor:
    queries, keys, values, *learned = given
    both = (learned[0], learned[1]) if learned else None
    attended = fused_attention(queries, (keys, values), both, case.place)
    assert attended is not None
    return attended


def trained(case: Case, given: Sequence[Tensor]) -> list[Tensor]:
    """Return those of what is given that no replicates share."""
    return [each for each in given if len(each) == case.replicates]


def asking(case: Case, given: Sequence[Tensor]) -> list[Tensor]:
    return [each.clone().requires_grad_(len(each) == case.replicates) for each in given]


@each_case
def test_results_and_gradients_are_those_of_torch(case: Case):
    given = case.given()
    exact = asking(case, [each.double() for each in given])
    expected = plain(case, exact)
    (incoming,) = drawn(tuple(expected.shape), dtype=torch.float32)
    slopes = torch.autograd.grad(expected, trained(case, exact), incoming.double())
    own = asking(case, given)
    found = computed(case, own)
    assert near(found, expected.detach(), 4)
    ours = torch.autograd.grad(found, trained(case, own), incoming)
    assert len(ours) == len(slopes) > 0
    for one, right in zip(ours, slopes, strict=True):
        assert near(one, right, 16)


@each_case
def test_nothing_depends_on_the_threads(case: Case):
    results: list[list[Tensor]] = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        own = asking(case, case.given())
        found = computed(case, own)
        slopes = torch.autograd.grad(found.sin().sum(), trained(case, own))
        results.append([found, *slopes])
    torch.set_num_threads(1)
    for others in results[1:]:
        assert all(map(torch.equal, results[0], others))


@each_case
def test_one_gradient_alone_is_the_same(case: Case):
    own = asking(case, case.given())
    found = computed(case, own)
    together = torch.autograd.grad(found.sin().sum(), trained(case, own))
    places = [place for place, each in enumerate(own) if each.requires_grad]
    for place, expected in zip(places, together, strict=True):
        alone = [each.clone() for each in case.given()]
        alone[place].requires_grad_()
        (slope,) = torch.autograd.grad(computed(case, alone).sin().sum(), alone[place])
        assert torch.equal(slope, expected)
    with torch.no_grad():
        assert torch.equal(computed(case, own), found)


@each_case
def test_heads_may_be_apart(case: Case):
    given = case.given()
    apart = [each.contiguous() for each in given]
    assert case.heads == 1 or apart[1].stride() != given[1].stride()
    assert torch.equal(computed(case, apart), computed(case, given))
    found, expected = (
        torch.autograd.grad(computed(case, own).sin().sum(), trained(case, own))
        for own in (asking(case, apart), asking(case, given))
    )
    assert all(map(torch.equal, found, expected))


def test_what_is_no_number_stays_in_its_item():
    case = Case(2, 9, 1, 4, 6, 8)
    given = case.given()
    given[1][1, 3, 0, 5] = torch.nan  # the last key, which only the last row sees
    seen = computed(case, given).isnan().any(-1)
    assert seen.nonzero().tolist() == [[1, 3, 3]]


def test_far_scores_have_no_share():
    case = Case(1, 1, 1, 1, 3, 8)
    queries, keys, values = case.given()
    keys[..., 1, :] = queries[..., 0, :] * 1e4
    found = computed(case, [queries, keys, values])
    assert torch.equal(found.view(-1), values[..., 1, :].view(-1))


@pytest.mark.parametrize(
    "case",
    [
        Case(1, 2, 1, 4, fused.LONGEST + 1, 8),
        Case(4, 3, 2, 4, 6, 8, of_content=3),
    ],
    ids=["many keys", "replicates that do not share evenly"],
)
def test_what_the_kernel_is_not_made_for_is_left_to_torch(case: Case):
    queries, keys, values = case.given()
    more = torch.zeros(case.replicates, *queries.shape[1:])
    assert fused_attention(more, (keys, values), None, case.place) is None


@pytest.mark.parametrize("token", [-1, 5])
def test_tokens_that_no_table_has_are_left_to_torch(token: int):
    case = CASES["tokens"]
    queries, keys, values = case.given()
    tokens = case.place.tokens
    assert tokens is not None
    tokens[1, 0, 2] = token
    place = QueryPlace(tokens, case.place.first_row, None)
    assert fused_attention(queries, (keys, values), None, place) is None


def test_gradients_of_what_replicates_share_are_left_to_torch():
    case = CASES["replicates that share content"]
    queries, keys, values, *learned = case.given()
    both = (learned[0], learned[1])
    assert fused_attention(queries, (keys.requires_grad_(), values), both, case.place) is None
    with torch.no_grad():
        assert fused_attention(queries, (keys, values), both, case.place) is not None


def test_heads_that_share_keys_and_learned_keys_of_items_are_left_to_torch():
    queries, keys, values = Case(1, 3, 4, 4, 6, 8).given()
    place = Case(1, 3, 4, 4, 6, 8).place
    assert fused_attention(queries, (keys[:, :, :2], values[:, :, :2]), None, place) is None
    of_items = (torch.zeros(1, 3, 4, 2, 8), torch.zeros(1, 3, 4, 2, 8))
    assert fused_attention(queries, (keys, values), of_items, place) is None
    doubles = [each.double() for each in (queries, keys, values)]
    assert fused_attention(doubles[0], (doubles[1], doubles[2]), None, place) is None
