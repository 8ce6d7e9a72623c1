"""Prompts that searches found, on the job's page and in its results."""

from html import unescape

from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.pages.made_up import ADAPTATION, PRETRAINING, MadeUpWorker, result

from adaptlab.runs.events import FoundPrompt
from adaptlab_services.results.results import replicates

Sessions = sessionmaker[Session]
FOUND = FoundPrompt(
    tokens=(3, 1),
    words=("<b>", "\u2581film"),
    log_perplexity=2.5,
    forward_passes=1234,
    backward_passes=600,
)


def test_a_prompt_is_shown_in_words_as_text(
    reader: TestClient, worker: MadeUpWorker, sessions: Sessions
) -> None:
    worker.complete(PRETRAINING, 0.99)
    method = {"name": "pez", "length": 2}
    job = worker.submit(ADAPTATION, method=method, budget={})
    claim = worker.claim()
    kept = result(0, 0).model_copy(update={"prompt": FOUND})
    worker.decide(claim, (kept, result(1, 1)))
    page = reader.get(f"/jobs/{job.id}").text
    shown = page.partition('id="prompts"')[2].partition("</section>")[0]
    assert "<code>&lt;b&gt;</code> <code>\u2581film</code>" in shown
    assert "1,234" in unescape(shown)
    assert shown.count('scope="row"') == 1
    with sessions() as session:
        first, second = replicates(session, job.id).data
    assert (first.prompt, second.prompt) == (FOUND, None)


def test_demonstrations_are_called_so(reader: TestClient, worker: MadeUpWorker) -> None:
    task = {"name": "episodes", "kinds": 4}
    plain = {"evaluation": {"samples": 10}, "capture": {}}
    worker.complete({**PRETRAINING, "task": task, **plain}, 0.99)
    changes = {"task": {**task, "shots": 0, "labels": "fixed"}, "budget": {}, **plain}
    job = worker.submit(ADAPTATION, method={"name": "in_context"}, **changes)
    claim = worker.claim()
    worker.decide(claim, (result(0, 0).model_copy(update={"prompt": FOUND}),))
    page = reader.get(f"/jobs/{job.id}").text
    shown = page.partition('id="prompts"')[2].partition("</section>")[0]
    assert '<h2 id="prompts-title">Demonstrations</h2>' in shown
    assert "bits of information" not in shown
    assert "demonstrations move the question, so it is not recorded" in page
