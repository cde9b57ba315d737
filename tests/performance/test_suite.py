"""The suite of developer's benchmarks: it runs them, keeps what they gave, and tells a goal that was missed."""

import platform
from datetime import date
from pathlib import Path

import pytest

from core.benchmark.result import Machine
from tests.performance.suite import __main__, page, record, running, tables
from tests.performance.suite.entries import BENCHMARKS, Benchmark, UnknownNameError, chosen
from tests.performance.suite.figures import at_least, at_most, figure, ratio_at_least, ratio_at_most
from tests.performance.suite.record import Form, Outcome, Record

ROOT = Path(__file__).resolve().parents[2]
MACHINE = Machine(
    title="A computer", processor="ACME One", cores=2, memory=8 << 30, system="Linux 6.1.0-acme"
)
SCRIPT = """
import argparse, sys
from tests.performance.suite.figures import add_json, at_most, figure, hand_over
parser = argparse.ArgumentParser()
parser.add_argument("took", type=float)
add_json(parser)
asked = parser.parse_args()
if asked.took < 0:
    sys.exit("no time to lose")
hand_over(asked.json, [figure("what it takes", asked.took, "s", peer=4.0, goal=at_most(2.0))])
"""


@pytest.fixture(autouse=True)
def short_looks(monkeypatch):
    """What others do is looked at for a moment only."""
    monkeypatch.setattr(running, "LOOK_SECONDS", 0.02)


def entry(folder: Path, name: str, took: str) -> Benchmark:
    """A benchmark that takes as long as it is told."""
    script = folder / "made_up.py"
    script.write_text(SCRIPT)
    return Benchmark(name, "what is made up", "nobody", "<= 2 s", str(script), (took,), (took,))


def run(folder: Path, *wanted: Benchmark, form: Form = Form.FULL) -> tuple[int, Record]:
    """The suite's exit status, and what it kept."""
    status = __main__.run_all(wanted, form, None, folder, MACHINE)
    kept = record.newest(folder)
    assert kept is not None
    return status, kept


def test_a_real_one_in_its_short_form_is_kept_with_its_peer_and_its_goals(tmp_path, capsys):
    status, kept = run(tmp_path, *chosen(["events"]), form=Form.QUICK)
    (outcome,) = kept.outcomes
    assert outcome.problem == ""
    followed, slowest = outcome.figures
    assert followed.value > 0
    assert followed.ratio == pytest.approx(followed.value / followed.peer)
    assert followed.reached is (followed.ratio >= 1.0)
    assert slowest.reached is (slowest.value >= 10_000)
    assert status == (0 if followed.reached and slowest.reached else 1)
    assert (outcome.name, outcome.form, outcome.peer) == (
        "events",
        Form.QUICK,
        "json.loads of the same lines",
    )
    (file,) = tmp_path.glob("*.json")
    assert file.name == f"{kept.date}-acme-one-2-cores-linux.json"
    assert kept.machine.processor == "ACME One"
    assert kept.machine.system == "Linux 6.1.0"
    assert platform.node() not in file.read_text()
    assert "events followed a second" in capsys.readouterr().out


def test_a_missed_goal_and_one_without_figures_are_told_by_the_status(tmp_path, capsys):
    quick, slow, broken = (entry(tmp_path, *both) for both in [("a", "1"), ("b", "3"), ("c", "-1")])
    assert run(tmp_path, quick)[0] == 0
    assert run(tmp_path, slow)[0] == 1
    status, kept = run(tmp_path, broken, quick)
    assert status == 1
    found = {one.name: one for one in kept.outcomes}
    assert [one.reached for one in (*found["a"].figures, *found["b"].figures)] == [True, False]
    assert (found["c"].figures, found["c"].problem) == ((), "it ended with status 1\nno time to lose")
    said = capsys.readouterr().out
    assert "MISSED" in said
    assert "NO FIGURES: it ended with status 1" in said


def test_one_that_is_run_again_takes_its_place_and_the_short_form_takes_nobodys(tmp_path):
    run(tmp_path, entry(tmp_path, "a", "3"), entry(tmp_path, "b", "1"))
    run(tmp_path, entry(tmp_path, "a", "1.5"))
    _, kept = run(tmp_path, entry(tmp_path, "a", "0.1"), form=Form.QUICK)
    found = {(one.name, one.form): one.figures[0].value for one in kept.outcomes}
    assert found == {("b", Form.FULL): 1.0, ("a", Form.FULL): 1.5, ("a", Form.QUICK): 0.1}


