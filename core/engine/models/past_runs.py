"""Models of past runs: whole ones are loaded from their folder, adapters are first merged into their base model.

Merged models are cached. A run that trains an adapter on such a model keeps the base model in its own folder, so that
the adapter can be used after the past run is deleted.
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
from core.base.files import changed_at, write_atomically
from core.base.formats import capitalized, paragraph
from core.base.language import _
from core.engine.models.refusals import explained
from core.options.past_runs import holds_adapter, is_run, model_folder, problem_with, task_of
from core.options.sources import ADAPTER, MATRICES, short_name

CACHED_MODELS = 2
BASE = "base"
"""The folder with the base model of an adapter, if only this run has it."""
FORMAT = "1"
UNFINISHED = ".unfinished"
ABANDONED_SECONDS = 24 * 3600.0


def config_in(source: str) -> str:
    """Returns where a model's config is: for a past run, its model folder or that of the adapter's base model.

    Raises:
        ModelError: The adapter's base model is gone.
    """
    folder = model_folder(source)
    return source if folder is None else config_beside(folder)


def config_beside(folder: Path) -> str:
    """Returns where the config of a model folder is: in it, or with the adapter's base model."""
    return str(folder) if (folder / "config.json").is_file() else base_of(folder)


def weights_in(source: str) -> str:
    """Returns where a model's weights are: for a past run a folder with all of them, merged if need be.

    Raises:
        ModelError: The run, or its adapter's base model, is gone.
    """
    folder = model_folder(source)
    if folder is None:
        return source
    return str(_merged(folder) if holds_adapter(folder) else folder)


def check_run(source: str, task: Any) -> None:
    """Raises a ModelError if `source` is a past run whose model can't be trained for `task`."""
    problem = problem_with(source, task) if is_run(source) else None
    if problem is not None:
        title = _("The model of {source} can't be trained on").format(source=short_name(source))
        raise ModelError(title, paragraph(capitalized(problem.message)), problem.fixes)


def save_base_model(folder: Path, source: str) -> None:
    """Copies the base model into an adapter's folder if it is the model of a past run."""
    config = folder / ADAPTER
    if not is_run(source) or not config.is_file():
        return
    base = folder / BASE
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir()
    for path in Path(weights_in(source)).iterdir():
        if path.is_file():
            try:
                os.link(path, base / path.name)  # takes no space
            except OSError:
                shutil.copyfile(path, base / path.name)
    content = json.loads(config.read_text(encoding="utf-8"))
    content["base_model_name_or_path"] = str(base.absolute())
    write_atomically(config, json.dumps(content, indent=2).encode())


def base_of(folder: Path) -> str:
    """Returns the base model of an adapter: a folder, or an id on the Hub.

    Raises:
        ModelError: It was a folder that is gone.
    """
    if (folder / BASE).is_dir():  # also if the run was moved
        return str(folder / BASE)
    base = str(json.loads((folder / ADAPTER).read_text(encoding="utf-8"))["base_model_name_or_path"])
    if Path(base).is_absolute() and not Path(base).is_dir():
        raise ModelError(
            _("The base model of {name} is missing").format(name=folder.parent.name),
            _("Its adapter was trained on the model in {base}, and that folder no longer exists.").format(
                base=base
            ),
            (Fix(_("Put the model back, or choose another one")),),
        )
    return base


def with_adapter(model: Any, folder: Path) -> Any:
    """Returns a model with the adapter in `folder`, not merged.

    Raises:
        ModelError: The adapter is missing or damaged, or belongs to another model.
    """
    from peft import PeftModel

    if not (folder / MATRICES).is_file():  # PEFT would look for a pickled file instead
        raise _incomplete(folder)
    with explained(str(folder)):
        try:
            return PeftModel.from_pretrained(model, str(folder))
        except RuntimeError as error:
            if "size mismatch" not in str(error):
                raise
            raise ModelError(
                _("The adapter of {name} belongs to another model").format(name=folder.parent.name),
                _("Its sizes differ from those of its base model, {base}.").format(base=base_of(folder)),
                (Fix(_("Put its base model back, or choose another run")),),
            ) from error


def _incomplete(folder: Path) -> ModelError:
    return ModelError(
        _("The model of {name} is incomplete").format(name=folder.parent.name),
        _("{path} is missing or can't be read.").format(path=folder / MATRICES),
        (Fix(_("Choose another run, or train this one again")),),
    )


def _merged(folder: Path) -> Path:
    """Returns the cached model of a run that trained an adapter; merged now if it isn't there."""
    base = base_of(folder)
    cache = settings.home() / "cache" / "merged"
    merged = cache / _key(folder, base)
    if merged.is_dir():
        os.utime(merged)
        return merged
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = cache / f"{uuid.uuid4().hex}{UNFINISHED}"
    try:
        _merge(folder, base, unfinished)
        unfinished.replace(merged)
    except OSError:
        if not merged.is_dir():  # otherwise another process has merged the same
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    _clean(cache)
    return merged


def _merge(folder: Path, base: str, into: Path) -> None:
    from transformers import AutoConfig

    from core.engine.models.pretrained import load_tokenizer, read_pretrained

    task = task_of(folder.parent)
    assert task is not None, "checked before"
    with explained(base):
        config = AutoConfig.from_pretrained(config_beside(folder), trust_remote_code=False)
    model = read_pretrained(base, task, config, ignore_mismatched_sizes=True)
    with_adapter(model, folder).merge_and_unload().save_pretrained(into)
    if task.reads_text:
        load_tokenizer(str(folder)).save_pretrained(into)


def _key(folder: Path, base: str) -> str:
    """Returns a hash of all that the merged model depends on.

    Raises:
        ModelError: The adapter can't be read.
    """
    digest = hashlib.blake2b(f"{FORMAT}\0{base}\0".encode(), digest_size=16)
    try:
        for name in (ADAPTER, MATRICES):
            digest.update((folder / name).read_bytes())
    except OSError as error:
        raise _incomplete(folder) from error
    if Path(base).is_dir():
        for path in sorted(Path(base).glob("*.safetensors")):
            stat = path.stat()
            digest.update(f"{path.name}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def _clean(cache: Path) -> None:
    """Removes the models that were least recently used, and what was left unfinished a day ago."""
    used = {path: changed_at(path) / 1e9 for path in cache.iterdir()}
    unfinished = [path for path in used if path.suffix == UNFINISHED]  # another process may be writing it
    finished = sorted(used.keys() - unfinished, key=used.__getitem__, reverse=True)
    abandoned = [path for path in unfinished if used[path] < time.time() - ABANDONED_SECONDS]
    for path in (*finished[CACHED_MODELS:], *abandoned):
        shutil.rmtree(path, ignore_errors=True)
