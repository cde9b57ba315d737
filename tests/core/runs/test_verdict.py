"""What is said of runs that have ended, over a table of the shapes that their curves take."""

import math
from dataclasses import dataclass, field

import msgspec
import pytest

from core.base.errors import FixAction
from core.options import RunOptions
from core.options.catalogue import with_changes
from core.options.choices import PreferenceLoss, Task
from core.runs.events import Evaluated, Level, MessageRaised, Outcome, Predicted, RunFinished, Said
from core.runs.library import create_all
from core.runs.status import IN_BOTH, RunStatus
from core.runs.verdict import RunFinding, RunVerdict, verdict
from tests.fakes.runs import digits_options, plan, step

PER_EPOCH = 75
KEEPS_BEST = {"output.keep_best": True}
DIGITS = digits_options()


def pretrained(task: Task, rate: float, **training: str) -> RunOptions:
    model = msgspec.structs.replace(DIGITS.model, source="/model", pretrained=True)
    training = msgspec.structs.replace(DIGITS.training, learning_rate=rate, **training)
    return msgspec.structs.replace(DIGITS, task=task, model=model, training=training)


PREFERENCE = pretrained(Task.PREFERENCE, 1e-3)
ORPO = pretrained(Task.PREFERENCE, 1e-3, preference_loss=PreferenceLoss.ORPO)
KTO = pretrained(Task.PREFERENCE, 1e-3, preference_loss=PreferenceLoss.KTO)


@dataclass(frozen=True)
class Run:
    """A run by its evaluations: epoch, validation loss, training loss, and what it is judged by."""

    curve: tuple[tuple[float, float | None, float | None, float | None], ...] = ()
    epochs: float = 3
    stopped: bool = False
    by: str = "accuracy"
    baseline: float | None = 0.5
    count: int = 400
    first_loss: float = 0.7
    more: dict[str, float] = field(default_factory=dict)
    """Other metrics of all evaluations."""
    kept: float | None = None
    """The epoch of the model, if the best is kept."""
    waited: int = 0
    ended: float | None = None
    """The epoch after which it ended, if not with the last evaluation."""
    options: RunOptions = DIGITS

    def status(self) -> RunStatus:
        status = RunStatus()
        planned = plan(
            total_steps=round(self.epochs * PER_EPOCH), epochs=self.epochs, eval_samples=self.count
        )
        status.apply_all([planned, step(1, loss=self.first_loss)])
        for epoch, loss, train, judged in self.curve:
            metrics = {"eval_loss": loss, f"eval_{self.by}": judged}
            metrics |= {f"eval_{name}": value for name, value in self.more.items()}
            told = {"train_loss": train, "baseline": self.baseline, "seconds": 1}
            status.apply(Evaluated(step=round(epoch * PER_EPOCH), epoch=epoch, metrics=metrics, **told))
        end = self.ended or (self.curve[-1][0] if self.curve else self.epochs)
        status.apply(
            RunFinished(
                state=Outcome.STOPPED if self.stopped else Outcome.FINISHED,
                seconds=9.0,
                steps=round(end * PER_EPOCH),
                model_step=None if self.kept is None else round(self.kept * PER_EPOCH),
                waited=self.waited,
            )
        )
        return status

    def judged(self) -> RunVerdict:
        found = verdict(self.status(), with_changes(self.options, {"training.epochs": float(self.epochs)}))
        assert found is not None
        return found


OVERFITTING = ((1, 0.40, 0.50, 0.80), (2, 0.45, 0.30, 0.80), (3, 0.60, 0.10, 0.79))
EXPLODED = ((1, 0.50, 0.60, 0.80), (2, 2.00, 1.90, 0.70))
AUGMENTED = ((1, 1.31, 1.90, 0.55), (2, 0.803, 1.41, 0.72), (2.08, 0.921, 1.47, 0.641))

