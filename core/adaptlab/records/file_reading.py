"""Form, encoding and delimiter by which bytes become records."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field

from adaptlab.records.file_forms import FileForm
from adaptlab.records.record import MOST_FIELDS, FieldName
from adaptlab.values import Value

MOST_CLASSES = 10_000
Delimiter = Literal["comma", "semicolon", "tab", "bar"]
DELIMITERS: tuple[Delimiter, ...] = get_args(Delimiter)
SIGN_OF: Mapping[Delimiter, str] = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
NAME_OF: Mapping[str, Delimiter] = {sign: name for name, sign in SIGN_OF.items()}
PLURALS: Mapping[Delimiter, str] = {
    "comma": "commas", "semicolon": "semicolons", "tab": "tabs", "bar": "bars"
}  # fmt: skip
Encoding = Literal[
    "utf-8", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "cp1250", "cp1251", "cp1254",
    "iso-8859-2", "iso-8859-9", "koi8-r", "mac-roman", "shift_jis", "euc_kr", "gb18030", "big5",
]  # fmt: skip
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
FORM_TITLES: Mapping[FileForm, str] = {
    "csv": "CSV", "tsv": "TSV", "jsonl": "JSON", "parquet": "Parquet", "xlsx": "Excel"
}  # fmt: skip
TITLES: Mapping[str, str] = {
    "utf-8": "UTF-8",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
    "cp1252": "Windows-1252",
}

ClassNames = Annotated[
    dict[FieldName, Annotated[tuple[str, ...], Field(max_length=MOST_CLASSES)]],
    Field(max_length=MOST_FIELDS),
]
"""The names of classes, by number, by field."""
MENDING: tuple[str, ...] = ("drop_empty", "merge_labels")
"""The options that change labels, and so mend what is found in them."""


def _named(given: object) -> object:
    """Return the name of a delimiter that is given as its sign."""
    return NAME_OF.get(given, given) if isinstance(given, str) else given


class ReadingOptions(Value):
    """What a person says about a file; what is left out is found.

    Attributes:
        delimiter: the sign between the columns of CSV.
        encoding: the encoding of a text file.
        label: the field with the labels; by default the one of the task that fits.
        drop_empty: leave records without a label out.
        merge_labels: write labels that differ in case or spaces in their most frequent way.
        class_names: names of the classes whose numbers a field has.
    """

    delimiter: Annotated[Delimiter | None, BeforeValidator(_named)] = None
    encoding: Encoding | None = None
    label: FieldName | None = None
    drop_empty: bool = False
    merge_labels: bool = False
    class_names: ClassNames = Field(default_factory=dict[FieldName, tuple[str, ...]])

    @property
    def changes_labels(self) -> bool:
        """True if records are left out, or labels written in another way."""
        return self.drop_empty or self.merge_labels

    def alone(self) -> "ReadingOptions":
        """Return the options of a request without its other members."""
        names = ReadingOptions.model_fields
        return ReadingOptions.model_construct(**{name: getattr(self, name) for name in names})


class LabelCleaning(Value):
    """What was changed in the labels of a file.

    Attributes:
        label: the field with the labels.
        dropped: records without a label that were left out.
        missing: their values.
        merged: the kept writing by each other one.
    """

    label: FieldName
    dropped: int = 0
    missing: tuple[str, ...] = ()
    merged: dict[str, str] = Field(default_factory=dict)


class Reading(Value):
    """How a file was read. The same bytes give the same records with it.

    Attributes:
        form: its form.
        encoding: the encoding of a text file, None for another.
        delimiter: the sign between columns, None if they have no sign.
        old_line_ends: True if lines end with a carriage return alone.
        sheet: the sheet of a workbook that was read, None for another file.
        cleaning: what was changed in the labels, None if nothing was.
        class_names: names that replaced numbers of classes, beside those that Parquet has itself.
    """

    form: FileForm
    encoding: Encoding | None = None
    delimiter: Delimiter | None = None
    old_line_ends: bool = False
    sheet: Annotated[str, Field(max_length=255)] | None = None
    cleaning: LabelCleaning | None = None
    class_names: ClassNames = Field(default_factory=dict[FieldName, tuple[str, ...]])

    @property
    def title(self) -> str:
        """The form, delimiter and encoding in words."""
        form = FORM_TITLES[self.form]
        parts = [f"{form} with {PLURALS[self.delimiter]}" if self.delimiter else form]
        parts += [TITLES.get(self.encoding, self.encoding)] if self.encoding else []
        parts += ["old line ends (CR)"] if self.old_line_ends else []
        parts += [f"sheet {self.sheet!r}"] if self.sheet is not None else []
        return ", ".join(parts)
