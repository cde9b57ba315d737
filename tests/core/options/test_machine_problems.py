"""The remedies beside what a machine refuses: none that is taken already."""

import pytest

from core.options import RunOptions
from core.options.choices import Task
from core.options.device_support import DeviceReport, MachineReport, machine_problems
from core.options.sections import DeviceOptions, ModelOptions

GONE = DeviceReport(name="cpu", title="CPU", available=False, reason="It broke.")
NONE_AVAILABLE = MachineReport(devices=(GONE,), automatic="cpu")
NONE_AT_ALL = MachineReport(devices=(), automatic="")


def offered(machine: MachineReport, **sections: object) -> list[str]:
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, **sections)
    return [fix.label for problem in machine_problems(machine, options) for fix in problem.fixes]


@pytest.mark.parametrize("machine", [NONE_AVAILABLE, NONE_AT_ALL])
def test_letting_hone_choose_is_offered_only_where_something_else_is_chosen(machine: MachineReport) -> None:
    assert offered(machine, device=DeviceOptions(name="cpu")) == ["Let Hone choose"]
    assert offered(machine, device=DeviceOptions(name="auto")) == []


def test_a_machine_without_devices_is_not_blamed_on_automatic() -> None:
    (problem,) = machine_problems(NONE_AT_ALL, RunOptions(task=Task.TEXT_CLASSIFICATION))
    assert problem.message == "this computer has no device that Hone can train on"


def test_a_default_that_is_refused_is_no_remedy_for_itself() -> None:
    table = {"model.method": {"full": "too large", "lora": "too large"}}
    cpu = DeviceReport(name="cpu", title="CPU", available=True, refusals=table)
    machine = MachineReport(devices=(cpu,), automatic="cpu")
    assert offered(machine) == []
    assert offered(machine, model=ModelOptions(method="lora")) == ["Use full"]
