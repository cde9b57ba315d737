"""The result of a benchmark as a table, Markdown and CSV, and its conclusion."""

import csv
import io
from dataclasses import replace

import pytest

from core.benchmark import table as tables
from core.benchmark.figures import Figures
from core.benchmark.plan import BenchmarkKind
from core.benchmark.table import conclusion, table_of
from core.runs.status import State
from tests.fakes.bench import figures, result

STEADY, FAST, WIDE = (1.0, 1.0, 1.0, 1.0), (0.5, 0.5, 0.5, 0.5), (0.8, 1.0, 1.2, 1.0)
MB = 1 << 20


def methods(**more):
    """Three measured rows, one that failed, one refused, and one that waits."""
    return result(
        figures("Plain", STEADY, 800 * MB),
        figures("bf16", FAST, 200 * MB),
        figures("fp16", WIDE, 400 * MB, note="Losses are scaled."),
        figures("Adafactor", problem="It ran\nout of patience.", state=State.FAILED),
        figures("8-bit AdamW", refusal="it needs a CUDA GPU"),
        figures("compile", state=State.QUEUED),
        **more,
    )


def devices(**first):
    """ResNet-18 in two batches on two devices; `first` changes the first row."""
    rows = [
        figures(
            f"ResNet-18, batch {batch}",
            seconds,
            name=f"resnet18-{batch}-{side.lower()}",
            group=f"resnet18-{batch}",
            side=side,
            first_loss=2.31,
            **{"memory.batch_size": batch},
        )
        for batch in (4, 64)
        for side, seconds in (("CPU", STEADY), ("MPS", FAST))
    ]
    rows[0] = replace(rows[0], **first)
    return result(*rows, kind=BenchmarkKind.DEVICES)


def column(of, title, place=0, **more):
    """The texts below a heading, or below the next one of the same title; None where words take their place."""
    table = table_of(of, **more)
    at = [number for number, one in enumerate(table.columns) if one.title == title][place]
    return [line.cells[at] if not line.words else None for line in table.lines]


def lines_of(of):
    return list(csv.DictReader(io.StringIO(tables.csv(of))))


def test_methods_are_compared_with_plain():
    for (title, place), texts in {
        ("Epoch", 0): ["2 min 08 s", "1 min 04 s", "2 min 08 s"],
        ("Step", 0): ["1.00 s", "500 ms", "1.00 s"],
        ("Examples/s", 0): ["4.00", "8.00", "4.00"],
        ("Quartiles", 0): ["", "", "3.81 – 4.21"],
        ("Speed vs. baseline", 0): ["1.00 ×", "2.00 ×", "1.00 ×"],
        ("Peak memory", 0): ["800 MB", "200 MB", "400 MB"],
        ("Memory vs. baseline", 0): ["1.00 ×", "0.25 ×", "0.50 ×"],
    }.items():
        assert column(methods(), title, place) == [*texts, None, None, None]


def test_devices_are_compared_with_the_first_of_their_group():
    both = devices()
    assert column(both, "Setting") == ["CPU", "MPS", "CPU", "MPS"]
    assert column(both, "Speed vs. CPU") == ["1.00 ×", "2.00 ×", "1.00 ×", "2.00 ×"]
    assert column(both, "First loss") == ["2.31"] * 4
    failed = devices(seconds=(), problem="It was killed.")
    assert column(failed, "Speed vs. CPU") == [None, "", "1.00 ×", "2.00 ×"]
    assert table_of(failed).lines[0].cells == ("ResNet-18, batch 4, CPU",)


def test_a_row_without_figures_says_why_or_what_its_run_does():
    assert [line.words for line in table_of(methods()).lines][2:] == [
        "",
        "failed: It ran out of patience",
        "not measured: it needs a CUDA GPU",
        "queued",
    ]


def test_a_note_has_what_must_be_known_and_a_tip_the_details():
    slowed = figures("Plain", STEADY, is_disturbed=True, remarks=("on battery",), problem="It fell.")
    (line,) = table_of(result(slowed)).lines
    assert line.note == "failed: It fell; on battery"
    assert line.cells[0] == "Plain †"
    assert "4 steps" in line.tip
    assert table_of(methods()).lines[2].note == "Losses are scaled"


def test_optional_columns_are_there_where_they_have_a_value():
    assert not {one.title for one in table_of(methods()).columns} & {"Compiling", "Setting"}
    both = result(figures("plain", STEADY), figures("compile", STEADY, compile_seconds=31.4))
    assert column(both, "Compiling") == ["", "31.4 s"]


def test_published_figures_are_columns():
    rows = column(methods(), "Published speed, memory", with_published=True)
    assert rows[:3] == ["1.00 ×, 1.00 ×", "2.10 ×, 0.93 ×", "2.10 ×, 0.93 ×"]
    assert "Tesla V100" in tables.text(methods(), with_published=True)
    assert column(devices(), "Published", with_published=True)[:2] == ["CPU 42.1 s", "MPS 18.6 s, 2.26 ×"]
    assert "ublished" not in tables.text(methods(has_published=False), with_published=True)
    assert "ublished" not in tables.markdown(devices())


def test_markdown_is_a_table_with_the_conditions_of_measuring():
    text = tables.markdown(methods())
    lines = text.splitlines()
    assert lines[0] == "### BERT-tiny, 512 examples"
    assert lines[3].startswith("| --- | ---: |")
    assert lines[4].startswith("| Plain | 2 min 08 s | 1.00 s | 4.00 |  | 1.00 × | 800 MB | 1.00 × |")
    for part in ("Measured on Invented M9 Max GPU", "torch 2.13.0", "after 1 step of warm-up"):
        assert part in text
    escaped = tables.markdown(result(figures("a|b <b>*", refusal="no | <script>\nyes")))
    assert "| a\\|b &lt;b&gt;\\* |" in escaped
    assert "no \\| &lt;script&gt;" in escaped


