"""The content of datasets, read from files."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from adaptlab.errors import BadModelFolder
from adaptlab.plugins.dataset import RecordsReference, WordList, read_words
from adaptlab.specs.resolved import Resolved, datasets_of
from adaptlab.text.source import TextSource
from adaptlab.text.tokeniser import FILE, ByteTokeniser, Tokeniser, end_token, read_tokeniser
from adaptlab.weights.model_folder import read_config, read_tokeniser_file
from adaptlab.weights.placed_folder import PlacedFolder


@dataclass(frozen=True)
class Contents:
    """The word lists and records that a job's tasks need, by digest."""

    lists: Mapping[str, WordList] = field(default_factory=dict[str, WordList])
    texts: Mapping[str, TextSource] = field(default_factory=dict[str, TextSource])


def read_datasets(
    spec: Resolved, files: Iterable[Path], folder: PlacedFolder | None = None
) -> Contents:
    """Read the datasets of a job's tasks.

    Records are read when their items are needed, by the tokeniser of the base model in `folder`, or
    as bytes if there is none.

    Raises:
        BadDataset: the content of a word list is not canonical.
        BadModelFolder: the folder has no tokeniser that can be read.
    """
    paths = {_digest(file): file for file in files}
    lists, texts = dict[str, WordList](), dict[str, TextSource]()
    tokeniser: Tokeniser | None = None
    for reference in datasets_of(spec):
        path = paths.get(reference.digest)
        if path is None:
            continue
        if isinstance(reference, RecordsReference):
            tokeniser = tokeniser or _tokeniser(spec, folder)
            texts[reference.digest] = TextSource(path, reference.digest, tokeniser)
        else:
            lists[reference.digest] = read_words(path.read_bytes(), reference.digest)
    return Contents(lists, texts)


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _tokeniser(spec: Resolved, folder: PlacedFolder | None) -> Tokeniser:
    if folder is None:
        return ByteTokeniser()
    # That the folder has not changed is checked with its weights.
    content, config = (
        read(folder.path, folder.within) for read in (read_tokeniser_file, read_config)
    )
    tokeniser = read_tokeniser(content, end_token(config))
    if tokeniser.vocabulary > (available := spec.family.shape().vocabulary):
        raise BadModelFolder(
            f"{FILE} of the folder {folder.name} has {tokeniser.vocabulary:,} tokens, and the "
            f"model {available:,}. Put the model's own tokeniser there."
        )
    return tokeniser
