"""The rendered items of a standard task as tokens of its base model."""

from collections import Counter
from collections.abc import Iterable, Iterator

from adaptlab.errors import BadDataset, InvalidSpec, Problem
from adaptlab.plugins.corpus_arrays import Corpus, RequestArrays
from adaptlab.plugins.text_task import TextTask
from adaptlab.records.content import read_content
from adaptlab.records.record import Record
from adaptlab.records.rendered_items import SPLIT, RenderedItem, item_of
from adaptlab.records.text_units import TEXT_UNITS
from adaptlab.text.encoding import (
    Encoded,
    LeavesNothing,
    encoded_prompt,
    encoded_request,
    encoded_windows,
)
from adaptlab.text.splitting import EVERY_SPLIT


class RequestReader:
    """Reads items of rendered requests.

    The likelihoods of an item's answers are compared, each behind its own context, an answer is
    generated and compared as a text with those that are right, or the likelihoods of a text's
    windows are summed.
    """

    def __init__(self, task: TextTask) -> None:
        self._task, self._source = task, task.source()
        self._compares, self._judge = bool(task.listed_answers()), task.answer_judge()
        has_requests = self._compares or task.reads_windows()
        self._corpus = Corpus(requests=RequestArrays() if has_requests else None)
        if self._judge is not None:
            self._corpus.end = self._source.tokeniser.end
            self._corpus.stops = tuple(self._stops(self._judge.generation.until))
        self._faults: Counter[str] = Counter()
        self._examples: dict[str, int] = {}
        self._longest = self._longest_answer = 0
        self._shared: tuple[tuple[int, ...], int] = (), 0

    def read(self) -> Corpus:
        """Return all items.

        Raises:
            InvalidSpec: an answer has no tokens or too many, or an item is too long.
            BadDataset: the content is not that of rendered items.
        """
        with self._source.content.open("rb") as file:
            corpus = self.sampled(read_content(file, self._source.digest))
        if len(corpus.asked) != self._task.available(SPLIT):
            raise BadDataset(
                f"{self._task.reference_to_records().name!r} has {len(corpus.asked):,} items here, "
                f"not {self._task.available(SPLIT):,} as on the server. Use the same version of "
                "the code."
            )
        return corpus

    def sampled(self, records: Iterable[Record]) -> Corpus:
        """Return some items; raises as `read` does."""
        for number, record in enumerate(records):
            try:
                item = item_of(record)
                self._added(number, item)
            except LeavesNothing as error:
                self._note(str(error), number)
            except ValueError as error:
                raise BadDataset(f"Line {number + 1:,} of the dataset: {error}") from error
        if self._faults:
            raise InvalidSpec(*map(self._problem, self._faults))
        return self._corpus

    def _added(self, number: int, item: RenderedItem) -> None:
        """Add an item by what is done with it."""
        if self._task.reads_windows():
            self._add_text(number, item)
        elif self._judge is None:
            self._add(number, item)
        else:
            self._add_generated(number, item)

    def _add_text(self, number: int, item: RenderedItem) -> None:
        """Add a text, with its first window as the answer to its beginning."""
        corpus, limits = self._corpus, self._task.tokens
        assert corpus.requests is not None
        windows = encoded_windows(
            self._source.tokeniser, item.continuations[item.gold], limits.longest
        )
        first, *further = windows
        self._keep(first)
        for one in further:
            self._add_request(corpus.requests, one, 0, 1)
        corpus.requests.counts.append(len(further))
        for unit in TEXT_UNITS:
            corpus.answer_sizes[unit].append(item.sizes[unit])
        tokens = len(first.answer) + sum(len(one.answer) for one in further)
        self._longest = max(self._longest, tokens + 1)
        if further and limits.if_longer == "refuse":
            self._note("long", number)

    def _add(self, number: int, item: RenderedItem) -> None:
        """Add an item, which has its right answer as the one to continue with."""
        corpus, requests = self._corpus, self._corpus.requests
        pairs = list(zip(item.contexts, item.continuations, strict=True))
        encoded = {pair: self._fitted(number, *pair) for pair in dict.fromkeys(pairs)}
        self._keep(encoded[pairs[item.gold]])
        if requests is None:
            return
        corpus.labels.append(item.gold)
        # Of two equal choices, only the first can be given, as in lm-eval.
        for pair, one in encoded.items():
            place = pairs.index(pair)
            self._add_request(requests, one, place, self._task.size_of(item.choices[place]))
        requests.counts.append(len(encoded))

    def _keep(self, right: Encoded) -> None:
        corpus = self._corpus
        corpus.tokens.extend((*right.prompt, *right.answer))
        corpus.lengths.append(right.length)
        corpus.asked.append(len(right.prompt))
        corpus.splits.append(EVERY_SPLIT.index(SPLIT))

    def _add_generated(self, number: int, item: RenderedItem) -> None:
        """Add an item whose answer is generated, with a right one as its draft.

        As in lm-eval, the context keeps its spaces and leaves room for the longest answer.
        """
        limits, most = self._task.tokens, self._task.answer_tokens()
        one = encoded_prompt(self._source.tokeniser, item.contexts[0], item.continuations[0])
        asked, kept = one.prompt, limits.longest - most
        self._longest = max(self._longest, len(asked) + most)
        if len(asked) > kept and limits.if_longer == "refuse":
            self._note("long", number)
        elif len(asked) > kept:
            self._corpus.cut += 1
            asked = asked[-kept:]
        self._keep(Encoded(asked, one.answer[:most]))
        self._corpus.targets.append(item.choices)

    def _stops(self, until: Iterable[str]) -> Iterator[int]:
        """Yield the special tokens that are stop sequences: they have no text."""
        tokeniser = self._source.tokeniser
        for text in until:
            ids = tokeniser.marked(text).ids
            if len(ids) == 1 and tokeniser.is_special(ids[0]):
                yield ids[0]

    def _add_request(self, requests: RequestArrays, one: Encoded, place: int, size: int) -> None:
        prompt, start = self._shared
        if one.prompt != prompt or not requests.prompts:
            start = len(requests.prompts)
            requests.prompts.extend(one.prompt)
            self._shared = one.prompt, start
        requests.starts.append(start)
        requests.asked.append(len(one.prompt))
        requests.answers.extend(one.answer)
        requests.answered.append(len(one.answer))
        requests.places.append(place)
        requests.sizes.append(size)

    def _fitted(self, number: int, context: str, continuation: str) -> Encoded:
        """Return a request without the beginning of a context that is too long."""
        one = encoded_request(self._source.tokeniser, context, continuation)
        limits, answered = self._task.tokens, len(one.answer)
        self._longest = max(self._longest, one.length)
        self._longest_answer = max(self._longest_answer, answered)
        if answered > self._task.answer_tokens() or answered >= limits.longest:
            self._note("long_answer", number)
        elif one.length > limits.longest and limits.if_longer == "refuse":
            self._note("long", number)
        elif one.length > limits.longest:
            self._corpus.cut += 1
            return Encoded(one.prompt[answered - limits.longest :], one.answer)
        return one

    def _note(self, fault: str, number: int) -> None:
        self._faults[fault] += 1
        self._examples.setdefault(fault, number)

    def _problem(self, fault: str) -> Problem:
        limits, count = self._task.tokens, self._faults[fault]
        place = f"line {self._examples[fault] + 1:,} of the dataset is the first"
        if fault == "long":
            detail = (
                f"{count:,} requests have more than {limits.longest:,} tokens; {place}, and the "
                f"longest has {self._longest:,}. Raise `tokens.longest`, or let `tokens.if_longer` "
                "be cut."
            )
            return Problem(
                "/task/tokens/longest", "items_too_long", detail, nearest=(self._longest,)
            )
        if fault == "long_answer":
            detail = (
                f"{count:,} choices have more than {self._task.answer_tokens():,} tokens, or leave "
                f"no context in {limits.longest:,}; {place}, and the longest has "
                f"{self._longest_answer:,}. Raise `tokens.answer` or `tokens.longest`."
            )
            nearest = (self._longest_answer,)
            return Problem("/task/tokens/answer", "answers_too_long", detail, nearest=nearest)
        detail = f"{fault} This concerns {count:,} items; {place}. Use another base model."
        return Problem("/task/tasks", "no_own_tokens", detail)
