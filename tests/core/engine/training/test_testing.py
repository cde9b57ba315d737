"""A run that only evaluates the model of another one on a file."""

import json
from pathlib import Path

import pytest
from PIL import Image

from core.base.errors import DataError, OptionsError
from core.engine.data.labelled_texts import load_labelled_texts
from core.engine.data.running_text import load_running_text, make_blocks
from core.engine.data.tables import read_table
from core.engine.models.pretrained import load_tokenizer
from core.options import RunOptions, run_file
from core.options.catalogue import with_changes
from core.options.choices import Method, Task, Toggle
from core.options.validate import problems_of
from core.runs.events import Action, Outcome, Phase, PhaseChanged, Predicted, RunFinished, StepFinished
from core.runs.folder import RunFolder
from core.runs.library import create_all, options_of_test
from core.runs.status import PredictionLog
from core.runs.summary import status_at_end, summarize
from core.runs.verdict import RunFinding, verdict
from tests.fakes.models import save_tiny_bert, save_tiny_llama, save_tiny_talker, save_tiny_vision
from tests.fakes.trained_runs import attempt, in_attempts
from tests.fakes.training import options_of, run_options, write_data

MODELS = {
    Task.TEXT_CLASSIFICATION: save_tiny_bert,
    Task.TEXT_REGRESSION: save_tiny_bert,
    Task.TOKEN_CLASSIFICATION: save_tiny_bert,
    Task.CAUSAL_LM: save_tiny_llama,
    Task.CHAT: save_tiny_talker,
    Task.IMAGE_CLASSIFICATION: lambda folder: save_tiny_vision(folder, "resnet"),
}


def data(folder: Path, task: Task, rows: int) -> str:
    """A file for the task, or a folder of images."""
    folder.mkdir()
    if not task.reads_images:
        return write_data(folder, task, rows)
    for number in range(rows):
        (folder / str(number % 2)).mkdir(exist_ok=True)
        Image.new("RGB", (32, 32), (8 * number, 200 * (number % 2), 90)).save(
            folder / str(number % 2) / f"{number}.png"
        )
    return str(folder)


def trained(folder: Path, task: Task, **changes):
    """A run that has trained a step, evaluated on a file of its own, and that file."""
    test = data(folder / "test", task, 12)
    rows = {"train": data(folder / "train", task, 24), "eval": test, "eval_fraction": 0.1, "predictions": 2}
    rows |= {"group_by_length": Toggle.AUTO, "max_length": 128}
    options = run_options(task, source=MODELS[task](folder / "tiny"), max_steps=1, **rows, **changes)
    run = RunFolder(folder / "run")
    assert in_attempts(run.path, options).ended == (Outcome.FINISHED, 1)
    run_file.write(options, run.options_file)
    return run, test


@pytest.mark.parametrize(
    ("task", "method"),
    [*((task, Method.FULL) for task in MODELS), (Task.CHAT, Method.LORA)],
)
def test_the_metrics_are_those_of_the_run_on_the_same_file(task, method, tmp_path):
    run, test = trained(tmp_path, task, method=method)
    (tested,) = create_all(options_of_test(run, test), tmp_path / "runs")
    story = in_attempts(tested.path, tested.options())
    (finished,) = story.of(RunFinished)
    assert finished.metrics == pytest.approx(status_at_end(run).finished.metrics, rel=1e-5)
    assert (finished.state, finished.steps, story.of(StepFinished)) == (Outcome.FINISHED, 0, [])
    assert len(story.of(Predicted)) == 1
    loaded = [one.detail for one in story.of(PhaseChanged) if one.phase is Phase.LOADING_DATA]
    assert loaded == [Path(test).name], "the file that is tested"
    assert not tested.model.exists()
    summary, status = summarize(tested), status_at_end(tested, and_beginning=True)
    assert (summary.title, summary.data) == (
        f"{summarize(run).title}, tested on {Path(test).name}",
        Path(test).name,
    )
    assert summary.result == finished.metrics[summary.metric]
    assert verdict(status, tested.options()).finding in (RunFinding.RESULT, RunFinding.HARDLY_LEARNED)
    log = PredictionLog()
    log.apply_all(story.events)
    assert log.is_test


@pytest.mark.parametrize(
    ("task", "label"), [(Task.TEXT_REGRESSION, "score"), (Task.TOKEN_CLASSIFICATION, "tags")]
)
def test_a_test_without_labels_asks_for_them_and_offers_no_data_that_was_trained_on(task, label, tmp_path):
    rows = {"train": data(tmp_path / "train", task, 24), "eval_fraction": 0.0}
    options = run_options(task, source="/model", **rows)
    kept = read_table(Path(rows["train"])).rows.drop_columns([label])
    unlabelled = tmp_path / "new.jsonl"
    unlabelled.write_text("".join(f"{json.dumps(row)}\n" for row in kept.to_pylist()))

    def refusal(**training: float) -> tuple[str, str, str]:
        asked = {"data.eval": str(unlabelled)} | {
            f"training.{name}": value for name, value in training.items()
        }
        with pytest.raises(DataError) as refused:
            load_labelled_texts(with_changes(options, asked))
        error = refused.value
        return error.title, error.detail, " ".join(fix.label for fix in error.fixes)

    title, detail, advice = refusal(epochs=0.0)
    assert title == f"A test needs labels: new.jsonl has no column “{label}”"
    assert "validation" not in detail
    assert f"“{label}”, as the training data does" in advice
    assert "hone try" in advice
    assert "fraction" not in advice
    title, detail, advice = refusal(epochs=1.0)
    assert title == f"new.jsonl has no column “{label}”"
    assert detail.startswith("The validation data needs")
    assert "Use a fraction of the training data instead" in advice
    assert "hone try" not in advice


