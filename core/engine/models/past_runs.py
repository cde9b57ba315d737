"""Models of past runs: whole ones are loaded as folders, LoRA matrices are first worked into the model they belong to.

What comes of that lies in the cache, under a name that holds all it depends on. A run that trains LoRA beside such a
model keeps the model in a folder of its own, so that it means something after the past run is deleted.
"""

import hashlib
import json
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

from core.base import settings
from core.base.errors import Fix, ModelError
from core.base.files import write_atomically
from core.base.language import _
from core.engine.models.refusals import explained
from core.options.past_runs import holds_adapter, is_run, model_folder, problem_with, task_of
from core.options.sources import ADAPTER, MATRICES, short_name

KEPT_MODELS = 2
"""So many models with LoRA matrices worked in are kept for the next run."""
BASE = "base"
"""The folder beside LoRA matrices with the model they were trained beside, where that is no one else's."""
FORMAT = "1"
UNFINISHED = ".unfinished"
ABANDONED_SECONDS = 24 * 3600.0


def tokenizer_in(source: str) -> str:
    """Where the tokenizer of a model stands: for a past run its folder, all else as it is."""
    folder = model_folder(source)
    return source if folder is None else str(folder)


def config_in(source: str) -> str:
    """Where the config of a model stands: for a past run its folder, or that of the model beside its LoRA matrices.

    Raises:
        ModelError: The model its LoRA matrices belong to is gone.
    """
    folder = model_folder(source)
    return source if folder is None else config_beside(folder)


def config_beside(folder: Path) -> str:
    """Where the config of the model in a folder stands: there, or with the model beside its LoRA matrices."""
    return str(folder) if (folder / "config.json").is_file() else base_of(folder)


def weights_in(source: str) -> str:
    """Where the weights of a model stand: for a past run a folder with all of them, all else as it is.

    Raises:
        ModelError: The run is gone, or the model its LoRA matrices belong to.
    """
    folder = model_folder(source)
    if folder is None:
        return source
    return str(_merged(folder) if holds_adapter(folder) else folder)


def check_run(source: str, task: Any) -> None:
    """Stop where a past run has no model to train on for `task`.

    Raises:
        ModelError: It hasn't.
    """
    problem = problem_with(source, task) if is_run(source) else None
    if problem is not None:
        title = _("The model of {source} can't be trained on").format(source=short_name(source))
        raise ModelError(title, f"{problem.message[:1].upper()}{problem.message[1:]}.", problem.fixes)


def save_base_model(folder: Path, source: str) -> None:
    """Put the model beside LoRA matrices that were trained beside the model of a past run, and name it in them.

    Args:
        folder: Where the matrices were saved.
        source: What the run started from.
    """
    config = folder / ADAPTER
    if not is_run(source) or not config.is_file():
        return
    whole = Path(weights_in(source))
    base = folder / BASE
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir()
    for path in whole.iterdir():
        if path.is_file():
            _link(path, base / path.name)
    named = {
        **json.loads(config.read_text(encoding="utf-8")),
        "base_model_name_or_path": str(base.absolute()),
    }
    write_atomically(config, json.dumps(named, indent=2).encode())


def _link(path: Path, target: Path) -> None:
    """The same file under a second name, which takes no room; a copy where a disk knows no such thing."""
    try:
        os.link(path, target)
    except OSError:
        shutil.copyfile(path, target)


def base_of(folder: Path) -> str:
    """What LoRA matrices were trained beside: a folder, or an id on the Hub.

    Raises:
        ModelError: It was a folder that is gone.
    """
    if (folder / BASE).is_dir():  # also where the run was moved
        return str(folder / BASE)
    named = str(json.loads((folder / ADAPTER).read_text(encoding="utf-8"))["base_model_name_or_path"])
    if Path(named).is_absolute() and not Path(named).is_dir():
        raise ModelError(
            _("The model that {name} was trained beside is gone").format(name=folder.parent.name),
            _(
                "Its LoRA matrices belong to the model in {named}, and there is no such folder any more."
            ).format(named=named),
            (Fix(_("Put the model back, or choose another one")),),
        )
    return named


def with_adapter(model: Any, folder: Path) -> Any:
    """A model with the LoRA matrices of a folder beside its weights; they aren't worked in.

    Raises:
        ModelError: They are missing or damaged, or belong to another model.
    """
    from peft import PeftModel

    if not (folder / MATRICES).is_file():  # PEFT would look for a pickled file in its place
        raise ModelError(
            _("The model of {name} isn't whole").format(name=folder.parent.name),
            _("There is no {matrices} in {folder}.").format(matrices=MATRICES, folder=folder),
            (Fix(_("Choose another run, or train this one again")),),
        )
    with explained(str(folder)):
        return PeftModel.from_pretrained(model, str(folder))


def _merged(folder: Path) -> Path:
    """The whole model of a run that trained LoRA matrices, in the cache."""
    base = base_of(folder)
    cache = settings.home() / "cache" / "merged"
    found = cache / _key(folder, base)
    if found.is_dir():
        os.utime(found)
        return found
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = cache / f"{uuid.uuid4().hex}{UNFINISHED}"
    try:
        _merge(folder, base, unfinished)
        unfinished.replace(found)
    except OSError:
        if not found.is_dir():  # else another process has made the same meanwhile
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    _make_room(cache)
    return found


def _merge(folder: Path, base: str, into: Path) -> None:
    from transformers import AutoConfig

    from core.engine.models.text import load_tokenizer, read_pretrained

    task = task_of(folder.parent)
    assert task is not None, "looked at before"
    with explained(base):
        config = AutoConfig.from_pretrained(config_beside(folder), trust_remote_code=False)
    model = read_pretrained(base, task, config, ignore_mismatched_sizes=True)
    with_adapter(model, folder).merge_and_unload().save_pretrained(into)
    if task.reads_text:
        load_tokenizer(str(folder)).save_pretrained(into)


def _key(folder: Path, base: str) -> str:
    """What the whole model depends on: the matrices, and what they belong to.

    Raises:
        ModelError: The matrices are gone, or can't be read.
    """
    digest = hashlib.blake2b(f"{FORMAT}\0{base}\0".encode(), digest_size=16)
    try:
        for name in (ADAPTER, MATRICES):
            digest.update((folder / name).read_bytes())
    except OSError as error:
        raise ModelError(
            _("The model of {name} isn't whole").format(name=folder.parent.name),
            _("{filename}: {strerror}. Its LoRA matrices should be there.").format(
                filename=error.filename, strerror=error.strerror
            ),
            (Fix(_("Choose another run, or train this one again")),),
        ) from error
    if Path(base).is_dir():
        for path in sorted(Path(base).glob("*.safetensors")):
            found = path.stat()
            digest.update(f"{path.name}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def _make_room(cache: Path) -> None:
    """Take away the models that weren't used for longest, and what nobody has gone on with for a day."""
    used = {path: _used(path) for path in cache.iterdir()}
    unfinished = [path for path in used if path.suffix == UNFINISHED]  # another process may be writing it
    finished = sorted(used.keys() - unfinished, key=used.__getitem__, reverse=True)
    abandoned = [path for path in unfinished if used[path] < time.time() - ABANDONED_SECONDS]
    for path in (*finished[KEPT_MODELS:], *abandoned):
        shutil.rmtree(path, ignore_errors=True)


def _used(path: Path) -> float:
    """When a folder was used last, in unix seconds; now, where another process has just taken it away."""
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()
