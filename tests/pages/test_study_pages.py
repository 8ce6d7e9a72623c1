"""The pages of studies and chosen jobs over HTTP: text and order."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import Run, a_measured_job, run_all
from tests.making import a_pretrain_document, an_adapt_spec
from tests.pages.made_up_studies import a_base, a_study, failing, ordinary, run_some
from tests.pages.reading import HERE, PAGE, text_of
from tests.pages.visitors import HOSTILE, HOSTILE_LABEL
from tests.patience import awaited_comparisons
from tests.watching import of_jobs, statements

from adaptlab.specs.spec import PretrainSpec, ResolvedSpec
from adaptlab_answers.studies import StudyView
from adaptlab_api.app import create_app
from adaptlab_api.pages.studies import page as study_page
from adaptlab_services.jobs import jobs
from adaptlab_services.people import tokens
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings), follow_redirects=False, headers=PAGE) as made:
        yield made


@pytest.fixture
def signed_in(client: TestClient, token: str) -> TestClient:
    answer = client.post("/login", data={"token": token, "next": "/"}, headers=HERE)
    assert answer.status_code == 303
    return client


@pytest.fixture
def admin(sessions: Sessions, token: str) -> Principal:
    """The admin, on a server that has the base model of the studies."""
    return an_admin(sessions, token)


@pytest.fixture(scope="module")
def shared_admin(shared_sessions: Sessions, shared_token: str) -> Principal:
    """The admin of the module's own database, which has the base model."""
    return an_admin(shared_sessions, shared_token)


def an_admin(sessions: Sessions, token: str) -> Principal:
    a_base(sessions)
    with sessions.begin() as session:
        return tokens.authenticate(session, token)


@pytest.fixture(scope="module")
def six_seeds(shared_sessions: Sessions, shared_admin: Principal) -> StudyView:
    """A study that was measured with six seeds per cell."""
    study = a_study(shared_sessions, shared_admin, name="six", seeds=6)
    run_all(shared_sessions, ordinary)
    return study


@pytest.fixture(scope="module")
def six_seeds_page(shared_reader: TestClient, six_seeds: StudyView) -> str:
    """The page of that study."""
    with awaited_comparisons():
        return shared_reader.get(f"/studies/{six_seeds.name}").text


@pytest.fixture(scope="module")
def two_tables(shared_sessions: Sessions, shared_admin: Principal) -> str:
    """The address of a measured study of two tasks."""
    ways = ("ascending", "descending")
    tasks = [{"name": f"sort_{way}", "length": 3, "alphabet": 4} for way in ways]
    study = a_study(shared_sessions, shared_admin, name="two", tasks=tasks)
    run_all(shared_sessions, ordinary)
    return f"/studies/{study.name}"


@pytest.fixture(scope="module")
def whole_page(shared_reader: TestClient, two_tables: str) -> str:
    """The page of that study with both of its tables."""
    with awaited_comparisons():
        return shared_reader.get(two_tables).text


