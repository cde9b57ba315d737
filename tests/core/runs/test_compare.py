"""Runs side by side: the options in which they differ, their results and machines."""

import errno

import pytest
from msgspec.structs import replace

from core.base.errors import OptionsError
from core.options import past_runs
from core.options.catalogue import with_changes
from core.options.choices import Task
from core.options.data import DataOptions
from core.options.sections import MemoryOptions, ModelOptions, OutputOptions
from core.runs import notes
from core.runs.compare import (
    Absent,
    compare,
    create_sweep,
    differing_options,
    partners,
    sweep,
    sweepable,
)
from core.runs.events import Evaluated, Outcome, RunFinished, RunStarted
from core.runs.folder import RunFolder
from core.runs.library import create, create_all, run_title
from tests.fakes.runs import digits_options, keep_alive, plan, step, what_ran, write_events

PLAIN = digits_options()
OTHER = replace(PLAIN, memory=MemoryOptions(batch_size=4), output=OutputOptions(name="Another"))
TEXTS = replace(PLAIN, task=Task.TEXT_CLASSIFICATION)
SCRATCH, LOADED = (
    replace(PLAIN, task=Task.CAUSAL_LM, model=ModelOptions(source=source, pretrained=False))
    for source in ("scratch:llama-tiny", "gpt2")
)
BATCH = PLAIN.memory.batch_size


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([PLAIN, OTHER, PLAIN], {"memory.batch_size": (BATCH, 4, BATCH)}),
        ([PLAIN, PLAIN], {}),
        ([PLAIN, None], {}),
        ([PLAIN, None, OTHER], {"memory.batch_size": (BATCH, Absent.UNREADABLE, 4)}),
    ],
)
def test_only_options_that_differ_are_listed_with_defaults_filled_in(options, expected):
    assert {row.option.path: row.values for row in differing_options(options)} == expected


OTHERWISE = {"data.image_size": 99, "model.pretrained": True, "model.vocabulary": 2048}


@pytest.mark.parametrize(
    ("options", "path", "values"),
    [
        ([PLAIN, TEXTS], "data.image_size", (PLAIN.data.image_size, Absent.NO_MEANING)),
        ([SCRATCH, LOADED], "model.pretrained", (Absent.NO_MEANING, False)),
        ([SCRATCH, LOADED], "model.vocabulary", (1024, Absent.NO_MEANING)),
    ],
)
def test_an_option_without_meaning_for_a_run_has_no_value_there_and_is_no_difference(options, path, values):
    """“Horizontal flip: Off / –” says no more than that one run has no augmentation."""
    assert path not in [row.option.path for row in differing_options(options)]
    changed = with_changes(
        options[0] if values[1] is Absent.NO_MEANING else options[1], {path: OTHERWISE[path]}
    )
    rows = {row.option.path: row.values for row in differing_options([*options, changed])}
    assert rows[path] == (*values, OTHERWISE[path])


def test_results_machines_and_versions_of_two_runs_and_of_an_empty_folder(tmp_path):
    runs = [create(options, tmp_path) for options in (PLAIN, OTHER)]
    for run, torch, device in zip(runs, ("2.13", "2.12"), ("One CPU", "Another CPU"), strict=True):
        write_events(
            run.events_file,
            RunStarted(time=100, versions={"torch": torch, "python": "3.11"}),
            plan(time=101, effective_batch=8),
            what_ran(time=102, device_name=device),
            step(5, time=103),
            Evaluated(time=104, step=5, epoch=1, metrics={"eval_accuracy": 0.9}, seconds=1),
        )
    end = RunFinished(time=160, state=Outcome.FINISHED, steps=9, peak_bytes=70, samples_per_second=33)
    write_events(runs[0].events_file, end)
    found = compare(runs)
    first, second = found.runs
    assert (first.title, second.title) == ("Digits", "Another")
    assert (first.metric, first.best, first.seconds, first.peak_bytes) == ("eval_accuracy", 0.9, 60, 70)
    assert (first.samples_per_second, first.steps) == (33, 9)
    assert (second.samples_per_second, second.steps) == (16, 5), "eight samples in half a second"
    assert {row.title: row.values for row in found.ran} == {
        "Device": ("CPU (One CPU)", "CPU (Another CPU)"),
        "Version of torch": ("2.13", "2.12"),
    }
    (tmp_path / "empty").mkdir()
    found = compare([runs[0], RunFolder(tmp_path / "empty")])
    assert (found.options, found.ran, found.runs[1].best) == ((), (), None)


