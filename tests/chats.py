"""Small datasets of conversations, and chat templates."""

import json
from collections.abc import Mapping
from typing import Any

from tests.texts import a_byte_pair_tokeniser, reviews
from tokenizers import AddedToken, Tokenizer

from adaptlab.records.conversations import Message, written
from adaptlab.records.record import Record

CHAT: Mapping[str, Any] = {
    "name": "chat_completion",
    "dataset": "chats",
    "messages": {"field": "messages"},
    "tokens": {"longest": 128, "answer": 20},
}

CHATML = (
    "{% for message in messages %}\n"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}\n"
    "{% endfor %}\n"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if loop.index0 == 0 and message.role == 'system' %}"
    "{{ '<<SYS>>\n' ~ (message.content | trim) ~ '\n<</SYS>>\n\n' }}"
    "{% elif message.role == 'user' %}{{ '[INST] ' + message.content.strip() + ' [/INST]' }}"
    "{% elif message.role == 'assistant' %}{{ ' ' + message.content | trim + ' ' + eos_token }}"
    "{% else %}{{ raise_exception('only user and assistant') }}{% endif %}"
    "{% endfor %}"
)


def conversation(*turns: str) -> list[dict[str, str]]:
    """Return messages of user and assistant in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": turn} for n, turn in enumerate(turns)]


def as_messages(listed: list[dict[str, str]]) -> tuple[Message, ...]:
    """Return messages as core has them."""
    return tuple(Message(**one) for one in listed)


def chats(count: int) -> list[Record]:
    """Return records of conversations about reviews, always the same."""
    records: list[Record] = []
    for number, review in enumerate(reviews(count)):
        asked = conversation(f"hello {number}", "yes?") if number % 2 else []
        asked += conversation(f"What is {review['text']}?")
        answered = [*asked, {"role": "assistant", "content": review["thing"]}]
        if number % 3 == 0:
            system = [{"role": "system", "content": "Name the thing."}]
            asked, answered = [*system, *asked], [*system, *answered]
        records.append(
            {
                "messages": written(as_messages(answered)),
                "open": written(as_messages(asked)),
                "text": review["text"],
            }
        )
    return records


def a_chat_tokeniser() -> bytes:
    """Return a `tokenizer.json` of byte pairs with special tokens of turns."""
    tokenizer = Tokenizer.from_str(
        a_byte_pair_tokeniser(review["text"] for review in reviews(60)).decode()
    )
    marks = [AddedToken(mark, special=True) for mark in ("<|im_start|>", "<|im_end|>")]
    tokenizer.add_special_tokens(marks)
    return tokenizer.to_str().encode()


def a_tokeniser_configuration(template: str | None) -> bytes:
    """Return a `tokenizer_config.json`."""
    members: dict[str, Any] = {
        "bos_token": {"__type": "AddedToken", "content": "<s>", "special": True},
        "eos_token": "</s>",
    }
    if template is not None:
        members["chat_template"] = template
    return json.dumps(members).encode()
