"""Where llama.cpp is installed: its converter to GGUF, and the program that runs a GGUF file.

Looked for in the variable `LLAMA_CPP` (the folder of llama.cpp, or the converter itself), on the PATH, and beside the
package `gguf` where that comes from llama.cpp's own source. Nothing of it is run here.
"""

import glob
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import psutil

from core.base import settings
from core.base.errors import OptionsError, Problem, UserError
from core.base.files import read_small
from core.base.format import size as size_words
from core.base.jobs import EngineJob, JobCancelled, TellProgress, decoded
from core.base.processes import is_frozen
from core.options import RunOptions
from core.options.choices import Method
from core.options.past_runs import holds_adapter
from core.options.sources import Scheme
from core.runs import models as checkpoint_files
from core.runs.folder import RunFolder
from core.runs.models import WEIGHTS, trained_model
from core.services import hub
from core.services.chat import count_weights
from core.services.hub import Account, AccountAction, AccountRequest, Kind, TokenPlace, snapshot

# --- What a trained model can be exported as, what is asked of an export, and what comes of it


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
        "Model folder",
        "For Python: transformers, or torchvision, loads it by its folder. The model as it was trained.",
    ),
    ExportKind.ADAPTER: (
        "LoRA adapter",
        "The trained matrices alone: a few MB, used together with the model they were trained beside.",
    ),
    ExportKind.MERGED: (
        "Merged model",
        "One whole model: the LoRA matrices worked into the weights they were trained beside.",
    ),
    ExportKind.OLLAMA: (
        "Ollama",
        "To chat on your own computer: a model folder with a Modelfile for “ollama create”.",
    ),
    ExportKind.GGUF: (
        "GGUF",
        "For llama.cpp, LM Studio and the like: one file, made by llama.cpp's own converter.",
    ),
    ExportKind.ONNX: (
        "ONNX",
        "For other languages and devices, by ONNX Runtime: one graph, without Python.",
    ),
    ExportKind.COREML: ("Core ML", "For apps on a Mac, iPhone or iPad: a package that Xcode opens."),
    ExportKind.HUB: (
        "Hugging Face Hub",
        "To share: a new repository under your name. The only kind that sends anything.",
    ),
}
"""Of each kind its title and what it is for, in a sentence."""


