"""Reading `preprocessor_config.json`, by which a model sees pixels."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from adaptlab.errors import BadModelFolder
from adaptlab.plugins.images import HALF, Finite, ImageSize, Positive, Preprocessor
from adaptlab.records.pictures import LEVELS
from adaptlab.weights.folder_files import FolderFiles
from adaptlab.weights.huggingface import CONFIG, read_json_object
from adaptlab.wording import value_excerpt

PREPROCESSOR = "preprocessor_config.json"


class _Size(BaseModel):
    """A size in the file, as one side or by name."""

    height: int | None = None
    width: int | None = None
    shortest_edge: int | None = None

    def sides(self) -> tuple[int | None, int | None]:
        """Return height and width."""
        return (self.height or self.shortest_edge, self.width or self.shortest_edge)


class _Members(BaseModel):
    """The members of the file that decide what a model sees."""

    model_config = ConfigDict(strict=True, extra="allow")
    unsupported: ClassVar[tuple[str, ...]] = (
        "rescale_offset", "offset", "do_flip_channel_order", "do_pad", "do_color_quantize",
    )  # fmt: skip

    do_resize: bool | None = True
    size: int | _Size | None = None
    do_center_crop: bool | None = False
    crop_size: int | _Size | None = None
    do_rescale: bool | None = True
    rescale_factor: Positive = 1 / (LEVELS - 1)
    do_normalize: bool | None = True
    image_mean: Finite | list[Finite] = HALF
    image_std: Positive | list[Positive] = HALF
    do_convert_rgb: bool | None = False


def read_preprocessor(files: FolderFiles, image: ImageSize) -> Preprocessor | None:
    """Return how a model sees images; None if the folder has no file.

    Raises:
        BadModelFolder: the file is damaged, or contradicts the configuration of the model.
    """
    if PREPROCESSOR not in files.names():
        return None
    content = read_json_object(files, PREPROCESSOR)
    members = _members(content)
    _check_size(members, image)
    mean, std = (members.image_mean, members.image_std) if members.do_normalize else (0.0, 1.0)
    return Preprocessor(
        mean=_by_channel("image_mean", mean, image),
        std=_by_channel("image_std", std, image),
        rescale=members.rescale_factor if members.do_rescale else 1,
    )


def _members(content: Mapping[str, object]) -> _Members:
    try:
        members = _Members.model_validate(content)
    except ValidationError as error:
        (first, *_) = error.errors()
        name = str(first["loc"][0])
        raise BadModelFolder(
            f"{PREPROCESSOR} has {name} {value_excerpt(content.get(name))}, which is no valid "
            f"value: {first['msg']}. Save the preprocessor again."
        ) from error
    for name in _Members.unsupported:
        if content.get(name):
            raise BadModelFolder(
                f"{PREPROCESSOR} sets {name} to {value_excerpt(content[name])}, which adaptlab "
                "does not support. Use a model that only rescales and normalises pixels."
            )
    return members


def _check_size(members: _Members, image: ImageSize) -> None:
    """Raise `BadModelFolder` for images of another size or number of channels."""
    name, size = ("size", members.size) if members.do_resize else ("", None)
    if members.do_center_crop:
        name, size = "crop_size", members.crop_size
    sides = _Size(height=size, width=size).sides() if isinstance(size, int) else (None, None)
    sides = size.sides() if isinstance(size, _Size) else sides
    if any(side not in (None, own) for side, own in zip(sides, image[1:], strict=True)):
        height, width = sides
        raise BadModelFolder(
            f"{PREPROCESSOR} has a {name} of {height} × {width}, and {CONFIG} describes images of "
            f"{image.height} × {image.width}. Correct the one that is wrong."
        )
    if members.do_convert_rgb and image.channels != 3:
        raise BadModelFolder(
            f"{PREPROCESSOR} sets do_convert_rgb, which gives 3 channels, and {CONFIG} has "
            f"num_channels {image.channels}. Correct the one that is wrong."
        )


def _by_channel(name: str, value: float | list[float], image: ImageSize) -> tuple[float, ...]:
    if not isinstance(value, list):
        return (value,) * image.channels
    if len(value) != image.channels:
        raise BadModelFolder(
            f"{PREPROCESSOR} has {len(value)} values of {name}, and {CONFIG} has num_channels "
            f"{image.channels}. Correct the one that is wrong."
        )
    return tuple(value)
