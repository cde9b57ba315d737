"""Results as tables: what stands in which column, what is remarked, what Markdown and CSV make of it."""

import csv
import io

import msgspec
import pytest

from core.benchmark import table as benchmark_table
from core.benchmark.plan import Kind
from core.benchmark.result import Pass, Result, Row, Surroundings
from tests.fakes.bench import MB, measured, plan, result, rung, sample

STEADY, FAST, WIDE = (1.0, 1.0, 1.0, 1.0), (0.5, 0.5, 0.5, 0.5), (0.8, 1.0, 1.2, 1.0)


def methods() -> Result:
    failed = Row(rung=rung("adafactor"), passes=(Pass(begun=1.0, problem="It ran\nout of patience."),))
    return result(
        measured(rung("plain"), *STEADY, peak=800 * MB),
        measured(rung("bf16"), *FAST, peak=200 * MB),
        measured(rung("fp16", note="Losses are scaled."), *WIDE, peak=400 * MB),
        failed,
        Row(rung=rung("adamw-8bit", refusal="it needs a CUDA GPU")),
        Row(rung=rung("compile")),
        passes=1,
    )


def devices(**first: object) -> Result:
    rows = []
    for batch in (4, 64):
        for side, seconds in (("CPU", STEADY), ("MPS", FAST)):
            asked = {"model": {"source": "torchvision:resnet18"}, "memory": {"batch_size": batch}}
            of = rung(f"resnet18-{batch}-{side.lower()}", group=f"resnet18-{batch}", side=side)
            title = f"ResNet-18, batch {batch}"
            rows.append(measured(msgspec.structs.replace(of, asked=asked, title=title), *seconds))
    rows[0] = msgspec.structs.replace(rows[0], **first)
    return result(*rows, kind=Kind.DEVICES)


def cells(found: Result, column: str) -> list[object]:
    table = benchmark_table.table(found)
    assert {len(row) for row in table.rows} == {len(table.titles)}
    return [row[table.titles.index(column)] for row in table.rows]


class TestMethods:
    def test_each_is_held_against_the_plain_one(self) -> None:
        assert cells(methods(), "Time an epoch") == ["8.00 s", "4.00 s", "8.00 s", "-", "-", "-"]
        assert cells(methods(), "Against plain") == ["1.00 x", "2.00 x", "1.00 x", "-", "-", "-"]
        assert benchmark_table.table(methods()).titles[5] == "Against plain"
        assert [row[5] for row in benchmark_table.table(methods()).rows][:3] == ["1.00 x", "0.25 x", "0.50 x"]
        assert cells(methods(), "Peak memory")[:3] == ["800 MB", "200 MB", "400 MB"]

    def test_a_spread_is_shown_where_there_is_one(self) -> None:
        assert cells(methods(), "Samples/s")[:3] == ["8.00", "16.0", "8.00 (7.62 to 8.42)"]

    def test_a_row_without_figures_tells_why(self) -> None:
        assert cells(methods(), "Notes") == [
            "",
            "",
            "Losses are scaled",
            "It ran out of patience",
            "it needs a CUDA GPU",
            "not measured",
        ]

    def test_what_disturbed_a_row_is_remarked(self) -> None:
        busy = Surroundings(other_load=0.34, throttled=("too hot",), on_battery=True)
        found = measured(rung("plain"), *STEADY, surroundings=busy)
        failed = Pass(begun=1.0, problem="It fell.")
        found = msgspec.structs.replace(found, passes=(*found.passes, failed))
        assert cells(result(found), "Notes") == [
            "* disturbed: other load of 34 %, too hot; on battery; 1 of 2 passes failed: It fell"
        ]

    def test_compiling_is_told_apart(self) -> None:
        one = Pass(begun=1.0, sample=sample(*STEADY, compile_seconds=31.4))
        assert cells(result(Row(rung=rung("compile"), passes=(one,))), "Notes") == [
            "compiling took 31.4 s, not counted"
        ]

    def test_what_the_guide_published_stands_beside(self) -> None:
        rows = benchmark_table.table(methods(), published=True).rows
        assert [row[-3:-1] for row in rows][:3] == [
            ("1.00 x", "1.00 x"),
            ("2.10 x", "0.93 x"),
            ("2.10 x", "0.93 x"),
        ]
        assert rows[5][-3:-1] == ("-", "-")
        assert "Tesla V100" in benchmark_table.text(methods(), published=True)

    def test_samples_a_joule_stand_there_where_power_could_be_read(self) -> None:
        with_power = measured(rung("plain"), *STEADY, surroundings=Surroundings(watts=4.0))
        assert cells(result(with_power, measured(rung("b"))), "Samples/J") == ["2.00", "-"]
        assert "Samples/J" not in benchmark_table.table(methods()).titles


