"""False reports of a worker's token, at both ledgers.

Run `python -m tests.security.hostile_reports`.

Each report is false in one place. All are to be refused with a problem that names the place, and
nothing of them is to be stored, whichever ledger they come by.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.making import (
    a_checkpoint,
    a_replicate,
    a_summary,
    an_adapt_spec,
    an_attention_map,
    an_environment,
    an_evaluation,
    answers_given,
    items_shown,
    map_content,
    weights_content,
)

from adaptlab.errors import InvalidSpec
from adaptlab.runs import events
from adaptlab_services.leases.leases import Ledger
from adaptlab_services.lifecycle.held_leases import Claim

HUGE, LARGE = 1e308, 2**31 - 1
MAP, WEIGHTS, STATE = Path("map.npy"), Path("weights.safetensors"), Path("state.safetensors")
Content = Mapping[Path, bytes]


@dataclass(frozen=True)
class FalseReport:
    """An event that is false at `place`, the end of the refusal's pointer."""

    event: events.Event
    place: str
    content: Content


def an_attacked_spec() -> Any:
    """A job of two seeds and two trials that records attention."""
    return an_adapt_spec(
        capture={"attention": {"samples": 1}}, tuning={"trials": 2, "validation_samples": 8}
    )


def false_reports(claim: Claim) -> dict[str, FalseReport]:
    """False reports on the job of `an_attacked_spec`, by what is false."""
    found: dict[str, FalseReport] = {}
    for cases in (_maps(), _scores(), _answers(), _endings(claim), _curves(), _files(),
                  _others()):  # fmt: skip
        for name, place, event, content in cases:
            assert name not in found
            found[name] = FalseReport(event, place, content)
    return found


Cases = Iterator[tuple[str, str, events.Event, Content]]


def _maps() -> Cases:
    every = [
        ("a head for every reader's byte", "shape", {"shape": (1, 1, 4_000_000, 19, 19)}),
        ("a shape of three axes", "shape", {"shape": (1, 1, 1)}),
        ("a shape of no axes", "shape", {"shape": ()}),
        ("a negative shape", "shape", {"shape": (-1, 1, 1, 5, 7)}),
        ("more samples", "shape", {"shape": (64, 1, 1, 5, 7)}),
        ("a negative start", "target_start", {"target_start": -1}),
        ("a far start", "target_start", {"target_start": LARGE}),
        ("learned positions", "learned_positions", {"learned_positions": 4096}),
        ("negative positions", "learned_positions", {"learned_positions": -7}),
        ("other axes", "axes", {"axes": ("key", "key", "key", "key", "key")}),
        ("short samples", "tokens/0", {"tokens": ((1,),)}),
        ("no samples", "tokens", {"tokens": ()}),
        ("strange tokens", "tokens/0", {"tokens": ((2, 0, 3, 3, 10**9),)}),
        ("a million tokens", "tokens/0", {"tokens": ((0,) * 10**6,)}),
        ("strange answers", "predictions/0", {"predictions": ((3, 2, -1),)}),
        ("two summaries of a head", "summaries", {"summaries": (a_summary(), a_summary())}),
        ("no summary", "summaries", {"summaries": ()}),
        ("a far head", "summaries", {"summaries": (a_summary(0, LARGE),)}),
        ("entropy", "entropy", {"summaries": (a_summary(entropy=HUGE),)}),
        ("negative mass", "learned_mass", {"summaries": (a_summary(learned_mass=-1.0),)}),
        ("divergence", "divergence", {"summaries": (a_summary(divergence=9.0),)}),
        ("deviation", "deviation", {"summaries": (a_summary(relative_deviation=1e9),)}),
        ("a map of another replicate", "replicate", {"replicate": 4}),
        ("a map of another seed", "seed", {"replicate": 0, "seed": 1}),
    ]  # fmt: skip
    for name, place, changes in every:
        told = an_attention_map(**changes)
        event = events.AttentionCaptured(attention=told, path=MAP)
        yield name, place, event, {MAP: map_content()}


def _scores() -> Cases:
    every = [
        ("a total beyond the bits", "total", {"total": 10**6}),
        ("a total of another spec", "total", {"total": 8, "correct": 8, "outcomes": "ff"}),
        ("a score beyond its total", "correct", {"correct": 10**6}),
        ("a negative score", "correct", {"correct": -1}),
        ("a score beyond its bits", "correct", {"correct": 16}),
        ("too few bits", "outcomes", {"outcomes": "ff"}),
        ("too many bits", "outcomes", {"outcomes": "fff0" + "00" * 1000}),
        ("no bits", "outcomes", {"outcomes": "xyz"}),
        ("another task", "task", {"task": {"name": "add"}}),
        ("no task", "task", {"task": {}}),
        ("a task of a million names", "task", {"task": {str(n): n for n in range(1000)}}),
        ("the training split", "split", {"split": "train"}),
        ("a score of another seed", "seed", {"seed": 7}),
        ("a score of no replicate", "replicate", {"replicate": -1}),
    ]
    for name, place, changes in every:
        yield name, place, events.Evaluated(evaluation=an_evaluation(**changes)), {}


