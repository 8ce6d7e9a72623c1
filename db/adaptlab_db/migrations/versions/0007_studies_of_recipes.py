"""Theory checks as jobs of studies, and the recipe of a study."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ROLES = "role IN ('method', 'reference', 'base_model', 'check')"
ROLES_BEFORE = "role IN ('method', 'reference', 'base_model')"
CELL = (
    "CASE role WHEN 'check' THEN num_nonnulls(task, budget) IN (0, 2) "
    "WHEN 'base_model' THEN num_nonnulls(task, method, budget) = 0 "
    "ELSE num_nonnulls(task, method, budget) = 3 END"
)
CELL_BEFORE = (
    "CASE role WHEN 'base_model' THEN num_nonnulls(task, method, budget) = 0 "
    "ELSE num_nonnulls(task, method, budget) = 3 END"
)


def upgrade() -> None:
    """Add theory checks to studies, and the recipe that a study was made from."""
    op.add_column("studies", sa.Column("recipe", postgresql.JSONB(), nullable=True))
    op.add_column("study_jobs", sa.Column("theory_check", sa.Text(), nullable=True))
    op.alter_column("study_jobs", "base_model", nullable=True)
    _replace_checks(ROLES, CELL)
    base_model = "role = 'check' OR base_model IS NOT NULL"
    op.create_check_constraint(op.f("ck_study_jobs_base_model"), "study_jobs", base_model)
    theory_check = "(role = 'check') = (theory_check IS NOT NULL)"
    op.create_check_constraint(op.f("ck_study_jobs_theory_check"), "study_jobs", theory_check)


def downgrade() -> None:
    """Drop them; the jobs of checks stay, outside their studies."""
    op.execute("DELETE FROM study_jobs WHERE role = 'check'")
    op.drop_constraint(op.f("ck_study_jobs_theory_check"), "study_jobs")
    op.drop_constraint(op.f("ck_study_jobs_base_model"), "study_jobs")
    _replace_checks(ROLES_BEFORE, CELL_BEFORE)
    op.alter_column("study_jobs", "base_model", nullable=False)
    op.drop_column("study_jobs", "theory_check")
    op.drop_column("studies", "recipe")


def _replace_checks(roles: str, cell: str) -> None:
    for name, condition in (("role", roles), ("cell", cell)):
        op.drop_constraint(op.f(f"ck_study_jobs_{name}"), "study_jobs")
        op.create_check_constraint(op.f(f"ck_study_jobs_{name}"), "study_jobs", condition)
