"""Which reference pages there are."""

from adaptlab_client.reference.client_page import client_page
from adaptlab_client.reference.commands_page import commands_page


def written() -> dict[str, str]:
    """The pages by file name; the same for the same code."""
    return {"client.md": client_page(), "commands.md": commands_page()}