def test_csv_has_a_line_per_row_in_plain_numbers():
    plain, bf16, *_, refused, waiting = lines_of(methods())
    assert (plain["name"], bf16["name"]) == ("plain", "bf16")
    assert (float(bf16["samples_per_second"]), float(bf16["speed_ratio"])) == (8.0, 2.0)
    assert int(bf16["peak_bytes"]) == 200 * MB
    assert (plain["device"], plain["steps"]) == ("Invented M9 Max GPU (MPS)", "4")
    assert (waiting["step_seconds_median"], waiting["peak_bytes"]) == ("", "")
    assert refused["reason"] == "it needs a CUDA GPU"
    first, second, *_ = lines_of(devices())
    assert (first["batch_size"], first["side"], float(first["speed_ratio"])) == ("4", "CPU", 1.0)
    assert (second["batch_size"], second["side"], float(second["speed_ratio"])) == ("4", "MPS", 2.0)


# --- Conclusions


PLAIN = figures("plain", (1.0, 1.0, 1.1, 1.2))
SPREAD = (0.9, 1.0, 1.1, 1.2)


CONCLUSIONS: dict[str, tuple[tuple[Figures, ...], str]] = {
    "no rows": ((), "Nothing"),
    "nothing measured": ((figures("plain"),), "Nothing"),
    "plain alone": ((PLAIN, figures("tf32", refusal="no")), "Only the baseline"),
    "plain refused": ((figures("plain", refusal="too large"), figures("bf16", 0.5)), "(too large)"),
    "plain missing": ((figures("plain"), figures("bf16", 0.5)), "no figures"),
    "fastest and leanest": (
        (
            PLAIN,
            figures("bf16", 0.5, 900),
            figures("all + Adafactor", 0.9, 330),
            figures("bf16 + sdpa", 0.35, 800),
        ),
        "bf16 + sdpa, 3.00 times as fast as the baseline, with 80 % of its memory. Least memory without being "
        "slower than the baseline: all + Adafactor, 1.17 times as fast as the baseline, with 33 % of its memory.",
    ),
    "both at once": (
        (PLAIN, figures("bf16", 0.5, 900), figures("bf16 + sdpa", 0.4, 300)),
        "Fastest, and with the least memory of all that are at least as fast as the baseline: bf16 + sdpa, "
        "2.62 times as fast as the baseline, with 30 % of its memory.",
    ),
    "within the spread": ((PLAIN, figures("bf16", SPREAD)), "No method was faster"),
    "leaner": ((PLAIN, figures("Adafactor", SPREAD, 700)), "within the spread, with 70 % of its memory"),
    "leaner but slower": ((PLAIN, figures("checkpointing", 2.0, 300)), "None took less memory"),
    "hardly leaner": ((PLAIN, figures("Adafactor", SPREAD, 970)), "None took less memory"),
    "few weights": (
        (PLAIN, figures("bf16", 0.5, 900), figures("LoRA", 0.25, 200, **{"model.method": "lora"})),
        "Few trainable parameters: LoRA, 4.20 times as fast as the baseline, with 20 % of its memory.",
    ),
    "other texts": (
        (
            PLAIN,
            figures("bf16", 0.5, 900),
            figures("padding", 0.3, 700, **{"data.train": "synthetic:512x8-64"}),
        ),
        "with 90 % of its memory. On texts of different lengths padding is 3.50 times as fast as the baseline.",
    ),
    "slowed": ((PLAIN, figures("bf16", 0.5, is_disturbed=True)), "1 of 2 rows"),
    "plain slowed": ((figures("plain", 1.0, is_disturbed=True), figures("bf16", 0.5)), "Too many rows"),
    "still training": (
        (PLAIN, figures("bf16", 0.5, 900), figures("sdpa", 0.1, 100, state=State.TRAINING)),
        "So far: Fastest, and with the least memory of all that are at least as fast as the baseline: bf16, 2.10 times",
    ),
    "plain still training": (
        (figures("plain", 1.0, state=State.TRAINING), figures("bf16", 0.5)),
        "So far: There is nothing to compare with",
    ),
    "one step": ((PLAIN, figures("bf16", (0.5,), 900)), "Too few steps"),
    "one step of plain": ((figures("plain", (1.0,)), figures("bf16", 0.5, 900)), "Too few steps"),
    "one slowed": (
        (PLAIN, figures("bf16", 0.5, 900), figures("sdpa", 0.1, 100, is_disturbed=True)),
        "bf16, 2.10 times",
    ),
}


@pytest.mark.parametrize(("rows", "words"), CONCLUSIONS.values(), ids=CONCLUSIONS)
def test_the_conclusion_on_methods(rows, words):
    assert words in conclusion(result(*rows))


def test_the_conclusion_on_devices():
    rows = [
        figures(title, seconds, group=title, side=side)
        for title, both in {"ResNet-18": (1.0, 0.5), "VGG-16": (3.0, 0.6), "AlexNet": (1.0,)}.items()
        for side, seconds in zip(("CPU", "MPS"), both, strict=False)
    ]
    slowed = figures("ResNet-18", 0.5, group="ResNet-18", side="MPS", is_disturbed=True)
    for part, words in (
        (rows, "MPS is 2.00 to 5.00 times as fast as CPU: least with ResNet-18, most with VGG-16."),
        (rows[:2], "MPS is 2.00 times as fast as CPU (ResNet-18)."),
        (rows[:1], "Nothing"),
        ((rows[0], slowed), "1 of 2 rows"),
    ):
        assert words in conclusion(result(*part, kind=BenchmarkKind.DEVICES))
