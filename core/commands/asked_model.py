"""The model that a run file asks for, looked at before its memory is told."""

import sys
from pathlib import Path

from core import hub, model_lookup, questions
from core.commands.output import say
from core.errors import ModelError, OptionsError
from core.model_report import ModelReport
from core.options import RunOptions


def model_here(options: RunOptions, file: Path) -> ModelReport:
    """What a model on this computer is; the network is not used.

    Args:
        options: What is asked.
        file: The run file it stands in.

    Raises:
        OptionsError: The model can't be trained so.
        ModelError: It isn't on this computer, or nobody knows how it is built.
    """
    return _checked(_looked_at(options), options, file)


def described_model(options: RunOptions, file: Path, *, offline: bool) -> ModelReport:
    """The same; of a model on the Hub that isn't here, its config.json is fetched, which is said on standard error.

    Args:
        options: What is asked.
        file: The run file it stands in.
        offline: Whether this command must not fetch anything; `HF_HUB_OFFLINE` forbids it to all programs.

    Raises:
        OptionsError: The model can't be trained so.
        ModelError: Its config.json can't be had, the person has forbidden to fetch it, or it doesn't tell the size.
    """
    source = options.model.source
    report = _looked_at(options)
    if report == ModelReport() and hub.may_be_there(options):
        if offline or hub.is_forbidden():
            raise hub.forbidden(source, "--offline" if offline else hub.forbidden_by())
        say(
            f"Fetching what describes {source} ({hub.CONFIG}, a few KB) from {hub.host()} ...",
            sys.stderr,
        )
        questions.ask_fetch_config(source)
        report = _looked_at(options)
    return _checked(report, options, file)


def refuse_incomplete(options: RunOptions) -> None:
    """Stop where a dry run would find no weights: it trains the model itself, and fetches nothing.

    Raises:
        ModelError: Not all of the model is on this computer.
    """
    if not model_lookup.is_complete(options):
        raise _not_here(options)


def _looked_at(options: RunOptions) -> ModelReport:
    question = model_lookup.question_about(options)
    return questions.ask_check_model(question) if question is not None else ModelReport()


def _checked(report: ModelReport, options: RunOptions, file: Path) -> ModelReport:
    if report.problems:
        raise OptionsError(report.problems, str(file))
    if report.shape is None and report.architecture:
        raise ModelError(
            f"What {options.model.source} takes can't be told before it runs",
            f"Hone doesn't know how {report.architecture} is built.",
        )
    if report.shape is None:
        raise _not_here(options)
    return report


def _not_here(options: RunOptions) -> ModelError:
    source = options.model.source
    return ModelError(
        f"{source} isn't on this computer yet",
        f"A run fetches it; so does `hf download {source}`. To tell its memory by a forecast, `hone forecast` fetches "
        f"no more than its {hub.CONFIG}.",
    )
