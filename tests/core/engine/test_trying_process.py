"""The real process that holds a model, asked as the window and the command line ask it."""

import msgspec
import pytest

from core.cli.ask import Asked, try_run
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import ModelOptions, OutputOptions, TrainingOptions
from core.runs.folder import RunFolder
from core.services.chat import Answered, Loaded, Writing
from tests.fakes.tiny_writer import write_text
from tests.fakes.tried_runs import examples, first_and_last, tried


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("texts")
    write_text(folder / "text.txt")
    return tried(
        folder / "run",
        task=Task.CAUSAL_LM,
        model=ModelOptions(source="scratch:llama-tiny", vocabulary=300),
        data=DataOptions(train=str(folder / "text.txt"), max_length=16, eval_fraction=0.3),
        training=TrainingOptions(max_steps=12, learning_rate=3e-2),
        output=OutputOptions(predictions=1, prompts=("The river runs",)),
    )


@pytest.mark.long
def test_a_process_of_its_own_says_what_the_run_said(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [example.is_own for example in examples(run)].index(True)
    before, last = first_and_last(run)
    assert before[own].text != last[own].text
    asked = Asked(
        run=str(run.path), prompts=("The river runs",), as_json=True, writing=Writing(max_tokens=64)
    )
    assert try_run(asked) == 0
    loaded, answered = capsys.readouterr().out.splitlines()
    assert msgspec.json.decode(loaded, type=Loaded).name == "llama-tiny on text"
    assert msgspec.json.decode(answered, type=Answered).text == last[own].text
