"""The tabs of the pages about projects, webhooks, users and the audit log."""

from adaptlab_api.pages.rendering.navigation import NavigationEntry
from adaptlab_services.people.access import Access, is_at_least

TEAM = "/projects"
"""The address of the entry of the navigation that these pages share."""


def team_tabs(access: Access) -> tuple[NavigationEntry, ...]:
    """Return the tabs that the caller can open."""
    tabs = [NavigationEntry(1, "Projects", TEAM)]
    if is_at_least(access.highest(), "operator"):
        tabs.append(NavigationEntry(2, "Webhooks", "/webhooks"))
    if access.is_admin:
        tabs.append(NavigationEntry(3, "Users", "/users"))
        tabs.append(NavigationEntry(4, "Audit log", "/audit"))
    return tuple(tabs)
