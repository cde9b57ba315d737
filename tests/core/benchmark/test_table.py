"""Results as tables, Markdown and CSV; whether losses agree; conclusions; the comparison of two results."""

import csv
import io
from collections.abc import Sequence

import msgspec
import pytest

from core.base.errors import OptionsError
from core.benchmark import table as tables
from core.benchmark.plan import Kind, Variant
from core.benchmark.result import Conditions, Pass, Row, Sample
from core.benchmark.table import HALF_TOLERANCE, Change, Tone, agreement, compare, conclusion, table_of
from tests.fakes.bench import MACHINE, MB, measured, plan, result, sample, variant

STEADY, FAST, WIDE = (1.0, 1.0, 1.0, 1.0), (0.5, 0.5, 0.5, 0.5), (0.8, 1.0, 1.2, 1.0)
BUSY = Conditions(other_load=0.34, throttled=("too hot",), on_battery=True)


def methods():
    """Three measured rows, one that failed, one refused, and one that isn't measured yet."""
    failed = Row(variant=variant("adafactor"), passes=(Pass(begun=1.0, problem="It ran\nout of patience."),))
    return result(
        measured(variant("plain"), *STEADY, peak=800 * MB),
        measured(variant("bf16"), *FAST, peak=200 * MB),
        measured(variant("fp16", note="Losses are scaled."), *WIDE, peak=400 * MB),
        failed,
        Row(variant=variant("adamw-8bit", refusal="it needs a CUDA GPU")),
        Row(variant=variant("compile")),
        passes=1,
    )


def devices(**first):
    """ResNet-18 in two batches on two devices; `first` changes the first row."""
    rows = []
    for batch in (4, 64):
        for side, seconds in (("CPU", STEADY), ("MPS", FAST)):
            asked = {"model": {"source": "torchvision:resnet18"}, "memory": {"batch_size": batch}}
            of = variant(f"resnet18-{batch}-{side.lower()}", group=f"resnet18-{batch}", side=side)
            title = f"ResNet-18, batch {batch}"
            rows.append(measured(msgspec.structs.replace(of, asked=asked, title=title), *seconds))
    rows[0] = msgspec.structs.replace(rows[0], **first)
    return result(*rows, kind=Kind.DEVICES)


def column(of, title, place=0, **more):
    """The texts below a heading, or below the next one of the same title; None where words take their place."""
    table = table_of(of, **more)
    at = [number for number, heading in enumerate(table.headings) if heading.title == title][place]
    return [line.cell(at).text if line.words is None else None for line in table.lines]


def lines_of(of):
    return list(csv.DictReader(io.StringIO(tables.csv(of))))


def test_methods_are_compared_with_plain():
    for (title, place), texts in {
        ("Epoch", 0): ["8.00 s", "4.00 s", "8.00 s"],
        ("Examples/s", 0): ["8.00", "16.0", "8.00"],
        ("IQR", 0): ["", "", "7.62 – 8.42"],
        ("vs. baseline", 0): ["1.00 ×", "2.00 ×", "1.00 ×"],
        ("Peak memory", 0): ["800 MB", "200 MB", "400 MB"],
        ("vs. baseline", 1): ["1.00 ×", "0.25 ×", "0.50 ×"],
    }.items():
        assert column(methods(), title, place) == [*texts, None, None, None]


def test_devices_are_compared_with_the_first_of_their_group():
    both = devices()
    assert column(both, "Setting") == ["CPU", "MPS", "CPU", "MPS"]
    assert column(both, "Epoch") == ["8.00 s", "4.00 s", "8.00 s", "4.00 s"]
    assert column(both, "vs. CPU") == ["1.00 ×", "2.00 ×", "1.00 ×", "2.00 ×"]
    assert column(both, "Losses") == ["", "agree (exactly)", "", "agree (exactly)"]
    failed = devices(passes=(Pass(begun=1.0, problem="It was killed."),))
    assert column(failed, "vs. CPU") == [None, "", "1.00 ×", "2.00 ×"]
    assert column(failed, "Losses") == [None, "", "", "agree (exactly)"]
    assert table_of(failed).lines[0].cells[0].text == "ResNet-18, batch 4, CPU"


def test_a_row_without_figures_says_why():
    words = [line.words and line.words.text for line in table_of(methods()).lines]
    assert words[2:] == [
        None,
        "failed: It ran out of patience",
        "not measured: it needs a CUDA GPU",
        "not measured",
    ]
    running = msgspec.structs.replace(methods(), ended=None, is_whole=False)
    assert table_of(running).lines[5].words.text == "waits for its turn"
    assert table_of(running, underway="compile").lines[5].words.text == "being measured…"


