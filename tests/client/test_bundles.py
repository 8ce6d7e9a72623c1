"""Bundles checked without a server: a valid one, and changed ones."""

import io
import json
import random
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Address, command_line
from tests.comparing import ENOUGH_BASES, a_measured_study, as_known, run_all
from tests.making import a_base_model
from tests.patience import awaited_comparisons
from typer.testing import CliRunner, Result

from adaptlab.bundle import bounds
from adaptlab.bundle.bounds import pairs_of
from adaptlab.bundle.contents import ClaimEvidence, TableEvidence
from adaptlab.bundle.decision import plain
from adaptlab.errors import BrokenBundle
from adaptlab.statistics import Scores
from adaptlab_client import Client, DigestMismatch
from adaptlab_client.cli.main import application
from adaptlab_client.resources.bundles import save_bundle
from adaptlab_client.transport.connection import Connection, Retries
from adaptlab_client.transport.discovery import ServerAddress

Change = Callable[[bytes], bytes] | None
Members = dict[str, bytes]
NOTHING: Mapping[str, str | None] = {"ADAPTLAB_URL": None, "ADAPTLAB_TOKEN": None}


def check(*arguments: str | Path) -> Result:
    """`adaptlab bundle check` as somebody runs it who knows no server."""
    return CliRunner().invoke(application(), ["bundle", "check", *map(str, arguments)], env=NOTHING)


@pytest.fixture(scope="module")
def study(shared_client: Client, shared_sessions: sessionmaker[Session]) -> str:
    """The name of a measured study on the module's server."""
    with shared_sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
    name = shared_client.studies.create(a_measured_study(seeds=2)).name  # few seeds: a warning
    run_all(shared_sessions, as_known)
    return name


@dataclass(frozen=True)
class Saved:
    """A bundle alone in a folder, and what the command that saved it printed."""

    path: Path
    printed: Result


