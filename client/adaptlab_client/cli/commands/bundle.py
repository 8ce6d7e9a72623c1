"""`adaptlab studies bundle` and `adaptlab bundle`: save and check bundles."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import ExitCode, UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import Output, complain, one_line, print_value, say
from adaptlab_client.cli.session import open_client

if TYPE_CHECKING:
    from adaptlab.bundle.checking import CheckedBundle

BundleArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Bundle file.")]
ToOption = Annotated[
    Path | None,
    typer.Option("--to", metavar="FILE", help="File to write. Default: STUDY.zip in this folder."),
]
RenderOption = Annotated[
    Path | None,
    typer.Option(
        "--render", metavar="DIR", help="Write the text and the plots again, to this new folder."
    ),
]
DigestOption = Annotated[
    str | None,
    typer.Option("--sha256", metavar="DIGEST", help="Expected SHA-256 of the whole file."),
]


def save(
    context: typer.Context,
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Id or name of a study.")],
    to: ToOption = None,
    level: Annotated[float | None, typer.Option(help="Confidence level. Default: 0.95.")] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Difference in accuracy below which methods count as alike. Default: 0.01."
        ),
    ] = None,
) -> None:
    """Save the decision of an ended study, with its evidence, as one file."""
    with open_client(context) as client:
        target = to or Path(f"{client.studies.get(study).name}.zip")
        saved = client.studies.bundle(study, target, level=level, margin=margin)
    say(f"SHA-256 {_sha256(saved)}. Keep it where nobody can change it.")
    print(one_line(saved))


def check(
    file: BundleArgument,
    render: RenderOption = None,
    sha256: DigestOption = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Format on stdout; json has everything.")
    ] = Output.TABLE,
) -> None:
    """Check a bundle without a server: its digests, numbers and texts.

    Every number is computed again from the outcomes. Exits with 0 if the bundle is valid, else
    with 65.
    """
    from adaptlab.bundle.checking import check_bundle
    from adaptlab.errors import BrokenBundle

    if sha256 is not None and file.is_file() and _sha256(file) != sha256.lower():
        detail = f"the file has the SHA-256 {_sha256(file)}; expected {sha256.lower()}."
        raise BrokenBundle(str(file), detail)
    bundle = check_bundle(file)
    if output is Output.TABLE:
        _print(bundle)
    else:
        print_value(bundle, Output.JSON if output is Output.JSON else Output.JSONL)
    for finding in bundle.findings:
        complain(f"adaptlab: {finding.member}: {finding.text}")
    if not bundle.holds:
        raise typer.Exit(ExitCode.INVALID_FILE)
    if render is not None:
        _render(bundle, render)


def application() -> typer.Typer:
    """Return the commands of `adaptlab bundle`."""
    purpose = "Check bundles, which `adaptlab studies bundle` saves."
    return group("bundle", purpose, {"check": check})


def _print(bundle: "CheckedBundle") -> None:
    if not bundle.holds:
        print(f"{one_line(bundle.study.name)}: the bundle is invalid.")
        return
    partial = " (a partial decision)" if bundle.claim.partial else ""
    print(f"{one_line(bundle.study.name)}: the bundle is valid{partial}.")
    print(f"- {bundle.members} members match the digests in the manifest.")
    print(f"- {bundle.numbers:,} numbers of the claim follow from the outcomes and specs.")
    print("- Tables and texts match the claim.")
    print("- Not checked: diagnoses, retention, groups of tasks and trials, which are as the")
    print("  server reported them; contents of Parquet files and plots, beyond their digests.")
    for table in bundle.claim.tables:
        for cell in table.comparison.cells if table.comparison else ():
            budget = "" if cell.budget is None else f" at {cell.budget:,}"
            print(one_line(f"{table.task} on {table.base_model}{budget}: {cell.sentence}"))


def _render(bundle: "CheckedBundle", folder: Path) -> None:
    """Write text and plots, to file names that do not come from the bundle."""
    from adaptlab.bundle.plots import plots
    from adaptlab.charts import svg

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty. Name a new folder.")
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    (folder / "decision.md").write_text(bundle.decision, encoding="utf-8")
    count = 0
    for name, chart in plots(bundle.claim):
        (folder / name).write_text(svg(chart), encoding="utf-8")
        count += 1
    say(f"wrote decision.md and {count} plots to {folder}")


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
