"""The choice of a device: of this computer side by side, with other computers a list; several of them together."""

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt

from core.engine.devices.choose import report
from core.memory.model import Room
from core.options import RunOptions
from core.options.choices import Task
from core.options.device_support import DeviceReport, MachineReport, Settled
from gui.new_run.device_field import TogetherSheet
from gui.new_run.memory_state import read_room, taught_as
from tests.fakes.jobs import CPU_ONLY
from tests.fakes.machines import M1, M4, M4_WITHOUT_BITSANDBYTES
from tests.fakes.model_shapes import MODEL
from tests.gui.new_run.steps import checks, load, put, row, rows, settle, start_text

GB = 1 << 30


def device(name, title, **known):
    return DeviceReport(name=name, title=title, available=True, memory_bytes=24 * GB, **known)


RTX = device("cuda:0@workshop", "NVIDIA RTX 4090", refusals={"model.method": {"qlora": "needs bitsandbytes"}})
SECOND = device("cuda:1@workshop", "NVIDIA RTX 4090")
ATTIC = device("cuda:0@attic", "NVIDIA RTX 3060")
STUDIO = device("mps@studio", "Apple M2"), device("cpu@studio", "Apple M2 CPU")


def with_others(*others):
    return replace(CPU_ONLY, devices=(*CPU_ONLY.devices, *others))


@pytest.fixture
def field(page):
    return page.options.fields.device


def choices(field):
    return [field.list.itemText(place) for place in range(field.list.count())]


def choose(field, title):
    field.list.setCurrentIndex(choices(field).index(title))
    field.list.activated.emit(field.list.currentIndex())


def test_devices_of_other_computers_make_a_list(page, field):
    page.set_machine(CPU_ONLY)
    assert field.segmented.isVisible()
    assert not field.list.isVisible()
    no_mps = replace(RTX, name="mps@workshop", available=False, reason="MPS is the GPU of Apple computers.")
    asleep = replace(ATTIC, available=False, reason="attic doesn't answer")
    asleep = asleep, replace(asleep, name="cpu@attic")
    page.set_machine(with_others(RTX, no_mps, *asleep))
    assert not field.segmented.isVisible()
    assert choices(field) == ["Automatic", "CUDA", "MPS", "CPU", "CUDA on workshop", "attic"]
    assert not field.list.model().index(5, 0).flags() & Qt.ItemFlag.ItemIsEnabled
    assert field.list.itemData(5, Qt.ItemDataRole.ToolTipRole) == "attic doesn't answer"
    assert field.list.itemData(4) == "cuda@workshop"
    choose(field, "CUDA on workshop")
    assert page.tree()["device"]["name"] == "cuda@workshop"
    assert rows(page)["Device"].startswith("CUDA on workshop · NVIDIA RTX 4090")
    assert row(page, "model.method").field.segmented.buttons()["qlora"].toolTip() == "needs bitsandbytes"
    assert start_text(page) == "Start training"
    assert not page.options.check.isEnabled(), "it checks devices of this computer"
    page.set_machine(CPU_ONLY)
    assert field.value() == "cuda@workshop"
    assert ("error", "device.name") in checks(page)


def test_automatic_processes_count_in_the_batch(page):
    automatic = {"device.processes": Settled("2", "one for each NVIDIA GPU")}
    page.set_machine(with_others(replace(RTX, automatic=automatic), SECOND))
    put(page, device__name="cuda@workshop", device__processes=0, memory__batch_size=16)
    assert rows(page)["Batch"] == "16 × 2 = 32 per step"


def test_several_computers_train_together_but_no_macs(qtbot, page, field):
    page.set_machine(with_others(RTX, *STUDIO))
    assert choices(field)[-1] == "Several computers…"
    page.set_machine(with_others(RTX, ATTIC, *STUDIO))
    choose(field, "Several computers…")
    assert field.value() == "auto"
    sheet = field.findChild(TogetherSheet)
    assert not sheet.use.isEnabled()
    sheet.boxes["workshop"].click()
    sheet.boxes["studio"].click()
    assert sheet.value == "cpu@workshop+studio"
    sheet.boxes["studio"].click()
    sheet.boxes["attic"].click()
    sheet.use.click()
    assert field.value() == "cuda@workshop+attic"
    assert field.list.currentText() == "CUDA on workshop + attic"
    put(page, memory__batch_size=16)
    assert rows(page)["Batch"] == "16 × 2 = 32 per step"
    put(page, memory__gradient_accumulation_steps=4, device__processes=2)
    assert rows(page)["Batch"] == "16 × 4 × 4 = 256 per step"
    assert choices(field)[-1] == "Several computers…"


def test_processes_are_asked_for_where_there_are_several_cards(page, field):
    processes = row(page, "device.processes")
    page.set_machine(with_others(RTX))
    assert not processes.isVisible()
    page.options.device_card.open()
    assert processes.isVisible(), "several processes can share a CPU"
    put(page, device__name="cuda@workshop")
    assert not processes.isVisible()
    page.options.device_card.more.setChecked(False)
    page.set_machine(with_others(RTX, SECOND))
    put(page, device__name="cuda@workshop")
    assert processes.isVisible()
    put(page, device__processes=0)
    assert processes.field.control.text() == "One per GPU"
    assert choices(field)[-2:] == ["CUDA on workshop", "CUDA 1 on workshop"]
    put(page, device__processes=2, device__name="cpu")
    assert processes.isVisible(), "it isn't one"


