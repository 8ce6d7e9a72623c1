"""Rendering of templates to responses with the headers of every page."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from adaptlab.errors import InvalidSpec
from adaptlab_api.doors import shown_projects
from adaptlab_api.doors.path_prefix import below_prefix
from adaptlab_api.pages.rendering.assets import Assets
from adaptlab_api.pages.rendering.formats import page_filters
from adaptlab_api.pages.rendering.help import PURPOSES, Terms
from adaptlab_api.pages.rendering.navigation import NavigationGroup
from adaptlab_api.pages.rendering.parameters import Reader
from adaptlab_services.log_formats import fact

NO_LIST = "The address has invalid parameters"

# Nothing inline and nothing from other sites: text that escapes escaping still cannot run. Charts
# work because Vega's expressions are interpreted instead of compiled.
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
    """The templates, the files that they refer to, and the navigation."""

    environment: Environment
    assets: Assets
    navigation: tuple[NavigationGroup, ...]

    @classmethod
    def load(cls, assets: Assets, navigation: tuple[NavigationGroup, ...]) -> "Renderer":
        """Load templates that escape everything and fail for undefined names."""
        environment = Environment(
            loader=PackageLoader("adaptlab_api.pages", "templates"),
            autoescape=True,
            auto_reload=False,  # files of an installed version stay as they are
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        for name, written in page_filters().items():
            # jinja2's filters have no type.
            environment.filters[name] = written  # pyright: ignore[reportUnknownMemberType]
        return cls(environment, assets, navigation)

    def page(
        self,
        template: str,
        values: Mapping[str, object],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> HTMLResponse:
        """Return a page; the value `poll` is its update interval in seconds.

        With `stream`, the address of server-sent events, it updates after each of these. Forms and
        buttons that submit are hidden from a `Reader` without that permission.
        """
        absent = dict.fromkeys(("poll", "stream", "here", "principal"))
        who = values.get("principal")
        may_submit = not isinstance(who, Reader) or who.may_submit
        frame = {
            "assets": self.assets,
            "navigation": self.navigation,
            "may_submit": may_submit,
            "in_view": shown_projects.shown(),
            "purpose": PURPOSES[template],
            "term": Terms(),
        }
        shown = {**absent, **frame, **values}
        content = below_prefix(self.environment.get_template(template).render(shown)).encode()
        tag = {"ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'} if status == 200 else {}
        return HTMLResponse(content, status, {**PAGE_HEADERS, **tag, **(headers or {})})

    def listed(
        self,
        template: str,
        shown: Mapping[str, object],
        listing: Callable[[], Mapping[str, object]],
    ) -> HTMLResponse:
        """Return the page of a list, or an error for an invalid address."""
        try:
            content = listing()
        except InvalidSpec as fault:
            return self.fault(
                400, NO_LIST, " ".join(problem.detail for problem in fault.problems), shown
            )
        return self.page(template, {**shown, **content}, 400 if content.get("fault") else 200)

    def fault(
        self, status: int, heading: str, detail: str, values: Mapping[str, object]
    ) -> HTMLResponse:
        """Return an error page; `values` may add `faults` and `next_step`."""
        absent = dict.fromkeys(("faults", "next_step", "signed_out"))
        request = {"request_id": fact("request_id")}
        shown = {**absent, **request, **values, "heading": heading, "detail": detail}
        shown["is_absent"] = status == 404
        return self.page("fault.html", shown, status)
