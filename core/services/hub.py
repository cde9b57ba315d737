"""What Hone may ask the Hugging Face Hub before a run: one model's config.json, and only when the person wants it."""

import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from core.base import settings
from core.base.errors import Fix, ModelError
from core.base.jobs import EngineJob, JobCancelled, JobProgress, decoded
from core.base.processes import is_frozen
from core.memory.model import ModelRequest, model_request
from core.options import RunOptions
from core.options.data import DataOptions
from core.options.past_runs import is_run, model_folder
from core.options.sections import DeviceOptions, MemoryOptions
from core.options.sources import Scheme, is_scratch, scratch_model

# --- What Hone's processes ask and tell each other about the Hugging Face Hub: searches


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
    """Bring this to the Hub's cache; what has come before is gone on with.

    `subset` names a part of a data set, as its card does; empty: the first, or all where the card names none.
    """

    id: str
    kind: Kind = Kind.MODEL
    subset: str = ""


class Downloaded(msgspec.Struct, frozen=True, kw_only=True, tag="downloaded"):
    """All has come: the folder that holds it, how many files, and how many bytes."""

    path: str
    files: int
    size: int


class Cached(msgspec.Struct, frozen=True, kw_only=True):
    """A repository in the Hub's cache.

    `partial` are bytes of files that haven't come to their end, `size` those of the others; `used` and `changed` are
    unix seconds. A `complete` one has all that a run needs: a model its config and safetensors, a data set samples.
    """

    id: str
    kind: Kind
    size: int
    partial: int = 0
    complete: bool = False
    used: float = 0.0
    changed: float = 0.0


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is cached, the largest first, where, and how many bytes in all: shared files count once."""

    folder: str
    repos: tuple[Cached, ...] = ()
    total: int = 0


class RemoveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a repository from the cache, or only the files that haven't come to their end."""

    id: str
    kind: Kind = Kind.MODEL
    only_partial: bool = False


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """How many bytes that freed."""

    freed: int


class AccountAction(StrEnum):
    """What to do with the token: see where it is, keep one, forget the kept one, ask the Hub whose it is."""

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
    """Where a token is, and whose.

    Attributes:
        place: Where the one in use was found.
        keychain: The name of this computer's keychain; empty: there is none, and `refusal` says why.
        refusal: Why no token can be kept here.
        name: Whose token it is, once the Hub was asked.
    """

    place: TokenPlace = TokenPlace.NOWHERE
    keychain: str = ""
    refusal: str = ""
    name: str = ""


# --- Whether Hone can train a model of the Hub, judged by its files, tags and config


SAFE = ".safetensors"
WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_model.safetensors"
PICKLED = (".bin", ".pt", ".pth", ".ckpt")
OTHER = (".gguf", ".onnx", ".h5", ".msgpack", ".tflite")

DESCRIBING = (".json", ".txt", ".model", ".jinja")
"""Ends of the names of configs, tokenizers and chat templates: none of them holds code that a run would execute."""

NOT_DESCRIBING = ("README", "LICENSE", "NOTICE", "requirements")
NOT_OURS = (".bin.index.json", ".msgpack.index.json", ".h5.index.json")

OWN_CODE = "custom_code"
"""The Hub's tag for a model whose repository brings the Python files that make it."""

PURPOSES: dict[str, tuple[str, ...]] = {
    "text-classification": ("fill-mask", "text-classification", "sentence-similarity", "feature-extraction"),
    "text-regression": ("fill-mask", "text-classification", "sentence-similarity", "feature-extraction"),
    "token-classification": (
        "fill-mask",
        "token-classification",
        "sentence-similarity",
        "feature-extraction",
    ),
    "causal-lm": ("text-generation",),
    "chat": ("text-generation",),
    "preference": ("text-generation",),
    "image-classification": ("image-classification", "image-feature-extraction"),
}
"""What the Hub calls the purposes (`pipeline_tag`) of models that each of Hone's tasks can start from."""

_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
_HALF_BYTE = ("F4", "I4", "U4")

_CLASSES = {"text-generation": "AutoModelForCausalLM", "fill-mask": "AutoModelForMaskedLM"}


@dataclass(frozen=True)
class Standing:
    """Why a model can't be trained, what to do about it, and the command that does; empty: it can, nothing, none."""

    refusal: str = ""
    remedy: str = ""
    command: str = ""


NEEDS_CODE = Standing(
    "It needs Python code of its own, which Hone doesn't run: such code could do anything on this computer.",
    "Choose another model; of many there is a version that transformers knows by itself.",
)
NO_CONFIG = Standing("It has no config.json, so it is no model that transformers can load.")
ONLY_ADAPTER = Standing(
    "It holds only LoRA matrices, not the model they were trained beside.",
    "Choose the model that its page names as its base.",
)
FOR_OTHERS = Standing("Its weights are for other programs (GGUF, ONNX, TensorFlow, Flax), not for PyTorch.")
NO_WEIGHTS = Standing("It has no weights in the safetensors format.")


