"""Word triples from installed dictionary packages; none is shipped.

German words come from a dictionary in Ding's format: `German :: English`, with `|` between parallel
entries, `;` between synonyms, and tags such as `{f}`. Spanish words come from Apertium's
transducers, through its program `lt-proc`, with their part of speech. The two are joined on the
English word and its part of speech, so that a noun never meets a verb.
"""

import hashlib
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from adaptlab.plugins.dataset import MOST_TRIPLES, Triple

PartOfSpeech = Literal["noun", "verb", "adjective", "adverb"]
Key = tuple[str, PartOfSpeech]

GERMAN_PACKAGE = "trans-de-en"
GERMAN_FILE = Path("/usr/share/trans/de-en")
SPANISH_PACKAGE = "apertium-eng-spa"
SPANISH_FOLDER = Path("/usr/share/apertium/apertium-eng-spa")
PROGRAM, PROGRAM_PACKAGE = "lt-proc", "lttoolbox"
ANALYSES, TRANSLATIONS = "eng-spa.automorf.bin", "eng-spa.autobil.bin"
LICENCE = "GPL-2+"
SECONDS = 120

PREFERENCE: Mapping[PartOfSpeech, int] = {"noun": 0, "verb": 1, "adjective": 2, "adverb": 3}
"""Order of preference among homographs: a dataset has one triple per English word."""

_OF_GERMAN: Mapping[str, PartOfSpeech] = {
    "m": "noun", "f": "noun", "n": "noun", "adj": "adjective", "adv": "adverb",
    "v": "verb", "vt": "verb", "vi": "verb", "vr": "verb",
}  # fmt: skip
_OF_SPANISH: Mapping[str, PartOfSpeech] = {
    "n": "noun", "adj": "adjective", "adv": "adverb", "vblex": "verb",
}  # fmt: skip
_TAG = re.compile(r"\{([^}]*)\}")
_ASIDE = re.compile(r"\([^)]*\)|\[[^\]]*\]|\{[^}]*\}")
_ONE_WORD = re.compile(r"[^\W\d_]+(-[^\W\d_]+)*")
_LETTERS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_ENGLISH = re.compile(r"[a-z]+(-[a-z]+)*")
_READING = re.compile(r"\^([^/$^]+)/([^$^]*)\$")
_FORM = re.compile(r"([^<]+)<([a-z]+)>((?:<[a-z]+>)*)")
_BASE_FORMS: Mapping[PartOfSpeech, str] = {
    "noun": "<sg>",
    "verb": "<inf>",
    "adjective": "",
    "adverb": "",
}
_WORD: TypeAdapter[Triple] = TypeAdapter(Triple)


class NoDictionary(Exception):
    """A dictionary is missing or unreadable; the message names the package."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The package or file that words come from; `sha256` is the file's digest."""

    package: str
    version: str
    licence: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Imported:
    """Triples from two dictionaries, one per English word.

    `joined` counts the keys that both dictionaries have, by part of speech.
    """

    triples: tuple[Triple, ...]
    joined: Mapping[PartOfSpeech, int]
    origins: tuple[Origin, ...]


def import_dictionaries(german: Path | None = None, spanish: Path | None = None) -> Imported:
    """Return the triples of two dictionaries, by default the installed ones.

    `german` is a file in Ding's format, `spanish` a folder with Apertium's transducers or a file
    with the output of `lt-proc -b`. Raises `NoDictionary`.
    """
    ding, apertium = german or GERMAN_FILE, spanish or SPANISH_FOLDER
    _check_installed(ding, apertium)
    german_by_key = german_words(ding.read_text(encoding="utf-8").splitlines())
    if apertium.is_file():
        spanish_by_key, source = spanish_words(apertium.read_text(encoding="utf-8")), apertium
    else:
        english = {word for word, _ in german_by_key}
        spanish_by_key = _from_transducers(apertium, english)
        source = apertium / TRANSLATIONS
    shared = sorted(
        german_by_key.keys() & spanish_by_key.keys(),
        key=lambda key: (key[0], PREFERENCE[key[1]]),
    )
    counts: dict[PartOfSpeech, int] = {
        part: sum(key[1] == part for key in shared) for part in PREFERENCE
    }
    triples: dict[str, Triple] = {}
    for key in shared:
        triple = _triple(key[0], german_by_key[key], spanish_by_key[key])
        if triple is not None:
            triples.setdefault(key[0], triple)
    origins = (_origin(GERMAN_PACKAGE, german, ding), _origin(SPANISH_PACKAGE, spanish, source))
    return Imported(tuple(triples.values())[:MOST_TRIPLES], counts, origins)


def german_words(lines: Iterable[str]) -> dict[Key, str]:
    """Return the German word for each English word and part of speech.

    The lines are in Ding's format. If there are several words, the one in most lines with the
    English word is chosen, examples included. Ties go to the word nearest to the beginning of its
    synonyms, then to the first.
    """
    entries = [line.split("::", 1) for line in lines if "::" in line and not line.startswith("#")]
    choices: dict[Key, dict[str, int]] = {}
    for german, english in entries:
        for left, right in zip(german.split("|"), english.split("|"), strict=False):
            for place, key, word in _pairs(left, right):
                places = choices.setdefault(key, {})
                places[word] = min(place, places.get(word, place))
    together = _together(entries, choices)
    return {
        key: min(words, key=lambda word: (-together[key[0], word], words[word]))
        for key, words in choices.items()
    }