class NumberFormat(StrEnum):
    """What the exported weights are written in."""

    AUTO = "auto"
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class Compared(StrEnum):
    """What is compared beside the logits: what a person would see of a model."""

    LABELS = "labels"
    NUMBERS = "numbers"
    WORD_LABELS = "labels of tokens"
    TOKENS = "next tokens"
    TEXTS = "beginnings of answers"


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How the exported model answers beside the trained one, on the same examples.

    Attributes:
        examples: How many both were asked.
        held_out: How many of these the run had held out; the others are made up.
        compared: What was counted.
        equal: How many of `counted` answers are the same.
        counted: All of them.
        largest: The largest difference of two logits (of two scores, for numbers); None: not to be had, or no number.
        allowed: How large it may be.
        why: Why so much is allowed.
        holds: Whether the two models agree.
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
    """Export this run's model.

    Attributes:
        run: The run's folder.
        kind: What it becomes; never `hub`, which is an export of another kind that is sent afterwards.
        staging: An empty folder, where it is written.
        target: The folder it will be in the end.
        numbers: What its weights are written in; "auto": as trained, or as those they were worked into.
        checkpoint: The name of a checkpoint of the run, such as `checkpoint-40`; empty: what it ended with.
    """

    run: str
    kind: ExportKind
    staging: str
    target: str
    numbers: NumberFormat = NumberFormat.AUTO
    checkpoint: str = ""


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an export.

    Attributes:
        kind: What was made.
        path: Where it lies, or its address on the Hub.
        files: Names of its files, relative to `path`.
        size: Bytes of all of them.
        agreement: How it answers beside the trained model; None: not checked, and `unchecked` says why.
        unchecked: Why it was not checked; empty where it was.
        notes: What a person should know of it, or do with it next.
        missing: What was asked and is not there (a converter isn't installed); empty: all of it is there.
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
    """Where the files are now: the address of the repository's page."""

    url: str


def agreement_words(agreement: Agreement) -> str:
    """How the two models agree, in a sentence."""
    if agreement.counted:
        same = f"{agreement.equal:,} of {agreement.counted:,} {agreement.compared} are the same"
    else:
        same = "Nothing could be counted"
    told = f"{same}, on {agreement.examples} examples, {_origin(agreement)}"
    if agreement.largest is None:
        return f"{told}."
    thing = "score" if agreement.compared is Compared.NUMBERS else "logit"
    most = f"; no {thing} is off by more than {agreement.largest:.2g}"
    return (
        f"{told}{most} ({agreement.allowed:.2g} is allowed)."
        if agreement.allowed is not None
        else f"{told}{most}."
    )


def _origin(agreement: Agreement) -> str:
    if agreement.held_out == agreement.examples:
        return "all of them held out"
    return (
        f"{agreement.held_out} of them held out, the others made up"
        if agreement.held_out
        else "all of them made up"
    )


# --- Where llama.cpp is installed: its converter to GGUF, and the program that runs a GGUF file


VARIABLE = "LLAMA_CPP"
CONVERTER = "convert_hf_to_gguf.py"
RUNNERS = ("llama-completion", "llama-cli")
"""Programs that go on from a prompt, the newer name first."""

NOT_FOUND = (
    "llama.cpp isn't installed, or not where Hone looks: get https://github.com/ggml-org/llama.cpp, install its "
    f"requirements, and set {VARIABLE} to its folder."
)


def find_converter() -> Path | None:
    """llama.cpp's converter of model folders; None where there is none."""
    on_path = shutil.which(CONVERTER)
    candidates = [*(place / CONVERTER for place in _places()), *([Path(on_path)] if on_path else [])]
    named = os.environ.get(VARIABLE, "")
    if named.endswith(".py"):
        candidates.insert(0, Path(named).expanduser())
    return next((path for path in candidates if path.is_file()), None)


def find_runner() -> Path | None:
    """The program that writes on from a prompt with a GGUF file; None where there is none."""
    built = [
        place / inside / name for place in _places() for inside in (".", "build/bin") for name in RUNNERS
    ]
    found = next((path for path in built if path.is_file() and os.access(path, os.X_OK)), None)
    on_path = next(filter(None, map(shutil.which, RUNNERS)), None)
    return found or (Path(on_path) if on_path else None)


def _places() -> list[Path]:
    """Folders that may be llama.cpp's."""
    named = os.environ.get(VARIABLE, "")
    places = []
    if named:
        path = Path(named).expanduser()
        places.append(path.parent if path.suffix == ".py" else path)
    package = find_spec("gguf")
    if package is not None and package.origin:  # in its source: llama.cpp/gguf-py/gguf/__init__.py
        places.append(Path(package.origin).parents[2])
    return places


# --- What a run's model can be exported as, and why not as the rest


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
    "CohereForCausalLM": "Command R",
    "Olmo3ForCausalLM": "OLMo 3",
    "GptOssForCausalLM": "gpt-oss",
    "Lfm2ForCausalLM": "LFM 2",
}
"""The architectures of text models that Ollama makes of safetensors (https://docs.ollama.com/import and the converters
in its source, November 2026); not tried here."""


@dataclass(frozen=True)
class Offer:
    """One kind of export of one run; `refusal` says why it can't be made, `caution` what to know of it before."""

    kind: ExportKind
    refusal: str = ""
    caution: str = ""


