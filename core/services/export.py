"""Exports of a run's model: what it can become, what is asked and answered, and the processes that make it."""

import glob
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil

from core.base import settings
from core.base.errors import OptionsError, Problem, UserError
from core.base.files import read_small
from core.base.formats import size as size_text
from core.base.jobs import EngineJob, JobCancelled, TellProgress, decoded
from core.base.language import _
from core.base.processes import is_frozen
from core.options import RunOptions
from core.options.choices import Method
from core.options.past_runs import holds_adapter
from core.options.sources import Scheme
from core.runs.folder import RunFolder
from core.runs.models import WEIGHTS, newest_first, step_of, trained_model
from core.services import hub
from core.services.chat import count_weights
from core.services.hub import Account, AccountAction, AccountRequest, Kind, TokenPlace, snapshot


class ExportKind(StrEnum):
    """What a run's model becomes."""

    FOLDER = "folder"
    ADAPTER = "adapter"
    MERGED = "merged"
    OLLAMA = "ollama"
    GGUF = "gguf"
    ONNX = "onnx"
    COREML = "coreml"
    HUB = "hub"


EXPORTS: dict[ExportKind, tuple[str, str]] = {
    ExportKind.FOLDER: (
        _("Model folder"),
        _("For Python: transformers, or torchvision, loads it by its folder. The model as it was trained."),
    ),
    ExportKind.ADAPTER: (
        _("LoRA adapter"),
        _("The trained matrices alone: a few MB, used together with the model they were trained beside."),
    ),
    ExportKind.MERGED: (
        _("Merged model"),
        _("One whole model: the LoRA matrices merged into the weights they were trained beside."),
    ),
    ExportKind.OLLAMA: (
        "Ollama",
        _("To chat on your own computer: a model folder with a Modelfile for “ollama create”."),
    ),
    ExportKind.GGUF: (
        "GGUF",
        _("For llama.cpp, LM Studio and the like: one file, made by llama.cpp's own converter."),
    ),
    ExportKind.ONNX: (
        "ONNX",
        _("For other languages and devices, by ONNX Runtime: one graph, without Python."),
    ),
    ExportKind.COREML: (_("Core ML"), _("For apps on a Mac, iPhone or iPad: a package that Xcode opens.")),
    ExportKind.HUB: (
        _("Hugging Face Hub"),
        _("To share: a new repository under your name. The only kind that sends anything."),
    ),
}
"""Title and purpose of each kind."""


class NumberFormat(StrEnum):
    """What the exported weights are written in; "auto": as trained, merged ones as their base was published."""

    AUTO = "auto"
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class Compared(StrEnum):
    """What is compared beside the logits."""

    LABELS = "labels"
    NUMBERS = "numbers"
    WORD_LABELS = "labels of tokens"
    TOKENS = "next tokens"
    TEXTS = "beginnings of answers"


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How the exported model answers compared with the trained one, on the same examples.

    `held_out` of the `examples` come from the run's validation split, the others are random. `equal` of `counted`
    answers are the same; `largest` is the largest difference of two logits (of two scores, for numbers; None: unknown,
    or not a number), `allowed` how large it may be and `why`. `holds` says whether the two models agree.
    """

    examples: int
    held_out: int
    compared: Compared
    equal: int
    counted: int
    largest: float | None
    allowed: float | None
    why: str
    holds: bool


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Export the model in the run folder `run` as `kind` (never `hub`).

    `staging` is an empty folder to write into, `target` the folder it will become; `checkpoint` the name of one of the
    run's checkpoints, such as `checkpoint-40`, empty for the trained model.
    """

    run: str
    kind: ExportKind
    staging: str
    target: str
    numbers: NumberFormat = NumberFormat.AUTO
    checkpoint: str = ""


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an export.

    `path` is its folder, or its address on the Hub; `files` are relative to it, `size` is in bytes. `unchecked` says
    why there is no `agreement`, `missing` what of the request isn't there (a converter isn't installed).
    """

    kind: ExportKind
    path: str
    files: tuple[str, ...]
    size: int
    agreement: Agreement | None = None
    unchecked: str = ""
    notes: tuple[str, ...] = ()
    missing: str = ""


class PushRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Send the files of a folder to a new repository `owner/name` on the Hub."""

    folder: str
    repo: str
    private: bool = True


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the new repository's page."""

    url: str


