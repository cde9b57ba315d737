"""Damage to the bytes of a file of lines, as by disks, editors, other versions and attackers."""

import json
import re
from collections.abc import Callable, Sequence
from random import Random

Damage = Callable[[Random, bytes], bytes]

NUMBER = re.compile(rb"(?<=[:=\[ ])-?\d+(?:\.\d+)?(?:e-?\d+)?")
WORD = re.compile(rb'"[^"\n]*"')

NUMBERS = (
    *b"0 -0.0 -1 1e18 1e308 -1e308 1e400 1e-400 NaN nan inf -Infinity 0x7fffffff".split(),
    *b"-1000000000000000000 9223372036854775808 18446744073709551616".split(),
    *(b"1" + b"0" * zeros for zeros in (18, 40, 400, 5000)),
)
TYPES = b'null true "words" [] {} [1,2] {"a":1} {a=1} 1.5 7 ""'.split()
TEXTS = (
    b'""',
    b'"\\u0000"',
    b'"\\ud800"',
    b'"../../../../etc/passwd"',
    b'"/etc/passwd"',
    b"\"<img src='file:///etc/passwd'><b>bold</b>\"",
    b'"\\u001b]0;title\\u0007\\u001b[2J"',
    b'"\\u202e\\u2066"',
    b'"%s%n{0}{name}"',
    b'"' + b"x" * 100_000 + b'"',
    b'"\xff\xfe"',
    '"\u0661\u0662 \U0001f9e8"'.encode(),
)
STRANGE_LINES = (
    b'{"type":"quantum_step","time":1795230001.0,"attempt":1}\n',
    b'{"type":"step_finished"}\n',
    b'{"type":7}\n',
    b'"step_finished"\n',
    b"[]\n",
    b"{}\n",
    b"null\n",
    b"\n\n\n",
    b"not json = at all\n",
    b"[unknown]\nkey = 1\n",
)
OTHER_FILES = (
    b"",
    b"\n",
    b"\x00",
    b" " * 4096,
    b"\x89PNG\r\n\x1a\n" + bytes(200),
    b"<html></html>",
    bytes(range(256)) * 40,
)
LONG_EVENT = {"type": "phase_changed", "time": 1, "phase": "training", "detail": "y" * (1 << 20)}
LONG_LINES = (b"x" * (1 << 20), json.dumps(LONG_EVENT).encode())


def flip_bits(chance: Random, content: bytes) -> bytes:
    damaged = bytearray(content)
    for _ in range(chance.choice((1, 3, 20)) if damaged else 0):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def cut_bytes(chance: Random, content: bytes) -> bytes:
    """The end, the beginning, or something between is missing."""
    first = chance.randrange(len(content) + 1)
    last = chance.choice((len(content), min(len(content), first + chance.randrange(1, 200))))
    return content[:first] + content[last:] if chance.random() < 0.8 else content[first:]


def cut_lines(chance: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    for _ in range(min(len(lines), chance.choice((1, 5, 30)))):
        del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def repeat_line(chance: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    if lines:
        place = chance.randrange(len(lines))
        lines[place:place] = [lines[place]] * chance.choice((1, 2, 500))
    return b"".join(lines)


def swap_lines(chance: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    if chance.random() < 0.3:
        chance.shuffle(lines)
    elif len(lines) > 1:
        left, right = chance.sample(range(len(lines)), 2)
        lines[left], lines[right] = lines[right], lines[left]
    return b"".join(lines)


def put_numbers(chance: Random, content: bytes) -> bytes:
    return _replace(chance, content, NUMBER, NUMBERS)


def put_types(chance: Random, content: bytes) -> bytes:
    return _replace(chance, content, chance.choice((NUMBER, WORD)), TYPES)


def put_texts(chance: Random, content: bytes) -> bytes:
    return _replace(chance, content, WORD, TEXTS)


def nest_deeply(chance: Random, content: bytes) -> bytes:
    """A value stands in up to a hundred thousand brackets."""
    depth = chance.choice((50, 1000, 100_000))
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"{a=", b"}")))
    inner = opening * depth + b"1" + (closing * depth if chance.random() < 0.5 else b"")
    return _replace(chance, content, chance.choice((NUMBER, WORD)), (inner,), most=1)


def put_zeros(chance: Random, content: bytes) -> bytes:
    """Zero bytes: at the end, as after a power cut, or anywhere."""
    place = chance.choice((len(content), chance.randrange(len(content) + 1)))
    return content[:place] + bytes(chance.choice((1, 512, 1 << 20))) + content[place:]


def put_wrong_encoding(chance: Random, content: bytes) -> bytes:
    """Bytes that aren't UTF-8, or the whole file in another encoding."""
    if chance.random() < 0.3:
        return content.decode(errors="replace").encode(chance.choice(("utf-16", "utf-16-be", "utf-32")))
    place = chance.randrange(len(content) + 1)
    wrong = chance.choice((b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\x80" * 9))
    return content[:place] + wrong + content[place:]


def put_long_line(chance: Random, content: bytes) -> bytes:
    """A line of a megabyte, an event or none, ended or not."""
    place = content.find(b"\n", chance.randrange(len(content) + 1)) + 1
    return content[:place] + chance.choice(LONG_LINES) + chance.choice((b"\n", b"")) + content[place:]


def put_unknown(chance: Random, content: bytes) -> bytes:
    """Lines of a kind, and with fields, that no version has had, or a newer one has."""
    lines = content.splitlines(keepends=True)
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(STRANGE_LINES))
    joined = b"".join(lines)
    return joined.replace(b'"attempt":', b'"newer":[1],"attempt":') if chance.random() < 0.3 else joined


def raise_schema(chance: Random, content: bytes) -> bytes:
    """As if a newer Hone had written it."""
    number = chance.choice((b"2", b"99", b"1" + b"0" * 30, b'"2"'))
    return re.sub(rb'("?schema"?\s*[:=]\s*)\d+', lambda found: found[1] + number, content)


def put_another_file(chance: Random, content: bytes) -> bytes:
    return chance.choice(OTHER_FILES)


def _replace(
    chance: Random, content: bytes, what: re.Pattern[bytes], values: Sequence[bytes], most: int = 4
) -> bytes:
    places = list(what.finditer(content))
    chosen = chance.sample(places, min(len(places), chance.randint(1, most)))
    for place in sorted(chosen, key=lambda place: place.start(), reverse=True):
        content = content[: place.start()] + chance.choice(values) + content[place.end() :]
    return content


DAMAGES: tuple[Damage, ...] = (
    flip_bits,
    cut_bytes,
    cut_lines,
    repeat_line,
    swap_lines,
    put_numbers,
    put_numbers,
    put_types,
    put_texts,
    nest_deeply,
    put_zeros,
    put_wrong_encoding,
    put_long_line,
    put_unknown,
    raise_schema,
    put_another_file,
)
