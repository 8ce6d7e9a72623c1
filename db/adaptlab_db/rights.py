"""Rights of the API and the workers on each table and view.

All other rights belong to the owner, who migrates. Neither the API nor the workers own a table, so
neither can alter, truncate or drop one, or disable a trigger. To tables that only grow, they can
only append. A table that is not listed here is closed to both. Jobs that have ended are deleted
by a function of the owner, `delete_ended_jobs`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, LiteralString

from psycopg.sql import SQL, Composed, Identifier

Part = Literal["api", "worker"]
PARTS: tuple[Part, ...] = ("api", "worker")

_WORDS: Mapping[str, LiteralString] = {"r": "SELECT", "a": "INSERT", "w": "UPDATE", "d": "DELETE"}
# As Postgres abbreviates them. Locking a row requires the right to update it.
_OF_API = {
    "r": "alembic_version shared_jobs",
    "ra": "audit_entries job_events spec_numbers study_decisions",
    # Also results and workers, for workers that use the API; see `leases`.
    "raw": """projects users tokens jobs usage_counts study_links study_passes
        attempts attempt_counts claim_counts workers replicates metric_points evaluations
        job_metrics item_outcomes measures shown_items given_answers attention_maps
        attention_summaries checkpoints theory_reports""",
    "rawd": """memberships browser_sessions idempotency_keys base_models datasets studies study_jobs
        study_shares artifacts artifact_chunks uploads upload_chunks uploaded_folders
        uploaded_folder_files training_states lease_artifacts comparison_results webhooks
        webhook_events webhook_deliveries trackers tracked_studies hub_fetches hub_tokens""",
}
_OF_WORKER = {
    "r": """alembic_version projects datasets studies study_jobs uploaded_folders
        uploaded_folder_files webhooks trackers study_passes study_decisions""",
    "ra": "job_events",
    "rw": "jobs base_models",
    "raw": "attempts attempt_counts claim_counts tracked_studies",
    "rawd": """workers replicates metric_points evaluations job_metrics item_outcomes measures
        shown_items given_answers attention_maps attention_summaries checkpoints theory_reports
        training_states lease_artifacts artifacts artifact_chunks uploads upload_chunks
        webhook_events webhook_deliveries comparison_results""",
    "": """users tokens memberships browser_sessions audit_entries idempotency_keys
        usage_counts spec_numbers study_shares study_links shared_jobs hub_fetches
        hub_tokens""",
}


def _by_table(rights: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(
        {table: letters for letters, tables in rights.items() for table in tables.split()}
    )


RIGHTS: Mapping[Part, Mapping[str, str]] = MappingProxyType(
    {"api": _by_table(_OF_API), "worker": _by_table(_OF_WORKER)}
)
"""The rights of each part by table, as letters: r(ead), a(ppend), w(rite) and d(elete)."""


def grant(part: Part, role: str, table: str) -> Composed | None:
    """Return the statement that grants a role its rights on a table.

    None if the role has none.
    """
    letters = RIGHTS[part].get(table, "")
    if not letters:
        return None
    words = SQL(", ").join(SQL(_WORDS[letter]) for letter in letters)
    return SQL("GRANT {} ON TABLE public.{} TO {}").format(
        words, Identifier(table), Identifier(role)
    )
