"""Questions on a terminal, each with a default and an option that answers it."""

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, TypeVar

import typer

from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.printing.terminal import complain, inert, is_terminal, one_line

T = TypeVar("T")

DeleteOption = Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")]


class Questions:
    """Asks what no option answers, or takes the defaults."""

    def __init__(self, *, takes_defaults: bool) -> None:
        self._takes_defaults = takes_defaults
        self._asks = not takes_defaults and is_terminal(sys.stdin)

    @property
    def asks(self) -> bool:
        """True if there is somebody to ask."""
        return self._asks

    def require(self, options: Mapping[str, object | None]) -> None:
        """Raise `UsageError` if nobody can be asked for options that are missing."""
        missing = [option for option, value in options.items() if value is None]
        if missing and not self._asks and not self._takes_defaults:
            raise UsageError(
                f"This is not a terminal, so nothing is asked. Give {', '.join(missing)}, or --yes "
                "to take the defaults."
            )

    def answer(
        self,
        title: str,
        explanation: str,
        given: str | None,
        default: Callable[[], str | None],
        read: Callable[[str], T],
    ) -> T:
        """Return the answer that was given, typed, or taken by default.

        Args:
            title: the words of the question, also of an error.
            explanation: a line about it.
            given: the value of its option.
            default: returns the answer that Enter takes, None if there is none.
            read: returns the value of an answer; raises `UsageError` for one that is invalid, which
                is asked again on a terminal.
        """
        if given is not None:
            return read(given)
        usual = default()
        if not self._asks:
            if usual is None:
                raise UsageError(f"{title}: there is no default. {explanation}")
            return read(usual)
        complain(f"\n{explanation}")
        shown = f"{title} [{one_line(usual)}]" if usual is not None else title
        while True:
            typed = typer.prompt(shown, default=usual, show_default=False, err=True)
            try:
                return read(str(typed).strip())
            except UsageError as error:
                complain(str(error))

    def agree(self, question: str) -> bool:
        """Return True if the answer is yes, as by default."""
        if not self._asks:
            return self._takes_defaults
        return typer.confirm(inert(question), default=True, err=True)


def confirm_deletion(what: str, *, yes: bool) -> None:
    """Ask before something is deleted, unless `yes`.

    Raises `UsageError` if nobody can be asked, and `typer.Abort` for a no.
    """
    if yes:
        return
    if not is_terminal(sys.stdin):
        raise UsageError(
            f"This is not a terminal, so nothing is asked. Give --yes to delete {what}."
        )
    question = f"Delete {what}? This cannot be undone."
    typer.confirm(inert(question), default=False, abort=True, err=True)
