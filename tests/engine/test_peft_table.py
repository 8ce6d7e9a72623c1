"""The table of methods in PEFT: its rows, and that its figures hold."""

from pathlib import Path

import pytest
from tests.engine.peft_table import METHODS, MODELS, row
from tests.engine.published import pair

from adaptlab.exchange.plugins import PEFT_FORMS

PAGE = Path(__file__).parents[2] / "docs/how-to/peft-adapters.md"
WRONG_IN_PEFT = {"`c3a`"}
"""Methods of which PEFT 0.21 gives gradients that finite differences refute."""

pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Unsupported layer type:UserWarning"),
]


@pytest.mark.long("every combination", but="each")
@pytest.mark.parametrize("name", METHODS)
def test_a_row_of_the_table_holds(name: str, tmp_path: Path):
    pairs = {m: pair(make, tmp_path / m, double=False) for m, make in MODELS.items()}
    found = row(name, pairs)
    assert found.logits < 1e-5
    assert (found.gradients < 1e-5) == (name not in WRONG_IN_PEFT)
    method, kind, where, _, note = (cell.strip() for cell in str(found).split("|")[1:-1])
    (line,) = (
        line for line in PAGE.read_text().splitlines() if line.startswith(f"| {method} | {kind} |")
    )
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert (cells[2], cells[4]) == (where, note)
    logits, gradients = map(float, cells[3].split(", "))
    assert logits < 1e-5
    assert (gradients < 1e-5) == (name not in WRONG_IN_PEFT)


def test_every_method_with_a_form_has_a_row():
    named = {name.split("`")[1] for name in METHODS}
    assert named == set(PEFT_FORMS.names())
