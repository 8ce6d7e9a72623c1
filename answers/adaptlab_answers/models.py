"""Base models, datasets, methods, tasks, families and budgets."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from adaptlab.plugins.dataset import (
    Source,
)
from adaptlab.plugins.method import AttentionClaim, MethodGroup
from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis
from adaptlab.records.facts import (
    AnswerFacts,
    ConversationFacts,
    MissedForm,
    PictureFacts,
    ValueCount,
)
from adaptlab.records.file_reading import Reading
from adaptlab.specs.budget import BudgetVector
from adaptlab.values import Value
from adaptlab.weights.hub_name import HubDatasetOrigin, HubOrigin
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.links import Link
from adaptlab_answers.moments import Moment


class BaseModelLinks(Value):
    """Links of a base model."""

    self: Link
    job: Link


class BaseModelView(Value):
    """A base model; it is `ready` once the job that creates it has succeeded.

    `task` is the task that it was pretrained on, null for an imported model. `folder` is the model
    folder, below a model root, that workers read the weights from; null if they are stored.
    `origin` is where the files of an uploaded folder were fetched, null if they were not.

    A base model that another project shares has its name in `shared_from`. `shared_with` are the
    projects that can use this one, for members of its project; it is empty in lists.
    """

    name: str
    object: Literal["base_model"] = "base_model"
    project: str
    shared_from: str | None = None
    shared_with: tuple[str, ...] = ()
    state: str
    ready: bool
    digest: str
    family: JsonObject
    task: JsonObject | None
    folder: str | None = None
    origin: HubOrigin | None = None
    parameters: int
    replicates: int
    job_id: UUID
    created_at: Moment
    links: BaseModelLinks


class BaseModelFile(Value):
    """A file of a base model's folder, with its bytes."""

    name: str
    size: int


class BaseModelFolder(Value):
    """The files that `transformers` loads a base model from."""

    data: tuple[BaseModelFile, ...]


class ModelFolderFile(Value):
    """A file of an uploaded folder."""

    name: str
    size_bytes: int
    sha256: str


class ModelFolderLinks(Value):
    """Links of an uploaded folder."""

    self: Link


ModelFolderKind = Literal["model", "adapter"]


class ModelFolderView(Value):
    """An uploaded folder of a model or of a PEFT adapter.

    An import names it as its `folder`, and the evaluation of an adapter as its `adapter`. `family`
    is that of a model, null for an adapter. `architecture` is that of a model, or the PEFT type of
    an adapter, and `dtype` has the types of the stored tensors; both are null for folders of
    earlier versions. `sha256` is that of the lines `DIGEST  NAME` of all files, sorted by name.
    `base_models` were imported from the folder, and keep it from being deleted. `origin` is where
    the files were fetched, null if they were uploaded.
    """

    name: str
    object: Literal["model_folder"] = "model_folder"
    project: str
    owner: str
    kind: ModelFolderKind
    folder: str
    family: str | None
    architecture: str | None
    dtype: str | None
    parameters: int
    size_bytes: int
    sha256: str
    files: tuple[ModelFolderFile, ...]
    base_models: tuple[str, ...]
    origin: HubOrigin | None = None
    created_at: Moment
    links: ModelFolderLinks


DatasetKind = Literal["words", "records"]
Label = Annotated[str, Field(min_length=1, max_length=128)]


class DatasetOrigin(Value):
    """A package that a dataset comes from; `sha256` is that of the file read."""

    package: Label
    version: Label
    licence: Label
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None


class DatasetLinks(Value):
    """Links of a dataset; `content` is null for the generated list."""

    self: Link
    content: Link | None


