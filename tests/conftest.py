"""Servers and databases that every test can ask for.

One Postgres and one Valkey serve a whole session: those at ADAPTLAB_DATABASE_URL and
ADAPTLAB_BROKER_URL if they are set, else embedded ones. Each test that asks gets a database of its
own, copied from a migrated template.
"""

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from sqlalchemy import make_url
from sqlalchemy.orm import Session, sessionmaker
from tests.connections import keep_connections
from tests.databases import Databases, shorten_password_checks
from tests.looking_up import look_up_once
from tests.making import a_base_model, a_made_up_ledger
from tests.patience import take_time
from tests.shapes import begin_module, begin_test, check_shapes
from tests.shared import shared_database_url, shared_sessions, shared_settings
from tests.sharing import FilesAndFolders
from tests.sorting import (
    keep_part,
    pytest_addoption,
    pytest_make_collect_report,
    pytest_pycollect_makeitem,
)
from tests.standstills import (
    pytest_runtest_protocol,
    pytest_runtest_setup,
    pytest_sessionfinish,
    pytest_terminal_summary,
)
from tests.statements import compile_once
from xdist.remote import Producer

from adaptlab_db.migrate import upgrade
from adaptlab_db.session import close, normalised_url, session_factory
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.settings import Settings
from adaptlab_stack.servers import Servers, embedded_servers

# Found here by pytest.
__all__ = [
    "pytest_addoption",
    "pytest_make_collect_report",
    "pytest_pycollect_makeitem",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "shared_database_url",
    "shared_sessions",
    "shared_settings",
]

COLLECT_AFTER = 10_000  # objects made and not freed; Python's own 700 cost a tenth of the time
SLOW_FOLDERS = ("whole", "chaos", "pages", "stack", "worker")
BROKER_NUMBER = 15 - int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""The Valkey database that tests empty; a broker that was given keeps its others untouched.