@dataclass(frozen=True)
class ExportSource:
    """A run's model as it lies there: what was asked of the run, its folder, and what is known of it unopened.

    `architecture` is the class that transformers loads it as; empty: not known, or a network of torchvision's.
    """

    run: RunFolder
    options: RunOptions
    folder: Path
    is_adapter: bool
    architecture: str = ""

    @property
    def network(self) -> str:
        """ "torchvision" for one of its networks: a model of images without a config; empty for all others."""
        is_bare = self.options.task.reads_images and not (self.folder / "config.json").is_file()
        return "torchvision" if is_bare else ""

    @property
    def told(self) -> str:
        """Which weights these are, in a sentence; empty for the trained model."""
        if self.folder == self.run.model:
            return ""
        return f"The weights are those of its checkpoint of step {checkpoint_files.step_of(self.folder):,}."

    @property
    def is_packed(self) -> bool:
        """Whether it was trained beside packed weights."""
        return self.options.model.method is Method.QLORA


def find_source(run: RunFolder, checkpoint: str = "") -> ExportSource:
    """The model of a run; the newest checkpoint in its place where that was trained further.

    Args:
        run: The run.
        checkpoint: The name of a checkpoint to take; empty: the newest weights (`core.runs.models`).

    Raises:
        UserError: There is no model, or nobody knows what it learned.
    """
    try:
        options = run.options()
    except OptionsError as error:
        raise UserError(f"Nobody knows what {run.name} learned", str(error)) from error
    folder = _folder_of(run, checkpoint)
    is_adapter = holds_adapter(folder)
    return ExportSource(run, options, folder, is_adapter, _architecture(folder, is_adapter=is_adapter))


def _folder_of(run: RunFolder, checkpoint: str) -> Path:
    known = {one.path.name: one.path for one in checkpoint_files.newest_first(run.checkpoints)}
    if checkpoint and checkpoint not in known:
        there = f"There are {', '.join(known)}." if known else "It has none."
        raise UserError(f"{run.name} has no complete checkpoint {checkpoint}", there)
    if checkpoint:
        return known[checkpoint]
    newest = trained_model(run)
    if newest is not None:
        return newest.folder
    raise UserError(
        f"{run.name} has no model to export",
        "It didn't end, or its model was deleted; it has no checkpoint either.",
    )


def _architecture(folder: Path, *, is_adapter: bool) -> str:
    config = config_of(folder)
    if is_adapter and not config:
        base = base_folder(folder)
        config = config_of(base) if base else {}
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def base_name(folder: Path) -> str:
    """What LoRA matrices say they were trained beside: a folder, an id on the Hub, or `torchvision:NAME`."""
    return str(_read(folder / "adapter_config.json").get("base_model_name_or_path") or "")


def base_folder(folder: Path) -> Path | None:
    """Where the model beside LoRA matrices lies; None where it isn't on this computer, or is torchvision's."""
    named = base_name(folder)
    cached = snapshot(named, Kind.MODEL) if hub.is_name(named) else None
    places = (folder / "base", Path(named), cached)
    return next((place for place in places if place and (place / "config.json").is_file()), None)


def config_of(folder: Path) -> dict[str, Any]:
    """What a model's folder says of it; nothing where that can't be read."""
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
    return _REFUSALS[kind](source)


def caution(source: ExportSource, kind: ExportKind) -> str:
    """What to know before a model is exported as `kind`; empty: nothing."""
    if kind is ExportKind.GGUF and not refusal(source, kind) and find_converter() is None:
        return "llama.cpp isn't installed here: you get the model folder that it takes, and are told how to go on."
    if kind is ExportKind.MERGED and source.is_packed:
        return (
            "It was trained beside packed weights; the merged ones are full, and answer a little differently."
        )
    return ""


def _folder(source: ExportSource) -> str:
    whole = "This run trained LoRA matrices beside a frozen model: take the adapter, or the merged model."
    return whole if source.is_adapter else ""


def _adapter(source: ExportSource) -> str:
    return "" if source.is_adapter else "This run trained no LoRA matrices: its model is whole already."


def _hub(_source: ExportSource) -> str:
    return f"{hub.forbidden_by()} forbids to ask {hub.host()} for anything." if hub.is_forbidden() else ""