RUNS = {
    "flat": Run(((1, 0.50, 0.60, 0.8), (2, 0.40, 0.45, 0.9), (3, 0.395, 0.40, 0.9))),
    "nearly always right": Run(((1, 0.013, 0.08, 0.99), (2, 0.020, 0.02, 0.99))),
    "falls and rises by chance": Run(
        ((0.7, 0.64, None, 0.9), (1.4, 0.47, None, 0.9), (2.1, 0.52, None, 0.9), (3, 0.41, None, 0.9))
    ),
    # overfitting
    "overfits": Run(OVERFITTING),
    "overfits from one epoch to the next": Run(((1, 0.4, 0.5, 0.8), (2, 0.6, 0.1, 0.8)), epochs=2),
    "overfits, evaluated often": Run(
        tuple((0.2 * n, 0.4 + 0.03 * max(0, 5 - n, n - 5), 1 / n, 0.8) for n in range(1, 16))
    ),
    "overfits, best kept": Run(OVERFITTING, kept=1),
    "overfits, keeps the best, which was the last": Run(
        OVERFITTING, kept=3, options=with_changes(DIGITS, KEEPS_BEST)
    ),
    "overfits, stopped early": Run(OVERFITTING, kept=1, waited=2),
    "overfits, stopped": Run(OVERFITTING, epochs=9, stopped=True),
    # what looks like it
    "augmented, stopped six steps after an evaluation": Run(AUGMENTED, stopped=True),
    "augmented": Run(((1, 1.3, 1.9, 0.55), (2, 0.80, 1.41, 0.72), (3, 0.92, 1.40, 0.70))),
    "a jump at the last of close evaluations": Run(
        ((1, 0.50, 0.5, 0.8), (1.5, 0.4, 0.45, 0.8), (2.7, 0.41, 0.40, 0.8), (3, 0.46, 0.35, 0.8))
    ),
    "rises within an epoch": Run(
        ((0.4, 0.40, 0.50, 0.8), (0.8, 0.50, 0.30, 0.8), (1, 0.60, 0.20, 0.8)), epochs=1
    ),
    "rises in less than a tenth of the run": Run(
        ((45, 0.5, 0.50, 0.80), (47, 0.40, 0.45, 0.80), (50, 0.50, 0.2, 0.80)), epochs=50
    ),
    "the training loss is unknown": Run(((1, 0.4, None, 0.8), (2, 0.6, None, 0.8))),
    # the loss rose, the metric didn't
    "more are right": Run(((1, 0.4, 0.5, 0.8), (2, 0.6, 0.1, 0.9))),
    "more are right, though it was better once": Run(
        ((1, 0.4, 0.5, 0.80), (2, 0.5, 0.3, 0.95), (3, 0.6, 0.1, 0.94))
    ),
    "correlates better": Run(
        ((1, 0.4, 0.5, 0.5), (2, 0.6, 0.1, 0.6)), by="pearson", baseline=1.0, more={"mae": 0.4}
    ),
    # worse than before
    "exploded": Run(EXPLODED),
    "exploded, best kept": Run(EXPLODED, kept=1),
    "exploded to chance": Run(((1, 0.50, 0.60, 0.80), (2, 2.00, 1.90, 0.50))),
    # still learning
    "still falling": Run(((1, 0.6, 0.7, 0.7), (2, 0.5, 0.55, 0.8), (3, 0.4, 0.45, 0.9))),
    "falls by less than counts": Run(((1, 0.42, 0.5, 0.88), (2, 0.41, 0.45, 0.9), (3, 0.40, 0.4, 0.9))),
    "stopped while falling": Run(
        ((1, 0.6, 0.7, 0.7), (2, 0.5, 0.55, 0.8), (3, 0.4, 0.45, 0.9)), epochs=9, stopped=True
    ),
    "stopped while falling, just after an evaluation": Run(
        ((1, 1.059, 1.2, 0.6), (2, 0.241, 0.3, 0.8), (2.1, 0.189, 0.2, 0.9)), epochs=9, stopped=True
    ),
    "stopped, flat": Run(
        ((1, 0.50, 0.60, 0.8), (2, 0.40, 0.45, 0.9), (3, 0.395, 0.40, 0.9)), epochs=9, stopped=True
    ),
    "stopped as it exploded": Run(
        ((1, 1.3, 1.9, 0.6), (2, 0.8, 1.41, 0.7), (2.08, 3.0, 5.0, 0.6)), stopped=True
    ),
    # hardly learned
    "hardly learned": Run(((1, 0.69, 0.70, 0.51), (2, 0.69, 0.69, 0.52))),
    "hardly learned, but a little": Run(((1, 0.69, 0.70, 0.51), (2, 0.68, 0.69, 0.52))),
    "hardly learned, and ever less": Run(((1, 0.69, 0.70, 0.51), (2, 0.9, 0.95, 0.5))),
    "hardly learned, stopped": Run(((0.3, 0.69, 0.70, 0.51),), stopped=True),
    "hardly learned, stopped early": Run(((1, 0.70, 0.7, 0.5), (2, 0.70, 0.7, 0.5)), kept=1, waited=1),
    "hardly learned at a high rate": Run(
        ((1, 0.70, 0.7, 0.5),), options=pretrained(Task.TEXT_CLASSIFICATION, 5e-4)
    ),
    "by heart, a little better than at first": Run(
        ((1, 1.16, 0.97, 0.33), (2, 1.12, 0.61, 0.30), (5, 1.86, 0.06, 0.37), (6, 2.23, 0.016, 0.41)),
        baseline=0.44,
        count=27,
        epochs=6,
        first_loss=1.22,
    ),
    "by heart, as right as ever": Run(
        ((1, 0.70, 0.5, 0.5), (2, 0.69, 0.2, 0.5), (3, 0.70, 0.1, 0.5)), first_loss=0.7
    ),
    "by heart, ended after the last evaluation": Run(((1, 0.70, 0.5, 0.5), (2, 0.70, 0.2, 0.5)), ended=2.5),
    "hardly learned at the usual rate": Run(
        ((1, 0.70, 0.7, 0.5),), options=pretrained(Task.TEXT_CLASSIFICATION, 2e-5)
    ),
    "rare labels, learned": Run(((1, 0.05, 0.06, 0.985),), baseline=0.97, count=4000),
    "rare labels, too few to tell": Run(((1, 0.05, 0.06, 0.99),), baseline=0.97, count=50),
    "right as often as the most frequent label, but not at random": Run(
        ((1, 0.3, 0.3, 0.9),), baseline=0.9, more={"matthews": 0.5}
    ),
    "right as often as the most frequent label": Run(
        ((1, 0.3, 0.3, 0.9),), baseline=0.9, more={"matthews": 0.05}
    ),
    "numbers": Run(((1, 0.3, 0.3, 0.4),), by="mae", baseline=1.0),
    "numbers near the mean": Run(((1, 1.5, 1.5, 0.99),), by="mae", baseline=1.0, first_loss=1.6),
    "numbers in the right order": Run(((1, 1.5, 1.5, 1.3),), by="mae", baseline=1.0, more={"pearson": 0.8}),
    "entities, none": Run(((1, 0.3, 0.3, 0.0),), by="f1", baseline=None),
    # preferences
    "pairs, as guessed": Run(
        ((1, 0.69, 0.69, 0.571),), by="reward_accuracy", baseline=None, count=14, options=PREFERENCE
    ),
    "pairs": Run(((1, 0.5, 0.5, 0.8),), by="reward_accuracy", baseline=None, options=PREFERENCE),
    "ratings, as guessed": Run(
        ((1, 0.5, 0.5, 0.438),), by="reward_accuracy", baseline=0.5, count=16, options=KTO
    ),
    "pairs, negative margin": Run(
        ((1, 0.5, 0.5, 0.8),),
        by="reward_accuracy",
        baseline=None,
        options=PREFERENCE,
        more={"reward_margin": -0.009},
    ),
    "pairs, positive margin": Run(
        ((1, 0.5, 0.5, 0.8),),
        by="reward_accuracy",
        baseline=None,
        options=PREFERENCE,
        more={"reward_margin": 0.2},
    ),
    "pairs without a reference": Run(
        ((1, 0.5, 0.5, 0.8),),
        by="reward_accuracy",
        baseline=None,
        options=ORPO,
        more={"reward_margin": 0.2},
    ),
    "pairs without a reference, negative margin": Run(
        ((1, 0.5, 0.5, 0.8),),
        by="reward_accuracy",
        baseline=None,
        options=ORPO,
        more={"reward_margin": -0.009},
    ),
    "ratings, negative margin": Run(
        ((1, 0.5, 0.5, 0.8),), by="reward_accuracy", options=KTO, more={"reward_margin": -0.1}
    ),
    "ratings, positive margin": Run(
        ((1, 0.5, 0.5, 0.8),), by="reward_accuracy", options=KTO, more={"reward_margin": 0.1}
    ),
    "ratings of an older run": Run(((1, 0.5, 0.5, 0.8),), by="reward_accuracy", baseline=None, options=KTO),
    "ratings, more are liked": Run(((1, 0.5, 0.5, 0.63),), by="reward_accuracy", baseline=0.625, options=KTO),
    # what the model is of
    "best earlier, kept": Run(((1, 0.40, 0.5, 0.9), (2, 0.41, 0.45, 0.88)), kept=1),
    "trained on, not evaluated": Run(((1, 0.4, 0.5, 0.9),), ended=1.5, stopped=True),
    "better on what it has seen": Run(((1, 0.50, 0.5, 0.90), (2, 0.50, 0.20, 0.90))),
    "low on both": Run(((1, 0.05, 0.5, 0.9), (2, 0.05, 0.01, 0.9))),
    # not evaluated
    "no validation data": Run(count=0, options=with_changes(DIGITS, {"data.eval_fraction": 0.0})),
    "stopped before the first evaluation": Run(ended=0.2, stopped=True),
    "a validation file that was never reached": Run(
        count=0, options=with_changes(DIGITS, {"data.eval_fraction": 0.0, "data.eval": "other.csv"})
    ),
}

