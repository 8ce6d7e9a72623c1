"""Tasks whose items are records of a dataset."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from pydantic import PrivateAttr

from adaptlab.errors import BadDataset, Problem
from adaptlab.plugins.dataset import DatasetFacts, Datasets, RecordsReference
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import Task
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.file_forms import FileOfServer, is_file
from adaptlab.records.record import FieldName
from adaptlab.text.source import TextSource
from adaptlab.text.splitting import SplitRule, SplitsByField, unknown_field
from adaptlab.values import Name, Value


class RecordsTask(Task, ABC):
    """A task that reads some fields of the records of a dataset.

    The server puts the name of a dataset in place of a file, or of a dataset on the hub, before the
    task is settled.

    `cluster` is the field that groups records which are not independent, such as questions on one
    document. A group is in one split, and what items add to an interval counts by group. Values
    that differ only in case, spaces and punctuation are one group.
    """

    needs_records: ClassVar[bool] = True

    dataset: RecordsReference | Name | FileOfServer
    """name of the dataset"""
    cluster: FieldName | None = None
    """field that groups records which belong together, such as a document"""

    _source: TextSource | None = PrivateAttr(default=None)
    _problems: tuple[Problem, ...] = PrivateAttr(default=())

    @abstractmethod
    def split_rule(self) -> SplitRule:
        """Return the rule of the splits with every default filled in."""

    @abstractmethod
    def answer_field(self) -> tuple[str, str]:
        """Return the pointer below the task, and the name, of the answer's field."""

    def majority(self, facts: RecordsFacts) -> float | None:
        """Return the share of the most common answer, None if it is not known."""
        field = facts.field(self.answer_field()[1])
        counts = [entry.count for entry in (field.values if field else None) or ()]
        return max(counts) / facts.records if counts else None

    def source(self) -> TextSource:
        """Return the content of the dataset, and how texts of it are read.

        Raises:
            BadDataset: they have not been given.
        """
        if self._source is None:
            raise BadDataset(
                f"The records of the dataset {self.reference_to_records().name!r} are not "
                "available here. Get them from the server."
            )
        return self._source

    def with_texts(self, sources: Mapping[str, TextSource]) -> Self:
        """Return the task with its records, which are read when an item is needed."""
        task = self.model_copy()
        task._source = sources.get(self.reference_to_records().digest)
        return task

    def found_in(self, facts: RecordsFacts) -> Self:
        """Return the task with what follows from the values of its fields."""
        return self

    def reference_to_records(self) -> RecordsReference:
        """Return the dataset.

        Raises:
            BadDataset: the task was not settled.
        """
        if isinstance(self.dataset, str):
            raise BadDataset(f"The dataset {self.dataset!r} has not been looked up yet.")
        return self.dataset

    def settled(self, datasets: Datasets) -> Self:
        """Return the task with its dataset's digest and the sizes of its splits."""
        if problems := tuple(self._own_problems()):
            return self._with_problems(problems)
        name = self.dataset if isinstance(self.dataset, str) else self.dataset.name
        facts = datasets.get(name)
        if facts is None:
            return self._with_problems((_unknown(name),))
        if isinstance(facts, DatasetFacts):
            return self._with_problems((_not_records(name),))
        problems = tuple(self._other_dataset(facts)) or tuple(self._misfits(facts))
        if problems:
            return self._with_problems(problems)
        return self.found_in(facts).model_copy(update=self._known_of(facts))

    def problems(self) -> tuple[Problem, ...]:
        """Return the errors of the configuration, with pointers below the task."""
        if self._problems or isinstance(self.dataset, RecordsReference):
            return self._problems
        return (_unknown(self.dataset),)

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        """Return the problem of a split without records."""
        empty = [split for split in splits if not self.available(split)]
        if not empty:
            return ()
        detail = (
            f"No record of {self.reference_to_records().name!r} is in the {empty[0]} split. Use a "
            "larger share, or a dataset with more records."
        )
        return (Problem("/splits", "empty_split", detail),)

    def available(self, split: Split) -> int:
        """Return the number of records in a split."""
        counts = self.reference_to_records().splits
        return {"train": counts.train, "validation": counts.validation, "test": counts.test}[split]

    def datasets(self) -> tuple[RecordsReference, ...]:
        """Return the dataset."""
        return (self.reference_to_records(),)

    def _own_problems(self) -> Iterator[Problem]:
        """Yield the problems that do not depend on the dataset."""
        yield from ()

    @abstractmethod
    def _misfits(self, facts: RecordsFacts) -> Iterator[Problem]:
        """Yield what the dataset does not allow."""

    def _known_of(self, facts: RecordsFacts) -> dict[str, Value]:
        """Return the members that the dataset settles."""
        reference = RecordsReference(
            name=facts.name,
            digest=facts.digest,
            splits=self.split_rule().counts(facts),
            majority=self.majority(facts),
        )
        return {"dataset": reference, "splits": self.split_rule()}

    def _other_dataset(self, facts: RecordsFacts) -> Iterator[Problem]:
        """Yield the problem of a name that stands for another dataset here."""
        if not isinstance(self.dataset, str) and self.dataset.digest != facts.digest:
            detail = (
                f"The dataset {facts.name!r} on this server has the SHA-256 {facts.digest}, which "
                "differs from the spec's. Use this digest, or name the dataset only."
            )
            yield Problem("/dataset", "dataset_differs", detail, nearest=(facts.digest,))

    def _with_problems(self, problems: tuple[Problem, ...]) -> Self:
        task = self.model_copy()
        task._problems = problems
        return task


def names_field(rule: SplitRule) -> bool:
    """Return True if the rule says by which field it divides records."""
    return isinstance(rule, SplitsByField) or rule.by is not None


def problems_of_splits(
    rule: SplitRule, cluster: str | None, facts: RecordsFacts
) -> Iterator[Problem]:
    """Yield what the dataset does not allow of splits and groups.

    Whether splits that a field names keep groups together is known when the records are read.
    """
    if cluster is not None and facts.field(cluster) is None:
        yield unknown_field("/cluster", cluster, facts)
    elif cluster is not None and not isinstance(rule, SplitsByField) and rule.by != cluster:
        detail = (
            f"Splits by {rule.by!r} would separate records of one {cluster!r}. Leave `splits.by` "
            f"out, or set it to {cluster!r}."
        )
        yield Problem("/splits/by", "separates_clusters", detail, allowed=(cluster,))
    for problem in rule.problems(facts):
        yield Problem("/splits" + problem.pointer, problem.code, problem.detail, problem.allowed)


def _unknown(name: str) -> Problem:
    if is_file(name):
        detail = (
            f"{name!r} is no dataset of the server. Only specs of new jobs and studies can name "
            "files and datasets on the hub. Add it as a dataset with `adaptlab datasets add`, and "
            "name the dataset."
        )
        return Problem("/dataset", "is_a_file", detail)
    return Problem(
        "/dataset",
        "unknown_dataset",
        f"There is no dataset named {name!r}. Upload one with `adaptlab datasets upload`.",
    )


def _not_records(name: str) -> Problem:
    detail = f"The dataset {name!r} consists of words. This task needs a dataset of records."
    return Problem("/dataset", "not_records", detail)
