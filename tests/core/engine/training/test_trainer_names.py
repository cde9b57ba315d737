"""Every argument the installed Trainer takes is either an option of Hone or explained."""

import dataclasses

from core.engine.environment import prepare_torchvision
from core.options.trainer_args import translate

prepare_torchvision()


def test_no_name_of_trainer_is_unknown():
    from transformers import TrainingArguments

    fields = {field.name: field.default for field in dataclasses.fields(TrainingArguments)}
    assert len(fields) > 100
    assert [name for name, default in fields.items() if translate(name, default) is None] == []


def test_names_said_to_be_gone_are_gone():
    from transformers import TrainingArguments

    from core.options.trainer_args import GONE, OBSOLETE

    fields = {field.name for field in dataclasses.fields(TrainingArguments)}
    still_there = {name for name in (*GONE, *OBSOLETE) if name in fields}
    assert still_there <= {"gradient_checkpointing"}, "an alias until version 6"


def test_trainers_own_defaults_ask_for_nothing_else():
    """A TrainingArguments saved as JSON holds all defaults; importing it must not refuse or change much."""
    from transformers import TrainingArguments

    fields = {field.name: field.default for field in dataclasses.fields(TrainingArguments)}
    asked = {
        path: value
        for name, default in fields.items()
        if (translation := translate(name, default)) is not None
        for path, value in translation.values.items()
        if value is not None and default is not dataclasses.MISSING
    }
    assert asked["data.pin_memory"] == "auto"
    assert asked["training.optimizer"] == "adamw"
    assert "device.precision" not in asked
    assert "training.max_steps" not in asked
