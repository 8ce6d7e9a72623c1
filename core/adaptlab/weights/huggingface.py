"""Model folders in the Hugging Face layout, and the families that use it.

A folder has a `config.json` and one or more safetensors files. Nothing in it is executed or
unpickled. This module reads the small files; `adaptlab.engine.models.huggingface` reads the
tensors.
"""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from adaptlab.errors import BadModelFolder, InvalidSpec, NoLibraryForm
from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.plugins.images import Preprocessor
from adaptlab.plugins.shapes import HEAD_SITE
from adaptlab.validation import error_text
from adaptlab.weights.folder_files import FolderFiles
from adaptlab.wording import demand, shortened, value_excerpt

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
SAFETENSORS = ".safetensors"
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".h5", ".msgpack")
LONGEST_FILE_NAME = 255
LONGEST_DETAIL = 1000
LARGEST_JSON = 2**22  # bytes; the index of 10,000 tensors takes a megabyte


class PublishedConfig(BaseModel):
    """The members of a `config.json` that affect the model's computation."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)

    auto_map: None = None  # would name the model's own code, which is never run
    quantization_config: None = None


@dataclass(frozen=True, slots=True)
class PublishedTensor:
    """The place of a tensor [outputs, ...] in the files of a published model.

    A `transposed` matrix is stored as [inputs, outputs]. A fused tensor contains several tensors
    along its `fused` outputs, and this one begins at the output `start`.
    """

    name: str
    transposed: bool = False
    start: int = 0
    fused: int | None = None

    def stored_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the stored shape of a tensor of `shape`."""
        whole = shape if self.fused is None else (self.fused, *shape[1:])
        return whole[::-1] if self.transposed else whole

    def part_of(self, stored: Any, outputs: int) -> Any:  # Any: arrays of numpy or of torch
        """Return this tensor of `outputs` rows, in our layout.

        It is a view of the stored tensor.
        """
        whole = stored.T if self.transposed else stored
        return whole[self.start : self.start + outputs]


class PublishedFamily(Family):
    """A family with models published in the Hugging Face layout.

    The names of all tensors but the head's can begin with `prefix`. Tensors whose names end in one
    of `buffers` are ignored: older files contain them although they can be computed. `stands_in`
    are the architectures of other families, for the models that these do not compute.
    """

    architectures: ClassVar[tuple[str, ...]]
    stands_in: ClassVar[tuple[str, ...]] = ()
    prefix: ClassVar[str]
    buffers: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def from_published(
        cls, architecture: str, config: Mapping[str, object], stored: Mapping[str, tuple[int, ...]]
    ) -> Self:
        """Return the resolved configuration of a `config.json`.

        `stored` are the shapes of the tensors in the files, by name.

        Raises:
            ValidationError: the family does not support the model.
            BadModelFolder: the files do not have the model's tensors.
        """

    @classmethod
    def computes(cls, config: Mapping[str, object]) -> bool:
        """Return True if the family computes what a `config.json` asks for.

        Otherwise one that `stands_in` does. Members that are wrong count as computed, since
        `from_published` refuses them by name.
        """
        return True

    def classifier_prefix(self) -> str:
        """Return the `prefix` in the library's model with a head for classes."""
        return self.prefix

    def library_members(self) -> dict[str, object]:
        """Return our values of members of the configuration.

        Names are those of the library, whose values the import compares with them; see
        `engine.library_comparison`. There are none if the library itself computes the model.
        """
        return {}

    def published_config(self) -> dict[str, object]:
        """Return the `config.json` of a model that was trained here.

        Raises:
            NoLibraryForm: the library has no such model.
        """
        raise NoLibraryForm(
            f"A {self.name} is written by the library that it comes from. Import it from a folder; "
            "then that folder is exported."
        )

    def stored_name(self, tensor: str, place: PublishedTensor) -> str:
        """Return the name of the stored tensor at the place of one of ours."""
        return place.name if tensor.partition(".")[0] == HEAD_SITE else self.prefix + place.name

    def rotary_frequencies(self) -> tuple[float, ...]:
        """Return radians per position for each pair of features of a head.

        They are base^(-2i/D), then scaled. There are none without rotary positions of our own.
        """
        return ()

    def with_preprocessor(self, preprocessor: Preprocessor | None) -> Self:
        """Return the model with a way to see pixels; models of texts ignore it."""
        return self

    @abstractmethod
    def published_tensors(self) -> dict[str, PublishedTensor]:
        """Return the places of the tensors, and of the head even if it is tied."""