SAID = {
    "It overfits": (
        "overfits", "overfits from one epoch to the next", "overfits, evaluated often", "overfits, best kept",
        "overfits, keeps the best, which was the last", "overfits, stopped",
        "by heart, a little better than at first",
    ),
    "It was better before": ("augmented", "the training loss is unknown", "exploded"),
    "still falling at the end": ("still falling",),
    "was still learning": (
        "augmented, stopped six steps after an evaluation", "stopped while falling",
        "stopped while falling, just after an evaluation",
    ),
    "although more answers are right": ("more are right", "more are right, though it was better once"),
    "although Pearson is better": ("correlates better",),
    "well above the training loss": (
        "better on what it has seen",
        "rises within an epoch",  # of which nothing else is said
        "rises in less than a tenth of the run",
        "by heart, as right as ever", "by heart, ended after the last evaluation",
    ),
    "the best evaluation; step": ("overfits, best kept", "exploded, best kept", "best earlier, kept"),
    "Stopped early at step": ("overfits, stopped early", "hardly learned, stopped early"),
    "It has hardly learned": (
        "exploded to chance", "hardly learned", "hardly learned, but a little",
        "hardly learned, and ever less", "hardly learned, stopped",
        "hardly learned, stopped early", "hardly learned at a high rate",
        "by heart, as right as ever", "by heart, ended after the last evaluation",
        "hardly learned at the usual rate", "rare labels, too few to tell",
        "right as often as the most frequent label", "numbers near the mean", "entities, none",
        "pairs, as guessed", "ratings, as guessed", "ratings, more are liked",
    ),
    "It leans more towards the better answer than before training in ": (
        "pairs, as guessed", "pairs", "pairs, negative margin", "pairs, positive margin",
    ),
    "Random changes would do so in 50 % of cases. How often": (
        "pairs, as guessed", "pairs", "pairs, negative margin", "pairs, positive margin",
    ),
    "leans towards the better answer than before training, is 0.2 on average.": ("pairs, positive margin",),
    "On average it leans more towards the worse answer than before training": ("pairs, negative margin",),
    "It prefers the better answer in 80.0 %": (
        "pairs without a reference", "pairs without a reference, negative margin",
    ),
    "Guessing would be right in 50 %": (
        "pairs without a reference", "pairs without a reference, negative margin",
    ),
    "The reward margin, how much more it prefers the better answer, is 0.2": ("pairs without a reference",),
    "On average it prefers the worse answer": ("pairs without a reference, negative margin",),
    "A reward is how much likelier an answer is than before training": (
        "ratings, as guessed", "ratings, negative margin", "ratings, positive margin", "ratings of an older run",
        "ratings, more are liked",
    ),
    "Rewarding all of them alike would be right in 50.0 %": (
        "ratings, as guessed", "ratings, negative margin", "ratings, positive margin",
    ),
    "Rewards at random would be right in 50 %": ("ratings of an older run",),
    "The reward margin, how much higher the rewards of liked answers are": ("ratings, positive margin",),
    "On average, answers that aren't liked get the higher rewards": ("ratings, negative margin",),
    "Rewarding all of them alike would be right in 62.5 %": ("ratings, more are liked",),
    "Measured at step 75; the model was then trained to step 112": ("trained on, not evaluated",),
    "This run was not evaluated": (
        "no validation data", "stopped before the first evaluation",
        "a validation file that was never reached",
    ),
}  # fmt: skip
"""Each sentence, and all shapes of RUNS of which it is said."""


