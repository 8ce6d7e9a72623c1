"""A client that submits jobs until each is acknowledged.

It goes on whatever happens to the API.
"""

import http.client
import json
import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

import httpx
from tests.chaos.world import World
from tests.making import an_adapt_document

LABEL = "number"
AGAIN_SECONDS = 0.1


class Submitter:
    """Submits one job a number of steps, in a thread of its own.

    Attributes:
        acknowledged: the id that was answered for each number.
        errors: answers that a client should never get, such as 500.

    Args:
        world: whose API is asked.
        steps: of each job; its place is its number.
        pause: seconds between two jobs.
        late: how many of the last jobs are held back until `let_go`.
        lost_answers: the share of requests whose answer is not waited for; they are sent again.
    """

    def __init__(
        self,
        world: World,
        steps: Sequence[int],
        pause: float,
        lost_answers: float,
        seed: int,
        late: int = 0,
    ) -> None:
        self.acknowledged: dict[int, UUID] = {}
        self.errors: list[str] = []
        self._world = world
        self._steps = steps
        self._pause = pause
        self._lost_answers = lost_answers
        self._chance = random.Random(seed)
        self._early = len(steps) - late
        self._may_go_on = threading.Event()
        self._closed = threading.Event()
        self._client = httpx.Client(base_url=world.url, headers=world.headers, timeout=20)
        self._thread = threading.Thread(target=self._submit_all, daemon=True)

    @property
    def is_done(self) -> bool:
        return len(self.acknowledged) == len(self._steps)

    @property
    def is_early_done(self) -> bool:
        """Whether all that is not held back was acknowledged."""
        return len(self.acknowledged) >= self._early

    def let_go(self) -> None:
        """Submit what was held back."""
        self._may_go_on.set()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._may_go_on.set()
        self._thread.join(30)
        self._client.close()

    def _submit_all(self) -> None:
        for number, steps in enumerate(self._steps):
            if number >= self._early:
                self._may_go_on.wait()
            body = an_adapt_document(
                training={"steps": steps, "batch_size": 4}, seeds=1, labels={LABEL: str(number)}
            )
            while not self._submit(number, body) and not self._closed.wait(AGAIN_SECONDS):
                pass
            if self._closed.wait(self._pause):
                return

    def _submit(self, number: int, body: dict[str, object]) -> bool:
        """One try with the job's own key; whether the job was acknowledged."""
        headers = {"Idempotency-Key": f"job-{number}"}
        if self._chance.random() < self._lost_answers:
            self._send_only(headers, body)
        try:
            answer = self._client.post("/v1/jobs", json=body, headers=headers)
        except httpx.TransportError:
            return False
        if answer.status_code in (200, 201):
            self.acknowledged[number] = UUID(answer.json()["id"])
            return True
        if answer.status_code not in (429, 503):  # the two that ask for patience
            self.errors.append(f"{answer.status_code} for job {number}: {answer.text}")
        return False

    def _send_only(self, headers: dict[str, str], body: dict[str, object]) -> None:
        """Send the request and hang up before the answer."""
        connection = http.client.HTTPConnection(self._world.url.removeprefix("http://"), timeout=5)
        named = headers | self._world.headers | {"Content-Type": "application/json"}
        with suppress(OSError):
            connection.request("POST", "/v1/jobs", json.dumps(body), named)
            time.sleep(self._chance.uniform(0, 0.3))
        connection.close()
