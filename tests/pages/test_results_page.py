"""The page of results: conditions, groups, files, chart and permissions."""

import html
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import Run, run_all
from tests.making import a_base_model, a_member, a_principal, a_study_spec, a_token, a_user

from adaptlab.charts import GroupMean, group_means, svg
from adaptlab_api.app import create_app
from adaptlab_api.pages.results.query import ConditionRow, ResultsQuery
from adaptlab_db.tables import Membership
from adaptlab_services.people import tokens
from adaptlab_services.querying.filtering import parse
from adaptlab_services.settings import Settings
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

Sessions = sessionmaker[Session]


@pytest.fixture(scope="module")
def reader(shared_settings: Settings, shared_sessions: Sessions) -> Iterator[TestClient]:
    """A reader of adaptations: lora with 380 of 400 right, others with none."""
    with shared_sessions.begin() as session:
        a_base_model(session)
        spec = a_study_spec(methods=["lora", "prefix_tuning", "ia3"], budgets=[64])
        studies.create(session, a_principal(session), spec, Rules())
        header = {"Authorization": f"Bearer {a_token(session)}"}
    run_all(shared_sessions, lambda spec: Run(right=380 if "'lora'" in str(spec.method) else 0))
    with TestClient(create_app(shared_settings), headers=header) as client:
        yield client


def page(reader: TestClient, *pairs: tuple[str, str]) -> Any:
    return reader.get(f"/results?{urlencode(pairs)}")


def methods(answer: Any) -> set[str]:
    cells = re.findall(r'data-label="method">(.*?)</td>', answer.text)
    return {html.unescape(cell) for cell in cells if "<" not in cell}  # but not the base's "–"


def condition(field: str, operator: str, value: str = "") -> tuple[tuple[str, str], ...]:
    return (("field", field), ("operator", operator), ("value", value))


def test_all_results_are_shown_with_links_to_their_files(reader: TestClient) -> None:
    answer = page(reader)
    assert answer.status_code == 200
    assert methods(answer) == {"LoRA", "Prefix-tuning", "IA3"}
    links = map(html.unescape, re.findall(r'href="(/v1/results[^"]*)" download', answer.text))
    for link, kind in zip(links, ("text/csv", "application/jsonl", ""), strict=True):
        file = reader.get(link)
        assert file.status_code == 200
        assert kind in file.headers["content-type"]


CONDITIONS: list[Any] = [
    (condition("method", "=", "lora"), {"LoRA"}),
    (condition("method", "IN", "lora, ia3"), {"LoRA", "IA3"}),
    (condition("metrics.accuracy.mean", ">", "0.5"), {"LoRA"}),
    (condition("reason", "IS NULL", "left over"), {"LoRA", "Prefix-tuning", "IA3"}),
    ((*condition("method", "!=", "lora"), *condition("method", "~", "ix")), {"Prefix-tuning"}),
    ((*condition("", "=", "lora"), ("filter", "method = ia3")), {"IA3"}),
    ((*condition("method", "=", "lora"), ("filter", "method = ia3 OR kind = adapt")), {"LoRA"}),
    (condition("project", "=", "default"), {"LoRA", "Prefix-tuning", "IA3"}),
]


def test_conditions_and_text_hold_together(reader: TestClient) -> None:
    for conditions, expected in CONDITIONS:
        answer = page(reader, *conditions)
        assert answer.status_code == 200
        assert methods(answer) == expected


INVALID: list[Any] = [
    (condition("metod", "=", "lora"), "There is no field"),
    (condition("method", ">", "lora"), "method"),
    ((("filter", "method ="),), "This query is not valid"),
    ((("group_by", "finished_at"),), "Group by a text or a whole number"),
    ((("group_by", "method"), ("metric", "beauty")), "There is no metric"),
    ((("order_by", "-nothing"),), "nothing"),
    ((("page_token", "x"),), "This page token is invalid"),
]


def test_an_invalid_query_says_why_and_stays_in_the_form(reader: TestClient) -> None:
    for pairs, said in INVALID:
        answer = page(reader, *pairs)
        assert answer.status_code == 400
        assert said in html.unescape(answer.text)
        assert "No matching results" not in answer.text


def test_groups_have_a_chart_and_files(reader: TestClient) -> None:
    answer = page(reader, ("group_by", "method"))
    found = re.search(r'data-source="([^"]*)"', answer.text)
    assert found is not None
    chart = reader.get(f"{html.unescape(found[1])}&theme=dark").json()
    drawn = [(one["group"], one["mean"]) for one in chart["data"]["values"]]
    assert drawn[0] == ("lora", 0.95)
    assert dict(drawn) == {"lora": 0.95, "prefix_tuning": 0, "ia3": 0}
    file = reader.get(
        html.unescape(re.findall(r'href="(/v1/results[^"]*)" download', answer.text)[0])
    )
    assert file.text.splitlines()[0].startswith("method,")
    assert len(file.text.splitlines()) == 4
    assert reader.get("/results/charts/groups").status_code == 204


def test_columns_sort(reader: TestClient) -> None:
    answer = page(reader, ("order_by", "-metrics.accuracy.mean"))
    shown = re.findall(r'data-label="method">(.*?)</td>', answer.text)
    assert shown[0] == "LoRA"
    assert 'aria-sort="descending"' in answer.text
    assert "order_by=metrics.accuracy.mean" in answer.text


def test_text_of_others_is_shown_as_text(reader: TestClient) -> None:
    hostile = '"><script>alert(1)</script>'
    answer = page(reader, *condition("method", "=", hostile), ("filter", hostile))
    assert hostile not in answer.text


def test_results_of_other_projects_are_not_there(
    reader: TestClient, shared_sessions: Sessions
) -> None:
    with shared_sessions.begin() as session:
        user = a_user(session, "stranger")
        session.execute(delete(Membership).where(Membership.user_id == user))
        a_member(session, user, "elsewhere", "reader")
        token = tokens.create_token(session, user, "for a test", ("read",))
    header = {"Authorization": f"Bearer {token}"}
    for query in ("", "?field=project&operator=%3D&value=default", "?group_by=method"):
        answer = reader.get(f"/results{query}", headers=header)
        assert answer.status_code == 200
        assert "No matching results" in answer.text


@pytest.mark.parametrize(
    "value", ["lora", "two words", 'a "quote"', "back\\slash", "AND", "null", "0.5", "(", "ä", ""]
)
def test_every_value_is_read_as_it_was_typed(value: str) -> None:
    meaning = parse(ConditionRow("labels.team", "=", value).term())
    (operand,) = meaning.operands  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
    assert operand.text == value  # pyright: ignore[reportUnknownMemberType]


def test_an_address_says_the_whole_query() -> None:
    query = ResultsQuery.read(
        ["method", ""], ["IN", "="], ["lora,ia3", ""],
        filter="kind = adapt", group_by="task", metric="", order_by="", project="vision",
    )  # fmt: skip
    assert query.expression() == "method IN (lora, ia3) AND (kind = adapt)"
    assert query.address() == (
        "/results?field=method&operator=IN&value=lora%2Cia3&filter=kind+%3D+adapt"
        "&group_by=task&project=vision"
    )


def test_the_chart_is_drawn_with_and_without_intervals() -> None:
    groups = (GroupMean("lora", 0.9, 0.8, 1.0), GroupMean("<b>", 0.1, None, None))
    drawing = svg(group_means(groups, "accuracy"))
    assert "&lt;b&gt;" in drawing
    with pytest.raises(ValueError, match="no group"):
        group_means((), "accuracy")
