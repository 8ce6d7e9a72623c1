"""A study with theory checks of what its jobs trained, by a worker."""

from tests.whole.small_bases import TASK, a_small_base

from adaptlab_client import Client

STUDY = {
    "name": "checked",
    "base_models": [a_small_base("checked")],
    "tasks": [{**TASK, "name": "sort_descending"}],
    "methods": [
        {"name": "prefix_tuning", "length": 3, "label": "prefix"},
        {"name": "lora", "training": {"steps": 40}},
    ],
    "budgets": [512],
    "seeds": 2,
    "training": {"steps": 30, "batch_size": 16},
    "tuning": {"trials": 2},
    "evaluation": {"samples": 20},
    "checks": [
        {"name": "relative_attention", "of": "prefix", "label": "prefix"},
        {"name": "relative_attention", "of": "lora", "label": "lora"},
    ],
}


def test_checks_measure_what_the_study_trains(client: Client) -> None:
    made = client.studies.create(STUDY)
    assert sum(made.jobs.values()) == 5, "a base, two adaptations and two checks"
    ended = client.studies.wait(made.id, timeout=300)
    assert ended.succeeded, [check.job.error for check in ended.checks]
    said = {check.label: {one.name: one for one in check.reports} for check in ended.checks}
    # Equation 6: a prefix leaves relative attention in the first layer as it is; LoRA moves it.
    (pinned,) = [one for name, one in said["prefix"].items() if "equation-6.first" in name]
    assert (pinned.verdict, pinned.bound) == ("holds", "at most")
    (moved,) = said["lora"].values()
    assert (moved.verdict, moved.bound) == ("holds", "at least")
    assert [job.step for cell in ended.cells for job in cell.jobs] == [30, 40]
