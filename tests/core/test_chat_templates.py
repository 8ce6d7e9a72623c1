"""Chat templates in the sandbox, and answers within what they write."""

import json
import subprocess
import sys

import pytest
from tests.chats import (
    CHATML,
    LLAMA,
    a_chat_tokeniser,
    a_tokeniser_configuration,
    as_messages,
    conversation,
)

from adaptlab.errors import BadModelFolder
from adaptlab.text.chat import PLAIN_TEMPLATE, BadChat, ChatTemplate, read_chat_template
from adaptlab.text.encoding import encoded_turn
from adaptlab.text.tokeniser import BYTES, ByteTokeniser, read_tokeniser

TALK = as_messages(conversation("Hi", "Yes?", "Who?", " me "))
LOOPS = "{% for a in range(900) %}{% for b in range(900) %}{% endfor %}{% endfor %}"
CALLS = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(25) }}"
DOUBLED = "{% for a in range(40) %}{% set n.x = n.x OP n.x %}{% endfor %}{{ n.x }}"


def test_models_of_bytes_read_the_plain_template():
    turn = PLAIN_TEMPLATE.turn(TALK)
    assert turn.text == "user: Hi\nassistant: Yes?\nuser: Who?\nassistant:  me \n"
    assert turn.prompt == "user: Hi\nassistant: Yes?\nuser: Who?\nassistant:"
    item = encoded_turn(ByteTokeniser(), turn)
    assert bytes(item.prompt).decode() == turn.prompt
    assert (bytes(item.answer[:-1]), item.answer[-1]) == (b"  me", BYTES)


@pytest.mark.parametrize(("template", "answer"), [(CHATML, " me <|im_end|>"), (LLAMA, " me </s>")])
def test_an_answer_ends_with_the_mark_behind_a_turn(template: str, answer: str):
    tokeniser = read_tokeniser(a_chat_tokeniser(), end=1)
    item = encoded_turn(tokeniser, ChatTemplate(template, (("eos_token", "</s>"),)).turn(TALK))
    assert "".join(map(tokeniser.word, item.answer)) == answer
    assert tokeniser.is_special(item.answer[-1])


def test_without_a_mark_the_end_of_a_text_follows():
    tokeniser = read_tokeniser(a_chat_tokeniser(), end=1)
    item = encoded_turn(tokeniser, PLAIN_TEMPLATE.turn(TALK))
    assert "".join(map(tokeniser.word, item.answer)) == "  me</s>"
    endless = read_tokeniser(a_chat_tokeniser(), end=None)
    assert endless.text(encoded_turn(endless, PLAIN_TEMPLATE.turn(TALK)).answer) == "  me \n"


@pytest.mark.parametrize(
    ("template", "wrong"),
    [
        ("{{ raise_exception('no system') }}", "refuses the conversation: no system"),
        (LOOPS, "takes more than 100,000 steps"),
        (CALLS, "takes more than 100,000 steps"),
        ("{% set n = namespace(x='ab') %}" + DOUBLED.replace("OP", "~"), "2,097,152 characters"),
        ("{% set n = namespace(x='ab') %}" + DOUBLED.replace("OP", "+"), "2,097,152 characters"),
        ("{{ 'a' * 100000000 }}", "repeated more than 1,000 times"),
        ("{{ 9 ** 999999 }}", "numbers up to 1,000"),
        ("{{ '%099999999d' % 1 }}", "numbers up to 1,000"),
        ("{{ range(99999999) | list }}", "more than 1,000 numbers"),
        ("{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}", "recursive loops"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{% include 'secret' %}", "fails"),
        ("{{ nothing.at.all }}", "is undefined"),
        ("{% for m in messages", "is not valid"),
        ("{{ 'a' " + "+ 'a' " * 30_000 + "}}", "has 180,00"),
        (" \n", "prints nothing"),
        ("{{ messages | length }}", "writes the earlier turns otherwise"),
        ("{% for m in messages %}{{ m.content | upper }}{% endfor %}", "changes what"),
    ],
)
def test_a_template_that_is_no_use_fails_with_its_reason(template: str, wrong: str):
    with pytest.raises(BadChat, match=wrong):
        ChatTemplate(template).turn(TALK)


def test_the_folder_says_which_template_is_used():
    config = a_tokeniser_configuration(LLAMA)
    tokens = (("bos_token", "<s>"), ("eos_token", "</s>"))
    assert read_chat_template({"tokenizer_config.json": config}) == ChatTemplate(LLAMA, tokens)
    both = {"tokenizer_config.json": config, "chat_template.jinja": CHATML.encode()}
    assert read_chat_template(both) == ChatTemplate(CHATML, tokens)
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": CHATML}]
    several = json.dumps({"chat_template": named}).encode()
    assert read_chat_template({"tokenizer_config.json": several}) == ChatTemplate(CHATML)
    none = {"tokenizer_config.json": a_tokeniser_configuration(None)}
    assert read_chat_template(none) == read_chat_template({}) == PLAIN_TEMPLATE
    with pytest.raises(BadModelFolder, match=r"tokenizer_config\.json is not that.*bos_token"):
        read_chat_template({"tokenizer_config.json": b'{"bos_token": 3}'})


def test_jinja_is_loaded_to_render_only():
    code = (
        "import sys, adaptlab.text.chat, adaptlab.plugins.corpus as c, adaptlab.specs.resolve\n"
        "assert not {'jinja2', 'adaptlab.text.sandbox'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
