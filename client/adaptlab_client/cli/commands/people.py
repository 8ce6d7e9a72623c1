"""`adaptlab users` and `adaptlab projects`."""

from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import (
    Output,
    one_line,
    print_list,
    print_one,
    print_value,
    say,
)
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_answers.people import MemberView, ProjectView, UserView

USERS = ("name", "admin", "active", "since", "hours by queue", "bytes")
PROJECTS = ("name", "your role", "since")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
MEMBERS = ("user", "role", "since", "accepted")
RoleOption = Annotated[
    Literal["reader", "submitter", "operator", "admin"],
    typer.Option(help="Role in the project."),
]
UserArgument = Annotated[str, typer.Argument(help="Name of a user.")]
NewProjectArgument = Annotated[str, typer.Argument(help="Name of a project.")]
ProjectArgument = Annotated[
    str, typer.Argument(help="Name of a project.", autocompletion=suggestions.projects)
]


def list_users(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the users (admins only)."""
    with open_client(context) as client:
        print_list(client.users.list(), USERS, _user, output, "name")


def create_user(
    context: typer.Context,
    name: UserArgument,
    admin: Annotated[
        bool, typer.Option("--admin", help="Make the user an admin of the whole server.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a user without a project; `adaptlab users invite` does all of it."""
    with open_client(context) as client:
        user = client.users.create(name, is_admin=admin)
    print_one(user, USERS, _user, output, "name")


def invite_user(
    context: typer.Context,
    name: UserArgument,
    project: Annotated[
        str,
        typer.Option(help="Project of the new member.", autocompletion=suggestions.projects),
    ],
    role: RoleOption = "submitter",
    days: Annotated[int, typer.Option(min=1, max=365, help="Days until the token expires.")] = 90,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a user, make them a member of a project, and print what to send on.

    A user that exists gets the role and a further token (admins only).
    """
    from adaptlab_client.errors import Conflict

    with open_client(context) as client:
        client.projects.members(project)  # before anything is created
        try:
            client.users.create(name)
        except Conflict:
            say(f"{name} exists already and gets a further token")
        client.projects.add(project, name, role)
        scopes = ("read",) if role == "reader" else ("read", "submit")
        token = client.tokens.create(
            f"invited to {project}", scopes, user=name, expires_in_days=days
        )
        url = client.url
    if output is not Output.TABLE:
        print_value(token, output)
        return
    if urlsplit(url).hostname in LOOPBACK:
        say(f"Only this machine reaches {url}; send the address by which others reach it.")
    say(f"Send this to {name}; the token is shown only once:")
    print(
        f"You have access to adaptlab at {url}, as {role} of the project {project}.\n"
        f"Token, valid until {token.expires_at:%Y-%m-%d}: {one_line(token.token)}\n"
        f"In a browser: sign in at {url}/login with the token.\n"
        f"In a shell: `adaptlab --url {url} login`, and paste the token."
    )


def change_user(
    context: typer.Context,
    name: UserArgument,
    admin: Annotated[
        bool | None,
        typer.Option(
            "--admin/--no-admin", help="Whether the user is an admin of the whole server."
        ),
    ] = None,
    active: Annotated[
        bool | None,
        typer.Option("--active/--inactive", help="Whether the user can sign in at all."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a user an admin or not, and deactivate or reactivate a user."""
    with open_client(context) as client:
        user = client.users.change(name, is_admin=admin, is_active=active)
    print_one(user, USERS, _user, output, "name")


def set_quotas(
    context: typer.Context,
    name: UserArgument,
    hours: Annotated[
        list[str] | None,
        typer.Option(
            help="Hours on a queue in thirty days, such as gpu=100. Repeatable, once per queue."
        ),
    ] = None,
    stored_bytes: Annotated[
        int | None, typer.Option(min=0, help="Bytes that the user and the user's jobs may store.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Set all quotas of a user; those left out return to the server's defaults."""
    by_queue = dict(_hours(text) for text in hours or ())
    with open_client(context) as client:
        user = client.users.set_quotas(name, by_queue, stored_bytes)
    print_one(user, USERS, _user, output, "name")


def list_projects(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the projects that you can see."""
    with open_client(context) as client:
        print_list(client.projects.list(), PROJECTS, _project, output, "name")


def create_project(
    context: typer.Context, name: NewProjectArgument, output: OutputOption = Output.TABLE
) -> None:
    """Create a project (admins only)."""
    with open_client(context) as client:
        print_one(client.projects.create(name), PROJECTS, _project, output, "name")


def members(
    context: typer.Context, name: ProjectArgument, output: OutputOption = Output.TABLE
) -> None:
    """List the members of a project."""
    with open_client(context) as client:
        print_list(client.projects.members(name), MEMBERS, _member, output, "user")


def add(
    context: typer.Context,
    name: ProjectArgument,
    user: UserArgument,
    role: RoleOption = "submitter",
    output: OutputOption = Output.TABLE,
) -> None:
    """Invite a user to a project, or change a member's role in it.

    The user is a member after `adaptlab projects accept`. Admins of the server add users at once.
    """
    with open_client(context) as client:
        print_one(client.projects.add(name, user, role), MEMBERS, _member, output, "user")


def remove(context: typer.Context, name: ProjectArgument, user: UserArgument) -> None:
    """Remove a user or an invitation, or leave; what the user created stays."""
    with open_client(context) as client:
        client.projects.remove(name, user)
    say(f"removed {user} from {name}")


def accept(
    context: typer.Context, name: NewProjectArgument, output: OutputOption = Output.TABLE
) -> None:
    """Accept an invitation to a project; `adaptlab whoami` lists yours."""
    with open_client(context) as client:
        print_one(client.projects.accept(name), PROJECTS, _project, output, "name")


def use(context: typer.Context, name: ProjectArgument, output: OutputOption = Output.TABLE) -> None:
    """Choose the project of your commands and requests that name none."""
    with open_client(context) as client:
        me = client.projects.use(name)
    usual = next(project for project in me.projects if project.name == me.usual_project)
    print_one(usual, PROJECTS, _project, output, "name")


def users_application() -> typer.Typer:
    """Return the commands of `adaptlab users`."""
    commands = {
        "list": list_users,
        "invite": invite_user,
        "create": create_user,
        "change": change_user,
        "set-quotas": set_quotas,
    }
    about = "List, invite, create and change users, and set their quotas (admins only)."
    return group("users", about, commands)


def projects_application() -> typer.Typer:
    """Return the commands of `adaptlab projects`."""
    return group(
        "projects",
        "List and create projects, and manage their members.",
        {
            "list": list_projects,
            "create": create_project,
            "members": members,
            "add": add,
            "remove": remove,
            "accept": accept,
            "use": use,
        },
    )


def _user(entry: "UserView") -> list[object]:
    hours = ", ".join(f"{queue}={most:g}" for queue, most in entry.quotas.queue_hours.items())
    facts = (entry.name, entry.is_admin, entry.is_active, entry.created_at)
    return [*facts, hours or None, entry.quotas.stored_bytes]


def _hours(text: str) -> tuple[str, float]:
    queue, _, hours = text.partition("=")
    try:
        return queue, float(hours)
    except ValueError:
        raise UsageError(f"{text!r} is not of the form QUEUE=HOURS, such as gpu=100.") from None


def _project(entry: "ProjectView") -> list[object]:
    return [entry.name, entry.role, entry.created_at]


def _member(entry: "MemberView") -> list[object]:
    return [entry.user, entry.role, entry.created_at, entry.accepted_at]
