"""PEFT folders, which the server sends as zip files."""

import io
import zipfile
from pathlib import Path

from adaptlab_client.errors import UnexpectedAnswer
from adaptlab_client.transport import download
from adaptlab_client.transport.connection import Connection

FILES = ("adapter_config.json", "adapter_model.safetensors")
README = "README.md"
"""A third file of adapters with a trained head."""


def save_folder(connection: Connection, path: str, folder: Path) -> Path:
    """Write the files of the folder at `path`; raises `UnexpectedAnswer`."""
    body = download.content(connection, path, digest=None)
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            further = {README} & {*archive.namelist()}
            files = {name: archive.read(name) for name in (*FILES, *further)}
    except (zipfile.BadZipFile, KeyError) as error:
        raise UnexpectedAnswer(f"{path} is not a zip file with a PEFT folder: {error}") from error
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder
