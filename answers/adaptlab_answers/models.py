"""Base models, datasets, methods, tasks and families, and what a budget comes to."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from adaptlab.plugins.dataset import (
    Source,
)
from adaptlab.plugins.method import AttentionClaim
from adaptlab.specs.budget import BudgetVector
from adaptlab.values import Value
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.moments import Moment


class BaseModelLinks(Value):
    """Where to go from a base model."""

    self: str
    job: str


class BaseModelView(Value):
    """A named base model; it is `ready` once the job that makes it has succeeded.

    `task` is what it was pretrained on; an imported model has none.
    """

    name: str
    object: Literal["base_model"] = "base_model"
    project: str
    state: str
    ready: bool
    digest: str
    family: JsonObject
    task: JsonObject | None
    parameters: int
    replicates: int
    job_id: UUID
    created_at: Moment
    links: BaseModelLinks


Said = Annotated[str, Field(min_length=1, max_length=128)]


class DatasetOrigin(Value):
    """A package that words were taken from; `sha256` is of the file that was read."""

    package: Said
    version: Said
    licence: Said
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None


class DatasetLinks(Value):
    """Where to go from a dataset; the generated list has no content of its own."""

    self: str
    content: str | None


class DatasetView(Value):
    """What is known of a dataset; `digest` is the SHA-256 of its canonical content.

    `lengths` counts triples by the characters of their longest form, from one character on, and
    `characters` are those of all words. The generated list is of no project.
    """

    name: str
    object: Literal["dataset"] = "dataset"
    project: str | None
    source: Source
    digest: str
    size: int
    triples: int
    longest: int
    lengths: tuple[int, ...]
    characters: str
    sources: tuple[DatasetOrigin, ...]
    created_at: Moment | None
    links: DatasetLinks


class PlugIn(Value):
    """A task or family: what it is, and its knobs as a JSON schema."""

    name: str
    title: str
    summary: str
    reference: str
    knobs: dict[str, object]


class MethodEntry(PlugIn):
    """An adaptation method; `size_knob` is the knob that a parameter budget decides.

    `first_layer_attention` is the claim whether relative attention over content can change in a
    layer whose input is unchanged. A reference stands at every budget of a study.
    """

    formula: str
    first_layer_attention: AttentionClaim
    size_knob: str | None
    is_reference: bool
    default_learning_rate: float
    learning_rate_range: tuple[float, float]
    default_weight_decay: float


class FamilyEntry(PlugIn):
    """A family of base models."""

    default_learning_rate: float
    default_weight_decay: float


class Methods(Value):
    """All methods, by name."""

    data: tuple[MethodEntry, ...]


class Tasks(Value):
    """All tasks, by name."""

    data: tuple[PlugIn, ...]


class Families(Value):
    """All families, by name."""

    data: tuple[FamilyEntry, ...]


class ProblemView(Value):
    """A fault, as in the problem documents of errors."""

    pointer: str
    code: str
    detail: str
    allowed: tuple[str | int | float, ...]
    nearest: tuple[str | int | float, ...]


class MethodAnswer(Value):
    """What one method becomes within the budget, or why it cannot, with the nearest budgets.

    One of `fixed_size` has no knob for a budget to set; it fits or it does not.
    """

    name: str
    feasible: bool
    fixed_size: bool
    method: dict[str, object] | None
    budget: BudgetVector | None
    problems: tuple[ProblemView, ...]
    nearest: tuple[int, ...]


class BudgetAnswer(Value):
    """The answers of all methods that were asked."""

    base_model: str | None
    base_parameters: int
    requested: int | None
    data: tuple[MethodAnswer, ...]
