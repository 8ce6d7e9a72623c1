"""Generated answers of the harness, as far as they are compared here."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from adaptlab.errors import AdaptlabError
from adaptlab.records.generation import ExactMatch, FilterStep, Generation, ResponseFilter, StepName

LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Names of the most tokens of an answer; the harness takes the first that is given."""
USUAL_LIMIT = 256
"""The most tokens of an answer, if a task does not say."""
WITHOUT_EFFECT = ("top_p", "top_k")
"""Members that change nothing where the likeliest token is next."""
METRIC = "exact_match"
LAST = "take_first"
"""The step that ends a filter: it takes the only answer."""
UNFILTERED = "none"
FUNCTIONS: tuple[StepName, ...] = get_args(StepName)
OF_ONE = ("majority_vote", LAST)
"""Steps that choose among several answers, and leave a single one as it is."""
REFUSED = {
    "custom": "runs a program of the task",
    "multi_choice_regex": "reads the choices of each document, which are not a part of the answer",
    "regex_pos": "gives a list of tags, which is compared by a program",
    "take_first_k": "takes several answers, and one is generated here",
}
"""What keeps a step of lm-eval from being used here."""
IGNORED = tuple(ExactMatch.model_fields)
_DESCRIBING = ("metric", "aggregation", "higher_is_better")

Settings = Mapping[str, Any]  # Any: the members of all task files


class NotRendered(AdaptlabError):
    """A task whose items cannot be rendered here."""


def generation_of_task(task: str, settings: Settings) -> Generation:
    """Return how a task generates and compares answers.

    Args:
        task: its name.
        settings: the members of its file, with the harness's defaults in `generation_kwargs`.

    Raises:
        NotRendered: it samples, or compares answers in a way that is not implemented here.
    """
    if (repeats := settings.get("repeats") or 1) != 1:
        raise NotRendered(
            f"{task} draws {repeats} answers to each item, and one is generated here. Choose "
            "another task."
        )
    until, most = _decoding(task, dict(settings.get("generation_kwargs") or {}))
    try:
        return Generation(
            until=until,
            tokens=most,
            filters=tuple(_filters(task, settings.get("filter_list") or ())),
            match=_match(task, settings.get("metric_list") or ()),
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise NotRendered(
            f"{task} is beyond the limits of generated answers: {place}: {first['msg']}. Choose "
            "another task."
        ) from error


def _decoding(task: str, members: dict[str, Any]) -> tuple[tuple[str, ...], int]:
    """Return stop sequences and the most tokens of an answer."""
    until = members.pop("until", ())
    stops = tuple(one for one in ([until] if isinstance(until, str) else until) if one)
    limits = [members.pop(name, None) for name in LIMITS]
    most = next((limit for limit in limits if limit is not None), USUAL_LIMIT)
    does_sample, temperature = members.pop("do_sample", None), members.pop("temperature", None)
    if does_sample or (does_sample is None and temperature):
        raise NotRendered(
            f"{task} draws its answers at random, and answers are decoded greedily here. Choose a "
            "task with do_sample: false."
        )
    if others := sorted(set(members) - set(WITHOUT_EFFECT)):
        raise NotRendered(
            f"{task} sets {others[0]} in generation_kwargs, which is not implemented here. Choose "
            "another task."
        )
    return stops, most


def _filters(task: str, listed: Sequence[Settings]) -> Iterator[ResponseFilter]:
    """Yield the filters of a task, in order."""
    if not listed:
        yield ResponseFilter(name=UNFILTERED)
    for entry in listed:
        steps: Sequence[Settings] = entry.get("filter") or ()
        functions = [str(step.get("function")) for step in steps]
        unknown = next((one for one in functions if one not in (*FUNCTIONS, *OF_ONE)), None)
        if unknown is not None or functions[-1:] != [LAST] or LAST in functions[:-1]:
            why = REFUSED.get(unknown or "", "is not implemented here")
            named = f"the filter {unknown}, which {why}" if unknown else f"{functions}"
            raise NotRendered(
                f"{task} reads answers by {named}, in {entry.get('name')}. Choose a task whose "
                f"filters have the steps {', '.join((*FUNCTIONS, *OF_ONE))}, and {LAST} last."
            )
        own = (step for step in steps if step["function"] not in OF_ONE)
        yield ResponseFilter(name=str(entry.get("name")), steps=tuple(_step(task, s) for s in own))


def _step(task: str, step: Settings) -> FilterStep:
    members = dict(step)
    if step["function"] == "map":
        if not isinstance(members.get("default_value"), str):
            raise NotRendered(
                f"{task} maps answers without a text for those that are not listed. Choose a task "
                "whose filter map has a default_value."
            )
        mapping: Settings = members.pop("mapping_dict", None) or {}
        members["mapping"] = tuple(mapping.items())
    usual = {"regex_pattern": r"#### (\-?[0-9\.\,]+)"} if step["function"] == "regex" else {}
    return FilterStep.model_validate({**usual, **members})


def _match(task: str, metrics: Sequence[Settings]) -> ExactMatch:
    """Return how answers and targets are compared."""
    if not metrics:
        return ExactMatch()
    names = [entry.get("metric") for entry in metrics]
    if METRIC not in names:
        raise NotRendered(
            f"{task} is not scored by {METRIC} but by {names}. Choose a task with {METRIC}."
        )
    entry = metrics[names.index(METRIC)]
    others = sorted(set(entry) - {*_DESCRIBING, *IGNORED})
    if others or entry.get("aggregation", "mean") != "mean":
        raise NotRendered(
            f"{task} changes {METRIC} by {(others or ['aggregation'])[0]}, which is not "
            "implemented here. Choose another task."
        )
    return ExactMatch.model_validate({name: entry[name] for name in IGNORED if name in entry})


def targets_of(task: str, number: int, loaded: Any, document: Settings) -> tuple[str, ...]:
    """Return the texts of which an answer to a document has to be one.

    Args:
        task: its name.
        number: that of the document.
        loaded: the harness's task.
        document: the document.

    Raises:
        NotRendered: they are no texts.
    """
    gold: Any = loaded.doc_to_target(document)
    if loaded.config.doc_to_choice is not None:
        gold = loaded.doc_to_choice(document)[gold]
    elif not loaded.multiple_target:
        gold = str(gold)
    targets: list[Any] = [gold] if isinstance(gold, str) else list(gold)
    is_one = isinstance(gold, str) and loaded.multiple_target
    if is_one or not targets or not all(isinstance(one, str) for one in targets):
        raise NotRendered(f"Item {number} of {task} has targets that are no list of texts.")
    return tuple(targets)
