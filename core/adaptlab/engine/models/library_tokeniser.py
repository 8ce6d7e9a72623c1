"""Comparison of a folder's tokeniser with that of the library, at import."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from adaptlab.errors import BadModelFolder
from adaptlab.text.chat import CONFIG_FILE
from adaptlab.text.folder_tokeniser import folder_tokeniser
from adaptlab.text.tokeniser import FILE, PublishedTokeniser

PROBES = (
    "The Film is FINE. It is",
    " two  spaces, a\ttab and\nlines ",
    "caf\u00e9 na\u00efve \u00c5ngstr\u00f6m 12,345.67 don't",
    "\u4e2d\u6587 \u0440\u0443\u0441\u0441\u043a\u0438\u0439 \U0001f642",
)
"""Texts that both read: capitals, spaces, accents, other scripts."""
LONGEST_SHOWN = 12


def check_tokeniser(files: Mapping[str, bytes], vocabulary: int) -> None:
    """Compare the tokeniser of a folder with that of `transformers`.

    Nothing is compared without a `tokenizer_config.json`, or if the library makes none of these
    files.

    Raises:
        BadModelFolder: the files have no tokeniser for a model of `vocabulary` tokens, or the two
            read a text differently.
    """
    ours = folder_tokeniser(files, vocabulary)
    theirs = library_tokeniser(files) if CONFIG_FILE in files else None
    if theirs is None:
        return
    for text in (*PROBES, *_special_texts(theirs, ours)):
        mine, other = list(ours.whole(text)), list(theirs(text)["input_ids"])
        if mine != other:
            raise BadModelFolder(
                f"{FILE} reads {text!r} as {_shown(mine)}, and transformers "
                f"{version('transformers')} with {CONFIG_FILE} as {_shown(other)}. Load the "
                "tokenizer there, save it with save_pretrained, and import the folder again."
            )


def library_tokeniser(files: Mapping[str, bytes]) -> Any:
    """Return the library's tokeniser of some files, None if it makes none."""
    from transformers import AutoTokenizer

    with TemporaryDirectory(prefix="adaptlab-tokeniser-") as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        try:
            return AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception:  # noqa: BLE001 - a class that needs other files, or code of the model's own
            return None


def _special_texts(theirs: Any, ours: PublishedTokeniser) -> tuple[str, ...]:
    """Return texts with the special tokens that both have."""
    known = (name for name in theirs.get_added_vocab() if ours.number(name) is not None)
    return tuple(f"a{name}b" for name in sorted(known)[:64])


def _shown(ids: list[int]) -> str:
    more = ", …" if len(ids) > LONGEST_SHOWN else ""
    return f"[{', '.join(map(str, ids[:LONGEST_SHOWN]))}{more}]"
