"""The files of a split of a dataset on a hub."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.file_forms import LONGEST_FILE, FileForm, UnknownForm, form_of
from adaptlab.weights.hub_name import HubDatasetName
from adaptlab_services.hub.hub_access import CardConfig, HubFile, HubRepository
from adaptlab_services.hub.hub_card import DEFAULT, TRAIN

POINTER = "/source"
CONVERSION = "refs/convert/parquet"
"""The branch of a hub with its own conversion of a dataset to Parquet."""
MOST_LISTED = 20
READ_FORMS: tuple[FileForm, ...] = ("parquet", "jsonl", "csv", "tsv")
"""In this order, if a split has files of several forms."""
_NOT_RECORDS = frozenset(
    {"dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json", "config.json"}
)
_USUAL = {
    "train": "train", "training": "train", "validation": "validation", "valid": "validation",
    "val": "validation", "dev": "validation", "test": "test", "testing": "test",
    "eval": "test", "evaluation": "test",
}  # fmt: skip
_WORD = re.compile(r"[a-z]+")
_SHARD = re.compile(r"(?:.*/)?data/([^/]+)-\d{5}-of-\d{5}(?:-[^/]*)?\.[^/]+")
_CONVERTED = re.compile(r"([^/]+)/(partial-)?([^/]+)/\d{4}\.parquet")
_FOLDERS_OF_NO_CONFIG = frozenset({"data", "dataset", "datasets"})

Splits = Mapping[str, Sequence[HubFile]]


@dataclass(frozen=True, slots=True)
class HubSplit:
    """A split of a dataset on a hub, with its files in order."""

    config: str
    split: str
    configs: tuple[str, ...]
    splits: tuple[str, ...]
    is_default_config: bool
    is_default_split: bool
    is_partial: bool
    form: FileForm
    files: tuple[HubFile, ...]
    delimiter: str | None
    class_names: Mapping[str, tuple[str, ...]]

    @property
    def size_bytes(self) -> int:
        """The announced size of its files."""
        return sum(file.size or 0 for file in self.files)


def has_records(name: str) -> bool:
    """Return True for the path of a file with records, whose address is safe."""
    path = PurePosixPath(name)
    if len(name) > LONGEST_FILE or not name.isprintable() or "\\" in name or str(path) != name:
        return False
    if path.is_absolute() or any(part.startswith((".", "__")) for part in path.parts):
        return False
    try:
        return form_of(path) in READ_FORMS and path.name not in _NOT_RECORDS
    except UnknownForm:
        return False


def chosen(repository: HubRepository, wanted: HubDatasetName) -> HubSplit:
    """Return a split of a dataset, by its card or the names of its files.

    Raises:
        InvalidSpec: it has no such configuration or split, no files with records, or files that
            cannot be read as its card says.
    """
    if not repository.files:
        raise _refused("no_data_files", _NO_FILES.format(wanted.name.repository))
    if all(_CONVERTED.fullmatch(file.name) for file in repository.files):
        configs = _converted(repository.files)
        cards = {card.name: card for card in repository.configs}
    else:
        cards = {card.name: card for card in repository.configs}
        configs = _of_card(repository) or _by_folder(repository.files)
    config = _one("configuration", wanted.config, tuple(configs), _default_config(configs, cards))
    splits = configs[config]
    split = _one("split", wanted.split, tuple(splits), _default_split(splits))
    card = cards.get(config) or CardConfig(name=config)
    form, files = _of_one_form(splits[split])
    if card.options and form != "parquet":
        detail = (
            f"The card of {wanted.name.repository} has the files of {config!r} read with "
            f"{', '.join(card.options)}, which adaptlab lacks. {_ELSEWHERE}"
        )
        raise _refused("other_reading", detail)
    _check_sizes(files)
    return HubSplit(
        config=config,
        split=split,
        configs=tuple(configs),
        splits=tuple(splits),
        is_default_config=config == _default_config(configs, cards),
        is_default_split=split == _default_split(splits),
        is_partial=any("/partial-" in f"/{file.name}" for file in files),
        form=form,
        files=files,
        delimiter=card.delimiter if form == "csv" else None,
        class_names=card.class_names,
    )


_ELSEWHERE = (
    "Convert it to CSV, JSON lines or Parquet where its code can run, and upload that: adaptlab "
    "datasets upload NAME FILE."
)
_NO_FILES = (
    "{} has no CSV, JSON lines or Parquet files, and the hub no conversion to Parquet. Scripts, "
    "pickles and archives are never read. " + _ELSEWHERE
)


def _of_card(repository: HubRepository) -> dict[str, Splits]:
    """Return the splits of each configuration of which the card has files."""
    found: dict[str, Splits] = {}
    for card in repository.configs:
        if card.files:
            prefix = f"{card.folder.strip('/')}/" if card.folder else ""
            found[card.name] = {
                one.split: _matching(repository.files, [prefix + text for text in one.patterns])
                for one in card.files
            }
        elif card.folder:
            folder = card.folder.strip("/")
            inside = [one for one in repository.files if one.name.startswith(f"{folder}/")]
            found[card.name] = _by_name(inside, folder)
    kept = {
        name: {split: files for split, files in splits.items() if files}
        for name, splits in found.items()
    }
    return {name: splits for name, splits in kept.items() if splits}


def _matching(files: Sequence[HubFile], patterns: Iterable[str]) -> Sequence[HubFile]:
    """Return the files of some patterns, in the order of these."""
    matches: dict[str, HubFile] = {}
    for pattern in patterns:
        for file in sorted(files, key=_name):
            if _matches(file.name, pattern):
                matches.setdefault(file.name, file)
    return list(matches.values())


def _matches(name: str, pattern: str) -> bool:
    """Return True if a path is of a pattern, where `**` alone crosses folders."""
    if "**" in pattern:
        whole = f"/{pattern}".replace("/**/", "*/").replace("**", "*")
        return fnmatchcase(f"/{name}", whole)
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


def _by_folder(files: Sequence[HubFile]) -> dict[str, Splits]:
    """Return the splits by name; several folders are configurations."""
    folders = dict.fromkeys(file.name.partition("/")[0] for file in sorted(files, key=_name))
    are_configs = len(folders) > 1 and all(
        "/" in file.name
        and file.name.partition("/")[0] not in _FOLDERS_OF_NO_CONFIG
        and _usual_split(file.name.partition("/")[0]) is None
        for file in files
    )
    if not are_configs:
        return {DEFAULT: _by_name(files)}
    return {
        folder: _by_name([file for file in files if file.name.startswith(f"{folder}/")], folder)
        for folder in folders
    }


def _by_name(files: Iterable[HubFile], folder: str = "") -> Splits:
    """Return files by the split that their paths name; without any, all train."""
    splits: dict[str, list[HubFile]] = {}
    others: list[HubFile] = []
    for file in sorted(files, key=_name):
        path = file.name.removeprefix(f"{folder}/")
        shard = _SHARD.fullmatch(file.name)
        split = shard[1] if shard and _usual_split(shard[1]) is None else _split_of(path)
        (others if split is None else splits.setdefault(split, [])).append(file)
    return splits or {TRAIN: others}


def _split_of(path: str) -> str | None:
    """Return the split that a folder or, otherwise, the file's name has."""
    folders, _, name = path.rpartition("/")
    parts = (*folders.split("/"), name.partition(".")[0])
    return next((split for part in parts if (split := _usual_split(part))), None)