def test_how_a_test_would_train_is_no_difference():
    training = replace(PLAIN.training, epochs=0.0, learning_rate=0.5)
    assert differing_options([PLAIN, replace(PLAIN, training=training)]) == ()


FINISHED = RunFinished(time=160, state=Outcome.FINISHED, steps=9)


@pytest.mark.parametrize(("other", "may_be_chance"), [(2.006, True), (2.02, False)])
def test_losses_that_differ_by_rounding_alone_make_no_run_better(tmp_path, other, may_be_chance):
    runs = create_all(PLAIN, tmp_path) + create_all(PLAIN, tmp_path)
    for run, loss in zip(runs, (2.0, other), strict=True):
        evaluated = Evaluated(time=104, step=5, epoch=1, metrics={"eval_loss": loss}, seconds=1)
        write_events(
            run.events_file, RunStarted(time=100), plan(time=101, eval_samples=359), evaluated, FINISHED
        )
    found = compare(runs)
    assert "is best: loss 2.00, the next" in found.conclusion
    assert ("may be chance" in found.conclusion) == may_be_chance


@pytest.mark.parametrize(
    ("accuracies", "other", "expected"),
    [
        (
            (0.9, 0.99),
            PLAIN,
            "“Digits 2” is best: accuracy 99.0 %, the next 90.0 %, on 359 validation examples.",
        ),
        ((0.99, 0.981), PLAIN, "So small a difference may be chance."),
        ((0.997, 0.997), PLAIN, "Equal on 359 validation examples: accuracy 99.7 %."),
        (
            (0.9, 0.5, 0.9),
            PLAIN,
            "“Digits”, “Digits 3” are level, and the best: accuracy 90.0 %, on 359 validation examples.",
        ),
        (
            (0.9, 0.99),
            replace(PLAIN, data=DataOptions(train="other.csv")),
            "different validation data or metrics.",
        ),
        ((0.9, None), PLAIN, ""),
    ],
)
def test_the_conclusion_says_which_run_is_better_by_how_much_if_that_can_be_said(
    tmp_path, accuracies, other, expected
):
    runs = [create_all(options, tmp_path)[0] for options in (PLAIN, *[other] * (len(accuracies) - 1))]
    for run, accuracy in zip(runs, accuracies, strict=True):
        metrics = {} if accuracy is None else {"eval_accuracy": accuracy}
        evaluated = Evaluated(time=104, step=5, epoch=1, metrics=metrics, seconds=1)
        write_events(
            run.events_file, RunStarted(time=100), plan(time=101, eval_samples=359), evaluated, FINISHED
        )
    found = compare(runs)
    assert found.conclusion.endswith(expected)
    assert bool(found.conclusion) == bool(expected)
    assert found.is_fair == (other is PLAIN)
    (waits,) = create_all(replace(PLAIN, training=replace(PLAIN.training, learning_rate=0.5)), tmp_path)
    assert compare([*runs, waits]).is_fair == found.is_fair, "it hasn't read its data yet"


@pytest.mark.parametrize(
    ("ends", "best", "expected"),
    [
        (  # one has only begun
            [(10, 0.975, FINISHED), (2, 0.277, None)],
            None,
            "They aren't equally far, so none is called best. Accuracy: “Digits” 97.5 % after 100 % of its steps, "
            "“Digits 2” 27.7 % after 20 % of its steps.",
        ),
        (  # it was stopped, and won't catch up
            [(10, 0.5, FINISHED), (4, 0.7, replace(FINISHED, state=Outcome.STOPPED, steps=4))],
            None,
            "after 40 % of its steps.",
        ),
        (
            [(10, 0.9, FINISHED), (10, 0.5, FINISHED), (2, 0.99, None)],
            0,
            "“Digits” is best so far: accuracy 90.0 %, the next 50.0 %, on 359 validation examples. "
            "Not as far, so left out: “Digits 3” 99.0 % after 20 % of its steps.",
        ),
        ([(2, 0.3, None), (2, 0.6, None)], 1, "“Digits 2” is best so far: accuracy 60.0 %, the next 30.0 %"),
        (
            [(8, 0.3, FINISHED), (10, 0.6, FINISHED)],
            1,
            "“Digits 2” is best: ",
        ),  # an early stop ends a run, too
    ],
)
def test_runs_that_are_not_equally_far_are_not_compared_as_equals(tmp_path, ends, best, expected):
    runs = []
    for step_judged, accuracy, end in ends:
        run = create_all(PLAIN, tmp_path)[0]
        metrics = {"eval_accuracy": accuracy}
        evaluated = Evaluated(time=104, step=step_judged, epoch=1, metrics=metrics, seconds=1)
        begun = RunStarted(time=100), plan(time=101, total_steps=10, eval_samples=359)
        write_events(run.events_file, *begun, evaluated, *([end] if end is not None else []))
        if end is None:
            keep_alive(run)
        runs.append(run)
    found = compare(runs)
    assert expected in found.conclusion
    assert found.best == (None if best is None else found.runs[best])
    assert found.is_fair == ("equally" not in expected and "left out" not in expected and best is not None)


