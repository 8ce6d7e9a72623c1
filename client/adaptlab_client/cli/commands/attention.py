"""`adaptlab attention`: patterns as pictures, heads as a table."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import UsageError
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
        maps_by_job = [(client.jobs.get(job), client.jobs.attention(job)) for job in jobs]
        if png or svg or vega_lite:
            place = (layer, head, sample)
            chart = _chart(maps_by_job, (replicate, seed), place, "dark" if dark else "light")
            _write(chart, png, svg, vega_lite)
            return
        if npy:
            _save(maps_by_job, npy)
            return
    maps = [recorded for _, of_job in maps_by_job for recorded in of_job]
    if output in (Output.TABLE, Output.CSV):
        _print_summaries(maps_by_job, output)
    else:
        print_values(maps, output)


def _chart(
    maps_by_job: "Sequence[tuple[JobView, AttentionMaps]]",
    replicate_and_seed: tuple[int | None, int | None],
    place: tuple[int, int, int],
    theme: "Theme",
) -> "Chart":
    """Return a chart of the base model, if recorded, and of every job."""
    from adaptlab.charts import attention_patterns

    patterns: list[AttentionPattern] = []
    seeds: list[int] = []
    for job, maps in maps_by_job:
        selection = _of_one_replicate(job, maps, *replicate_and_seed)
        seeds.append(selection[0].seed)
        for recorded in sorted(selection, key=lambda entry: entry.source != "base"):
            if recorded.source != "base" or not patterns:
                patterns.append(_pattern(job, recorded, place))
    layer, head, sample = place
    seed_list = ", ".join(map(str, dict.fromkeys(seeds)))
    title = f"Layer {layer}, head {head}, seed {seed_list}, sample {sample}"
    return attention_patterns(patterns, title=title, theme=theme)


def _of_one_replicate(
    job: "JobView", maps: "Sequence[AttentionMap]", replicate: int | None, seed: int | None
) -> "list[AttentionMap]":
    """Return the maps of the requested replicate or seed, else of the first.

    A tuned job records attention only for the selected trial of each seed.
    """
    recorded = {
        entry.replicate: entry.seed for entry in sorted(maps, key=lambda entry: entry.replicate)
    }
    if not recorded:
        raise UsageError(
            f"Job {job.id} recorded no attention. Submit it again with "
            "`capture.attention.samples` set."
        )
    for number, of_seed in recorded.items():
        if replicate in (None, number) and seed in (None, of_seed):
            return [entry for entry in maps if entry.replicate == number]
    request = f"seed {seed}" if replicate is None else f"replicate {replicate}"
    seeds = ", ".join(f"{of_seed} (replicate {number})" for number, of_seed in recorded.items())
    raise UsageError(f"Job {job.id} has no attention for {request}. Recorded seeds: {seeds}.")


def _pattern(
    job: "JobView", recorded: "AttentionMap", place: tuple[int, int, int]
) -> "AttentionPattern":
    from adaptlab.charts import AttentionPattern
    from adaptlab_answers.drawable_maps import without_padding

    layer, head, sample = place
    limits: dict[str, int] = dict(zip(("sample", "layer", "head"), recorded.shape, strict=False))
    for name, index in (("sample", sample), ("layer", layer), ("head", head)):
        if index >= limits[name]:
            raise UsageError(
                f"--{name} {index} is too large: job {job.id} has {limits[name]}, counted from 0."
            )
    pattern = without_padding(recorded.numpy()[sample, layer, head])
    summary = next((s for s in recorded.summaries if (s.layer, s.head) == (layer, head)), None)
    deviation = summary.relative_deviation if summary else None
    subtitle = "" if deviation is None else f"relative deviation from the base {deviation:.2g}"
    is_base = recorded.source == "base"
    return AttentionPattern(
        title=f"Base model {job.base_model or job.name or ''}" if is_base else _title(job),
        subtitle="" if is_base else subtitle,
        weights=tuple(map(tuple, pattern.astype(float).tolist())),
        tokens=recorded.words(sample),
        learned_positions=recorded.learned_positions,
        target_start=recorded.first_answer(sample),
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


def _save(maps_by_job: "Sequence[tuple[JobView, AttentionMaps]]", folder: Path) -> None:
    """Write arrays [sample, layer, head, query, key], and print their paths."""
    import numpy as np  # loaded for arrays only

    folder.mkdir(parents=True, exist_ok=True)
    for job, maps in maps_by_job:
        for recorded in maps:
            path = folder / f"{job.id}-{recorded.source}-{recorded.replicate}.npy"
            np.save(path, recorded.numpy(), allow_pickle=False)
            print(one_line(path))


def _print_summaries(
    maps_by_job: "Sequence[tuple[JobView, AttentionMaps]]", output: Output
) -> None:
    rows = [
        [job.id, job.method, recorded.source, recorded.seed, recorded.replicate, s.layer,
         s.head,         s.entropy, s.learned_mass, s.divergence, s.relative_deviation]
        for job, maps in maps_by_job
        for recorded in maps
        for s in recorded.summaries
    ]  # fmt: skip
    titles = (
        "job", "method", "source", "seed", "replicate", "layer", "head", "entropy", "learned mass",
        "divergence", "relative deviation",
    )  # fmt: skip
    print_rows(titles, rows, output)
