"""Word triples from dictionary packages that are installed: read here, none of them shipped.

German comes from a dictionary in the format of Ding (`German :: English`, with `|` between parallel
entries, `;` between synonyms and tags such as `{f}`), Spanish from the transducers of Apertium,
through its program `lt-proc`, which says the part of speech with every word. The two are joined on
the English word and its part of speech, which keeps a noun from meeting a verb.
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
"""Which of two words of one spelling is kept: an English word has one translation in a dataset."""

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
    """A dictionary that is not here; says what to install."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Which package, or file, words were taken from; `sha256` is of the file."""

    package: str
    version: str
    licence: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Imported:
    """The triples that dictionaries share, one an English word, and how many keys they share."""

    triples: tuple[Triple, ...]
    joined: Mapping[PartOfSpeech, int]
    origins: tuple[Origin, ...]


def import_dictionaries(german: Path | None = None, spanish: Path | None = None) -> Imported:
    """The triples of the installed dictionaries, or of the ones given; raises `NoDictionary`.

    `german` is a file in Ding's format, `spanish` a folder with Apertium's transducers or a file
    of what `lt-proc -b` wrote.
    """
    ding, apertium = german or GERMAN_FILE, spanish or SPANISH_FOLDER
    _check_there(ding, apertium)
    found = german_words(ding.read_text(encoding="utf-8").splitlines())
    if apertium.is_file():
        other, read = spanish_words(apertium.read_text(encoding="utf-8")), apertium
    else:
        other, read = (
            _from_transducers(apertium, {word for word, _ in found}),
            apertium / TRANSLATIONS,
        )
    shared = sorted(found.keys() & other.keys(), key=lambda key: (key[0], PREFERENCE[key[1]]))
    counts: dict[PartOfSpeech, int] = {
        part: sum(key[1] == part for key in shared) for part in PREFERENCE
    }
    triples: dict[str, Triple] = {}
    for key in shared:
        made = _triple(key[0], found[key], other[key])
        if made is not None:
            triples.setdefault(key[0], made)
    origins = (_origin(GERMAN_PACKAGE, german, ding), _origin(SPANISH_PACKAGE, spanish, read))
    return Imported(tuple(triples.values())[:MOST_TRIPLES], counts, origins)


def german_words(lines: Iterable[str]) -> dict[Key, str]:
    """The German word for English ones with their part of speech, of lines in Ding's format.

    Of several the one that stands beside the English word in most lines, examples among them; then
    the one nearest to the beginning of its synonyms, then the one that comes first.
    """
    entries = [line.split("::", 1) for line in lines if "::" in line and not line.startswith("#")]
    choices: dict[Key, dict[str, int]] = {}
    for german, english in entries:
        for left, right in zip(german.split("|"), english.split("|"), strict=False):
            for place, key, word in _pairs(left, right):
                known = choices.setdefault(key, {})
                known[word] = min(place, known.get(word, place))
    together = _together(entries, choices)
    return {
        key: min(words, key=lambda word: (-together[key[0], word], words[word]))
        for key, words in choices.items()
    }


def _together(
    entries: Iterable[Sequence[str]], choices: Mapping[Key, Collection[str]]
) -> Counter[tuple[str, str]]:
    """In how many lines each English word stands beside each of the German words for it."""
    wanted: dict[str, set[str]] = {}
    for (said, _), words in choices.items():
        wanted.setdefault(said, set()).update(words)
    counts = Counter[tuple[str, str]]()
    for german, english in entries:
        there = set(_LETTERS.findall(german))
        for said in wanted.keys() & set(_LETTERS.findall(english)):
            counts.update((said, word) for word in wanted[said] & there)
    return counts


def spanish_words(text: str) -> dict[Key, str]:
    """The first Spanish word for English ones with their part of speech, as `lt-proc -b` tells."""
    found: dict[Key, str] = {}
    for english, others in _READING.findall(text):
        asked, first = _FORM.fullmatch(english), _FORM.match(others)
        if asked is None or first is None or asked[2] != first[2] or asked[2] not in _OF_SPANISH:
            continue
        word = first[1].strip()
        if _ENGLISH.fullmatch(asked[1]) and _ONE_WORD.fullmatch(word):
            found.setdefault((asked[1], _OF_SPANISH[asked[2]]), word)
    return found


def base_forms(text: str) -> Iterator[str]:
    """Of analyses that `lt-proc` wrote those that leave the word as it is, each once."""
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
    """How far from the beginning, which English word, and the German one, of one entry."""
    shared = _part_of_speech(german)
    for first, left in enumerate(german.split(";")):
        # What is no noun has its tag once for all synonyms; nouns have genders of their own.
        part = _part_of_speech(left) or (shared if shared != "noun" else None)
        word = " ".join(_ASIDE.sub(" ", left).split())
        if part is None or "pl" in _tags(left) or not _ONE_WORD.fullmatch(word):
            continue
        for second, right in enumerate(english.split(";")):
            said = " ".join(_ASIDE.sub(" ", right).split())
            if part == "verb":
                said = said.removeprefix("to ") if said.startswith("to ") else ""
            if _ENGLISH.fullmatch(said) and word[0].isupper() == (part == "noun"):
                yield first + second, (said, part), word


def _part_of_speech(entry: str) -> PartOfSpeech | None:
    return next((_OF_GERMAN[tag] for tag in _tags(entry) if tag in _OF_GERMAN), None)


def _tags(entry: str) -> list[str]:
    """What stands in braces: `{m,f}` is two tags."""
    return [tag.strip() for group in _TAG.findall(entry) for tag in re.split(r"[,;/ ]", group)]


def _triple(english: str, german: str, spanish: str) -> Triple | None:
    """The triple, if a dataset may hold it."""
    try:
        return _WORD.validate_python((english, german, spanish))
    except ValidationError:
        return None


def _from_transducers(folder: Path, words: Collection[str]) -> dict[Key, str]:
    """The Spanish words for English ones; all in two runs of `lt-proc`."""
    analysed = _run([str(folder / ANALYSES)], "\n".join(sorted(words)))
    asked = "\n".join(f"^{form}$" for form in base_forms(analysed))
    return spanish_words(_run(["-b", str(folder / TRANSLATIONS)], asked))


def _run(arguments: list[str], text: str) -> str:
    program = shutil.which(PROGRAM)
    assert program is not None, "looked for before anything was read"
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


def _check_there(german: Path, spanish: Path) -> None:
    """Say everything that is missing at once."""
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
            f"Not here: {'; '.join(missing)}. Install what is missing and try again; until then "
            "the task word_translation asks the generated list."
        )


def _origin(package: str, given: Path | None, read: Path) -> Origin:
    content = read.read_bytes()
    version = _installed_version(package) if given is None else _written_version(content)
    named = package if given is None else given.name[:128]
    return Origin(named, version, LICENCE, hashlib.sha256(content).hexdigest())


def _installed_version(package: str) -> str:
    """What the package manager says, where there is one that knows."""
    if (program := shutil.which("dpkg-query")) is None:
        return "unknown"
    asked = [program, "-W", "-f", "${Version}", package]
    done = subprocess.run(asked, capture_output=True, encoding="utf-8", check=False)
    return done.stdout.strip()[:128] or "unknown"


def _written_version(content: bytes) -> str:
    """What a dictionary's first line says."""
    found = re.match(rb"#\s*Version\s*::\s*([^\r\n]{1,128})", content)
    return found[1].decode("utf-8", "replace").strip() if found else "unknown"
