"""The developer's benchmarks: they run, keep what they gave, and a goal that was missed shows in the exit status."""

from datetime import date

import pytest

from core.benchmark.result import Machine
from tests.performance import __main__ as suite
from tests.performance.__main__ import BENCHMARKS, Benchmark, Form, Outcome, Record
from tests.performance.figures import ROOT, at_least, at_most, figure, ratio_at_least, ratio_at_most

MACHINE = Machine(
    title="A computer", processor="ACME One", cores=2, memory=8 << 30, system="Linux 6.1.0-acme"
)
MODULE = """
import sys
from tests.performance.figures import at_most, figure, main
main("", lambda asked: asked.took > 0 and [figure("time", asked.took, "s", peer=4.0, goal=at_most(2.0))] or
     sys.exit("nothing measured"), {"took": 1.0})
"""


@pytest.fixture(autouse=True)
def short_samples(monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "IDLE_SECONDS", 0.02)
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    (tmp_path / "tests" / "performance").mkdir(parents=True)
    (tmp_path / "tests" / "performance" / "made_up.py").write_text(MODULE)


def entry(name: str, took: str) -> Benchmark:
    return Benchmark(name, "what is made up", "nobody", "made_up", ("--took", took), ("--took", took))


def run(folder, *wanted: Benchmark, form: Form = Form.FULL) -> tuple[int, Record]:
    status = suite.run_all(wanted, form, None, folder, MACHINE)
    record = suite.newest(folder)
    assert record is not None
    return status, record


def test_a_real_one_in_its_short_form_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "ROOT", ROOT)
    status, record = run(tmp_path, *suite.by_name(["events"]), form=Form.QUICK)
    (outcome,) = record.outcomes
    assert outcome.problem == ""
    followed, slowest = outcome.figures
    assert followed.ratio == pytest.approx(followed.value / followed.peer)
    assert followed.reached is (followed.ratio >= 1.0)
    assert slowest.reached is (slowest.value >= 10_000)
    assert status == (0 if followed.reached and slowest.reached else 1)
    assert record.machine.system == "Linux 6.1.0"
    assert [file.name for file in tmp_path.glob("*.json")] == [f"{record.date}-acme-one-2-cores-linux.json"]


def test_goals_and_failures_decide_the_status_and_a_new_result_replaces_the_old(tmp_path):
    assert run(tmp_path, entry("a", "1"))[0] == 0
    assert run(tmp_path, entry("b", "3"))[0] == 1
    assert run(tmp_path, entry("c", "-1"), entry("a", "1.5"))[0] == 1
    _, record = run(tmp_path, entry("a", "0.1"), form=Form.QUICK)
    values = {(one.name, one.form): [each.value for each in one.figures] for one in record.outcomes}
    assert values == {("b", "full"): [3], ("c", "full"): [], ("a", "full"): [1.5], ("a", "quick"): [0.1]}
    assert next(one.problem for one in record.outcomes if one.name == "c").endswith("nothing measured")


def test_figures_are_held_against_goals_of_their_own_and_of_their_ratio():
    goals = (at_most(2), at_least(2), ratio_at_most(0.5), ratio_at_least(0.51))
    assert [figure("f", 2.0, peer=4.0, goal=goal).reached for goal in goals] == [True, True, True, False]
    assert figure("f", 2.0).reached is None
    assert figure("f", 2.0, goal=ratio_at_most(1)).reached is False  # there is no ratio
    assert figure("f", 2.0, peer=4.0, ratio=0.9, goal=ratio_at_least(0.51)).reached is True


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["nonsense"], 2), (["mrpc"], 2), (["--list"], 0)],
)
def test_the_command_line(arguments, status, tmp_path):
    assert suite.main([*arguments, "--results", str(tmp_path / "results")]) == status
    assert not (tmp_path / "results").exists()


def test_every_benchmark_has_a_module_and_a_group_has_its_members():
    for one in BENCHMARKS:
        place = ROOT / "tests" / "performance" / one.module
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists()
    assert len(suite.by_name(["faults"])) == 4
    assert suite.by_name([]) == list(BENCHMARKS)


def test_the_page_shows_the_newest_results_of_full_runs(tmp_path):
    page = suite.PAGE.read_text(encoding="utf-8")
    assert suite.with_results(page, suite.newest(suite.RESULTS)) == page
    empty = f"before {suite.BEGIN} old {suite.END} after"
    _, record = run(tmp_path, entry("a", "1.5"), form=Form.QUICK)
    assert "No results" in suite.with_results(empty, record)
    _, record = run(tmp_path, entry("a", "1.25"))
    shown = suite.with_results(empty, record)
    assert "| 1.25 s | 4 s | 0.312 | at most 2 s | reached |" in shown
    assert "1.5 s" not in shown
    assert (shown[:7], shown[-6:]) == ("before ", " after")


def test_the_table_marks_what_was_disturbed():
    reached = figure("pace", 1230.0, "ms", peer=2460.0, among=(1200.0, 1300.0), goal=ratio_at_most(1.1))
    calm = Outcome(name="a", what="w", peer="p", form=Form.FULL, begun=1.0, figures=(reached,))
    loud = Outcome(name="b", what="w", peer="", form=Form.FULL, begun=1.0, busy_after=0.5, problem="x\ny|z")
    record = Record(date="2026-11-22", machine=MACHINE)
    lines = suite.markdown(record, [calm, loud]).splitlines()
    assert lines[0] == ("Measured on ACME One, 2 cores, 8.0 GB, no GPU, Linux 6.1.0-acme, on 2026-11-22.")
    assert lines[4:6] == [
        "| `a`: w | p | pace | 1,230 ms (1,200 to 1,300) | 2,460 ms | 0.5 | ratio at most 1.1 | reached |",
        "| `b`: w | - | no figures: y/z | | | | | |",
    ]
    assert lines[-1].endswith("at the same time: b. Their times say little.")


def test_the_file_is_named_after_the_day_and_the_machine(tmp_path):
    gpu = Machine(
        title="t", processor="A (R) CPU @ 3 GHz", cores=8, accelerator="GPU 9, 24 GB", system="Linux 6"
    )
    name = suite.file_for(tmp_path, gpu, date(2026, 11, 22)).name
    assert name == "2026-11-22-a-r-cpu-3-ghz-8-cores-gpu-9-24-gb-linux.json"
