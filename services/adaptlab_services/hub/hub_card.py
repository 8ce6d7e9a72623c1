"""What the card of a dataset says about its files and classes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard, cast

from adaptlab.records.file_reading import MOST_CLASSES
from adaptlab.records.record import MOST_FIELDS
from adaptlab_services.hub.hub_access import CardConfig, CardFiles

MOST_CONFIGS = 1000
MOST_PATTERNS = 1000
LONGEST_NAME = 256
DEFAULT = "default"
TRAIN = "train"
_CHANGING = frozenset(
    {"column_names", "names", "header", "skiprows", "usecols", "field", "quotechar", "features"}
)
"""Options of the library `datasets` by which other records than ours would be read."""

_Members = Mapping[str, Any]  # of a card, which may have anything


def configs_of(card: _Members) -> tuple[CardConfig, ...]:
    """Return the configurations of a card, without what has another form."""
    infos = {_name(info): info for info in _mappings(card.get("dataset_info"))}
    listed = {_name(config): config for config in _mappings(card.get("configs"))}
    names = list(dict.fromkeys((*listed, *infos)))[:MOST_CONFIGS]
    return tuple(
        CardConfig(
            name=name,
            is_default=listed.get(name, {}).get("default") is True,
            files=tuple(_files(listed.get(name, {}))),
            folder=_text(listed.get(name, {}).get("data_dir")),
            delimiter=_text(_either(listed.get(name, {}), "sep", "delimiter")),
            options=tuple(sorted(_CHANGING & listed.get(name, {}).keys())),
            class_names=_class_names(infos.get(name, {}).get("features")),
        )
        for name in names
    )


def _files(config: _Members) -> Iterator[CardFiles]:
    """Yield the patterns of each split."""
    files: Any = config.get("data_files")
    if isinstance(files, str) or _is_of_texts(files):
        yield CardFiles(split=TRAIN, patterns=_texts(files))
        return
    if isinstance(files, Mapping):
        files = [{"split": split, "path": path} for split, path in cast("_Members", files).items()]
    for one in _mappings(files)[:MOST_PATTERNS]:
        split = one.get("split")
        yield CardFiles(
            split=split[:LONGEST_NAME] if isinstance(split, str) else TRAIN,
            patterns=_texts(one.get("path")),
        )


def _class_names(features: object) -> dict[str, tuple[str, ...]]:
    """Return the names of the classes of each feature that is a `ClassLabel`."""
    found: dict[str, tuple[str, ...]] = {}
    for feature in _mappings(features):
        kind = feature.get("dtype")
        label = kind.get("class_label") if _is_map(kind) else None
        names = label.get("names") if _is_map(label) else None
        if _is_map(names):  # by number, as cards have them
            names = [names.get(str(number)) for number in range(len(names))]
        name = feature.get("name")
        if isinstance(name, str) and _is_of_texts(names) and len(names) <= MOST_CLASSES:
            found[name] = tuple(names)
    return dict(list(found.items())[:MOST_FIELDS])


def _mappings(value: object) -> Sequence[_Members]:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    return [one for one in listed if _is_map(one)]


def _is_map(value: object) -> TypeGuard[_Members]:
    return isinstance(value, Mapping)


def _is_of_texts(value: object) -> TypeGuard[list[str]]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return bool(listed) and all(isinstance(one, str) for one in listed)


def _texts(value: object) -> tuple[str, ...]:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    texts = [one for one in listed if isinstance(one, str)]
    return tuple(one.removeprefix("./")[:1024] for one in texts[:MOST_PATTERNS])


def _either(members: _Members, *names: str) -> object:
    return next((members[name] for name in names if name in members), None)


def _name(config: _Members) -> str:
    return _text(config.get("config_name")) or DEFAULT


def _text(value: object) -> str | None:
    if not isinstance(value, str) or not (value.isprintable() or value == "\t"):
        return None
    return value[:LONGEST_NAME]