def _usual_split(text: str) -> str | None:
    words = _WORD.findall(text.lower())
    return next((_USUAL[word] for word in words if word in _USUAL), None)


def _converted(files: Sequence[HubFile]) -> dict[str, Splits]:
    """Return the splits of a hub's conversion to Parquet."""
    found: dict[str, dict[str, list[HubFile]]] = {}
    for file in sorted(files, key=_name):
        match = _CONVERTED.fullmatch(file.name)
        assert match is not None  # of all files
        found.setdefault(match[1], {}).setdefault(match[3], []).append(file)
    return dict(found)


def _default_config(configs: Mapping[str, Splits], cards: Mapping[str, CardConfig]) -> str | None:
    flagged = [name for name in configs if name in cards and cards[name].is_default]
    if flagged:
        return flagged[0]
    return DEFAULT if DEFAULT in configs else next(iter(configs)) if len(configs) == 1 else None


def _default_split(splits: Splits) -> str | None:
    return TRAIN if TRAIN in splits else next(iter(splits)) if len(splits) == 1 else None


def _one(noun: str, wanted: str | None, names: tuple[str, ...], default: str | None) -> str:
    """Return the wanted name or the default; raises `InvalidSpec`."""
    name = wanted or default
    if name in names:
        return name
    option = "config" if noun == "configuration" else noun
    listed = ", ".join(names[:MOST_LISTED])
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    problem = f"has no {noun} {name!r}" if name else f"has no default {noun}"
    detail = f"The dataset {problem}. Choose one with --{option}: {listed}{more}."
    raise InvalidSpec(Problem(POINTER, f"unknown_{option}", detail, names[:MOST_LISTED]))


def _of_one_form(files: Sequence[HubFile]) -> tuple[FileForm, tuple[HubFile, ...]]:
    """Return the first form that a split has, and its files, in order."""
    by_form: dict[FileForm, list[HubFile]] = {}
    for file in files:
        by_form.setdefault(form_of(PurePosixPath(file.name)), []).append(file)
    form = min(by_form, key=READ_FORMS.index)
    return form, tuple(by_form[form])


def _check_sizes(files: Iterable[HubFile]) -> None:
    for file in files:
        if file.size is None or file.size < 0:
            raise _refused("no_size", f"The hub does not announce the size of {file.name}.")


def _refused(code: str, detail: str) -> InvalidSpec:
    return InvalidSpec(Problem(POINTER, code, detail))


def _name(file: HubFile) -> str:
    return file.name
