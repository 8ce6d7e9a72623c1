"""A comparison whose tables are kept as JSON and read when needed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab.values import Value
from adaptlab_answers.comparisons import JobComparisonView
from adaptlab_services.comparisons.comparison_inputs import ComparisonInputs


class MethodEffort(Value):
    """The part of `ComparedMethod` that says what was run."""

    method: str
    parameters: int
    seeds: tuple[int, ...]
    steps: int
    batch_size: int
    trials: int


class TableMethods(Value):
    """The methods of a table, without scores."""

    methods: tuple[MethodEffort, ...]


@dataclass(frozen=True)
class StoredComparison:
    """The tables of `inputs`, as JSON in the same order.

    The tables of a large study have 15 MB, and reading them takes a second. A page shows a few.
    """

    inputs: ComparisonInputs
    contents: tuple[str, ...]

    @classmethod
    def of(cls, inputs: ComparisonInputs, kept: Mapping[str, str]) -> "StoredComparison | None":
        """Return the comparison of kept tables by digest; None if one is missing."""
        digests = inputs.digests()
        if not set(digests) <= set(kept):
            return None
        return cls(inputs, tuple(kept[digest] for digest in digests))

    @cached_property
    def methods(self) -> tuple[TableMethods, ...]:
        """The methods of every table."""
        read = TableMethods.model_validate_json
        return tuple(read(content, extra="ignore") for content in self.contents)

    def whole(self) -> JobComparisonView:
        """Return the comparison with all tables."""
        return self.part(range(len(self.contents)))

    def part(self, numbers: range) -> JobComparisonView:
        """Return the comparison with consecutive tables and their warnings only."""
        chosen = slice(numbers.start, numbers.stop)
        inputs = replace(self.inputs, tables=self.inputs.tables[chosen])
        return inputs.comparison(map(TableComparison.model_validate_json, self.contents[chosen]))
