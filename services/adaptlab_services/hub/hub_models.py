"""A model in a repository of a hub, read without its weights."""

from collections.abc import Iterator
from dataclasses import dataclass

from adaptlab.errors import BadModelFolder
from adaptlab.figures import counted
from adaptlab.plugins.registry import as_json
from adaptlab.specs.model_shapes import family_shape
from adaptlab.weights.huggingface import CONFIG, INDEX, SAFETENSORS, read_description
from adaptlab.weights.model_folder import TEXT_FILES, CheckedFolder, check_files
from adaptlab.weights.preprocessor import PREPROCESSOR
from adaptlab_answers.hub import HubPlan, PlannedFile
from adaptlab_services.hub.hub_access import HubFile, HubRepository, ReadFile
from adaptlab_services.hub.hub_child import HubChild
from adaptlab_services.hub.hub_folder import HubFolder
from adaptlab_services.models.uploaded_folders import MOST_FILES


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model of a hub: its small files, and the files of weights to fetch."""

    name: str
    repository: HubRepository
    folder: HubFolder
    weights: tuple[HubFile, ...]
    small: tuple[str, ...]
    plan: HubPlan

    @property
    def total_bytes(self) -> int:
        """The bytes of all files."""
        return sum(file.size_bytes for file in self.plan.files)

    @property
    def small_bytes(self) -> int:
        """The bytes of those files that are here."""
        return sum(len(self.folder.contents[name]) for name in self.small)

    def part(self, file: HubFile, start: int, stop: int | None = None) -> ReadFile:
        """Return the request for bytes of a file."""
        return part(self.name, self.repository.commit, file, start, stop)


def part(name: str, commit: str, file: HubFile, start: int, stop: int | None = None) -> ReadFile:
    """Return the request for the bytes `start` to `stop` of a file."""
    size = file.size or 0
    end = size if stop is None else stop
    return ReadFile(
        repository=name, commit=commit, file=file.name, start=start, stop=end, size=size
    )


def read_model(hub: HubChild, name: str, revision: str) -> HubModel:
    """Read the small files of a model, and the headers of its weights.

    The description comes first, so that a model which is not supported costs a few kilobytes.

    Raises:
        HubFailure: the hub does not give them.
        BadModelFolder: they are not those of a model that adaptlab supports.
    """
    repository = hub.info(name, revision)

    def read(file: HubFile, start: int, stop: int) -> Iterator[bytes]:
        return hub.read(part(name, repository.commit, file, start, stop))

    folder = HubFolder(repository, read)
    checked = check_files(folder)
    weights = tuple(map(folder.file, sorted({tensor.file.name for tensor in checked.stored})))
    _check_weights(weights)
    small = _small_files(folder, checked)
    if len(weights) + len(small) > MOST_FILES:
        raise BadModelFolder(
            f"The model has {counted(len(weights) + len(small), 'file')}. The limit is "
            f"{MOST_FILES}."
        )
    plan = _plan(repository, folder, checked, (*small, *(file.name for file in weights)))
    return HubModel(name, repository, folder, weights, small, plan)


def _check_weights(weights: tuple[HubFile, ...]) -> None:
    for file in weights:
        if file.sha256 is None or not file.size:
            raise BadModelFolder(
                f"The hub does not announce the SHA-256 of {file.name}, so that its bytes could "
                "not be checked. Choose another revision."
            )


def _small_files(folder: HubFolder, checked: CheckedFolder) -> tuple[str, ...]:
    """Read the other files that a model folder has; return the names of all."""
    present = folder.names()
    names = [CONFIG, *(name for name in (INDEX, *TEXT_FILES) if name in present)]
    if checked.has_preprocessor:
        names.append(PREPROCESSOR)
    for name in names:
        folder.opened(name)
    return tuple(names)


def _plan(
    repository: HubRepository, folder: HubFolder, checked: CheckedFolder, names: tuple[str, ...]
) -> HubPlan:
    return HubPlan(
        architecture=read_description(folder).architecture,
        family=as_json(checked.family),
        parameters=family_shape(checked.family).parameters,
        dtype=", ".join(sorted({tensor.dtype for tensor in checked.stored})),
        files=tuple(_planned(folder, name) for name in names),
        licence=repository.licence,
        licence_name=repository.licence_name,
        licence_link=repository.licence_link,
        gated=repository.gated,
        private=repository.private,
    )


def _planned(folder: HubFolder, name: str) -> PlannedFile:
    digest = folder.file(name).sha256 if name.endswith(SAFETENSORS) else folder.digest(name)
    return PlannedFile(name=name, size_bytes=folder.size(name), sha256=digest)