@dataclass(frozen=True, slots=True)
class Description:
    """A model of a known family, as its `config.json` describes it."""

    architecture: str
    family: type[PublishedFamily]
    config: Mapping[str, object]

    def model(self, stored: Mapping[str, tuple[int, ...]]) -> PublishedFamily:
        """Return the family with its dimensions.

        `stored` are the shapes of the stored tensors by name.

        Raises:
            BadModelFolder: the family does not support the model.
        """
        try:
            published = self.family.from_published(self.architecture, self.config, stored)
        except ValidationError as error:
            details = _details(error.errors())
            raise BadModelFolder(
                f"{CONFIG} describes a {self.architecture} that adaptlab does not support. "
                f"{shortened(details, LONGEST_DETAIL)}"
            ) from error
        if problems := published.problems():
            raise BadModelFolder(f"{CONFIG} contradicts itself: {InvalidSpec(*problems)}")
        return published


def _details(errors: Sequence[ErrorDetails]) -> str:
    """Return errors as sentences; those about one member are one."""
    by_place: dict[str, list[ErrorDetails]] = {}
    for error in errors:
        by_place.setdefault(".".join(map(str, error["loc"])), []).append(error)
    return " ".join(_sentence(place or CONFIG, here) for place, here in by_place.items())


def _sentence(place: str, errors: Sequence[ErrorDetails]) -> str:
    """Return the errors of one member, with its value where one is wrong."""
    text = error_text(place, errors)
    if demand(errors[0]) is None:
        return text
    return f"{text.rstrip('.')}, not {value_excerpt(errors[0]['input'])}."


def read_description(files: FolderFiles) -> Description:
    """Return what the `config.json` of a folder says.

    Raises:
        BadModelFolder: there is none, it names code of its own, its weights are quantised, or no
            family supports the architecture.
    """
    config = read_json_object(files, CONFIG)
    if config.get("auto_map") is not None:
        raise BadModelFolder(_OWN_CODE)
    if config.get("quantization_config") is not None:
        raise BadModelFolder(_quantised(config["quantization_config"]))
    return Description(*_known_architecture(config), config)


_OWN_CODE = (
    f"{CONFIG} has an auto_map, which names code that comes with the model. adaptlab never runs "
    "such code. If transformers computes this model without trust_remote_code, remove auto_map "
    f"from {CONFIG}; otherwise choose a model that needs no code of its own."
)


def _quantised(how: object) -> str:
    """Return the reason for which a model with quantised weights is not read."""
    members = cast("dict[str, object]", how) if isinstance(how, dict) else {}
    bits = 4 if members.get("load_in_4bit") else 8 if members.get("load_in_8bit") else None
    named = members.get("quant_method")
    width = members.get("bits", bits)
    shown = "of an unnamed kind" if named is None else value_excerpt(named)
    shown += f", {width:g} bits" if isinstance(width, int | float) else ""
    return (
        f"{CONFIG} has a quantization_config ({shortened(shown, 80)}). Folders of quantised models "
        "are not read. Name the folder of the model that was quantised, or load this one in "
        "transformers, call dequantize(), and save it with save_pretrained. Jobs on a GPU can hold "
        "that model in four bits by `base_weights: nf4`."
    )