@pytest.fixture(scope="module")
def saved(shared_address: Address, study: str, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """The bundle of that study: drawing it takes seconds."""
    path = tmp_path_factory.mktemp("saved") / "decision.zip"
    with awaited_comparisons(), pytest.MonkeyPatch.context() as patch:
        invoke = command_line(shared_address, patch)
        return Saved(path, invoke("studies", "bundle", study, "--to", str(path)))


@pytest.fixture
def bundle(saved: Saved, tmp_path: Path) -> Path:
    """A copy of the bundle, for the test to change."""
    path = tmp_path / "bundle.zip"
    path.write_bytes(saved.path.read_bytes())
    return path


def members_of(bundle: Path) -> Members:
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(bundle: Path, members: Members, *, signed: bool = True) -> None:
    """Write the members, with a manifest of their new digests."""
    if signed and "manifest.json" in members:
        manifest = json.loads(members["manifest.json"])
        manifest["members"] = [
            {"name": name, "size": len(content), "sha256": sha256(content).hexdigest()}
            for name, content in sorted(members.items())
            if name != "manifest.json"
        ]
        members = members | {"manifest.json": json.dumps(manifest).encode()}
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_bundle_is_saved_alone_and_its_digest_is_printed(saved: Saved) -> None:
    printed = saved.printed
    assert (printed.exit_code, printed.stdout.strip()) == (0, str(saved.path)), printed.output
    assert sha256(saved.path.read_bytes()).hexdigest() in printed.stderr
    assert [path.name for path in saved.path.parent.iterdir()] == ["decision.zip"]


def test_a_bundle_with_the_expected_digest_is_valid_and_its_sentences_are_printed(
    bundle: Path,
) -> None:
    checked = check(bundle, "--sha256", sha256(bundle.read_bytes()).hexdigest())
    assert checked.exit_code == 0, checked.output
    assert "the bundle is valid" in checked.stdout
    claim = json.loads(members_of(bundle)["claim.json"])
    cells = [cell for table in claim["tables"] for cell in table["comparison"]["cells"]]
    assert len(cells) == 2
    assert all(cell["sentence"] in checked.stdout for cell in cells)


def test_a_bundle_with_another_digest_is_refused(bundle: Path) -> None:
    checked = check(bundle, "--sha256", "0" * 64)
    assert (checked.exit_code, f"expected {'0' * 64}" in checked.output) == (65, True)


def test_text_and_plots_are_drawn_again_to_the_byte(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    drawn = check(bundle, "--render", folder)
    assert drawn.exit_code == 0, drawn.output
    members = members_of(bundle)
    assert (folder / "decision.md").read_bytes() == members["decision.md"]
    plots = {f"plots/{path.name}" for path in (folder / "plots").iterdir()}
    assert plots == {name for name in members if name.startswith("plots/")}
    # Drawn on the same machine, they are the same to the byte.
    assert all((folder / name).read_bytes() == members[name] for name in plots)


def test_the_decision_starts_with_its_verdict(bundle: Path) -> None:
    members = members_of(bundle)
    (table,) = json.loads(members["claim.json"])["tables"]
    title, verdict, *_ = members["decision.md"].decode().split("\n\n")
    assert title.startswith("# Decision of the study ")
    headlines = " ".join(report["headline"] for report in table["reports"])
    assert verdict == f"**{plain(headlines)}**"


def test_nothing_is_drawn_into_a_folder_that_is_not_empty(bundle: Path, tmp_path: Path) -> None:
    drawn = check(bundle, "--render", tmp_path)
    assert drawn.exit_code == 2
    assert "is not empty" in drawn.output


def test_a_check_for_programs(bundle: Path) -> None:
    found = check(bundle, "--output", "json")
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["findings"] == []
    assert document["study"]["name"] == "small"
    assert document["claim"]["warnings"][0]["kind"] == "few_seeds"


def test_what_arrives_broken_is_not_kept(bundle: Path, tmp_path: Path) -> None:
    import httpx

    def answer(_: httpx.Request) -> httpx.Response:
        header = {"Content-Digest": "sha-256=:" + "A" * 43 + "=:"}
        return httpx.Response(200, content=bundle.read_bytes(), headers=header)

    server = ServerAddress("http://127.0.0.1:1", "token")
    with (
        Connection(
            server, retries=Retries(attempts=1), seconds=1, transport=httpx.MockTransport(answer)
        ) as connection,
        pytest.raises(DigestMismatch),
    ):
        save_bundle(connection, "small", tmp_path / "new.zip", {})
    assert not (tmp_path / "new.zip").exists()
    assert not (tmp_path / "new.zip.part").exists()


def test_packing_anew_changes_nothing(bundle: Path) -> None:
    """Repacking alone breaks nothing: checks find what was changed."""
    write(bundle, members_of(bundle))
    assert check(bundle).exit_code == 0


def in_json(member: str, change: Callable[[Any], None]) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        document = json.loads(members[member])
        change(document)
        members[member] = json.dumps(document).encode()

    return changed


def in_lines(change: Callable[[list[Any]], None]) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        jobs = [json.loads(line) for line in members["specs/jobs.jsonl"].splitlines()]
        change(jobs)
        members["specs/jobs.jsonl"] = b"".join(json.dumps(job).encode() + b"\n" for job in jobs)

    return changed


def in_text(member: str, old: bytes, new: bytes) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        assert old in members[member]
        members[member] = members[member].replace(old, new, 1)

    return changed


def cell(claim: Any) -> Any:
    return claim["tables"][0]["comparison"]["cells"][0]


def flip(evidence: Any) -> None:
    """The second seed of LoRA at 32 gets one item more right."""
    (lora,) = [
        s for s in evidence["tables"][0]["scores"] if (s["method"], s["budget"]) == ("lora", 32)
    ]
    bits = bytearray.fromhex(lora["outcomes"][1])
    bits[300 // 8] |= 1 << (7 - 300 % 8)
    lora["outcomes"][1] = bits.hex()


def equal_effort(jobs: list[Any]) -> None:
    """One job is said to have had a trial more."""
    trials = jobs[-1]["resolved_spec"]["training"]["trials"]
    trials.append(trials[0])


FORGED: dict[str, tuple[str, Callable[[Members], None]]] = {
    # by what was done: the member that has to be named
    "a score": (
        "claim.json: at /tables/0/comparison/cells/0/rows/0/score/mean it states 0.5, but 0.0",
        in_json("claim.json", lambda c: cell(c)["rows"][0]["score"].update(mean=0.5)),
    ),
    "an interval": (
        "claim.json: at /tables/0/comparison/cells/0/verdicts/0/pair/low",
        in_json("claim.json", lambda c: cell(c)["verdicts"][0]["pair"].update(low=-0.001)),
    ),
    "a verdict": (
        "claim.json: at /tables/0/comparison/cells/0/verdicts/0/finding",
        in_json("claim.json", lambda c: cell(c)["verdicts"][0].update(finding="better")),
    ),
    "a warning": (
        "claim.json: at /warnings",
        in_json("claim.json", lambda c: c.update(warnings=[])),
    ),
    "a level": (
        "claim.json: at /tables/0/comparison/level",
        in_json("claim.json", lambda c: c.update(level=0.8)),
    ),
    "partial": ("claim.json: at /partial", in_json("claim.json", lambda c: c.update(partial=True))),
    "an outcome": ("claim.json: at /tables/0", in_json("evidence.json", flip)),
    "an outcome, told in the table": ("tables/outcomes.csv", in_json("evidence.json", flip)),
    "the effort": (
        "evidence.json: parameters, trials or seeds of lora at 64",
        in_json("evidence.json", lambda e: e["tables"][0]["scores"][-1].update(trials=9)),
    ),
    "the jobs behind a row": (
        "evidence.json: the claim has no jobs",
        in_json("evidence.json", lambda e: e["tables"][0].update(jobs=[])),
    ),
    "a spec": ("specs/jobs.jsonl: the spec of job", in_lines(equal_effort)),
    "where a job ran": (
        "manifest.json: study or sources",
        in_lines(lambda jobs: jobs[-1]["environment"].update(device="gpu")),
    ),
    "what a job was asked": (
        "decision.md: it does not follow from",
        in_lines(lambda jobs: jobs[-1]["spec"].update(seeds=1)),
    ),
    "a digest of a spec": (
        "specs/jobs.jsonl: the spec of job",
        in_lines(lambda jobs: jobs[0].update(spec_digest="0" * 64)),
    ),
    "a code version": (
        "claim.json: at /tables/0/comparison/voided",
        in_lines(lambda jobs: jobs[-1]["environment"].update(code_version="other")),
    ),
    "the sources": (
        "manifest.json: study or sources",
        in_json("manifest.json", lambda m: m["sources"].update(code_versions=["other"])),
    ),
    "the study": (
        "manifest.json: study or sources",
        in_json("specs/study.json", lambda s: s.update(name="better")),
    ),
    "the text": ("decision.md", in_text("decision.md", b"Read these warnings", b"Skip these w")),
    "the README": ("README.md", in_text("README.md", b"Read `decision.md`", b"Run `me`")),
    "a table": ("tables/scores.csv", in_text("tables/scores.csv", b"lora", b"frozen")),
}


@pytest.mark.parametrize("what", FORGED)
def test_what_was_forged_is_named(bundle: Path, what: str) -> None:
    """The manifest is signed again, so only the numbers disagree."""
    named, forge = FORGED[what]
    members = members_of(bundle)
    forge(members)
    write(bundle, members)
    found = check(bundle)
    assert found.exit_code == 65, found.output
    assert f"adaptlab: {named}" in found.stderr
    assert "is valid" not in found.stdout


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every place in a document: what it is in, and its key or number there."""
    if isinstance(document, dict):
        inside = [*document.items()]
    else:
        inside = [*enumerate(document)] if isinstance(document, list) else []
    below = [place for _, value in inside for place in places(value)]
    return [*((document, key) for key, _ in inside), *below]


OTHERWISE = (None, 0, -1, 2**63, 1e308, "", "lora", [], {}, True, [1], {"a": 1}, 0.5)


@pytest.mark.long("many bad inputs", but=1)
@pytest.mark.parametrize("member", ["claim.json", "evidence.json", "specs/study.json"])
def test_whatever_is_changed_somewhere_is_found(bundle: Path, member: str) -> None:
    """Random changes with a fixed seed are refused, by the member's name."""
    members, chance = members_of(bundle), random.Random(7)
    for _ in range(12):
        document = json.loads(members[member])
        inside, key = chance.choice(places(document))
        other = chance.choice([one for one in OTHERWISE if one != inside[key]])
        inside[key] = other
        write(bundle, members | {member: json.dumps(document).encode()})
        found = check(bundle)
        assert found.exit_code == 65, (key, other, found.output, found.exception)


@pytest.mark.parametrize(
    "member", ["plots/0-curves.svg", "tables/pairs.parquet", "specs/study.json", "evidence.json"]
)
def test_every_digest_is_verified(bundle: Path, member: str) -> None:
    members = members_of(bundle)
    members[member] += b" "
    write(bundle, members, signed=False)
    found = check(bundle)
    assert found.exit_code == 65
    assert f"{member}: its SHA-256 is {sha256(members[member]).hexdigest()}" in found.stderr


@pytest.mark.parametrize(
    "member",
    ["manifest.json", "claim.json", "decision.md", "tables/outcomes.csv", "tables/pairs.parquet",
     "specs/jobs.jsonl", "plots/0-0-ranks.svg"],
)  # fmt: skip
@pytest.mark.parametrize("signed", [True, False])
def test_a_missing_member_is_named(bundle: Path, member: str, signed: bool) -> None:
    members = members_of(bundle)
    del members[member]
    write(bundle, members, signed=signed)
    found = check(bundle)
    assert (found.exit_code, f"{member}: this member is missing" in found.stderr) == (65, True)


@pytest.mark.parametrize(
    "name",
    ["../../evil.svg", "/tmp/evil", "plots/../../evil.svg", "plots\\evil.svg", "plots/", "evil",
     "plots/0-curves.svg/x", "C:evil", "tables/scores.csv\n", "plots/0-0-ranks.svg.exe"],
)  # fmt: skip
def test_a_name_that_no_bundle_has_is_refused(bundle: Path, name: str, tmp_path: Path) -> None:
    members = members_of(bundle)
    write(bundle, members | {name: b"evil"})
    found = check(bundle, "--render", tmp_path / "drawn")
    assert found.exit_code == 65
    assert "bundles have no member with this name" in found.stderr
    assert "evil" not in name or "evil" in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bundle.zip"]


def twice(bundle: Path) -> None:
    members = members_of(bundle)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(bundle, "a") as archive:
        archive.writestr("claim.json", members["claim.json"])


def bomb(bundle: Path) -> None:
    members = members_of(bundle)
    write(bundle, members | {"evidence.json": bytes(130 * 2**20)})


def many_bombs(bundle: Path) -> None:
    members = members_of(bundle)
    plots = {f"plots/{n}-curves.svg": bytes(60 * 2**20) for n in range(10)}
    write(bundle, members | plots, signed=False)


def many_members(bundle: Path) -> None:
    members = members_of(bundle)
    write(bundle, members | {f"plots/{n}-curves.svg": b"" for n in range(300)})


def a_lie_about_the_size(bundle: Path) -> None:
    """The directory says that a member is small; the bytes say otherwise."""
    members = members_of(bundle)
    write(bundle, members | {"evidence.json": bytes(2**20)}, signed=False)
    content = bytearray(bundle.read_bytes())
    place = content.rindex(b"evidence.json") - 46
    assert content[place : place + 4] == b"PK\1\2"
    content[place + 24 : place + 28] = (100).to_bytes(4, "little")
    bundle.write_bytes(content)


def bad_checksum(bundle: Path) -> None:
    content = bytearray(bundle.read_bytes())
    place = content.index(b"claim.json") + 200
    content[place] ^= 0xFF
    bundle.write_bytes(content)


def deep(bundle: Path) -> None:
    members = members_of(bundle)
    write(bundle, members | {"claim.json": b'{"tables":' + b"[" * 10**5})


def other_format(bundle: Path) -> None:
    members = members_of(bundle)
    in_json("manifest.json", lambda m: m.update(format=4))(members)
    write(bundle, members)


def fewer_tables(bundle: Path) -> None:
    members = members_of(bundle)
    in_json("evidence.json", lambda e: e.update(tables=[]))(members)
    write(bundle, members)


def a_job_less(bundle: Path) -> None:
    members = members_of(bundle)
    in_lines(lambda jobs: jobs.pop())(members)
    write(bundle, members)


def unknown_method(bundle: Path) -> None:
    members = members_of(bundle)
    in_json("evidence.json", lambda e: e["tables"][0]["scores"].append(
        e["tables"][0]["scores"][0]
    ))(members)  # fmt: skip
    write(bundle, members)


def no_rate(bundle: Path) -> None:
    """A learning rate of which there is no logarithm."""
    members = members_of(bundle)
    trial = ("tables", 0, "methods", -1, "sweep", 0)

    def zero(claim: Any) -> None:
        for step in trial:
            claim = claim[step]
        claim["learning_rate"] = 0.0

    in_json("claim.json", zero)(members)
    write(bundle, members)


def many_jobs(bundle: Path) -> None:
    write(bundle, members_of(bundle) | {"specs/jobs.jsonl": b"{}\n" * 10_000})


def evidence(change: Callable[[Any], None]) -> Callable[[Path], None]:
    """Change the first table of the evidence, cut to one item and seed."""

    def made(bundle: Path) -> None:
        members = members_of(bundle)

        def first(document: Any) -> None:
            table = document["tables"][0]
            one = {"budget": 64, "seeds": [0], "items": 1, "outcomes": ["80"], "bases": []}
            table["scores"] = [row | one for row in table["scores"]]
            change(table)

        in_json("evidence.json", first)(members)
        write(bundle, members)

    return made


def many_pairs(table: Any) -> None:
    first = table["scores"][0]
    table["scores"] = [first | {"method": f"m{number}"} for number in range(400)]


def many_seeds(table: Any) -> None:
    table["scores"][0] |= {"seeds": [*range(2000)], "outcomes": ["80"] * 2000}


def many_items(table: Any) -> None:
    table["scores"][0] |= {
        "seeds": [*range(17)], "items": 10**6, "outcomes": ["0" * 250_000] * 17,
    }  # fmt: skip


def many_counted_jobs(table: Any) -> None:
    table["jobs"] = table["jobs"][:1] * 100_001


def many_rows_of_the_claim(bundle: Path) -> None:
    members = members_of(bundle)

    def rows(claim: Any) -> None:
        table = claim["tables"][0]
        table["methods"] = table["methods"][:1] * 5000

    in_json("claim.json", rows)(members)
    write(bundle, members)


BROKEN: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a name twice": ("'claim.json': this name occurs 2 times", twice),
    "a bomb": ("evidence.json: it unpacks to 136,314,880 bytes", bomb),
    "many bombs": ("all members unpack to", many_bombs),
    "many members": ("The limit is 256", many_members),
    "a lie about the size": ("evidence.json", a_lie_about_the_size),
    "a bad checksum": ("claim.json: this member cannot be read", bad_checksum),
    "deep nesting": ("claim.json: it cannot be read", deep),
    "another format": ("manifest.json: the bundle has the format 4", other_format),
    "fewer tables": ("evidence.json: it has outcomes for 0 tables", fewer_tables),
    "a job less": ("specs/jobs.jsonl: the job", a_job_less),
    "a rate that cannot be": ("claim.json: it cannot be written out", no_rate),
    "a row twice": ("evidence.json: it cannot be compared", unknown_method),
    "many jobs": ("specs/jobs.jsonl: it has 10,001 lines. The limit is 10,000", many_jobs),
    "many pairs": ("evidence.json: it has 79,800 pairs of rows. The", evidence(many_pairs)),
    "many seeds": ("evidence.json: it has 2,000 seeds of", evidence(many_seeds)),
    "many items": ("evidence.json: it has 17,000,000 outcomes of", evidence(many_items)),
    "many counted jobs": ("evidence.json: it has 100,001 jobs that", evidence(many_counted_jobs)),
    "many rows": ("claim.json: it has 5,000 rows. The limit is 4,096", many_rows_of_the_claim),
    "half of it": (
        "not a zip file",
        lambda b: b.write_bytes(b.read_bytes()[: b.stat().st_size // 2]),
    ),
    "a text": ("not a zip file", lambda b: b.write_text("adaptlab")),
    "nothing": ("not a zip file", lambda b: b.write_bytes(b"")),
    "no file": ("there is no such file", lambda b: b.unlink()),
    "a folder": ("there is no such file", lambda b: (b.unlink(), b.mkdir())),
}


@pytest.mark.long("many bad inputs", but=8)
@pytest.mark.parametrize("what", BROKEN)
def test_what_is_no_bundle_is_refused_with_the_member(bundle: Path, what: str) -> None:
    named, break_it = BROKEN[what]
    break_it(bundle)
    found = check(bundle)
    assert found.exit_code == 65, (found.output, found.exception)
    assert named in found.stderr, found.stderr
    assert len(found.stderr) < 1000


def test_what_all_pairs_compare_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs that are compared share a budget, or one of them has none."""
    one: Any = {"seeds": (0, 1), "items": 8, "outcomes": ("00", "ff")}
    rows = [Scores(method=f"m{n}", budget=n % 2 or None, **one) for n in range(4)]
    rows.append(Scores(method="other", budget=7, **one))
    assert pairs_of(rows) == 1 + 1 + 2 * 3
    table = TableEvidence(base_model="b", task="t", reference=None, scores=tuple(rows), jobs=())
    found = ClaimEvidence(tables=(table, table))
    monkeypatch.setattr(bounds, "MOST_PAIRED_OUTCOMES", 2 * 8 * 16)
    bounds.check_evidence(found)
    monkeypatch.setattr(bounds, "MOST_PAIRED_OUTCOMES", 2 * 8 * 16 - 1)
    with pytest.raises(BrokenBundle, match=r"256 outcomes in pairs\. The limit is 255"):
        bounds.check_evidence(found)


def test_a_long_list_of_members_is_not_read(bundle: Path) -> None:
    """The end record is checked before `zipfile` reads the list."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(3000):
            archive.writestr(f"{number}", b"")
    bundle.write_bytes(file.getvalue())
    found = check(bundle)
    assert (found.exit_code, "3000 members" in found.stderr) == (65, True)
