"""Where files of a hub come from, as it is stored."""

from datetime import UTC, datetime
from typing import Any

from adaptlab_services.hub.due_fetches import ClaimedFetch
from adaptlab_services.hub.hub_access import HubRepository
from adaptlab_services.people.tokens import Principal


def origin_members(
    claimed: ClaimedFetch, repository: HubRepository, who: Principal
) -> dict[str, Any]:
    """Return the members of a `HubOrigin`, of several types."""
    return {
        "endpoint": claimed.endpoint,
        "repository": claimed.name.repository,
        "revision": claimed.name.revision,
        "commit": repository.commit,
        "licence": repository.licence,
        "licence_name": repository.licence_name,
        "licence_link": repository.licence_link,
        "gated": repository.gated,
        "private": repository.private,
        "fetched_by": who.name,
        "fetched_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
