"""Defences of browsers: cookies, origins, headers, nothing inline."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_token

from adaptlab_api.app import create_app
from adaptlab_api.doors.gate import SESSION_COOKIE
from adaptlab_api.pages.rendering.assets import charts_name
from adaptlab_services.settings import Settings

SOMEWHERE = "00000000-0000-0000-0000-000000000000"
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
SAME_SITE = {"Sec-Fetch-Site": "same-origin"}
TEMPLATES = Path("api/adaptlab_api/pages/templates")


def addresses(client: TestClient) -> list[tuple[str, str]]:
    """Every route with each of its methods, pages included."""
    return [
        (method, re.sub(r"{[^}]+}", SOMEWHERE, route.path))
        for route in client.app.routes  # type: ignore[attr-defined]
        for method in sorted(route.methods)
    ]


@pytest.fixture(params=["http", "https"])
def signed_in(
    request: pytest.FixtureRequest, settings: Settings, token: str
) -> Iterator[TestClient]:
    """A browser that signed in, without and with TLS."""
    with TestClient(
        create_app(settings),
        base_url=f"{request.param}://testserver",
        raise_server_exceptions=False,
        follow_redirects=False,
    ) as client:
        answer = client.post("/login", data={"token": token, "next": "/"}, headers=SAME_SITE)
        assert answer.status_code == 303
        yield client


def test_nothing_is_changed_from_another_site(signed_in: TestClient) -> None:
    unsafe = [one for one in addresses(signed_in) if one[0] in UNSAFE]
    assert len(unsafe) >= 12
    hostile = (
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Referer": "http://testserver/"},
    )
    for method, path in unsafe:
        for headers in hostile:
            if path == "/login" and headers in ({}, {"Referer": "http://testserver/"}):
                continue  # a program that signs in; it brings a token, not a session
            answer = signed_in.request(method, path, headers=headers, data={"token": "x"})
            assert answer.status_code == 403, (method, path, headers, answer.status_code)
    assert signed_in.get("/v1/jobs").status_code == 200  # nobody was signed out


def test_the_cookie_is_as_closed_as_cookies_are(settings: Settings, token: str) -> None:
    for scheme, name in (("http", SESSION_COOKIE), ("https", f"__Host-{SESSION_COOKIE}")):
        with TestClient(
            create_app(settings), base_url=f"{scheme}://testserver", follow_redirects=False
        ) as client:
            form = {"token": token}
            cookie = client.post("/login", data=form, headers=SAME_SITE).headers["set-cookie"]
            value, *attributes = cookie.split("; ")
            assert value.partition("=")[0] == name
            told = {one.lower() for one in attributes}
            assert {"httponly", "samesite=lax", "path=/", "max-age=43200"} <= told
            assert ("secure" in told) == (scheme == "https")
            assert not any(one.startswith("domain") for one in told)
            assert token not in cookie
            gone = client.post("/logout", headers=SAME_SITE).headers["set-cookie"]
            assert gone.startswith(f'{name}=""')
            assert ("Secure" in gone) == (scheme == "https")


def test_a_cookie_that_could_be_planted_opens_nothing_under_tls(
    settings: Settings, token: str
) -> None:
    with TestClient(create_app(settings), base_url="https://testserver") as client:
        client.post("/login", data={"token": token}, headers=SAME_SITE)
        value = client.cookies[f"__Host-{SESSION_COOKIE}"]
        client.cookies.clear()
        planted = client.get("/v1/jobs", headers={"Cookie": f"{SESSION_COOKIE}={value}"})
        assert planted.status_code == 401


@pytest.mark.long("every door for every role", but=1)
def test_every_answer_says_what_a_browser_may_do_with_it(
    signed_in: TestClient, settings: Settings, sessions: sessionmaker[Session]
) -> None:
    with sessions.begin() as session:
        bearer = {"Authorization": f"Bearer {a_token(session)}"}
    asked = [one for one in addresses(signed_in) if charts_name() not in one[1]]  # takes seconds
    answers = [signed_in.request(method, path) for method, path in asked]
    answers += [
        signed_in.get("/nowhere"),
        signed_in.delete("/v1/jobs", headers=bearer),
        signed_in.get("/v1/jobs?page_size=0"),
        signed_in.get("/v1/jobs", headers={"X": "y" * 20_000}),
        signed_in.post("/v1/jobs", content=b"x" * 2**21, headers=bearer),
        signed_in.post("/login", content=b"x" * 5000),
    ]
    assert {200, 401, 403, 404, 405, 413, 422, 431} & {a.status_code for a in answers}
    for answer in answers:
        headers = answer.headers
        what = (answer.request.method, answer.request.url, answer.status_code)
        assert headers["x-content-type-options"] == "nosniff", what
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'"), what
        assert "frame-ancestors 'none'" in policy, what
        assert "unsafe" not in policy, what
        assert headers["cross-origin-resource-policy"] == "same-origin", what
        assert headers["referrer-policy"] == "same-origin", what
        assert "access-control-allow-origin" not in headers, what
        secure = str(answer.request.url).startswith("https")
        assert ("strict-transport-security" in headers) == secure, what


def test_a_fault_says_so_too(
    settings: Settings, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("adaptlab_services.lifecycle.workers.recent", fail)
    headers = {"Authorization": f"Bearer {token}"}
    with TestClient(create_app(settings), headers=headers, raise_server_exceptions=False) as api:
        answer = api.get("/v1/workers")
    assert answer.status_code == 500
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.name)
def test_no_template_has_anything_inline(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for tag in re.findall(r"<script\b[^>]*>", text):
        assert "src=" in tag
    assert "<style" not in text
    assert not re.search(r"<[a-z][^>]*\s(?:style|on[a-z]+)\s*=", text)
    assert "javascript:" not in text.lower()
    assert not re.search(r"\|\s*safe\b|autoescape\s+false", text)


def test_the_script_makes_no_html_from_text() -> None:
    text = (TEMPLATES.parent / "static" / "adaptlab.js").read_text(encoding="utf-8")
    for sink in ("innerHTML", "outerHTML =", "insertAdjacentHTML", "document.write", "eval("):
        assert sink not in text, sink
    assert not re.search(r"\bnew Function\b|setTimeout\(\s*['\"]", text)