def _ollama(source: ExportSource) -> str:
    known = ", ".join(OLLAMA_IMPORTS.values())
    if source.architecture and source.architecture not in OLLAMA_IMPORTS and source.options.task.writes_text:
        return f"Ollama doesn't import {source.architecture} from safetensors; it knows {known}."
    return _writes(source, "Ollama runs models that write text")


def _writes(source: ExportSource, what: str) -> str:
    return "" if source.options.task.writes_text else f"{what}; this one does “{source.options.task.label}”."


def _says(source: ExportSource, what: str) -> str:
    if source.options.task.writes_text:
        return f"Hone writes {what} of models that classify, score or label; for one that writes, take Ollama or GGUF."
    return ""


def _onnx_missing() -> str:
    missing = [name for name in ONNX_PACKAGES if find_spec(name) is None]
    if not missing:
        return ""
    if is_frozen():
        return (
            "It takes packages that this program doesn't bring along; Hone started from its source can do it."
        )
    return f"It takes {', '.join(missing)}, 34 MB to download: {sys.executable} -m {ONNX_INSTALL}"


def _coreml_missing() -> str:
    is_mac = sys.platform == "darwin"
    if not is_mac:
        return "It needs a Mac: there Apple's coremltools writes it and macOS checks it."
    if find_spec("coremltools") is None:
        return f"It takes Apple's coremltools: {sys.executable} -m pip install coremltools"
    return ""


def default_pushed(source: ExportSource) -> ExportKind:
    """What is sent to the Hub where nobody says otherwise: the adapter where its base is there, too; else the model."""
    if not source.is_adapter:
        return ExportKind.FOLDER
    return ExportKind.ADAPTER if is_on_hub(base_name(source.folder)) else ExportKind.MERGED


def is_on_hub(base: str) -> bool:
    """Whether LoRA matrices name a model of the Hub as what they were trained beside."""
    is_plain = Scheme.TORCHVISION.name_of(base) is None and not Path(base).is_absolute()
    return is_plain and hub.is_name(base) and "/" in base


_REFUSALS: dict[ExportKind, Callable[[ExportSource], str]] = {
    ExportKind.FOLDER: _folder,
    ExportKind.ADAPTER: _adapter,
    ExportKind.MERGED: _adapter,
    ExportKind.OLLAMA: _ollama,
    ExportKind.GGUF: lambda source: _writes(source, "GGUF is for models that write text"),
    ExportKind.ONNX: lambda source: _says(source, "ONNX") or _onnx_missing(),
    ExportKind.COREML: lambda source: _says(source, "Core ML") or _coreml_missing(),
    ExportKind.HUB: _hub,
}


# --- How much room an export takes on the disk


SMALL_FILES = 16 << 20
FP32, HALF = 4, 2
"""Bytes of a weight."""
GRAPHS = (ExportKind.ONNX, ExportKind.COREML)
"""These are written in fp32."""


def bytes_of(source: ExportSource, kind: ExportKind, numbers: NumberFormat) -> int:
    """About how many bytes an export takes; a GGUF file stands beside the folder it is made from.

    Args:
        source: The model.
        kind: What it becomes.
        numbers: What its weights are written in.
    """
    own = [*source.folder.glob(WEIGHTS)]
    if kind is ExportKind.ADAPTER:
        return _sizes([*own, *(source.folder / "base").glob(WEIGHTS)]) + SMALL_FILES
    base = base_folder(source.folder) if source.is_adapter else None
    files = own if base is None else [*base.glob(WEIGHTS)]
    is_copied = not source.is_adapter and numbers is NumberFormat.AUTO and kind not in GRAPHS
    config = {} if base is None else config_of(base)
    written = 0 if is_copied else _weights(files, config) * _bytes_a_weight(kind, numbers, config)
    return (2 if kind is ExportKind.GGUF else 1) * (written or _sizes(files)) + SMALL_FILES


