"""The developers' benchmarks run, keep their results, and show in the exit status that a goal was missed."""

import math
import sys
import threading
from datetime import date

import pytest

from core.base.jobs import run_job
from core.engine.devices.capabilities import MLX_ON_CPU
from core.options.device_support import MachineReport, find_device
from tests.performance import __main__ as suite
from tests.performance import gpu, mac
from tests.performance.__main__ import BENCHMARKS, Benchmark, Form, Machine, Outcome, Record
from tests.performance.figures import ROOT, at_least, at_most, compared, figure, ratio_at_least, ratio_at_most

MACHINE = Machine(
    title="A computer", processor="ACME (R) @ 3 GHz", cores=2, memory=8 << 30, system="Linux 6.1.0-acme"
)
MODULE = """
import sys
from tests.performance.figures import at_most, figure, main
main("", lambda options: options.value > 0 and [figure("time", options.value, "s", peer=4.0, goal=at_most(2.0))] or
     sys.exit("nothing measured"), {"value": 1.0})
"""


@pytest.fixture(autouse=True)
def short_samples(monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "IDLE_SECONDS", 0.02)
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    (tmp_path / "tests" / "performance").mkdir(parents=True)
    (tmp_path / "tests" / "performance" / "synthetic.py").write_text(MODULE)


def entry(name: str, value: str) -> Benchmark:
    return Benchmark(name, "a synthetic time", "", "synthetic", f"--value {value}", f"--value {value}")


def run(folder, *wanted: Benchmark, form: Form = Form.FULL) -> tuple[int, Record]:
    status = suite.run_all(wanted, form, None, folder, MACHINE)
    (file,) = folder.glob("*.json")
    return status, suite.read(file)


def test_a_benchmark_in_its_short_form_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "ROOT", ROOT)
    status, record = run(tmp_path, *suite.by_name(["events"]), form=Form.QUICK)
    (outcome,) = record.outcomes
    assert outcome.problem == ""
    followed, slowest = outcome.figures
    assert status == (0 if followed.reached and slowest.reached else 1)
    assert record.machine.system == "Linux 6.1.0"


def test_goals_and_failures_decide_the_status_and_a_new_result_replaces_the_old(tmp_path):
    assert run(tmp_path, entry("a", "1"))[0] == 0
    assert run(tmp_path, entry("b", "3"))[0] == 1
    assert run(tmp_path, entry("c", "-1"), entry("a", "1.5"))[0] == 1
    _, record = run(tmp_path, entry("a", "0.1"), form=Form.QUICK)
    values = {(old.name, old.form): [row.value for row in old.figures] for old in record.outcomes}
    assert values == {("b", "full"): [3], ("c", "full"): [], ("a", "full"): [1.5], ("a", "quick"): [0.1]}
    assert record.outcomes[1].problem.endswith("nothing measured")
    page = suite.with_results(f"before {suite.BEGIN} old {suite.END} after", record)
    assert "| 1.5 s | 4 s | 0.375 | at most 2 s | reached |" in page
    assert "| `c`: a synthetic time | - | no figures: nothing measured |" in page
    assert "0.1 s" not in page
    assert (page[:7], page[-6:]) == ("before ", " after")


@pytest.mark.parametrize(
    ("more", "goal", "reached"),
    [
        ({"peer": 4.0}, at_most(2), True),
        ({"peer": 4.0}, at_least(2.1), False),
        ({"peer": 4.0}, ratio_at_most(0.5), True),
        ({"peer": 4.0}, ratio_at_least(0.51), False),
        ({"peer": 4.0, "ratio": 0.9}, ratio_at_least(0.51), True),
        ({}, ratio_at_most(1), False),
        ({}, None, None),
    ],
)
def test_a_goal_is_of_the_value_or_of_its_ratio_to_the_peer(more, goal, reached):
    assert figure("time", 2.0, goal=goal, **more).reached is reached


def test_rounds_are_compared_by_the_median_of_their_ratios():
    found = compared("pace", [(1.0, 1.0), (3.0, 2.0), (2.0, 4.0)])
    assert (found.value, found.peer, found.ratio, found.lowest, found.highest) == (2, 2, 1, 1, 3)


@pytest.mark.parametrize(("arguments", "status"), [(["nonsense"], 2), (["mrpc"], 2), (["--list"], 0)])
def test_the_command_line(arguments, status, tmp_path):
    assert suite.main([*arguments, "--results", str(tmp_path / "results")]) == status
    assert not (tmp_path / "results").exists()


def test_every_benchmark_has_a_module_and_a_group_has_its_members():
    for benchmark in BENCHMARKS:
        place = ROOT / "tests" / "performance" / benchmark.module
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists()
    assert len(suite.by_name(["faults"])) == 4
    assert suite.by_name([]) == [each for each in BENCHMARKS if not each.name.startswith(("gpu", "mac"))]


def test_the_page_shows_the_newest_results():
    page = suite.PAGE.read_text(encoding="utf-8")
    assert suite.with_results(page, suite.newest(suite.RESULTS)) == page


