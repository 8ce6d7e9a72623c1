"""The tokeniser of a model folder, by all the files that decide it.

`tokenizer.json` is the tokeniser. `tokenizer_config.json` can add tokens to it and change its
letters, as `transformers` does, and the token that ends a text is in one of three files.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from adaptlab.errors import BadModelFolder
from adaptlab.text.chat import CONFIG_FILE
from adaptlab.text.tokeniser import FILE, PublishedTokeniser, loaded
from adaptlab.wording import value_excerpt

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CONFIG = "config.json"
GENERATION = "generation_config.json"
TOKENISER_FILES = (CONFIG, FILE, CONFIG_FILE, GENERATION)
"""Files that decide how texts become tokens."""
LOWERING = ("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast")
"""Classes of the library that apply `do_lower_case` to a `tokenizer.json`."""
LOWERING_MODELS = ("bert", "distilbert")
"""Kinds of model with such a class, where `tokenizer_config.json` names none."""
END = "eos_token_id"
_NAMED = (
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
)  # fmt: skip


class _Added(BaseModel):
    """A token that `tokenizer_config.json` adds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    content: str
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool | None = None

    def token(self) -> Any:  # the library's
        from tokenizers import AddedToken

        normalised = not self.special if self.normalized is None else self.normalized
        return AddedToken(
            self.content,
            single_word=self.single_word,
            lstrip=self.lstrip,
            rstrip=self.rstrip,
            normalized=normalised,
            special=self.special,
        )


