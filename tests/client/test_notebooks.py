"""Studies, frames, arrays and pictures, as a notebook uses them."""

import json
import sys
import threading
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas
import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.answering import a_study_answer, identity
from tests.comparing import ENOUGH_BASES, a_measured_study, as_known, run_all
from tests.making import (
    a_base_model,
    a_made_up_ledger,
    a_summary,
    an_adapt_document,
    an_attention_map,
)

from adaptlab.runs import events
from adaptlab_client import Client, Conflict, Curve, Curves, Picture, SeveralMaps, StudyView
from adaptlab_client.display.progress_bars import bars, steps

Sessions = sessionmaker[Session]


@pytest.fixture
def base(sessions: Sessions) -> None:
    """A base model that can be adapted."""
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)


@pytest.mark.long("walks through commands and documents")
def test_a_study_is_run_waited_for_and_compared(
    client: Client, sessions: Sessions, base: None, tmp_path: Path
) -> None:
    run = client.studies.run(a_measured_study())
    assert (run.name, run.study.terminal, repr(run)) == (
        "small", False, "<StudyRun small: running>",
    )  # fmt: skip
    working = threading.Thread(target=run_all, args=(sessions, as_known))
    working.start()
    try:
        found = run.wait(timeout=300).comparison().to_pandas()
    finally:
        working.join(300)
    assert run.study.succeeded
    lora = found[(found.method == "lora") & (found.budget == 32)].iloc[0]
    assert (lora.score, lora.parameters, bool(lora.could_be_best)) == (0.75, 32, True)
    assert len([*run.jobs()]) == 7
    assert run.plot("ranks", budget=64).svg().startswith("<svg")
    assert run.bundle(tmp_path / "small.zip").stat().st_size > 10_000


def test_running_again_goes_on_with_the_same_study(
    client: Client, sessions: Sessions, base: None
) -> None:
    spec = a_measured_study()
    first = client.studies.run(spec)
    again = client.studies.run(json.loads(json.dumps(spec)))
    assert (again.id, len([*client.studies.list()])) == (first.id, 1)
    with sessions.begin() as session:
        from sqlalchemy import delete

        from adaptlab_db.tables import IdempotencyKey

        session.execute(delete(IdempotencyKey))  # as after a week
    assert client.studies.run(spec).id == first.id
    with pytest.raises(Conflict):
        client.studies.run(a_measured_study(seeds=2))


def a_study(**jobs: tuple[str, int, int]) -> StudyView:
    cells = [
        {"base_model": "b", "task": "t", "method": "m", "budget": 1, "role": "method",
         "over_budget": False, "trainable_parameters": 1, "state": "running",
         "jobs": [{"id": identity(name), "state": state, "terminal": state != "running",
                   "reason": None, "error": None, "reused": False, "seeds": [],
                   "step": step, "total_steps": total}]}
        for name, (state, step, total) in jobs.items()
    ]  # fmt: skip
    return a_study_answer(jobs={"running": 1, "failed": 1}, cells=[*cells, cells[0]])


def test_every_job_counts_once_and_one_that_ended_wholly() -> None:
    assert steps(a_study(a=("running", 3, 10), b=("failed", 2, 5))) == (8, 15)


