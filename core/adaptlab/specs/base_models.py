"""Base models of an adaptation: its own, and others that it is carried to."""

from collections.abc import Iterator, Sequence

from adaptlab.errors import Problem
from adaptlab.plugins.family import AnyFamily
from adaptlab.plugins.learned_positions import text_start_problems
from adaptlab.plugins.method import Method
from adaptlab.plugins.task import AnyTask, Task
from adaptlab.specs.job_tasks import task_problems
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.resolved import OtherBase
from adaptlab.specs.spec import ModelFolder
from adaptlab.text.tokeniser import BYTES_VOCABULARY
from adaptlab.values import Value
from adaptlab.weights.model_folder import TOKENISER


class BaseModelFacts(Value):
    """The facts about a base model that resolving an adaptation needs.

    `task` is the task of its pretraining, None if that is unknown. `has_tokeniser` is False if the
    model was imported from a folder without one; texts are bytes for a model that was trained here.
    `folder` is the folder of an imported model. With `is_stored`, its weights are not read there:
    earlier versions stored those of imports, too.
    """

    name: str
    digest: str
    family: AnyFamily
    task: AnyTask | None
    replicates: int
    has_tokeniser: bool = True
    folder: ModelFolder | None = None
    is_stored: bool = False

    @property
    def tokeniser(self) -> str | None:
        """The digest of the tokeniser's file; None for bytes."""
        files = () if self.folder is None else self.folder.files
        return next((file.digest for file in files if file.name == TOKENISER), None)

    @property
    def is_published(self) -> bool:
        """True if its weights are read from the folder of a published model."""
        return self.folder is not None and not self.is_stored

    def as_other(self) -> OtherBase:
        """Return the base model as another one that an adaptation is evaluated on."""
        return OtherBase(
            name=self.name,
            digest=self.digest,
            family=self.family,
            replicates=self.replicates,
            folder=self.folder,
        )


def text_problems(
    base: BaseModelFacts, method: Method, tasks: Sequence[Task]
) -> tuple[Problem, ...]:
    """Return the problem of an adapted model that cannot read the texts."""
    texts = [task for task in tasks if task.needs_tokeniser]
    if texts and not base.has_tokeniser:
        detail = (
            f"The folder from which {base.name!r} was imported had no tokenizer.json, so the model "
            f"cannot read the texts of {texts[0].name}. Add the file and import the model again "
            "under another name."
        )
        return (Problem("/base_model", "no_tokeniser", detail),)
    if texts and method.follows_question():
        detail = (
            f"{method.name} places learned positions after the question, and the questions of "
            f"{texts[0].name} differ in length. Use another method."
        )
        return (Problem("/method", "questions_differ_in_length", detail),)
    return ()


def starting_problems(base: BaseModelFacts, method: Method) -> tuple[Problem, ...]:
    """Return the problem of a method whose starting text the base cannot read.

    The text of a model that reads bytes is counted here; the worker counts other tokens.
    """
    texts = method.starting_texts()
    if not texts or (base.folder is not None and base.has_tokeniser):
        return ()
    if base.folder is None and family_shape(base.family).vocabulary >= BYTES_VOCABULARY:
        counted = ((len(text.encode()), length) for text, length in texts)
        return tuple(p for count in counted for p in text_start_problems(*count))
    detail = (
        f"{base.name!r} reads no texts: it has no tokenizer.json and was not trained on bytes. Use "
        "`initialisation: vocabulary`, or another base model."
    )
    allowed = ("normal", "vocabulary")
    return (Problem("/method/initialisation", "no_tokeniser", detail, allowed),)


def carrying_problems(
    base: BaseModelFacts,
    method: Method,
    tasks: Sequence[Task],
    others: Sequence[BaseModelFacts],
) -> Iterator[Problem]:
    """Yield the problems of carrying a method to other base models.

    `tasks` are the job's own and those of its evaluation.
    """
    if others and not method.carries:
        detail = (
            f"{method.name} trains parameters of its base model, which no other base model has. "
            "Leave evaluation.base_models out, or use a method that finds tokens, such as pez."
        )
        yield Problem("/evaluation/base_models", "not_carried", detail)
        return
    for index, other in enumerate(others):
        pointer = f"/evaluation/base_models/{index}"
        earlier = {one.digest: one.name for one in (*others[:index], base)}
        if other.digest in earlier:
            is_own = other.digest == base.digest
            same = "the job's own" if is_own else f"the same as {earlier[other.digest]}"
            detail = f"The base model {other.name} is {same}. Leave it out."
            yield Problem(pointer, "base_model_twice", detail)
            continue
        for problem in _problems_on(other, base, method, tasks):
            yield Problem(pointer, problem.code, f"On {other.name}: {problem.detail}")


def _problems_on(
    other: BaseModelFacts, base: BaseModelFacts, method: Method, tasks: Sequence[Task]
) -> tuple[Problem, ...]:
    """Return the first problems of another base: answers, texts, then tokens."""
    own, *evaluated = tasks
    if own.classes() is not None:
        detail = "The task trains a head for classes, which no other base model has."
        return (Problem("/task/score", "head_not_carried", detail),)
    is_same_text = not own.needs_tokeniser or base.tokeniser == other.tokeniser
    return (
        tuple(task_problems(own, [("/evaluation", task) for task in evaluated], other.family))
        or text_problems(other, method, tasks)
        or method.task_problems(own, other.family, own.content_length(other.family))
        or method.carried_problems(
            base.name,
            family_shape(base.family),
            family_shape(other.family),
            is_same_text=is_same_text,
        )
    )
