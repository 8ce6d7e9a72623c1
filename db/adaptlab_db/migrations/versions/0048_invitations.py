"""Invitations to projects, and the project of requests that name none."""

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0046"
branch_labels = None
depends_on = None

KEY = "fk_users_usual_project_id"
# What such requests used so far: the only project, otherwise the default one.
USUAL = """
    UPDATE users SET usual_project_id = usual.project_id FROM (
        SELECT membership.user_id, coalesce(
            max(membership.project_id) FILTER (WHERE project.name = 'default'),
            max(membership.project_id)
        ) AS project_id
        FROM memberships AS membership JOIN projects AS project
            ON project.id = membership.project_id
        GROUP BY membership.user_id
        HAVING count(*) = 1 OR bool_or(project.name = 'default')
    ) AS usual
    WHERE usual.user_id = users.id AND NOT users.is_admin
"""


def upgrade() -> None:
    """Add both columns; members stay members, in the same usual project."""
    moment = sa.DateTime(timezone=True)
    op.add_column("memberships", sa.Column("accepted_at", moment, nullable=True))
    op.execute("UPDATE memberships SET accepted_at = created_at")
    op.alter_column("memberships", "accepted_at", server_default=sa.func.clock_timestamp())
    op.add_column("users", sa.Column("usual_project_id", sa.BigInteger(), nullable=True))
    op.create_foreign_key(op.f(KEY), "users", "projects", ["usual_project_id"], ["id"])
    op.execute(USUAL)


def downgrade() -> None:
    """Drop both columns and all invitations that nobody has accepted."""
    op.execute("DELETE FROM memberships WHERE accepted_at IS NULL")
    op.drop_column("memberships", "accepted_at")
    op.drop_column("users", "usual_project_id")
