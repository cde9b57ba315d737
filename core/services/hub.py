"""The Hugging Face Hub: messages of the engine's Hub jobs, which models can be trained, and what is in the cache.

Nothing here opens a connection. The release of Hone itself is asked for in the same way and stands here as well.
"""

import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from core.base import settings
from core.base.errors import Fix, ModelError
from core.base.jobs import JobProgress
from core.base.language import _
from core.base.processes import is_frozen
from core.memory.model import OptionsRequest, options_request
from core.options import RunOptions
from core.options.data import DataOptions
from core.options.past_runs import is_run, model_folder
from core.options.sections import DeviceOptions, MemoryOptions
from core.options.sources import Scheme, is_scratch, scratch_model

PUBLIC = "https://huggingface.co"
VARIABLE = "HF_HUB_OFFLINE"
CONFIG = "config.json"
"""Describes a model: its architecture, width and depth. It has a few KB and holds no code and no weights."""


class Kind(StrEnum):
    """What a repository of the Hub holds."""

    MODEL = "model"
    DATASET = "dataset"


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which models or data sets answer to these words?

    Attributes:
        words: What their names hold; a whole `owner/name` finds that one, private or not. Empty: the most used.
        kind: Models or data sets.
        task: Only models that can learn this task of Hone's; empty: all.
    """

    words: str
    kind: Kind = Kind.MODEL
    task: str = ""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One model or data set of the Hub, and what Hone could do with it.

    Attributes:
        size: Bytes of a model's safetensors weights, or of all of a data set; None where the Hub doesn't say.
        parameters: How many numbers they are; None likewise.
        licence: As the Hub abbreviates it; empty: none is named.
        purpose: What the Hub says it is for, such as `fill-mask`.
        gated: Its owner lets in only who has accepted its terms.
        here: Bytes of it on this computer, half a file included.
        complete: All that a run needs is on this computer.
        refusal: Why Hone can't train it; empty: it can.
        remedy: What to do about that; empty: nothing helps.
        command: What to run in a terminal for it, where that helps.
    """

    id: str
    kind: Kind = Kind.MODEL
    downloads: int | None = None
    likes: int | None = None
    size: int | None = None
    parameters: int | None = None
    licence: str = ""
    purpose: str = ""
    gated: bool = False
    private: bool = False
    here: int = 0
    complete: bool = False
    refusal: str = ""
    remedy: str = ""
    command: str = ""


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, the most downloaded first; `signed_in`: a token was sent along."""

    found: tuple[Found, ...] = ()
    signed_in: bool = False


class DownloadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Download this into the Hub's cache, continuing a download that was interrupted.

    `subset` names a part of a data set, as its card does; empty: the first, or all where the card names none.
    """

    id: str
    kind: Kind = Kind.MODEL
    subset: str = ""


class Downloaded(msgspec.Struct, frozen=True, kw_only=True, tag="downloaded"):
    """A finished download: its folder, files and bytes."""

    path: str
    files: int
    size: int


class Cached(msgspec.Struct, frozen=True, kw_only=True):
    """A repository in the Hub's cache.

    `partial` are bytes of unfinished files, `size` those of the others; `changed` is in unix seconds. A `complete` one
    has all that a run needs: a model its config and safetensors, a data set samples.
    """

    id: str
    kind: Kind
    size: int
    partial: int = 0
    complete: bool = False
    changed: float = 0.0


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is cached, the largest first, where, and how many bytes in all: shared files count once."""

    folder: str
    repos: tuple[Cached, ...] = ()
    total: int = 0


class RemoveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a repository from the cache, or only its unfinished files."""

    id: str
    kind: Kind = Kind.MODEL
    only_partial: bool = False


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that were freed."""

    freed: int


class AccountAction(StrEnum):
    """What to do with the token: find it, save one in the keychain, remove that, or ask the Hub for its owner."""

    LOOK = "look"
    SAVE = "save"
    REMOVE = "remove"
    CHECK = "check"


class AccountRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Something about the person's token; `token` is the one to keep, and goes nowhere but into the keychain."""

    action: AccountAction = AccountAction.LOOK
    token: str = ""

    def __repr__(self) -> str:
        return f"AccountRequest({self.action})"


