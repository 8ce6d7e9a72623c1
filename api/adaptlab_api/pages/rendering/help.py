"""Help on pages: documents, their purpose in a line, and terms explained.

The texts are those of `docs/`, which is part of the installed package, and of functions that
packages name as entry points: pages written from the code.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup, escape

from adaptlab.plugins.metric import Metric

GLOSSARY = "glossary.md"
GENERATED = "adaptlab.documents"
"""The entry points of generated documents, named by their paths below `docs/`."""
_TERM = re.compile(r"^\*\*(?P<name>[^*]+)\*\*: (?P<means>.+?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a page is for, if it has no such line itself, and its document."""

    document: str
    line: str = ""

    @property
    def title(self) -> str:
        """The title of the document."""
        return title_of(self.document)


PURPOSES: Mapping[str, Purpose] = {
    "answers.html": Purpose(
        "how-to/bring-your-own-data.md", "Test items of a job with the expected and given answers."
    ),
    "attention.html": Purpose(
        "how-to/read-attention.md", "What an adaptation changed in each head."
    ),
    "audit.html": Purpose("how-to/users-and-tokens.md"),
    "base-model.html": Purpose(
        "how-to/use-your-own-model.md", "One base model and its adaptations."
    ),
    "base-models.html": Purpose("how-to/use-your-own-model.md"),
    "compare.html": Purpose(
        "how-to/read-a-comparison.md", "Scores, intervals and verdicts for jobs of your choice."
    ),
    "dataset-file.html": Purpose(
        "how-to/bring-your-own-data.md", "A file that was sent, before it is a dataset."
    ),
    "dataset.html": Purpose("how-to/bring-your-own-data.md", "One dataset and its first records."),
    "datasets.html": Purpose("how-to/bring-your-own-data.md"),
    "document.html": Purpose("README.md"),
    "fault.html": Purpose("README.md"),
    "job-new.html": Purpose("how-to/submit-from-the-browser.md"),
    "job.html": Purpose(
        "explanation/concepts.md", "One job: its progress, scores, curves, attention and files."
    ),
    "jobs.html": Purpose(
        "how-to/keep-jobs-in-order.md", "Runs that train, adapt, import or check; newest first."
    ),
    "linked-study.html": Purpose("how-to/share-results.md"),
    "login.html": Purpose("how-to/users-and-tokens.md"),
    "method.html": Purpose("how-to/add-a-method.md"),
    "methods.html": Purpose("explanation/concepts.md"),
    "model-folders.html": Purpose("how-to/use-your-own-model.md"),
    "plug-ins.html": Purpose("reference/tasks.md"),
    "project.html": Purpose("how-to/users-and-tokens.md"),
    "projects.html": Purpose("how-to/users-and-tokens.md"),
    "recipe.html": Purpose("how-to/run-a-recipe.md"),
    "recipes.html": Purpose("how-to/run-a-recipe.md"),
    "recommend.html": Purpose("how-to/ask-for-a-recommendation.md"),
    "results.html": Purpose("how-to/query-results.md"),
    "studies.html": Purpose("how-to/run-a-study.md"),
    "study-extend.html": Purpose("how-to/run-a-study.md"),
    "study-links.html": Purpose("how-to/share-results.md"),
    "study-new.html": Purpose("how-to/run-a-study.md"),
    "study.html": Purpose(
        "how-to/read-a-comparison.md", "One study: what works, by how much, and how sure that is."
    ),
    "task.html": Purpose("reference/tasks.md"),
    "tokens.html": Purpose("how-to/users-and-tokens.md"),
    "users.html": Purpose("how-to/users-and-tokens.md"),
    "webhooks.html": Purpose("how-to/receive-webhooks.md"),
    "workers.html": Purpose("how-to/run-workers-by-the-api.md"),
}
"""By the name of the page's template."""


@cache
def documents() -> Mapping[str, Callable[[], str]]:
    """Return the readers of all documents by their paths below `docs/`."""
    folder = Path(str(files("adaptlab_api") / "documents"))
    if not folder.is_dir():  # an installation that is edited in place
        folder = Path(__file__).parents[4] / "docs"
    readers = {
        path.relative_to(folder).as_posix(): partial(path.read_text, encoding="utf-8")
        for path in sorted(folder.rglob("*.md"))
    }
    return {**readers, **{p.name: partial(_written, p) for p in entry_points(group=GENERATED)}}


@cache
def _written(point: EntryPoint) -> str:
    """Return a page written from the code, which takes a second or two."""
    write: Callable[[], str] = point.load()
    return write()


@cache
def title_of(name: str) -> str:
    """Return the first heading of a document."""
    return documents()[name]().partition("\n")[0].lstrip("# ").strip()


@cache
def glossary() -> Mapping[str, str]:
    """Return the meanings of terms, as plain text."""
    terms = _TERM.finditer(documents()[GLOSSARY]())
    return {
        found["name"]: _LINK.sub(r"\1", " ".join(found["means"].split())).replace("`", "")
        for found in terms
    }


@dataclass(slots=True)
class Terms:
    """The explained terms of one page, which get ids of their own."""

    shown: Counter[str] = field(default_factory=Counter[str])

    def __call__(self, name: str) -> Markup:
        """Return a button that explains a term, by mouse, touch or keyboard.

        Raises `KeyError` if the term is not in the glossary.
        """
        return self._button(name, name.capitalize(), glossary()[name])

    def metric(self, metric: Metric) -> Markup:
        """Return a button that explains a metric."""
        return self._button(metric.in_sentence, metric.title, metric.meaning)

    def _button(self, name: str, title: str, meaning: str) -> Markup:
        self.shown[name] += 1
        place = f"term-{name.replace(' ', '-')}-{self.shown[name]}"
        return Markup(
            '<span class="term"><button type="button" popovertarget="{place}">?'
            '<span class="unseen"> What “{name}” means</span></button>'
            '<span popover id="{place}" class="tip">'
            "<strong>{title}</strong>: {meaning}</span></span>"
        ).format(place=place, name=name, title=title, meaning=escape(meaning))
