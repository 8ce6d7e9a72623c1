"""Projects, roles and the audit log."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

OWNED = ("jobs", "studies", "datasets", "base_models")
NAMED = ("base_models", "datasets")
NOW = sa.text("clock_timestamp()")
MOMENT = sa.DateTime(timezone=True)
ROLES = """
    INSERT INTO memberships (user_id, project_id, role)
    SELECT tokens.user_id, projects.id, CASE
        WHEN bool_or('admin' = ANY(scopes)) THEN 'admin'
        WHEN bool_or('submit' = ANY(scopes)) THEN 'operator'
        ELSE 'reader' END
    FROM tokens, projects
    WHERE revoked_at IS NULL AND scopes && ARRAY['admin', 'submit', 'read']
    GROUP BY tokens.user_id, projects.id"""
ADMINS = """
    UPDATE users SET is_admin = true WHERE id IN (
        SELECT user_id FROM tokens WHERE revoked_at IS NULL AND 'admin' = ANY(scopes))"""
REFUSE = """
    CREATE FUNCTION refuse_to_change_audit_entries() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'The audit log is append-only: % is refused.', TG_OP;
    END $$"""
TRIGGER = """
    CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_audit_entries()"""


def upgrade() -> None:
    """Put all rows into the project `default`.

    Every user who has a token becomes a member.
    """
    _create_projects()
    op.add_column(
        "users", sa.Column("is_admin", sa.Boolean(), server_default=sa.false(), nullable=False)
    )
    op.add_column("users", sa.Column("deactivated_at", MOMENT, nullable=True))
    op.execute("INSERT INTO projects (name) VALUES ('default')")
    op.execute(ROLES)
    op.execute(ADMINS)
    for table in OWNED:
        _own(table)
    op.add_column("tokens", sa.Column("project_id", sa.BigInteger(), nullable=True))
    op.create_foreign_key(
        op.f("fk_tokens_project_id"), "tokens", "projects", ["project_id"], ["id"]
    )
    for table in NAMED:
        op.drop_constraint(op.f(f"pk_{table}"), table)
        op.create_primary_key(op.f(f"pk_{table}"), table, ["project_id", "name"])
    op.drop_constraint(op.f("uq_studies_name"), "studies")
    op.create_unique_constraint(
        op.f("uq_studies_project_id_name"), "studies", ["project_id", "name"]
    )
    newest = ["project_id", sa.text("created_at DESC"), sa.text("id DESC")]
    op.create_index("ix_jobs_project_newest", "jobs", newest)
    _create_audit_log()


def downgrade() -> None:
    """Drop the projects, unless two of them use the same name."""
    _refuse_to_mix()
    op.drop_table("audit_entries")
    op.execute("DROP FUNCTION refuse_to_change_audit_entries()")
    op.drop_index("ix_jobs_project_newest", "jobs")
    op.drop_constraint(op.f("uq_studies_project_id_name"), "studies")
    op.create_unique_constraint(op.f("uq_studies_name"), "studies", ["name"])
    for table in NAMED:
        op.drop_constraint(op.f(f"pk_{table}"), table)
        op.create_primary_key(op.f(f"pk_{table}"), table, ["name"])
    for table in (*OWNED, "tokens"):
        op.drop_constraint(op.f(f"fk_{table}_project_id"), table)
        op.drop_column(table, "project_id")
    op.drop_column("users", "deactivated_at")
    op.drop_column("users", "is_admin")
    op.drop_table("memberships")
    op.drop_table("projects")


def _create_projects() -> None:
    op.create_table(
        "projects",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sa.UniqueConstraint("name", name="uq_projects_name"),
    )
    op.create_table(
        "memberships",
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("project_id", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, server_default=NOW, nullable=False),
        sa.CheckConstraint(
            "role IN ('reader', 'submitter', 'operator', 'admin')",
            name=op.f("ck_memberships_role"),
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_memberships_user_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_memberships_project_id"),
        sa.PrimaryKeyConstraint("user_id", "project_id", name="pk_memberships"),
    )
    op.create_index("ix_memberships_project_id", "memberships", ["project_id"])


def _own(table: str) -> None:
    """Add the column with a default that is then dropped.

    That changes no row, however many there are, so that jobs that have ended can be given to the
    project too.
    """
    default = op.get_bind().execute(sa.text("SELECT id FROM projects")).scalar_one()
    column = sa.Column(
        "project_id", sa.BigInteger(), server_default=sa.text(str(default)), nullable=False
    )
    op.add_column(table, column)
    op.alter_column(table, "project_id", server_default=None)
    op.create_foreign_key(op.f(f"fk_{table}_project_id"), table, "projects", ["project_id"], ["id"])


def _create_audit_log() -> None:
    op.create_table(
        "audit_entries",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("at", MOMENT, server_default=NOW, nullable=False),
        sa.Column("actor_id", sa.BigInteger(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=True),
        sa.Column("token_id", sa.BigInteger(), nullable=True),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("object", sa.Text(), nullable=True),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("request_id", sa.Uuid(), nullable=False),
        sa.Column("details", postgresql.JSONB(), nullable=True),
        sa.ForeignKeyConstraint(["actor_id"], ["users.id"], name="fk_audit_entries_actor_id"),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_audit_entries_token_id"),
        sa.PrimaryKeyConstraint("id", name="pk_audit_entries"),
    )
    for column in ("actor", "action", "object", "at"):
        op.create_index(f"ix_audit_entries_{column}_id", "audit_entries", [column, "id"])
    op.execute(REFUSE)
    op.execute(TRIGGER)


def _refuse_to_mix() -> None:
    for table in ("studies", *NAMED):
        twice = f"SELECT name FROM {table} GROUP BY name HAVING count(*) > 1 LIMIT 1"  # noqa: S608 - a table of ours
        name = op.get_bind().execute(sa.text(twice)).scalar_one_or_none()
        if name is not None:
            raise RuntimeError(
                f"Two projects have {table} of the name {name!r}; rename or delete one first."
            )