class TokenPlace(StrEnum):
    """Where the token in use was found."""

    NOWHERE = "nowhere"
    ENVIRONMENT = "environment"
    KEYCHAIN = "keychain"
    FILE = "file"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Where the token in use was found, and whose it is.

    Attributes:
        keychain: The name of this computer's keychain; empty: there is none, and `refusal` says why.
        refusal: Why no token can be kept here.
        name: The token's owner, once the Hub was asked.
    """

    place: TokenPlace = TokenPlace.NOWHERE
    keychain: str = ""
    refusal: str = ""
    name: str = ""


class ConfigRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Fetch the config.json of this model on the Hub, such as `google-bert/bert-base-cased`."""

    source: str


class ConfigFetched(msgspec.Struct, frozen=True, kw_only=True):
    """Its path in the Hub's cache."""

    path: str


ADDRESS = "https://github.com"
API = "https://api.github.com"


class ReleaseStanding(StrEnum):
    """How the running version compares with the newest one published."""

    OLDER = "older"
    SAME = "same"
    NEWER = "newer"


class ReleaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which release of Hone's `repository` (`owner/name`) is the newest, and is it newer than `running`?"""

    repository: str
    running: str


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """The newest release: its version, its page, and how the running version compares with it."""

    version: str
    page: str
    standing: ReleaseStanding


# --- Whether Hone can train a model of the Hub, judged by its files, tags and config


SAFE = ".safetensors"
WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PART = re.compile(r"model-\d+-of-(\d+)\.safetensors")

DESCRIBING = (".json", ".txt", ".model", ".jinja")
"""File name endings of configs, tokenizers and chat templates: none of them holds code that a run would execute."""

NOT_DESCRIBING = ("README", "LICENSE", "NOTICE", "requirements")
OTHER_INDEXES = (".bin.index.json", ".msgpack.index.json", ".h5.index.json")

_OF_ENCODERS = ("fill-mask", "text-classification", "sentence-similarity", "feature-extraction")
PURPOSES: dict[str, tuple[str, ...]] = {
    "text-classification": _OF_ENCODERS,
    "text-regression": _OF_ENCODERS,
    "token-classification": ("token-classification", *_OF_ENCODERS),
    "causal-lm": ("text-generation",),
    "chat": ("text-generation",),
    "preference": ("text-generation",),
    "image-classification": ("image-classification", "image-feature-extraction"),
}
"""The Hub's `pipeline_tag` of the models that each task can start from."""

_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2, "F4": 0.5,
          "I4": 0.5, "U4": 0.5}  # fmt: skip


class Standing(NamedTuple):
    """Why a model or data set can't be used, what to do about it, and the command that does; empty where it can."""

    refusal: str = ""
    remedy: str = ""
    command: str = ""


def standing(
    name: str,
    files: Collection[str],
    *,
    tags: Collection[str] = (),
    config: Mapping[str, Any] | None = None,
    purpose: str = "",
) -> Standing:
    """Whether Hone can train a model.

    Args:
        name: Its id, `owner/name`.
        files: Names of its files.
        tags: Its tags on the Hub.
        config: What the Hub tells of its config.json.
        purpose: Its `pipeline_tag`.
    """
    if "custom_code" in tags or (config or {}).get("auto_map"):
        return Standing(
            _(
                "It needs Python code of its own, which Hone doesn't run: such code could do "
                "anything on this computer."
            ),
            "Choose another model; of many there is a version that transformers knows by itself.",
        )
    top = {file for file in files if "/" not in file}
    if weights(top):
        has_config = CONFIG in top
        return Standing("" if has_config else _("It has no config.json, so transformers can't load it."))
    if "adapter_model.safetensors" in top:
        return Standing(
            _("It holds only LoRA matrices, not the model they were trained beside."),
            _("Choose the model that its page names as its base."),
        )
    if any(file.endswith((".bin", ".pt", ".pth", ".ckpt")) for file in top):
        return Standing(
            _(
                "Its weights are pickled (.bin, .pt): a format that can run code when opened. Hone "
                "loads safetensors."
            ),
            _(
                "Somebody may have converted it: look on its page under Files, at the pull requests. Or convert it "
                "yourself, if you trust whoever made it, and choose the new folder:"
            ),
            conversion(name, purpose),
        )
    if any(file.endswith((".gguf", ".onnx", ".h5", ".msgpack", ".tflite")) for file in files):
        return Standing(
            _("Its weights are for other programs (GGUF, ONNX, TensorFlow, Flax), not for PyTorch.")
        )
    return Standing(_("It has no weights in the safetensors format."))


