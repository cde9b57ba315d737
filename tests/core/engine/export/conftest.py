"""Runs that are over, whose models are exported."""

import pytest
import torch

from core.options.choices import Method, Task
from tests.fakes.conversations import PLAIN
from tests.fakes.exports import LABELS, PROMPTS, TEXTS
from tests.fakes.models import save_tiny_bert, save_tiny_talker
from tests.fakes.trained_runs import finished_run, with_model


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    """Two would wait for each other longer than such small models take."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="package")
def bert(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="package")
def lora(bert, tmp_path_factory):
    """A classifier with LoRA matrices."""
    folder = tmp_path_factory.mktemp("runs") / "reviews"
    run, options = finished_run(
        folder, Task.TEXT_CLASSIFICATION, bert, TEXTS, method=Method.LORA, lora_rank=4
    )
    return run, with_model(run, options, LABELS)


@pytest.fixture(scope="package")
def talker(tmp_path_factory):
    base = save_tiny_talker(tmp_path_factory.mktemp("talker"), PLAIN)
    run, options = finished_run(tmp_path_factory.mktemp("runs") / "talk", Task.CHAT, base, PROMPTS)
    return run, with_model(run, options)
