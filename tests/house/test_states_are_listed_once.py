"""Job states are listed in `adaptlab_db.job_states` only.

Pages and commands derive their lists.
"""

import re
from pathlib import Path

import pytest

from adaptlab_db.job_states import JOB_STATES

FOLDERS = ("api/adaptlab_api/pages", "client/adaptlab_client")
SUFFIXES = (".py", ".html", ".js", ".css")
NAMES = "|".join(JOB_STATES)
LIST = re.compile(rf"""["'](?:{NAMES})["'],\s*["'](?:{NAMES})["']""")
STYLE = re.compile(rf"\b(?:state|progress)\.(?:{NAMES})\b(?=[^\n]*\{{)")


def offences(suffix: str, text: str) -> list[str]:
    """Lists of job states in a file, and style rules for single states."""
    return (STYLE if suffix == ".css" else LIST).findall(text)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_other_file_lists_job_states(folder: str) -> None:
    files = [one for one in Path(folder).rglob("*") if one.suffix in SUFFIXES]
    assert len(files) > 50
    found = {str(one): offences(one.suffix, one.read_text()) for one in files}
    assert {path: lists for path, lists in found.items() if lists} == {}


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".py", 'ENDED = ("succeeded", "failed", "cancelled")'),
        (".html", "{% if job.state in ('queued', 'running') %}"),
        (".css", ".state.running svg { animation: none; }"),
        (".css", "progress.failed::-moz-progress-bar { background: var(--bad); }"),
    ],
)
def test_a_list_of_states_is_found(suffix: str, text: str) -> None:
    assert offences(suffix, text)
