"""The content of datasets, read from files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from adaptlab.errors import BadModelFolder
from adaptlab.plugins.dataset import RecordsReference, WordList, read_words
from adaptlab.runs.inputs import LocalFile
from adaptlab.specs.resolved import Resolved, datasets_of, tasks_of
from adaptlab.text.chat import PLAIN_TEMPLATE, ChatTemplate, read_chat_template
from adaptlab.text.folder_tokeniser import TOKENISER_FILES, folder_tokeniser
from adaptlab.text.source import TextSource
from adaptlab.text.tokeniser import FILE, ByteTokeniser, Tokeniser
from adaptlab.weights.model_folder import (
    CHAT_FILES,
    read_text_file,
    read_tokeniser_file,
)
from adaptlab.weights.placed_folder import PlacedFolder


@dataclass(frozen=True)
class Contents:
    """The word lists and records that a job's tasks need, by digest.

    `tokeniser` is that of the base model if the job's method starts with a text.
    """

    lists: Mapping[str, WordList] = field(default_factory=dict[str, WordList])
    texts: Mapping[str, TextSource] = field(default_factory=dict[str, TextSource])
    tokeniser: Tokeniser | None = None


def read_datasets(
    spec: Resolved, files: Iterable[LocalFile], folder: PlacedFolder | None = None
) -> Contents:
    """Read the datasets of a job's tasks.

    Records are read when their items are needed, by the tokeniser of the base model in `folder`, or
    as bytes if there is none. Conversations are written by the chat template of the folder.

    Raises:
        BadDataset: the content of a word list is not canonical.
        BadModelFolder: the folder has no tokeniser or chat template that can be read.
    """
    paths = {file.sha256: file.path for file in files}
    lists, texts = dict[str, WordList](), dict[str, TextSource]()
    starts_with_text = (
        spec.trains and spec.method is not None and bool(spec.method.starting_texts())
    )
    tokeniser = _tokeniser(spec, folder) if starts_with_text else None
    reads_texts = any(task.needs_tokeniser for task in tasks_of(spec))
    chat = _chat_template(folder) if _has_conversations(spec) else PLAIN_TEMPLATE
    for reference in datasets_of(spec):
        path = paths.get(reference.digest)
        if path is None:
            continue
        if isinstance(reference, RecordsReference):
            tokeniser = tokeniser or _tokeniser(spec, folder if reads_texts else None)
            mask = spec.family.mask()
            texts[reference.digest] = TextSource(path, reference.digest, tokeniser, chat, mask)
        else:
            lists[reference.digest] = read_words(path.read_bytes(), reference.digest)
    return Contents(lists, texts, tokeniser if starts_with_text else None)


def _has_conversations(spec: Resolved) -> bool:
    return any(task.conversations() is not None for task in tasks_of(spec))


def _chat_template(folder: PlacedFolder | None) -> ChatTemplate:
    """Return the template of a base model, the plain one for a model of bytes."""
    if folder is None:
        return PLAIN_TEMPLATE
    imported = {file.name for file in folder.files}
    present = {name for name in CHAT_FILES if (folder.path / name).exists()}
    if added := sorted(present - imported):
        raise BadModelFolder(
            f"The folder {folder.name} has {added[0]}, which was not there when the model was "
            "imported, or was not read then. Import it again under another name."
        )
    files = {name: read_text_file(folder.path, name, folder.within) for name in sorted(present)}
    return read_chat_template(files)


def _tokeniser(spec: Resolved, folder: PlacedFolder | None) -> Tokeniser:
    if folder is None:
        return ByteTokeniser()
    # That the folder has not changed is checked with its weights.
    return folder_tokeniser(tokeniser_files(folder), spec.family.shape().vocabulary)


def tokeniser_files(folder: PlacedFolder) -> dict[str, bytes]:
    """Return the files that decide tokens, those that the import read.

    Raises:
        BadModelFolder: one is missing or cannot be read.
    """
    imported = {file.name for file in folder.files}
    files = {FILE: read_tokeniser_file(folder.path, folder.within)}
    for name in imported.intersection(TOKENISER_FILES) - {FILE}:
        files[name] = read_text_file(folder.path, name, folder.within)
    return files
