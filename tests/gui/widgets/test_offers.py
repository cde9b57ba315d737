import pytest

from core.options.catalogue import options_by_path, value_words
from core.options.device_support import Settled
from gui.widgets.fields import AutomaticField, Offer, Refused, make_field, offer_of, refused
from gui.widgets.inputs import Segment
from tests.fakes.asking import CPU_ONLY

CPU = CPU_ONLY.devices[-1]


def offer(path):
    return offer_of(options_by_path()[path], CPU_ONLY, CPU)


def shown(qtbot, path):
    field = make_field(options_by_path()[path])
    qtbot.addWidget(field)
    return field, field.show_offer(offer(path))


def test_one_reason_is_said_outright_and_many_are_folded_away():
    none = [Segment("a", "A"), Segment("b", "B")]
    assert refused(none) == Refused()
    one = [Segment("a", "A", refusal="needs a GPU"), Segment("b", "B")]
    assert refused(one) == Refused("A needs a GPU")
    same = [Segment("a", "A", refusal="needs a GPU"), Segment("b", "B", refusal="needs a GPU")]
    assert refused(same) == Refused("A · B: needs a GPU")
    two = [Segment("a", "A", refusal="needs a GPU"), Segment("b", "B", refusal="No driver was found.")]
    assert refused(two) == Refused("Not available here: A · B", ("A needs a GPU", "No driver was found."))
    many = [Segment(name, name, refusal=f"needs {name}") for name in "ABCD"]
    assert refused(many).summary == "4 choices are not available here"
    assert len(refused(many).details) == 4


def test_segments_that_are_refused_are_greyed_with_their_reason(qtbot):
    field, why = shown(qtbot, "model.method")
    buttons = field.segmented.buttons()
    assert not buttons["qlora"].isEnabled()
    assert buttons["lora"].isEnabled()
    assert buttons["qlora"].toolTip() == "needs the package bitsandbytes"
    assert why.summary == "QLoRA needs the package bitsandbytes"


def test_a_list_greys_what_is_refused_and_says_why_below_it(qtbot):
    field, why = shown(qtbot, "training.optimizer")
    assert field.choices.refusal("lion-8bit") == "needs the package bitsandbytes"
    assert field.choices.refusal("sgd") == ""
    assert why.summary == "Not available here: AdamW, 8-bit · Lion, 8-bit · AdamW, 8-bit (torchao)"
    assert why.details == (
        "AdamW, 8-bit · Lion, 8-bit: needs the package bitsandbytes",
        "AdamW, 8-bit (torchao) needs the package torchao",
    )
    assert field.value() == "adamw"


def test_a_choice_keeps_its_place_while_other_offers_come(qtbot):
    field, _ = shown(qtbot, "training.optimizer")
    field.set_value("lion-8bit")
    with qtbot.assertNotEmitted(field.changed):
        field.show_offer(Offer())
    assert field.value() == "lion-8bit"
    assert field.choices.refusal("lion-8bit") == ""


def test_automatic_says_what_it_comes_to_where_there_is_room(qtbot):
    field, _ = shown(qtbot, "data.group_by_length")
    assert field.segmented.buttons()["auto"].text() == "Automatic (on)"
    precisions, _ = shown(qtbot, "device.precision")
    assert precisions.segmented.buttons()["auto"].text() == "Automatic"


def test_a_number_left_to_hone_says_which(qtbot):
    workers = AutomaticField(options_by_path()["data.workers"])
    qtbot.addWidget(workers)
    workers.set_value(None)
    assert workers.control.text() == "Automatic"
    workers.show_offer(Offer(automatic=Settled("3", "so it is")))
    assert workers.control.text() == "Automatic: 3"
    assert workers.value() is None


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("memory.batch_size", 1024, "1,024"),
        ("training.learning_rate", 2e-5, "2e-5"),
        ("training.warmup", 0.05, "5 %"),
        ("memory.activation_checkpointing", True, "On"),
        ("model.method", "lora", "LoRA"),
        ("model.lora_targets", ["query", "value"], "query, value"),
        ("data.train", "/home/me/pairs.tsv", "pairs.tsv"),
        ("data.workers", None, "not set"),
        ("training.learning_rate", "2e-", "2e-"),
        ("memory.batch_size", 2.5, "2.5"),
        ("memory.batch_size", True, "True"),
        ("memory.activation_checkpointing", "maybe", "maybe"),
        ("model.lora_targets", 5, "5"),
        ("model.method", ["lora"], "['lora']"),
        ("data.train", 7, "7"),
    ],
)
def test_values_in_words(path, value, words):
    assert value_words(options_by_path()[path], value) == words
