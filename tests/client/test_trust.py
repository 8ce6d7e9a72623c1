"""Authorities are read for encryption only, and required for trust."""

import ssl

import pytest

from adaptlab_client.transport.connection import trust


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def trusts_nobody(found: ssl.SSLContext | bool) -> bool:
    assert isinstance(found, ssl.SSLContext)
    assert (found.verify_mode, found.check_hostname) == (ssl.CERT_REQUIRED, True)
    return found.cert_store_stats()["x509_ca"] == 0


@pytest.mark.parametrize("by_proxies", [True, False])
def test_an_encrypted_server_is_held_against_the_known_authorities(by_proxies: bool) -> None:
    assert trust("https://lab.example", by_proxies=by_proxies) is True


def test_where_nothing_is_encrypted_nobody_is_trusted() -> None:
    assert trusts_nobody(trust("http://lab.example", by_proxies=True))


@pytest.mark.parametrize("name", ["http_proxy", "all_proxy"])
def test_the_way_to_a_proxy_may_be_encrypted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "https://proxy.example")
    assert trust("http://lab.example", by_proxies=True) is True
    assert trusts_nobody(trust("http://127.0.0.1:8420", by_proxies=False))
