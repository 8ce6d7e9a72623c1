"""What users write on a job or a study, and may change at any time."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.spec import MOST_LABELS, Label, LabelName
from adaptlab.values import Name, Value

LONGEST_NOTES = 4000
LONGEST_JOB_NAME = 120
SHOWABLE = r"^[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+$"
"""No control characters, because terminals interpret them when a CSV is printed."""

Notes = Annotated[str, Field(max_length=LONGEST_NOTES)]
JobName = Annotated[str, Field(max_length=LONGEST_JOB_NAME, pattern=SHOWABLE)]


class AnnotationChanges(Value):
    """Changes to what is written on a job or a study.

    Members that are missing change nothing. `labels` are added to those that exist, and a label
    that is null is removed. `notes` are replaced; null removes them. An `archived` job or study is
    left out of lists, and nothing else about it changes.
    """

    labels: Annotated[dict[LabelName, Label | None], Field(max_length=2 * MOST_LABELS)] = Field(
        default_factory=dict[LabelName, Label | None]
    )
    notes: Notes | None = None
    archived: bool | None = None

    def merged(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return labels after the change; raises `InvalidSpec` for too many."""
        given = dict(labels) | self.labels
        merged = {name: text for name, text in given.items() if text is not None}
        if len(merged) > MOST_LABELS:
            detail = (
                f"There would be {len(merged)} labels. The limit is {MOST_LABELS}. Remove some: "
                "give them as null."
            )
            raise InvalidSpec(Problem("/labels", "too_many_labels", detail))
        return merged


class JobAnnotations(AnnotationChanges):
    """Changes to what is written on a job.

    `name` replaces the name of the job; null removes it.
    """

    name: JobName | None = None


class StudyAnnotations(AnnotationChanges):
    """Changes to what is written on a study.

    `name` renames the study, which keeps its id. A study always has a name: null changes nothing.
    """

    name: Name | None = None
