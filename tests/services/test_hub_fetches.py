"""Fetches from a hub that misbehaves, and those that are interrupted."""

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.folders import WEIGHTS, a_model_folder
from tests.hub_holding import holding_at
from tests.hub_lab import REPO, Lab
from tests.hub_server import COMMIT, OTHER, Handler, Hub, a_hub
from tests.watching import until

from adaptlab.errors import BadModelFolder
from adaptlab.weights.hub_name import HubName
from adaptlab_db.tables import Artifact, Upload, UploadedFolder, User
from adaptlab_services.hub import due_fetches, fetches, room
from adaptlab_services.hub.fetch_errors import sentence
from adaptlab_services.hub.fetcher import Fetcher
from adaptlab_services.hub.hub_access import HubAccess, HubHosts
from adaptlab_services.hub.hub_child import HubChild, HubFailure, HubPatience
from adaptlab_services.hub.hub_models import read_model
from adaptlab_services.hub.hub_process import HubNetwork
from adaptlab_services.limits.addresses import AddressRefused
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings
from adaptlab_services.storage.uploads import CHUNK_BYTES

Sessions = sessionmaker[Session]
HASTY = HubPatience(silent_seconds=2.0)
SLOW = HubPatience(window_seconds=1.0)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with a_hub() as hub:
        hub.add(REPO, a_model_folder(tmp_path / "tiny"))
        yield hub


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A model whose weights take three chunks."""
    folder = a_model_folder(tmp_path / "large", vocabulary=300_000)
    assert (folder / WEIGHTS).stat().st_size > 2 * CHUNK_BYTES
    return folder


@pytest.fixture
def lab(sessions: Sessions, settings: Settings, hub: Hub, ada: Principal) -> Lab:
    return Lab(sessions, hub.settings(settings), ada)


def cut_at(size: int) -> Callable[[Handler], bool]:
    """Answer the first request for much with some of it."""
    cuts: list[int] = []

    def change(handler: Handler) -> bool:
        content = handler.hub.by_digest[handler.path.rpartition("/")[2]]
        if cuts or "-131071" in handler.headers["range"]:
            return False
        cuts.append(size)
        handler.send_response(206)
        handler.send_header("content-length", str(len(content)))
        handler.send_header("content-range", f"bytes 0-{len(content) - 1}/{len(content)}")
        handler.end_headers()
        handler.wfile.write(content[:size])
        handler.close_connection = True
        return True

    return change


def ignore_ranges(handler: Handler) -> bool:
    handler.answer(200, handler.hub.by_digest[handler.path.rpartition("/")[2]])
    return True


def move_branch(handler: Handler) -> bool:
    handler.hub.branches["main"] = OTHER
    return False


@pytest.mark.parametrize("change", [cut_at(12 * 2**20), ignore_ranges], ids=["cut", "no ranges"])
def test_interrupted_bytes_are_read_on(
    lab: Lab, hub: Hub, large: Path, change: Callable[[Handler], bool]
) -> None:
    hub.add(REPO, large)
    hub.changes["cdn"] = change
    fetch = lab.run()
    assert (fetch.state, fetch.error) == ("succeeded", None)
    with lab.sessions() as session:
        size = session.scalar(select(Artifact.size).order_by(Artifact.size.desc()).limit(1))
    assert size == (large / WEIGHTS).stat().st_size
    starts = [one.start for one in hub.asked if one.host == "cdn"]
    if change is not ignore_ranges:
        assert starts == [0, 0, 12 * 2**20]  # the header, all, and the rest


def test_all_requests_are_for_the_first_commit(lab: Lab, hub: Hub) -> None:
    hub.changes["config.json"] = move_branch
    fetch = lab.run()
    assert (fetch.state, fetch.commit) == ("succeeded", COMMIT)
    assert not [one.path for one in hub.asked if OTHER in one.path]
    assert {one.headers.get("authorization") for one in hub.asked} == {None}


def wrong_bytes(hub: Hub) -> None:
    hub.changes["cdn"] = lambda handler: _zeros(handler)


def _zeros(handler: Handler) -> bool:
    content = handler.hub.by_digest[handler.path.rpartition("/")[2]]
    start = 8 + int.from_bytes(content[:8], "little")
    handler.bytes_of(content[:start] + bytes(len(content) - start))
    return True


def larger(hub: Hub) -> None:
    hub.changes["cdn"] = lambda handler: (
        handler.bytes_of(handler.hub.by_digest[handler.path.rpartition("/")[2]] + b"more") or True
    )


def leads_to(url: str) -> Callable[[Hub], None]:
    def change(hub: Hub) -> None:
        hub.location = url

    return change


def only_pickles(hub: Hub) -> None:
    hub.files[REPO]["pytorch_model.bin"] = hub.files[REPO].pop(WEIGHTS)


def code(hub: Hub) -> None:
    config = json.loads(hub.files[REPO]["config.json"])
    hub.files[REPO]["config.json"] = json.dumps(
        config | {"auto_map": {"AutoModel": "x.Y"}}
    ).encode()


def foreign(hub: Hub) -> None:
    config = json.loads(hub.files[REPO]["config.json"])
    hub.files[REPO]["config.json"] = json.dumps(config | {"architectures": ["Strange"]}).encode()


def html(hub: Hub) -> None:
    hub.changes["main"] = lambda handler: handler.answer(200, b"<html>Sign in</html>") or True


def no_commit(hub: Hub) -> None:
    hub.changes["config.json"] = lambda handler: (
        handler.answer(200, handler.hub.files[REPO]["config.json"]) or True
    )


def answers(status: int, **headers: str) -> Callable[[Hub], None]:
    def change(hub: Hub) -> None:
        hub.changes["main"] = lambda handler: handler.answer(status, b"{}", **headers) or True

    return change


def hostile_index(name: str) -> Callable[[Hub], None]:
    def change(hub: Hub) -> None:
        index = {"weight_map": {"a": name}}
        hub.files[REPO]["model.safetensors.index.json"] = json.dumps(index).encode()
        hub.files[REPO][name] = b"x"

    return change


def a_million_files(hub: Hub) -> None:
    hub.members["siblings"] = [{"rfilename": f"{n:060}"} for n in range(10**6)]


def huge(hub: Hub) -> None:
    def siblings(handler: Handler) -> bool:
        entries = [hub.sibling(*pair) for pair in hub.files[REPO].items()]
        hub.members["siblings"] = [
            entry | ({"size": 10**13} if entry["rfilename"] == "config.json" else {})
            for entry in entries
        ]
        return False

    hub.changes["main"] = siblings


def truncated_header(hub: Hub) -> None:
    hub.files[REPO][WEIGHTS] = hub.files[REPO][WEIGHTS][:40]


NO_WEIGHTS: list[tuple[Callable[[Hub], None], str, str]] = [
    (only_pickles, "bad_model_folder", "pytorch_model.bin is not read"),
    (code, "bad_model_folder", "auto_map"),
    (foreign, "bad_model_folder", "Strange"),
    (html, "not_a_hub", "does not answer as a hub does"),
    (no_commit, "not_a_hub", "ADAPTLAB_HUB_ENDPOINT"),
    (answers(401), "absent", "no model lab/tiny, or you may not see it"),
    (answers(404), "absent", "no model lab/tiny, or you may not see it"),
    (answers(404, x_error_code="RepoNotFound"), "absent", "no model lab/tiny"),
    (answers(403, x_error_code="GatedRepo"), "gated", "Accept them at http://127.0.0.1"),
    (answers(403), "forbidden", "Give it the permission"),
    (answers(404, x_error_code="RevisionNotFound"), "no_revision", "no branch, tag or commit"),
    (leads_to("http://169.254.169.254/latest"), "refused_host", "led to 169.254.169.254"),
    (leads_to("http://localhost:1/x"), "refused_host", "ADAPTLAB_HUB_HOSTS"),
    (leads_to("file:///etc/passwd"), "refused_host", "not among the allowed hosts"),
    (hostile_index("../x.safetensors"), "bad_model_folder", "not a safetensors file"),
    (hostile_index("n" * 300 + ".safetensors"), "bad_model_folder", "not a safetensors file"),
    (hostile_index("a\0b.safetensors"), "bad_model_folder", "not a safetensors file"),
    (a_million_files, "too_large", "too large to be of a model"),
    (huge, "bad_model_folder", "config.json has more than"),
    (truncated_header, "bad_model_folder", "model.safetensors"),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, HubChild]]:
    """A hub, and one process that reads from it."""
    with a_hub() as hub:
        hub.add(REPO, a_model_folder(tmp_path_factory.mktemp("hub") / "tiny"))
        hosts = HubHosts(endpoint=hub.url, named=(hub.cdn.removeprefix("http://"),))
        with HubChild(HubAccess(hosts=hosts)) as child:
            yield hub, child


@pytest.mark.parametrize(("change", "code", "words"), NO_WEIGHTS)
def test_what_cannot_be_fetched_is_refused_before_any_weight(
    table: tuple[Hub, HubChild], change: Callable[[Hub], None], code: str, words: str
) -> None:
    hub, child = table
    before = replace(hub, files={REPO: dict(hub.files[REPO])}, members={}, changes={}, asked=[])
    change(hub)
    with pytest.raises((HubFailure, BadModelFolder)) as raised:
        read_model(child, REPO, "main")
    whole = [one for one in hub.asked if one.name.endswith(".safetensors") and one.start]
    vars(hub).update(vars(before))
    error = raised.value
    found = error.code if isinstance(error, HubFailure) else "bad_model_folder"
    detail = error.detail if isinstance(error, HubFailure) else str(error)
    assert (found, whole) == (code, [])
    assert words in sentence(code, detail, HubName(repository=REPO), hub.url)


def test_a_refusal_says_what_to_do_and_leaves_nothing(lab: Lab, hub: Hub) -> None:
    only_pickles(hub)
    fetch = lab.run()
    assert (fetch.state, fetch.code) == ("failed", "bad_model_folder")
    assert fetch.error is not None
    assert "such as a conversion at @refs/pr/1" in fetch.error
    assert lab.count(UploadedFolder) == lab.count(Upload) == lab.count(Artifact) == 0


@pytest.mark.parametrize(
    ("change", "code"), [(wrong_bytes, "wrong_digest"), (larger, "wrong_size")]
)
def test_other_bytes_than_announced_leave_nothing(
    lab: Lab, hub: Hub, change: Callable[[Hub], None], code: str
) -> None:
    change(hub)
    fetch = lab.run()
    assert (fetch.state, fetch.code) == ("failed", code)
    assert lab.count(UploadedFolder) == lab.count(Upload) == 0


def silent(handler: Handler) -> bool:
    threading.Event().wait(8)
    return True


def drip(handler: Handler) -> bool:
    handler.send_response(200)
    handler.send_header("content-length", "100000")
    handler.send_header("x-repo-commit", COMMIT)
    handler.end_headers()
    try:
        for _ in range(40):
            handler.wfile.write(b"x")
            threading.Event().wait(0.1)
    except OSError:
        pass
    handler.close_connection = True
    return True


def later(seconds: str) -> Callable[[Handler], bool]:
    return lambda handler: handler.answer(429, retry_after=seconds) or True


PASSING: list[tuple[str, Callable[[Handler], bool], str]] = [
    ("main", silent, "silent"),
    ("config.json", silent, "silent"),
    ("main", later("86400"), "rate_limited"),
    ("cdn", later("86400"), "rate_limited"),
    ("main", lambda handler: handler.answer(503) or True, "unavailable"),
]


@pytest.mark.parametrize(("where", "change", "code"), PASSING)
def test_what_passes_is_tried_again(
    lab: Lab, hub: Hub, where: str, change: Callable[[Handler], bool], code: str
) -> None:
    hub.changes[where] = change
    fetch = lab.run(HASTY if change is silent else None)
    assert (fetch.state, fetch.code) == ("pending", code)
    assert fetch.next_attempt_at is not None
    assert fetch.next_attempt_at - fetch.created_at < due_fetches.LONGEST_DELAY * 1.1
    hub.changes.clear()
    lab.attempt().run()
    assert lab.look(fetch).state == "succeeded"


def test_slow_bytes_end_the_attempt(lab: Lab, hub: Hub) -> None:
    def slowly(handler: Handler) -> bool:
        hub.files[REPO]["config.json"] = hub.files[REPO]["config.json"].ljust(100_000)
        return drip(handler)

    hub.files[REPO]["config.json"] = hub.files[REPO]["config.json"].ljust(100_000)
    hub.changes["config.json"] = slowly
    assert lab.run(SLOW).code == "too_slow"


def test_a_second_fetch_shares_the_bytes_of_the_first(lab: Lab, hub: Hub) -> None:
    first, second = lab.create(), lab.create("twin")
    attempt = lab.attempt()
    assert Fetcher(lab.sessions, lab.settings, lambda _: None).claim() is None
    attempt.run()
    whole = len(hub.names("cdn"))
    lab.attempt().run()
    assert {lab.look(one).state for one in (first, second)} == {"succeeded"}
    assert len(hub.names("cdn")) == whole + 1  # its header, which shows that its owner may read it
    assert lab.count(Artifact) == 2


def test_a_cancelled_fetch_stops_at_once_and_keeps_nothing(lab: Lab, hub: Hub, large: Path) -> None:
    hub.add(REPO, large)
    going, cancelled = threading.Event(), threading.Event()

    def hang(handler: Handler) -> bool:
        if "-131071" in handler.headers["range"]:
            return False
        going.set()
        cancelled.wait(60)
        return True

    hub.changes["cdn"] = hang
    fetch = lab.create()
    attempt = lab.attempt()
    thread = threading.Thread(target=attempt.run)
    thread.start()
    assert going.wait(60)
    with lab.sessions.begin() as session:
        assert fetches.cancel(session, fetch.id).state == "cancelled"
    thread.join(60)
    cancelled.set()
    assert not thread.is_alive()
    assert (lab.look(fetch).state, lab.count(Upload)) == ("cancelled", 0)


def no_quota(lab: Lab, _: pytest.MonkeyPatch) -> None:
    with lab.sessions.begin() as session:
        session.execute(update(User).values(max_stored_bytes=100))


def full_disk(_: Lab, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(room, "FREE_BYTES", 2**62)


def low_limit(lab: Lab, _: pytest.MonkeyPatch) -> None:
    lab.settings = lab.settings.model_copy(update={"max_hub_bytes": 1000})


def few_parameters(lab: Lab, _: pytest.MonkeyPatch) -> None:
    lab.settings = lab.settings.model_copy(update={"max_model_parameters": 1000})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (no_quota, "The quota is 100 bytes"),
        (full_disk, "The server's disk is too full"),
        (low_limit, "ADAPTLAB_MAX_HUB_BYTES"),
        (few_parameters, "ADAPTLAB_MAX_MODEL_PARAMETERS"),
    ],
)
def test_neither_quota_nor_disk_nor_limits_are_exceeded(
    lab: Lab,
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Lab, pytest.MonkeyPatch], None],
    words: str,
) -> None:
    lab.settings.data_dir.mkdir(parents=True, exist_ok=True)
    change(lab, monkeypatch)
    fetch = lab.run()
    assert fetch.state == "failed"
    assert fetch.error is not None
    assert words in fetch.error
    assert [one.start for one in hub.asked if one.host == "cdn"] == [0]  # the header alone


ALLOWED = [
    "https://huggingface.co/lab/x",
    "https://HuggingFace.co:443/",
    "https://cdn-lfs.hf.co/x",
    "https://cdn-lfs.us.huggingface.co/x",
    "https://mirror.lab:8443/x",
]
REFUSED = [
    "http://huggingface.co/",
    "http://cdn-lfs.hf.co/",
    "https://hf.co/",
    "https://cdn-lfs.hf.co:8443/",
    "https://huggingface.co:444/",
    "https://evilhuggingface.co/",
    "https://x.hf.co.evil.example/",
    "https://huggingface.co@evil.example/",
    "https://mirror.lab/",
    "https://169.254.169.254/",
    "https://[::1]/",
    "file:///etc/passwd",
]


def test_only_the_hub_and_its_hosts_are_asked() -> None:
    named = ("*.huggingface.co", "*.hf.co", "mirror.lab:8443")
    hosts = HubHosts(endpoint="https://huggingface.co", named=named)
    assert [url for url in ALLOWED if not hosts.allows(url)] == []
    assert [url for url in REFUSED if hosts.allows(url)] == []


def test_a_name_below_a_pattern_has_a_public_address() -> None:
    """What counts is the address that is connected to."""
    hosts = HubHosts(endpoint="https://huggingface.co", named=("*.hf.co",))
    with pytest.raises(AddressRefused):
        HubNetwork(HubAccess(hosts=hosts)).connect_tcp("localhost", 9)


@pytest.mark.long("chaos at length", but=1)
@pytest.mark.parametrize("seed", range(1, 8))
def test_a_killed_fetch_goes_on_after_its_last_chunk(
    lab: Lab, hub: Hub, large: Path, tmp_path: Path, seed: int
) -> None:
    """Killed with SIGKILL amid the file, at places drawn by the seed."""
    hub.add(REPO, large)
    content, draw = (large / WEIGHTS).read_bytes(), random.Random(seed)
    fetch, stored = lab.create(), 0
    for place in sorted(draw.randrange(1, len(content)) for _ in range(2)):
        reached, over = threading.Event(), threading.Event()
        hub.changes["cdn"] = holding_at(place, reached, over)
        lab.make_due()
        process = subprocess.Popen([sys.executable, "-m", "tests.fetching"], env=lab.environment())
        assert reached.wait(60)
        until(lambda: lab.look(fetch).bytes_done >= place // CHUNK_BYTES * CHUNK_BYTES, "rows")  # noqa: B023
        process.kill()
        process.wait()
        over.set()
        assert lab.count(UploadedFolder) == 0
        stored = place // CHUNK_BYTES * CHUNK_BYTES
    hub.changes.clear()
    asked = len(hub.asked)
    lab.attempt().run()
    assert lab.look(fetch).state == "succeeded"
    starts = [one.start for one in hub.asked[asked:] if one.host == "cdn"]
    assert starts == [0, stored]  # the header, and the rest
    assert (lab.count(Upload), lab.count(Artifact), lab.count(UploadedFolder)) == (0, 2, 1)


def test_proxies_of_the_environment_are_used(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub of the test plays the proxy of a hub that has no address."""
    monkeypatch.setenv("HTTP_PROXY", hub.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    hosts = HubHosts(endpoint="http://hub.invalid")
    with HubChild(HubAccess(hosts=hosts)) as child:
        assert child.info(REPO, "main").commit == COMMIT
    monkeypatch.setenv("NO_PROXY", "hub.invalid")
    with HubChild(HubAccess(hosts=hosts)) as child, pytest.raises(HubFailure) as raised:
        child.info(REPO, "main")
    assert raised.value.code == "unreachable"
