"""What the harness says of generated answers, read or refused."""

from typing import Any

import pytest

from adaptlab_client.machine.benchmark_generation import NotRendered, generation_of_task

GREEDY: dict[str, Any] = {"until": ["Q:"], "do_sample": False, "temperature": 0.7, "top_p": 0.9}
TAKEN = {"function": "take_first"}


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
        ({"filter_list": [{"name": "x", "filter": [{"function": "map"}, TAKEN]}]}, "steps regex"),
    ],
)
def test_what_is_not_implemented_here_is_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotRendered, match=reason):
        generation(**settings)
