"""Queries over a full database, as an ordinary member."""

import os
import random
import time
from collections.abc import Sequence
from urllib.parse import urlencode

import psutil
from sqlalchemy import make_url, select
from sqlalchemy.dialects.postgresql import insert as upsert

from adaptlab_db.session import close, session_factory
from adaptlab_db.tables import Membership, Project, User
from adaptlab_services.people.tokens import create_token
from adaptlab_stack.stack import Stack
from bench import query_rows
from bench.connection import Connection
from bench.figures import Figure, Section, quantile
from bench.own_stack import own_stack

TITLE = "Queries over results"
CORES = 2
ROUNDS = 40
WARM = 3
READER = "reader"
FILTERS = (
    ("results", ""),
    ("results", 'method = "{method}"'),
    ("results", 'task = "{task}" AND method IN ("lora", "ia3")'),
    ("results", "metrics.accuracy.mean > 0.{high}"),
    ("results", 'task = "{task}" AND budget.trainable <= 2000 AND metrics.accuracy.mean > 0.9 '
                'OR method IN ("lora", "ia3")'),
    ("results", 'method = "{method}" AND metrics.accuracy.mean > 0.94'),
    ("results", 'labels.run = "{number}"'),
    ("results", 'labels.team = "team-{team}" AND budget.trainable < 100'),
    ("results", "created_at < 2025-02-{day}"),
    ("results", 'base_model = "base-{small}" AND budget.trainable = {power}'),
    ("results", "metrics.accuracy.mean > 1.{high}"),
    ("results", "metrics.accuracy.high > 1.{high}"),
    ("results", "spec.training.steps > 10000{high}"),
    ("results", "spec.training.steps = 10000{high}"),
    ("results", "spec.training.steps = {hundreds}00"),
    ("jobs", 'spec.method.name = "none-{high}"'),
    ("attention", "spec.training.steps > 10000{high}"),
    ("attention", "layer = 2 AND divergence > 0.3 AND learned_mass > 0.5"),
    ("attention", 'layer = {small4} AND divergence > 0.6 AND method = "{method}"'),
    ("attention", "learned_mass > 0.99{high}"),
    ("jobs", "state = failed"),
    ("jobs", 'task = "{task}" AND metrics.accuracy.mean > 0.9'),
)  # fmt: skip
SORTED = (("results", 'task = "{task}"', "-metrics.accuracy.mean"),
          ("results", "", "budget.trainable"),
          ("results", "", "-finished_at"),
          ("attention", "", "-relative_deviation"),
          ("attention", "", "-entropy"),
          ("attention", "layer = {small4}", "-learned_mass"))  # fmt: skip
GROUPED = (("", "method,budget"), ('task = "{task}"', "method,budget"), ("", "base_model,task"))
PAGES = (
    "/",
    "/?filter=state+%3D+failed",
    "/?filter=metrics.accuracy.mean+%3E+0.9",
    "/base-models",
    "/workers",
)
"""Pages of the dashboard, which are long with that many jobs."""