class TestDevices:
    def test_the_sides_of_a_model_stand_beside_each_other(self) -> None:
        found = devices()
        assert cells(found, "Model") == ["ResNet-18", "ResNet-18"]
        assert cells(found, "Batch") == ["4", "64"]
        assert cells(found, "CPU, s an epoch") == ["8.00", "8.00"]
        assert cells(found, "MPS, s an epoch") == ["4.00", "4.00"]
        assert cells(found, "Speed-up") == ["2.00 x", "2.00 x"]

    def test_a_side_without_figures_tells_why_under_its_name(self) -> None:
        found = devices(passes=(Pass(begun=1.0, problem="It was killed."),))
        assert cells(found, "CPU, s an epoch") == ["-", "8.00"]
        assert cells(found, "Speed-up") == ["-", "2.00 x"]
        assert cells(found, "Notes") == ["CPU: It was killed", ""]

    def test_whether_the_losses_agree_is_told_of_both(self) -> None:
        assert cells(devices(), "Losses agree") == ["agree (exactly)", "agree (exactly)"]
        assert cells(devices(passes=()), "Losses agree") == ["-", "agree (exactly)"]

    def test_what_others_published_stands_beside_where_they_did(self) -> None:
        found = devices()
        table = benchmark_table.table(found, published=True)
        assert table.rows[0][-4:-1] == ("42.1", "18.6", "2.26 x")
        assert {len(row) for row in table.rows} == {len(table.titles)}
        unknown = msgspec.structs.replace(found.rows[0], rung=rung("own-4-cpu", group="own-4", side="CPU"))
        assert benchmark_table.table(result(unknown, kind=Kind.DEVICES), published=True).rows[0][-4:-1] == (
            "-",
            "-",
            "-",
        )
        assert "Published by others" in benchmark_table.markdown(found, published=True)
        assert "ublished" not in benchmark_table.markdown(found)


class TestMarkdown:
    def test_it_is_a_table_with_what_has_to_be_known(self) -> None:
        text = benchmark_table.markdown(methods())
        lines = text.splitlines()
        assert lines[0] == "### Tiny BERT, 64 rows"
        assert lines[2].startswith("| Method | Time an epoch | Samples/s |")
        assert lines[3].startswith("| --- | ---: |")
        assert lines[4].startswith("| Plain | 8.00 s | 8.00 | 1.00 x | 800 MB | 1.00 x |")
        assert "Test CPU, 8 cores, 32 GB, Test GPU, 24 GB, Linux 6.1" in text
        assert "hone 0.1.0, torch 2.13.0" in text
        assert "2025-10-09" in text
        assert "4 steps x 1 pass, after 1 step of warm-up" in text
        assert "ended before" not in text

    def test_one_that_was_stopped_says_so(self) -> None:
        assert "ended before all passes" in benchmark_table.markdown(
            msgspec.structs.replace(methods(), is_whole=False)
        )

    def test_no_text_of_others_breaks_the_table(self) -> None:
        odd = rung("a|b <b>*", refusal="no | <script>\nyes")
        text = benchmark_table.markdown(result(Row(rung=odd)))
        assert "| A\\|B &lt;B&gt;\\* |" in text
        assert "no \\| &lt;script&gt; yes" in text

    def test_a_benchmark_of_nothing_is_a_table_too(self) -> None:
        empty = msgspec.structs.replace(result(), plan=plan())
        assert "| Method |" in benchmark_table.markdown(empty)
        assert benchmark_table.csv(empty) == ""