def test_the_best_partner_is_the_source_then_what_began_with_the_run_then_the_most_similar(tmp_path):
    def started(name, **changes):
        return create(replace(PLAIN, output=OutputOptions(name=name), **changes), tmp_path)

    source = started("source", task=Task.IMAGE_CLASSIFICATION)
    asked = started("asked", model=ModelOptions(source=f"run:{source.path}"))
    child = started(
        "child", model=ModelOptions(source=f"run:{asked.path}"), memory=MemoryOptions(batch_size=4)
    )
    unlike = started("unlike", memory=MemoryOptions(batch_size=4))
    like = started("like")
    started("texts", task=Task.TEXT_CLASSIFICATION)
    for run in (unlike, like):
        write_events(run.events_file, RunStarted(time=100), FINISHED)
    unfinished = started("unfinished")
    assert partners(asked) == [source, child, like, unlike, unfinished]


# --- Sweeps


RATE, SIZE = "training.learning_rate", "memory.batch_size"


def test_a_sweep_is_a_run_for_each_pair_of_values_named_after_them():
    made = list(sweep(PLAIN, {RATE: "1e-5, 3e-4,0.00001", SIZE: "8,16"}).values())
    values = [(one.training.learning_rate, one.memory.batch_size) for one in made]
    assert values == [(1e-5, 8), (1e-5, 16), (3e-4, 8), (3e-4, 16)]
    assert made[0].output.name == "Digits · lr 1e-5, batch 8"
    assert [row.option.path for row in differing_options(made)] == [SIZE, RATE]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({RATE: "1e-4"}, "two different values or more"),
        ({RATE: "1e-4, -1"}, "Learning rate -1: must be above 0"),
        ({SIZE: "8, many"}, "Batch size many: must be a whole number"),
        ({SIZE: "1,2,3,4", RATE: "1e-5,2e-5,3e-5,4e-5"}, "16 runs; at most 12"),
        ({"learning_rate": "1,2"}, f"did you mean {RATE}?"),
        ({"output.keep_best": "true,false"}, "several values of it can't be tried"),
        ({"training.seed": "1,2"}, "different validation examples"),
        ({"training.warmup": "0,0.1", "training.max_steps": "5,none"}, ""),
        ({"device.precision": "fp32,fp17"}, "Precision fp17: must be one of"),
    ],
)
def test_a_sweep_that_could_not_run_or_be_compared_is_refused_as_a_whole(values, said):
    if not said:
        assert len(sweep(PLAIN, values)) == 4
        return
    with pytest.raises(OptionsError) as refusal:
        sweep(PLAIN, values)
    assert said in str(refusal.value)


def test_what_can_be_tried_begins_with_what_people_try_most():
    paths = list(sweepable(PLAIN))
    assert paths[:3] == [RATE, SIZE, "training.epochs"]
    assert not {"model.lora_rank", "data.train", "data.max_length", "output.save_steps", "task"} & {*paths}


def test_the_runs_of_a_sweep_get_one_tag_and_another_sweep_another_name(tmp_path):
    for number, name in ((1, "Digits"), (2, "Digits 2")):
        made = create_sweep(PLAIN, {RATE: "1e-5,1e-4"}, tmp_path)
        assert [run_title(run) for run in made] == [f"{name} · lr {rate}" for rate in ("1e-5", "0.0001")]
        assert {past_runs.read(run.path).tags for run in made} == {(f"sweep-{number}",)}


def test_of_a_sweep_that_cannot_be_made_nothing_is_left(tmp_path, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device")
    writes = iter([None, full])

    def write(_folder, _notes):
        if (error := next(writes)) is not None:
            raise error

    monkeypatch.setattr(notes, "write", write)
    with pytest.raises(OSError, match="No space"):
        create_sweep(PLAIN, {RATE: "1e-5,1e-4"}, tmp_path)
    assert not list(tmp_path.iterdir())
