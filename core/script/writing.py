"""A script, put together: options, what ran and what was found in the data in; the text of a Python file out."""

from core.choices import Method, Task
from core.script import chats, head, images, models, running, texts, training
from core.script.arguments import written
from core.script.facts import ScriptFacts
from core.script.methods import method
from core.script.parts import Part, import_lines, joined
from core.script.resolved import Resolved
from core.sources import parse_synthetic


def write_script(run: Resolved, facts: ScriptFacts) -> str:
    """The script that does what a run does.

    Args:
        run: What is asked, with nothing automatic left in it.
        facts: What the engine found in the data.

    Raises:
        ModelError: It starts from something that no script can load.
    """
    parts = [
        head.constants(run, models.source(run)),
        *_data_and_model(run, facts),
        method(run),
        texts.metrics(run.options.task),
        written(run, has_eval=_has_eval(run, facts)),
        training.trainer(run),
        training.accumulation(run),
        training.end(run),
    ]
    return f"{head.words(run)}\n{_imports(run, parts)}\n\n{joined(parts)}"


def _imports(run: Resolved, parts: list[Part]) -> str:
    """The imports: where torchvision may not load, or the environment decides, in two steps."""
    lines = [line for part in parts for line in part.imports]
    if run.options.task is Task.PREFERENCE and run.options.model.method is Method.FULL:
        lines.append("import copy")
    before = head.environment(run).code
    if before:
        rest = "\n".join(import_lines(line for line in lines if line != "import os"))
        return f"import os\n\n{before}\n\n{rest}\n"
    if run.kind != "cpu":
        return "\n".join(import_lines(lines)) + "\n"
    own = ["import importlib.util", "from pathlib import Path", "import torch"]
    first = "\n".join(import_lines(own))
    others = "\n".join(import_lines(line for line in lines if line not in own))
    return f"{first}\n{head.TORCHVISION}\n{others}\n"


def _data_and_model(run: Resolved, facts: ScriptFacts) -> list[Part]:
    match run.options.task:
        case Task.IMAGE_CLASSIFICATION:
            return [*images.data(run, facts), *images.model(run, facts)]
        case Task.CAUSAL_LM:
            first, last = running.data(run, facts), running.samples(run)
        case Task.CHAT | Task.PREFERENCE:
            first, last = chats.data(run, facts), chats.samples(run, facts)
        case _:
            return _of_encoder(run, facts)
    return [
        *models.reads(run),
        *first,
        *models.from_nothing(run),
        models.length(run),
        *last,
        models.loads(run),
    ]


def _of_encoder(run: Resolved, facts: ScriptFacts) -> list[Part]:
    data = texts.data(run, facts)
    is_random = parse_synthetic(run.options.data.train) is not None
    ready = [*models.reads(run), *([] if is_random else data), *models.from_nothing(run)]
    return [
        *ready,
        *(data if is_random else []),
        models.length(run),
        *texts.samples(run),
        models.loads(run),
    ]


def _has_eval(run: Resolved, facts: ScriptFacts) -> bool:
    """Whether anything is evaluated on; of data that is too short to hold any out, the script finds out itself."""
    if parse_synthetic(run.options.data.train):
        return False
    has_own = facts.eval_rows is not None or facts.eval_images is not None
    return has_own or run.options.data.eval_fraction > 0