def test_figures_are_held_against_goals_of_their_own_and_of_their_ratio():
    goals = (at_most(2), at_least(2), ratio_at_most(0.5), ratio_at_least(0.51))
    assert [figure("f", 2.0, peer=4.0, goal=goal).reached for goal in goals] == [True, True, True, False]
    assert figure("f", 2.0).reached is None
    assert figure("f", 2.0, goal=ratio_at_most(1)).reached is False  # nothing to hold it against
    assert figure("f", 2.0, peer=4.0, ratio=0.9, goal=ratio_at_least(0.51)).reached is True


def test_names_stand_for_one_or_for_a_group():
    assert [one.name for one in chosen(["forecast", "digits"])] == ["forecast", "digits"]
    assert {one.script for one in chosen(["faults"])} == {"faults/__main__.py"}
    assert len(chosen(["faults"])) == 4
    assert chosen([]) == BENCHMARKS
    with pytest.raises(UnknownNameError, match="fault, nonsense"):
        chosen(["nonsense", "fault", "digits"])


def test_the_command_line_refuses_what_it_does_not_know_or_lacks_data_for(tmp_path, capsys):
    assert __main__.main(["nonsense"]) == 2
    assert __main__.main(["mrpc", "--results", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "no benchmark called nonsense" in said
    assert "mrpc: name the folder of data sets with --data" in said
    assert list(tmp_path.iterdir()) == []
    assert __main__.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{one.name} " in listed for one in BENCHMARKS)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.name)
def test_every_script_hands_its_figures_over(benchmark):
    text = (ROOT / "tests" / "performance" / benchmark.script).read_text(encoding="utf-8")
    assert "hand_over(" in text
    assert "add_json(parser)" in text or "from beside_plain import" in text


def test_the_page_shows_the_newest_results():
    kept = page.PAGE.read_text(encoding="utf-8")
    assert page.put(kept, page.block(record.newest(record.RESULTS))) == kept


def test_the_page_takes_whole_measurements_of_the_suite_alone(tmp_path):
    (tmp_path / "2026-11-23-another.json").write_text('{"plan": {}}')
    assert record.newest(tmp_path) is None
    kept = f"before {page.BEGIN} old {page.END} after"
    run(tmp_path, entry(tmp_path, "a", "1.5"), form=Form.QUICK)
    assert page.NONE_KEPT in page.put(kept, page.block(record.newest(tmp_path)))
    run(tmp_path, entry(tmp_path, "a", "1.25"))
    shown = page.put(kept, page.block(record.newest(tmp_path)))
    assert "| 1.25 s | 4 s | 0.312 | at most 2 s | reached |" in shown
    assert "1.5 s" not in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")


def test_a_table_says_where_and_when_and_marks_what_was_disturbed():
    reached = figure("pace", 1230.0, "ms", peer=2460.0, spread=(1200.0, 1300.0), goal=ratio_at_most(1.1))
    calm = Outcome(name="a", what="w", peer="p", form=Form.FULL, begun=1.0, figures=(reached,))
    loud = Outcome(name="b", what="w", peer="", form=Form.FULL, begun=1.0, busy_after=0.5, problem="x\ny|z")
    shown = tables.markdown(Record(date="2026-11-22", machine=MACHINE, outcomes=(calm, loud)))
    assert "on ACME One, 2 cores, 8.0 GB, no GPU, Linux 6.1.0-acme, on 2026-11-22." in shown
    row = "| `a`: w | p | pace | 1,230 ms (1,200 to 1,300) | 2,460 ms | 0.5 | ratio at most 1.1 | reached |"
    assert row in shown
    assert "| `b`: w | - | no figures: y/z |" in shown
    assert "Other programs computed beside: b." in shown


def test_the_file_is_named_after_the_day_and_the_machine():
    gpu = Machine(
        title="t", processor="A (R) CPU @ 3 GHz", cores=8, accelerator="GPU 9, 24 GB", system="Linux 6"
    )
    name = record.file_for(Path(), gpu, date(2026, 11, 22)).name
    assert name == "2026-11-22-a-r-cpu-3-ghz-8-cores-gpu-9-24-gb-linux.json"
