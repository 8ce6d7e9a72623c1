"""The generated list of words, the same in every installation.

Its English-like, German-like and Spanish-like words consist of syllables typical of each language
and are unrelated, except for a few cognates. Mean lengths are 7.3, 8.0 and 7.6 characters; the
longest words have 22, 19 and 14. These figures, the number of words and the share of capital
letters are close to those of the paper's list (Petrov, Torr, Bibi, ICLR 2024, appendix C).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from adaptlab.plugins.dataset import Triple, WordList, word_list

NAME = "generated"
COUNT = 4921
WORD = 2**64
KINSHIPS = 64
"""One word in about this many is the same in Spanish as in English, and another one in German."""


@dataclass(frozen=True)
class _Style:
    """The parts and lengths of a language's words.

    A word has `shortest` characters, plus the heads in `coins` coin tosses, plus up to `tail` more
    for one word in `rare`. If `is_capitalised`, one word in `common` begins with a small letter.
    """

    onsets: Sequence[str]
    nuclei: Sequence[str]
    codas: Sequence[str]
    endings: Sequence[str]
    shortest: int
    coins: int
    rare: int
    tail: int
    is_capitalised: bool = False
    common: int = 4


def _parts(text: str) -> tuple[str, ...]:
    """Return the parts between spaces; an underscore is an empty part."""
    return tuple(part.replace("_", "") for part in text.split())


ENGLISH = _Style(
    onsets=_parts(
        "b c d f g h j k l m n p qu r s t v w br cl cr dr fl gr pl pr sh sp st str th tr wh"
    ),
    nuclei=_parts("a e i o u a e i o ai ea ee oo ou oa y"),
    codas=_parts("_ _ n r t l s ck nd ng mp st sh rt x ll"),
    endings=_parts("_ _ _ er ing ness ly tion ful le ment"),
    shortest=3,
    coins=7,
    rare=10,
    tail=12,
)
GERMAN = _Style(
    onsets=_parts(
        "b d f g h j k l m n p r s t w z bl br dr fl gl kn kr pf pfl sch schl schw sp st tr zw"
    ),
    nuclei=_parts("a e i o u e i au ei ie eu ä ö ü äu"),
    codas=_parts("_ _ n r l ch cht ck ft rn st tz ß nk mm"),
    endings=_parts("_ _ _ en er ung keit heit lich chen schaft el"),
    shortest=3,
    coins=8,
    rare=5,
    tail=9,
    is_capitalised=True,
)
SPANISH = _Style(
    onsets=_parts("b c d f g j l ll m n p qu r rr s t v z br cl cr fr gr pl pr tr ch ñ"),
    nuclei=_parts("a e o a e o i u ia ie ue á é í ó"),
    codas=_parts("_ _ _ _ n s r l m"),
    endings=_parts("o a o a ar ción dad ero ista ez ante"),
    shortest=3,
    coins=9,
    rare=20,
    tail=4,
)


@lru_cache(maxsize=1)  # a pure function that takes a tenth of a second
def generated_words() -> WordList:
    """Return the generated list."""
    english: dict[str, None] = {}
    for number in range(WORD):
        english.setdefault(_word(ENGLISH, 0, number))
        if len(english) == COUNT:
            break
    return word_list(_triple(word, place) for place, word in enumerate(english))


def _triple(english: str, place: int) -> Triple:
    german, spanish = _word(GERMAN, 1, place), _word(SPANISH, 2, place)
    kin = next(_draws(3, place)) % KINSHIPS
    if kin == 0:
        german = english[: GERMAN.shortest + GERMAN.coins].capitalize()
    elif kin == 1:
        spanish = english[: SPANISH.shortest + SPANISH.coins]
    return Triple(english, german, spanish)


def _word(style: _Style, language: int, place: int) -> str:
    """Return the word of a language at a place of the list."""
    draws = _draws(language, place)
    length = style.shortest + (next(draws) % 2**style.coins).bit_count()
    if next(draws) % style.rare == 0:
        length += 1 + next(draws) % style.tail
    ending = _one_of(style.endings, draws)
    if len(ending) >= length - 1:
        ending = ""
    stem = ""
    while len(stem) + len(ending) < length:
        for part in (style.onsets, style.nuclei, style.codas):
            stem += _one_of(part, draws)
    word = stem[: length - len(ending)] + ending
    is_capital = style.is_capitalised and next(draws) % style.common > 0
    return word[0].upper() + word[1:] if is_capital else word


def _one_of(parts: Sequence[str], draws: Iterator[int]) -> str:
    return parts[next(draws) % len(parts)]


def _draws(*counters: int) -> Iterator[int]:
    """Yield pseudorandom integers determined by the counters.

    The generator is SplitMix64 (Steele, Lea, Flood 2014).
    """
    state = 0
    for counter in counters:
        state = _mixed(state ^ counter)
    while True:
        state = (state + 0x9E3779B97F4A7C15) % WORD
        yield _mixed(state) >> 20


def _mixed(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) % WORD
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % WORD
    return value ^ (value >> 31)