def conversion(name: str, purpose: str = "") -> str:
    """The command that saves a model with pickled weights as safetensors, in a new folder beside.

    transformers opens such weights with torch's restricted reader (`weights_only`), which knows tensors and no code.
    """
    classes = {"text-generation": "AutoModelForCausalLM", "fill-mask": "AutoModelForMaskedLM"}
    kind = classes.get(purpose, "AutoModel")
    folder = f"{name.rpartition('/')[2]}-safetensors"
    python = "python" if is_frozen() else sys.executable
    # beside a torch for CPUs alone, transformers can't import torchvision by itself
    ready = "" if is_frozen() else "from core.engine.environment import prepare_torchvision as p; p(); "
    code = (
        f"{ready}from transformers import {kind} as M, AutoTokenizer as T; "
        f"[k.from_pretrained('{name}').save_pretrained('{folder}') for k in (M, T)]"
    )
    return f'{python} -c "{code}"'


def weights(files: Iterable[str]) -> list[str]:
    """The files that hold a model's weights, as transformers looks for them: one, or the parts that an index names.

    Others, such as a second copy in another format, aren't loaded and so not fetched.
    """
    names = set(files)
    if WHOLE in names:
        return [WHOLE]
    if INDEX in names:
        return sorted(file for file in names if file.startswith("model-") and file.endswith(SAFE))
    return []


def has_all_weights(files: Iterable[str]) -> bool:
    """Whether none of the parts is missing that the names of the others speak of."""
    found = weights(files)
    part = PART.fullmatch(found[0]) if found else None
    return bool(found) and (part is None or len(found) == int(part[1]))


def wanted(files: Iterable[str]) -> list[str]:
    """The files of a model that a run needs: safetensors, config, tokenizer. Never code, never pickled weights."""
    top = {file for file in files if "/" not in file}
    describing = {
        file
        for file in top
        if file.endswith(DESCRIBING)
        and not file.startswith(NOT_DESCRIBING)
        and not file.endswith(OTHER_INDEXES)
    }
    return sorted({*describing - ({INDEX} if WHOLE in top else set()), *weights(top)})


def suits(purpose: str, task: str) -> bool:
    """Whether a model with this `pipeline_tag` can learn a task; with no task: any that some task can start from."""
    return any(purpose in known for name, known in PURPOSES.items() if task in (name, ""))


def weight_bytes(parameters: Mapping[str, int]) -> int:
    """Bytes of weights, from the number of each format (`{"F32": 66955010}`)."""
    return int(sum(count * _BYTES.get(form, 1) for form, count in parameters.items()))


# --- Progress of a download

SPEED_SECONDS = 5.0
"""The speed is that of the last seconds."""


class Pace:
    """Speed and remaining time of a download, from its last seconds; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()

    def add(self, progress: JobProgress) -> None:
        now = self._clock()
        self._marks.append((now, progress.done))
        while len(self._marks) > 2 and now - self._marks[1][0] >= SPEED_SECONDS:
            self._marks.popleft()

    @property
    def speed(self) -> float | None:
        """Bytes a second; None where that can't be known yet."""
        if len(self._marks) < 2:
            return None
        (begin, before), (end, after) = self._marks[0], self._marks[-1]
        return (after - before) / (end - begin) if end > begin else None

    def left(self, progress: JobProgress) -> float | None:
        """Seconds until all has come; None where that can't be known."""
        speed = self.speed
        return (progress.total - progress.done) / speed if speed else None


# --- The Hub's cache on this computer (https://huggingface.co/docs/huggingface_hub/guides/manage-cache)

PARTIAL = ".hone.incomplete"
"""The file name ending of unfinished files. Without "hone" it is huggingface_hub's own, which counts them as unfinished
but never continues one (https://github.com/huggingface/huggingface_hub/pull/4228).
"""


def cache_folder() -> Path:
    """The cache that all programs share."""
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(os.environ.get("HF_HOME") or users / "huggingface").expanduser()
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()


def repo_folder(name: str, kind: Kind) -> Path:
    """The folder of a repository in the cache, whether it is there or not."""
    return cache_folder() / f"{kind}s--{name.replace('/', '--')}"


def snapshot(name: str, kind: Kind) -> Path | None:
    """The folder with the newest files of a repository under their own names; None where nothing of it is here."""
    folder = repo_folder(name, kind)
    try:
        commit = (folder / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return None
    found = folder / "snapshots" / commit
    return found if commit and found.is_dir() else None


def names_here(name: str, kind: Kind) -> dict[str, int]:
    """Bytes by name of the finished files, as the repository names them (`data/train.csv`)."""
    folder = snapshot(name, kind)
    if folder is None:
        return {}
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
    }