@pytest.mark.parametrize("name", RUNS)
def test_each_sentence_is_said_of_its_shapes_and_of_no_other(name):
    found = RUNS[name].judged()
    said = f"{found.title}. {found.detail}"
    assert [one for one in SAID if one in said] == [one for one in SAID if name in SAID[one]]


KEEP, RESUME, LONGER = "New run that keeps the best model", "Resume", "Train longer"
OFFERED = {
    "overfits": ["New run with 1 epoch", KEEP],
    "overfits from one epoch to the next": ["New run with 1 epoch", KEEP],
    "overfits, evaluated often": ["New run with 1 epoch", KEEP],
    "overfits, keeps the best, which was the last": ["New run with 1 epoch"],
    "overfits, stopped": ["New run with 1 epoch", KEEP],
    "augmented, stopped six steps after an evaluation": [RESUME],
    "augmented": [KEEP],
    "the training loss is unknown": [KEEP],
    "exploded": [KEEP, "Lower the learning rate to 5e-6"],
    "exploded to chance": ["Lower the learning rate to 5e-6"],
    "still falling": [LONGER],
    "stopped while falling": [RESUME],
    "stopped while falling, just after an evaluation": [RESUME],
    "hardly learned": ["Raise the learning rate to 0.001"],
    "hardly learned, but a little": [LONGER, "Raise the learning rate to 0.001"],
    "hardly learned, and ever less": ["Lower the learning rate to 5e-6"],
    "hardly learned, stopped": [RESUME],
    "hardly learned, stopped early": ["Raise the learning rate to 0.001"],
    "hardly learned at a high rate": [LONGER, "Lower the learning rate to 2e-5"],
    "by heart, a little better than at first": [KEEP],
    "hardly learned at the usual rate": [LONGER],
    "rare labels, too few to tell": [LONGER, "Raise the learning rate to 0.001"],
    "right as often as the most frequent label": [LONGER, "Raise the learning rate to 0.001"],
    "numbers near the mean": [LONGER, "Raise the learning rate to 0.001"],
    "entities, none": [LONGER, "Raise the learning rate to 0.001"],
    "pairs, as guessed": [LONGER, "Lower the learning rate to 5e-6"],
    "ratings, as guessed": [LONGER, "Lower the learning rate to 5e-6"],
    "ratings, more are liked": [LONGER, "Lower the learning rate to 5e-6"],
    "no validation data": ["New run with a validation fraction of 10 %"],
    "stopped before the first evaluation": [RESUME],
}
"""The buttons of each shape of RUNS; the others have none."""


