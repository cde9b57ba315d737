"""Ways to damage the bytes of a file of lines: what disks, editors, other versions and ill will do to them."""

import json
import re
from collections.abc import Callable
from random import Random

Damage = Callable[[Random, bytes], bytes]

_NUMBER = re.compile(rb"(?<=[:=\[ ])-?\d+(?:\.\d+)?(?:e-?\d+)?")
_WORD = re.compile(rb'"[^"\n]*"')

NUMBERS = (
    b"1" + b"0" * 18,
    b"-1",
    b"-1" + b"0" * 18,
    b"9223372036854775808",
    b"18446744073709551616",
    b"1" + b"0" * 40,
    b"1" + b"0" * 400,
    b"1" + b"0" * 5000,
    b"1e400",
    b"1e308",
    b"-1e308",
    b"1e-400",
    b"NaN",
    b"nan",
    b"inf",
    b"-Infinity",
    b"0",
    b"-0.0",
    b"0x7fffffff",
    b"1e18",
)
TYPES = (b"null", b"true", b'"words"', b"[]", b"{}", b"[1, 2]", b'{"a": 1}', b"1.5", b"7", b'""', b"{a = 1}")
TEXTS = (
    b"",
    b"\\u0000",
    b"\\ud800",
    b"../../../../etc/passwd",
    b"/etc/passwd",
    b"<img src='file:///etc/passwd'><b>bold</b>",
    b"\\u001b]0;title\\u0007\\u001b[2J",
    b"\\u202e\\u2066",
    b"x" * 100_000,
    b"\xff\xfe",
    b"%s%n{0}{name}",
    "\u0661\u0662 \U0001f9e8".encode(),
)


def flip_bits(chance: Random, content: bytes) -> bytes:
    """A few bits are the other way round."""
    damaged = bytearray(content)
    for _ in range(chance.choice((1, 3, 20)) if damaged else 0):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def cut_bytes(chance: Random, content: bytes) -> bytes:
    """A part is gone: the end, the beginning, or something between."""
    first = chance.randrange(len(content) + 1)
    last = chance.choice((len(content), min(len(content), first + chance.randrange(1, 200))))
    return content[:first] + content[last:] if chance.random() < 0.8 else content[first:]


def cut_lines(chance: Random, content: bytes) -> bytes:
    """Some lines are gone."""
    lines = content.splitlines(keepends=True)
    for _ in range(min(len(lines), chance.choice((1, 5, 30)))):
        del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def double_lines(chance: Random, content: bytes) -> bytes:
    """Some lines are there twice, or very often."""
    lines = content.splitlines(keepends=True)
    if lines:
        place = chance.randrange(len(lines))
        lines[place:place] = [lines[place]] * chance.choice((1, 2, 500))
    return b"".join(lines)


def swap_lines(chance: Random, content: bytes) -> bytes:
    """The lines are in another order."""
    lines = content.splitlines(keepends=True)
    if chance.random() < 0.3:
        chance.shuffle(lines)
    elif len(lines) > 1:
        one, other = chance.sample(range(len(lines)), 2)
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def put_numbers(chance: Random, content: bytes) -> bytes:
    """Numbers are huge, negative or none at all."""
    return _replace(chance, content, _NUMBER, NUMBERS)


def put_types(chance: Random, content: bytes) -> bytes:
    """Numbers and words are something else altogether."""
    return _replace(chance, content, chance.choice((_NUMBER, _WORD)), TYPES)


def put_texts(chance: Random, content: bytes) -> bytes:
    """Words hold what words shouldn't."""
    return _replace(chance, content, _WORD, tuple(b'"' + text + b'"' for text in TEXTS))


def nest_deeply(chance: Random, content: bytes) -> bytes:
    """A value has a hundred thousand brackets around it."""
    depth = chance.choice((50, 1000, 100_000))
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"{a=", b"}")))
    inner = opening * depth + b"1" + (closing * depth if chance.random() < 0.5 else b"")
    return _replace(chance, content, chance.choice((_NUMBER, _WORD)), (inner,), most=1)


def put_zeros(chance: Random, content: bytes) -> bytes:
    """Zero bytes: at the end, as after a power cut, or anywhere."""
    place = chance.choice((len(content), chance.randrange(len(content) + 1)))
    return content[:place] + bytes(chance.choice((1, 512, 1 << 20))) + content[place:]


def put_wrong_encoding(chance: Random, content: bytes) -> bytes:
    """Bytes that are no UTF-8; or the whole file in another encoding."""
    if chance.random() < 0.3:
        return content.decode(errors="replace").encode(chance.choice(("utf-16", "utf-16-be", "utf-32")))
    place = chance.randrange(len(content) + 1)
    return (
        content[:place]
        + chance.choice((b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\x80" * 9))
        + content[place:]
    )


def put_long_line(chance: Random, content: bytes) -> bytes:
    """A line of a megabyte, ended or not, without sense or with some."""
    line = chance.choice(
        (
            b"x" * (1 << 20),
            json.dumps(
                {"type": "phase_changed", "time": 1, "phase": "training", "detail": "y" * (1 << 20)}
            ).encode(),
        )
    )
    place = content.find(b"\n", chance.randrange(len(content) + 1)) + 1
    return content[:place] + line + chance.choice((b"\n", b"")) + content[place:]


def put_unknown(chance: Random, content: bytes) -> bytes:
    """Lines of kinds and with fields that no version has had, or a newer one has."""
    lines = content.splitlines(keepends=True)
    strange = chance.choice(
        (
            b'{"type":"quantum_step","time":1795230001.0,"attempt":1}\n',
            b'{"type":"step_finished"}\n',
            b'{"type":7}\n',
            b"[]\n",
            b"null\n",
            b'"step_finished"\n',
            b"{}\n",
            b"not json = at all\n",
            b"\n\n\n",
            b"[unknown]\nkey = 1\n",
        )
    )
    lines.insert(chance.randrange(len(lines) + 1), strange)
    joined = b"".join(lines)
    return joined.replace(b'"attempt":', b'"newer":[1],"attempt":') if chance.random() < 0.3 else joined


def be_newer(chance: Random, content: bytes) -> bytes:
    """Written by a newer Hone."""
    number = chance.choice((b"2", b"99", b"1" + b"0" * 30, b'"2"'))
    return re.sub(rb'("?schema"?\s*[:=]\s*)\d+', lambda found: found[1] + number, content)


def be_something_else(chance: Random, content: bytes) -> bytes:
    """Nothing, white space, or another kind of file altogether."""
    return chance.choice(
        (
            b"",
            b"\n",
            b" " * 4096,
            b"\x00",
            b"\x89PNG\r\n\x1a\n" + bytes(200),
            b"<html></html>",
            bytes(range(256)) * 40,
        )
    )


def _replace(
    chance: Random, content: bytes, what: "re.Pattern[bytes]", values: tuple[bytes, ...], most: int = 4
) -> bytes:
    found = list(what.finditer(content))
    chosen = chance.sample(found, min(len(found), chance.randint(1, most)))
    for hit in sorted(chosen, key=lambda hit: hit.start(), reverse=True):
        content = content[: hit.start()] + chance.choice(values) + content[hit.end() :]
    return content


DAMAGES: tuple[Damage, ...] = (
    flip_bits,
    cut_bytes,
    cut_lines,
    double_lines,
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
    be_newer,
    be_something_else,
)
