"""The manifest of a run: everything that it reads.

The server writes it with digests, and the worker replaces each digest by a file of its machine. A
new kind of input is a field here, filled by `adaptlab_services.leases.run_inputs`; what carries the
manifest in between does not name its fields.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar, cast

from adaptlab.specs.spec import ModelFolder
from adaptlab.values import Value
from adaptlab.weights.placed_folder import PlacedFolder


class InputFile(Value):
    """Stored content, by its SHA-256."""

    sha256: str


class LocalFile(InputFile):
    """An artifact in a file of this machine, whose digest was checked."""

    path: Path


FileT = TypeVar("FileT", bound=InputFile)
FolderT = TypeVar("FolderT", ModelFolder, PlacedFolder)


class AdapterFile(Value, Generic[FileT]):
    """The trained tensors of one seed of an adaptation that is measured.

    `adaptation` is the index of the adaptation in the resolved spec, from 0.
    """

    adaptation: int
    seed: int
    tensors: FileT


class OtherWeights(Value, Generic[FileT, FolderT]):
    """The weights of another base model on which a run is evaluated.

    `bases` are those of its replicates in order. They are empty if its weights are in `folder`.
    """

    name: str
    bases: tuple[FileT, ...] = ()
    folder: FolderT | None = None


class SavedTraining(Value, Generic[FileT]):
    """The saved state of a training after `step` steps."""

    step: int
    state: FileT


class RunInputs(Value, Generic[FileT, FolderT]):
    """Everything that a run reads.

    `bases` are the stored weights of the base model's replicates in order; they are empty if there
    is no base model, or if its weights are in `folder`, from which an import reads too. `adapter`
    is the folder of an imported adapter. `adapters` are adaptations that theory checks measure, and
    `others` other base models on which the run is evaluated. `datasets` are those of the tasks.
    `resume` is the state that an earlier attempt saved; without it, the run starts from step 0.
    """

    bases: tuple[FileT, ...] = ()
    folder: FolderT | None = None
    adapter: FolderT | None = None
    adapters: tuple[AdapterFile[FileT], ...] = ()
    datasets: tuple[FileT, ...] = ()
    others: tuple[OtherWeights[FileT, FolderT], ...] = ()
    resume: SavedTraining[FileT] | None = None


NeededInputs = RunInputs[InputFile, ModelFolder]
PlacedInputs = RunInputs[LocalFile, PlacedFolder]
PlacedAdapterFile = AdapterFile[LocalFile]
PlacedOtherWeights = OtherWeights[LocalFile, PlacedFolder]

NOTHING_NEEDED: NeededInputs = NeededInputs()
NOTHING_PLACED: PlacedInputs = PlacedInputs()


def folders_of(needed: NeededInputs) -> Iterator[ModelFolder]:
    """Yield the folders that a run reads."""
    return (found for found in _found(needed) if isinstance(found, ModelFolder))


def digests_of(needed: NeededInputs) -> Iterator[str]:
    """Yield the SHA-256 of everything that a worker fetches for a run."""
    for found in _found(needed):
        if isinstance(found, ModelFolder):
            yield from (file.sha256 for file in found.stored)
        else:
            yield found.sha256


def placed(
    needed: NeededInputs,
    place_file: Callable[[InputFile, str], LocalFile],
    place_folder: Callable[[ModelFolder, str], PlacedFolder],
) -> PlacedInputs:
    """Return the manifest with everything placed on this machine.

    Both functions also get a name that is unique in the manifest and fit for a file.
    """

    def place(value: object, name: str) -> object:
        if isinstance(value, InputFile):
            return place_file(value, name)
        if isinstance(value, ModelFolder):
            return place_folder(value, name)
        if isinstance(value, Value):
            return {member: place(each, f"{name}-{member}") for member, each in value}
        if isinstance(value, tuple):
            members = cast("tuple[object, ...]", value)
            return tuple(place(each, f"{name}-{number}") for number, each in enumerate(members))
        return value

    return PlacedInputs.model_validate(place(needed, "input"))


def _found(value: object) -> Iterator[InputFile | ModelFolder]:
    if isinstance(value, InputFile | ModelFolder):
        yield value
    elif isinstance(value, Value):
        for _, each in value:
            yield from _found(each)
    elif isinstance(value, tuple):
        for each in cast("tuple[object, ...]", value):
            yield from _found(each)
