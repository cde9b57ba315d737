"""What was chosen for each task, so that going back to one finds it as it was; and which task dropped data is for."""

from pathlib import Path

from PySide6.QtCore import QCoreApplication

from core import run_file
from core.checks import check_tree
from core.choices import Task
from core.errors import Fix, OptionsError
from core.options import Tree
from core.sources import Scheme, scheme_of, short_name
from core.starting_values import starting_options
from core.targets import writing
from core.tree import copied

_translate = QCoreApplication.translate


class TaskMemory:
    """The form of each task that was shown; of one that wasn't, good values to start from."""

    def __init__(self) -> None:
        self._trees: dict[Task, Tree] = {}

    def exchange(self, before: Tree, task: Task) -> Tree:
        """Keep the form as it is and give that of another task; the device stays."""
        self._trees[Task(before["task"])] = before
        tree = self._trees.get(task) or _with_chosen(starting_tree(task), before, task)
        return {**tree, "device": before.get("device", {})}


def save_form(tree: Tree, path: Path) -> None:
    """Write the form as a run file.

    Raises:
        UserError: It has problems, or the file can't be written.
    """
    options, problems = check_tree(tree)
    if options is None:
        raise OptionsError(problems, _translate("NewRun", "The form"))
    with writing(path):
        run_file.write(options, path)


def starting_tree(task: Task) -> Tree:
    """Good values for a first run of a task, its data left open; a text model is for the person to choose."""
    tree = run_file.to_tree(starting_options(task))
    tree["data"]["train"] = ""
    if task.reads_text:
        tree["model"]["source"] = ""
    return tree


def _with_chosen(tree: Tree, before: Tree, task: Task) -> Tree:
    """Good values, beside the data that was chosen for another task, and the model where it can do this one, too."""
    made = copied(tree)
    data, model = before["data"].get("train") or "", before["model"].get("source") or ""
    if Path(data).is_absolute() or scheme_of(data) is Scheme.HUB:
        made["data"]["train"] = data
    other = Task(before["task"])
    is_alike = task.reads_text and other.reads_text and task.writes_text is other.writes_text
    if is_alike and scheme_of(model) is not Scheme.SCRATCH:
        made["model"]["source"] = model
    return made


def proposal(source: str, task: Task, likely: Task | None) -> tuple[str, Fix] | None:
    """What to say of data that is likely for another task, and the fix that changes to it; None: it fits."""
    if likely is None or likely is task or _reads_the_same(likely, task):
        return None
    title = likely.label
    words = _translate("NewRun", "{name} looks like data for “{task}”").format(
        name=short_name(source), task=title
    )
    changes = {"task": likely.value, "data.train": source}
    return words, Fix(_translate("NewRun", "Change to “{task}”").format(task=title), changes)


def _reads_the_same(likely: Task, task: Task) -> bool:
    """Whether the other task reads such data as well: plain texts can be chatted about, as prose goes."""
    return likely is Task.CAUSAL_LM and task is Task.CHAT
