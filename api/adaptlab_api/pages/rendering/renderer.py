"""From a template and values to a response, with the headers every page carries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from adaptlab.errors import InvalidSpec
from adaptlab_api.pages.rendering.assets import Assets
from adaptlab_api.pages.rendering.formats import page_filters
from adaptlab_api.pages.rendering.navigation import NavigationEntry
from adaptlab_api.pages.rendering.parameters import Reader

NO_LIST = "The address has invalid parameters"

# Nothing inline and nothing from elsewhere: text that slips through escaping still cannot run.
# The charts fit in because Vega's expressions are interpreted instead of compiled.
PAGE_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
        ),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
)


@dataclass(frozen=True, slots=True)
class Renderer:
    """The templates and the files that they refer to."""

    environment: Environment
    assets: Assets
    navigation: tuple[NavigationEntry, ...]

    @classmethod
    def load(cls, assets: Assets, navigation: tuple[NavigationEntry, ...]) -> "Renderer":
        """Templates that escape everything and stop at a name that is not there."""
        environment = Environment(
            loader=PackageLoader("adaptlab_api.pages", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        for name, written in page_filters().items():
            # jinja2 does not say what its filters are.
            environment.filters[name] = written  # pyright: ignore[reportUnknownMemberType]
        return cls(environment, assets, navigation)

    def page(
        self,
        template: str,
        values: Mapping[str, object],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> HTMLResponse:
        """One whole page; `poll` among the values says after how many seconds it asks again.

        With `stream`, the address of server-sent events, it asks when there is one of these.
        What submits something is shown unless the principal is a `Reader` who may not.
        """
        absent = dict.fromkeys(("poll", "stream", "here", "principal"))
        who = values.get("principal")
        may_submit = not isinstance(who, Reader) or who.may_submit
        frame = {"assets": self.assets, "navigation": self.navigation, "may_submit": may_submit}
        shown = {**absent, **frame, **values}
        text = self.environment.get_template(template).render(shown)
        return HTMLResponse(text, status, {**PAGE_HEADERS, **(headers or {})})

    def listed(
        self,
        template: str,
        shown: Mapping[str, object],
        listing: Callable[[], Mapping[str, object]],
    ) -> HTMLResponse:
        """The page of a list; or one that says that its address asks for what no list knows."""
        try:
            content = listing()
        except InvalidSpec as fault:
            return self.fault(400, NO_LIST, " ".join(one.detail for one in fault.problems), shown)
        return self.page(template, {**shown, **content}, 400 if content.get("fault") else 200)

    def fault(
        self, status: int, heading: str, detail: str, values: Mapping[str, object]
    ) -> HTMLResponse:
        """A page that says what went wrong; `faults`, `next_step` and `signed_out` say more."""
        absent = dict.fromkeys(("faults", "next_step", "signed_out"))
        shown = {**absent, **values, "heading": heading, "detail": detail}
        return self.page("fault.html", shown, status)