def _weights(files: list[Path], config: dict[str, Any]) -> int:
    """How many weights files hold; published in 4 bits, each byte is two of them."""
    packing = config.get("quantization_config")
    is_in_4_bits = isinstance(packing, dict) and packing.get("load_in_4bit") is True
    return count_weights(files) * (2 if is_in_4_bits else 1)


def _bytes_a_weight(kind: ExportKind, numbers: NumberFormat, config: dict[str, Any]) -> int:
    """Bytes of a weight as it is written: merged ones as they were published, unless something is asked for."""
    if kind in GRAPHS:
        return FP32
    if numbers is NumberFormat.AUTO:
        return HALF if (config.get("dtype") or config.get("torch_dtype")) in ("bfloat16", "float16") else FP32
    return FP32 if numbers is NumberFormat.FP32 else HALF


def _sizes(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files)


# --- Exporting in processes of its own: into a folder beside the target


UNFINISHED = "exporting"
"""The end of the names of folders that an export is still writing."""

NO_TOKEN = (
    "Make one with leave to write at huggingface.co/settings/tokens, and give it to Hone in Settings, under “Hugging "
    "Face Hub”, or in a terminal: hone hub sign-in"
)

MakeJob = Callable[[str], EngineJob]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks for.

    Attributes:
        run: The run's folder.
        kind: What its model becomes.
        folder: Where it goes: new or empty. For the Hub, nowhere: empty.
        repo: `owner/name`, for the Hub.
        private: Whether only its owner sees the new repository.
        pushed: For the Hub, what is sent; None: the adapter where its base is on the Hub, else the whole model.
        numbers: What the weights are written in.
        checkpoint: The name of a checkpoint in the trained model's place; empty: none.
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
        wanted: What is asked.
        make: Starts an engine job by its name.
    """

    def __init__(self, wanted: Wanted, make: MakeJob = EngineJob) -> None:
        self._wanted, self._make = wanted, make
        self._lock = threading.Lock()
        self._job: EngineJob | None = None
        self._is_killed = False

    def run(self, tell: TellProgress | None = None) -> ExportReport:
        """Export, waiting until it is done; whatever ends it before leaves nothing behind.

        Args:
            tell: Hears how far it is.

        Raises:
            OptionsError: The target isn't new or empty, or the repository has no name.
            UserError: The model can't be exported so, the disk is full, or the export doesn't answer as the model does.
            EngineCrashed: The engine ended without an answer.
            JobCancelled: `kill` was called.
        """
        kind = self._check()
        if self._wanted.kind is ExportKind.HUB:
            self._check_token()
        target = self._target()
        _check_room(bytes_of(self._source, kind, self._wanted.numbers), target)
        staging = _make_staging(target)
        try:
            report = self._write(kind, staging, target, tell)
            if self._wanted.kind is ExportKind.HUB:
                return self._push(staging, report, tell)
            _put(staging, target)
            return report
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def kill(self) -> None:
        """End it at once, also before it has begun."""
        with self._lock:
            self._is_killed = True
            if self._job is not None:
                self._job.kill()

    def _check(self) -> ExportKind:
        """What is to be written, once nothing speaks against it."""
        wanted = self._wanted
        source = find_source(RunFolder(Path(wanted.run)), wanted.checkpoint)
        kind = wanted.kind
        if kind is ExportKind.HUB:
            _check_repo(wanted.repo)
            kind = wanted.pushed or default_pushed(source)
        for asked in dict.fromkeys((wanted.kind, kind)):
            if why := refusal(source, asked):
                raise UserError(f"{source.run.name} can't be exported as “{EXPORTS[asked][0]}”", why)
        if (
            wanted.kind is ExportKind.HUB
            and kind is ExportKind.ADAPTER
            and not is_on_hub(base_name(source.folder))
        ):
            raise UserError(
                "An adapter alone would be of no use on the Hub",
                f"What it was trained beside, {base_name(source.folder)}, is not there. Send the merged model.",
            )
        self._source = source
        return kind

    def _check_token(self) -> None:
        """Stop before minutes of work where nothing could be sent."""
        look = msgspec.json.encode(AccountRequest(action=AccountAction.LOOK))
        found = decoded("hub-account", self._ask("hub-account", look, None), Account)
        if found.place is TokenPlace.NOWHERE:
            raise UserError(f"Sending to {hub.host()} takes a token", NO_TOKEN)

    def _target(self) -> Path:
        """The folder it is to become; for the Hub one that nobody keeps.

        Raises:
            OptionsError: It holds something already.
        """
        if self._wanted.kind is ExportKind.HUB:
            return settings.home() / "cache" / "exports" / self._wanted.repo.replace("/", "--")
        target = Path(self._wanted.folder).expanduser().absolute()
        is_free = not any(target.iterdir()) if target.is_dir() else not target.exists()
        if not self._wanted.folder or not is_free:
            said = f"{target} is not empty; name a new folder" if self._wanted.folder else "name a folder"
            raise OptionsError((Problem("", said),), "The export")
        return target

    def _write(
        self, kind: ExportKind, staging: Path, target: Path, tell: TellProgress | None
    ) -> ExportReport:
        request = ExportRequest(
            run=str(Path(self._wanted.run).absolute()),
            kind=kind,
            staging=str(staging),
            target=str(target),
            numbers=self._wanted.numbers,
            checkpoint=self._wanted.checkpoint,
        )
        report = decoded("export", self._ask("export", msgspec.json.encode(request), tell), ExportReport)
        return msgspec.structs.replace(report, path=str(target))

    def _push(self, staging: Path, report: ExportReport, tell: TellProgress | None) -> ExportReport:
        request = PushRequest(folder=str(staging), repo=self._wanted.repo, private=self._wanted.private)
        pushed = decoded("export-push", self._ask("export-push", msgspec.json.encode(request), tell), Pushed)
        return msgspec.structs.replace(report, path=pushed.url)

    def _ask(self, job: str, request: bytes, tell: TellProgress | None) -> bytes:
        with self._lock:
            if self._is_killed:
                raise JobCancelled(job)
            self._job = self._make(job)
        return self._job.ask(request, tell=tell)


def _check_repo(repo: str) -> None:
    if hub.is_name(repo) and "/" in repo:
        return
    said = "name the repository as OWNER/NAME: letters, digits, “-”, “_” and “.”"
    raise OptionsError((Problem("repo", said),), "The export")


def _check_room(needed: int, target: Path) -> None:
    """Stop before anything is written where the disk can't hold it.

    Raises:
        UserError: It can't.
    """
    place = next(path for path in (target, *target.parents) if path.is_dir())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise UserError(
            "There is too little room on the disk",
            f"The export takes about {size_words(needed)}, and {size_words(free)} are free at {place}.",
        )


def _make_staging(target: Path) -> Path:
    """A new folder beside the target; those that processes left which are gone are taken away.

    Raises:
        UserError: It can't be made.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for path in target.parent.glob(f".{glob.escape(target.name)}.*.{UNFINISHED}"):
            maker = path.name.split(".")[-2]
            if not (maker.isdecimal() and psutil.pid_exists(int(maker))):
                shutil.rmtree(path, ignore_errors=True)
        staging = target.with_name(f".{target.name}.{os.getpid()}.{UNFINISHED}")
        staging.mkdir()
    except OSError as error:
        raise UserError("The export's folder can't be made", f"{error.filename}: {error.strerror}") from error
    return staging


def _put(staging: Path, target: Path) -> None:
    """Give the finished folder its name.

    Raises:
        UserError: Somebody has put something there meanwhile.
    """
    try:
        if target.is_dir():
            target.rmdir()  # an empty one, which Windows doesn't replace
        staging.rename(target)
    except OSError as error:
        raise UserError("The export can't be put in its place", f"{target}: {error.strerror}") from error
