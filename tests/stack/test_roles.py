"""A stack whose API and workers have their own roles in Postgres.

Its data directory is new or old.
"""

import stat
from dataclasses import asdict
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import make_url

from adaptlab_db.migrate import upgrade
from adaptlab_db.rights import PARTS
from adaptlab_db.role_passwords import address_for
from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.servers import embedded_servers


def plain(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def test_a_directory_keeps_the_passwords_that_it_got_first(tmp_path: Path) -> None:
    directory = DataDirectory.open(tmp_path / "data")
    first = directory.credentials()
    assert len(set(asdict(first).values())) == 6
    assert stat.S_IMODE(directory.credentials_file.stat().st_mode) == 0o600
    assert directory.credentials() == first


@pytest.mark.long("every migration path")
def test_an_old_cluster_gets_the_roles_when_it_is_started_and_migrated(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with embedded_servers(data, durable=False) as servers:
        upgrade(servers.database_url)
        with psycopg.connect(plain(servers.database_url), autocommit=True) as owner:
            for part in PARTS:  # as it was before there were roles
                owner.execute(f"DROP OWNED BY adaptlab_{part}".encode())
                owner.execute(f"DROP ROLE adaptlab_{part}".encode())
    with embedded_servers(data, durable=False) as servers:
        upgrade(servers.database_url)
        passwords = DataDirectory(data).credentials().roles
        for part in PARTS:
            address = plain(address_for(servers.database_url, part, passwords))
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("SELECT count(*) FROM jobs")
                with pytest.raises(InsufficientPrivilege):
                    connection.execute("DROP TABLE jobs")
