"""Recommendations over HTTP, from results with scores set by hand."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ENOUGH_BASES, ITEMS, Run, a_measured_job, run_all
from tests.making import (
    BASE,
    a_base_model,
    a_member,
    a_pretrain_spec,
    a_resolved_spec,
    a_token,
    a_user,
)
from tests.watching import nobody_works, of_jobs, statements

from adaptlab.specs.spec import ResolvedSpec
from adaptlab_services.limits.sizes import Sizes, bounded
from adaptlab_services.recommendations import recommendation_evidence
from adaptlab_services.recommendations.recommendation_views import RecommendationQuestion
from adaptlab_services.recommendations.recommendations import recommend
from adaptlab_services.studies.studies import Rules

Sessions = sessionmaker[Session]
PLACE = "/v1/recommendations"
TASK = {"name": "sort_descending", "length": 3, "alphabet": 4}
METHODS = ["frozen", "lora", "prefix_tuning"]
LEAST = 0.025 ** (1 / ITEMS)
"""The lower limit of Clopper and Pearson for items that are all right: a closed form."""

Document = dict[str, Any]


@pytest.fixture
def base(sessions: Sessions) -> None:
    """A base model of which every seed has a replicate of its own."""
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)


@pytest.fixture
def api(api: TestClient, base: None) -> TestClient:
    """Somebody with a token of every scope, who has that base model."""
    return api


def a_question(**changes: Any) -> Document:
    return {"task": TASK, "base_model": BASE, "budget": 64, "methods": METHODS} | changes


def ask(api: TestClient, **changes: Any) -> Document:
    answer = api.post(PLACE, json=a_question(**changes))
    assert answer.status_code == 200, answer.text
    return answer.json()


def submit(api: TestClient, spec: Document) -> str:
    answer = api.post("/v1/jobs", json=spec)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def measured(
    api: TestClient, sessions: Sessions, runs: dict[str, Run], **changes: Any
) -> dict[str, str]:
    """The ids of jobs of these methods at the budget 64, measured as said."""
    made = {name: submit(api, a_job_of(name, **changes)) for name in runs}
    run_all(sessions, by_method(runs))
    return made


def a_job_of(method: str, **changes: Any) -> Document:
    alone = {"budget": {}, "tuning": {}} if method == "frozen" else {"budget": 64}
    return a_measured_job(**({"method": method} | alone | changes))


def by_method(runs: dict[str, Run]) -> Callable[[ResolvedSpec], Run]:
    return lambda spec: runs[str((spec.method or {})["name"])]


def kinds(found: Document) -> set[str]:
    return {one["kind"] for one in found["thin_evidence"]}


CLEAR = {"frozen": Run(), "lora": Run(right=400), "prefix_tuning": Run(right=100)}


@pytest.fixture(scope="module")
def clear_jobs(shared_api: TestClient, shared_sessions: Sessions) -> dict[str, str]:
    """The ids of jobs by method, of which one method is best on every item."""
    with shared_sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
    return measured(shared_api, shared_sessions, CLEAR, seeds=5)


@pytest.fixture(scope="module")
def clear(shared_api: TestClient, clear_jobs: dict[str, str]) -> Document:
    """What is recommended from them."""
    return ask(shared_api)


def test_the_best_method_is_recommended(clear: Document, clear_jobs: dict[str, str]) -> None:
    best = clear["recommended"]
    assert (best["method"]["name"], best["jobs"]) == ("lora", [clear_jobs["lora"]])
    assert best["method"]["rank"] >= 1
    assert (best["score"]["mean"], best["score"]["high"], best["score"]["level"]) == (1, 1, 0.95)
    assert best["score"]["low"] == pytest.approx(LEAST, abs=1e-6)
    assert "LoRA at 64, which scored 100.0 %" in clear["text"]


def test_a_recommendation_says_what_the_method_costs(clear: Document) -> None:
    best = clear["recommended"]
    # 64 numbers in float32, and no token is added.
    budget = best["budget"]
    assert (budget["trainable_parameters"], budget["stored_bytes"]) == (64, 256)
    assert budget["extra_context_tokens"] == 0
    assert (best["seeds"], best["trials"], len(best["learning_rates"])) == ([0, 1, 2, 3, 4], 3, 3)
    assert best["seconds"] >= 0
    # A learned position is a row of width 8 in the one layer: 64 numbers are eight of them.
    assert clear["runner_up"]["budget"]["extra_context_tokens"] == 8


def test_the_best_method_is_compared_with_the_runner_up(clear: Document) -> None:
    second = clear["runner_up"]
    assert (second["method"]["name"], second["score"]["mean"]) == ("prefix_tuning", 0.25)
    assert clear["verdict"]["finding"] == "better"
    assert clear["verdict"]["pair"]["difference"] == pytest.approx(0.75)
    assert [one["label"] for one in clear["measured"]] == [
        "lora at 64", "prefix_tuning at 64", "frozen",
    ]  # fmt: skip


def test_the_score_is_corrected_for_the_choice(clear: Document) -> None:
    # Whatever part of seeds and items is left out, the choice is the same and has all right.
    chosen = clear["chosen"]
    assert (chosen["label"], chosen["candidates"], chosen["corrected"]) == ("lora at 64", 3, 1)
    assert chosen["score"]["low"] < clear["recommended"]["score"]["low"]
    assert "It was chosen as the best of 3: corrected for that, expect 100.0 %" in clear["text"]


def test_a_clear_case_asks_for_no_more_jobs(clear: Document) -> None:
    assert clear["first_study"] is None
    assert clear["jobs"] == []
    # Every run chose the last trial, whose rate is the highest: the sweep may be too narrow.
    assert kinds(clear) == {"rate_at_the_end"}


@pytest.mark.parametrize("right", [0, 6, 9])
def test_what_is_at_chance_or_below_the_base_is_not_recommended(
    api: TestClient, sessions: Sessions, right: int
) -> None:
    # Chance is 4 ** -3 of 400 items, or 6.25, and the base alone has 7 right.
    measured(api, sessions, {"lora": Run(right=right), "prefix_tuning": Run(right=0)})
    found = ask(api)
    assert found["recommended"] is found["runner_up"] is found["verdict"] is None
    assert found["text"].startswith(
        "Nothing measured works for sort_descending on tiny-sort within 64 parameters: the best, "
    )
    assert "and the floor is 9.4 % (the best constant answer)" in found["text"]
    assert {one["label"] for one in found["measured"]} == {"lora at 64", "prefix_tuning at 64"}
    measured(api, sessions, {"ia3": Run(right=120)}, budget=64)
    assert ask(api, methods=[])["recommended"]["method"]["name"] == "ia3"


def test_nothing_is_said_without_results(api: TestClient, sessions: Sessions) -> None:
    found = ask(api)
    assert (found["recommended"], found["runner_up"], found["verdict"]) == (None, None, None)
    assert (found["measured"], found["jobs"]) == ([], [])
    study = found["first_study"]
    assert study["spec"]["budgets"] == [64]
    assert study["spec"]["seeds"] == 5  # as many as the base model has replicates
    assert api.post("/v1/studies", json=study["spec"]).status_code == 201
    # Still nothing, and the name is taken now.
    again = ask(api)["first_study"]["spec"]
    assert again["name"] == f"{study['spec']['name']}-2"
    run_all(sessions, by_method(CLEAR))
    assert ask(api)["recommended"]["method"]["name"] == "lora"


CLOSE = {"lora": Run(right=320, shift=20), "prefix_tuning": Run(right=308, shift=10)}
"""80, 85 and 90 % against 77, 79.5 and 82 %: 3, 5.5 and 8 points apart."""


def test_a_close_case_proposes_more_seeds(api: TestClient, sessions: Sessions) -> None:
    measured(api, sessions, CLOSE)
    found = ask(api, methods=[*CLOSE])
    assert found["recommended"]["score"]["mean"] == pytest.approx(0.85)
    assert found["verdict"]["pair"]["difference"] == pytest.approx(0.055)
    assert found["verdict"]["finding"] == "not_known"
    assert {"chosen_by_score"} <= kinds(found)
    wanted = [one for one in found["jobs"] if one["purpose"] == "more_seeds"]
    seeds = wanted[0]["spec"]["seeds"]
    assert seeds == [*range(3, 3 + len(seeds))]
    assert len(seeds) >= 2  # five seeds can decide
    assert [one["spec"]["seeds"] for one in wanted] == [seeds, seeds]
    # Each goes on in turn with the base's five replicates.
    assert wanted[0]["spec"]["base_replicates"] == [seed % 5 for seed in seeds]
    assert all(one["estimate"]["seconds"] > 0 for one in wanted)


def test_an_imported_base_is_named_once_as_the_only_one_that_the_runs_show(
    api: TestClient, sessions: Sessions
) -> None:
    resolved = a_resolved_spec(a_pretrain_spec(name="published", seeds=1))
    folder = {"folder": "models/published", "files": []}
    with sessions.begin() as session:
        a_base_model(
            session,
            "published",
            contents=(b"weights",),
            kind="import",
            resolved_spec={**resolved.model_dump(mode="json"), "model_folder": folder},
        )
    measured(api, sessions, CLOSE, base_model="published")
    found = ask(api, methods=[*CLOSE], base_model="published")
    assert {one for one in kinds(found) if "base" in one} == {"imported_base"}
    more = [one for one in found["jobs"] if one["purpose"] == "more_seeds"]
    assert more
    assert [one["warnings"] for one in more if "replicate" in str(one["warnings"])] == []


def test_the_proposed_jobs_settle_it(api: TestClient, sessions: Sessions) -> None:
    measured(api, sessions, CLOSE)
    found = ask(api, methods=[*CLOSE])
    more = 0
    for one in found["jobs"]:
        if one["purpose"] == "more_seeds":
            more = len(one["spec"]["seeds"])
            submit(api, one["spec"])
    # 83.5 and 88.75 % of every later seed: as far apart as before on average.
    later = {"lora": Run(right=340), "prefix_tuning": Run(right=318)}
    run_all(sessions, by_method(later))
    settled = ask(api, methods=[*CLOSE])
    assert settled["recommended"]["score"]["seeds"] == 3 + more
    assert len(settled["recommended"]["jobs"]) == 2
    assert settled["verdict"]["finding"] == "better"
    assert [one for one in settled["jobs"] if one["purpose"] == "more_seeds"] == []


def test_only_what_fits_and_compares_counts(api: TestClient, sessions: Sessions) -> None:
    measured(api, sessions, {"lora": Run(right=400)}, budget=128)
    measured(api, sessions, {"lora": Run(right=396)}, task=TASK | {"alphabet": 3})
    assert ask(api)["recommended"] is None
    measured(api, sessions, {"lora": Run(right=200), "prefix_tuning": Run(right=100)})
    # Ten times the steps answer another question, here one with a lower score.
    measured(api, sessions, {"lora": Run(right=150)}, training={"steps": 200, "batch_size": 4})
    found = ask(api)
    assert found["recommended"]["score"]["mean"] == 0.5
    assert {"other_settings", "no_run"} <= kinds(found)
    (missing,) = [one for one in found["jobs"] if one["purpose"] == "missing_method"]
    assert missing["method"]["name"] == "frozen"
    # At twice the budget the larger one counts as well, and is compared with the others.
    large = ask(api, budget=128)
    assert large["recommended"]["budget"]["trainable_parameters"] == 128
    assert large["recommended"]["score"]["mean"] == 1
    assert "other_budget" in kinds(large)
    (asked,) = [one for one in large["jobs"] if one["purpose"] == "asked_budget"]
    assert asked["method"]["name"] == "prefix_tuning"
    assert asked["budget"]["trainable_parameters"] == 128


def test_base_models_are_known_by_their_digest(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session, "twin", contents=ENOUGH_BASES)  # the same spec under another name
        a_base_model(session, "other", contents=ENOUGH_BASES, spec_digest="f" * 64)
    measured(api, sessions, {"lora": Run(right=400)}, base_model="other")
    assert ask(api)["recommended"] is None
    measured(api, sessions, {"lora": Run(right=300)}, base_model="twin")
    assert ask(api)["recommended"]["score"]["mean"] == 0.75


def test_more_proposed_jobs_cost_no_more_statements(api: TestClient, sessions: Sessions) -> None:
    measured(api, sessions, {"lora": Run(right=300)})

    def cost(*others: str) -> tuple[int, int]:
        with statements() as sent:
            found = ask(api, methods=["lora", *others])
        missing = [one for one in found["jobs"] if one["purpose"] == "missing_method"]
        return len(missing), len(of_jobs(sent))

    cost("ia3")  # after which the process knows the token and the sizes
    few, many = cost("ia3"), cost("ia3", "adapter", "prefix_tuning", "soft_prompt", "suffix_tuning")
    assert (few[0], many[0]) == (1, 5)
    assert many[1] == few[1]


@pytest.mark.parametrize("name", ["compare", "corrected_choice"])
def test_no_transaction_is_open_during_the_statistics(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    measured(api, sessions, CLEAR, seeds=5)
    compute = getattr(recommendation_evidence, name)
    idle: list[bool] = []

    def look(*arguments: Any, **named: Any) -> object:
        idle.append(nobody_works(sessions))
        return compute(*arguments, **named)

    monkeypatch.setattr(recommendation_evidence, name, look)
    assert ask(api)["recommended"] is not None
    assert idle
    assert all(idle)


def test_a_job_that_cannot_be_run_keeps_no_other_from_being_proposed(
    api: TestClient, sessions: Sessions
) -> None:
    capture = {"attention": {"samples": 1}}
    measured(api, sessions, {"lora": Run(right=300)}, seeds=2, capture=capture)
    question = RecommendationQuestion.model_validate_json(json.dumps(a_question()), strict=True)
    tight = Sizes(10**9, 10**9, max_attention_bytes=1, max_check_tokens=10**9, max_job_bytes=10**9)
    found = recommend(bounded(sessions, tight).begin, question, Rules())
    (refused,) = [one for one in found.thin_evidence if one.kind == "cannot_run"]
    assert refused.methods == ("lora at 64",)
    assert "The attention maps take" in refused.text
    assert {one.purpose for one in found.jobs} == {"missing_method"}
    assert len(found.jobs) == 2


def test_missing_methods_are_proposed_as_comparable_jobs(
    api: TestClient, sessions: Sessions
) -> None:
    measured(api, sessions, {"lora": Run(right=200)})
    found = ask(api, methods=[])
    assert found["runner_up"] is None
    proposed = {one["method"]["name"]: one for one in found["jobs"]}
    assert {"prefix_tuning", "frozen", "ia3"} <= set(proposed)
    # Full fine-tuning trains more than 64 parameters.
    assert "full_finetuning" not in proposed
    assert all(one["budget"]["trainable_parameters"] <= 64 for one in found["jobs"])
    for one in found["jobs"]:
        submit(api, one["spec"])
    run_all(sessions, lambda _: Run(right=300))
    again = ask(api, methods=[])
    assert {one["method"]["name"] for one in again["measured"]} == {"lora", *proposed}
    assert not {"no_run", "other_settings", "unequal_effort"} & kinds(again)


def test_unequal_tuning_is_made_equal(api: TestClient, sessions: Sessions) -> None:
    measured(api, sessions, {"lora": Run(right=300)}, seeds=5)
    measured(api, sessions, {"prefix_tuning": Run(right=100)}, tuning={"trials": 1}, seeds=5)
    found = ask(api, methods=["lora", "prefix_tuning"])
    assert {"unequal_effort", "one_learning_rate"} <= kinds(found)
    (job,) = found["jobs"]
    assert (job["purpose"], job["method"]["name"]) == ("equal_effort", "prefix_tuning")
    assert job["spec"]["tuning"]["trials"] == 3
    submit(api, job["spec"])


def test_another_rule_of_choice_is_unequal_effort(api: TestClient, sessions: Sessions) -> None:
    measured(api, sessions, {"lora": Run(right=300)})
    pooled = {"trials": 3, "selection": "pooled"}
    measured(api, sessions, {"prefix_tuning": Run(right=100)}, tuning=pooled)
    assert "unequal_effort" in kinds(ask(api, methods=["lora", "prefix_tuning"]))


def test_more_configurations_than_can_be_compared_are_left_out(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adaptlab_services.recommendations.recommendation_evidence.MOST_ROWS", 2)
    measured(api, sessions, {"lora": Run(right=400)}, budget=32)
    measured(api, sessions, {"lora": Run(right=300), "prefix_tuning": Run(right=100)})
    found = ask(api, methods=["lora", "prefix_tuning"])
    # The largest of every method is kept, although the smaller one scored more.
    labels = [one["label"] for one in found["measured"]]
    assert labels == ["lora at 64", "prefix_tuning at 64"]
    assert "left_out" in kinds(found)


def test_few_seeds_do_not_win(api: TestClient, sessions: Sessions) -> None:
    measured(api, sessions, {"lora": Run(right=200)})
    measured(api, sessions, {"prefix_tuning": Run(right=240)}, seeds=1)
    found = ask(api, methods=["lora", "prefix_tuning"])
    assert found["recommended"]["method"]["name"] == "lora"
    assert found["runner_up"]["score"]["mean"] == 0.6
    assert (found["verdict"]["finding"], found["verdict"]["reason"]) == ("not_known", "few_seeds")
    assert "few_seeds" in kinds(found)
    wanted = {job["method"]["name"]: job["spec"]["seeds"] for job in found["jobs"]}
    assert wanted["prefix_tuning"][:2] == [1, 2]


def test_what_took_too_long_is_left_aside(api: TestClient, sessions: Sessions) -> None:
    jobs = measured(api, sessions, CLEAR)
    with sessions.begin() as session:
        session.execute(
            text(
                "UPDATE attempts SET ended_at = started_at + interval '90 seconds' "
                "WHERE job_id = :job"
            ),
            {"job": jobs["lora"]},
        )
    assert ask(api)["recommended"]["seconds"] == 90
    found = ask(api, max_seconds=60)
    assert found["recommended"]["method"]["name"] == "prefix_tuning"
    (slow,) = [one for one in found["thin_evidence"] if one["kind"] == "too_slow"]
    assert slow["methods"] == ["lora at 64"]
    nothing = ask(api, methods=["lora"], max_seconds=60)
    assert (nothing["recommended"], kinds(nothing)) == (None, {"too_slow"})
    assert nothing["first_study"]["spec"]["resources"] == {"max_seconds": 60}


def test_a_method_that_learned_is_not_passed_over_for_more_that_did_not(
    api: TestClient, sessions: Sessions
) -> None:
    measured(api, sessions, {"prefix_tuning": Run(right=0), "frozen": Run(right=0)})
    longer = {"steps": 200, "batch_size": 4}
    measured(api, sessions, {"lora": Run(right=390)}, training=longer)
    found = ask(api)
    assert found["recommended"]["method"]["name"] == "lora"
    (aside,) = [one for one in found["thin_evidence"] if one["kind"] == "other_settings"]
    assert aside["methods"] == ["prefix_tuning"]


def test_runs_of_older_code_are_run_again(api: TestClient, sessions: Sessions) -> None:
    old = {
        "lora": Run(right=300, code_version="0.0.1+old"),
        "frozen": Run(code_version="0.0.1+old"),
    }
    measured(api, sessions, old)
    found = ask(api, methods=["lora", "frozen"])
    assert "older_code" in kinds(found)
    assert [one["purpose"] for one in found["jobs"]] == ["newer_code", "newer_code"]
    for one in found["jobs"]:
        assert one["spec"]["seeds"] == [0, 1, 2]
        submit(api, one["spec"])
    run_all(sessions, by_method({"lora": Run(right=200), "frozen": Run()}))
    again = ask(api, methods=["lora", "frozen"])
    assert again["recommended"]["score"]["mean"] == 0.5
    assert "older_code" not in kinds(again)


def test_given_knobs_are_the_only_ones(api: TestClient, sessions: Sessions) -> None:
    measured(api, sessions, {"lora": Run(right=400)})
    rank = ask(api)["recommended"]["method"]["rank"]
    wanted = ask(api, methods=[{"name": "lora", "rank": rank}])
    assert wanted["recommended"]["method"]["rank"] == rank
    alpha = ask(api)["recommended"]["method"]["alpha"]
    assert ask(api, methods=[{"name": "lora", "alpha": alpha + 1}])["recommended"] is None


def test_what_is_not_yours_is_no_evidence(
    api: TestClient, anonymous: TestClient, sessions: Sessions
) -> None:
    measured(api, sessions, CLEAR)
    with sessions.begin() as session:
        eve = a_user(session, "eve")
        a_base_model(session, project="theirs", owner="eve", contents=ENOUGH_BASES)
        session.execute(text("DELETE FROM memberships WHERE user_id = :id"), {"id": eve})
        a_member(session, eve, "theirs", "reader")
        token = a_token(session, "eve", ["read"])
    header = {"Authorization": f"Bearer {token}"}
    answer = anonymous.post(PLACE, json=a_question(), headers=header)
    assert (answer.status_code, answer.json()["recommended"]) == (200, None)
    with sessions.begin() as session:
        a_member(session, eve, "default", "reader")
        token = a_token(session, "eve", ["read"])  # what the other may is known for a second
    header = {"Authorization": f"Bearer {token}"}
    seen = anonymous.post(PLACE, json=a_question(), headers=header)
    assert seen.json()["recommended"]["method"]["name"] == "lora"


SENSELESS: list[Any] = [
    ({"base_model": "nobodys"}, "/base_model"),
    ({"task": "juggling"}, "/task/name"),
    ({"budget": {}}, "/budget"),
    ({"budget": 0}, "/budget"),
    ({"methods": ["magic"]}, "/methods/0/name"),
    ({"max_seconds": 0}, "/max_seconds"),
    ({"level": 0.9}, "/level"),
]


def test_questions_that_make_no_sense(api: TestClient) -> None:
    for changes, pointer in SENSELESS:
        answer = api.post(PLACE, json=a_question(**changes))
        assert answer.status_code == 422
        assert pointer in {one["pointer"] for one in answer.json()["errors"]}
