"""Checks of theorems 1 and 2, on models built by formula."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from adaptlab.theory.capacity import completions_of_vectors
from adaptlab.theory.check import Check, TheoryReport
from adaptlab.theory.constructions.conditional import conditional, longer_answers
from adaptlab.theory.constructions.construction import (
    Construction,
    every_table,
    extreme_tables,
    mistakes,
    random_tables,
)
from adaptlab.theory.constructions.limits import (
    decoding_bound,
    first_decoding_failure,
    first_packing_failure,
    least_sharpness,
    packing_bound,
    sufficient_sharpness,
)
from adaptlab.theory.constructions.longer_questions import longer_questions
from adaptlab.theory.constructions.unconditional import unconditional
from adaptlab.theory.generation import distinct

Effort = Literal["small", "full"]
Case = tuple[str, Construction, Tensor]
DTYPES = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64}
MOST_PACKED = 16
MOST_DECODED = 4096


def theorems(effort: Effort = "full", seed: int = 0) -> TheoryReport:
    """Run every check of the constructions.

    The effort `small` takes seconds, `full` a minute on one core. `seed` draws the random tables.
    Everything is in float64, except for the limits of other precisions.
    """
    return TheoryReport(checks=tuple(theorem_checks(effort, seed)))


def theorem_checks(effort: Effort = "full", seed: int = 0) -> Iterator[Check]:
    """Yield the checks of the constructions, each measured on demand."""
    full = effort == "full"
    yield _sequences(full, seed)
    yield _maps(full, seed)
    yield _maps_at_any_temperature()
    yield _answers(full, seed)
    yield _questions(full, seed)
    yield _first_tokens()
    yield _sharpness()
    for name in DTYPES:
        yield _packing(name, maps=50 if full else 10)
    for name in ("float16", "float32") if full else ("float16",):
        yield _decoding(name)
    yield _decoding_in_float64(seed)


def _sequences(full: bool, seed: int) -> Check:
    built = [unconditional(4, 4), unconditional(3, 6)]
    cases = [_all(construction) for construction in built]
    if full:
        cases.append(_some(unconditional(94, 20), 200, seed))
    return _exact(
        "theorem-1-unconditional",
        "Theorem 1: one virtual token makes a fixed transformer complete any of V^N sequences.",
        cases,
    )


def _maps(full: bool, seed: int) -> Check:
    cases = [_all(conditional(vocabulary)) for vocabulary in (2, 3, 4, 5)]
    if full:
        cases.append(_some(conditional(94), 200, seed))
    return _exact(
        "theorem-2-conditional",
        "Theorem 2: one virtual token makes a fixed transformer any of V^V maps of a token.",
        cases,
    )


def _maps_at_any_temperature() -> Check:
    built = conditional(4)
    tables = every_table(built)
    cases = [
        (f"T={value:g}", built.with_inverse_temperature(value), tables) for value in (0, 0.5, 5)
    ]
    return _exact(
        "theorem-2-any-temperature",
        "Theorem 2's built is exact at any inverse temperature T, 0 included: what either "
        "head leaks the other makes good.",
        cases,
    )


def _answers(full: bool, seed: int) -> Check:
    cases = [_all(longer_answers(2, 3)), _all(longer_answers(3, 2))]
    if full:
        cases.append(_some(longer_answers(94, 10), 20, seed))
    return _exact(
        "longer-answers",
        "Appendix A, n_X = 1: n_Y virtual tokens make a fixed transformer any of V^(V n_Y) maps "
        "of a token to n_Y tokens.",
        cases,
    )


def _questions(full: bool, seed: int) -> Check:
    sizes, count = ((3, 6, 10), 200) if full else ((3, 6), 20)
    drawn = [_some(longer_questions(vocabulary), count, seed) for vocabulary in sizes]
    return _exact(
        "longer-questions",
        "Appendix A, n_X = 2: one virtual token makes a fixed transformer, which unpacks it by "
        "ReLU layers, any of V^(V²) maps of two tokens.",
        [_all(longer_questions(2)), *drawn],
    )


def _first_tokens() -> Check:
    """Check section 3 on theorem 1's model, with embedding zero."""
    construction = unconditional(4, 4)
    changed = {"reserved_positions": 0, "context": construction.positions}
    alone = replace(construction.base, family=construction.base.family.model_copy(update=changed))
    vectors = construction.prompt(every_table(construction))[:, 0, : construction.answer_length]
    soft = distinct(completions_of_vectors(alone, vectors, construction.positions))
    embedding = construction.base.weights["embed.weight"][0]
    hard = distinct(completions_of_vectors(alone, embedding, construction.positions))
    return Check.at_least(
        "soft-first-tokens-of-theorem-1",
        "Section 3: in theorem 1's model a soft first token has V^N completions and a hard one 1.",
        soft if hard == 1 else 0,
        construction.tables,
        soft=soft,
        hard=hard,
    )