def test_two_cards_of_this_computer_are_one_choice_for_both(page, field):
    cards = replace(RTX, name="cuda:0"), replace(SECOND, name="cuda:1")
    page.set_machine(MachineReport(devices=(*cards, CPU_ONLY.devices[2]), automatic="cuda:0"))
    buttons = field.segmented.buttons()
    assert list(buttons) == ["auto", "cuda", "cuda:1", "cpu"]
    assert buttons["cuda"].toolTip() == "NVIDIA RTX 4090; with several processes all 2 GPUs"


@pytest.mark.parametrize("device", [RTX, replace(STUDIO[1], name="cpu@studio")])
def test_the_memory_of_another_computer_is_that_of_its_device(device):
    assert read_room(device, RunOptions(task=Task.CHAT)) == Room(free=24 * GB, ceiling=24 * GB)


def test_the_engine_is_greyed_with_the_reason_where_it_can_not_be(page):
    page.set_machine(CPU_ONLY)
    buttons = row(page, "device.backend").field.segmented.buttons()
    assert {name: button.isEnabled() for name, button in buttons.items()} == {
        "auto": True,
        "torch": True,
        "mlx": False,
    }
    assert buttons["auto"].text() == "Automatic (PyTorch)"
    assert "Apple silicon" in row(page, "device.backend").refusals.summary


def test_automatic_is_the_engine_that_trains_the_task_and_says_why(page):
    page.set_machine(report(M4))
    engine = row(page, "device.backend")
    for task, chosen, why in (
        (Task.CHAT, "MLX", "made by Apple for this chip"),
        (Task.TEXT_CLASSIFICATION, "PyTorch", "MLX trains text generation"),
    ):
        load(page, task.value, model={"method": "qlora"})
        assert engine.field.segmented.buttons()["auto"].text() == f"Automatic ({chosen})"
        assert why in engine.hint
        assert rows(page)["Trained"].endswith("affine4" if chosen == "MLX" else "nf4")
        assert engine.field.segmented.buttons()["mlx"].isEnabled() is task.writes_text
        assert why in " ".join(engine.note.lines[:1])
        assert len(engine.note.lines) == 1
    put(page, device__backend="torch")
    assert not engine.hint


NOT_IN_MLX = "the architecture opt is not in mlx-lm"


@pytest.mark.parametrize("reason", [NOT_IN_MLX, ""])
def test_a_model_that_mlx_can_not_train_is_left_to_pytorch_once_it_is_known(
    qtbot, page, engine, model, reason
):
    automatic = "PyTorch" if reason else "MLX"
    engine.answers["check-model"] = replace(MODEL, why_not_mlx=reason)
    engine.gate.clear()
    page.set_machine(report(M1))
    load(page, Task.CHAT.value, source=model, model={"method": "qlora"})
    choices = row(page, "device.backend")
    buttons = choices.field.segmented.buttons()

    def shows(chosen, *, can_be_mlx):
        assert buttons["auto"].text() == f"Automatic ({chosen})"
        assert (buttons["mlx"].isEnabled(), buttons["torch"].isEnabled()) == (can_be_mlx, True)
        assert ("affine4" if chosen == "MLX" else "nf4") in rows(page)["Trained"]
        assert rows(page)["Precision"].startswith("bf16" if chosen == "MLX" else "fp32")
        assert rows(page).get("Engine", "PyTorch") == chosen

    shows("MLX", can_be_mlx=True)
    engine.gate.set()
    settle(qtbot, page)
    shows(automatic, can_be_mlx=not reason)
    assert ("The architecture opt is not in mlx-lm" in choices.note.lines) is bool(reason)
    assert len(choices.note.lines) == 1
    assert taught_as(page.fit.case) == ("Apple M1, MLX" if automatic == "MLX" else "Apple M1")
    put(page, model__lora_rank=4)
    shows(automatic, can_be_mlx=not reason)  # what is known of the model stays
    put(page, device__backend="mlx")
    assert choices.field.value() == "mlx"
    assert not choices.problems
    engine.gate.clear()
    load(page, Task.CHAT.value, source="scratch:llama-tiny", model={"method": "qlora"})
    assert buttons["mlx"].isEnabled()  # another model, which isn't known yet


def test_qlora_is_greyed_only_where_neither_engine_has_a_format_for_it(page):
    page.set_machine(report(M4_WITHOUT_BITSANDBYTES))
    load(page, Task.CHAT.value)
    qlora = row(page, "model.method").field.segmented.buttons()["qlora"]
    assert qlora.isEnabled()
    qlora.click()
    assert rows(page)["Trained"].endswith("affine4")
    assert not row(page, "model.method").problems
    put(page, device__backend="torch")
    assert [problem.message for problem in row(page, "model.method").problems] == [
        "needs the package bitsandbytes, which isn't installed"
    ]
    put(page, model__method="lora")
    assert not qlora.isEnabled()
    assert "bitsandbytes" in qlora.toolTip()
    put(page, device__backend="auto")
    assert qlora.isEnabled()
    load(page, Task.TEXT_CLASSIFICATION.value)
    assert not row(page, "model.method").field.segmented.buttons()["qlora"].isEnabled()