def _together(
    entries: Iterable[Sequence[str]], choices: Mapping[Key, Collection[str]]
) -> Counter[tuple[str, str]]:
    """Count the lines in which an English word has each of its German words."""
    candidates: dict[str, set[str]] = {}
    for (english_word, _), words in choices.items():
        candidates.setdefault(english_word, set()).update(words)
    counts = Counter[tuple[str, str]]()
    for german, english in entries:
        german_in_line = set(_LETTERS.findall(german))
        for english_word in candidates.keys() & set(_LETTERS.findall(english)):
            counts.update(
                (english_word, word) for word in candidates[english_word] & german_in_line
            )
    return counts


def spanish_words(text: str) -> dict[Key, str]:
    """Return the first Spanish word for each English word and part of speech.

    `text` is the output of `lt-proc -b`.
    """
    words: dict[Key, str] = {}
    for english, others in _READING.findall(text):
        form, first = _FORM.fullmatch(english), _FORM.match(others)
        if form is None or first is None or form[2] != first[2] or form[2] not in _OF_SPANISH:
            continue
        word = first[1].strip()
        if _ENGLISH.fullmatch(form[1]) and _ONE_WORD.fullmatch(word):
            words.setdefault((form[1], _OF_SPANISH[form[2]]), word)
    return words


def base_forms(text: str) -> Iterator[str]:
    """Yield the analyses of `lt-proc` in which a word is its own base form."""
    seen: set[str] = set()
    for surface, readings in _READING.findall(text):
        for reading in readings.split("/"):
            form = _FORM.fullmatch(reading)
            part = None if form is None else _OF_SPANISH.get(form[2])
            if form is None or part is None or form[1] != surface or reading in seen:
                continue
            if form[3].removeprefix("<sint>") == _BASE_FORMS[part]:
                seen.add(reading)
                yield reading


def _pairs(german: str, english: str) -> Iterator[tuple[int, Key, str]]:
    """Yield rank, English key and German word of all pairs in an entry.

    The rank is the distance of both words from the beginning of their synonyms.
    """
    shared = _part_of_speech(german)
    for first, left in enumerate(german.split(";")):
        # Except for nouns, which have genders of their own, one tag covers all synonyms.
        part = _part_of_speech(left) or (shared if shared != "noun" else None)
        word = " ".join(_ASIDE.sub(" ", left).split())
        if part is None or "pl" in _tags(left) or not _ONE_WORD.fullmatch(word):
            continue
        for second, right in enumerate(english.split(";")):
            english_word = " ".join(_ASIDE.sub(" ", right).split())
            if part == "verb":
                is_infinitive = english_word.startswith("to ")
                english_word = english_word.removeprefix("to ") if is_infinitive else ""
            if _ENGLISH.fullmatch(english_word) and word[0].isupper() == (part == "noun"):
                yield first + second, (english_word, part), word


def _part_of_speech(entry: str) -> PartOfSpeech | None:
    return next((_OF_GERMAN[tag] for tag in _tags(entry) if tag in _OF_GERMAN), None)


def _tags(entry: str) -> list[str]:
    """Return the tags in braces; `{m,f}` is two tags."""
    return [tag.strip() for group in _TAG.findall(entry) for tag in re.split(r"[,;/ ]", group)]


def _triple(english: str, german: str, spanish: str) -> Triple | None:
    """Return the triple if it is valid in a dataset, else None."""
    try:
        return _WORD.validate_python((english, german, spanish))
    except ValidationError:
        return None


def _from_transducers(folder: Path, words: Collection[str]) -> dict[Key, str]:
    """Return the Spanish words for English ones, by two runs of `lt-proc`."""
    analyses = _run([str(folder / ANALYSES)], "\n".join(sorted(words)))
    forms = "\n".join(f"^{form}$" for form in base_forms(analyses))
    return spanish_words(_run(["-b", str(folder / TRANSLATIONS)], forms))


def _run(arguments: list[str], text: str) -> str:
    program = shutil.which(PROGRAM)
    assert program is not None, "checked by _check_installed"
    done = subprocess.run(
        [program, *arguments],
        input=f"{text}\n",
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise NoDictionary(f"{PROGRAM} failed: {done.stderr.strip()[:200] or done.returncode}")
    return done.stdout


def _check_installed(german: Path, spanish: Path) -> None:
    """Raise `NoDictionary` with everything that is missing."""
    missing: list[str] = []
    if not german.is_file():
        missing.append(f"the German dictionary {german} (package {GERMAN_PACKAGE}, or --german)")
    if not spanish.is_file():
        if not all((spanish / name).is_file() for name in (ANALYSES, TRANSLATIONS)):
            package = f"package {SPANISH_PACKAGE}, or --spanish"
            missing.append(f"the Spanish transducers in {spanish} ({package})")
        if shutil.which(PROGRAM) is None:
            missing.append(f"the program {PROGRAM} (package {PROGRAM_PACKAGE})")
    if missing:
        raise NoDictionary(
            f"Missing: {'; '.join(missing)}. Install it and try again. Until then, the task "
            "word_translation can use the generated list."
        )


def _origin(package: str, path: Path | None, source: Path) -> Origin:
    """Describe the file `source`, of a package unless `path` was given."""
    content = source.read_bytes()
    version = _installed_version(package) if path is None else _written_version(content)
    name = package if path is None else path.name[:128]
    return Origin(name, version, LICENCE, hashlib.sha256(content).hexdigest())


def _installed_version(package: str) -> str:
    """Return the version from dpkg, or "unknown" if it has none."""
    if (program := shutil.which("dpkg-query")) is None:
        return "unknown"
    command = [program, "-W", "-f", "${Version}", package]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    return done.stdout.strip()[:128] or "unknown"


def _written_version(content: bytes) -> str:
    """Return the version in a dictionary's first line, or "unknown"."""
    match = re.match(rb"#\s*Version\s*::\s*([^\r\n]{1,128})", content)
    return match[1].decode("utf-8", "replace").strip() if match else "unknown"