@pytest.mark.parametrize("name", RUNS)
def test_a_button_is_offered_where_it_helps_and_nowhere_else(name):
    assert [fix.label for fix in RUNS[name].judged().fixes] == OFFERED.get(name, [])


def test_the_figures_of_a_verdict_are_those_of_its_evaluations():
    assert (
        "It overfits: the validation loss was lowest at epoch 1 (0.400) and rose to 0.600, while the training loss "
        "fell from 0.500 to 0.100."
    ) in RUNS["overfits"].judged().detail
    assert (
        "It was stopped at step 156 of 225 and was still learning: the validation loss had fallen from 1.31 to 0.803."
    ) in RUNS["augmented, stopped six steps after an evaluation"].judged().detail
    assert (
        "the validation loss had fallen from 1.06 to 0.189."
        in RUNS["stopped while falling, just after an evaluation"].judged().detail
    )
    assert (
        RUNS["ratings, as guessed"]
        .judged()
        .detail.startswith("43.8 % of the evaluated answers get a reward on the right side.")
    )


@pytest.mark.parametrize("name", ["pairs", "flat", "overfits", "hardly learned"])
def test_a_verdict_on_examples_that_were_trained_on_says_so(name):
    status, title = RUNS[name].status(), "9 of 10 validation examples are also trained on"
    assert "trained on" not in (RUNS[name].judged().detail)
    status.apply(MessageRaised(id=IN_BOTH, level=Level.WARNING, title=title))
    assert f"{title}." in verdict(status, RUNS[name].options).detail


