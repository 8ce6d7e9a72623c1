"""Model folders are found by alias below a root, and stay inside it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy.orm import Session
from tests.folders import QUERY, WEIGHTS, a_model_folder, with_weights

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.spec import ImportSpec
from adaptlab.weights import model_folder
from adaptlab_services.models import model_folders
from adaptlab_services.models.model_folders import ModelRoots, resolved_import


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a complete model in a subfolder, beside private files."""
    a_model_folder(tmp_path / "secret" / "llama")
    a_model_folder(tmp_path / "root" / "small" / "llama")
    return tmp_path / "root"


@pytest.fixture
def roots(root: Path) -> ModelRoots:
    return ModelRoots({"models": root, "more": root.parent / "nowhere"})


def refusal(roots: ModelRoots, folder: str) -> Problem:
    """The reason why the folder is refused, without paths of the server."""
    with pytest.raises(InvalidSpec) as caught:
        resolved_import(Session(), ImportSpec(name="llama", folder=folder), roots)
    (problem,) = caught.value.problems
    assert problem.pointer == "/folder"
    assert "/tmp" not in str(caught.value)
    assert "pytest" not in str(caught.value)
    return problem


def test_a_folder_is_found_by_alias(roots: ModelRoots, root: Path) -> None:
    assert roots.locate("models/small/llama") == (root / "small" / "llama").resolve()
    found = resolved_import(Session(), ImportSpec(name="llama", folder="models/small/llama"), roots)
    assert found.model_folder is not None
    assert found.model_folder.folder == "models/small/llama"
    assert {file.name for file in found.model_folder.files} == {"config.json", WEIGHTS}
    assert str(root) not in found.model_dump_json()


def test_a_root_can_itself_be_a_model_folder(root: Path) -> None:
    roots = ModelRoots({"llama": root / "small" / "llama"})
    assert roots.locate("llama") == (root / "small" / "llama").resolve()


@pytest.mark.parametrize(
    "folder",
    [
        "models/../secret/llama",
        "models/small/../../secret/llama",
        "models/small/./llama",
        "models//etc",
        "models/",
        "models/small/llama/",
        "models/small\x00/llama",
        "models/small\nllama",
        "models/..\\secret",
        "models/\x7f",
    ],
)
def test_only_plain_names_lead_down_from_a_root(roots: ModelRoots, folder: str) -> None:
    assert refusal(roots, folder).code == "not_a_folder_name"


@pytest.mark.parametrize(
    "folder", ["models/none", "models/small/llama/config.json", "models/" + "x" * 900, "more/llama"]
)
def test_what_is_no_folder_is_refused(roots: ModelRoots, folder: str) -> None:
    assert refusal(roots, folder).code == "no_such_folder"


def test_a_folder_that_is_a_link_out_of_the_root_is_refused(roots: ModelRoots, root: Path) -> None:
    (root / "out").symlink_to(root.parent / "secret")
    assert refusal(roots, "models/out/llama").code == "leads_out_of_root"
    (root / "relative").symlink_to("../secret/llama")
    assert refusal(roots, "models/relative").code == "leads_out_of_root"


@pytest.mark.parametrize("name", ["config.json", WEIGHTS, "model.safetensors.index.json"])
def test_a_file_that_is_a_link_out_of_the_root_is_refused_by_name(
    roots: ModelRoots, root: Path, name: str
) -> None:
    place = root / "small" / "llama" / name
    place.unlink(missing_ok=True)
    place.symlink_to(root.parent / "secret" / "llama" / name)
    problem = refusal(roots, "models/small/llama")
    assert problem.code == "leads_out_of_root"
    assert name in problem.detail


def test_links_within_the_root_are_followed(roots: ModelRoots, root: Path) -> None:
    """As in a hub's cache, where names link to files by content."""
    weights = root / "small" / "llama" / WEIGHTS
    (root / "blobs").mkdir()
    weights.rename(root / "blobs" / "abc")
    weights.symlink_to("../../blobs/abc")
    (root / "newest").symlink_to("small/llama")
    assert roots.locate("models/newest") == (root / "small" / "llama").resolve()
    resolved_import(Session(), ImportSpec(name="llama", folder="models/newest"), roots)


