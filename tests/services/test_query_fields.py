"""The reference lists exactly the fields that can be queried."""

from pathlib import Path

from adaptlab_answers.queries import FieldView
from adaptlab_services.lifecycle.metric_summaries import catalogue
from adaptlab_services.results.result_queries import LISTINGS, fields_of

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "query-language.md"


def line_of(field: FieldView) -> str:
    also = f"; also {', '.join(f'`{name}`' for name in field.also)}" if field.also else ""
    indexed = "yes" if field.indexed else ""
    return f"| `{field.name}` | {field.type} | {field.means}{also} | {indexed} |"


def test_the_reference_lists_every_field_as_it_is() -> None:
    """A line that is missing or differs is to be written as it is shown here."""
    known = {
        line_of(field): None for of in ("results", "attention") for field in fields_of(of).data
    }
    lines = REFERENCE.read_text().splitlines()
    assert [line for line in known if line not in lines] == []
    rows = [line for line in lines if line.startswith("| `") and line.count("|") == 5]
    assert [line for line in rows if line not in known] == []


def test_the_usual_fields_and_orders_are_fields() -> None:
    for listing in LISTINGS.values():
        assert all(listing.fields.find(name) for name in listing.usual_fields)
        assert listing.fields.find(listing.usual_order.removeprefix("-"))
        assert all(listing.fields.find(name) for name in listing.never_null)


def test_no_name_is_used_twice() -> None:
    for listing in LISTINGS.values():
        names = [name for one in listing.fields.fields for name in (one.name, *one.also)]
        assert len(names) == len(set(names))
        assert set(catalogue()) & set(names) == set()