def _answers() -> Cases:
    given, shown = answers_given().answers, items_shown().items
    told = given[0].model_copy
    every: list[tuple[str, str, dict[str, Any]]] = [
        ("answers of another replicate", "replicate", {"replicate": 4}),
        ("answers of another seed", "seed", {"seed": 1}),
        ("answers to no task", "task_place", {"task_place": 2}),
        ("answers to a negative task", "task_place", {"task_place": -1}),
        ("too few answers", "answers", {"answers": given[:15]}),
        ("a million answers", "answers", {"answers": given[:1] * 100_000}),
        ("a long answer", "0/text", {"answers": (told(update={"text": "x" * 501}), *given[1:])}),
        ("a miscounted answer", "0/characters",
         {"answers": (told(update={"characters": 10**6}), *given[1:])}),
        ("a null character", "0/text", {"answers": (told(update={"text": "1\0001"}), *given[1:])}),
        ("a label of no choice", "0/label", {"answers": (told(update={"label": "x"}), *given[1:])}),
    ]  # fmt: skip
    for name, place, changes in every:
        yield name, place, answers_given(**changes), {}
    item = shown[0].model_copy
    long = events.Excerpt(text="x" * 2001, characters=2001)
    endless = events.Excerpt(text="x" * 2000, characters=2**40)
    items: list[tuple[str, str, dict[str, Any]]] = [
        ("items of another task", "task", {"task": {"name": "add"}}),
        ("items of no task", "task_place", {"task_place": 9}),
        ("too few items", "items", {"items": shown[1:]}),
        ("items in another order", "0/item", {"items": shown[::-1]}),
        ("a long prompt", "0/prompt/text", {"items": (item(update={"prompt": long}), *shown[1:])}),
        ("an endless prompt", "0/prompt/characters",
         {"items": (item(update={"prompt": endless}), *shown[1:])}),
        ("a line of no dataset", "0/line", {"items": (item(update={"line": 1}), *shown[1:])}),
    ]  # fmt: skip
    for name, place, changes in items:
        yield name, place, items_shown(**changes), {}


def _endings(claim: Claim) -> Cases:
    trials = claim.resolved_spec.training.trials

    def decided(**changes: Any) -> events.ReplicatesDecided:
        """All four replicates, the first of which is changed."""
        told = [
            a_replicate(number, seed=number // 2, trial=number % 2, selected=number % 2 == 0,
                        **trials[number % 2].model_dump())
            for number in range(4)
        ]  # fmt: skip
        told[0] = told[0].model_copy(update=changes)
        return events.ReplicatesDecided(replicates=tuple(told))

    every = [
        ("a loss that no sum holds", "final_loss", {"final_loss": HUGE}),
        ("a very negative loss", "final_loss", {"final_loss": -1e30}),
        ("a replicate too many", "replicate", {"replicate": 4}),
        ("a replicate twice", "replicates", {"replicate": 1}),
        ("another seed", "seed", {"seed": 12345}),
        ("another trial", "trial", {"trial": 1}),
        ("another rate", "learning_rate", {"learning_rate": HUGE}),
        ("another decay", "weight_decay", {"weight_decay": -1.0}),
        ("another scale", "initial_scale", {"initial_scale": 0.0}),
        ("an accuracy above one", "validation_accuracy", {"validation_accuracy": 1.5}),
        ("steps that were not asked for", "steps", {"steps": LARGE}),
        ("a diverged choice", "selected", {"status": "diverged"}),
    ]
    for name, place, changes in every:
        yield name, place, decided(**changes), {}
    twice = [
        one.model_copy(update={"selected": True, "status": "completed"})
        for one in decided().replicates
    ]
    yield "two choices", "replicates", events.ReplicatesDecided(replicates=tuple(twice)), {}
    some = decided().replicates[:1]
    yield "not all replicates", "replicates", events.ReplicatesDecided(replicates=some), {}


def _curves() -> Cases:
    every = [
        ("a huge point", "value", {"value": HUGE}),
        ("an accuracy of two", "value", {"name": "validation_accuracy", "value": 2.0}),
        ("a step after the last", "step", {"step": 5}),
        ("a step before the first", "step", {"step": 0}),
        ("a large step", "step", {"step": 2**40}),
        ("a curve of its own", "name", {"name": "owned"}),
        ("a curve with a long name", "name", {"name": "x" * 100_000}),
        ("a point of no replicate", "replicate", {"replicate": 4}),
    ]
    for name, place, changes in every:
        at = {"replicate": 0, "name": "train_loss", "step": 1, "value": 0.5}
        point = events.MetricPoint(**at | changes)
        yield name, place, events.Metrics(points=(point,)), {}


