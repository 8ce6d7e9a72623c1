"""Datasets of records beside those of words."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

WORDS = {
    "triples": sa.Integer(),
    "characters": sa.Text(),
    "lengths": postgresql.ARRAY(sa.Integer()),
}
RECORDS = {
    "records": sa.Integer(),
    "copies": sa.Integer(),
    "fields": postgresql.JSONB(),
    "field_values": postgresql.JSONB(),
    "buckets": postgresql.ARRAY(sa.Integer(), dimensions=2),
}


def upgrade() -> None:
    """Add the kind and the columns of records; all datasets so far are words."""
    kind = sa.Column("kind", sa.Text(), server_default=sa.text("'words'"), nullable=False)
    op.add_column("datasets", kind)
    for name, of_type in RECORDS.items():
        op.add_column("datasets", sa.Column(name, of_type, nullable=True))
    for name in WORDS:
        op.alter_column("datasets", name, nullable=True)
    op.create_check_constraint(
        op.f("ck_datasets_kind"),
        "datasets",
        "CASE kind "
        "WHEN 'words' THEN num_nonnulls(triples, characters, lengths) = 3 "
        "AND num_nonnulls(records, copies, fields, field_values, buckets) = 0 "
        "WHEN 'records' THEN num_nonnulls(triples, characters, lengths) = 0 "
        "AND num_nonnulls(records, copies, fields, field_values, buckets) = 5 "
        "ELSE false END",
    )


def downgrade() -> None:
    """Drop the datasets of records, which earlier versions cannot describe.

    Their content is collected if nothing else refers to it.
    """
    op.execute("DELETE FROM datasets WHERE kind = 'records'")
    op.drop_constraint(op.f("ck_datasets_kind"), "datasets")
    for name in WORDS:
        op.alter_column("datasets", name, nullable=False)
    for name in ("kind", *RECORDS):
        op.drop_column("datasets", name)