def agreement_text(agreement: Agreement) -> str:
    """How the two models agree, in a sentence."""
    said = _("Nothing could be counted")
    if agreement.counted:
        said = _("{equal:,} of {counted:,} {compared} are the same").format(
            equal=agreement.equal, counted=agreement.counted, compared=agreement.compared
        )
    if agreement.held_out == agreement.examples:
        origin = _("all of them held out")
    elif agreement.held_out:
        origin = _("{held_out} of them held out, the others made up").format(held_out=agreement.held_out)
    else:
        origin = _("all of them made up")
    said = _("{said}, on {examples} examples, {origin}").format(
        said=said, examples=agreement.examples, origin=origin
    )
    if agreement.largest is not None:
        thing = "score" if agreement.compared is Compared.NUMBERS else "logit"
        said += f"; no {thing} is off by more than {agreement.largest:.2g}"
        if agreement.allowed is not None:
            said += _(" ({allowed:.2g} is allowed)").format(allowed=agreement.allowed)
    return f"{said}."


# --- llama.cpp, looked for in the variable `LLAMA_CPP` (its folder, or its converter), on the PATH, and beside the
# --- package `gguf` where that comes from llama.cpp's own source


VARIABLE = "LLAMA_CPP"
CONVERTER = "convert_hf_to_gguf.py"
RUNNERS = ("llama-completion", "llama-cli")
"""Programs that continue a prompt, the newer name first."""

NOT_FOUND = (
    "llama.cpp isn't installed, or not where Hone looks: get https://github.com/ggml-org/llama.cpp, install its "
    f"requirements, and set {VARIABLE} to its folder."
)


def find_converter() -> Path | None:
    """llama.cpp's converter of model folders to GGUF."""
    named, on_path = os.environ.get(VARIABLE, ""), shutil.which(CONVERTER)
    candidates = [Path(named).expanduser()] if named.endswith(".py") else []
    candidates += [folder / CONVERTER for folder in _llama_folders()]
    candidates += [Path(on_path)] if on_path else []
    return next((path for path in candidates if path.is_file()), None)


def find_runner() -> Path | None:
    """The program that continues a prompt with a GGUF file."""
    built = [
        folder / inside / name
        for folder in _llama_folders()
        for inside in (".", "build/bin")
        for name in RUNNERS
    ]
    found = next((path for path in built if path.is_file() and os.access(path, os.X_OK)), None)
    on_path = next(filter(None, map(shutil.which, RUNNERS)), None)
    return found or (Path(on_path) if on_path else None)


def _llama_folders() -> list[Path]:
    named = os.environ.get(VARIABLE, "")
    path = Path(named).expanduser()
    folders = [path.parent if path.suffix == ".py" else path] if named else []
    package = find_spec("gguf")
    if package is not None and package.origin:  # in its source: llama.cpp/gguf-py/gguf/__init__.py
        folders.append(Path(package.origin).parents[2])
    return folders


# --- What a run's model can be exported as, and why not


ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
ONNX_INSTALL = 'pip install "onnx==1.23.2" "onnxscript==0.7.2" "onnxruntime==1.31.1"'

