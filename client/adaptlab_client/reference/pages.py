"""The reference pages."""

from adaptlab_client.reference.client_page import client_page
from adaptlab_client.reference.commands_page import commands_page
from adaptlab_client.reference.metrics_page import metrics_page


def written() -> dict[str, str]:
    """Return the text of every page, by file name."""
    return {
        "client-calls.md": client_page(),
        "commands.md": commands_page(),
        "metrics.md": metrics_page(),
    }
