"""`adaptlab studies link`, `links` and `unlink`: for people without an account."""

from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.printing.terminal import Output, one_line, print_list, print_value, say
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_answers.study_links import StudyLinkView

COLUMNS = ("id", "for", "state", "creator", "created", "expires")
StudyArgument = Annotated[
    str,
    typer.Argument(
        metavar="STUDY", help="Id or name of a study.", autocompletion=suggestions.studies
    ),
]


def link(
    context: typer.Context,
    study: StudyArgument,
    name: Annotated[str, typer.Argument(metavar="FOR", help="Who gets the link, for the list.")],
    days: Annotated[int, typer.Option(min=1, max=365, help="Days until the link expires.")] = 30,
    never_expires: Annotated[
        bool, typer.Option("--never-expires", help="Valid until it is revoked.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a link with which people without an account read a study, and print it once.

    Only an admin of the study's project can do this.
    """
    with open_client(context) as client:
        made = client.studies.link(study, name, expires_in_days=None if never_expires else days)
        address = f"{client.url.rstrip('/')}{made.path}"
    if output is not Output.TABLE:
        print_value(made, output)
        return
    until = (
        "until it is revoked" if made.expires_at is None else f"until {made.expires_at:%Y-%m-%d}"
    )
    say(f"link {made.id} for {one_line(made.name)}, valid {until}. It is shown only once:")
    print(one_line(address))


def links(
    context: typer.Context, study: StudyArgument, output: OutputOption = Output.TABLE
) -> None:
    """List the links to a study, newest first."""
    with open_client(context) as client:
        print_list(client.studies.links(study), COLUMNS, _row, output)


def unlink(
    context: typer.Context,
    study: StudyArgument,
    link: Annotated[int, typer.Argument(metavar="ID", help="Id from `adaptlab studies links`.")],
) -> None:
    """Revoke a link to a study; it opens nothing from the next request on."""
    with open_client(context) as client:
        revoked = client.studies.revoke_link(study, link)
    say(f"revoked link {revoked.id} for {one_line(revoked.name)}")


def _row(link: "StudyLinkView") -> tuple[object, ...]:
    ends = "never" if link.expires_at is None else f"{link.expires_at:%Y-%m-%d}"
    created = f"{link.created_at:%Y-%m-%d}"
    return (link.id, link.name, link.state, link.creator, created, ends)
