"""Controls of diagnoses among the jobs of a study."""

# pyright: reportUnknownMemberType=false

from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

ROLES = "role IN ('method', 'reference', 'base_model', 'check', 'sweep'{})"


def upgrade() -> None:
    """Allow the role of controls."""
    op.drop_constraint(op.f("ck_study_jobs_role"), "study_jobs")
    op.create_check_constraint(
        op.f("ck_study_jobs_role"), "study_jobs", ROLES.format(", 'control'")
    )


def downgrade() -> None:
    """Unlink controls from their studies; the jobs stay."""
    op.execute("DELETE FROM study_jobs WHERE role = 'control'")
    op.drop_constraint(op.f("ck_study_jobs_role"), "study_jobs")
    op.create_check_constraint(op.f("ck_study_jobs_role"), "study_jobs", ROLES.format(""))
