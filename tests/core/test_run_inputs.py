"""The manifest of a run, placed on a machine."""

import re
from pathlib import Path

from adaptlab.runs.inputs import (
    AdapterFile,
    InputFile,
    LocalFile,
    NeededInputs,
    OtherWeights,
    SavedTraining,
    digests_of,
    folders_of,
    placed,
)
from adaptlab.specs.spec import ModelFolder, StoredModelFile
from adaptlab.weights.placed_folder import PlacedFolder


def a_file(digit: int) -> InputFile:
    return InputFile(sha256=f"{digit:064x}")


def a_folder(name: str, digit: int) -> ModelFolder:
    stored = StoredModelFile(name="model.safetensors", sha256=f"{digit:064x}")
    return ModelFolder(folder=name, files=(), stored=(stored,))


NEEDED = NeededInputs(
    bases=(a_file(1), a_file(2)),
    folder=a_folder("uploaded/own", 3),
    adapter=a_folder("uploaded/adapter", 4),
    adapters=(AdapterFile(adaptation=0, seed=5, tensors=a_file(5)),),
    datasets=(a_file(6),),
    others=(OtherWeights(name="other", bases=(a_file(7),), folder=a_folder("uploaded/other", 8)),),
    resume=SavedTraining(step=9, state=a_file(9)),
)


def test_every_kind_of_input_is_in_the_example() -> None:
    assert NEEDED.model_fields_set == NeededInputs.model_fields.keys()
    assert all(getattr(NEEDED, name) for name in NeededInputs.model_fields)


def test_everything_that_is_named_is_fetched() -> None:
    named = re.findall(r"[0-9a-f]{64}", NEEDED.model_dump_json())
    assert sorted(digests_of(NEEDED)) == sorted(named)
    assert [one.folder for one in folders_of(NEEDED)] == [
        "uploaded/own",
        "uploaded/adapter",
        "uploaded/other",
    ]


def test_everything_is_placed_under_a_name_of_its_own() -> None:
    names: list[str] = []

    def file(needed: InputFile, name: str) -> LocalFile:
        names.append(name)
        return LocalFile(sha256=needed.sha256, path=Path(name))

    def folder(needed: ModelFolder, name: str) -> PlacedFolder:
        names.append(name)
        return PlacedFolder(path=Path(name), name=needed.folder, files=())

    there = placed(NEEDED, file, folder)
    assert len({*names}) == len(names) == 9
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)
    assert [base.sha256 for base in there.bases] == [base.sha256 for base in NEEDED.bases]
    assert there.others[0].folder is not None
    assert there.others[0].folder.name == "uploaded/other"
    assert there.resume is not None
    assert (there.resume.step, there.resume.state.sha256) == (9, a_file(9).sha256)
    assert type(there).model_validate_json(there.model_dump_json()) == there