def test_a_note_has_what_must_be_known_and_a_tip_the_details():
    disturbed = measured(variant("plain"), *STEADY, conditions=BUSY)
    passes = (*disturbed.passes, Pass(begun=1.0, problem="It fell."))
    (line,) = table_of(result(msgspec.structs.replace(disturbed, passes=passes))).lines
    assert line.note == "disturbed: other load of 34 %, too hot; on battery; 1 of 2 passes failed: It fell"
    assert line.cells[0].text == "Plain †"
    assert "4 steps in 1 passes" in line.tip
    assert "Peak memory: 100 MB (weights 50.0 MB, activations 50.0 MB)" in line.tip
    assert table_of(methods()).lines[2].note == "Losses are scaled"


def test_optional_columns_are_there_where_they_have_a_value():
    titles = {heading.title for heading in table_of(methods()).headings}
    assert not titles & {"Compiling", "Setting"}
    compiled = Pass(begun=1.0, sample=sample(*STEADY, compile_seconds=31.4))
    both = result(measured(variant("plain")), Row(variant=variant("compile"), passes=(compiled,)))
    assert column(both, "Compiling") == ["", "31.4 s"]


def test_published_figures_are_columns():
    rows = column(methods(), "Published speed, memory", published=True)
    assert rows[:3] == ["1.00 ×, 1.00 ×", "2.10 ×, 0.93 ×", "2.10 ×, 0.93 ×"]
    assert "Tesla V100" in tables.text(methods(), published=True)
    assert column(devices(), "Published", published=True)[:2] == ["CPU 42.1 s", "MPS 18.6 s, 2.26 ×"]
    own = msgspec.structs.replace(devices().rows[0], variant=variant("own-4-cpu", group="own-4", side="CPU"))
    assert column(result(own, kind=Kind.DEVICES), "Published", published=True) == [""]
    assert "ublished" not in tables.markdown(devices())


def test_markdown_is_a_table_with_the_conditions_of_measuring():
    text = tables.markdown(methods())
    lines = text.splitlines()
    assert lines[0] == "### Tiny BERT, 64 rows"
    assert lines[3].startswith("| --- | ---: |")
    assert lines[4].startswith("| Plain | 8.00 s | 8.00 |  | 1.00 × | 800 MB | 1.00 × |")
    for part in ("Test CPU, 8 cores, 32.0 GB, Test GPU, 24 GB, Linux 6.1", "torch 2.13.0", "2025-10-09"):
        assert part in text
    assert "4 steps x 1 pass, after 1 step of warm-up" in text
    unfinished = tables.markdown(msgspec.structs.replace(methods(), is_whole=False))
    assert len(unfinished.splitlines()) == len(lines) + 1
    escaped = tables.markdown(result(Row(variant=variant("a|b <b>*", refusal="no | <script>\nyes"))))
    assert "| A\\|B &lt;B&gt;\\* |" in escaped
    assert "no \\| &lt;script&gt; yes" in escaped
    empty = msgspec.structs.replace(result(), plan=plan())
    assert ("| Method |" in tables.markdown(empty), tables.csv(empty)) == (True, "")


def test_csv_has_a_line_per_row_in_plain_numbers():
    plain, bf16, *_, refused, waiting = lines_of(methods())
    assert (plain["name"], bf16["name"]) == ("plain", "bf16")
    assert (float(bf16["samples_per_second"]), float(bf16["speed_ratio"])) == (16.0, 2.0)
    assert int(bf16["peak_bytes"]) == 200 * MB
    assert int(bf16["weights_bytes"]) + int(bf16["activations_bytes"]) == 200 * MB
    assert (plain["machine"], plain["steps"], plain["disturbed"]) == ("Test GPU, 24 GB", "4", "0")
    assert (waiting["step_seconds_median"], waiting["peak_bytes"], waiting["disturbed"]) == ("", "", "")
    assert refused["reason"] == "it needs a CUDA GPU"
    first, second, *_ = lines_of(devices())
    assert (first["batch_size"], first["side"], float(first["speed_ratio"])) == ("4", "CPU", 1.0)
    assert (second["batch_size"], second["side"], float(second["speed_ratio"])) == ("4", "MPS", 2.0)
    added = msgspec.structs.replace(variant("b"), title="+ checkpointing")
    titles = [line["title"] for line in lines_of(result(measured(variant("a")), measured(added)))]
    assert titles[1] == "A + checkpointing", "a spreadsheet takes what begins with + for a formula"


# --- Agreement