@pytest.mark.parametrize(
    ("options", "metrics"),
    [
        (DIGITS, {"eval_perplexity": 1.88, "eval_loss": 0.63}),
        (DIGITS, {"eval_f1": 0.8}),
        (DIGITS, {"eval_accuracy": 0.8}),
    ],
)
def test_a_test_speaks_of_what_was_tested_and_a_run_of_its_validation_data(options, metrics):
    def said(steps: int) -> str:
        status = RunStatus()
        evaluated = Evaluated(step=steps, epoch=0.0, metrics=metrics, seconds=1.0)
        result = RunFinished(state=Outcome.FINISHED, seconds=1.0, steps=steps, metrics=metrics)
        status.apply_all([plan(total_steps=steps, eval_samples=10), evaluated, result])
        found = verdict(status, options)
        return f"{found.title}. {found.detail}"

    assert "validation" not in said(0)
    assert "validation" in said(9)


def test_a_test_on_examples_that_were_trained_on_says_so():
    status = RunStatus()
    metrics = {"eval_accuracy": 0.9}
    evaluated = Evaluated(step=0, epoch=0.0, metrics=metrics, seconds=1.0)
    result = RunFinished(state=Outcome.FINISHED, seconds=1.0, steps=0, metrics=metrics)
    status.apply_all([plan(total_steps=0, eval_samples=10), evaluated, result])
    assert verdict(status, DIGITS).detail == ""
    title = "9 of 10 examples are also in the data that the model was trained or validated on"
    status.apply(MessageRaised(id=IN_BOTH, level=Level.WARNING, title=title))
    assert verdict(status, DIGITS).detail == f"{title}."


@pytest.mark.parametrize(
    ("evaluations", "finding"),
    [
        ([{"accuracy": 0.11, "loss": 2.3}], RunFinding.HARDLY_LEARNED),  # an older run: the loss is ln 10
        ([{"accuracy": 0.11, "loss": 1.9}], RunFinding.RESULT),
        ([{"perplexity": 287.0, "loss": 5.66}], RunFinding.RESULT),
        ([{"perplexity": 900.0, "loss": 6.8}], RunFinding.RESULT),  # it may not be from scratch
    ],
)
def test_an_older_run_is_compared_with_what_it_has_recorded(evaluations, finding):
    status = RunStatus()
    status.apply_all([plan(eval_samples=400, labels=tuple("0123456789")), step(1, loss=6.9)])
    for figures in evaluations:
        metrics = {f"eval_{name}": value for name, value in figures.items()}
        status.apply(Evaluated(step=1, epoch=1, metrics=metrics, seconds=1))
    status.apply(RunFinished(state=Outcome.FINISHED, steps=9))
    assert verdict(status, None).finding is finding


