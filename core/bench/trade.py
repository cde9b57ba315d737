"""What a result comes to, in a plain sentence or two: the best trade of speed and memory on this machine."""

from collections.abc import Iterator, Sequence

from core.bench.plan import Kind
from core.bench.result import Result, Row, memory_against, speed_against
from core.bench.words import figure, whole_title
from core.choices import Method

LESS = 0.95
"""Memory counts as less from this share of plain's on: what a process holds differs by a few percent each time."""

AGAIN = "Close other programs and measure again."


def best_trade(result: Result) -> str:
    """The sentence; it says so where there is nothing to be said yet, or nothing to choose between."""
    if result.kind is Kind.DEVICES:
        return _devices(result)
    return " ".join(_methods(result))


def is_faster(row: Row, other: Row) -> bool:
    """Whether it is faster by more than both of them vary: the quartiles of their steps don't touch."""
    mine, theirs = row.samples_per_second, other.samples_per_second
    return mine is not None and theirs is not None and mine.lowest > theirs.highest


def _methods(result: Result) -> Iterator[str]:
    plain, rows = result.plain, [row for row in result.rows[1:] if row.is_measured]
    quiet = [row for row in rows if not row.is_disturbed]
    if plain is None or not (rows or plain.is_measured):
        yield "Nothing has been measured."
    elif not plain.is_measured:
        yield f"Nothing can be held against plain, which has no figures: {plain.reason or 'it was not measured'}."
    elif not rows:
        yield "Only plain has been measured."
    elif plain.is_disturbed or len(quiet) < len(rows) / 2:
        yield f"{_disturbed([plain, *rows])}: too many to conclude anything. {AGAIN}"
    else:
        yield from _trade(result, plain, quiet)
        if quiet != rows:
            yield f"{_disturbed([plain, *rows])} and left out here. {AGAIN}"


def _trade(result: Result, plain: Row, rows: list[Row]) -> Iterator[str]:
    whole = [row for row in rows if not _is_small(row, plain) and _same_data(row, plain)]
    fastest = max(
        (row for row in whole if is_faster(row, plain)), key=lambda row: _speed(row, plain), default=None
    )
    leanest = min(
        (row for row in whole if not is_faster(plain, row) and _memory(row, plain) <= LESS),
        key=lambda row: _memory(row, plain),
        default=None,
    )
    yield _of_all_weights(result, plain, fastest, leanest)
    best = fastest or plain
    for row in rows:
        if not _same_data(row, plain) and is_faster(row, best):
            yield f"Where texts differ in length, {_name(result, row)} makes it {_times(row, plain)} as fast as plain."
        if _is_small(row, plain):
            yield f"{_name(result, row)}, which trains few of the weights, is {_compared(row, plain)}."


def _disturbed(rows: Sequence[Row]) -> str:
    """How many were."""
    count = sum(row.is_disturbed for row in rows)
    why = "beside other work, or while heat or a power cap held a clock down"
    return f"{count} of {len(rows)} rows were measured {why}"


def _of_all_weights(result: Result, plain: Row, fastest: Row | None, leanest: Row | None) -> str:
    if fastest is None and leanest is None:
        return "No method was faster than plain beyond its spread, and none took less memory without being slower."
    if leanest is None:
        assert fastest is not None
        return (
            f"The best trade here: {_name(result, fastest)}, {_compared(fastest, plain)}. None took less memory "
            "without being slower."
        )
    if fastest is None:
        return (
            f"No method was faster than plain beyond its spread; the best trade here is {_name(result, leanest)}, "
            f"{_compared(leanest, plain)}."
        )
    if fastest is leanest:
        return f"The best trade here, in speed and in memory: {_name(result, fastest)}, {_compared(fastest, plain)}."
    return (
        f"The best trade here: {_name(result, fastest)}, {_compared(fastest, plain)}. Least memory without being "
        f"slower than plain: {_name(result, leanest)}, {_compared(leanest, plain)}."
    )


def _compared(row: Row, plain: Row) -> str:
    """Speed and memory against plain: `2.91 times as fast as plain, with 45 % of its memory`."""
    if is_faster(row, plain):
        speed = f"{_times(row, plain)} as fast as plain"
    elif is_faster(plain, row):
        speed = f"slower than plain ({_times(row, plain)} its speed)"
    else:
        speed = "as fast as plain within the spread"
    return f"{speed}, with {_memory(row, plain):.0%} of its memory".replace("%", " %")


def _times(row: Row, plain: Row) -> str:
    return f"{figure(_speed(row, plain))} times"


def _speed(row: Row, plain: Row) -> float:
    return speed_against(row, plain) or 0.0


def _memory(row: Row, plain: Row) -> float:
    """What share of plain's memory; where one of them is not known, it counts as all of it."""
    return memory_against(row, plain) or 1.0


def _is_small(row: Row, plain: Row) -> bool:
    """Whether fewer of the weights learn than in the plain row."""
    return _method(row) != _method(plain) and _method(row) != Method.FULL


def _method(row: Row) -> str:
    return str(row.rung.asked.get("model", {}).get("method", Method.FULL.value))


def _same_data(row: Row, plain: Row) -> bool:
    """Whether both learn from the same: dynamic padding has to be measured on other texts."""
    mine, theirs = (one.rung.asked.get("data", {}).get("train") for one in (row, plain))
    return bool(mine == theirs)


def _name(result: Result, row: Row) -> str:
    return whole_title(row.rung, result.plan)


def _devices(result: Result) -> str:
    """How much faster the other side is, from the least of all models to the most."""
    found = {}
    measured = [row for row in result.rows if row.is_measured]
    for rows in result.groups().values():
        first, *others = rows
        for other in others:
            speed = speed_against(other, first)
            if speed is not None and not (first.is_disturbed or other.is_disturbed):
                found[f"{other.rung.side} is {{}} as fast as {first.rung.side}", other.rung.title] = speed
    told = [
        _range({title: speed for (said, title), speed in found.items() if said == words}, words)
        for words in dict.fromkeys(said for said, _ in found)
    ]
    if any(row.is_disturbed for row in measured):
        told.append(f"{_disturbed(measured)} and left out here. {AGAIN}")
    return " ".join(told) or "Nothing has been measured on both sides."


def _range(speeds: dict[str, float], words: str) -> str:
    most, least = max(speeds, key=lambda title: speeds[title]), min(speeds, key=lambda title: speeds[title])
    if len(speeds) == 1:
        return f"{words.format(f'{figure(speeds[most])} times')} ({most})."
    between = words.format(f"{figure(speeds[least])} to {figure(speeds[most])} times")
    return f"{between}: the least with {least}, the most with {most}."
