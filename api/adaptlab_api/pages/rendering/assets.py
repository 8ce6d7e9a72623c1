"""Style, scripts and icon of the pages, and the chart library."""

import gzip
import hashlib
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from adaptlab.charts import VEGA_LITE

BUNDLE_SECONDS = 120
MEDIA_TYPES = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
    }
)


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent; `digest` changes with its content."""

    content: bytes
    media_type: str
    digest: str


@dataclass(frozen=True, slots=True)
class Assets:
    """The files of the pages, by name, and the chart library's address."""

    by_name: Mapping[str, Asset]
    charts_url: str

    def url(self, name: str) -> str:
        """Return the address of a file, which changes with its content."""
        return f"/static/{name}?v={self.by_name[name].digest[:12]}"


def load_assets() -> Assets:
    """Read the files in `static/`."""
    folder = files("adaptlab_api.pages") / "static"
    by_name = {
        entry.name: _asset(entry.name, entry.read_bytes())
        for entry in folder.iterdir()
        if Path(entry.name).suffix in MEDIA_TYPES
    }
    return Assets(MappingProxyType(by_name), f"/static/{charts_name()}")


def charts_name() -> str:
    """Return the file name of the chart library, which includes its version."""
    return f"charts-{version('vl-convert-python')}-{VEGA_LITE}.js"


def charts_script(cache: Path) -> bytes:
    """Return the gzipped chart library; a child process writes it to `cache`.

    Two simultaneous requests write it twice, which is harmless: the file appears whole.
    """
    target = cache / f"{charts_name()}.gz"
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "adaptlab_api.pages.rendering.bundle", str(target)]
        subprocess.run(command, check=True, timeout=BUNDLE_SECONDS)
    return target.read_bytes()


def plain(compressed: bytes) -> bytes:
    """Return the script for a browser without gzip."""
    return gzip.decompress(compressed)


def _asset(name: str, content: bytes) -> Asset:
    digest = hashlib.sha256(content).hexdigest()
    return Asset(content, MEDIA_TYPES[Path(name).suffix], digest)
