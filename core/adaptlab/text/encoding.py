"""Prompts and answers as tokens, encoded together.

A tokeniser may join the end of a prompt and the start of an answer, so both are encoded as one text
and the answer begins with the first token that ends behind the prompt. Encoded apart, the tokens
are those of another text, which the model has rarely seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from adaptlab.text.chat import RenderedChat
from adaptlab.text.template import Rendered
from adaptlab.text.tokeniser import TokenisedText, Tokeniser

Keep = Literal["start", "end"]


NO_END = "The tokeniser has no token that ends a text, by which no answer is given."
"""The error of an empty answer, without a token of its own."""


class LeavesNothing(ValueError):
    """A prompt or an answer without a token of its own."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """The tokens of a prompt and of an answer.

    `joins` if the first token of the answer also covers characters of the prompt.
    """

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    joins: bool = False

    @property
    def length(self) -> int:
        """The number of tokens."""
        return len(self.prompt) + len(self.answer)


def encoded(tokeniser: Tokeniser, prompt: str, answer: str, *, ends: bool) -> Encoded:
    """Return the tokens of a prompt and its answer.

    Spaces at the end of the prompt are encoded with the answer, as in the text that a model reads.

    Args:
        tokeniser: the model's.
        prompt: the text that the model reads.
        answer: the text that follows it; if it is empty, the end token is the answer.
        ends: whether a token that ends a text follows the answer, if the tokeniser has one.

    Raises:
        LeavesNothing: the prompt or the answer has no token of its own.
    """
    tokens = tokeniser.tokens(prompt + answer)
    end = (tokeniser.end,) if ends and tokeniser.end is not None else ()
    if not answer and not end:
        raise LeavesNothing(NO_END)
    start, joins = _start_of_answer(tokens, prompt, may_be_empty=not answer)
    return Encoded(tokens.ids[:start], (*tokens.ids[start:], *end), joins)


def encoded_request(tokeniser: Tokeniser, context: str, continuation: str) -> Encoded:
    """Return the tokens of a context and of the continuation to score.

    As in lm-eval (`TemplateLM._encode_pair`), spaces at the end of the context are encoded with the
    continuation, both are encoded together, and the continuation begins behind as many tokens as
    the context alone has. An empty context is the token that begins texts, even where none is
    written, or else the one that ends them.

    Raises:
        LeavesNothing: the context or the continuation has no token of its own.
    """
    asked = context.rstrip()
    if not context:
        return _from_nothing(tokeniser, continuation)
    prompt = _ids(tokeniser, asked)
    answer = _ids(tokeniser, context + continuation)[len(prompt) :]
    if not prompt:
        raise LeavesNothing("No token of the context comes before the answer.")
    if not answer:
        raise LeavesNothing("The answer has no token of its own.")
    return Encoded(prompt, answer)


def encoded_prompt(tokeniser: Tokeniser, context: str, answer: str) -> Encoded:
    """Return the tokens of a context and of a text that could follow.

    As in lm-eval, the context is encoded alone, with the spaces at its end.

    Raises:
        LeavesNothing: the context has no token.
    """
    if not (prompt := _ids(tokeniser, context)):
        raise LeavesNothing("The context has no token.")
    both = _ids(tokeniser, context + answer)
    # Where both are encoded in another way, what follows is no more than a guess.
    return Encoded(prompt, both[len(prompt) :] or prompt[-1:])


def encoded_windows(tokeniser: Tokeniser, text: str, longest: int) -> Iterator[Encoded]:
    """Yield a text as the windows in which lm-eval reads it.

    They are those of `get_rolling_token_windows` with a context of one token, made disjoint: the
    first follows the token that begins texts, and every token is scored once. The last window has
    as much context as fits into `longest` tokens.

    Raises:
        LeavesNothing: the text has no token, or no token begins texts.
    """
    ids, first = tokeniser.whole(text), _beginning(tokeniser)
    if first is None or not ids:
        raise LeavesNothing("The text has no token, or the tokeniser has none to begin with.")
    read = longest - 1
    yield Encoded((first,), ids[:read])
    for start in range(read, len(ids), read):
        answer = ids[start : start + read]
        asked = start + len(answer) - longest
        yield Encoded(ids[asked:start], answer)


@lru_cache(maxsize=2)  # the choices of an item share its context
def _ids(tokeniser: Tokeniser, text: str) -> tuple[int, ...]:
    """Return the tokens of a text, without those that end every text."""
    ids = tokeniser.whole(text)
    return ids[: len(ids) - _closing(tokeniser)]


@lru_cache(maxsize=4)
def _closing(tokeniser: Tokeniser) -> int:
    return len(closing(tokeniser))


def _from_nothing(tokeniser: Tokeniser, continuation: str) -> Encoded:
    """Return a continuation behind the token that begins or ends texts."""
    ids = tokeniser.marked(continuation).ids
    first = _beginning(tokeniser)
    answer = ids[1:] if ids[:1] == (first,) else ids
    if first is None or not answer:
        raise LeavesNothing("The context is empty, and the tokeniser has no token to begin with.")
    return Encoded((first,), answer)


def _beginning(tokeniser: Tokeniser) -> int | None:
    """Return the token before a text without context, written or not."""
    written = tokeniser.tokens("a").ids[0] if begun(tokeniser) else tokeniser.end
    return written if tokeniser.begin is None else tokeniser.begin


def encoded_turn(tokeniser: Tokeniser, turn: RenderedChat) -> Encoded:
    """Return the tokens of a conversation, with the last turn as the answer.

    The answer ends with the first special token that the template writes after it. If there is
    none, it ends with the token that ends a text, or else with what the template writes.

    Raises:
        LeavesNothing: the earlier turns or the answer have no token of their own.
    """
    tokens = tokeniser.marked(turn.text)
    start, joins = _start_of_answer(tokens, turn.prompt)
    behind = [place for place, end in enumerate(tokens.ends) if end > turn.answer_end]
    marks = (place for place in behind if tokeniser.is_special(tokens.ids[place]))
    if (mark := next(marks, None)) is not None:
        answer = tokens.ids[start : mark + 1]
    elif tokeniser.end is not None:
        # A token that covers the end of what is said and what follows it stays.
        own = [place for place, first in enumerate(tokens.starts) if first < turn.answer_end]
        answer = (*tokens.ids[start : own[-1] + 1], tokeniser.end)
    else:
        answer = tokens.ids[start:]
    return Encoded(tokens.ids[:start], answer, joins)


def _start_of_answer(
    tokens: TokenisedText, prompt: str, *, may_be_empty: bool = False
) -> tuple[int, bool]:
    """Return the first token of an answer, and whether it joins the prompt."""
    asked, count = len(prompt.rstrip(" ")), len(tokens.ids)
    start = next((place for place, end in enumerate(tokens.ends) if end > asked), count)
    joins = start < count and tokens.starts[start] < asked
    if start == 0:
        raise LeavesNothing("No token of the prompt comes before the answer.")
    if start + joins == count and not may_be_empty:
        raise LeavesNothing("The answer has no token of its own.")
    return start, joins


def begun(tokeniser: Tokeniser) -> int:
    """Return the number of tokens that begin every text and stand for none."""
    ends = tokeniser.tokens("a").ends
    return next((place for place, end in enumerate(ends) if end > 0), len(ends))


def closing(tokeniser: Tokeniser) -> tuple[int, ...]:
    """Return the tokens that end every text and stand for none."""
    return tokeniser.whole("a")[len(tokeniser.tokens("a").ids) :]


def separating(tokeniser: Tokeniser, separator: str) -> tuple[int, ...]:
    """Return the tokens of a separator as they follow a text."""
    tokens = tokeniser.tokens("a" + separator)
    pairs = zip(tokens.ids, tokens.ends, strict=True)
    return tuple(token for token, end in pairs if end > 1)


def text_alone(tokeniser: Tokeniser, text: str) -> Encoded:
    """Return the tokens of a text that no answer follows.

    Raises:
        LeavesNothing: it has none.
    """
    if not (tokens := tokeniser.whole(text)):
        raise LeavesNothing("The prompt has no token.")
    return Encoded(tokens, ())


def cut(tokeniser: Tokeniser, prompt: Rendered, field: str, keep: Keep, excess: int) -> str | None:
    """Return the value of a field without about `excess` tokens of the prompt.

    The start or the end of the value is kept. The result is None if nothing is left to cut.
    """
    span = prompt.spans[field]
    tokens = tokeniser.tokens(prompt.text)
    inside = [
        place
        for place, (start, end) in enumerate(zip(tokens.starts, tokens.ends, strict=True))
        if span.start <= start and start < end <= span.stop
    ]
    if not inside or span.start == span.stop:
        return None
    removed = min(excess, len(inside))
    if keep == "start":
        return prompt.text[span.start : tokens.starts[inside[-removed]]]
    return prompt.text[tokens.ends[inside[removed - 1]] : span.stop]