Each process of tests that shares a given broker has its own."""


def pytest_configure() -> None:
    """Set the environment of tests and their servers before torch reads it."""
    # Threads that wait for each other by spinning starve each other when tests share two cores: a
    # training step took 290 ms instead of 40.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Half a second of every trainer; those of the whole installation have their kernels.
    os.environ.setdefault("ADAPTLAB_COMPILE", "off")
    # A test asks as fast as it can; those of the rates set them. The buckets are as large: a small
    # one of a huge rate refuses whoever's millisecond is written down after a later one's.
    for rate in (
        *("READ_RATE", "READ_BURST", "WRITE_RATE", "WRITE_BURST"),
        *("WRONG_TOKENS_PER_MINUTE", "SIGN_INS_PER_MINUTE"),
    ):
        os.environ.setdefault(f"ADAPTLAB_{rate}", "100000")
    os.environ.setdefault("ADAPTLAB_HUB_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    os.environ["XDG_STATE_HOME"] = os.devnull  # the user's own last server is none of a test's
    if "PYTEST_XDIST_WORKER" in os.environ:
        # The processes of tests share the cores; each would take all of them.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        # Set to 80 by then; commands under test would make their tables fit.
        os.environ.pop("COLUMNS", None)
    # The same examples everywhere, and as long as they take; what a test says itself comes first.
    hypothesis_settings.register_profile(
        "adaptlab",
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    hypothesis_settings.load_profile("adaptlab")
    take_time()
    compile_once()
    keep_connections()
    look_up_once()
    check_shapes()
    # A shell ignores SIGINT for what it runs in the background, and nohup ignores SIGHUP. Every
    # process that a test starts and signals would inherit that.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Free nothing during collection, which took a tenth of its time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exempt modules, tests and routes, which are loaded, from collection."""
    gc.collect()
    gc.freeze()
    # At exit: DuckDB complains otherwise, and pytest collects five times before.
    atexit.register(gc.unfreeze)
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FilesAndFolders:
    """Give each process whole files, and one of them the folder `whole`."""
    return FilesAndFolders(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run slow folders first, so that none starts when the rest is done.

    The order is that of all processes, whichever files each began with.
    """
    keep_part(config, items)
    order = {name: number for number, name in enumerate(SLOW_FOLDERS)}
    items.sort(key=lambda item: (order.get(item.path.parent.name, len(order)), item.path))


@pytest.fixture(scope="module", autouse=True)
def shapes_of_a_module() -> None:
    """Check the shapes of tensors again in every module."""
    begin_module()


@pytest.fixture(autouse=True)
def shapes_of_a_test(shapes_of_a_module: None) -> None:
    """Check the shapes of tensors in the first calls of every test."""
    begin_test()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Postgres and Valkey, given or embedded."""
    database, broker = (os.environ.get(f"ADAPTLAB_{n}_URL") for n in ("DATABASE", "BROKER"))
    if database and broker:
        yield Servers(normalised_url(database), broker)
        return
    # Not pytest's own temporary folder: when root runs the tests, another user runs Postgres, and
    # pytest's folders are closed to it.
    folder = Path(tempfile.mkdtemp(prefix="adaptlab-tests-", dir=memory_folder()))
    folder.chmod(0o755)
    try:
        with embedded_servers(folder / "data", durable=False) as running:
            shorten_password_checks(running.database_url)
            yield Servers(database or running.database_url, broker or running.broker_url)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def databases(servers: Servers) -> Iterator[Databases]:
    """Databases on the server of the session."""
    with Databases(servers.database_url) as made:
        yield made


@pytest.fixture(scope="session")
def template_database(databases: Databases) -> Iterator[str]:
    """The name of a migrated database that nobody is connected to."""
    with databases.copy_of("template0") as url:
        upgrade(url)
        yield str(make_url(url).database)


@pytest.fixture
def database_url(databases: Databases, template_database: str) -> Iterator[str]:
    """A migrated database of the test's own."""
    with databases.like(template_database) as url:
        yield url


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """A database without any table."""
    with databases.copy_of("template0") as url:
        yield url


@pytest.fixture
def sessions(database_url: str) -> Iterator[sessionmaker[Session]]:
    """Sessions on the test's database: `with sessions.begin() as session:`."""
    factory = session_factory(database_url)
    yield factory
    close(factory)


@pytest.fixture
def ledger(sessions: sessionmaker[Session]) -> DatabaseLedger:
    """A worker's door to jobs, for results that a test has made up."""
    return a_made_up_ledger(sessions)


@pytest.fixture
def base(sessions: sessionmaker[Session]) -> None:
    """A trained base model of two replicates."""
    with sessions.begin() as session:
        a_base_model(session)


@pytest.fixture(scope="session")
def own_broker_url(servers: Servers) -> str:
    """The broker of this process of tests."""
    url = make_url(servers.broker_url).set(database=str(BROKER_NUMBER))
    return url.render_as_string(hide_password=False)


@pytest.fixture
def broker_url(own_broker_url: str) -> Iterator[str]:
    """A broker without messages."""
    with redis.Redis.from_url(own_broker_url) as client:
        client.flushdb()
        yield own_broker_url


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path) -> Settings:
    """Settings for the test's own database, broker and data directory."""
    # Tests call the planner of questions and the courier: their own looks would be among counted
    # statements. Those of the fetcher would too, and it would ask the real hub.
    return Settings(
        database_url=database_url,
        broker_url=broker_url,
        data_dir=tmp_path,
        question_seconds=3600,
        sweep_seconds=3600,
        hub="off",
    )


def memory_folder() -> Path | None:
    """A folder in memory with room for the tests' databases, or None."""
    folder = Path("/dev/shm")
    has_room = folder.is_dir() and os.access(folder, os.W_OK)
    return folder if has_room and shutil.disk_usage(folder).free > 2**31 else None