class DatasetField(Value):
    """One field of the records of a dataset.

    `longest` is its longest value in bytes of UTF-8. `empty` counts the records whose value is
    empty or has spaces only. `total_bytes` is the size of all values, null for datasets of earlier
    versions. `values` are all its values with their counts; null if there are more
    than 64 or one has more than 256 characters, and in lists of datasets. `conversations` are
    figures of lists of messages, null if a value is another text. `pictures` are those of images,
    null if the first value is none. `missed_forms` are the forms of answers that not every value
    has, null for datasets of earlier versions. `answers` are figures of lists of right answers,
    null if no value is one.
    """

    name: str
    longest: int
    empty: int
    total_bytes: int | None = None
    values: tuple[ValueCount, ...] | None
    conversations: ConversationFacts | None = None
    pictures: PictureFacts | None = None
    missed_forms: tuple[MissedForm, ...] | None = None
    answers: AnswerFacts | None = None


class DatasetView(Value):
    """A dataset without its content.

    `digest` is the SHA-256 of the canonical content. The generated list belongs to no project.

    A dataset of `words` has `triples`. `lengths` counts them by the number of characters of their
    longest word, beginning with one; `characters` are all characters that occur. A dataset of
    `records` has `records`, of which `copies` are equal to an earlier one, and their `fields`. The
    members of the other kind are null.

    `reading` says how the file was read, null for records and words that were sent as such, and
    `origin` where it was fetched, null for what was uploaded.

    A dataset that another project shares has its name in `shared_from`. `shared_with` are the
    projects that have it from this one; it is empty in lists.
    """

    name: str
    object: Literal["dataset"] = "dataset"
    project: str | None
    shared_from: str | None = None
    shared_with: tuple[str, ...] = ()
    source: Source
    kind: DatasetKind = "words"
    digest: str
    size: int
    triples: int | None
    longest: int | None
    lengths: tuple[int, ...] | None
    characters: str | None
    records: int | None = None
    copies: int | None = None
    fields: tuple[DatasetField, ...] | None = None
    reading: Reading | None = None
    origin: HubDatasetOrigin | None = None
    sources: tuple[DatasetOrigin, ...]
    created_at: Moment | None
    links: DatasetLinks


class PlugIn(Value):
    """A task or family, with its knobs as a JSON schema."""

    name: str
    title: str
    summary: str
    reference: str
    knobs: dict[str, object]


class LargeBaseRates(Value):
    """A method's learning rates on large base models.

    Those have at least `from_parameters` parameters.
    """

    from_parameters: int
    default_learning_rate: float
    learning_rate_range: tuple[float, float]


class MethodEntry(PlugIn):
    """An adaptation method; a parameter budget determines its `size_knob`.

    `first_layer_attention` is the claim on whether relative attention over content can change in a
    layer whose input is unchanged. A reference is shown at every budget of a study.
    `large_base_rates` is null if large base models need no other learning rates.
    """

    group: MethodGroup
    formula: str
    first_layer_attention: AttentionClaim
    size_knob: str | None
    is_reference: bool
    default_learning_rate: float
    learning_rate_range: tuple[float, float]
    large_base_rates: LargeBaseRates | None
    default_weight_decay: float


class FamilyEntry(PlugIn):
    """A family of base models."""

    default_learning_rate: float
    default_weight_decay: float


class Methods(Value):
    """All methods, by group, the most used of each first."""

    data: tuple[MethodEntry, ...]


class Tasks(Value):
    """All tasks, by name."""

    data: tuple[PlugIn, ...]


class Families(Value):
    """All families, by name."""

    data: tuple[FamilyEntry, ...]


class ProblemView(Value):
    """An error in a request, as in a problem document."""

    pointer: str
    code: str
    detail: str
    allowed: tuple[str | int | float, ...]
    nearest: tuple[str | int | float, ...]


class MethodAnswer(Value):
    """A method's configuration for a budget, or problems and nearest budgets.

    A method of `fixed_size` has no knob that a budget could set; it fits or does not.
    """

    name: str
    feasible: bool
    fixed_size: bool
    method: dict[str, object] | None
    budget: BudgetVector | None
    problems: tuple[ProblemView, ...]
    nearest: tuple[int, ...]


class BudgetAnswer(Value):
    """The answers for all requested methods.

    `axis` is what the `requested` amount limits.
    """

    base_model: str | None
    base_parameters: int
    axis: BudgetAxis = PARAMETERS
    requested: int | None
    data: tuple[MethodAnswer, ...]