@pytest.mark.parametrize("kind", ["rich", "tqdm", "none"])
def test_bars_say_how_far_a_study_is(
    kind: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    monkeypatch.setenv("COLUMNS", "120")
    with bars(kind) as tell:
        tell(a_study(a=("running", 3, 10)))
        tell(a_study(a=("succeeded", 10, 10)))
    written = capsys.readouterr()
    assert written.out == ""
    assert ("small: 1 running, 1 failed" in written.err) == (kind != "none")


def test_nobody_looks_at_bars_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with bars() as tell:
        tell(a_study(a=("running", 3, 10)))
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def compared(client: Client, sessions: Sessions, base: None) -> Any:
    client.studies.create(a_measured_study())
    run_all(sessions, as_known)
    return client.studies.comparison("small")


def test_a_comparison_is_drawn_as_the_dashboard_draws_it(
    client: Client, compared: Any, tmp_path: Path
) -> None:
    import httpx

    token = client._connection.server.token
    page = httpx.get(
        f"{client.url}/studies/small/charts",
        params={"table": 0, "theme": "light"},
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
        timeout=60,
    ).json()
    assert compared.plot().spec == page["curves"]
    assert compared.plot("differences", budget=64).spec == page["1-differences"]
    assert compared.plot("learning_rates").spec == page["0-sweeps"]
    picture = compared.plot("ranks", theme="dark")
    assert isinstance(picture, Picture)
    bundle = picture._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert "Possible ranks" in bundle["text/plain"]
    assert picture.png().startswith(b"\x89PNG")
    for name in ("a.svg", "a.png", "a.json"):
        assert picture.save(tmp_path / name).stat().st_size > 500
    with pytest.raises(ValueError, match=r"use \.svg"):
        picture.save(tmp_path / "a.gif")
    with pytest.raises(ValueError, match="no budget 7"):
        compared.plot("ranks", budget=7)
    with pytest.raises(ValueError, match="no chart 'nope'; there are budgets, ranks"):
        compared.plot(cast("Any", "nope"))
    with pytest.raises(ValueError, match="no table 3"):
        compared.plot(table=3)


def test_nothing_is_drawn_before_there_is_a_score(client: Client, base: None) -> None:
    run = client.studies.run(a_measured_study())
    with pytest.raises(ValueError, match="nothing to draw"):
        run.plot()


@pytest.fixture
def measured(client: Client, sessions: Sessions, base: None) -> str:
    """A job with attention of two sources and two curves."""
    job = client.jobs.submit(an_adapt_document()).id
    ledger = a_made_up_ledger(sessions)
    claim = ledger.claim(ledger.register_worker("laptop", 4711, ["cpu"]), ["cpu"])
    assert claim is not None
    for source in ("base", "adapted"):
        captured = an_attention_map(source=source, summaries=(a_summary(), a_summary(head=1)))
        array = np.linspace(0, 1, int(np.prod(captured.shape)), dtype=np.float16)
        path = Path(f"attention/0-{source}.npy")
        content = _npy(array.reshape(captured.shape))
        event = events.AttentionCaptured(attention=captured, path=path)
        sha256 = ledger.put_artifact(claim, [content]).sha256
        ledger.record(claim, [event], {path: sha256})
    points = [
        events.MetricPoint(replicate=r, name=name, step=step, value=None if step == 2 else 1.5)
        for name in ("train_loss", "validation_loss") for r in (0, 1) for step in (1, 2)
    ]  # fmt: skip
    ledger.record(claim, [events.Metrics(points=tuple(points))])
    return str(job)


def _npy(array: Any) -> bytes:
    import io

    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def test_attention_is_frame_array_and_picture(client: Client, measured: str) -> None:
    maps = client.jobs.attention(measured)
    heads = maps.to_pandas()
    assert [*heads.columns[:5]] == ["source", "replicate", "seed", "layer", "head"]
    assert len(heads) == 4
    one = client.jobs.attention(measured, source="adapted")
    assert one.numpy().shape == one[0].shape
    with pytest.raises(SeveralMaps):
        maps.numpy()
    assert maps.plot().svg().count("adapted") >= 1
    assert "base" in json.dumps(maps.plot().spec)
    with pytest.raises(IndexError):
        one[0].plot(layer=99)


def test_curves_are_frame_and_picture(client: Client, measured: str) -> None:
    curves = client.jobs.metrics(measured)
    assert isinstance(curves, Curves)
    found = curves.to_pandas()
    assert [*found.columns] == ["name", "replicate", "step", "value"]
    assert (len(found), int(found.value.isna().sum())) == (8, 4)
    assert curves.plot("validation_loss").svg().startswith("<svg")
    with pytest.raises(ValueError, match="no curve 'loss'"):
        curves.plot("loss")
    assert [*Curves(()).to_pandas().columns] == ["name", "replicate", "step", "value"]


def test_without_pandas_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = Curve(name="loss", replicate=0, steps=(1,), values=(0.5,), total_points=1)
    assert isinstance(Curves((curve,)).to_pandas(), pandas.DataFrame)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        Curves((curve,)).to_pandas()
    assert [*Curves((curve,)).rows()] == [{"name": "loss", "replicate": 0, "step": 1, "value": 0.5}]
