"""Chat that can't be: every reason is named, with what to do, and nothing is left behind."""

from pathlib import Path
from typing import Any

import pytest

from core.base.errors import DataError, ModelError
from core.engine.environment import prepare_torchvision
from core.options.choices import Precision, Task
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, ModelOptions
from core.runs.event_log import EventReader
from core.runs.events import MessageRaised, Outcome, RunFinished
from tests.fakes.chats import asked, prepared
from tests.fakes.tiny_bert import save_tiny_bert
from tests.fakes.tiny_talker import instructions, save_tiny_talker, write_json
from tests.fakes.tiny_training import train

prepare_torchvision()

ONE_THREAD = DeviceOptions(name="cpu", precision=Precision.FP32, threads=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refused")
    save_tiny_talker(folder / "writer")
    write_json(folder / "talks.json", instructions(40))
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))


class TestBadInput:
    def refused(self, folder: Path, **more: Any) -> DataError:
        with pytest.raises(DataError) as raised:
            prepared(asked(folder, **more))
        return raised.value

    def test_an_encoder_is_not_asked_to_chat(self, folder: Path, tmp_path: Path) -> None:
        save_tiny_bert(tmp_path / "writer")
        write_json(tmp_path / "talks.json", instructions(4))
        with pytest.raises(ModelError, match="writer can't write texts"):
            prepared(asked(tmp_path))

    def test_all_rows_longer_than_allowed(self, folder: Path) -> None:
        error = self.refused(folder, max_length=16)
        assert "Nothing in talks.json is left" in error.title
        assert [fix.changes for fix in error.fixes] == [{"data.max_length": 128}]

    def test_all_rows_longer_than_the_model_sees(self, folder: Path, tmp_path: Path) -> None:
        save_tiny_talker(tmp_path / "writer", max_position_embeddings=16)
        write_json(tmp_path / "talks.json", instructions(4))
        assert [fix.label for fix in self.refused(tmp_path).fixes] == ["Choose a model that sees more"]

    def test_answers_that_are_cut_off_are_told_with_a_way_to_keep_them(
        self, folder: Path, tmp_path: Path
    ) -> None:
        from core.engine.reporter import Reporter
        from core.engine.training.train import prepare
        from core.runs.folder import RunFolder

        run = RunFolder(tmp_path)
        prepare(asked(folder, max_length=60), Reporter(run))
        raised = [
            event for event in EventReader(run.events_file).read_all() if isinstance(event, MessageRaised)
        ]
        [told] = [event for event in raised if "cut off" in event.title]
        assert [fix.changes for fix in told.fixes] == [{"data.max_length": 120}]

    def test_a_template_that_raises(self, folder: Path, tmp_path: Path) -> None:
        save_tiny_talker(tmp_path / "writer", "{{ raise_exception('never again') }}")
        write_json(tmp_path / "talks.json", instructions(4))
        assert "never again" in self.refused(tmp_path).detail

    def test_one_row_only_is_learned_and_nothing_held_out(self, folder: Path, tmp_path: Path) -> None:
        write_json(tmp_path / "one.json", instructions(1))
        found = prepared(asked(folder, train=str(tmp_path / "one.json"), eval_fraction=0.5))
        assert (len(found.train), found.eval) == (1, None)

    def test_evaluation_data_of_another_kind(self, folder: Path, tmp_path: Path) -> None:
        other = write_json(tmp_path / "other.json", [{"number": row} for row in range(4)])
        error = self.refused(folder, eval=str(other))
        assert "other.json" in error.title
        assert {"data.eval": None} in [fix.changes for fix in error.fixes]

    def test_empty_answers_are_named_by_row(self, folder: Path, tmp_path: Path) -> None:
        rows = [*instructions(3), {"instruction": "Say.", "input": "", "output": ""}]
        error = self.refused(folder, train=str(write_json(tmp_path / "gaps.json", rows)))
        assert "empty answer" in error.detail
        assert "4" in error.detail


def test_answers_may_all_be_cut_off(folder: Path, tmp_path: Path) -> None:
    rows = [{"instruction": f"Count {row}", "output": "one two three " * 60} for row in range(4)]
    found = prepared(asked(folder, train=str(write_json(tmp_path / "long.json", rows)), max_length=64))
    assert [len(row["input_ids"]) for row in found.train] == [64] * 4


def test_a_run_that_is_refused_says_so_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    found = train(
        tmp_path / "run",
        task=Task.CHAT,
        model=ModelOptions(source=str(folder / "writer")),
        data=DataOptions(train=str(folder / "talks.json"), max_length=16),
        device=ONE_THREAD,
    )
    assert found.status == 1
    ended = [event for event in found.events if isinstance(event, RunFinished)]
    assert [event.state for event in ended] == [Outcome.FAILED]
    assert {path.name for path in found.run.path.iterdir()} == {"events.jsonl"}