def test_the_table_marks_a_disturbed_benchmark():
    pace = figure("pace", 1230.0, "ms", peer=2460.0, among=(1200.0, 1300.0), goal=ratio_at_most(1.1))
    calm = Outcome(name="a", what="w", peer="p", form=Form.FULL, begun=1.0, figures=(pace,))
    loud = Outcome(name="b", what="w", peer="", form=Form.FULL, begun=1.0, busy_after=0.5, problem="x\ny|z")
    lines = suite.markdown(Record(date="2026-11-22", machine=MACHINE), [calm, loud]).splitlines()
    assert "2 cores, 8.00 GB, no GPU, Linux 6.1.0-acme, on 2026-11-22." in lines[0]
    assert lines[4:6] == [
        "| `a`: w | p | pace | 1,230 ms (1,200 to 1,300) | 2,460 ms | 0.5 | ratio at most 1.1 | reached |",
        "| `b`: w | - | no figures: y/z | | | | | |",
    ]
    assert "at the same time: b." in lines[-1]


def test_the_file_is_named_after_the_day_and_the_machine(tmp_path):
    name = suite.file_for(tmp_path, MACHINE, date(2026, 11, 22)).name
    assert name == "2026-11-22-acme-r-3-ghz-2-cores-linux.json"


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    """What a part needs without a card."""
    machine = run_job("devices", None, MachineReport)
    return gpu.Part(find_device(machine, "cpu"), machine, True, tmp_path_factory.mktemp("gpu"), math.inf)


@pytest.mark.parametrize("part", sorted({*suite.GPU_PARTS} - {"tests"}))
@pytest.mark.usefixtures("own_home")
def test_each_part_for_a_card_works_on_the_cpu(part, dry):
    figures = gpu.PARTS[part](dry)
    assert figures
    assert [row.name for row in figures if row.reached is False or "NOT AS ASKED" in row.name] == []


@pytest.mark.parametrize(
    "part",
    [
        "check",
        "resume",
        *(pytest.param(part, marks=pytest.mark.long) for part in ("ladder", "forecast", "heat")),
    ],
)
@pytest.mark.usefixtures("own_home")
def test_each_part_for_a_mac_works_on_the_cpu(part, tmp_path, monkeypatch):
    pytest.importorskip("mlx.core")
    monkeypatch.setenv(MLX_ON_CPU, "1")
    machine = run_job("devices", None, MachineReport)
    figures = mac.PARTS[part](gpu.Part(find_device(machine, "cpu"), machine, True, tmp_path, math.inf))
    assert [row.name for row in figures if row.reached is False or "left out" in row.name] == []
    if part == "check":
        assert sum(row.name.startswith("MLX: ") for row in figures) == 6


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([float(second) for second in range(101)], (60.0, 60.0)),
        ([*range(50), *range(50, 110, 2)], (60.0, 30.0)),
        ([1.0, 2.0], (0.0, 0.0)),
    ],
    ids=["steady", "slowed by heat", "too few"],
)
def test_the_pace_is_that_of_the_first_and_the_last_tenth(times, expected):
    assert mac.paces(times) == pytest.approx(expected, rel=0.15)


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac runs them")
def test_what_needs_a_mac_is_left_out_elsewhere_in_a_sentence(tmp_path, capsys):
    assert suite.main(["--mac", "--results", str(tmp_path / "results")]) == 0
    said = capsys.readouterr().out
    assert "because this is no Mac with Apple silicon" in said
    assert "mac-tests, mac-check, mac-ladder, mac-forecast, mac-resume, mac-heat" in said
    assert not (tmp_path / "results").exists()


def test_a_part_for_a_card_is_a_benchmark(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "ROOT", ROOT)
    status, record = run(tmp_path, *suite.by_name(["gpu-tests"]), form=Form.QUICK)
    (outcome,) = record.outcomes
    assert (status, outcome.problem, bool(outcome.figures)) == (0, "", True)


@pytest.mark.parametrize(("group", "module"), [("gpu", gpu), ("mac", mac)])
def test_what_needs_a_card_or_a_mac_takes_35_minutes_at_most(group, module):
    parts = suite.by_name([group])
    assert sum(each.seconds or 0 for each in parts) <= 35 * 60
    assert [each.name for each in parts] == [f"{group}-{part}" for part in module.PARTS]


def test_a_benchmark_that_takes_too_long_is_ended(tmp_path):
    (tmp_path / "tests" / "performance" / "slow.py").write_text("import time\ntime.sleep(60)\n")
    status, record = run(tmp_path, Benchmark("slow", "sleeps", "", "slow", seconds=1.0))
    assert status == 1
    assert "ended with status" in record.outcomes[0].problem
    assert record.outcomes[0].seconds < 30


def test_an_interrupted_benchmark_leaves_nothing_that_the_program_waits_for(tmp_path, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    (tmp_path / "tests" / "performance" / "loud.py").write_text(
        "import sys\nprint('a line', file=sys.stderr)\n"
    )
    monkeypatch.setattr(suite, "print", interrupted, raising=False)
    before = threading.enumerate()
    with pytest.raises(KeyboardInterrupt):
        suite.run(Benchmark("loud", "a line", "", "loud"), Form.FULL, None)
    assert [one for one in threading.enumerate() if one not in before and not one.daemon] == []


def test_results_of_a_card_stand_on_a_page_of_their_own(tmp_path):
    run(tmp_path, entry("gpu-check", "1"), entry("mac-check", "1"), entry("a", "1"))
    for of_gpu, name in ((True, "gpu-check"), (False, "a")):
        record = suite.newest(tmp_path, of_gpu=of_gpu)
        assert record is not None
        assert [old.name for old in record.outcomes] == [name]
