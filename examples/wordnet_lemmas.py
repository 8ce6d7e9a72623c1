"""Make a table of irregular word forms of WordNet 3.0 with their base forms, for completion.

    apt-get download wordnet-base && dpkg -x wordnet-base_*.deb wordnet
    python examples/wordnet_lemmas.py wordnet/usr/share/wordnet lemmas.csv

The forms are the exceptions to WordNet's rules for nouns and verbs, such as *mice* or *sought*.
Forms of several words, and those with several base forms, are left out. They are in the order of
their SHA-256. A base form starts with a space, as after a prompt.
"""

import csv
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

EXCEPTIONS = ("noun.exc", "verb.exc")


def main(wordnet: Path, table: Path) -> None:
    """Write the table."""
    lemmas: dict[str, set[str]] = {}
    for form, lemma in read(wordnet):
        lemmas.setdefault(form, set()).add(lemma)
    rows = [(form, *found) for form, found in lemmas.items() if len(found) == 1]
    rows.sort(key=lambda row: hashlib.sha256(row[0].encode()).digest())
    with table.open("w", newline="", encoding="utf-8") as written:
        writer = csv.writer(written)
        writer.writerow(("form", "lemma"))
        writer.writerows((form, f" {lemma}") for form, lemma in rows)


def read(wordnet: Path) -> Iterator[tuple[str, str]]:
    """Yield forms of one word with their base forms: morph(7WN)."""
    for name in EXCEPTIONS:
        for line in (wordnet / name).read_text(encoding="utf-8").splitlines():
            form, *lemmas = line.split()
            if len(lemmas) == 1 and not {"_", "-"} & set(line):
                yield form, lemmas[0]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