OLLAMA_IMPORTS = {
    "LlamaForCausalLM": "Llama",
    "MistralForCausalLM": "Mistral",
    "MixtralForCausalLM": "Mixtral",
    "GemmaForCausalLM": "Gemma",
    "Gemma2ForCausalLM": "Gemma 2",
    "Gemma3ForCausalLM": "Gemma 3",
    "Phi3ForCausalLM": "Phi 3",
    "Qwen2ForCausalLM": "Qwen 2",
    "Qwen3ForCausalLM": "Qwen 3",
    "CohereForCausalLM": _("Command R"),
    "Olmo3ForCausalLM": "OLMo 3",
    "GptOssForCausalLM": "gpt-oss",
    "Lfm2ForCausalLM": "LFM 2",
}
"""The architectures of text models that Ollama imports from safetensors (https://docs.ollama.com/import and the
converters in its source, November 2026); not tried here."""


@dataclass(frozen=True)
class Offer:
    """One kind of export of one run; `refusal` says why it can't be made, `caution` what to know of it before."""

    kind: ExportKind
    refusal: str = ""
    caution: str = ""


@dataclass(frozen=True)
class ExportSource:
    """A run's model on disk.

    `architecture` is the class that transformers loads it as; empty: unknown, or one of torchvision's networks.
    """

    run: RunFolder
    options: RunOptions
    folder: Path
    is_adapter: bool
    architecture: str = ""

    @property
    def network(self) -> str:
        """ "torchvision" for one of its networks: an image model without a config; empty for all others."""
        is_bare = self.options.task.reads_images and not (self.folder / "config.json").is_file()
        return "torchvision" if is_bare else ""

    @property
    def told(self) -> str:
        """Which weights these are, in a sentence; empty for the trained model."""
        if self.folder == self.run.model:
            return ""
        return _("The weights are those of its checkpoint of step {folder:,}.").format(
            folder=step_of(self.folder)
        )

    @property
    def is_packed(self) -> bool:
        """Whether its base was quantized while it was trained."""
        return self.options.model.method is Method.QLORA


def find_source(run: RunFolder, checkpoint: str = "") -> ExportSource:
    """The model of a run; by default the newest weights, a checkpoint's where the run has trained on since.

    Raises:
        UserError: There is no model, or the run file can't be read.
    """
    try:
        options = run.options()
    except OptionsError as error:
        raise UserError(_("Nobody knows what {name} learned").format(name=run.name), str(error)) from error
    if checkpoint:
        known = {one.path.name: one.path for one in newest_first(run.checkpoints)}
        if checkpoint not in known:
            there = _("There are {known}.").format(known=", ".join(known)) if known else _("It has none.")
            raise UserError(
                _("{name} has no complete checkpoint {checkpoint}").format(
                    name=run.name, checkpoint=checkpoint
                ),
                there,
            )
        folder = known[checkpoint]
    else:
        newest = trained_model(run)
        if newest is None:
            raise UserError(
                _("{name} has no model to export").format(name=run.name),
                _("It didn't end, or its model was deleted; it has no checkpoint either."),
            )
        folder = newest.folder
    is_adapter = holds_adapter(folder)
    config = config_of(folder)
    if is_adapter and not config:
        base = base_folder(folder)
        config = config_of(base) if base else {}
    names = config.get("architectures")
    return ExportSource(
        run, options, folder, is_adapter, str(names[0]) if isinstance(names, list) and names else ""
    )


def base_name(folder: Path) -> str:
    """What an adapter was trained beside: a folder, an id on the Hub, or `torchvision:NAME`."""
    return str(_read(folder / "adapter_config.json").get("base_model_name_or_path") or "")


def base_folder(folder: Path) -> Path | None:
    """The folder of an adapter's base model; None where it isn't on this computer, or is torchvision's."""
    named = base_name(folder)
    cached = snapshot(named, Kind.MODEL) if hub.is_name(named) else None
    places = (folder / "base", Path(named), cached)
    return next((place for place in places if place and (place / "config.json").is_file()), None)


