"""Requests made from the served description.

Run `python -m tests.security.schema_fuzz --examples 200`.

Every operation gets requests that the description allows, and as many that it forbids. All of
schemathesis' checks of a single answer hold, but for those named below with their reasons.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from tests.security.serving import a_server, asking

NEGATIVE = schemathesis.GenerationMode.NEGATIVE
LEFT_OUT = {
    "positive_data_acceptance": "a schema cannot say that names exist or that a budget is met",
    "ensure_resource_availability": "jobs are made in a unit of work that others may end",
    "use_after_free": "what is deleted stays readable for those who had it",
}
"""Checks that do not fit, and why."""


@dataclass
class Findings:
    """The number of answers by kind, and each kind of error once."""

    asked: Counter[str] = field(default_factory=Counter[str])
    statuses: Counter[int] = field(default_factory=Counter[int])
    faults: dict[str, str] = field(default_factory=dict[str, str])


def run(client: TestClient, examples: int, only: str = "") -> Findings:
    """Ask every operation, or those with `only` in their label."""
    bearer = {"Authorization": client.headers["Authorization"]}
    schema = schemathesis.openapi.from_asgi("/openapi.json", client.app, headers=bearer)
    # A request may be too long before anybody looks whether it is also wrong.
    allowed = schema.config.checks.negative_data_rejection.expected_statuses
    schema.config.checks.negative_data_rejection.expected_statuses = [*allowed, "413", "431"]
    found, checks = Findings(), all_checks()
    for result in schema.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        if only in operation.label:
            ask(operation, examples, bearer, checks, found)
    return found


def all_checks() -> Sequence[Any]:
    load_all_checks()
    names = set(CHECKS.get_all_names())
    assert set(LEFT_OUT) <= names, "a check that is left out is there no more"
    return CHECKS.get_by_names(sorted(names - set(LEFT_OUT)))


def ask(
    operation: Any,
    examples: int,
    bearer: dict[str, str],
    checks: Sequence[Any],
    found: Findings,
) -> None:
    """Ask one operation, and keep the first bad answer of each kind."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(operation.as_strategy() | operation.as_strategy(generation_mode=NEGATIVE))
    def once(case: Any) -> None:
        if isinstance(case.query, dict):
            case.query.pop("wait", None)  # waiting is tested where something happens meanwhile
        found.asked[operation.label] += 1
        try:
            answer = case.call(headers=bearer)
        except Exception as error:  # noqa: BLE001 - a server of its own would answer with 500
            what = f"{operation.label}: {type(error).__name__} was raised"
            found.faults.setdefault(what, f"{error}\n{case.as_curl_command()[:800]}")
            return
        found.statuses[answer.status_code] += 1
        try:
            case.validate_response(answer, checks=checks, headers=bearer)
        except FailureGroup as group:
            for failure in group.exceptions:
                what = f"{operation.label}: {type(failure).__name__}: {answer.status_code}"
                found.faults.setdefault(what, f"{failure}\n{case.as_curl_command()[:800]}")

    once()


def told(found: Findings) -> Iterator[str]:
    for fault, example in found.faults.items():
        yield f"--- {fault}\n{example}\n"
    fewest = min(found.asked.values(), default=0)
    statuses = ", ".join(f"{status}: {n}" for status, n in sorted(found.statuses.items()))
    yield f"{len(found.asked)} operations, {found.asked.total()} requests, at least {fewest} each"
    yield f"answers: {statuses}"
    yield f"faults: {len(found.faults)}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--only", default="", help="a part of the operations' labels")
    asked = parser.parse_args(arguments)
    with a_server() as (given_settings, sessions), asking(given_settings, sessions) as client:
        begin = time.perf_counter()
        found = run(client, asked.examples, asked.only)
        for line in told(found):
            print(line)
        print(f"{time.perf_counter() - begin:.0f} s")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