def add_odd(path: Path, name: str) -> None:
    """Adds what is left out: an example without text, or to a folder of images a note and a broken image."""
    if path.is_dir():
        (path / f"{name}.txt").touch()
        (path / "0" / f"{name}.png").touch()
    else:
        path.write_text(path.read_text() + '{"text": "", "score": 0, "tokens": [], "tags": []}\n')


@pytest.mark.parametrize("task", MODELS)
def test_a_test_tells_of_what_is_tested_and_a_run_of_all_its_data(task, tmp_path):
    run, test = trained(tmp_path, task, skip_bad_rows=True)
    (tested,) = create_all(options_of_test(run, test), tmp_path / "runs")
    add_odd(Path(run.options().data.train), "odd in training")
    add_odd(Path(test), "odd in test")
    of_training, of_test = ("odd in training", "odd in test") if task.reads_images else ("line 25", "line 13")

    def told(folder: Path, options: RunOptions) -> str:
        said = in_attempts(folder, options).messages.values()
        return "\n".join(f"{one.title} {one.detail}".lower() for one in said)

    of_the_test = told(tested.path, tested.options())
    assert of_test in of_the_test
    assert not [words for words in (of_training, "validation data", "train") if words in of_the_test]
    of_a_run = told(tmp_path / "again", run.options())
    assert of_test in of_a_run
    assert of_training in of_a_run


@pytest.mark.parametrize("task", [Task.TOKEN_CLASSIFICATION, Task.CAUSAL_LM, Task.CHAT])
def test_a_test_counts_the_tokens_of_what_is_tested(task, tmp_path):
    run, test = trained(tmp_path, task)
    options = with_changes(
        options_of_test(run, test), {"data.max_length": 4, "data.packing": task is Task.CHAT}
    )
    said = in_attempts(tmp_path / "tested", options).messages
    titles = {name: message.title for name, message in said.items()}
    if task is Task.CAUSAL_LM:
        blocks = make_blocks(load_running_text(options).eval, load_tokenizer(str(tmp_path / "tiny")), 4)
        assert f"{len(blocks.rows)} blocks" in titles["blocks"]
    elif task is Task.TOKEN_CLASSIFICATION:
        assert "of 12 texts" in titles["texts-cut"]
        assert titles["words-lost"].endswith("words are not tested")
    else:
        assert "packed" not in titles


def test_a_run_and_a_test_keep_all_that_is_wrong(tmp_path):
    run, test = trained(tmp_path, Task.TEXT_CLASSIFICATION)
    (tested,) = create_all(options_of_test(run, test), tmp_path / "runs")
    in_attempts(tested.path, tested.options())
    for validation in (run.validation(), tested.validation()):
        wrong = sum(not one.is_right for one in validation.examples)
        assert wrong == validation.wrong > 2


def test_a_stop_ends_a_test_without_a_result(tmp_path):
    run, test = trained(tmp_path, Task.TEXT_CLASSIFICATION)
    (tested,) = create_all(options_of_test(run, test), tmp_path / "runs")
    assert attempt(tested.path, tested.options(), {0: Action.STOP}, while_evaluating=True) == 0
    status = status_at_end(tested, and_beginning=True)
    assert (status.finished.state, status.evaluations) == (Outcome.STOPPED, [])
    assert verdict(status, tested.options()) is None


def test_a_test_that_cannot_be_made_is_refused(tmp_path):
    run, test = trained(tmp_path, Task.TEXT_CLASSIFICATION)
    with pytest.raises(OptionsError, match="no file or folder"):
        options_of_test(run, str(tmp_path / "gone.csv"))
    run_file.write(run_options(Task.PREFERENCE, train=test), run.options_file)
    with pytest.raises(OptionsError, match="the model from before training"):
        options_of_test(run, test)


@pytest.mark.parametrize(
    "task", [Task.TEXT_CLASSIFICATION, Task.TOKEN_CLASSIFICATION, Task.IMAGE_CLASSIFICATION]
)
def test_a_model_is_not_judged_by_labels_that_it_has_not_learned(task, tmp_path):
    run, test = trained(tmp_path, task)
    label_names = {label: f"new {label}" for label in status_at_end(run, and_beginning=True).plan.labels}
    asked = with_changes(options_of_test(run, test), {"data.label_names": label_names})
    assert attempt(tmp_path / "tested", asked) == 1
    status = status_at_end(RunFolder(tmp_path / "tested"), and_beginning=True)
    assert status.messages["failed"].title == "The labels of the data are not those of the model"


@pytest.mark.parametrize("source", ["scratch:bert-mini", "torchvision:resnet18"])
def test_nothing_is_evaluated_by_random_weights(source):
    task = Task.TEXT_CLASSIFICATION if source.startswith("scratch") else Task.IMAGE_CLASSIFICATION
    options = options_of(task, source=source, train="builtin:digits", epochs=0.0, pretrained=False)
    problems = {problem.path: problem.message for problem in problems_of(options)}
    assert "its weights are random" in problems["training.epochs"]