def weight_files(files: FolderFiles) -> tuple[str, ...]:
    """Return the names of the safetensors files of the model in a folder.

    Raises:
        BadModelFolder: there are none, or it is unclear which of them belong to the model.
        OSError: the folder cannot be read.
    """
    names = files.names()
    if INDEX in names:
        return _indexed_files(files, names)
    weights = [name for name in names if name.endswith(SAFETENSORS)]
    if SINGLE in weights:
        return (SINGLE,)
    if len(weights) == 1:
        return (weights[0],)
    if weights:
        raise BadModelFolder(
            f"The folder has {len(weights)} safetensors files, but no {INDEX} that lists the ones "
            "of the model. Add it."
        )
    raise _no_weights(names)


def _no_weights(names: Sequence[str]) -> BadModelFolder:
    pickles = [name for name in names if name.endswith(PICKLES)]
    if not pickles:
        return BadModelFolder(f"The folder has no safetensors file. Add {SINGLE}.")
    return BadModelFolder(pickle_refusal(pickles[0]))


def pickle_refusal(name: str) -> str:
    """Return the reason for which a pickle is not read."""
    return (
        f"{name} is not read, because a file of this type can contain code that runs when "
        f"it is loaded. Add {SINGLE}, which save_pretrained of current transformers writes."
    )


def _indexed_files(files: FolderFiles, present: Sequence[str]) -> tuple[str, ...]:
    weight_map = read_json_object(files, INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise BadModelFolder(f"{INDEX} has no weight_map of tensors to files.")
    named = cast("dict[str, object]", weight_map).values()
    others = [name for name in named if not isinstance(name, str)]
    if others:
        raise BadModelFolder(f"{INDEX} names {value_excerpt(others[0])}, which is not a file name.")
    names = sorted({name for name in named if isinstance(name, str)})
    for name in names:
        is_name = Path(name).name == name and name.isprintable() and len(name) <= LONGEST_FILE_NAME
        if not is_name or not name.endswith(SAFETENSORS):
            raise BadModelFolder(
                f"{INDEX} names {name[:200]!r}, which is not a safetensors file in its folder."
            )
        if name not in present:
            raise BadModelFolder(f"{INDEX} names {name}, which is missing. Add the file.")
    return tuple(names)


def _known_architecture(
    config: Mapping[str, object],
) -> tuple[str, type[PublishedFamily]]:
    """Return the architecture that the configuration names, with its family."""
    published = [f for f in map(FAMILIES.get, FAMILIES.names()) if issubclass(f, PublishedFamily)]
    families = {name: family for family in published for name in family.architectures}
    named = config.get("architectures")
    names = [str(n) for n in cast("list[object]", named)] if isinstance(named, list) else []
    if len(names) == 1 and names[0] in families:
        own = families[names[0]]
        others = [f for f in published if names[0] in f.stands_in and not own.computes(config)]
        return names[0], next(iter(others), own)
    raise BadModelFolder(
        f"{CONFIG} names the architectures {names}. adaptlab supports one of {sorted(families)}. "
        "Choose a model of one of these."
    )


def read_json_object(files: FolderFiles, name: str) -> dict[str, object]:
    """Return the content of a small JSON file."""
    try:
        with files.opened(name) as file:
            text = file.read(LARGEST_JSON + 1)
    except OSError as error:
        raise BadModelFolder(unreadable(name, error)) from error
    return json_object(name, text)


def unreadable(name: str, error: OSError) -> str:
    """Return the reason why a file of a model folder cannot be read."""
    add = " Add it to the folder." if isinstance(error, FileNotFoundError) else ""
    return f"{name} cannot be read: {error.strerror or error}.{add}"


def json_object(name: str, text: bytes) -> dict[str, object]:
    """Return the object in the small JSON file `name`.

    `text` is the first `LARGEST_JSON` + 1 bytes of the file.

    Raises:
        BadModelFolder: the file is too large, or not a JSON object.
    """
    if len(text) > LARGEST_JSON:
        raise BadModelFolder(f"{name} has more than {LARGEST_JSON:,} bytes.")
    try:
        content: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadModelFolder(f"{name} is not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise BadModelFolder(f"{name} is not a JSON object.")
    return cast("dict[str, object]", content)
