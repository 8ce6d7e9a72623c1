"""What the harness says of generated answers, read or refused."""

from typing import Any

import pytest

from adaptlab.text.answer_filters_child import extracted
from adaptlab_client.machine.benchmark_generation import NotRendered, generation_of_task

GREEDY: dict[str, Any] = {"until": ["Q:"], "do_sample": False, "temperature": 0.7, "top_p": 0.9}
TAKEN = {"function": "take_first"}


def read_by(*steps: dict[str, Any]) -> dict[str, Any]:
    """Settings with one filter of these steps."""
    return {"filter_list": [{"name": "x", "filter": [*steps, TAKEN]}]}


def generation(**settings: Any) -> Any:
    return generation_of_task("sums", {"generation_kwargs": GREEDY, **settings})


def test_what_is_left_open_is_that_of_the_harness() -> None:
    found = generation()
    assert (found.until, found.tokens, found.names()) == (("Q:",), 256, ("none",))
    limits = {"max_new_tokens": 7, "max_tokens": 9, "until": "\n"}
    found = generation(generation_kwargs=limits)
    assert (found.until, found.tokens) == (("\n",), 7)
    usual = {"name": "usual", "filter": [{"function": "regex"}, TAKEN]}
    (read,) = generation(filter_list=[usual]).filters
    assert read.steps[0].regex_pattern == r"#### (\-?[0-9\.\,]+)"


TEXTS = (
    "Person: Ada, None\nplaces: Köln$$ time: none$$", "PER: a$b DATE: x , y", "(B", "b", " C ", "",
    "organization:x\n\nperson : y$ $",
)  # fmt: skip


@pytest.mark.parametrize(
    "step",
    [
        {"function": "map", "mapping_dict": {"b": "B", "": "none"}, "default_value": "?"},
        {"function": "format_span"},
        {"function": "majority_vote"},
    ],
)
def test_a_step_reads_what_the_harness_reads(step: dict[str, Any]) -> None:
    from lm_eval.filters import get_filter

    (ours,) = generation(**read_by(step)).filters
    steps = [dict(one) for one in ours.steps]
    members = {name: value for name, value in step.items() if name != "function"}
    theirs: Any = get_filter(step["function"])(**members)
    (expected,) = zip(*theirs.apply([[text] for text in TEXTS], []), strict=True)
    assert [extracted(text, steps) for text in TEXTS] == [*expected]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"repeats": 4}, "draws 4 answers"),
        ({"generation_kwargs": {"do_sample": True}}, "do_sample: false"),
        ({"generation_kwargs": {"temperature": 0.5}}, "at random"),
        ({"generation_kwargs": {**GREEDY, "num_beams": 4}}, "sets num_beams"),
        ({"generation_kwargs": {"max_gen_toks": 9999}}, "tokens: Input should be less"),
        ({"metric_list": [{"metric": "bleu"}]}, r"by exact_match but by \['bleu'\]"),
        ({"metric_list": [{"metric": "exact_match", "aggregation": "median"}]}, "aggregation"),
        ({"metric_list": [{"metric": "exact_match", "strip": True}]}, "changes exact_match"),
        ({"filter_list": [{"name": "x", "filter": [TAKEN, {"function": "lowercase"}]}]}, "last"),
        (read_by({"function": "map"}), "has a default_value"),
        (read_by({"function": "custom"}), "the filter custom, which runs a program"),
        (read_by({"function": "multi_choice_regex"}), "reads the choices of each document"),
        (read_by({"function": "regex_pos"}), "gives a list of tags"),
        (read_by({"function": "take_first_k", "k": 8}), "takes several answers"),
        (
            read_by({"function": "regex_replace"}),
            "regex_replace, which is not .* steps regex",
        ),
    ],
)
def test_what_is_not_implemented_here_is_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotRendered, match=reason):
        generation(**settings)