def config_of(folder: Path) -> dict[str, Any]:
    """A model folder's config.json; empty where it can't be read."""
    return _read(folder / "config.json")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_small(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def offers(source: ExportSource) -> tuple[Offer, ...]:
    """Every kind, and what speaks against it for this model on this computer."""
    return tuple(Offer(kind, refusal(source, kind), caution(source, kind)) for kind in ExportKind)


def refusal(source: ExportSource, kind: ExportKind) -> str:
    """Why a model can't be exported as `kind`; empty: it can."""
    task = source.options.task
    match kind:
        case ExportKind.FOLDER if source.is_adapter:
            return _(
                "This run trained LoRA matrices beside a frozen model: take the adapter, or the merged model."
            )
        case ExportKind.ADAPTER | ExportKind.MERGED if not source.is_adapter:
            return _("This run trained no LoRA matrices: its model is whole already.")
        case ExportKind.OLLAMA | ExportKind.GGUF if not task.writes_text:
            what = (
                _("Ollama runs models that write text")
                if kind is ExportKind.OLLAMA
                else _("GGUF is for models that write text")
            )
            return f"{what}; this one does “{task.label}”."
        case ExportKind.OLLAMA if source.architecture and source.architecture not in OLLAMA_IMPORTS:
            known = ", ".join(OLLAMA_IMPORTS.values())
            return f"Ollama doesn't import {source.architecture} from safetensors; it knows {known}."
        case ExportKind.ONNX | ExportKind.COREML if task.writes_text:
            return (
                f"Hone writes {EXPORTS[kind][0]} of models that classify, score or label; for one that writes, take "
                "Ollama or GGUF."
            )
        case ExportKind.ONNX:
            missing = [name for name in ONNX_PACKAGES if find_spec(name) is None]
            if missing and is_frozen():
                return "It takes packages that this program doesn't bring along; Hone from source can do it."
            return (
                _("It takes {missing}, 34 MB to download: {executable} -m {onnx_install}").format(
                    missing=", ".join(missing), executable=sys.executable, onnx_install=ONNX_INSTALL
                )
                if missing
                else ""
            )
        case ExportKind.COREML if sys.platform != "darwin":
            return _("It needs a Mac: there Apple's coremltools writes it and macOS checks it.")
        case ExportKind.COREML if find_spec("coremltools") is None:
            return _("It takes Apple's coremltools: {executable} -m pip install coremltools").format(
                executable=sys.executable
            )
        case ExportKind.HUB if hub.is_forbidden():
            return _("{forbidden_by} forbids to ask {host} for anything.").format(
                forbidden_by=hub.forbidden_by(), host=hub.host()
            )
    return ""


def caution(source: ExportSource, kind: ExportKind) -> str:
    """What to know before a model is exported as `kind`; empty: nothing."""
    if kind is ExportKind.GGUF and not refusal(source, kind) and find_converter() is None:
        return "llama.cpp isn't installed here: you get the model folder that it takes, and the command to convert it."
    if kind is ExportKind.MERGED and source.is_packed:
        return "It was trained beside quantized weights; the merged ones are not, and answer a little differently."
    return ""


def default_pushed(source: ExportSource) -> ExportKind:
    """What is sent to the Hub by default: the adapter where its base is there, too; else the whole model."""
    if not source.is_adapter:
        return ExportKind.FOLDER
    return ExportKind.ADAPTER if is_on_hub(base_name(source.folder)) else ExportKind.MERGED


def is_on_hub(base: str) -> bool:
    """Whether an adapter's base is a model of the Hub."""
    is_plain = Scheme.TORCHVISION.name_of(base) is None and not Path(base).is_absolute()
    return is_plain and hub.is_name(base) and "/" in base


# --- Disk space


SMALL_FILES = 16 << 20


def bytes_of(source: ExportSource, kind: ExportKind, numbers: NumberFormat) -> int:
    """About how many bytes an export takes; a GGUF file stands beside the folder it is made from."""
    own = [*source.folder.glob(WEIGHTS)]
    if kind is ExportKind.ADAPTER:
        return _sizes([*own, *(source.folder / "base").glob(WEIGHTS)]) + SMALL_FILES
    base = base_folder(source.folder) if source.is_adapter else None
    files = own if base is None else [*base.glob(WEIGHTS)]
    config = {} if base is None else config_of(base)
    is_graph = kind in (ExportKind.ONNX, ExportKind.COREML)  # written in fp32
    size = 0
    if is_graph or source.is_adapter or numbers is not NumberFormat.AUTO:
        published_in_16_bits = (config.get("dtype") or config.get("torch_dtype")) in ("bfloat16", "float16")
        is_auto = numbers is NumberFormat.AUTO
        in_16_bits = not is_graph and (published_in_16_bits if is_auto else numbers is not NumberFormat.FP32)
        packing = config.get("quantization_config")  # in 4 bits, each byte is two weights
        two_a_byte = isinstance(packing, dict) and packing.get("load_in_4bit") is True
        size = count_weights(files) * (2 if two_a_byte else 1) * (2 if in_16_bits else 4)
    return (2 if kind is ExportKind.GGUF else 1) * (size or _sizes(files)) + SMALL_FILES


def _sizes(files: list[Path]) -> int:
    return sum(path.stat().st_size for path in files)


# --- Exporting in processes of its own, into a folder beside the target


UNFINISHED = "exporting"
"""The end of the names of folders that an export is still writing."""

NO_TOKEN = (
    "Make one with leave to write at huggingface.co/settings/tokens, and give it to Hone in Settings, under “Hugging "
    "Face Hub”, or in a terminal: hone hub --sign-in"
)

MakeJob = Callable[[str], EngineJob]
Answer = TypeVar("Answer")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """An export as it is asked for.

    `folder` is new or empty, or "" for the Hub; `repo` (`owner/name`), `private` and `pushed` are for the Hub, where
    `pushed` None means the adapter where its base is on the Hub, else the whole model. `checkpoint` as in the request.
    """

    run: str
    kind: ExportKind
    folder: str = ""
    repo: str = ""
    private: bool = True
    pushed: ExportKind | None = None
    numbers: NumberFormat = NumberFormat.AUTO
    checkpoint: str = ""


class Export:
    """One export; `run` waits for it, `kill` ends it from another thread. It can be run once.

    Args:
        wanted: The export.
        make: Starts an engine job by its name.
    """

    def __init__(self, wanted: Wanted, make: MakeJob = EngineJob) -> None:
        self._wanted, self._make = wanted, make
        self._lock = threading.Lock()
        self._job: EngineJob | None = None
        self._is_killed = False

    def run(self, tell: TellProgress | None = None) -> ExportReport:
        """Export and wait until it is done; on failure nothing is left behind.

        Raises:
            OptionsError: The target isn't new or empty, or the repository has no name.
            UserError: The model can't be exported so, the disk is full, or the export doesn't answer as the model does.
            EngineCrashed: The engine ended without an answer.
            JobCancelled: `kill` was called.
        """
        wanted, to_hub = self._wanted, self._wanted.kind is ExportKind.HUB
        source = find_source(RunFolder(Path(wanted.run)), wanted.checkpoint)
        kind = self._check(source)
        if to_hub:  # before minutes of work where nothing could be sent
            look = AccountRequest(action=AccountAction.LOOK)
            if self._ask("hub-account", look, Account, None).place is TokenPlace.NOWHERE:
                raise UserError(_("Sending to {host} takes a token").format(host=hub.host()), NO_TOKEN)
        target = self._target()
        _check_room(bytes_of(source, kind, wanted.numbers), target)
        staging = _make_staging(target)
        try:
            request = ExportRequest(
                run=str(Path(wanted.run).absolute()),
                kind=kind,
                staging=str(staging),
                target=str(target),
                numbers=wanted.numbers,
                checkpoint=wanted.checkpoint,
            )
            report = self._ask("export", request, ExportReport, tell)
            if to_hub:
                push = PushRequest(folder=str(staging), repo=wanted.repo, private=wanted.private)
                path = self._ask("export-push", push, Pushed, tell).url
            else:
                path = str(target)
                _put(staging, target)
            return msgspec.structs.replace(report, path=path)
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def kill(self) -> None:
        """End it at once, also before it has begun."""
        with self._lock:
            self._is_killed = True
            if self._job is not None:
                self._job.kill()

    def _check(self, source: ExportSource) -> ExportKind:
        """The kind that is written, once nothing speaks against it."""
        wanted = self._wanted
        kind = wanted.kind
        if kind is ExportKind.HUB:
            if not (hub.is_name(wanted.repo) and "/" in wanted.repo):
                said = _("name the repository as OWNER/NAME: letters, digits, “-”, “_” and “.”")
                raise OptionsError((Problem("repo", said),), _("The export"))
            kind = wanted.pushed or default_pushed(source)
        for asked in dict.fromkeys((wanted.kind, kind)):
            if why := refusal(source, asked):
                raise UserError(
                    _("{name} can't be exported as “{exports}”").format(
                        name=source.run.name, exports=EXPORTS[asked][0]
                    ),
                    why,
                )
        base = base_name(source.folder)
        if wanted.kind is ExportKind.HUB and kind is ExportKind.ADAPTER and not is_on_hub(base):
            raise UserError(
                _("An adapter alone would be of no use on the Hub"),
                _("What it was trained beside, {base}, is not there. Send the merged model.").format(
                    base=base
                ),
            )
        return kind

    def _target(self) -> Path:
        """The folder it becomes; for the Hub a temporary one.

        Raises:
            OptionsError: It holds something already.
        """
        if self._wanted.kind is ExportKind.HUB:
            return settings.home() / "cache" / "exports" / self._wanted.repo.replace("/", "--")
        target = Path(self._wanted.folder).expanduser().absolute()
        is_free = not any(target.iterdir()) if target.is_dir() else not target.exists()
        if not self._wanted.folder or not is_free:
            why = _("is a file") if target.is_file() else _("is not empty")
            said = f"{target} {why}; name a new folder" if self._wanted.folder else _("name a folder")
            raise OptionsError((Problem("", said),), _("The export"))
        return target

    def _ask(
        self, job: str, request: msgspec.Struct, kind: type[Answer], tell: TellProgress | None
    ) -> Answer:
        with self._lock:
            if self._is_killed:
                raise JobCancelled(job)
            self._job = self._make(job)
        return decoded(job, self._job.ask(msgspec.json.encode(request), tell=tell), kind)


def _check_room(needed: int, target: Path) -> None:
    place = next(path for path in (target, *target.parents) if path.is_dir())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise UserError(
            _("There is too little room on the disk"),
            _("The export takes about {needed}, and {free} are free at {place}.").format(
                needed=size_text(needed), free=size_text(free), place=place
            ),
        )


def _make_staging(target: Path) -> Path:
    """A new folder beside the target; those of processes that are gone are removed."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for path in target.parent.glob(f".{glob.escape(target.name)}.*.{UNFINISHED}"):
            maker = path.name.split(".")[-2]
            if not (maker.isdecimal() and psutil.pid_exists(int(maker))):
                shutil.rmtree(path, ignore_errors=True)
        staging = target.with_name(f".{target.name}.{os.getpid()}.{UNFINISHED}")
        staging.mkdir()
    except OSError as error:
        raise UserError(
            _("The export's folder can't be made"), f"{error.filename}: {error.strerror}"
        ) from error
    return staging


def _put(staging: Path, target: Path) -> None:
    try:
        if target.is_dir():
            target.rmdir()  # an empty one, which Windows doesn't replace
        staging.rename(target)
    except OSError as error:
        raise UserError(_("The export can't be put in its place"), f"{target}: {error.strerror}") from error
