"""Chat templates of strangers that make gigabytes in one step."""

import resource

import pytest

from adaptlab.records.conversations import Message
from adaptlab.text.chat import BadChat, ChatTemplate

TALK = (Message(role="user", content="Hi"), Message(role="assistant", content="me"))
LONG = "{% set long = ('a' * 1000) * 1000 %}"
HALF = "{% set half = ('a' * 1000) * 20 %}"
"""So short that only what a call makes of it is too long."""
NESTED = (
    "{% set n = namespace(x=['ab']) %}"
    "{% for _ in range(40) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
)
SMALL = 200 * 2**20
PADDING = [f"{{{{ 'a'.{name}(1000000000) }}}}" for name in ("ljust", "rjust", "center", "zfill")]
HOSTILE = [
    *PADDING,
    "{{ 'a'.encode().ljust(1000000000) }}",
    "{{ 'a'.ljust(width=1000000000) if false else 'a'.ljust(1000000000, 'b') }}",
    "{{ (1).to_bytes(1000000000, 'big') }}",
    "{{ 'a'|center(1000000000) }}",
    "{{ 'a'|center(width=1000000000) }}",
    "{{ ['a']|map('center', 1000000000)|list }}",
    "{{ ('a'|attr('ljust'))(1000000000) }}",
    "{% set f = 'a'.ljust %}{{ f(1000000000) }}",
    HALF + "{{ half.replace('a', half) }}",
    HALF + "{{ half|replace('a', half) }}",
    LONG + "{{ long.replace('a', long) }}",
    LONG + "{{ long.replace('', long) }}",
    LONG + "{{ long|replace('a', long) }}",
    LONG + "{{ long|replace(old='a', new=long) }}",
    LONG + "{{ long.join(long) }}",
    LONG + "{{ long|join(long) }}",
    LONG + "{{ long|join(d=long) }}",
    LONG + "{{ long|sort(attribute='a,' * 1000) }}",
    LONG + "{{ long|list|sort(attribute='a,' * 1000) }}",
    LONG + "{{ long.translate({97: long}) }}",
    LONG + "{{ (long * 1000) * 1000 }}",
    LONG + "{{ ([long] * 1000)|sum(start=[]) }}",
    LONG + "{{ [[long] * 1000] * 1000 }}",
    LONG + "{{ {'a': [long] * 1000}|tojson }}",
    LONG + "{{ ('{0}' * 1000).format(long) }}",
    "{{ '{:1000000000}'.format('a') }}",
    "{{ '{:{}}'.format('a', 1000000000) }}",
    "{{ '{a:1000000000}'.format_map({'a': 'a'}) }}",
    "{{ '%1000000000d'|format(1) }}",
    "{{ '%*d'|format(1000000000, 1) }}",
    "{{ ('\\t' * 1000).expandtabs(10000000) }}",
    "{{ 'a\\nb'|indent(1000000000) }}",
    LONG + "{{ 'a\\nb'|replace('a', 'a\\n' * 1000)|indent(long) }}",
    "{{ 'a b c'|wordwrap(1, wrapstring='x' * 1000 * 1000 * 1000) }}",
    "{{ [1]|batch(1000000000, 'x')|list }}",
    "{{ [1]|slice(1000000000, 'x')|list }}",
    "{{ {'a': [1]}|tojson(indent=1000000000) }}",
    NESTED + "{{ n.x }}",
    NESTED + "{{ n.x|tojson }}",
    NESTED + "{{ n.x|string }}",
    NESTED + "{{ n.x ~ 'a' }}",
    NESTED + "{{ [n.x]|join }}",
    NESTED + "{{ 'a'|replace('a', n.x) }}",
    NESTED + "{{ 'a'.join(n.x) }}",
    NESTED + "{{ '{}'.format(n.x) }}",
    NESTED + "{{ '%s'|format(n.x) }}",
    NESTED + "{{ n.x|upper }}",
    NESTED + "{{ n.x|e }}",
]
ORDINARY = [
    ("{{ 'a'.ljust(5) }}|", "a    |"),
    ("{{ 'abc'|center(5) }}", " abc "),
    ("{{ 'a-b'.replace('-', '+') }}", "a+b"),
    ("{{ 'a-b'|replace('-', '') }}", "ab"),
    ("{{ ', '.join(['a', 'b']) }}", "a, b"),
    ("{{ ['a', 'b']|join(', ') }}", "a, b"),
    ("{{ [{'k': 2}, {'k': 1}]|sort(attribute='k')|map(attribute='k')|join }}", "12"),
    ("{{ {'a': [1, 'b']}|tojson(indent=1) }}", '{\n "a": [\n  1,\n  "b"\n ]\n}'),
    ("{{ 'a\\nb'|indent(2) }}", "a\n  b"),
    ("{{ '{} {}'.format('a', 1) }}", "a 1"),
    ("{{ '%02d'|format(3) }}", "03"),
    ("{{ (messages|map(attribute='role')|list)[0] }}", "user"),
    ("{{ messages|selectattr('role', 'equalto', 'user')|list|length }}", "1"),
    ("{{ 3.14159|round(2) }} {{ none }} {{ true }} {{ 7 }}", "3.14 None True 7"),
    ("{{ ' a '.strip() ~ 1 }}", "a1"),
    ("{{ messages[0].content|trim|upper|default('x') }}", "HI"),
]


def rendered(template: str) -> str:
    """What a template writes before each conversation."""
    chat = template + "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"
    return ChatTemplate(chat).turn(TALK).text


@pytest.mark.long("many bad inputs", but=42)
@pytest.mark.parametrize("template", HOSTILE)
def test_no_step_makes_more_than_the_limit(template: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadChat, match=r"characters|up to 1,000|repeated|fails"):
        rendered(template)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert 1024 * (peak - before) < SMALL


@pytest.mark.parametrize(("template", "text"), ORDINARY)
def test_ordinary_templates_write_what_they_did(template: str, text: str) -> None:
    assert rendered(template).startswith(text + "user: Hi")
