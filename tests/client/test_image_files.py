"""Folders of images and .npz files, read into records."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.client.conftest import Invoke
from tests.pictures import a_png, drawn

from adaptlab.errors import InvalidSpec
from adaptlab.records.pictures import picture_size, png_of
from adaptlab_client import Client
from adaptlab_client.machine.image_files import NoImages, Size, image_records


def records(path: Path, size: str | None = None, *, grey: bool = False) -> list[dict[str, str]]:
    with image_records(path, Size.read(size) if size else None, grey=grey) as file:
        return [json.loads(line) for line in file.read_text().splitlines()]


def pixels(record: dict[str, str]) -> np.ndarray:
    with Image.open(io.BytesIO(png_of(record["image"]))) as image:
        return np.asarray(image)


def a_folder(folder: Path, names: dict[str, bytes]) -> Path:
    for name, content in names.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def an_npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def jpeg(width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), (200, 10, 10)).save(file, "JPEG")
    return file.getvalue()


def test_folders_are_labels_and_may_lie_in_folders_of_splits(tmp_path: Path) -> None:
    files = {"oak/2.png": a_png(2), "oak/1.png": a_png(1), "elm/deep/3.PNG": a_png(3)}
    plain = records(a_folder(tmp_path / "plain", {**files, "oak/notes.txt": b"no image"}))
    assert [record["label"] for record in plain] == ["elm", "oak", "oak"]
    assert np.array_equal(pixels(plain[1]), drawn(1)[..., 0])
    parts = {"train/oak/1.png": a_png(1), "val/elm/2.png": a_png(2), "test/oak/3.png": a_png(3)}
    split = records(a_folder(tmp_path / "split", parts))
    assert [(r["split"], r["label"]) for r in split] == [
        ("test", "oak"), ("train", "oak"), ("validation", "elm")
    ]  # fmt: skip


def test_colour_stays_if_any_image_has_it(tmp_path: Path) -> None:
    mixed = a_folder(tmp_path, {"a/1.png": a_png(1), "b/2.png": a_png(2, channels=3)})
    assert [picture_size(record["image"]) for record in records(mixed)] == [(3, 8, 8)] * 2
    assert [picture_size(r["image"]) for r in records(mixed, grey=True)] == [(1, 8, 8)] * 2


def test_a_size_cuts_to_its_proportions_and_resizes(tmp_path: Path) -> None:
    mixed = a_folder(tmp_path, {"a/1.jpg": jpeg(60, 20), "b/2.jpg": jpeg(30, 50)})
    with pytest.raises(NoImages, match=r"b/2\.jpg has 30 × 50 pixels.*60 × 20.*--size"):
        records(mixed)
    assert [picture_size(r["image"]) for r in records(mixed, "16")] == [(3, 16, 16)] * 2
    assert [picture_size(r["image"]) for r in records(mixed, "10x20")] == [(3, 10, 20)] * 2


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (("images", "labels"), [None]),
        (("x_train", "y_train", "x_test", "y_test"), ["train", "test"]),
        (("train_images", "train_labels", "val_images", "val_labels"), ["train", "validation"]),
    ],
)
def test_arrays_with_usual_names_are_read(
    names: tuple[str, ...], splits: list[str | None], tmp_path: Path
) -> None:
    images = np.stack([drawn(seed)[..., 0] for seed in range(4)])
    labels = np.array([[7], [0], [7], [7]])
    arrays = {name: labels if name[0] == "y" or "label" in name else images for name in names}
    found = records(an_npz(tmp_path / "a.npz", **arrays))
    assert [record["label"] for record in found] == ["7", "0", "7", "7"] * len(splits)
    assert list(dict.fromkeys(record.get("split") for record in found)) == splits
    assert all(np.array_equal(pixels(found[n]), images[n]) for n in range(4))


IMAGES = np.zeros((3, 8, 8), np.uint8)


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ({"pictures": IMAGES}, "has pictures. Name the arrays images and labels"),
        ({"images": IMAGES / 255, "labels": [1, 2, 3]}, "the type float64"),
        ({"images": IMAGES[0], "labels": [1, 2, 3]}, r"the shape \[8, 8\]"),
        ({"images": IMAGES, "labels": [1, 2]}, "3 images in images, and 2 labels"),
        ({"images": IMAGES, "labels": [0.5, 1, 2]}, "of the type float64"),
        ({"images": IMAGES, "labels": np.array([None, 1, 2])}, "without objects"),
    ],
)
def test_arrays_that_are_no_labelled_images_are_refused(
    arrays: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises(NoImages, match=why):
        records(an_npz(tmp_path / "a.npz", **arrays))


def test_files_that_are_no_labelled_images_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(NoImages, match="no images in folders with the names of their labels"):
        records(tmp_path / "none")
    broken = a_folder(tmp_path / "broken", {"oak/1.png": a_png(1)[:60]})
    with pytest.raises(NoImages, match=r"oak/1\.png cannot be read as an image"):
        records(broken)
    with pytest.raises(NoImages, match="cannot be read as an npz"):
        records(a_folder(tmp_path / "x", {"a.npz": b"PK no"}) / "a.npz")
    for size in ("large", "3x4x5", "0", "2000"):
        with pytest.raises(NoImages):
            Size.read(size)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(NoImages, match=r"adaptlab\[images\]"):
        records(tmp_path / "none")


def test_a_folder_is_uploaded_and_its_task_found(
    invoke: Invoke, client: Client, tmp_path: Path
) -> None:
    names = {f"{'oak' if n % 2 else 'elm'}/{n}.jpg": jpeg(40, 30 + n) for n in range(12)}
    folder = a_folder(tmp_path / "trees", names)
    refused = invoke("datasets", "upload", "trees", folder)
    assert (refused.exit_code, "--size" in refused.stderr) == (2, True)
    done = invoke("datasets", "upload", "trees", folder, "--size", "16", "--grey", "-o", "json")
    assert done.exit_code == 0, done.stderr
    fields = json.loads(done.stdout)["fields"]
    assert fields[0]["pictures"] == {
        "channels": 1, "height": 16, "width": 16, "others": 0, "first_other": None
    }  # fmt: skip
    assert client.datasets.get("trees").records == 12
    copy = client.datasets.download("trees", tmp_path / "copy.jsonl")
    told = invoke("datasets", "inspect", copy)
    assert "The task that fits is image_classification" in told.stdout
    assert invoke("datasets", "upload", "x", copy, "--size", "3").exit_code == 2


def test_too_many_bytes_are_refused_like_other_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adaptlab.records.gathering.MOST_BYTES", 400)
    folder = a_folder(tmp_path, {f"oak/{n}.png": a_png(n) for n in range(9)})
    with pytest.raises(InvalidSpec, match="more than 400 bytes"):
        records(folder)
