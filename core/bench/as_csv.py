"""A result as CSV: a line a row, plain numbers, their units in the names of the columns; unknown figures are empty."""

import csv as writing
import io
import time

from core.bench.plan import Kind
from core.bench.result import Result, Row, Spread, memory_against, speed_against
from core.bench.words import whole_title
from core.memory.forecast import Parts

Cell = str | int | float | None


def csv(result: Result) -> str:
    """All rows with their figures; each line also tells when and where it was measured, so that files can be joined."""
    text = io.StringIO()
    lines = [_line(row, _first(row, result), result) for row in result.rows]
    if not lines:
        return ""
    table = writing.DictWriter(text, list(lines[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(lines)
    return text.getvalue()


def _first(row: Row, result: Result) -> Row:
    """What a row is held against: the plain one, or the first side of its group."""
    if result.kind is Kind.DEVICES:
        return result.groups()[row.rung.group][0]
    return result.plain or row


def _line(row: Row, first: Row, result: Result) -> dict[str, Cell]:
    return {
        "begun": time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(result.begun)),
        "machine": result.machine.title,
        "kind": result.kind.value,
        "benchmark": result.plan.title,
        "name": row.rung.name,
        "title": whole_title(row.rung, result.plan),  # spreadsheets take one that begins with + for a formula
        "side": row.rung.side,
        "model": str(row.rung.asked.get("model", {}).get("source", "")),
        "batch_size": row.rung.batch,
        **_figures(row),
        "speed_ratio": speed_against(row, first),
        "memory_ratio": memory_against(row, first),
        **_memory(row),
        **_surroundings(row),
        "note": row.rung.note,
        "reason": row.reason,
    }


def _figures(row: Row) -> dict[str, Cell]:
    samples = row.samples
    return {
        "device": samples[0].device if samples else "",
        "passes": len(samples),
        "steps": sum(len(sample.seconds) for sample in samples),
        **_spread("step_seconds", row.step_seconds),
        **_spread("samples_per_second", row.samples_per_second),
        **_spread("epoch_seconds", row.epoch_seconds),
        "compile_seconds": row.compile_seconds if samples else None,
        "samples_per_joule": row.samples_per_joule,
        "first_loss": samples[0].first_loss if samples else None,
    }


def _spread(name: str, found: Spread | None) -> dict[str, Cell]:
    return {
        name: found.median if found else None,
        f"{name}_lower_quartile": found.lowest if found else None,
        f"{name}_upper_quartile": found.highest if found else None,
    }


def _memory(row: Row) -> dict[str, Cell]:
    fullest = row.fullest
    parts = Parts.__struct_fields__
    return {
        "peak_bytes": row.peak,
        "base_bytes": fullest.base if fullest else None,
        **{f"{name}_bytes": getattr(fullest.parts, name) if fullest else None for name in parts},
    }


def _surroundings(row: Row) -> dict[str, Cell]:
    """The worst of the passes; of the power the mean."""
    around = [one.surroundings for one in row.passes if one.sample is not None]
    watts = [one.watts for one in around if one.watts is not None]
    return {
        "disturbed": int(row.is_disturbed) if around else None,
        "other_load": max((one.other_load for one in around if one.other_load is not None), default=None),
        "throttled": ", ".join(dict.fromkeys(why for one in around for why in one.throttled)),
        "on_battery": max(
            (int(one.on_battery) for one in around if one.on_battery is not None), default=None
        ),
        "gpu_others_bytes": row.gpu_others,
        "watts": sum(watts) / len(watts) if watts else None,
        "power_source": next((one.power_source for one in around if one.power_source), ""),
    }
