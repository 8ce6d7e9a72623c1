"""The modules that the server loads at its start, in each process."""

import json
from collections.abc import Callable

import pytest

PROBE = """
import json, sys
import {module}
print(json.dumps([name for name in {heavy!r} if name in sys.modules]))
"""
HEAVY = ("celery", "kombu", "scipy", "pandas", "torch", "vl_convert")


def loaded(fresh_python: Callable[[str], str], module: str) -> list[str]:
    return json.loads(fresh_python(PROBE.format(module=module, heavy=HEAVY)))


def test_the_server_starts_without_heavy_libraries(fresh_python: Callable[[str], str]) -> None:
    assert loaded(fresh_python, "adaptlab_api.server") == []


@pytest.mark.parametrize(
    ("module", "found"), [("adaptlab_worker.loop.app", "celery"), ("scipy.special", "scipy")]
)
def test_the_probe_sees_what_is_loaded(
    fresh_python: Callable[[str], str], module: str, found: str
) -> None:
    assert found in loaded(fresh_python, module)