def _sharpness() -> Check:
    """Check that the β needed does not exceed the β that suffices by formula."""
    sequences = least_sharpness(lambda value: unconditional(4, 4, value))
    pairs = least_sharpness(lambda value: longer_answers(3, 2, value))
    enough = sufficient_sharpness(4, 5), sufficient_sharpness(3, 4)
    return Check.at_most(
        "sufficient-sharpness",
        "Theorem 1 and longer answers need no more than e^β = (p−1)(4V−1) for β = T/√k.",
        max(sequences - enough[0], pairs - enough[1]),
        0.0,
        unconditional_v4_n4=(sequences, enough[0]),
        longer_answers_v3_n2=(pairs, enough[1]),
    )


def _packing(name: str, maps: int) -> Check:
    failure = first_packing_failure(DTYPES[name], maps, MOST_PACKED)
    bound = packing_bound(DTYPES[name])
    largest = MOST_PACKED if failure is None else failure - 1
    return Check.at_most(
        f"packing-in-{name}",
        f"Questions of two tokens in {name}: the largest exact V is the largest with "
        "V log₂ V ≤ p − 1, for p significant bits.",
        abs(largest - bound),
        0,
        largest_exact=largest,
        bound=bound,
        random_maps=maps,
    )


def _decoding(name: str) -> Check:
    """Search for a decoding failure above the proved bound."""
    bound = decoding_bound(DTYPES[name])
    failure = first_decoding_failure(DTYPES[name], bound, MOST_DECODED)
    largest = MOST_DECODED if failure is None else failure - 1
    return Check.at_least(
        f"decoding-in-{name}",
        f"The decoder in {name}: its margin 1/V² exceeds all rounding while 10.5 u V² < 1, for "
        "unit roundoff u.",
        largest,
        bound,
        largest_exact=largest,
        bound=bound,
    )


def _decoding_in_float64(seed: int) -> Check:
    """Check samples below the bound, too large for a search."""
    sizes = (10**4, 10**5, 10**6)
    wrong = 0
    for vocabulary in sizes:
        construction = unconditional(vocabulary, 1)
        tables = torch.cat([extreme_tables(construction), random_tables(construction, 8, seed)])
        wrong += mistakes(construction, tables)
    return Check.at_most(
        "decoding-in-float64",
        "The decoder in float64: its margin 1/V² exceeds all rounding while 10.5 u V² < 1, for "
        "unit roundoff u.",
        wrong,
        0,
        largest_tried=sizes[-1],
        bound=decoding_bound(torch.float64),
    )


def _all(construction: Construction) -> Case:
    return f"{_size(construction)} all", construction, every_table(construction)


def _some(construction: Construction, count: int, seed: int) -> Case:
    return f"{_size(construction)} random", construction, random_tables(construction, count, seed)


def _size(construction: Construction) -> str:
    asked = construction.questions.shape[1] if len(construction.questions) > 1 else 0
    return f"V={construction.vocabulary} n_X={asked} n_Y={construction.answer_length}"


def _exact(name: str, claim: str, cases: Iterable[Case]) -> Check:
    """Check that no completion is wrong; details count completions."""
    wrong, tried = 0, dict[str, int]()
    for label, construction, tables in cases:
        tried[label] = len(tables) * len(construction.questions)
        wrong += mistakes(construction, tables)
    return Check.at_most(name, claim, wrong, 0, completions=sum(tried.values()), **tried)