def standing(
    name: str,
    files: Collection[str],
    *,
    tags: Collection[str] = (),
    config: Mapping[str, Any] | None = None,
    purpose: str = "",
) -> Standing:
    """Judge a model.

    Args:
        name: Its id, `owner/name`.
        files: Names of its files.
        tags: What the Hub tags it with.
        config: What the Hub tells of its config.json.
        purpose: What the Hub says it is for.
    """
    if OWN_CODE in tags or (config or {}).get("auto_map"):
        return NEEDS_CODE
    top = {file for file in files if "/" not in file}
    if weights(top):
        return Standing() if "config.json" in top else NO_CONFIG
    if ADAPTER in top:
        return ONLY_ADAPTER
    if any(file.endswith(PICKLED) for file in top):
        return Standing(
            "Its weights are pickled (.bin, .pt): a format that can run code when opened. Hone loads safetensors.",
            "Somebody may have converted it: look on its page under Files, at the pull requests. Or convert it "
            "yourself, if you trust whoever made it, and choose the new folder:",
            conversion(name, purpose),
        )
    return FOR_OTHERS if any(file.endswith(OTHER) for file in files) else NO_WEIGHTS


def conversion(name: str, purpose: str = "") -> str:
    """The command that saves a model with pickled weights as safetensors, in a new folder beside.

    transformers opens such weights with torch's restricted reader (`weights_only`), which knows tensors and no code.
    """
    kind = _CLASSES.get(purpose, "AutoModel")
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


def wanted(files: Iterable[str]) -> list[str]:
    """The files of a model that a run needs: safetensors, config, tokenizer. Never code, never pickled weights."""
    top = {file for file in files if "/" not in file}
    describing = {
        file
        for file in top
        if file.endswith(DESCRIBING) and not file.startswith(NOT_DESCRIBING) and not file.endswith(NOT_OURS)
    }
    if INDEX in describing and WHOLE in top:
        describing.remove(INDEX)
    return sorted({*describing, *weights(top)})


def suits(purpose: str, task: str) -> bool:
    """Whether a model of this purpose can learn a task of Hone's; with no task: any that some task can start from."""
    known = PURPOSES.get(task) or tuple(one for purposes in PURPOSES.values() for one in purposes)
    return purpose in known


def weight_bytes(parameters: Mapping[str, int]) -> int:
    """Bytes of weights of which the Hub tells how many there are of each number format (`{"F32": 66955010}`)."""
    return sum(
        count // 2 if form in _HALF_BYTE else count * _BYTES.get(form, 1)
        for form, count in parameters.items()
    )


# --- Whether a newer Hone has been published: the question


ADDRESS = "https://github.com"
"""Where a person looks at releases."""

API = "https://api.github.com"
"""Where Hone asks for them: a firewall has to let it there."""


class ReleaseStanding(StrEnum):
    """How the Hone that asked stands to the newest one published."""

    OLDER = "older"
    SAME = "same"
    NEWER = "newer"


class ReleaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which release of `repository` (`owner/name`) is the newest, and is it newer than `running`, such as 0.1.0?"""

    repository: str
    running: str


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """The newest release: its version, the page that shows it, and how who asked stands to it."""

    version: str
    page: str
    standing: ReleaseStanding


def compared(running: str, newest: str) -> ReleaseStanding:
    """How one version stands to another; both are numbers with dots, `v` before them or not.

    Raises:
        ValueError: One of them isn't.
    """
    mine, theirs = _numbers(running), _numbers(newest)
    if mine == theirs:
        return ReleaseStanding.SAME
    return ReleaseStanding.OLDER if mine < theirs else ReleaseStanding.NEWER


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, without the zeros at its end: 1.2 and 1.2.0 are the same."""
    numbers = [int(part) for part in version.removeprefix("v").split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


# --- Running a download in a process of its own: how far it is, how fast it goes, pause


SPEED_SECONDS = 5.0
"""The speed is that of the last seconds: a network's wanders."""


class Transfer(Protocol):
    """A download that can be run once; `Download` is the real one."""

    def run(self, tell: Callable[[JobProgress], None]) -> Downloaded:
        """Download, waiting until all has come."""

    def kill(self) -> None:
        """End it at once."""


class Download:
    """Downloads one model or data set; made anew to continue after a pause.

    Args:
        request: What to download.
        command: What starts the engine's job, where it isn't Hone's own.
    """

    def __init__(self, request: DownloadRequest, command: Sequence[str] | None = None) -> None:
        self._request, self._command = request, command
        self._lock = threading.Lock()
        self._job: EngineJob | None = None
        self._is_killed = False

    def run(self, tell: Callable[[JobProgress], None]) -> Downloaded:
        """Download, reporting bytes a few times a second; see `EngineJob.ask` for what it raises.

        Raises:
            UserError: It can't be had; what has come stays.
        """
        with self._lock:
            if self._is_killed:
                raise JobCancelled("hub-download")
            self._job = EngineJob("hub-download", self._command)
        answer = self._job.ask(msgspec.json.encode(self._request), tell=tell)
        return decoded("hub-download", answer, Downloaded)

    def kill(self) -> None:
        """End it at once, from any thread, also before it has begun; what has come stays."""
        with self._lock:
            self._is_killed = True
            if self._job is not None:
                self._job.kill()


class Pace:
    """How fast a download is and how long it will take, told from its last seconds.

    Args:
        clock: Tells the time, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()

    def add(self, progress: JobProgress) -> None:
        """Hear how far it is now."""
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


# --- The Hub's cache on this computer, by names and sizes of files alone


PARTIAL = ".hone.incomplete"
"""The end of the names of files that haven't come to their end. Such names, but for "hone", are huggingface_hub's own,
which counts them as unfinished; but it never goes on with one (https://github.com/huggingface/huggingface_hub/pull/4228).
"""


def cache_folder() -> Path:
    """Where all programs keep what they fetched from the Hub."""
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
    """Bytes by name of the files that have come to their end, as the repository calls them (`data/train.csv`)."""
    folder = snapshot(name, kind)
    if folder is None:
        return {}
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
    }


def partial_files(name: str, kind: Kind) -> list[Path]:
    """Files of this repository that Hone began to fetch."""
    return sorted((repo_folder(name, kind) / "blobs").glob(f"*{PARTIAL}"))


def bytes_here(name: str, kind: Kind, wanted: Iterable[str]) -> tuple[int, bool]:
    """How much of the `wanted` files is here, half files included, and whether that is all of them."""
    names = names_here(name, kind)
    wanted = tuple(wanted)
    come = sum(names.get(one, 0) for one in wanted)
    begun = sum(path.stat().st_size for path in partial_files(name, kind))
    return come + begun, bool(wanted) and all(one in names for one in wanted)


# --- What Hone may ask the Hugging Face Hub before a run: one model's config.json


CONFIG = "config.json"
"""Describes a model: of which kind, how wide, how deep. It has a few KB and holds no code and no weights."""

VARIABLE = "HF_HUB_OFFLINE"
PUBLIC = "https://huggingface.co"

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_TRUE = ("1", "ON", "YES", "TRUE")


class ConfigRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Fetch the config.json of this model on the Hub, such as `google-bert/bert-base-cased`."""

    source: str


class ConfigFetched(msgspec.Struct, frozen=True, kw_only=True):
    """Where it lies now, in the Hub's cache on this computer."""

    path: str


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
            return "“Work offline” in Settings"
    except OSError:
        pass
    said = os.environ.get(VARIABLE) or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return VARIABLE if said.upper() in _TRUE else ""


def forbid() -> None:
    """Have every library in this process, and those it starts, leave the Hub alone where the person said so."""
    if is_forbidden():
        os.environ[VARIABLE] = "1"


def forbidden(source: str, by: str) -> ModelError:
    """The error where a model isn't here and must not be asked about; `by` is what forbids it."""
    return ModelError(
        f"{source} isn't on this computer yet",
        f"Its memory is told from its {CONFIG}, and {by} forbids to fetch that.",
    )


def not_here(source: str) -> ModelError:
    """The error where a run needs a model that isn't on this computer, and something forbids to fetch it."""
    by = forbidden_by()
    said = f"{by} (which --offline sets, too)" if by == VARIABLE else by
    return ModelError(
        f"{source} isn't on this computer, or not all of it",
        f"{said} forbids to fetch it from {host()}.",
        (
            Fix(f"Fetch it while that is allowed: hone hub --download {source}"),
            Fix("Choose a folder with a model in it"),
        ),
    )


def host() -> str:
    """Who is asked: huggingface.co, or the mirror that `HF_ENDPOINT` names."""
    return urlsplit(os.environ.get("HF_ENDPOINT") or PUBLIC).netloc


def cached_files(source: str) -> frozenset[str]:
    """Names of the files of a model on the Hub that have been fetched before, of any of its versions.

    The cache is laid out as https://huggingface.co/docs/huggingface_hub/guides/manage-cache says.
    """
    snapshots = cache_folder() / f"models--{source.replace('/', '--')}" / "snapshots"
    return frozenset(path.name for path in snapshots.glob("*/*"))


# --- Whether and how the engine is asked about a model before a run


WEIGHTS = ".safetensors"


def question_about(options: RunOptions, labels: int = 2) -> ModelRequest | None:
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
    return model_request(plain, max(2, labels))


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
    return CONFIG in cached_files(source)


def is_complete(options: RunOptions) -> bool:
    """Whether all a run needs of its model is on this computer, and not only what describes it.

    Of a model on the Hub, the names of the files in its cache tell. torchvision's weights are not looked for.
    """
    if not may_be_there(options):
        return True
    files = cached_files(options.model.source)
    if options.model.pretrained:
        return any(name.endswith(WEIGHTS) for name in files)
    return bool(files - {CONFIG})  # its tokenizer
