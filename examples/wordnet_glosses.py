"""Make a table of noun glosses of WordNet 3.0 with their categories, for classification.

    apt-get download wordnet-base && dpkg -x wordnet-base_*.deb wordnet
    python examples/wordnet_glosses.py wordnet/usr/share/wordnet/data.noun glosses.csv TOKENIZER...

A category is the file of WordNet's lexicographers that a noun is from, such as *animal*; the two
that hold a handful of nouns are left out. Of glosses with one category, 8,000 are taken in the
order of their SHA-256, and of these the ones with at most 32 tokens in every `tokenizer.json`.

With `--six` before the other arguments, the categories are animal, body, food, person, plant and
time, with the first 150 glosses of each that have at most 12 tokens.
"""

import csv
import hashlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer

CATEGORIES = {
    4: "act", 5: "animal", 6: "artifact", 7: "attribute", 8: "body", 9: "cognition",
    10: "communication", 11: "event", 12: "feeling", 13: "food", 14: "group", 15: "location",
    17: "object", 18: "person", 19: "phenomenon", 20: "plant", 21: "possession", 22: "process",
    23: "quantity", 24: "relation", 25: "shape", 26: "state", 27: "substance", 28: "time",
}  # fmt: skip
"""By the number of a lexicographer file: lexnames(5WN)."""
MOST_WORDS, MOST_TOKENS, GLOSSES = 24, 32, 8_000
SIX = ("animal", "body", "food", "person", "plant", "time")
MOST_OF_SIX, EACH_OF_SIX = 12, 150


def main(nouns: Path, table: Path, tokenizers: list[Path], *, six: bool = False) -> None:
    """Write the table."""
    categories: dict[str, set[str]] = {}
    for gloss, category in read(nouns):
        categories.setdefault(gloss, set()).add(category)
    rows = [(gloss, *found) for gloss, found in categories.items() if len(found) == 1]
    rows.sort(key=lambda row: hashlib.sha256(row[0].encode()).digest())
    readers = [Tokenizer.from_file(str(path)) for path in tokenizers]
    for reader in readers:
        reader.no_truncation()
        reader.no_padding()
    with table.open("w", newline="", encoding="utf-8") as written:
        writer = csv.writer(written)
        writer.writerow(("text", "label"))
        most = MOST_OF_SIX if six else MOST_TOKENS
        chosen = [row for row in rows if row[1] in SIX] if six else rows[:GLOSSES]
        counts: Counter[str] = Counter()
        for row in chosen:
            if any(len(reader.encode(row[0]).ids) > most for reader in readers):
                continue
            counts[row[1]] += 1
            if not six or counts[row[1]] <= EACH_OF_SIX:
                writer.writerow(row)


def read(nouns: Path) -> Iterator[tuple[str, str]]:
    """Yield short glosses without their examples, and their categories: wndb(5WN)."""
    with nouns.open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(" "):  # the licence
                continue
            data, gloss = line.split(" | ", 1)
            number, text = int(data.split()[1]), gloss.split('; "')[0].strip()
            if number in CATEGORIES and text and len(text.split()) <= MOST_WORDS:
                yield text, CATEGORIES[number]


if __name__ == "__main__":
    named = [Path(path) for path in sys.argv[1:] if path != "--six"]
    main(named[0], named[1], named[2:], six="--six" in sys.argv)
