"""`adaptlab attention`: recorded patterns as pictures, and what the heads do as a table."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import UsageFault
from adaptlab_client.cli.printing.terminal import (
    Output,
    inert,
    one_line,
    print_rows,
    print_values,
    say,
)
from adaptlab_client.cli.session import JobsArgument, OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab.charts import AttentionPattern, Chart, Theme
    from adaptlab_answers.jobs import JobView
    from adaptlab_client.display.attention_maps import AttentionMap, AttentionMaps


def attention(
    context: typer.Context,
    jobs: JobsArgument,
    png: Annotated[Path | None, typer.Option(help="Draw the patterns to this PNG file.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Draw the patterns to this SVG file.")] = None,
    vega_lite: Annotated[
        Path | None, typer.Option(help="Write the chart to this file as Vega-Lite JSON.")
    ] = None,
    npy: Annotated[
        Path | None, typer.Option(help="Write every map to this folder as a .npy file.")
    ] = None,
    replicate: Annotated[
        int | None, typer.Option(min=0, help="Replicate to draw. Default: the first of --seed.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed to draw. Default: the first recorded one.")
    ] = None,
    layer: Annotated[int, typer.Option(min=0, help="Of a picture.")] = 0,
    head: Annotated[int, typer.Option(min=0, help="Of a picture.")] = 0,
    sample: Annotated[int, typer.Option(min=0, help="Of a picture.")] = 0,
    dark: Annotated[bool, typer.Option("--dark", help="Use a dark background.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Draw attention before and after adaptation, or list what was recorded."""
    with open_client(context) as client:
        found = [(client.jobs.get(job), client.jobs.attention(job)) for job in jobs]
        if png or svg or vega_lite:
            place = (layer, head, sample)
            chart = _chart(found, (replicate, seed), place, "dark" if dark else "light")
            _write(chart, png, svg, vega_lite)
            return
        if npy:
            _save(found, npy)
            return
    maps = [recorded for _, several in found for recorded in several]
    if output in (Output.TABLE, Output.CSV):
        _print_summaries(found, output)
    else:
        print_values(maps, output)


def _chart(
    found: "Sequence[tuple[JobView, AttentionMaps]]",
    which: tuple[int | None, int | None],
    place: tuple[int, int, int],
    theme: "Theme",
) -> "Chart":
    """The base of the first job that has one, then every job's own pattern."""
    from adaptlab.charts import attention_patterns

    patterns: list[AttentionPattern] = []
    seeds: list[int] = []
    for job, maps in found:
        chosen = _of_one_replicate(job, maps, *which)
        seeds.append(chosen[0].seed)
        for recorded in sorted(chosen, key=lambda one: one.source != "base"):
            if recorded.source != "base" or not patterns:
                patterns.append(_pattern(job, recorded, place))
    layer, head, sample = place
    named = ", ".join(map(str, dict.fromkeys(seeds)))
    title = f"Layer {layer}, head {head}, seed {named}, sample {sample}"
    return attention_patterns(patterns, title=title, theme=theme)


def _of_one_replicate(
    job: "JobView", maps: "Sequence[AttentionMap]", replicate: int | None, seed: int | None
) -> "list[AttentionMap]":
    """The maps of the replicate or seed that was asked for, else of the first recorded one.

    A tuned job records attention of the trial that each seed chose, so not every replicate has any.
    """
    recorded = {one.replicate: one.seed for one in sorted(maps, key=lambda one: one.replicate)}
    if not recorded:
        raise UsageFault(
            f"Job {job.id} recorded no attention. Submit it again with "
            "`capture.attention.samples` set."
        )
    for number, of_seed in recorded.items():
        if replicate in (None, number) and seed in (None, of_seed):
            return [one for one in maps if one.replicate == number]
    asked = f"seed {seed}" if replicate is None else f"replicate {replicate}"
    seeds = ", ".join(f"{of_seed} (replicate {number})" for number, of_seed in recorded.items())
    raise UsageFault(f"Job {job.id} has no attention for {asked}. Recorded seeds: {seeds}.")


def _pattern(
    job: "JobView", recorded: "AttentionMap", place: tuple[int, int, int]
) -> "AttentionPattern":
    from adaptlab.charts import AttentionPattern

    layer, head, sample = place
    limits: dict[str, int] = dict(zip(("sample", "layer", "head"), recorded.shape, strict=False))
    for name, wanted in (("sample", sample), ("layer", layer), ("head", head)):
        if wanted >= limits[name]:
            raise UsageFault(f"--{name} {wanted}: {job.id} has {limits[name]} of them, from 0 on.")
    array = recorded.numpy()
    summary = next((s for s in recorded.summaries if (s.layer, s.head) == (layer, head)), None)
    deviation = summary.relative_deviation if summary else None
    subtitle = "" if deviation is None else f"relative deviation from the base {deviation:.2g}"
    is_base = recorded.source == "base"
    return AttentionPattern(
        title=f"Base model {job.base_model or job.name or ''}" if is_base else _title(job),
        subtitle="" if is_base else subtitle,
        weights=tuple(map(tuple, array[sample, layer, head].astype(float).tolist())),
        tokens=tuple(str(token) for token in recorded.tokens[sample]),
        learned_positions=recorded.learned_positions,
        target_start=recorded.target_start,
    )


def _title(job: "JobView") -> str:
    name = (job.method or job.name or job.kind).replace("_", " ")
    trained = job.budget.trainable_parameters if job.budget else None
    return name if trained is None else f"{name} ({trained:,} parameters)"


def _write(chart: "Chart", png: Path | None, svg: Path | None, vega_lite: Path | None) -> None:
    from adaptlab import charts

    if png:
        png.write_bytes(charts.png(chart))
    if svg:
        svg.write_text(charts.svg(chart))
    if vega_lite:
        vega_lite.write_text(json.dumps(chart))
    for path in (png, svg, vega_lite):
        if path:
            say(f"wrote {inert(path)}")


def _save(found: "Sequence[tuple[JobView, AttentionMaps]]", folder: Path) -> None:
    """Write arrays [sample, layer, head, query, key], verified, and print where."""
    import numpy as np  # only for those who look at arrays

    folder.mkdir(parents=True, exist_ok=True)
    for job, maps in found:
        for one in maps:
            path = folder / f"{job.id}-{one.source}-{one.replicate}.npy"
            np.save(path, one.numpy(), allow_pickle=False)
            print(one_line(path))


def _print_summaries(found: "Sequence[tuple[JobView, AttentionMaps]]", output: Output) -> None:
    rows = [
        [job.id, job.method, recorded.source, recorded.seed, recorded.replicate, s.layer,
         s.head,         s.entropy, s.learned_mass, s.divergence, s.relative_deviation]
        for job, maps in found
        for recorded in maps
        for s in recorded.summaries
    ]  # fmt: skip
    titles = (
        "job", "method", "source", "seed", "replicate", "layer", "head", "entropy", "learned mass",
        "divergence", "relative deviation",
    )  # fmt: skip
    print_rows(titles, rows, output)
