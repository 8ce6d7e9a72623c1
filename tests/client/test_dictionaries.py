"""Small dictionaries: what is read of each format, and how two join.

The entries are made up here in the formats of Ding and of Apertium's `lt-proc`.
"""

import hashlib
import json
import os
from pathlib import Path

import pytest
from tests.client.conftest import Invoke
from tests.client.dictionary_texts import GERMAN, SPANISH

from adaptlab.plugins.dataset import Triple, word_list
from adaptlab_client import Client
from adaptlab_client.machine.dictionaries import (
    NoDictionary,
    base_forms,
    german_words,
    import_dictionaries,
    spanish_words,
)

ANALYSED = """\
^dog/dog<n><sg>/dog<vblex><inf>/dog<vblex><pres>$
^dogs/dog<n><pl>$ ^loud/loud<adj><sint>$ ^xyzzy/*xyzzy$ ^better/good<adj><sint><comp>$
^run/run<vblex><inf>/run<vblex><pp>$ ^Paris/Paris<np><loc><sg>$
"""
TRIPLES = {
    ("bark", "Rinde", "corteza"),
    ("dog", "Hund", "perro"),
    ("loud", "laut", "ruidoso"),
    ("loudly", "laut", "alto"),
}


def test_a_german_word_is_found_with_its_part_of_speech():
    found = german_words(GERMAN.splitlines())
    assert found == {
        ("dogfish", "noun"): "Katzenhai",
        ("dog", "noun"): "Hund",  # beside it in two lines, as in none of the others
        ("bark", "verb"): "bellen",
        ("bark", "noun"): "Rinde",
        ("loud", "adjective"): "laut",
        ("noisy", "adjective"): "laut",
        ("loudly", "adverb"): "laut",
        ("beetle", "noun"): "Käfer",
    }


def test_a_spanish_word_is_of_the_same_part_of_speech():
    assert spanish_words(SPANISH) == {
        ("dog", "noun"): "perro",
        ("bark", "verb"): "ladrar",
        ("bark", "noun"): "corteza",
        ("loud", "adjective"): "ruidoso",
        ("loudly", "adverb"): "alto",
    }


def test_only_forms_that_are_the_word_itself_are_translated():
    assert [*base_forms(ANALYSED)] == [
        "dog<n><sg>", "dog<vblex><inf>", "loud<adj><sint>", "run<vblex><inf>",
    ]  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    german, spanish = tmp_path / "ding", tmp_path / "spanish.txt"
    german.write_text(GERMAN)
    spanish.write_text(SPANISH)
    return german, spanish


def test_words_are_joined_on_spelling_and_part_of_speech(files: tuple[Path, Path]):
    found = import_dictionaries(*files)
    assert set(found.triples) == {Triple(*triple) for triple in TRIPLES}
    assert found.joined == {"noun": 2, "verb": 1, "adjective": 1, "adverb": 1}
    german, spanish = found.origins
    assert (german.package, german.version) == ("ding", "made up 1")
    assert german.sha256 == hashlib.sha256(files[0].read_bytes()).hexdigest()
    assert spanish.version == "unknown"


LT_PROC = """\
#!/bin/sh
# Stands in for lt-proc: analyses words, or with -b translates, from files beside the transducers.
[ "$1" = -b ] && shift
cat > /dev/null
cat "$1.says"
"""


@pytest.fixture
def apertium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder, programs = tmp_path / "apertium", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    program = programs / "lt-proc"
    program.write_text(LT_PROC)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    for name, says in (("automorf", ANALYSED), ("autobil", SPANISH)):
        (folder / f"eng-spa.{name}.bin").write_bytes(b"LTTB")
        (folder / f"eng-spa.{name}.bin.says").write_text(says)
    return folder


def test_transducers_are_asked_through_their_program(files: tuple[Path, Path], apertium: Path):
    assert set(import_dictionaries(files[0], apertium).triples) == {Triple(*t) for t in TRIPLES}
    (apertium / "eng-spa.automorf.bin.says").unlink()
    with pytest.raises(NoDictionary, match="lt-proc failed"):
        import_dictionaries(files[0], apertium)


def test_what_is_not_installed_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoDictionary) as caught:
        import_dictionaries(tmp_path / "nothing", tmp_path)
    told = str(caught.value)
    assert all(name in told for name in ("trans-de-en", "apertium-eng-spa", "lttoolbox"))
    assert "generated list" in told


# Commands


def test_dictionaries_are_imported_and_listed(
    invoke: Invoke, client: Client, files: tuple[Path, Path], tmp_path: Path
):
    options = ("--german", str(files[0]), "--spanish", str(files[1]))
    done = invoke("datasets", "import-dictionaries", "animals", *options, "-o", "json")
    assert done.exit_code == 0, done.output
    entry = json.loads(done.stdout)
    expected = word_list([Triple(*triple) for triple in TRIPLES])
    assert (entry["digest"], entry["triples"]) == (expected.digest, 4)
    assert [origin["package"] for origin in entry["sources"]] == ["ding", "spanish.txt"]
    assert "nouns 2, verbs 1" in done.stderr
    assert invoke("datasets", "list", "-o", "id").stdout.split() == ["animals", "generated"]
    assert "generated" in invoke("datasets", "list").stdout
    shown = json.loads(invoke("datasets", "show", "animals").stdout)
    assert shown["digest"] == expected.digest
    kept = client.datasets.download("animals", str(tmp_path / "words.jsonl"))
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == expected.digest


def test_a_dictionary_that_is_not_there_is_a_fault_of_usage(invoke: Invoke, tmp_path: Path):
    options = ("--german", str(tmp_path / "nothing"))
    done = invoke("datasets", "import-dictionaries", *options)
    assert done.exit_code == 2
    assert "trans-de-en" in done.stderr
    assert "generated list" in done.stderr
    missing = invoke("datasets", "show", "plants")
    assert missing.exit_code == 5


def test_a_file_that_is_no_text_is_a_fault_of_usage(invoke: Invoke, files: tuple[Path, Path]):
    files[0].write_bytes(b"\xff\xfe\x00")
    options = ("--german", str(files[0]), "--spanish", str(files[1]))
    done = invoke("datasets", "import-dictionaries", *options)
    assert done.exit_code == 2, done.output
