"""The tables of release 0.2.0.

Earlier versions reached the same tables in 48 revisions, of which the last had this id too, so
databases at that one need nothing.
"""

import re
from importlib.resources import files

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables, and the project `default`."""
    for name in ("tables.sql", "functions.sql"):
        # Without parameters, a text can have several statements, and `%` stands for itself.
        op.get_bind().exec_driver_sql(_text(name), execution_options={"no_parameters": True})


def downgrade() -> None:
    """Drop what `upgrade` has created."""
    for table in re.findall(r"^CREATE TABLE (\w+)", _text("tables.sql"), re.MULTILINE):
        op.execute(sa.text(f"DROP TABLE {table} CASCADE"))
    for function in re.findall(r"^CREATE FUNCTION (\w+)", _text("functions.sql"), re.MULTILINE):
        op.execute(sa.text(f"DROP FUNCTION {function}"))


def _text(name: str) -> str:
    return (files("adaptlab_db.migrations") / "initial" / name).read_text(encoding="utf-8")
