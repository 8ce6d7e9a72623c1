"""Adapters that are pushed to a hub, by the real client library."""

import json
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import psutil
import pytest
import yaml
from sqlalchemy.orm import Session, sessionmaker
from tests.adapters import an_adapter
from tests.hub_lab import Lab
from tests.hub_server import Handler, Hub, a_hub

from adaptlab.errors import InvalidSpec
from adaptlab_answers.hub import HubFetchView
from adaptlab_services.errors import StateConflict
from adaptlab_services.hub import fetches, hub_tokens, pushes
from adaptlab_services.hub.hub_tokens import NewHubToken
from adaptlab_services.hub.pushes import NewHubPush
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
REPO = "lab/adapter"
FILES = {"README.md", "adapter_config.json", "adapter_model.safetensors"}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with a_hub() as hub:
        yield hub


class Pushes(Lab):
    """A server's side of pushes of one checkpoint."""

    checkpoint: int

    def token(self, token: str) -> None:
        with self.sessions.begin() as session:
            hub_tokens.store(session, self.who, NewHubToken(token=token), None, self.settings)

    def ask(self, repository: str = REPO, *, public: bool = False) -> HubFetchView:
        new = NewHubPush(repository=repository, is_public=public)
        with self.sessions.begin() as session:
            return pushes.create(session, self.who, self.checkpoint, new, self.settings)[0]

    def pushed(self) -> HubFetchView:
        push = self.ask()
        self.attempt().run()
        return self.look(push)


@pytest.fixture
def lab(
    request: pytest.FixtureRequest,
    sessions: Sessions,
    settings: Settings,
    hub: Hub,
    ada: Principal,
) -> Pushes:
    lab = Pushes(sessions, hub.settings(settings), ada)
    with sessions.begin() as session:
        lab.checkpoint, *_ = an_adapter(
            session, getattr(request, "param", {"name": "lora", "rank": 2})
        )
    lab.token(hub.token)
    return lab


def test_a_push_makes_one_private_repository_and_one_commit(lab: Pushes, hub: Hub) -> None:
    first = lab.pushed()
    assert (first.state, first.checkpoint_id, first.error) == ("succeeded", lab.checkpoint, None)
    assert (hub.created, hub.files[REPO].keys()) == ([(REPO, "private")], FILES)
    config = json.loads(hub.files[REPO]["adapter_config.json"])
    assert config["base_model_name_or_path"] is None
    again = lab.pushed()
    with lab.sessions() as session:
        assert first.job_id
        assert len(fetches.pushes_of(session, first.job_id)) == 2
    assert (again.state, again.commit) == ("succeeded", first.commit)
    assert hub.commits == [REPO]
    to_cdn = [one.headers for one in hub.asked if one.host == "cdn"]
    assert len(to_cdn) == 1
    assert not any("authorization" in headers for headers in to_cdn)


def test_the_card_says_what_was_found(lab: Pushes, hub: Hub) -> None:
    lab.pushed()
    text = hub.files[REPO]["README.md"].decode()
    _, head, body = text.split("---\n", 2)
    card = yaml.safe_load(head)
    assert card == {"library_name": "peft", "tags": ["adaptlab", "lora"]}
    for said in (
        "# LoRA for sort_descending on tiny-gpt2",
        "rank 2",
        "this is the adapter of seed 1",
        "PeftModel.from_pretrained(base, 'lab/adapter')",
        "## What was not tested",
    ):
        assert said in body
    assert lab.who.name not in text.split()


def test_a_lost_answer_makes_no_second_commit(lab: Pushes, hub: Hub) -> None:
    """The next attempt finds the files there."""
    hub.loses_commits = True
    push = lab.pushed()
    assert (push.state, push.code) == ("pending", "cut")
    hub.loses_commits = False
    lab.attempt().run()
    assert lab.look(push).state == "succeeded"
    assert hub.commits == [REPO]


@pytest.mark.parametrize("commits", [False, True], ids=["before", "after"])
def test_a_kill_around_the_commit_leaves_one(commits: bool, lab: Pushes, hub: Hub) -> None:
    def kill(handler: Handler) -> None:
        if commits:
            handler.written(urlsplit(handler.path).path)
        for child in psutil.Process().children():
            if "adaptlab_services.hub.hub_process" in child.cmdline():
                child.kill()
        handler.close_connection = True

    hub.changes["main"] = _once("/commit/", kill)
    push = lab.pushed()
    assert (push.state, push.code) == ("pending", "ended")
    lab.attempt().run()
    assert lab.look(push).state == "succeeded"
    assert len([one for one in hub.asked if one.host == "cdn"]) == 1
    assert hub.commits == [REPO]


def _once(part: str, change: Callable[[Handler], None]) -> Callable[[Handler], bool]:
    """Change the first answer whose path has a part."""
    left = [change]

    def changed(handler: Handler) -> bool:
        if part not in handler.path or not left:
            return False
        left.pop()(handler)
        return True

    return changed


REFUSALS = {
    "bad_token": ("create", 401, {"x_error_message": "Invalid credentials in Authorization"}),
    "forbidden": ("create", 403, {}),
    "rate_limited": ("main", 429, {"retry_after": "86400"}),
    "changed": ("main", 412, {}),
}


@pytest.mark.parametrize("code", REFUSALS)
def test_what_a_hub_refuses(code: str, lab: Pushes, hub: Hub) -> None:
    name, status, headers = REFUSALS[code]
    hub.changes[name] = lambda handler: handler.answer(status, **headers) or True
    push = lab.pushed()
    waits = code in ("rate_limited", "changed")
    assert (push.code, push.state) == (code, "pending" if waits else "failed")
    assert push.error
    assert hub.token not in push.error
    assert not hub.commits


def test_repositories_of_others_and_public_ones_are_left_alone(lab: Pushes, hub: Hub) -> None:
    hub.files[REPO] = {"README.md": b"ours", "pytorch_model.bin": b"weights"}
    hub.members["private"] = True
    assert lab.pushed().code == "not_ours"
    hub.members |= {"private": False, "cardData": {"tags": ["adaptlab"]}}
    assert lab.pushed().code == "is_public"
    assert not hub.commits
    assert hub.files[REPO]["README.md"] == b"ours"


def test_two_pushes_at_once_are_one(lab: Pushes, hub: Hub) -> None:
    first = lab.ask()
    assert lab.ask().id == first.id
    other = lab.ask("lab/other")
    assert other.id != first.id
    lab.attempt().run()
    lab.attempt().run()
    assert sorted(hub.commits) == [REPO, "lab/other"]


def test_a_cancelled_push_is_not_tried_again_beside_its_successor(lab: Pushes) -> None:
    first = lab.ask()
    with lab.sessions.begin() as session:
        fetches.cancel(session, first.id)
    second = lab.ask()
    with lab.sessions.begin() as session, pytest.raises(StateConflict, match="Another fetch"):
        fetches.retry(session, first.id, lab.settings)
    assert lab.look(second).state == "pending"


def test_refusals_that_need_no_hub(lab: Pushes) -> None:
    with pytest.raises(InvalidSpec, match="licence"):
        lab.ask(public=True)
    with lab.sessions.begin() as session:
        hub_tokens.remove(session, lab.who, lab.settings)
    with pytest.raises(InvalidSpec, match="set-token"):
        lab.ask()


@pytest.mark.parametrize("lab", [{"name": "bitfit"}], indirect=True)
def test_what_has_no_form_says_what_has(lab: Pushes) -> None:
    push = lab.pushed()
    assert push.code == "no_peft_form"
    assert push.error is not None
    assert "bitfit has no PEFT form" in push.error
