from pathlib import Path

import pytest

from core.options import RunOptions
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.past_runs import model_folder
from core.options.sections import ModelOptions
from core.options.sources import short_name
from core.options.validate import problems_of
from core.runs import library
from core.services.hub import question_about


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    return tmp_path


def past_run(home: Path, folder_name: str, task: str = "causal-lm", *files: str, name: str = "") -> Path:
    folder = home / "runs" / folder_name
    (folder / "model").mkdir(parents=True)
    (folder / "run.toml").write_text(f'task = "{task}"\n[output]\nname = "{name}"\n')
    for file in files or ("config.json", "model.safetensors"):
        (folder / "model" / file).write_text("{}")
    return folder


def asked(source: str, task: Task = Task.CAUSAL_LM) -> RunOptions:
    return RunOptions(task=task, model=ModelOptions(source=source), data=DataOptions(train="synthetic:8x8"))


def told(source: str, task: Task = Task.CAUSAL_LM) -> list[str]:
    return [found.message for found in problems_of(asked(source, task)) if found.path == "model.source"]


def test_a_run_is_found_by_its_name_and_by_its_path(home: Path) -> None:
    folder = past_run(home, "2026-01-01-1200-sea")
    for source in (f"run:{folder.name}", f"run:{folder}"):
        assert told(source) == []
        assert model_folder(source) == folder / "model"
        assert question_about(asked(source)) is not None
        assert short_name(source) == folder.name


def test_a_new_run_keeps_the_path_of_the_one_it_started_from(home: Path) -> None:
    folder = past_run(home, "first")
    made = library.create(asked("run:first"), home / "elsewhere")
    assert made.options().model.source == f"run:{folder}"
    assert library.create(asked("some/model"), home / "elsewhere").options().model.source == "some/model"


def test_a_run_that_is_not_there_is_told_with_those_of_like_names(home: Path) -> None:
    past_run(home, "2026-01-01-1200-sea")
    options = asked("run:2026-01-01-1200-see")
    found = next(found for found in problems_of(options) if found.path == "model.source")
    assert "did you mean 2026-01-01-1200-sea?" in found.message
    assert found.fixes[0].changes == {"model.source": "run:2026-01-01-1200-sea"}
    assert "did you mean" in told("run:2026-01-01-1200")[0], "the beginning of a name is not the name"
    assert "runs are in" in told("run:quite-another")[0]


def test_a_run_is_found_by_the_name_it_was_given(home: Path) -> None:
    first = past_run(home, "2026-01-01-1200-sea", name="my sea")
    assert told("run:my sea") == []
    assert model_folder("run:my sea") == first / "model"
    made = library.create(asked("run:my sea"), home / "elsewhere")
    assert made.options().model.source == f"run:{first}", "whatever is called so later"
    second = past_run(home, "2026-02-02-1200-sea", name="my sea")
    found = next(found for found in problems_of(asked("run:my sea")) if found.path == "model.source")
    assert "2 runs are called “my sea”" in found.message
    assert found.fixes[0].changes == {"model.source": f"run:{second.name}"}, "the newest first"
    assert "did you mean 2026-02-02-1200-sea?" in told("run:my see")[0]
    folder = past_run(home, "my sea")
    assert model_folder("run:my sea") == folder / "model", "a folder's own name goes first"


def test_run_alone_asks_for_a_name(home: Path) -> None:
    assert told("run:") == ["name a run"]
    past_run(home, "2026-01-01-1200-sea")
    assert told("run:") == ["name a run, such as run:2026-01-01-1200-sea"]


def test_where_runs_are_is_said_plainly(home: Path) -> None:
    assert ".." not in told("run:../quite-another")[0].partition(";")[2]


def test_a_folder_called_model_goes_by_its_run(home: Path) -> None:
    folder = past_run(home, "2026-01-01-1200-sea")
    assert short_name(str(folder / "model")) == folder.name
    assert short_name("owner/model") == "model", "an id"


def test_a_run_without_a_model_is_told(home: Path) -> None:
    folder = past_run(home, "broken")
    (folder / "model" / "config.json").unlink()
    assert "isn't whole" in told("run:broken")[0]
    (folder / "model" / "model.safetensors").unlink()
    (folder / "model").rmdir()
    assert "has no model" in told("run:broken")[0]


def test_a_run_of_lora_has_a_model(home: Path) -> None:
    past_run(home, "lora", "causal-lm", "adapter_config.json", "adapter_model.safetensors", "config.json")
    assert told("run:lora") == []
    (home / "runs" / "lora" / "model" / "adapter_model.safetensors").unlink()
    assert "isn't whole" in told("run:lora")[0]


@pytest.mark.parametrize(
    ("learned", "task", "fits"),
    [
        ("causal-lm", Task.CHAT, True),
        ("chat", Task.PREFERENCE, True),
        ("causal-lm", Task.TEXT_CLASSIFICATION, True),
        ("text-classification", Task.TEXT_REGRESSION, True),
        ("text-classification", Task.CAUSAL_LM, False),
        ("image-classification", Task.CAUSAL_LM, False),
    ],
)
def test_what_a_run_has_learned_must_fit_the_task(home: Path, learned: str, task: Task, fits: bool) -> None:
    past_run(home, "past", learned)
    assert (told("run:past", task) == []) is fits


def test_a_run_file_that_is_gone_is_told(home: Path) -> None:
    (past_run(home, "past") / "run.toml").unlink()
    assert "nobody knows what past learned" in told("run:past")[0]