@pytest.mark.parametrize("state", [None, Outcome.FAILED, Outcome.PAUSED])
def test_there_is_no_verdict_on_a_run_without_a_result(state):
    """It goes on, has diverged to NaN, or is paused."""
    status = RunStatus()
    status.apply_all([plan(), step(1), Evaluated(step=1, epoch=1, metrics={"eval_accuracy": 0.9}, seconds=1)])
    if state is not None:
        status.apply(RunFinished(state=state, steps=9, seconds=9.0))
    assert verdict(status, None) is None


# --- Models that write


@pytest.mark.parametrize(
    ("texts", "finding"),
    [
        (["", " ", "\n"], RunFinding.HARDLY_LEARNED),
        (["the the", "the", "the  the the"], RunFinding.HARDLY_LEARNED),
        (["Yes", "Yes"], RunFinding.NOT_EVALUATED),
        (["", "Yes", "No"], RunFinding.NOT_EVALUATED),
    ],
)
def test_generated_texts_that_are_empty_or_all_the_same_are_called_so(texts, finding):
    status, options = RunStatus(), digits_options()
    said = tuple(Said(text=text) for text in texts)
    status.apply_all([plan(), step(1), Predicted(step=1, epoch=0.5, said=said)])
    status.apply(RunFinished(state=Outcome.FINISHED, steps=9))
    assert verdict(status, msgspec.structs.replace(options, task=Task.CHAT)).finding is finding


def from_scratch(task, source="scratch:llama-small"):
    options = digits_options()
    model = msgspec.structs.replace(options.model, source=source, pretrained=True)
    return msgspec.structs.replace(options, task=task, model=model)


@pytest.mark.parametrize(
    ("options", "actions"),
    [
        (from_scratch(Task.CHAT, "run:/somewhere"), [None]),
        (from_scratch(Task.CAUSAL_LM), [FixAction.EXTEND, None]),
        (from_scratch(Task.CHAT, "some/model"), [FixAction.EXTEND]),
    ],
)
def test_a_model_that_writes_nothing_is_trained_longer_only_if_that_can_help(options, actions):
    status = RunStatus()
    status.apply_all([plan(), step(1), Predicted(step=1, epoch=2, said=(Said(text=" "), Said(text="\n")))])
    status.apply(RunFinished(state=Outcome.FINISHED, steps=9))
    assert [fix.action for fix in verdict(status, options).fixes] == actions


@pytest.mark.parametrize(
    ("training", "length"),
    [({"epochs": 2.0}, {"training.epochs": 10.0}), ({"max_steps": 64}, {"training.max_steps": 320})],
)
def test_a_chat_from_scratch_that_writes_nothing_can_be_pretrained_longer_offline(tmp_path, training, length):
    chat = from_scratch(Task.CHAT)
    chat = msgspec.structs.replace(chat, training=msgspec.structs.replace(chat.training, **training))
    _first, second = create_all(with_changes(chat, {"model.vocabulary": 2048}), tmp_path)
    status = RunStatus()
    status.apply_all([plan(), step(1), Predicted(step=1, epoch=2, said=(Said(text=" "), Said(text="\n")))])
    status.apply(RunFinished(state=Outcome.FINISHED, steps=9))
    longer, download = verdict(status, second.options()).fixes
    assert (longer.label, longer.action) == ("Two new runs, 5 times as long", None)
    assert longer.changes == {"model.source": "scratch:llama-small", "model.vocabulary": 2048, **length}
    again = with_changes(second.options(), longer.changes)
    assert again.pretrains
    assert download.label == "New run with SmolLM2-135M-Instruct"


@pytest.mark.parametrize(("loss", "finding"), [(5.2, RunFinding.HARDLY_LEARNED), (3.3, RunFinding.RESULT)])
def test_a_high_perplexity_of_a_model_from_scratch_is_judged(loss, finding):
    run = Run(
        ((1, loss, loss, math.exp(loss)),),
        by="perplexity",
        first_loss=6.9,
        options=from_scratch(Task.CAUSAL_LM),
    )
    assert run.judged().finding is finding
