"""Checks of label words that a model fills in where it reads masks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from adaptlab.errors import Problem
from adaptlab.text.encoding import closing
from adaptlab.text.tokeniser import Tokeniser

MOST_NAMED = 8
"""Label words that a message names."""

Words = Mapping[str, tuple[int, ...]]
"""The tokens of label words."""


def counts(words: Words) -> str:
    """Return the first of some words with their numbers of tokens, as text."""
    return ", ".join(f"{word!r} ({len(words[word])})" for word in islice(words, MOST_NAMED))


@dataclass(frozen=True, slots=True)
class Filling:
    """The tokens behind a prompt whose label word is filled in.

    A word takes the place of as many masks as it has tokens, so that all of its tokens are
    predicted at once. `after` is the text that follows it.
    """

    tokeniser: Tokeniser
    mask: int
    after: str = ""

    def behind(self, word: tuple[int, ...]) -> tuple[int, ...]:
        """Return the masks of a word, the text after it, and what ends every text."""
        return (*(self.mask,) * len(word), *self._rest(), *closing(self.tokeniser))

    def _rest(self) -> tuple[int, ...]:
        """Return the tokens of the text after a mask, as it is written there."""
        if not self.tokeniser.is_special(self.mask):
            return ()
        return self.tokeniser.marked(self.tokeniser.word(self.mask) + self.after).ids[1:]

    def problems(self, empty_prompt: str, words: Words) -> Iterator[Problem]:
        """Yield the reasons why masks behind a prompt are not filled in by words.

        `empty_prompt` is the prompt with every field empty.
        """
        tokeniser, mask = self.tokeniser, self.mask
        if not tokeniser.is_special(mask):
            detail = (
                f"Token {mask} is the mask by the base model's config.json, and {self._name(mask)} "
                "in its tokenizer.json, which is not a special token. Correct mask_token_id, and "
                "import the model under another name."
            )
            yield Problem("/task", "no_mask", detail)
        elif mask in tokeniser.marked(empty_prompt).ids:
            detail = (
                f"The prompt contains the mask {self._name(mask)}. Leave it out: the masks of the "
                "label word follow the prompt."
            )
            yield Problem("/task/prompt", "mask_in_prompt", detail)
        if any(map(tokeniser.is_special, self._rest())):
            detail = (
                f"The base model reads a part of {self.after!r} as a special token, which stands "
                "for no text. Use other words; the tokens at both ends of a text are added."
            )
            yield Problem("/task/after", "special_after", detail)
        yield from self._problems_of_words(words)

    def _problems_of_words(self, words: Words) -> Iterator[Problem]:
        special = (
            (word, token)
            for word, tokens in words.items()
            for token in filter(self.tokeniser.is_special, tokens)
        )
        if (found := next(special, None)) is not None:
            word, token = found
            detail = (
                f"The base model reads the label word {word!r} as the special token "
                f"{self._name(token)}, which stands for no text. Choose another word."
            )
            yield Problem("/task/label/words", "special_word", detail)
        of_length = {len(tokens): word for word, tokens in words.items()}
        if len(of_length) > 1:
            differing_first = dict.fromkeys([*of_length.values(), *words])
            named = counts({word: words[word] for word in differing_first})
            detail = (
                f"Label words have different numbers of tokens: {named}. The model fills in a mask "
                "for each token, so the number of masks would give the answer away. Choose words "
                "with equally many tokens, best one each."
            )
            yield Problem("/task/label/words", "words_of_unequal_length", detail)

    def _name(self, token: int) -> str:
        return repr(self.tokeniser.word(token))
