"""Model folders in the Hugging Face layout: what a family must say to be read from one.

A folder holds `config.json` and one or more safetensors files. Nothing in it is run or unpickled.
This half reads the small files; `adaptlab.engine.huggingface` reads the tensors.
"""

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from adaptlab.errors import BadModelFolder, InvalidSpec
from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.weights.weights_file import opened
from adaptlab.wording import in_short

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".h5", ".msgpack")
LONGEST_FILE_NAME = 255
LARGEST_JSON = 2**22  # bytes; the index of 10,000 tensors takes a megabyte


class PublishedConfig(BaseModel):
    """The members of a `config.json` that decide what a model computes; others are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

    auto_map: None = None  # code of its own, which is never run
    quantization_config: None = None


@dataclass(frozen=True, slots=True)
class PublishedTensor:
    """Where a tensor [outputs, ...] stands in the files of a published model.

    `transposed` files keep matrices as [inputs, outputs]; a fused tensor holds `parts` tensors
    one after the other along the outputs, of which this is number `part`.
    """

    name: str
    transposed: bool = False
    part: int = 0
    parts: int = 1

    def stored_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that the file must have for a tensor of `shape`."""
        fused = (shape[0] * self.parts, *shape[1:])
        return fused[::-1] if self.transposed else fused


class PublishedFamily(Family):
    """A family whose models others have published in the Hugging Face layout.

    `prefix` may stand before the names of all tensors but the head's; `buffers` are the ends of
    names of tensors that older files hold although they can be computed.
    """

    architectures: ClassVar[tuple[str, ...]]
    prefix: ClassVar[str]
    buffers: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def from_published(cls, architecture: str, config: Mapping[str, object]) -> Self:
        """The resolved configuration of a `config.json`; raises `ValidationError`."""

    @abstractmethod
    def published_tensors(self) -> dict[str, PublishedTensor]:
        """Where each tensor of the shape is found, and the head even if it is tied."""


def read_family(folder: Path, within: Path | None = None) -> PublishedFamily:
    """The family and dimensions of the model in a folder; raises `BadModelFolder`.

    See `adaptlab.weights.weights_file.opened` for `within`.
    """
    config = _json_object(folder / CONFIG, within)
    architecture, family = _known_architecture(config)
    try:
        published = family.from_published(architecture, config)
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise BadModelFolder(
            f"{CONFIG} describes a {architecture} that adaptlab cannot compute. {'; '.join(faults)}"
        ) from error
    if problems := published.problems():
        raise BadModelFolder(f"{CONFIG} contradicts itself: {InvalidSpec(*problems)}")
    return published


def weight_files(folder: Path, within: Path | None = None) -> tuple[Path, ...]:
    """The safetensors files of the model in a folder; raises `BadModelFolder`."""
    if (folder / INDEX).is_file():
        return _indexed_files(folder, within)
    found = sorted(folder.glob("*.safetensors"))
    if (folder / SINGLE) in found:
        return (folder / SINGLE,)
    if len(found) == 1:
        return (found[0],)
    if found:
        raise BadModelFolder(
            f"There are {len(found)} safetensors files but no {INDEX} that says which belong "
            "together; add it."
        )
    raise _no_weights(folder)


def _no_weights(folder: Path) -> BadModelFolder:
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if not pickles:
        return BadModelFolder(f"The folder holds no safetensors file; {SINGLE} is missing.")
    return BadModelFolder(
        f"{pickles[0]} is refused: reading such a file can run code that it brings along. Give "
        f"{SINGLE} instead; save_pretrained of current transformers writes it."
    )


def _indexed_files(folder: Path, within: Path | None) -> tuple[Path, ...]:
    weight_map = _json_object(folder / INDEX, within).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise BadModelFolder(f"{INDEX} has no weight_map of tensors to files.")
    named = cast("dict[str, object]", weight_map).values()
    others = [name for name in named if not isinstance(name, str)]
    if others:
        raise BadModelFolder(f"{INDEX} names {in_short(others[0])}, which is no name of a file.")
    names = {name for name in named if isinstance(name, str)}
    files: list[Path] = []
    for name in sorted(names):
        is_name = Path(name).name == name and name.isprintable() and len(name) <= LONGEST_FILE_NAME
        if not is_name or not name.endswith(".safetensors"):
            raise BadModelFolder(
                f"{INDEX} names {name[:200]!r}, which is no safetensors file beside it."
            )
        if not (folder / name).is_file():
            raise BadModelFolder(f"{INDEX} names {name}, which is missing.")
        files.append(folder / name)
    return tuple(files)


def _known_architecture(
    config: Mapping[str, object],
) -> tuple[str, type[PublishedFamily]]:
    """The architecture that the configuration names, and the family that computes it."""
    known = {
        architecture: family
        for family in map(FAMILIES.get, FAMILIES.names())
        if issubclass(family, PublishedFamily)
        for architecture in family.architectures
    }
    named = config.get("architectures")
    names = [str(n) for n in cast("list[object]", named)] if isinstance(named, list) else []
    if len(names) == 1 and names[0] in known:
        return names[0], known[names[0]]
    raise BadModelFolder(
        f"{CONFIG} names the architectures {names}; adaptlab computes one of {sorted(known)}."
    )


def _json_object(path: Path, within: Path | None) -> dict[str, object]:
    """What stands in a small JSON file."""
    try:
        with opened(path, within) as file:
            text = file.read(LARGEST_JSON + 1)
        if len(text) > LARGEST_JSON:
            raise BadModelFolder(f"{path.name} is larger than {LARGEST_JSON} bytes.")
        content: object = json.loads(text)
    except OSError as error:
        raise BadModelFolder(f"{path.name} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise BadModelFolder(f"{path.name} is not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise BadModelFolder(f"{path.name} does not hold a JSON object.")
    return cast("dict[str, object]", content)