def losing(precision="fp32", **changes):
    first = Sample(
        device="cpu", seconds=(1.0,), samples_a_step=4, rows=8, first_loss=2.5, losses=(2.4, 2.3, 2.2)
    )
    of = Variant(name="one", title="one", asked={"device": {"precision": precision}})
    return Row(variant=of, passes=(Pass(begun=0.0, sample=msgspec.structs.replace(first, **changes)),))


CLOSE = 2.5 * (1 + 0.9 * HALF_TOLERANCE)


@pytest.mark.parametrize(
    ("row", "agrees"),
    [
        (losing(), True),
        (losing(first_loss=2.5 + 5e-6), True),
        (losing(first_loss=2.3), False),
        (losing(losses=(2.4 * 1.02, 2.3, 2.2)), False),
        (losing(is_random=True, losses=(9.0,)), True),
        (losing(losses=(2.4, 2.3, 2.0)), True),  # later steps aren't compared
        *((losing(precision, first_loss=CLOSE), True) for precision in ("bf16", "fp16", "tf32")),
        (losing(first_loss=CLOSE), False),
        (losing("bf16", first_loss=2.5 * (1 + 2 * HALF_TOLERANCE)), False),
        (losing(first_loss=None), False),
        (losing(losses=(None, None)), False),
    ],
    ids=range(13),
)
def test_losses_before_training_are_compared(row, agrees):
    assert agreement(row, losing()).tone is (Tone.GOOD if agrees else Tone.WARNING)


def test_nothing_is_compared_without_losses():
    empty = Row(variant=Variant(name="two", title="two", asked={}, refusal="no such device"))
    lacking = losing(first_loss=None, losses=())
    assert agreement(losing(), empty) is agreement(lacking, losing(first_loss=None, losses=())) is None


# --- Conclusions


def row(title, steps=(), peak=1000, load=0.0, **more):
    seconds = tuple(steps) if isinstance(steps, Sequence) else (steps,)
    asked = {"model": {"method": more.pop("method", "full")}, "data": {"train": more.pop("data", "same")}}
    of = Variant(name=f"{title}{more.get('side', '')}", title=title, asked=asked, **more)
    taken = Sample(device="cpu", seconds=seconds, samples_a_step=4, rows=512, peak=peak)
    passes = (Pass(begun=0.0, sample=taken, conditions=Conditions(other_load=load)),) if seconds else ()
    return Row(variant=of, passes=passes)


PLAIN = row("plain", (1.0, 1.0, 1.1, 1.2))
SPREAD = (0.9, 1.0, 1.1, 1.2)


CONCLUSIONS: dict[str, tuple[tuple[Row, ...], str]] = {
    "no rows": ((), "Nothing"),
    "nothing measured": ((row("plain"),), "Nothing"),
    "plain alone": ((PLAIN, row("tf32", refusal="no")), "Only the baseline"),
    "plain refused": ((row("plain", refusal="too large"), row("bf16", 0.5)), "(too large)"),
    "plain missing": ((row("plain"), row("bf16", 0.5)), "no figures"),
    "fastest and leanest": (
        (PLAIN, row("bf16", 0.5, 900), row("all + Adafactor", 0.9, 330), row("bf16 + sdpa", 0.35, 800)),
        "bf16 + sdpa, 3.00 times as fast as the baseline, with 80 % of its memory. Least memory without being "
        "slower than the baseline: all + Adafactor, 1.17 times as fast as the baseline, with 33 % of its memory.",
    ),
    "both at once": (
        (PLAIN, row("bf16", 0.5, 900), row("bf16 + sdpa", 0.4, 300)),
        "Fastest, with the least memory: bf16 + sdpa, 2.62 times as fast as the baseline, with 30 % of its memory.",
    ),
    "within the spread": ((PLAIN, row("bf16", SPREAD)), "No method was faster"),
    "leaner": ((PLAIN, row("Adafactor", SPREAD, 700)), "within the spread, with 70 % of its memory"),
    "leaner but slower": ((PLAIN, row("checkpointing", 2.0, 300)), "None took less memory"),
    "hardly leaner": ((PLAIN, row("Adafactor", SPREAD, 970)), "None took less memory"),
    "added": (
        (PLAIN, row("bf16 + sdpa", 0.5), row("+ compile", 0.3, 900)),
        "bf16 + sdpa + compile, 3.50 times",
    ),
    "few weights": (
        (PLAIN, row("bf16", 0.5, 900), row("LoRA", 0.25, 200, method="lora")),
        "Few trainable parameters: LoRA, 4.20 times as fast as the baseline, with 20 % of its memory.",
    ),
    "other texts": (
        (PLAIN, row("bf16", 0.5, 900), row("padding", 0.3, 700, data="other")),
        "with 90 % of its memory. On texts of different lengths padding is 3.50 times as fast as the baseline.",
    ),
    "disturbed": ((PLAIN, row("bf16", 0.5, load=0.6)), "1 of 2 rows"),
    "plain disturbed": ((row("plain", 1.0, load=0.6), row("bf16", 0.5)), "Too many rows"),
    "one disturbed": ((PLAIN, row("bf16", 0.5, 900), row("sdpa", 0.1, 100, load=0.6)), "bf16, 2.10 times"),
}


