"""Reports of recipes on retention, from the scores and checks of jobs."""

from sqlalchemy.orm import Session, sessionmaker
from tests.reproducing import ITEMS, Run, create, findings, report, run_all

from adaptlab.runs.theory_report import Check
from adaptlab.specs.spec import ResolvedSpec

Sessions = sessionmaker[Session]
ALONE = {"mixture": ITEMS, "cued": 0}
KEPT = {"prefix_tuning": 100, "lora": 1000, "full_finetuning": 2900}


def forgotten(spec: ResolvedSpec) -> Run:
    """Everything is learned; what is kept depends on the method."""
    if spec.method is None:
        return Run(ALONE)
    return Run({"mixture": KEPT[str(spec.method["name"])], "cued": ITEMS}, alone=ALONE)


def intruding(spec: ResolvedSpec) -> Run:
    """The same, and LoRA has more intruders the lower its rank."""
    if spec.kind != "theory":
        return forgotten(spec)
    (adaptation,) = spec.adaptations
    rank = adaptation.method.get("rank", 1000)
    assert isinstance(rank, int)
    seeds = adaptation.seeds
    report = Check.at_most(
        "intruder-dimensions", "There are none.", 1.0, 0.0,
        seeds=seeds, intruders_by_replicate=tuple(64 // rank for _ in seeds),
    )  # fmt: skip
    return Run(checks=(report,))


def test_claims_of_forgetting_are_decided_by_cued_retention(sessions: Sessions) -> None:
    study = create(sessions, recipe="petrov2024/forgetting", seeds=5)
    run_all(sessions, forgotten)
    said = report(sessions, study)
    assert findings(said) == {
        "base-has-the-skills iclr": "holds",
        "the-task-was-learned iclr": "holds",
        "prefix-forgets-less-than-lora iclr": "reversed",
        "prefix-forgets-less-than-full-fine-tuning iclr": "reversed",
        "a-prefix-forgets-while-attached iclr": "holds",
        "full-fine-tuning-forgets-less-than-lora iclr": "holds",
    }
    evidence = {one.claim: one.evidence for one in said.claims}["prefix-forgets-less-than-lora"]
    assert "Prefix-tuning retains 3.1 % of four old skills and LoRA on the MLP alone" in evidence
    assert "31.2 %, a lead of -28.1 points" in evidence


def test_intruders_are_ordered_by_the_checks_of_both_methods(sessions: Sessions) -> None:
    study = create(sessions, recipe="shuttleworth2024/intruders", seeds=5)
    run_all(sessions, intruding)
    said = report(sessions, study)
    found = findings(said)
    assert found["lora-has-more-intruders arxiv"] == "holds"
    assert found["a-low-rank-has-more-intruders arxiv"] == "holds"
    assert found["lora-forgets-more arxiv"] == "holds"
    assert found["a-low-rank-forgets-more arxiv"] == "fails"
    evidence = {one.claim: one.evidence for one in said.claims}["lora-has-more-intruders"]
    assert "Check intruder_dimensions has 64 for LoRA of rank 1 and 0 for full" in evidence
