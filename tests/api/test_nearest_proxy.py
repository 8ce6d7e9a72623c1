"""Behind a proxy only what the proxy wrote is believed."""

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from adaptlab_api.doors.nearest_proxy import NearestProxy
from adaptlab_api.doors.path_prefix import KEY


async def tell(request: Request) -> PlainTextResponse:
    assert request.client is not None
    prefix = request.scope.get(KEY, "")
    return PlainTextResponse(f"{request.url.scheme} {request.client.host}{prefix}")


@pytest.fixture
def client() -> TestClient:
    return TestClient(NearestProxy(Starlette(routes=[Route("/", tell)])), "http://lab.example")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("X-Forwarded-For", "192.0.2.7"), ("X-Forwarded-Proto", "https")], "https 192.0.2.7"),
        ([("X-Forwarded-For", "10.6.6.6, 192.0.2.7")], "http 192.0.2.7"),
        ([("X-Forwarded-For", "10.6.6.6"), ("X-Forwarded-For", "2001:db8::1")], "http 2001:db8::1"),
        ([("X-Forwarded-For", "192.0.2.7, ")], "http testclient"),
        ([("X-Forwarded-For", 'somebody" else')], "http testclient"),
        ([("X-Forwarded-Proto", "https, javascript")], "http testclient"),
        ([("X-Forwarded-Prefix", "/adaptlab/")], "http testclient/adaptlab"),
        ([("X-Forwarded-Prefix", '/a"><script>')], "http testclient"),
        ([("X-Forwarded-Prefix", "//other.example")], "http testclient"),
        ([], "http testclient"),
    ],
)
def test_the_last_entry_counts(
    client: TestClient, headers: list[tuple[str, str]], expected: str
) -> None:
    assert client.get("/", headers=headers).text == expected