@pytest.mark.parametrize(("rows", "words"), CONCLUSIONS.values(), ids=CONCLUSIONS)
def test_the_conclusion_on_methods(rows, words):
    assert words in conclusion(result(*rows))


def test_the_conclusion_on_devices():
    rows = [
        row(title, seconds, group=title, side=side)
        for title, both in {"ResNet-18": (1.0, 0.5), "VGG-16": (3.0, 0.6), "AlexNet": (1.0,)}.items()
        for side, seconds in zip(("CPU", "MPS"), both, strict=False)
    ]
    disturbed = row("ResNet-18", 0.5, group="ResNet-18", side="MPS", load=0.6)
    for part, words in (
        (rows, "MPS is 2.00 to 5.00 times as fast as CPU: least with ResNet-18, most with VGG-16."),
        (rows[:2], "MPS is 2.00 times as fast as CPU (ResNet-18)."),
        (rows[:1], "Nothing"),
        ((rows[0], disturbed), "1 of 2 rows"),
    ):
        assert words in conclusion(result(*part, kind=Kind.DEVICES))


# --- The comparison of two results


SLOW = (1.0, 1.02, 0.98, 1.01)


def later(*rows, **more):
    return result(*rows, begun=1_770_000_000.0, **more)


def test_rows_are_matched_by_their_variant():
    earlier = result(measured(variant("plain"), *SLOW, peak=200 * MB), measured(variant("gone")))
    newer = later(measured(variant("new")), measured(variant("plain"), *FAST, peak=100 * MB))
    comparison = compare(newer, earlier)
    plain, new, gone = comparison.rows
    assert [row.title for row in comparison.rows] == ["Plain", "New", "Gone"]
    assert plain.speed == pytest.approx(2.01)
    assert (new.earlier, new.speed, new.change, gone.later) == (None, None, Change.UNKNOWN, None)
    assert new.reason != gone.reason
    line, *others = tables.comparison_table(comparison).lines
    texts = [cell.text for cell in line.cells]
    assert texts == ["Plain", "7.96", "16.0", "2.01 ×", "faster", "200 MB", "100 MB", "0.50 ×"]
    assert all(other.words is not None for other in others)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (SLOW, FAST, Change.FASTER),
        (FAST, SLOW, Change.SLOWER),
        (SLOW, (0.6, 1.4, 0.7, 1.2), Change.SAME),
        (SLOW[:2], FAST[:2], Change.UNKNOWN),
    ],
)
def test_a_change_is_one_beyond_both_spreads(before, after, change):
    comparison = compare(result(measured(variant("a"), *before)), later(measured(variant("a"), *after)))
    assert (comparison.rows[0].change, comparison.notes) == (change, ())


def test_other_differences_are_notes():
    versions = {"hone": "0.1.0", "torch": "2.14.0", "peft": "1"}
    machine = msgspec.structs.replace(MACHINE, title="Mac", accelerator="", versions=versions)
    asked = msgspec.structs.replace(variant("b"), asked={"device": {"name": "mps"}}, title="+ b")
    newer = later(
        measured(variant("a"), conditions=BUSY), measured(asked), machine=machine, steps=9, passes=1
    )
    earlier = result(measured(variant("a")), measured(variant("b")))
    notes = compare(earlier, msgspec.structs.replace(newer, is_whole=False)).notes
    topics = ["Amount", "Computer", "Accelerator", "torch", "peft", "Other options", "Disturbed", "The later"]
    assert [note[: len(topic)] for note, topic in zip(notes, topics, strict=True)] == topics
    assert notes[3:5] == ("torch: earlier 2.13.0, later 2.14.0.", "peft: earlier none, later 1.")


def test_only_two_different_results_of_one_kind_are_compared():
    one = result(measured(variant("a")))
    with pytest.raises(OptionsError, match="the same result"):
        compare(one, one)
    with pytest.raises(OptionsError, match="one is a benchmark of methods"):
        compare(one, later(measured(variant("a")), kind=Kind.DEVICES))
