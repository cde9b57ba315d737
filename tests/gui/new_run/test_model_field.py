"""The lists of models to start from."""

from core.options.choices import Task
from core.options.sources import Scheme
from core.runs.folder import RunFolder
from core.runs.library import create, run_title
from gui.new_run.model_field import PastRunList, run_segments, title_of_source
from tests.fakes.runs import digits_options


def trained(folder, name="") -> RunFolder:
    """A run of digits with the files of a model in it."""
    run = create(digits_options(name), folder)
    run.model.mkdir()
    (run.model / "model.safetensors").write_bytes(b"weights")
    (run.model / "config.json").write_text("{}")
    return run


def test_past_runs_are_called_by_their_titles_and_told_apart(tmp_path):
    runs = [trained(tmp_path / "runs") for _ in range(2)]
    [title] = {run_title(run) for run in runs}
    found = run_segments(Task.IMAGE_CLASSIFICATION, tmp_path / "runs")
    assert {one.value for one in found} == {Scheme.RUN.of(str(run.path)) for run in runs}
    assert len({one.title for one in found}) == 2
    assert all(one.title.startswith(f"{title} · ") for one in found)
    assert title_of_source(found[0].value) == title


def test_what_is_chosen_is_called_by_its_title_before_anybody_has_looked_for_runs(tmp_path, qtbot):
    run = trained(tmp_path / "runs", "my digits")
    runs = PastRunList()
    qtbot.addWidget(runs)
    runs.choose(Scheme.RUN.of(str(run.path)))
    assert runs.currentText() == "my digits"