@pytest.fixture
def one_table_per_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that end after the first table, because it has a row."""
    monkeypatch.setattr(study_page, "MOST_ROWS", 1)


def rows_of(page: str, identity: str) -> list[str]:
    table = page.partition(f'id="{identity}"')[2].partition("</table>")[0]
    return [text_of(row).strip() for row in table.split("<tr>")[2:]]


def table_of(page: str, number: int) -> str:
    (section,) = re.findall(
        rf'<section class="compared" id="table-{number}".*?\n</section>', page, re.DOTALL
    )
    return re.sub(r"term-[a-z-]+-[0-9]+", "term", section)  # numbered on each page


def facts_of(page: str) -> str:
    return page.partition('<dl class="facts">')[2].partition("</dl>")[0]


def jobs_of(study: StudyView, *methods: str) -> list[UUID]:
    return [
        job.id
        for method in methods
        for cell in study.cells
        if (cell.method, cell.budget) == (method, 64)
        for job in cell.jobs
    ]


def compare_address(*job_ids: UUID) -> str:
    return "/compare?" + "&".join(f"job={one}" for one in job_ids)


def test_an_empty_server_tells_how_to_make_the_first_study(signed_in: TestClient) -> None:
    page = signed_in.get("/studies").text
    assert "No studies yet" in page
    assert "/v1/studies" in page
    assert "No jobs selected" in signed_in.get("/compare").text


def test_the_list_says_how_far_each_study_is(
    signed_in: TestClient, sessions: Sessions, admin: Principal
) -> None:
    a_study(sessions, admin, name="done")
    run_all(sessions, ordinary)
    a_study(sessions, admin, name="holes", seeds=2)
    run_all(sessions, failing("lora"))
    a_study(sessions, admin, name="live", seeds=4)
    run_some(sessions, 2)
    page = signed_in.get("/studies").text
    live, holes, done = (text_of(row) for row in page.split("<tr>")[2:])
    # Two references and four methods at two budgets, and the job of the base model.
    assert "succeeded done sort_descending(length=3, alphabet=4) 11 of 11" in done
    assert "incomplete holes sort_descending(length=3, alphabet=4) 11 of 11" in holes
    assert "9 succeeded , 2 failed" in holes
    assert "running live sort_descending(length=3, alphabet=4) 1 of 11" in live
    assert "8 queued , 2 running , 1 succeeded" in live
    assert 'data-poll="5"' in page


def test_a_study_with_few_rows_shows_all_of_its_tables_on_one_page(whole_page: str) -> None:
    assert 'href="#table-1"' in whole_page
    assert "Next tables" not in whole_page


@pytest.mark.usefixtures("one_table_per_page")
def test_a_large_study_shows_its_tables_on_several_pages(
    shared_reader: TestClient, two_tables: str, whole_page: str
) -> None:
    """Twelve tables at once took 2.5 s of processor time and 4.6 MB."""
    pages = [shared_reader.get(two_tables, params={"table": number}).text for number in (0, 1)]
    for number, shown in enumerate(pages):
        other = 1 - number
        assert f"Table {number + 1} of 2" in text_of(shown)
        assert f'href="?table={other}#table-{other}"' in shown
        assert table_of(shown, number) == table_of(whole_page, number)
        assert f'id="table-{other}"' not in shown
        assert facts_of(shown) == facts_of(whole_page)
    assert shared_reader.get(two_tables).text == pages[0]


@pytest.mark.usefixtures("one_table_per_page")
def test_a_table_after_the_last_one_is_not_found(
    shared_reader: TestClient, two_tables: str
) -> None:
    beyond = shared_reader.get(two_tables, params={"table": 2})
    assert beyond.status_code == 404
    assert "There is no such table" in beyond.text


def test_the_report_has_methods_in_the_order_of_the_best_set(six_seeds_page: str) -> None:
    _, _, large = six_seeds_page.partition('id="verdicts"')[2].split('class="report"', 2)
    rows = text_of(large.partition("</table>")[0])
    assert "LoRA" in rows.partition("Prefix-tuning")[0]
    assert rows.index("reference") > rows.index("fails")
    detail = rows_of(six_seeds_page, "table-0-0")
    assert "7 unused 3 trials × 6 seeds" in next(row for row in detail if "adapter" in row)
    assert "reference" in next(row for row in detail if "Full fine-tuning" in row)


def test_the_report_follows_the_title_and_is_not_repeated(six_seeds_page: str) -> None:
    parts = ("</h1>", 'id="verdicts"', "At up to 32 trained parameters", 'id="facts"')
    places = [six_seeds_page.index(part) for part in (*parts, 'id="table-0"')]
    assert places == sorted(places)
    assert six_seeds_page.count("At up to 32 trained parameters") == 1


def test_the_reports_of_several_tables_name_them(whole_page: str) -> None:
    top = text_of(whole_page.partition('id="verdicts"')[2].partition('class="facts"')[0])
    for way in ("ascending", "descending"):
        assert re.search(rf"sort_{way}\(length=3, alphabet=4\) on tiny-sort At up to 32", top)


def test_verdicts_are_grouped_and_name_the_better_one_first(six_seeds_page: str) -> None:
    page = six_seeds_page
    verdicts = text_of(page.partition('id="table-0-1-verdicts"')[2].partition("</table>")[0])
    told, _, more = verdicts.partition("Order not known")
    assert "Better or worse" in told
    assert "LoRA is better than prefix-tuning" in told
    assert "Prefix-tuning is better than" not in told
    assert "is better than" not in more


def test_diagnoses_say_that_they_come_from_measurements_and_cite_them(
    signed_in: TestClient, sessions: Sessions, admin: Principal
) -> None:
    a_study(sessions, admin, name="done", seeds=8)  # enough to order successful seeds
    run_all(sessions, ordinary)
    page = signed_in.get("/studies/done").text
    diagnosis = text_of(page.partition("likely causes")[2])
    assert re.search(r"Soft prompt at 32 scores \d+\.\d % on the test items", diagnosis)
    assert "Not measured: " in diagnosis
    assert "{" not in diagnosis.partition("score below the best")[0]
    assert "Diagnosis from measurements, not a proof." in diagnosis
    assert "Learned the task, but score below the best: LoRA at 32" in diagnosis
    kept = text_of(page.partition(">Retention ")[2].partition("</table>")[0])
    assert "Full fine-tuning" in kept
    assert "\N{MINUS SIGN}90.0" in kept
    assert "No method is shown to be dominated" in page.partition(">Gain against retention")[2]


def test_warnings_stand_above_the_table(
    signed_in: TestClient, sessions: Sessions, admin: Principal
) -> None:
    study = a_study(sessions, admin, name="holes", seeds=2, budgets=[16, 64])
    run_all(sessions, of_two_versions)
    page = signed_in.get("/studies/holes").text
    above, _, below = page.partition('class="scores"')
    assert page.index("Not comparable") < page.index('class="facts"')
    assert "/environment/code_version" in above or "code version" in above.replace("_", " ")
    assert "Few seeds" in above
    assert "Scores are missing" in above
    assert 'class="notice bad"' in above
    lacking = text_of(below.partition("Missing from the table")[2].partition("</section>")[0])
    assert "LoRA at 64 failed (diverged): The loss is not finite." in lacking
    left_out = text_of(below.partition(">Left out<")[2].partition("</table>")[0])
    assert re.search(r"adapter tiny-sort 16 .* 25", left_out)
    assert re.search(r"LoRA tiny-sort 16 .* 32", left_out)
    assert str(jobs_of(study, "lora")[0]) in page


def of_two_versions(spec: ResolvedSpec) -> Run:
    run = failing("lora")(spec)
    newer = (spec.method or {}).get("name") == "soft_prompt"
    return Run(right=run.right, code_version="0.2.0") if newer else run


def test_a_study_without_scores_says_what_is_to_come(
    signed_in: TestClient, sessions: Sessions, admin: Principal
) -> None:
    a_study(sessions, admin, name="live")
    run_some(sessions, 1)
    page = signed_in.get("/studies/live").text
    assert re.search(r"No scores yet\. The first is expected in about \d", page)
    assert "Missing from the table" not in page
    assert 'data-poll="4"' in page
    assert signed_in.get("/studies/live/charts").status_code == 204


def test_a_study_leads_to_its_jobs_and_its_base_model_and_they_back(
    signed_in: TestClient, sessions: Sessions, admin: Principal
) -> None:
    study = a_study(sessions, admin, name="live")
    page = signed_in.get(f"/studies/{study.id}").text
    (job,) = jobs_of(study, "lora")
    assert f'href="/jobs/{job}"' in page
    assert f'href="/jobs/{study.base_models[0].job.id}"' in page
    assert 'href="/studies/live"' in signed_in.get(f"/jobs/{job}").text


def test_jobs_are_chosen_in_the_list_and_compared(
    shared_reader: TestClient, six_seeds: StudyView
) -> None:
    listed = shared_reader.get("/").text
    chosen = jobs_of(six_seeds, "lora", "prefix_tuning")
    for job in chosen:
        assert f'form="selected" name="job" value="{job}"' in listed
    page = shared_reader.get(compare_address(*chosen)).text
    assert [row.split()[0] for row in rows_of(page, "table-0-0")] == ["LoRA", "Prefix-tuning"]
    assert "LoRA is better than prefix-tuning" in text_of(page)


def test_what_is_not_there_is_a_page(signed_in: TestClient, admin: Principal) -> None:
    for name in ("nope", str(uuid4()), quote("<script>"), "UPPER", "x" * 200):
        answer = signed_in.get(f"/studies/{name}")
        assert answer.status_code == 404, name
        assert "There is no such study" in answer.text
        assert "<script>" not in answer.text
        assert signed_in.get(f"/studies/{name}/charts").status_code == 404
    for job in ("nope", str(uuid4()), quote("<script>")):
        answer = signed_in.get(f"/compare?job={job}")
        assert answer.status_code == 404
        assert "There is no such job" in answer.text
    assert signed_in.get("/studies?page_token=zzz").status_code == 400


def test_what_cannot_be_compared_is_a_page(
    signed_in: TestClient, sessions: Sessions, admin: Principal
) -> None:
    study = a_study(sessions, admin, name="live")
    answer = signed_in.get(compare_address(study.base_models[0].job.id))
    assert answer.status_code == 400
    assert "Name jobs that adapt a base model" in answer.text
    answer = signed_in.get(compare_address(*(uuid4() for _ in range(201))))
    assert answer.status_code == 400
    assert "the limit is 200" in answer.text


def test_charts_of_a_page_share_their_colours_and_are_there_by_name(
    signed_in: TestClient, sessions: Sessions, admin: Principal
) -> None:
    a_study(sessions, admin, name="done")
    run_all(sessions, ordinary)
    page = signed_in.get("/studies/done").text
    (address,) = set(re.findall(r'data-source="(/studies/[^"#]+)#', unescape(page)))
    charts = signed_in.get(address, params={"theme": "dark"}).json()
    named = re.findall(r'data-source="/studies/[^"#]+#([^"]+)"', page)
    assert sorted(charts) == sorted(named)
    # The curves; ranks, sweeps, differences and retention at two budgets.
    assert len(named) == 1 + 4 * 2
    domains = [
        charts["curves"]["encoding"]["color"]["scale"],
        charts["0-sweeps"]["encoding"]["color"]["scale"],
        charts["1-ranks"]["layer"][0]["encoding"]["color"]["scale"],
    ]
    assert domains[0] == domains[1] == domains[2]
    assert signed_in.get("/studies/done/charts?table=1").status_code == 204
    assert signed_in.get("/studies/done/charts?table=-1").status_code == 422


def test_hostile_names_of_methods_are_text(
    signed_in: TestClient, sessions: Sessions, admin: Principal
) -> None:
    methods = ["frozen", {"name": "lora", "label": HOSTILE_LABEL}, "prefix_tuning"]
    a_study(sessions, admin, name="done", methods=methods, labels={"note": HOSTILE})
    run_all(sessions, ordinary)
    page = signed_in.get("/studies/done").text
    assert "<script>document" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;document" in page
    assert "style=" not in page
    assert "unsafe" not in signed_in.get("/studies/done").headers["Content-Security-Policy"]


def test_a_study_takes_few_queries_however_many_cells_it_has(
    signed_in: TestClient, sessions: Sessions, admin: Principal
) -> None:
    a_study(sessions, admin, name="small", budgets=[64])
    a_study(sessions, admin, name="large", budgets=[64, 96, 128, 160])
    run_all(sessions, ordinary)
    with statements() as sent:
        assert signed_in.get("/studies/small").status_code == 200
        few = len(of_jobs(sent))
        assert signed_in.get("/studies/large").status_code == 200
    assert len(of_jobs(sent)) == 2 * few
    assert few < 32


def test_pages_state_routing_and_reversibility(
    signed_in: TestClient, sessions: Sessions, admin: Principal
) -> None:
    def known(spec: ResolvedSpec) -> Run:
        return Run(right=380) if spec.kind == "pretrain" else Run(right=390, own_task=(380, 340))

    with sessions.begin() as session:
        base = PretrainSpec.model_validate(a_pretrain_document(name="own", seeds=3))
        jobs.create(session, admin, base)
    run_all(sessions, known)
    pages = []
    for mode in ("always_on", "routed"):
        spec = an_adapt_spec(
            **a_measured_job(
                base_model="own", method={"name": "lora", "rank": 1}, budget={},
                evaluation={"mode": mode}, seeds=[0, 1, 2],
            )
        )  # fmt: skip
        with sessions.begin() as session:
            job = jobs.create(session, admin, spec).job.id
        run_all(sessions, known)
        pages.append(text_of(signed_in.get(f"/jobs/{job}").text.partition('id="retention"')[2]))
    assert all("Reversible: detached, all outcomes are those of" in page for page in pages)
    assert ["zero forgetting by routing" in page for page in pages] == [False, True]
