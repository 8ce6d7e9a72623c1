"""The server does not listen where tokens would be sent in the clear."""

import pytest
from typer.testing import CliRunner

from adaptlab_api import server
from adaptlab_api.cli import serve as command
from adaptlab_api.doors.listening import Listening, UnsafeAddress
from adaptlab_stack.errors import OpenToOthers
from adaptlab_stack.up import Programs, UpOptions, run_up

OPEN = ("0.0.0.0", "::", "192.0.2.7", "lab.example", "", "127.0.0.1.example")


@pytest.mark.parametrize("host", OPEN)
def test_an_address_that_others_reach_is_refused(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "create_app", lambda: pytest.fail("it was about to listen"))
    with pytest.raises(UnsafeAddress, match="--behind-proxy"):
        server.serve(Listening(host))
    Listening(host, behind_proxy=True).check()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_this_machine_needs_nothing(host: str) -> None:
    Listening(host).check()


def test_tls_needs_both_files(tmp_path) -> None:  # type: ignore[no-untyped-def]
    pem = tmp_path / "one.pem"
    Listening("0.0.0.0", certificate=pem, key=pem).check()
    with pytest.raises(UnsafeAddress):
        Listening("0.0.0.0", certificate=pem).check()


def test_the_commands_say_why() -> None:
    import typer

    application = typer.Typer()
    application.command()(command)
    answer = CliRunner().invoke(application, ["--host", "0.0.0.0"])
    assert answer.exit_code == 2
    assert "--behind-proxy" in answer.output


def test_up_refuses_before_anything_starts(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OpenToOthers):
        run_up(UpOptions(tmp_path / "data", "0.0.0.0", None, 0), Programs(), lambda _: None)
    assert not (tmp_path / "data" / "postgres").exists()