def partial_files(name: str, kind: Kind) -> list[Path]:
    """Unfinished files of this repository."""
    return sorted((repo_folder(name, kind) / "blobs").glob(f"*{PARTIAL}"))


def partial_bytes(name: str, kind: Kind) -> int:
    return sum(path.stat().st_size for path in partial_files(name, kind))


# --- Whether the Hub may be asked


_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)


def may_be_there(options: RunOptions) -> bool:
    """Whether the model is named as one on the Hub: not a folder, nor one of torchvision's."""
    source = options.model.source
    return is_name(source) and not Path(source).is_dir()


def is_name(source: str) -> bool:
    """Whether a model or data set on the Hub could be called so: `model` or `owner/model`."""
    return _NAME.fullmatch(source) is not None


def is_forbidden() -> bool:
    """Whether the person has told Hone, or all programs, to leave the Hub alone."""
    return bool(forbidden_by())


def forbidden_by() -> str:
    """What forbids to ask the Hub, in words; empty: nothing does.

    The variable counts as huggingface_hub reads it
    (https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables); transformers' own one counts
    where that isn't set.
    """
    try:
        if settings.load().offline:  # first: `forbid` sets the variable, too
            return _("“Work offline” in Settings")
    except OSError:
        pass
    said = os.environ.get(VARIABLE) or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return VARIABLE if said.upper() in ("1", "ON", "YES", "TRUE") else ""


def forbid() -> None:
    """Have every library in this process, and those it starts, leave the Hub alone where the person said so."""
    if is_forbidden():
        os.environ[VARIABLE] = "1"


def not_here(source: str, by: str = "") -> ModelError:
    """The error where a model isn't on this computer and `by`, the setting or the variable forbids its download."""
    by = by or forbidden_by()
    return ModelError(
        _("{source} isn't on this computer, or not all of it").format(source=source),
        _("{by} forbids its download from {host}.").format(
            by=f"{by} (--offline)" if by == VARIABLE else by, host=host()
        ),
        (
            Fix(_("Download it when online: hone hub --download {source}").format(source=source)),
            Fix(_("Choose a folder with a model in it")),
        ),
    )


def host() -> str:
    """Who is asked: huggingface.co, or the mirror that `HF_ENDPOINT` names."""
    return urlsplit(os.environ.get("HF_ENDPOINT") or PUBLIC).netloc


# --- Whether and how the engine is asked about a model before a run


def question_about(options: RunOptions, labels: int = 2) -> OptionsRequest | None:
    """The question about the model of `options`; None where it isn't on this computer, or none is chosen.

    Options that change nothing about the answer are left at their defaults, so that equal questions compare equal.

    Args:
        options: What is asked.
        labels: How many labels the data has; 2 where that isn't known.
    """
    if not is_at_hand(options):
        return None
    checkpointing = options.memory.activation_checkpointing
    sight = options.data.max_length if is_scratch(options.model.source) else DataOptions().max_length
    plain = RunOptions(
        task=options.task,
        model=options.model,
        data=DataOptions(max_length=sight),
        device=DeviceOptions(name=options.device.name),
        memory=MemoryOptions(activation_checkpointing=checkpointing),
    )
    return options_request(plain, max(2, labels))


def is_at_hand(options: RunOptions) -> bool:
    """Whether the architecture of the model can be known without a network."""
    source = options.model.source
    if options.task.reads_images and Scheme.TORCHVISION.name_of(source):
        return True
    if is_scratch(source):
        return scratch_model(source) is not None
    if is_run(source):
        folder = model_folder(source)
        return folder is not None and folder.is_dir()
    return bool(source) and (is_in_hub_cache(source) or Path(source).is_dir())


def is_in_hub_cache(source: str) -> bool:
    """Whether a model of this id on the Hub has been fetched before, its config at least."""
    return CONFIG in names_here(source, Kind.MODEL)


def is_complete(options: RunOptions) -> bool:
    """Whether all a run needs of its model is on this computer. torchvision's weights are not looked for."""
    if not may_be_there(options):
        return True
    files = names_here(options.model.source, Kind.MODEL)
    return (
        has_all_weights(files) if options.model.pretrained else bool(files.keys() - {CONFIG})
    )  # its tokenizer