class _Config(BaseModel):
    """The members of `tokenizer_config.json` that decide tokens."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    tokenizer_class: str | None = None
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    added_tokens_decoder: dict[int, _Added] = {}
    bos_token: str | _Added | None = None
    eos_token: str | _Added | None = None
    unk_token: str | _Added | None = None
    sep_token: str | _Added | None = None
    pad_token: str | _Added | None = None
    cls_token: str | _Added | None = None
    mask_token: str | _Added | None = None

    def named(self) -> Iterator[_Added]:
        """Yield the special tokens that have a name."""
        for name in _NAMED:
            token: str | _Added | None = getattr(self, name)
            if isinstance(token, str):
                yield _Added(content=token, special=True)
            elif token is not None:
                yield token.model_copy(update={"special": True})


def folder_tokeniser(files: Mapping[str, bytes], vocabulary: int) -> PublishedTokeniser:
    """Return the tokeniser of a folder with `files`.

    The model has `vocabulary` tokens.

    Raises:
        BadModelFolder: a file cannot be read, the files contradict each other, or a token is not
            one of the model's.
    """
    config, model = _read(files), _object(files, CONFIG)
    tokeniser = loaded(_lowered(files[FILE], config, model))
    _add(tokeniser, config)
    end = _end(files, config, tokeniser, vocabulary)
    whole = tokeniser.to_str().encode()
    is_alone = whole == loaded(files[FILE]).to_str().encode()
    digest = hashlib.sha256(files[FILE] if is_alone else whole).hexdigest()
    published = PublishedTokeniser(digest, end, tokeniser, _begin(config, tokeniser))
    if published.vocabulary > vocabulary:
        raise BadModelFolder(
            f"The largest token of {FILE} is {published.vocabulary - 1:,}, and the model has "
            f"{vocabulary:,} tokens. Put the model's own tokeniser there."
        )
    return published


def stated_end(name: str, members: Mapping[str, object]) -> int | None:
    """Return the token that ends a text, by the members of a JSON file.

    It is the first of several.

    Raises:
        BadModelFolder: it is no number of a token.
    """
    value: object = members.get(END)
    several = cast("list[object]", value) if isinstance(value, list) else [value]
    first = next(iter(several), None)
    if first is not None and (not isinstance(first, int) or isinstance(first, bool)):
        raise BadModelFolder(
            f"{END} of {name} is {value_excerpt(first)}. It must be the number of a token, or a "
            "list of such numbers."
        )
    return first


def check_end(name: str, members: Mapping[str, object], vocabulary: int) -> int | None:
    """Return the token that ends a text if the model has it.

    Raises:
        BadModelFolder: it is below 0, or not below `vocabulary`.
    """
    end = stated_end(name, members)
    if end is not None and not 0 <= end < vocabulary:
        raise BadModelFolder(
            f"{END} of {name} is {end:,}, and the tokens of the model are 0 to {vocabulary - 1:,}. "
            f"Correct {name}, or remove {END} from it if texts have no end token."
        )
    return end


def _end(
    files: Mapping[str, bytes], config: _Config, tokeniser: "Tokenizer", vocabulary: int
) -> int | None:
    """Return the end token of the model, its tokeniser or generation."""
    if (end := check_end(CONFIG, _object(files, CONFIG), vocabulary)) is not None:
        return end
    if config.eos_token is not None:
        named = config.eos_token if isinstance(config.eos_token, str) else config.eos_token.content
        end = tokeniser.token_to_id(named)
        if end is None:
            raise BadModelFolder(
                f"eos_token of {CONFIG_FILE} is {value_excerpt(named)}, which {FILE} does not "
                f"have. Save the tokenizer again, or state {END} in {CONFIG}."
            )
        return end
    return check_end(GENERATION, _object(files, GENERATION), vocabulary)


def _begin(config: _Config, tokeniser: "Tokenizer") -> int | None:
    """Return the token that begins a text, None if none is named."""
    named = config.bos_token
    content = named.content if isinstance(named, _Added) else named
    return None if content is None else tokeniser.token_to_id(content)


def _read(files: Mapping[str, bytes]) -> _Config:
    try:
        return _Config.model_validate(_object(files, CONFIG_FILE))
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise BadModelFolder(
            f"{CONFIG_FILE} is not that of a tokeniser; see {place}. Save the tokenizer again with "
            "a current version of transformers."
        ) from error


def _object(files: Mapping[str, bytes], name: str) -> dict[str, object]:
    """Return the members of a JSON file, none if it is absent."""
    try:
        content: object = json.loads(files.get(name, b"{}"))
    except (ValueError, RecursionError) as error:
        raise BadModelFolder(f"{name} is not JSON: {error}.") from error
    if not isinstance(content, dict):
        raise BadModelFolder(f"{name} is not a JSON object.")
    return cast("dict[str, object]", content)


def _lowered(content: bytes, config: _Config, model: Mapping[str, object]) -> bytes:
    """Return `tokenizer.json` with the letter case that is asked for."""
    named = config.tokenizer_class
    is_of_bert = model.get("model_type") in LOWERING_MODELS if named is None else named in LOWERING
    if not is_of_bert or config.do_lower_case is None:
        return content
    try:
        document: Any = json.loads(content)
        normaliser: Any = document["normalizer"]
        kind = normaliser["type"]
    except (ValueError, RecursionError, TypeError, LookupError):
        return content  # refused where it is loaded
    if kind != "BertNormalizer":
        return content
    normaliser["lowercase"] = config.do_lower_case
    if config.strip_accents is not None:
        normaliser["strip_accents"] = config.strip_accents
    if config.tokenize_chinese_chars is not None:
        normaliser["handle_chinese_chars"] = config.tokenize_chinese_chars
    return json.dumps(document).encode()


def _add(tokeniser: Any, config: _Config) -> None:  # Any: untyped parts of the library
    """Add the tokens that only `tokenizer_config.json` lists.

    Raises:
        BadModelFolder: a token has another number in each.
    """
    listed = {token.content for token in tokeniser.get_added_tokens_decoder().values()}
    for number, added in sorted(config.added_tokens_decoder.items()):
        if added.content not in listed:
            tokeniser.add_tokens([added.token()])
        if (actual := tokeniser.token_to_id(added.content)) != number:
            raise BadModelFolder(
                f"The token {value_excerpt(added.content)} is {number:,} in {CONFIG_FILE} and "
                f"{actual} by {FILE}. Save the tokenizer again with a current version of "
                "transformers."
            )
    for named in config.named():
        if named.content not in listed and tokeniser.token_to_id(named.content) is not None:
            tokeniser.add_special_tokens([named.token()])