def test_what_is_no_plain_file_is_refused_and_never_opened(roots: ModelRoots, root: Path) -> None:
    place = root / "small" / "llama" / "config.json"
    place.unlink()
    os.mkfifo(place)  # opening it would wait for ever
    assert refusal(roots, "models/small/llama").code == "not_a_file"
    place.unlink()
    place.symlink_to(place)
    assert refusal(roots, "models/small/llama").code in ("not_a_file", "no_such_folder")


def _pickled(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


def _truncated(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-1])


def _missing(folder: Path) -> None:
    with_weights(folder, **{QUERY: None})


def _extra(folder: Path) -> None:
    with_weights(folder, **{"model.extra.weight": np.zeros(3, np.float32)})


def _misshapen(folder: Path) -> None:
    with_weights(folder, **{QUERY: np.zeros((8, 9), np.float32)})


def _other_architecture(folder: Path) -> None:
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace("LlamaForCausalLM", "DebertaV2Model"))


def _without_configuration(folder: Path) -> None:
    (folder / "config.json").unlink()


def _code_of_its_own(folder: Path) -> None:
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text('{"auto_map": {"AutoModel": "x.Y"}, ' + config[1:])


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_pickled, "pytorch_model.bin is not read"),
        (_truncated, f"{WEIGHTS} is not a whole safetensors file"),
        (_missing, "lacks the tensors layers.0.self_attn.q_proj.weight"),
        (_extra, "has the additional tensors extra.weight"),
        (
            _misshapen,
            f"{QUERY} has the shape (8, 9) instead of (8, 8), which config.json describes",
        ),
        (
            _misshapen,
            f"{WEIGHTS} and config.json must be those of one model; copy all of them again",
        ),
        (_missing, "must be those of one model; copy all of them again from where it is published"),
        (_without_configuration, "config.json cannot be read: No such file or directory. Add it"),
        (_other_architecture, "['DebertaV2Model']. adaptlab supports one of"),
        (_code_of_its_own, "auto_map"),
    ],
)
def test_a_bad_folder_is_refused_by_name(
    roots: ModelRoots, root: Path, spoil: Callable[[Path], None], told: str
) -> None:
    spoil(root / "small" / "llama")
    problem = refusal(roots, "models/small/llama")
    assert problem.code == "bad_model_folder"
    assert told in problem.detail


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("name", ["config.json", WEIGHTS, ""])
def test_what_cannot_be_read_is_refused_without_its_place(
    roots: ModelRoots, root: Path, name: str
) -> None:
    place = root / "small" / "llama" / name
    place.chmod(0)
    try:
        assert refusal(roots, "models/small/llama").code in ("bad_model_folder", "no_such_folder")
    finally:
        place.chmod(0o755)


def exchanged(
    monkeypatch: pytest.MonkeyPatch, file: Path, exchange: Callable[[Path], None]
) -> None:
    """Exchange a file after the folder was checked, before it is read."""

    def check(place: Path, root: Path | None = None) -> model_folder.CheckedFolder:
        file.unlink()
        exchange(file)
        return model_folder.check_folder(place, root)

    monkeypatch.setattr(model_folders, "check_folder", check)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["config.json", WEIGHTS])
def test_a_pipe_that_takes_the_place_of_a_file_holds_nobody_up(
    roots: ModelRoots, root: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchanged(monkeypatch, root / "small" / "llama" / name, os.mkfifo)
    problem = refusal(roots, "models/small/llama")
    assert (problem.code, "not a regular file" in problem.detail) == ("bad_model_folder", True)


@pytest.mark.parametrize("name", ["config.json", WEIGHTS])
def test_a_link_that_takes_the_place_of_a_file_leads_nowhere_else(
    roots: ModelRoots, root: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = root.parent / "secret" / "llama" / name
    file = root / "small" / "llama" / name
    exchanged(monkeypatch, file, lambda place: place.symlink_to(secret))
    problem = refusal(roots, "models/small/llama")
    assert (problem.code, "outside its model root" in problem.detail) == ("bad_model_folder", True)


@pytest.mark.parametrize(
    "value", [[], {}, None, 7, True, "\ud800.safetensors", "x" * 300 + ".safetensors", ""]
)
def test_an_index_that_names_no_file_is_refused(
    roots: ModelRoots, root: Path, value: object
) -> None:
    index = root / "small" / "llama" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": WEIGHTS, "b": value}}))
    problem = refusal(roots, "models/small/llama")
    assert problem.code == "bad_model_folder"
    problem.detail.encode()  # what is told can be sent
