"""Recipes and the reports of their studies as the server answers them."""

from pydantic import Field, JsonValue

from adaptlab_client.answers import Answer, Document
from adaptlab_client.comparison_answers import Interval


class RecipeSummary(Answer):
    """A recipe in a list: a study that repeats a table of a paper, and its presets."""

    name: str
    title: str
    question: str
    source: str
    presets: tuple[str, ...] = ()


class RecipePreset(Answer):
    """One preset: what differs from the paper, how long it takes, and the study that it runs."""

    preset: str
    note: str = ""
    spec: Document = Field(default_factory=dict[str, JsonValue])


class PublishedScore(Answer):
    """A score as the paper has it: mean accuracy and its standard deviation over seeds."""

    mean: float
    spread: float | None = None


class TableColumn(Answer):
    """A task that every row is scored on."""

    label: str
    task: JsonValue = None


class TableRow(Answer):
    """A row of the paper's table; one without `published` is a control that the paper lacks."""

    label: str
    published: tuple[PublishedScore | None, ...] = ()


class PublishedTable(Answer):
    """A table of the paper, with how many seeds its figures are over."""

    title: str
    source: str
    seeds: int | None = None
    columns: tuple[TableColumn, ...] = ()
    rows: tuple[TableRow, ...] = ()


class Wording(Answer):
    """One version of a claim and the test that decides it."""

    text: str
    test: JsonValue = None


class Claim(Answer):
    """A claim of the paper; `arxiv_v1` is None where its first version says the same.

    `given` are tests without which nothing is decided, `controls` those without which the claim is
    not reproduced.
    """

    id: str
    iclr: Wording
    arxiv_v1: Wording | None = None
    in_paper: bool = True
    given: tuple[JsonValue, ...] = ()
    controls: tuple[JsonValue, ...] = ()


class Recipe(Answer):
    """A recipe with the tables of the paper, its claims, and the study of each preset."""

    name: str
    title: str
    question: str
    source: str
    base_models: tuple[str, ...] = ()
    tables: tuple[PublishedTable, ...] = ()
    claims: tuple[Claim, ...] = ()
    presets: tuple[RecipePreset, ...] = ()


class SeedScore(Answer):
    """The accuracy of one seed."""

    seed: int
    accuracy: float


class ReportCell(Answer):
    """A published score beside the measured one; `reason` says why scores are not there.

    `state` is `measured`, `partly_measured`, `not_measured`, or `absent` where this preset has no
    such cell. `spread` is the standard deviation over seeds, and the interval is of the mean.
    """

    column: str
    state: str
    published: PublishedScore | None = None
    measured: Interval | None = None
    spread: float | None = None
    seeds: tuple[SeedScore, ...] = ()
    published_inside: bool | None = None
    reason: str | None = None


class ReportRow(Answer):
    """A row with what was trained for it; a `control` is one that the paper does not have."""

    label: str
    control: bool = False
    parameters: int | None = None
    steps: int | None = None
    trials: int | None = None
    cells: tuple[ReportCell, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the paper does not have it and this preset does not either."""
        return all(cell.published is None and cell.state == "absent" for cell in self.cells)


class ReportTable(Answer):
    """A table of the paper beside what was measured."""

    title: str
    source: str
    published_seeds: int | None = None
    columns: tuple[str, ...] = ()
    rows: tuple[ReportRow, ...] = ()


class ControlFinding(Answer):
    """The finding on one control of a claim, with the sentence of figures that says why."""

    finding: str
    evidence: str


class ClaimVerdict(Answer):
    """What is found of a claim in one wording, with the sentence of figures that says why.

    `finding` is `reproduced`, `not_reproduced`, `undecided` at this effort, or `not_measured`.
    """

    claim: str
    wording: str
    in_paper: bool = True
    text: str
    finding: str
    evidence: str
    controls: tuple[ControlFinding, ...] = ()


class ReportedStudy(Answer):
    """The study that a report is of."""

    id: str
    name: str
    state: str
    terminal: bool


class RecipeReport(Answer):
    """The tables and claims of a recipe as a study has measured them so far.

    `note` says what differs from the paper in this preset, `departures` which members of the
    study's spec differ from the recipe, and `level` is that of all intervals.
    """

    recipe: str
    preset: str
    title: str
    question: str
    source: str
    note: str = ""
    level: float = 0.95
    study: ReportedStudy
    tables: tuple[ReportTable, ...] = ()
    claims: tuple[ClaimVerdict, ...] = ()
    departures: tuple[str, ...] = ()
