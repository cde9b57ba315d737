"""What the page Benchmark says in words."""

from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication

from core.bench.kept import Kept
from core.bench.plan import Kind, Plan
from core.bench.result import Result
from core.bench.running import Underway
from gui import numbers
from gui.bench_work import Benchmarking, Ending

_translate = QCoreApplication.translate


def doing_words(measuring: Benchmarking) -> str:
    """What is under way, with the pass where there are several."""
    if measuring.is_stopping:
        return _translate("Benchmark", "Ending the pass that runs; what is done is kept…")
    plan, underway = measuring.plan, measuring.underway
    if plan is None:
        return _translate("Benchmark", "Choosing what this machine can measure…")
    if underway is None:
        return _translate("Benchmark", "Getting ready…")
    words = _translate("Benchmark", "Measuring: {}").format(rung_title(underway))
    if plan.passes < 2:
        return words
    which = _translate("Benchmark", "pass {} of {}").format(underway.number_of_pass, plan.passes)
    return f"{words} · {which}"


def rung_title(underway: Underway) -> str:
    """A rung and, where it has one, the side it stands on."""
    rung = underway.rung
    return f"{rung.title} · {rung.side}" if rung.side and rung.side not in rung.title else rung.title


def left_words(underway: Underway) -> str:
    """How long it still takes; before that can be told, how much is done."""
    if underway.seconds_left is not None:
        return _translate("Benchmark", "about {} left").format(numbers.about(underway.seconds_left))
    return _translate("Benchmark", "{} of {} done").format(
        numbers.count(underway.done), numbers.count(underway.total)
    )


def head_words(plan: Plan, underway: Underway | None) -> str:
    """A plan and how far it is: `BERT-base, 512 sequences of 512 tokens · 9 of 12 rows, about 6 min left`."""
    if underway is None:
        return plan.title
    form = (
        _translate("Benchmark", "{} · {} of {} passes")
        if plan.passes > 1
        else _translate("Benchmark", "{} · {} of {} rows")
    )
    far = form.format(plan.title, numbers.count(underway.done), numbers.count(underway.total))
    if underway.seconds_left is None:
        return far
    return _translate("Benchmark", "{}, about {} left").format(far, numbers.about(underway.seconds_left))


def result_words(result: Result) -> str:
    """What was measured, when, and where: `BERT-base, 512 sequences of 512 tokens · 21 Nov, 14:05 · Apple M3 Max`."""
    return " · ".join(
        part for part in (result.plan.title, numbers.moment(result.begun), result.machine.title) if part
    )


def plan_words(plan: Plan) -> str:
    """What a plan measures: `BERT-base, 512 sequences of 512 tokens: 12 rows, 3 passes of 20 timed steps`."""
    able = sum(not rung.refusal for rung in plan.rungs)
    words = (
        _translate("Benchmark", "{}: {} rows, {} of {}")
        if plan.kind is Kind.METHODS
        else _translate("Benchmark", "{}: {} measurements, {} of {} at most")
    )
    passes = _translate("Benchmark", "{} passes").format(plan.passes)
    if plan.passes == 1:
        passes = _translate("Benchmark", "one pass")
    steps = _translate("Benchmark", "{} timed steps").format(numbers.count(plan.steps))
    if plan.steps == 1:
        steps = _translate("Benchmark", "one timed step")
    said = words.format(plan.title, numbers.count(able), passes, steps)
    if able == len(plan.rungs):
        return f"{said}."
    left = len(plan.rungs) - able
    others = (
        _translate("Benchmark", "{}; one more is left out and says why.")
        if left == 1
        else _translate("Benchmark", "{}; {} more are left out, each says why.")
    )
    return others.format(said, numbers.count(left))


def expected_words(plan: Plan, earlier: Sequence[Kept]) -> str:
    """How long it will take, by what it took before; what can be said where it was never measured."""
    for one in earlier:
        found = one.result
        if found is None or found.kind is not plan.kind or not found.is_whole or found.ended is None:
            continue
        if found.plan.title == plan.title and found.plan.passes == plan.passes:
            words = _translate("Benchmark", "The last one, of {}, took {}.")
            return words.format(numbers.moment(found.begun), numbers.duration(found.ended - found.begun))
    return _translate(
        "Benchmark", "It takes minutes to an hour; how long here is told once two passes are measured."
    )


def ending_words(ending: Ending, result: Result | None) -> tuple[str, str] | None:
    """Title and detail of how it ended; None where there is nothing to say."""
    if ending is not Ending.CANCELLED:
        return None
    has_any = result is not None and any(row.is_measured for row in result.rows)
    kept = _translate("Benchmark", "What was measured until then is shown, and kept under Earlier results.")
    none = _translate("Benchmark", "Nothing had been measured yet, so nothing is kept.")
    return _translate("Benchmark", "The benchmark was cancelled"), kept if has_any else none
