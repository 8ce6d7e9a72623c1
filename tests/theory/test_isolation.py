"""Isolated tokens: scores of a plain model, controls and verdicts."""

from collections.abc import Collection

import pytest
import torch
from scipy.stats import binomtest
from tests.engine.making import SMALL_OF_EACH
from tests.engine.plain import plain_logits
from torch import Tensor

from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.family import Family
from adaptlab.runs.theory_report import Check
from adaptlab.tasks.episodes import Episodes
from adaptlab.theory import demonstrated
from adaptlab.theory.asking import Asked, asked_episodes
from adaptlab.theory.checks import isolation
from adaptlab.theory.isolation import scores
from adaptlab.theory.observation import FrozenBase, random_base
from adaptlab.theory.over_replicates import difference_of_shares, mean_limits, share_limits
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.isolation import Isolation

TASK = Episodes(kinds=3)
KINDS = ("labels", "random", "separators", "after")


def a_base(family: Family | None = None, **changes: int) -> FrozenBase:
    size = {"layers": 4, "heads": 2, "width": 8} | changes
    family = family or MiniGPT.model_validate(size)
    return random_base(family.resolved(TASK.vocabulary(), TASK.sequence_length()), 3)


@pytest.mark.long("every combination", but=2)
@pytest.mark.parametrize("layers", [(0,), (1, 2), (3,)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_a_plain_model_whose_rows_see_only_themselves(
    kind: str, layers: tuple[int, ...]
):
    base, shown = a_base(), asked_episodes(TASK, 12, 0)
    given = scores(base, shown, shown.places[kind], layers)
    weights = {name: tensor[0] for name, tensor in base.weights.items()}
    assert isinstance(base.family, MiniGPT)
    for item in range(12):
        rows = shown.places[kind][item].tolist()
        logits = plain_logits(
            base.family,
            weights,
            shown.tokens[item].tolist(),
            isolated=dict.fromkeys(layers, rows),
        )
        labels = logits[-1, TASK.first_label : TASK.separator]
        torch.testing.assert_close(given[item], labels, rtol=1e-9, atol=1e-12)
    plain = scores(base, shown)
    assert torch.allclose(given, plain) == (layers == (3,)), (
        "nothing reads the last layer's outputs"
    )


@pytest.mark.parametrize("name", ["minigpt", "gpt2", "llama"])
def test_the_first_token_is_always_isolated(name: str):
    base, shown = a_base(SMALL_OF_EACH[name]), asked_episodes(TASK, 100, 0)
    layers = range(base.family.shape().layers)
    plain = scores(base, shown)
    first = torch.zeros(100, 1, dtype=torch.int64)
    alone = scores(base, shown, first, layers)
    torch.testing.assert_close(alone, plain, rtol=1e-9, atol=1e-12)
    labels = scores(base, shown, shown.places["labels"], layers)
    assert not torch.allclose(labels, plain)


def test_controls_are_as_many_tokens_of_their_kind():
    shown = asked_episodes(TASK, 300, 0)
    tokens = {kind: shown.tokens.gather(1, at) for kind, at in shown.places.items()}
    assert {at.shape for at in shown.places.values()} == {(300, 4)}
    labels, words = tokens["labels"], tokens["random"]
    assert bool(((labels >= TASK.first_label) & (labels < TASK.separator)).all())
    assert bool((words < TASK.first_label).all())
    assert all(len(set(row)) == 4 for row in shown.places["random"].tolist())
    assert bool((tokens["separators"] == TASK.separator).all())
    assert bool((tokens["after"] == TASK.line_break).all())
    assert int(shown.places["random"].max()) < 20, "words of demonstrations, not of the query"
    other = asked_episodes(TASK, 300, 1).places["random"]
    assert not torch.equal(other, shown.places["random"])


def test_limits_of_shares_hold_for_all_replicates_together():
    # Clopper and Pearson (1934), by scipy, which does not use this project's quantiles
    (alone,) = share_limits([9], 10)
    exact = binomtest(9, 10).proportion_ci(0.95)
    assert alone == (pytest.approx(exact.low), pytest.approx(exact.high))
    pair = share_limits([9, 10], 10)
    wider = [binomtest(count, 10).proportion_ci(0.975) for count in (9, 10)]
    assert pair == tuple((pytest.approx(one.low), pytest.approx(one.high)) for one in wider)


def test_limits_of_a_mean_are_over_items_and_replicates():
    # Differences 1, 1, 0, −1: mean 1/4, variance 11/12, and a reach of 1.96 √(11/48)
    reach = 1.959964 * (11 / 48) ** 0.5
    low, high = mean_limits(torch.tensor([[1, 1, 0, -1]]))
    assert (low, high) == (pytest.approx(0.25 - reach), pytest.approx(0.25 + reach))
    # Items alike, replicates at 0, 1/4 and 1/2: the t-test, with t = 4.3027 and s = 1/4
    low, high = mean_limits(torch.tensor([0.0, 0.25, 0.5]).unsqueeze(1).expand(3, 8))
    reach = 4.3026527 * 0.25 / 3**0.5
    assert (low, high) == (pytest.approx(0.25 - reach), pytest.approx(0.25 + reach))


def test_a_difference_of_shares_is_wider_if_replicates_disagree():
    none = torch.zeros(4, 100, dtype=torch.bool)
    half = torch.arange(100).expand(4, 100) < 50
    one = torch.arange(100) < torch.tensor([200, 0, 0, 0]).unsqueeze(1)
    alike, apart = difference_of_shares(half, none), difference_of_shares(one, none)
    assert (alike.difference, apart.difference) == (0.5, 0.25)
    assert alike.low > 0.3
    assert apart.low < 0, "one replicate of four decides nothing"


def measured(
    monkeypatch: pytest.MonkeyPatch,
    wrong: dict[str, float],
    *,
    layers: int = 2,
    replicates: int = 1,
    last: dict[str, float] | None = None,
) -> dict[str, Check]:
    """Return the reports of a base that answers a share of items wrongly.

    `wrong` has the share for `random` and `permuted` labels, and isolated kinds with `first` or
    `last`. `last` are other shares of the last replicate.
    """
    bases = tuple(a_base() for _ in range(replicates))
    check = Isolation(task=TASK, layers=layers, samples=100)
    shown = asked_episodes(TASK, 100, 0)
    places = {id(at): kind for kind, at in shown.places.items()}

    def answered(
        base: FrozenBase, given: Asked, at: Tensor | None = None, some: Collection[int] = ()
    ) -> Tensor:
        kind = "random" if given is shown else "permuted"
        if at is not None:
            kind = f"{places[id(at)]}-{'first' if 0 in some else 'last'}"
        answers = given.right.clone()
        own = {**wrong, **(last or {})} if base is bases[-1] else wrong
        answers[: round(100 * own.get(kind, 0.0))] += 1
        return answers

    for module in (isolation, demonstrated):
        monkeypatch.setattr(module, "answers", answered)
    permuted = asked_episodes(TASK, 100, 0, permuted=True)
    monkeypatch.setattr(demonstrated, "asked", lambda *_, **given: permuted if given else shown)
    subject = Subject(replicates=bases, seed=0)
    return {report.name: report for report in isolation.measure(check, subject)}


def test_nothing_is_claimed_of_a_base_at_chance(monkeypatch: pytest.MonkeyPatch):
    told = measured(monkeypatch, {"random": 0.45, "permuted": 0.5, "labels-first": 0.9})
    assert told.keys() == {"isolation.above-chance", "isolation.permuted"}
    assert told["isolation.above-chance"].verdict == "fails"
    told = measured(monkeypatch, {"random": 0.05, "permuted": 0.1, "labels-first": 0.9})
    assert told["isolation.above-chance"].verdict == "holds"
    assert told["isolation.permuted"].verdict == "fails"
    assert len(told) == 2


def test_each_control_has_a_verdict_of_its_own(monkeypatch: pytest.MonkeyPatch):
    shares = {"permuted": 0.5, "labels-first": 0.4, "after-first": 0.35, "separators-first": 0.1}
    told = measured(monkeypatch, shares)
    verdicts = {name.removeprefix("isolation."): one.verdict for name, one in told.items()}
    assert verdicts == {
        "above-chance": "holds",
        "permuted": "holds",
        "first-layers.random": "holds",
        "first-layers.separators": "holds",
        "first-layers.after": "fails",  # 5 of 100 items more may be chance
        "last-layers": "holds",
    }
    details = told["isolation.first-layers.after"].details
    assert details["loyalty_first_labels"] == details["accuracy_first_labels"] == (0.6,)
    assert details["loyalty_first_after"] == (0.65,)
    assert "isolation.last-layers" not in measured(monkeypatch, shares, layers=1)


def test_nothing_is_claimed_if_one_replicate_of_many_is_at_chance(
    monkeypatch: pytest.MonkeyPatch,
):
    shares = {"permuted": 0.5, "labels-first": 0.4}
    told = measured(monkeypatch, shares, replicates=5, last={"random": 0.5})
    assert told.keys() == {"isolation.above-chance", "isolation.permuted"}
    assert {one.verdict for one in told.values()} == {"fails"}
    details = told["isolation.above-chance"].details
    assert details["accuracy"] == (1.0, 1.0, 1.0, 1.0, 0.5)
    assert details["replicates"] == 5


def test_one_replicate_of_three_decides_no_order(monkeypatch: pytest.MonkeyPatch):
    shares = {"permuted": 0.5, "labels-first": 0.4}
    told = measured(monkeypatch, shares, replicates=3)
    report = told["isolation.first-layers.random"]
    assert report.verdict == "holds"
    assert report.details["loyalty_first_labels"] == (0.6, 0.6, 0.6)
    only = measured(monkeypatch, {"permuted": 0.5}, replicates=3, last={"labels-first": 0.4})
    report = only["isolation.first-layers.random"]
    assert report.verdict == "fails"
    low, high = report.details["low"], report.details["high"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert low <= 0 < high, "undecided, not the opposite"


@pytest.mark.long("every combination", but=2)
@pytest.mark.parametrize(
    ("family", "options", "fault"),
    [
        (MiniGPT(layers=2, attention="none"), {}, ("/base_model", "no_decoder")),
        (MiniGPT(layers=2, attention="bidirectional"), {}, ("/base_model", "no_decoder")),
        (MiniGPT(layers=2), {"task": Episodes()}, ("/check/task", "other_task")),
        (MiniGPT(layers=3), {"layers": 2}, ("/check/layers", "layers_overlap")),
        (MiniGPT(layers=2), {"task": TASK.model_copy(update={"labels": "permuted"})},
         ("/check/task", "no_random_labels")),
        (MiniGPT(layers=2), {"task": Episodes(ways=9)}, ("/check/task/ways", "too_many_ways")),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_what_cannot_be_isolated_is_refused(
    family: Family, options: dict[str, object], fault: tuple[str, str]
):
    resolved = family.resolved(TASK.vocabulary(), TASK.sequence_length())
    check = Isolation.model_validate({"task": TASK, **options})
    assert [(p.pointer, p.code) for p in check.problems(resolved)] == [fault]
