"""Users, tokens and names when projects are introduced and removed."""

import pytest
from sqlalchemy import text

from adaptlab_db.migrate import downgrade, upgrade
from adaptlab_db.session import close, session_factory

BEFORE = """
    INSERT INTO users (name) VALUES ('root'), ('worker'), ('maker'), ('viewer'), ('gone');
    INSERT INTO tokens (user_id, name, digest, scopes, revoked_at)
    SELECT id, 'old', decode(md5(name), 'hex'), CASE name
        WHEN 'root' THEN ARRAY['read', 'submit', 'worker', 'admin']
        WHEN 'worker' THEN ARRAY['worker']
        WHEN 'maker' THEN ARRAY['read', 'submit'] WHEN 'viewer' THEN ARRAY['read']
        ELSE ARRAY['admin'] END, CASE name WHEN 'gone' THEN now() END FROM users"""
STUDY = """
    INSERT INTO studies (id, owner_id, name, spec, skipped{more})
    SELECT gen_random_uuid(), (SELECT min(id) FROM users), 'one', '{{}}', '[]'{value}"""


def test_everybody_may_afterwards_what_they_could_before(empty_database_url: str) -> None:
    upgrade(empty_database_url, "0011")
    sessions = session_factory(empty_database_url)
    try:
        with sessions.begin() as session:
            session.execute(text(BEFORE))
            session.execute(text(STUDY.format(more="", value="")))
        upgrade(empty_database_url)
        with sessions.begin() as session:
            roles = session.execute(
                text(
                    "SELECT users.name, role, is_admin FROM users LEFT JOIN memberships "
                    "ON user_id = users.id ORDER BY users.name"
                )
            ).all()
            assert [tuple(row) for row in roles] == [
                ("gone", None, False),
                ("maker", "operator", False),
                ("root", "admin", True),
                ("viewer", "reader", False),
                ("worker", None, False),
            ]
            project = "SELECT projects.name FROM studies JOIN projects ON projects.id = project_id"
            assert session.scalars(text(project)).all() == ["default"]
            session.execute(text("INSERT INTO projects (name) VALUES ('other')"))
            other = STUDY.format(more=", project_id", value=", max(id) FROM projects")
            session.execute(text(other))
        with pytest.raises(RuntimeError, match="studies of the name 'one'"):
            downgrade(empty_database_url, "0011")
    finally:
        close(sessions)
