"""Conversations: values of records that are lists of messages.

In JSON lines, a list of messages is read as a conversation and stored as its canonical JSON text,
so that a record stays a mapping of texts. Whether a text is a conversation is seen from the text.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

ROLES = ("system", "user", "assistant")
MOST_MESSAGES = 256
"""Limit of the messages of one conversation."""

MEMBERS = ("role", "content")
OF_TOOLS = {"tool_calls", "tool_call_id", "function_call"}
ROLES_OF_TOOLS = ("tool", "function")
TOOLS = (
    "Tool calls and their results are not read. Leave conversations with tools out, or write a "
    "call into the assistant's content and its result into the user's next one."
)
EXAMPLE = '{"role": "user", "content": "…"}'

SHARED_MEMBERS = ("from", "value")
SHARED_ROLES: Mapping[str, str] = {
    "human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant",
    "assistant": "assistant", "system": "system",
}  # fmt: skip
"""Roles of the form ShareGPT, in which messages have `from` and `value`."""

_START = '[{"role":"'
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Message(NamedTuple):
    """What one side of a conversation says."""

    role: str
    content: str


class NotAConversation(ValueError):
    """A list that cannot be read as a conversation.

    Attributes:
        code: a stable word for programs.
        what: what is wrong, as the rest of a sentence about the value.
        advice: what to change, as a sentence.
    """

    def __init__(self, code: str, what: str, advice: str) -> None:
        super().__init__(f"{what}. {advice}")
        self.code = code
        self.what = what
        self.advice = advice


def is_meant_as_conversation(value: object) -> bool:
    """Return True if a value begins as a list of messages does."""
    if not isinstance(value, list):
        return False
    first = next(iter(cast("list[object]", value)), None)
    return isinstance(first, dict) and (
        any(member in first for member in MEMBERS)
        or all(member in first for member in SHARED_MEMBERS)
    )


def conversation(value: Sequence[object]) -> tuple[Message, ...]:
    """Return the messages of a conversation.

    A system message can only come first. Then messages of the user and the assistant alternate,
    beginning with the user.

    Raises:
        NotAConversation: a message has other members or another role, is empty, or is out of turn.
    """
    if len(value) > MOST_MESSAGES:
        what = f"has {len(value):,} messages, more than {MOST_MESSAGES}"
        raise NotAConversation("too_many_messages", what, "Shorten the conversation.")
    messages = tuple(_message(number, one) for number, one in enumerate(value, 1))
    for number, (message, expected) in enumerate(zip(messages, _turns(messages), strict=False), 1):
        if message.role != expected:
            raise NotAConversation(
                "message_out_of_turn",
                f"has the role {message.role!r} in message {number}, where {expected} has the turn",
                "Put at most one system message first, then let user and assistant alternate, "
                "beginning with the user.",
            )
    if messages[-1].role == "system":
        what = "has a system message only"
        raise NotAConversation("message_out_of_turn", what, "Add what the user says.")
    return messages


def written(messages: Sequence[Message]) -> str:
    """Return the canonical text of a conversation."""
    return _ENCODER.encode([message._asdict() for message in messages])


def conversation_in(text: str) -> tuple[Message, ...] | None:
    """Return the messages of a canonical text, None if it is another text."""
    if not text.startswith(_START):
        return None
    try:
        value = json.loads(text)
        messages = conversation(cast("list[object]", value)) if isinstance(value, list) else ()
    except (ValueError, RecursionError):
        return None
    return messages if messages and written(messages) == text else None


def without_answer(text: str) -> str:
    """Return what decides the split of a value.

    Of a conversation it is everything before the assistant's last turn; other texts stay as they
    are. So conversations that differ only in their answers are never in two splits.
    """
    messages = conversation_in(text)
    if messages is None or messages[-1].role != "assistant":
        return text
    return "\n".join(message.content for message in messages[:-1])


def _message(number: int, value: object) -> Message:
    if not isinstance(value, dict):
        what = f"has a message {number} that is not an object"
        raise NotAConversation("wrong_message", what, f"Write every message as {EXAMPLE}.")
    members = _of_shared(cast("Mapping[str, Any]", value))
    others = [name for name in members if name not in MEMBERS]
    missing = [name for name in MEMBERS if name not in members]
    if others:
        advice = TOOLS if set(others) & OF_TOOLS else f"Write every message as {EXAMPLE} only."
        what = f"has {others[0][:80]!r} in message {number}"
        raise NotAConversation("wrong_message", what, advice)
    if missing:
        what = f"has no {missing[0]!r} in message {number}"
        raise NotAConversation("wrong_message", what, f"Write every message as {EXAMPLE}.")
    role, content = members["role"], members["content"]
    if role not in ROLES:
        shown = repr(role[:80]) if isinstance(role, str) else "that is no text"
        roles = f"Roles are {', '.join(ROLES[:-1])} and {ROLES[-1]}."
        advice = TOOLS if role in ROLES_OF_TOOLS else roles
        raise NotAConversation("wrong_role", f"has a role {shown} in message {number}", advice)
    if not isinstance(content, str) or not content.strip():
        kind = "an empty content" if isinstance(content, str) else "a content that is not text"
        raise NotAConversation(
            "wrong_content",
            f"has {kind} in message {number}",
            "Write what is said as one text, or leave the message out.",
        )
    return Message(role, content)


def _of_shared(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message of ShareGPT with our members; others as they are."""
    if not all(member in message for member in SHARED_MEMBERS) or "role" in message:
        return message
    rest = {name: value for name, value in message.items() if name not in SHARED_MEMBERS}
    role = message["from"]
    known = SHARED_ROLES.get(role, role) if isinstance(role, str) else role
    return {"role": known, "content": message["value"], **rest}


def _turns(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the roles that messages must have, in order."""
    if messages and messages[0].role == "system":
        yield "system"
    while True:
        yield "user"
        yield "assistant"