def _files() -> Cases:
    at: dict[str, Any] = {"path": WEIGHTS}
    every = [
        ("other tensors", "tensors", {"tensors": {"x": (1,)}, "parameters": 1}),
        ("another shape", "blocks.0.attn.input", {"tensors": {"blocks.0.attn.input": (10**9, 8)}}),
        ("no tensors", "tensors", {"tensors": {}}),
        ("many parameters", "parameters", {"parameters": 2**62}),
        ("a base model's", "kind", {"kind": "base_model"}),
        ("weights of another seed", "seed", {"seed": 3}),
    ]
    for name, place, changes in every:
        event = events.CheckpointWritten(checkpoint=a_checkpoint(**changes), **at)
        yield name, place, event, {WEIGHTS: weights_content()}
    true = events.CheckpointWritten(checkpoint=a_checkpoint(), **at)
    yield "no safetensors file", "path", true, {WEIGHTS: b"a pickle, perhaps"}
    other = weights_content({"blocks.0.attn.input": (3, 8)})
    yield "a file of another shape", "path", true, {WEIGHTS: other}
    halves = weights_content().replace(b"F32", b"I32")
    yield "a file of another type", "path", true, {WEIGHTS: halves}
    captured = events.AttentionCaptured(attention=an_attention_map(), path=MAP)
    yield "no map", "path", captured, {MAP: b"\x93NUMPY"}
    yield "a map of another shape", "path", captured, {MAP: map_content((1, 1, 1, 5, 6))}
    yield "a map that is cut short", "path", captured, {MAP: map_content()[:-2]}


def _others() -> Cases:
    usage = events.Usage(
        training_seconds=1.0,
        training_steps=4,
        evaluation_seconds=1.0,
        peak_memory_bytes=1,
        base_memory_bytes=1,
    )
    environment = an_environment(device="x" * 100_000)
    check = events.TheoryChecked.model_validate(
        {"place": 0, "check": {"name": "x", "claim": "x", "measured": 0, "tolerance": 0,
                               "verdict": "holds"}}
    )  # fmt: skip
    far = events.Progress(phase="training", step=2**40, total=1)
    saved = events.TrainingSaved(step=5, path=STATE)
    yield "a far step", "step", far, {}
    yield "a state of no step", "step", saved, {STATE: b"state"}
    yield "a long text", "device", events.Started(environment=environment, replicates=4), {}
    started = events.Started(environment=an_environment(), replicates=10**9)
    yield "a billion replicates", "replicates", started, {}
    yield "a theory check", "0", check, {}
    for name, value in (("training_seconds", HUGE), ("peak_memory_bytes", -1)):
        false = usage.model_copy(update={name: value})
        yield f"a false {name}", name, events.Finished(usage=false), {}


def send(ledger: Ledger, claim: Claim, report: FalseReport) -> Sequence[str]:
    """Send one report; return the pointers of its refusal, or nothing."""
    artifacts = {
        path: ledger.put_artifact(claim, [content]).sha256
        for path, content in report.content.items()
    }
    try:
        ledger.record(claim, [report.event], artifacts)
    except InvalidSpec as refused:
        return tuple(problem.pointer for problem in refused.problems)
    except Exception as error:  # noqa: BLE001 - whatever else comes of it is a finding
        return (f"{type(error).__name__}: {error}",)
    return ()


def main() -> int:
    """Send every report by both ledgers; return the number accepted."""
    from tests.ledgers import WAYS, ledger_by
    from tests.making import a_base_model, a_claim, a_job
    from tests.security.serving import a_server

    believed = 0
    with a_server() as (settings, sessions):
        with sessions.begin() as session:
            a_base_model(session)
        for way in WAYS:
            with ledger_by(way, sessions, settings) as ledger, sessions.begin() as session:
                a_job(session, an_attacked_spec())
            with ledger_by(way, sessions, settings) as ledger:
                claim = a_claim(ledger)
                for name, report in false_reports(claim).items():
                    pointers = send(ledger, claim, report)
                    if not any(pointer.endswith(report.place) for pointer in pointers):
                        believed += 1
                        print(f"{way}: {name}: {'; '.join(pointers) or 'believed'}"[:200])
    print(f"{believed} false reports were believed, or not refused by their place")
    return 1 if believed else 0


if __name__ == "__main__":
    sys.exit(main())