@pytest.mark.parametrize(("held", "said"), [(300 * MB, ""), (5 << 30, "others held 5.0 GB of the GPU")])
def test_what_others_held_of_the_gpu_is_noted(held: int, said: str) -> None:
    found = result(measured(rung("plain"), surroundings=Surroundings(gpu_others=held)))
    assert cells(found, "Notes") == [said]
    (line,) = csv.DictReader(io.StringIO(benchmark_table.csv(found)))
    assert line["gpu_others_bytes"] == str(held)


def test_whose_power_it_was_is_said() -> None:
    around = Surroundings(watts=100.0, power_source="NVML")
    assert "- Samples/J: by the power of the GPU alone, as NVML tells it." in benchmark_table.markdown(
        result(measured(rung("plain"), surroundings=around))
    )
    assert "Samples/J" not in benchmark_table.markdown(methods())


class TestText:
    def test_remarks_stand_below_the_table(self) -> None:
        text = benchmark_table.text(methods())
        assert "METHOD     " in text
        busy = measured(rung("plain"), surroundings=Surroundings(other_load=0.5))
        assert "not measured" not in text
        assert "Plain *" in benchmark_table.text(result(busy))
        assert "best trade here, in speed and in memory: Bf16, 2.00 times as fast as plain" in text
        assert "Adamw-8Bit: it needs a CUDA GPU" in text.splitlines()
        assert "ResNet-18, batch 4: CPU: no" in benchmark_table.text(
            devices(passes=(Pass(begun=1.0, problem="no"),))
        )


class TestCsv:
    def test_a_line_a_row_in_plain_numbers(self) -> None:
        lines = list(csv.DictReader(io.StringIO(benchmark_table.csv(methods()))))
        assert [line["name"] for line in lines][:3] == ["plain", "bf16", "fp16"]
        plain, bf16, *_, waiting = lines
        assert float(bf16["samples_per_second"]) == 16.0
        assert float(bf16["speed_ratio"]) == 2.0
        assert int(bf16["peak_bytes"]) == 200 * MB
        assert int(bf16["weights_bytes"]) + int(bf16["activations_bytes"]) == 200 * MB
        assert (plain["machine"], plain["steps"], plain["disturbed"]) == ("Test GPU, 24 GB", "4", "0")
        assert (waiting["step_seconds"], waiting["peak_bytes"], waiting["disturbed"]) == ("", "", "")
        assert lines[4]["reason"] == "it needs a CUDA GPU"

    def test_no_title_reads_as_a_formula(self) -> None:
        added = msgspec.structs.replace(rung("b"), title="+ checkpointing")
        found = result(measured(rung("a")), measured(added))
        lines = list(csv.DictReader(io.StringIO(benchmark_table.csv(found))))
        assert [line["title"] for line in lines] == ["A", "A + checkpointing"]

    def test_devices_are_held_against_the_first_of_their_group(self) -> None:
        lines = list(csv.DictReader(io.StringIO(benchmark_table.csv(devices()))))
        assert [(line["batch_size"], line["side"], float(line["speed_ratio"])) for line in lines] == [
            ("4", "CPU", 1.0),
            ("4", "MPS", 2.0),
            ("64", "CPU", 1.0),
            ("64", "MPS", 2.0),
        ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.04612, "0.369 s"), (12.495, "100 s"), (30.01, "240 s"), (300.0, "2,400 s")],
)
def test_times_have_three_figures(seconds: float, said: str) -> None:
    assert cells(result(measured(rung("a"), *[seconds] * 4)), "Time an epoch") == [said]
