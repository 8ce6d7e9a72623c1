"""What the API and the workers may do with each table; all else is for its owner, who migrates.

Neither owns a table, so neither can change, empty or drop one, or switch a trigger off. What is
only ever appended to, they can only append to. A table that is not here is closed to both.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, LiteralString

from psycopg.sql import SQL, Composed, Identifier

Part = Literal["api", "worker"]
PARTS: tuple[Part, ...] = ("api", "worker")

_WORDS: Mapping[str, LiteralString] = {"r": "SELECT", "a": "INSERT", "w": "UPDATE", "d": "DELETE"}
# As Postgres abbreviates them. Whoever locks a row needs the right to update it.
_OF_API = {
    "r": "alembic_version",
    "ra": "audit_entries job_events spec_numbers",
    # What was measured and the workers too: for workers that come by the API, see `leases`.
    "raw": """projects users tokens jobs base_models datasets studies usage_counts
        attempts workers replicates metric_points evaluations job_metrics item_outcomes
        attention_maps attention_summaries checkpoints theory_reports""",
    "rawd": """memberships browser_sessions idempotency_keys study_jobs artifacts artifact_chunks
        uploads upload_chunks training_states lease_artifacts comparison_results""",
}
_OF_WORKER = {
    "r": "alembic_version projects datasets studies study_jobs",
    "ra": "job_events",
    "rw": "jobs base_models",
    "raw": "attempts workers",
    "rawd": """replicates metric_points evaluations job_metrics item_outcomes attention_maps
        attention_summaries checkpoints theory_reports training_states lease_artifacts artifacts
        artifact_chunks uploads upload_chunks""",
    "": """users tokens memberships browser_sessions audit_entries idempotency_keys
        usage_counts comparison_results spec_numbers""",
}


def _by_table(given: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(
        {table: letters for letters, tables in given.items() for table in tables.split()}
    )


RIGHTS: Mapping[Part, Mapping[str, str]] = MappingProxyType(
    {"api": _by_table(_OF_API), "worker": _by_table(_OF_WORKER)}
)
"""The rights of each part by table, as letters: r(ead), a(ppend), w(rite) and d(elete)."""


def grant(part: Part, role: str, table: str) -> Composed | None:
    """The statement that gives a role its rights to a table; None for one without any."""
    letters = RIGHTS[part].get(table, "")
    if not letters:
        return None
    words = SQL(", ").join(SQL(_WORDS[letter]) for letter in letters)
    return SQL("GRANT {} ON TABLE public.{} TO {}").format(
        words, Identifier(table), Identifier(role)
    )
