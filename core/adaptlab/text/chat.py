"""Chat templates: conversations as the text that a model was trained on.

A template comes with a model, in the language of Jinja, so it is a program of strangers. It is
rendered in the training process only, in Jinja's sandbox, with limits on its length, its steps and
its output. The steps are counted, so that the same template always ends in the same way.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from pydantic import BaseModel, ValidationError

from adaptlab.errors import BadModelFolder
from adaptlab.records.conversations import Message

if TYPE_CHECKING:
    from jinja2 import Template

    from adaptlab.text.sandbox import Sandbox

TEMPLATE_FILE = "chat_template.jinja"
CONFIG_FILE = "tokenizer_config.json"

LONGEST_CHAT_TEMPLATE = 100_000
"""Limit in characters."""
LONGEST_RENDERED = 2**21
"""Limit in characters of a rendered conversation; a record has at most half as many bytes."""

PLAIN = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
"""The template of models without one, and of models of bytes."""


class BadChat(ValueError):
    """A conversation that the template of a model does not render."""


class RenderedChat(NamedTuple):
    """A rendered conversation.

    Attributes:
        prompt: what precedes the assistant's last turn, with the start of that turn.
        text: the whole conversation, which begins with the prompt.
        answer_end: the place in `text` behind what the assistant says last; what follows is what
            the template writes after it.
    """

    prompt: str
    text: str
    answer_end: int


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template, with the special tokens that it can write.

    Attributes:
        text: the template.
        tokens: the texts of special tokens by their names, such as `eos_token`.
    """

    text: str = PLAIN
    tokens: tuple[tuple[str, str], ...] = ()

    def turn(self, messages: Sequence[Message]) -> RenderedChat:
        """Return a conversation that ends with the assistant's turn.

        Raises:
            BadChat: the template fails, prints nothing, or writes the earlier turns otherwise if an
                answer follows.
        """
        prompt = self._rendered(messages[:-1], asks=True)
        text = self._rendered(messages, asks=False)
        if not prompt.strip():
            raise BadChat("The chat template prints nothing.")
        if not text.startswith(prompt):
            raise BadChat(
                "The chat template writes the earlier turns otherwise if an answer follows them."
            )
        said = messages[-1].content.strip()
        place = text.rfind(said, len(prompt))
        if place < 0:
            raise BadChat("The chat template changes what the assistant says.")
        return RenderedChat(prompt, text, place + len(said))

    def _rendered(self, messages: Sequence[Message], *, asks: bool) -> str:
        sandbox, template = _compiled(self.text)
        sandbox.start()
        context: dict[str, Any] = {
            **dict(self.tokens),
            "messages": [message._asdict() for message in messages],
            "tools": None,
            "documents": None,
            "add_generation_prompt": asks,
        }
        pieces: list[str] = []
        size = 0
        try:
            for piece in template.generate(context):
                sandbox.take()
                pieces.append(piece)
                size += len(piece)
                if size > LONGEST_RENDERED:
                    raise BadChat(
                        f"The chat template prints more than {LONGEST_RENDERED:,} characters."
                    )
        except BadChat:
            raise
        # What a program of strangers can raise is not known.
        except Exception as error:
            reason = str(error)[:300] or type(error).__name__
            raise BadChat(f"The chat template fails: {reason.rstrip('.')}.") from error
        return "".join(pieces)


@lru_cache(maxsize=8)
def _compiled(text: str) -> "tuple[Sandbox, Template]":
    """Return a template and its own sandbox.

    Raises:
        BadChat: it is too long, or not Jinja.
    """
    if len(text) > LONGEST_CHAT_TEMPLATE:
        raise BadChat(
            f"The chat template has {len(text):,} characters. The limit is "
            f"{LONGEST_CHAT_TEMPLATE:,}."
        )
    # Templates of models are run by the training process only, the plain one anywhere.
    from jinja2 import TemplateError

    from adaptlab.text.sandbox import Sandbox

    sandbox = Sandbox(LONGEST_RENDERED, {"tojson": _json})
    sandbox.globals["raise_exception"] = _raise
    try:
        return sandbox, sandbox.from_string(text)
    except (TemplateError, RecursionError) as error:
        raise BadChat(f"The chat template is not valid: {str(error)[:300].rstrip('.')}.") from error


def _raise(message: object) -> NoReturn:
    raise BadChat(f"The chat template refuses the conversation: {str(message)[:300].rstrip('.')}.")


def _json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


PLAIN_TEMPLATE = ChatTemplate()


class _Named(BaseModel):
    name: str
    template: str


class _AddedToken(BaseModel):
    content: str


class _Config(BaseModel):
    """The members of a `tokenizer_config.json` that templates need."""

    chat_template: str | list[_Named] | None = None
    bos_token: str | _AddedToken | None = None
    eos_token: str | _AddedToken | None = None
    unk_token: str | _AddedToken | None = None
    sep_token: str | _AddedToken | None = None
    pad_token: str | _AddedToken | None = None
    cls_token: str | _AddedToken | None = None
    mask_token: str | _AddedToken | None = None

    def template(self) -> str | None:
        """Return the template, of several the one named default."""
        if not isinstance(self.chat_template, list):
            return self.chat_template
        return next((one.template for one in self.chat_template if one.name == "default"), None)

    def tokens(self) -> Iterator[tuple[str, str]]:
        """Yield the special tokens by name."""
        for name, token in self:
            if name != "chat_template" and token is not None:
                yield name, token if isinstance(token, str) else token.content


def read_chat_template(files: Mapping[str, bytes]) -> ChatTemplate:
    """Return the chat template of a model folder, by the content of its files.

    `chat_template.jinja` comes before the member of `tokenizer_config.json`. Without both it is the
    plain template, which writes no special tokens.

    Raises:
        BadModelFolder: a file cannot be read.
    """
    config = _Config()
    if CONFIG_FILE in files:
        try:
            config = _Config.model_validate_json(files[CONFIG_FILE])
        except ValidationError as error:
            places = ", ".join(_places(error)) or "the file"
            raise BadModelFolder(
                f"{CONFIG_FILE} is not that of a tokeniser; see {places}. Save the tokenizer again "
                "with a current version of transformers."
            ) from error
    text = config.template()
    if TEMPLATE_FILE in files:
        try:
            text = files[TEMPLATE_FILE].decode()
        except UnicodeDecodeError as error:
            raise BadModelFolder(f"{TEMPLATE_FILE} is not UTF-8. Save it again.") from error
    return PLAIN_TEMPLATE if text is None else ChatTemplate(text, tuple(config.tokens()))


def _places(error: ValidationError) -> Iterable[str]:
    return dict.fromkeys(str(one["loc"][0]) for one in error.errors() if one["loc"])
