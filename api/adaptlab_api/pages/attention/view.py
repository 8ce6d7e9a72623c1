"""Choices in a job's attention: seed, sample, layer, head and output step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from adaptlab.specs.resolved import Resolved, UnreadSpec, read_resolved
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.wording import shortened
from adaptlab_answers.attention import MapView
from adaptlab_services.results.attention_heads import MapOutline

Option = tuple[int, str]
LONGEST_SAMPLE = 60
INSIDE = " ##"
"""How word pieces mark tokens that go on with a word."""


@dataclass(frozen=True, slots=True)
class MapPlace:
    """A place in the maps of a job; `step` counts output tokens."""

    replicate: int = 0
    sample: int = 0
    layer: int = 0
    head: int = 0
    step: int = 0

    def within(self, maps: Sequence[MapOutline]) -> "MapPlace":
        """Return the nearest place in these maps, of which there is at least one."""
        replicates = {outline.replicate for outline in maps}
        first = maps[0]
        samples, layers, heads, rows, _ = first.shape
        return replace(
            self,
            replicate=self.replicate if self.replicate in replicates else min(replicates),
            sample=min(self.sample, samples - 1),
            layer=min(self.layer, layers - 1),
            head=min(self.head, heads - 1),
            step=min(self.step, max(rows - first.target_start, 1) - 1),
        )


@dataclass(frozen=True, slots=True)
class AttentionView:
    """The choices above the heat maps.

    `learned_positions` is that of the adapted maps. `steps` are the most tokens of an answer, 0 if
    no single position produces it. That of an image is produced by the first one.
    """

    replicates: tuple[Option, ...]
    samples: tuple[Option, ...]
    layers: tuple[Option, ...]
    heads: tuple[Option, ...]
    steps: int
    learned_positions: int
    adapted: bool
    of_images: bool = False


def attention_view(maps: Sequence[MapOutline], view: MapView, spec: ResolvedSpec) -> AttentionView:
    """Return the choices in the maps of a job; `view` has the samples."""
    _, layers, heads, _, _ = maps[0].shape
    job = read_resolved(spec)
    of_images = _is_of_images(job)
    samples = (
        (n, _image(n, view) if of_images else _sample(n, view, _answer_place(view, job)))
        for n in range(len(view.tokens))
    )
    return AttentionView(
        replicates=_distinct((outline.replicate, str(outline.seed)) for outline in maps),
        samples=tuple(samples),
        layers=tuple((n, str(n)) for n in range(layers)),
        heads=tuple((n, str(n)) for n in range(heads)),
        steps=_steps(view, job),
        learned_positions=max(outline.learned_positions for outline in maps),
        adapted=any(outline.source == "adapted" for outline in maps),
        of_images=of_images,
    )


def answer_place(view: MapView, spec: ResolvedSpec) -> int:
    """Return the place of the first answer token among the tokens of a sample.

    It follows the position that produces it, or is that position in a model that fills masks in. A
    job that this server cannot read is taken for one of the former.
    """
    return _answer_place(view, read_resolved(spec))


def _answer_place(view: MapView, job: Resolved | UnreadSpec) -> int:
    if isinstance(job, UnreadSpec) or not job.family.predicts_in_place():
        return view.target_start + 1
    return view.target_start


def _steps(view: MapView, job: Resolved | UnreadSpec) -> int:
    if not view.texts:
        return max(view.shape[3] - view.target_start, 1)
    if isinstance(job, UnreadSpec) or job.task is None:
        return 0
    # The head of an encoder reads the mean of a text, and the class token of an image.
    reads_all = job.task.classes() is not None and job.family.attends_to_all()
    reads_all = reads_all and not _is_of_images(job)
    return 0 if reads_all else max(len(shown.predicted) for shown in view.texts)


def _is_of_images(job: Resolved | UnreadSpec) -> bool:
    """Return True if the samples of a job are images."""
    task = None if isinstance(job, UnreadSpec) else job.task
    return task is not None and task.image() is not None


def _image(number: int, view: MapView) -> str:
    """Return the class of an image for a list of choices."""
    return f"{number}: image of {', '.join(view.texts[number].expected)}"


def _sample(number: int, view: MapView, asked: int) -> str:
    """Return the question of a sample for a list of choices."""
    words = view.words(number)
    if view.texts:
        has_blanks = any(" " in word for word in words)  # as part of a token
        text = ("" if has_blanks else " ").join(words).replace(INSIDE, "")
    else:
        text = " ".join(words[:asked])
    return f"{number}: {shortened(' '.join(text.split()), LONGEST_SAMPLE)}"


def _distinct(options: Iterable[Option]) -> tuple[Option, ...]:
    return tuple(sorted(dict(options).items()))
