"""`adaptlab webhooks`: create, list, show, change, test, deliveries, delete."""

from typing import TYPE_CHECKING, Annotated

import typer

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
    from adaptlab_answers.webhooks import DeliveryView, WebhookView

COLUMNS = ("id", "project", "address", "format", "events", "enabled", "last delivery")
DELIVERIES = ("id", "event", "about", "state", "attempts", "status", "created", "error")
FORMATS = ("json", "slack")

WebhookArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a webhook, from `adaptlab webhooks list`.")
]
EventOption = Annotated[
    list[str] | None,
    typer.Option("--event", help="Event: job.ended, study.ended or worker.lost. Repeatable."),
]


def create(
    context: typer.Context,
    receiver: Annotated[
        str, typer.Argument(metavar="URL", help="Address of the receiver, with https.")
    ],
    event: EventOption = None,
    format: Annotated[  # noqa: A002 - the API's own word
        str, typer.Option(help="Format: json, or slack for an incoming webhook of Slack.")
    ] = "json",
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a webhook and print its secret on stdout; it is shown only once.

    Without --event, ended studies and lost workers are reported.
    """
    if format not in FORMATS:
        raise UsageError(f"There is no format {format!r}. Use json or slack.")
    with open_client(context) as client:
        webhook = client.webhooks.create(
            receiver, event, format="slack" if format == "slack" else "json"
        )
    if output is not Output.TABLE:
        print_value(webhook, output)
        return
    say(f"webhook {webhook.id} of {webhook.project}. Its secret is shown only once:")
    print(one_line(webhook.secret))


def list_webhooks(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the webhooks of projects in which you are an operator."""
    with open_client(context) as client:
        print_list(client.webhooks.list(), COLUMNS, _row, output)


def show(
    context: typer.Context, webhook: WebhookArgument, output: OutputOption = Output.TABLE
) -> None:
    """Show a webhook, without its secret."""
    with open_client(context) as client:
        print_one(client.webhooks.get(_id(webhook)), COLUMNS, _row, output)


def change(
    context: typer.Context,
    webhook: WebhookArgument,
    receiver: Annotated[str | None, typer.Option(help="New address of the receiver.")] = None,
    event: EventOption = None,
    enable: Annotated[
        bool | None,
        typer.Option("--enable/--disable", help="Whether messages are sent; the others wait."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change the address or the events of a webhook, or enable or disable it."""
    with open_client(context) as client:
        changed = client.webhooks.change(_id(webhook), url=receiver, events=event, enabled=enable)
    print_one(changed, COLUMNS, _row, output)


def deliveries(
    context: typer.Context, webhook: WebhookArgument, output: OutputOption = Output.TABLE
) -> None:
    """List the messages to a webhook, newest first, with what came of them."""
    with open_client(context) as client:
        print_list(client.webhooks.deliveries(_id(webhook)), DELIVERIES, _delivery, output)


def send_test(
    context: typer.Context, webhook: WebhookArgument, output: OutputOption = Output.TABLE
) -> None:
    """Have a test message sent; see `adaptlab webhooks deliveries` for what came of it."""
    with open_client(context) as client:
        print_one(client.webhooks.test(_id(webhook)), DELIVERIES, _delivery, output)


def delete(context: typer.Context, webhook: WebhookArgument) -> None:
    """Delete a webhook with its messages; pending ones are not sent."""
    with open_client(context) as client:
        client.webhooks.delete(_id(webhook))
    say(f"deleted webhook {webhook}")


def application() -> typer.Typer:
    """Return the commands of `adaptlab webhooks`."""
    return group(
        "webhooks",
        "Send messages to other servers when jobs and studies end.",
        {
            "create": create,
            "list": list_webhooks,
            "show": show,
            "change": change,
            "deliveries": deliveries,
            "test": send_test,
            "delete": delete,
        },
    )


def _id(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"{text!r} is not the id of a webhook. See `adaptlab webhooks list`.")
    return int(text)


def _row(entry: "WebhookView") -> list[object]:
    last = entry.last_delivery
    outcome = "none" if last is None else f"{last.event} {last.state}"
    kinds = ", ".join(entry.events)
    enabled = "yes" if entry.enabled else "no"
    return [entry.id, entry.project, entry.url, entry.format, kinds, enabled, outcome]


def _delivery(entry: "DeliveryView") -> list[object]:
    about = entry.job or entry.study or entry.worker
    outcome = (entry.state, entry.attempts, entry.status)
    return [entry.id, entry.event, about, *outcome, entry.created_at, entry.error]