def measure() -> Section:
    """Fill a stack's database and query it, all on two cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:CORES])
    try:
        with own_stack(workers=0) as stack:
            token = _reader(stack.database_url)
            began = time.perf_counter()
            filled = query_rows.fill(_plain(stack.database_url), READER)
            seconds = time.perf_counter() - began
            timings = _asked(stack, token)
            pages = _looked_at(stack, token)
            api = psutil.Process(stack.processes["api"].pid).memory_info().rss / 2**20
    finally:
        os.sched_setaffinity(0, before)
    every = [one for _, times in timings for one in times]
    slowest = max(timings, key=lambda one: quantile(one[1], 0.5))
    return Section(
        TITLE,
        f"{filled.jobs:,} jobs, {filled.points:,} metric points and {filled.heads:,} heads in the "
        f"database (filled in {seconds:.0f} s), server, database and client on {CORES} cores. "
        "A member of one project requests first pages of 50 rows over HTTP, one after the other: "
        f"{ROUNDS} rounds of {len(timings)} filters and orders with changing values.",
        (
            Figure("first page, all filters", "", _formatted(every), "100 ms / 300 ms"),
            *(Figure(f"`{name}`", "", _formatted(times), "") for name, times in timings),
            Figure("the slowest", "", f"{slowest[0]}: {_formatted(slowest[1])}", ""),
            *(Figure(f"the page `{name}`", "", _formatted(times), "") for name, times in pages),
            Figure("API, resident, afterwards", "", f"{api:.0f} MB", "under 256 MB"),
        ),
    )


def _asked(stack: Stack, token: str) -> list[tuple[str, list[float]]]:
    connection = Connection(stack.url, token)
    asked = [
        *((subject, text, {}) for subject, text in FILTERS),
        *((subject, text, {"order_by": order}) for subject, text, order in SORTED),
        *(("results", text, {"group_by": group_by}) for text, group_by in GROUPED),
    ]
    times: list[list[float]] = [[] for _ in asked]
    chance = random.Random(7)
    for turn in range(WARM + ROUNDS):
        for place, (subject, text, more) in enumerate(asked):
            query = {"filter": _with_values(text, chance), "page_size": 50} | more
            began = time.perf_counter()
            connection.get(f"/v1/{subject}?{urlencode(query)}")
            if turn >= WARM:
                times[place].append((time.perf_counter() - began) * 1000)
    connection.close()
    names = [
        f"{subject}: {text or 'everything'}{''.join(f', by {given}' for given in more.values())}"
        for subject, text, more in asked
    ]
    for name, one in zip(names, times, strict=True):
        print(f"  {name}: {_formatted(one)}", flush=True)
    return list(zip(names, times, strict=True))


def _looked_at(stack: Stack, token: str) -> list[tuple[str, list[float]]]:
    connection = Connection(stack.url, token)
    times: list[list[float]] = [[] for _ in PAGES]
    for turn in range(WARM + ROUNDS):
        for place, path in enumerate(PAGES):
            began = time.perf_counter()
            connection.get(path)
            if turn >= WARM:
                times[place].append((time.perf_counter() - began) * 1000)
    connection.close()
    return list(zip(PAGES, times, strict=True))


def _with_values(text: str, chance: random.Random) -> str:
    return text.format(
        method=chance.choice(query_rows.METHODS),
        task=chance.choice(query_rows.TASKS),
        high=chance.randint(1, 9),
        number=chance.randint(1, query_rows.JOBS),
        team=chance.randint(0, 49),
        day=f"{chance.randint(1, 28):02}",
        small=chance.randint(0, 6),
        small4=chance.randint(0, 3),
        hundreds=chance.randint(1, query_rows.STEPS),
        power=2 ** chance.randint(4, 14),
    )


def _reader(database_url: str) -> str:
    """Return the token of a member of `default` who is no admin."""
    sessions = session_factory(database_url)
    with sessions.begin() as session:
        session.execute(upsert(User).values(name=READER).on_conflict_do_nothing())
        user_id = session.scalars(select(User.id).where(User.name == READER)).one()
        project_id = session.scalars(select(Project.id).where(Project.name == "default")).one()
        row = {"user_id": user_id, "project_id": project_id, "role": "reader"}
        session.execute(upsert(Membership).values(row).on_conflict_do_nothing())
        token = create_token(session, user_id, "bench", ["read"])
    close(sessions)
    return token


def _plain(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _formatted(milliseconds: Sequence[float]) -> str:
    in_order = sorted(milliseconds)
    return f"p50 {quantile(in_order, 0.5):.3g} ms, p99 {quantile(in_order, 0.99):.3g} ms"


if __name__ == "__main__":
    for figure in measure().figures:
        print(f"{figure.work}: {figure.result}")
