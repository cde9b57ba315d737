"""Exports of a run's model: kinds, refusals, messages of the engine's jobs, and the export itself."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
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
from core.base.formats import memory, plain_number
from core.base.jobs import EngineJob, JobCancelled, TellProgress, decoded
from core.base.language import _
from core.base.processes import foreign_environment, is_frozen
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
    """Kinds of exports."""

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
        _("For Python: the model as it was trained, to be loaded by transformers or torchvision."),
    ),
    ExportKind.ADAPTER: (
        _("LoRA adapter"),
        _("The trained matrices alone: a few MB, used together with the model they were trained with."),
    ),
    ExportKind.MERGED: (
        _("Merged model"),
        _("One whole model: the LoRA matrices merged into the weights of the base model."),
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
        _("To share: a new repository under your name. The only export that uploads anything."),
    ),
}
"""Title and purpose of each kind."""


class NumberFormat(StrEnum):
    """Number format of the exported weights; "auto": as trained, merged ones as in their base model.

    Quantized ones are llama.cpp's: blocks of 32 weights with a scale each, or for q4_k_m of 256 with several.
    """

    AUTO = "auto"
    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"
    Q4_K_M = "q4_k_m"

    @property
    def is_quantized(self) -> bool:
        return self.value.startswith("q")


class Compared(StrEnum):
    """What is compared besides the logits."""

    LABELS = "labels"
    NUMBERS = "numbers"
    WORD_LABELS = "labels of tokens"
    TOKENS = "next tokens"


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of the exported model with the trained one on the same examples.

    `held_out` of the `examples` are from the run's validation split, the others random. `equal` of `counted` answers
    are the same; `largest` is the largest difference of two logits or scores (None: unknown or not a number),
    `allowed` the tolerance and `why` its reason. `holds` says whether the models agree.
    """

    examples: int
    held_out: int
    compared: Compared
    equal: int
    counted: int
    largest: float | None
    allowed: float
    why: str
    holds: bool


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Export the model in the run folder `run` as `kind` (never `hub`) into the empty folder `staging`.

    `target` is the folder it will become, `repo` the repository it is for, if any; `checkpoint` is a name such as
    `checkpoint-40`, empty for the trained model.
    """

    run: str
    kind: ExportKind
    staging: str
    target: str
    repo: str = ""
    numbers: NumberFormat = NumberFormat.AUTO
    checkpoint: str = ""


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an export.

    `path` is its folder or its address on the Hub; `files` are relative to it, `size` is in bytes. `unchecked` says
    why there is no `agreement`. `code` is Python that uses the model, or commands for a terminal; empty if other
    programs do.
    """

    kind: ExportKind
    path: str
    files: tuple[str, ...]
    size: int
    agreement: Agreement | None = None
    unchecked: str = ""
    notes: tuple[str, ...] = ()
    code: str = ""


class PushRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Send the files of a folder to a new repository `owner/name` on the Hub."""

    folder: str
    repo: str
    private: bool = True


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the new repository's page."""

    url: str


def _two_figures(value: float) -> str:
    return plain_number(float(f"{value:.2g}"))


def agreement_text(agreement: Agreement) -> str:
    if agreement.held_out == agreement.examples:
        origin = _("{examples} validation examples")
    elif agreement.held_out:
        origin = _("{examples} examples, {held_out} of them from the validation data, the others random")
    else:
        origin = _("{examples} random examples")
    origin = origin.format(examples=agreement.examples, held_out=agreement.held_out)
    if agreement.counted:
        text = _("{equal:,} of {counted:,} {compared} are the same, on {origin}")
    else:
        text = _("No answers to compare, on {origin}")
    text = text.format(
        equal=agreement.equal, counted=agreement.counted, compared=agreement.compared, origin=origin
    )
    if agreement.largest is None:
        return f"{text}."
    largest = _("Max. {compared} difference: {largest} (tolerance {allowed}).").format(
        compared=_("score") if agreement.compared is Compared.NUMBERS else _("logit"),
        largest=_two_figures(agreement.largest),
        allowed=_two_figures(agreement.allowed),
    )
    return f"{text}. {largest}"


# --- llama.cpp: searched in `LLAMA_CPP` (a folder or the converter), on the PATH, and beside the package `gguf`


VARIABLE = "LLAMA_CPP"
CONVERTER = "convert_hf_to_gguf.py"
QUANTIZER = "llama-quantize"


def find_converter() -> Path | None:
    named, on_path = os.environ.get(VARIABLE, ""), shutil.which(CONVERTER)
    candidates = [Path(named).expanduser()] if named.endswith(".py") else []
    candidates += [folder / CONVERTER for folder in _llama_folders()]
    candidates += [Path(on_path)] if on_path else []
    return next((path for path in candidates if path.is_file()), None)


def find_quantizer() -> str | None:
    """Find llama.cpp's program that quantizes GGUF files."""
    built = [str(folder / inside) for folder in _llama_folders() for inside in (".", "build/bin")]
    return shutil.which(QUANTIZER, path=os.pathsep.join((*built, os.environ.get("PATH", ""))))


def find_python() -> str:
    """The Python that runs the converter: of an environment in llama.cpp's folder, else Hone's; may be empty.

    A bundled program isn't Python: it takes one on the PATH, if there is one.
    """
    places = [
        folder / name / inside
        for folder in _llama_folders()
        for name in (".venv", "venv")
        for inside in ("bin/python", "Scripts/python.exe")
    ]
    own = next((str(place) for place in places if place.is_file()), "")
    return own or (
        (shutil.which("python3") or shutil.which("python") or "") if is_frozen() else sys.executable
    )


CONVERTER_SECONDS = 60.0
MISSING = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")


def why_not_converted(python: str, converter: Path) -> str:
    """Start the converter, which takes seconds; what this Python lacks for it, empty if nothing."""
    command = (python, str(converter), "--help")
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=foreign_environment(),
            timeout=CONVERTER_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return _unusable(python, _("no answer within {seconds:.0f} s").format(seconds=CONVERTER_SECONDS))
    except OSError as error:
        return _unusable(python, error.strerror or "")
    missing = MISSING.search(done.stderr)
    return lacks_module(python, missing[1]) if missing else ""


def _unusable(python: str, reason: str) -> str:
    text = _("{python} doesn't start llama.cpp's converter ({reason}). In llama.cpp's folder: {command}")
    return text.format(python=python, reason=reason, command=_own_environment())


def lacks_module(python: str, module: str) -> str:
    text = _(
        "{python} has no module {module}, which llama.cpp's converter needs. In llama.cpp's folder: {command}"
    )
    return text.format(python=python, module=module, command=_own_environment())


def _own_environment() -> str:
    """The command that gives llama.cpp its requirements: in an environment of its own, as they may replace Hone's."""
    if os.name == "nt":
        both = r"py -m venv .venv && .venv\Scripts\python -m pip install -r requirements.txt"
        return f'cmd /c "{both}"'  # PowerShell 5 knows no &&
    return "python3 -m venv .venv && .venv/bin/python -m pip install -r requirements.txt"


def _llama_folders() -> list[Path]:
    named = os.environ.get(VARIABLE, "")
    path = Path(named).expanduser()
    folders = [path.parent if path.suffix == ".py" else path] if named else []
    package = find_spec("gguf")
    if package is not None and package.origin:  # in its source: llama.cpp/gguf-py/gguf/__init__.py
        folders.append(Path(package.origin).parents[2])
    return folders


# --- The model to export, and what it can become


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
"""Architectures that Ollama imports from safetensors (https://docs.ollama.com/import and its source, November 2026)."""


class FormatOffer(msgspec.Struct, frozen=True):
    """A number format, why it can't be written (`refusal`), and the approximate bytes of an export with it."""

    numbers: NumberFormat
    refusal: str = ""
    size: int = 0


@dataclass(frozen=True)
class Offer:
    """A kind of export, why it can't be made (`refusal`), what to know before (`caution`), and its number formats."""

    kind: ExportKind
    refusal: str = ""
    caution: str = ""
    formats: tuple[FormatOffer, ...] = ()


@dataclass(frozen=True)
class ExportSource:
    """A run's model on disk. `architecture` is its class in transformers; empty if unknown or a torchvision network."""

    run: RunFolder
    options: RunOptions
    folder: Path
    is_adapter: bool
    architecture: str = ""

    @property
    def network(self) -> str:
        """ "torchvision" for a torchvision network (an image model without config.json), else empty."""
        is_bare = self.options.task.reads_images and not (self.folder / "config.json").is_file()
        return "torchvision" if is_bare else ""

    @property
    def checkpoint_text(self) -> str:
        """A sentence naming the checkpoint; empty for the trained model."""
        if self.folder == self.run.model:
            return ""
        return _("The weights are those of the checkpoint of step {step:,}.").format(
            step=step_of(self.folder)
        )

    @property
    def is_packed(self) -> bool:
        """Whether its base was quantized during training."""
        return self.options.model.method is Method.QLORA


def find_source(run: RunFolder, checkpoint: str = "") -> ExportSource:
    """Find a run's model: `checkpoint`, or by default the newest weights.

    Raises:
        UserError: There is no such model, or the run file can't be read.
    """
    try:
        options = run.options()
    except OptionsError as error:
        raise UserError(
            _("The run file of {name} can't be read").format(name=run.name), str(error)
        ) from error
    if checkpoint:
        complete = {each.path.name: each.path for each in newest_first(run.checkpoints)}
        if checkpoint not in complete:
            title = _("{name} has no complete checkpoint {checkpoint}")
            names = (
                _("There are {names}.").format(names=", ".join(complete)) if complete else _("It has none.")
            )
            raise UserError(title.format(name=run.name, checkpoint=checkpoint), names)
        folder = complete[checkpoint]
    else:
        newest = trained_model(run)
        if newest is None:
            title = _("{name} has no model to export").format(name=run.name)
            raise UserError(
                title, _("It has not finished, or its model was deleted; it has no checkpoint either.")
            )
        folder = newest.folder
    is_adapter = holds_adapter(folder)
    config = config_of(folder)
    if is_adapter and not config and (base := base_folder(folder)):
        config = config_of(base)
    match config.get("architectures"):
        case [str(architecture), *_others]:
            return ExportSource(run, options, folder, is_adapter, architecture)
    return ExportSource(run, options, folder, is_adapter)


def base_name(folder: Path) -> str:
    """An adapter's base model: a folder, an id on the Hub, or `torchvision:NAME`."""
    return str(_read(folder / "adapter_config.json").get("base_model_name_or_path") or "")


def base_folder(folder: Path) -> Path | None:
    """The folder of an adapter's base model. Returns None if it isn't on this computer, or is torchvision's."""
    named = base_name(folder)
    cached = snapshot(named, Kind.MODEL) if hub.is_name(named) else None
    places = (folder / "base", Path(named), cached)
    return next((place for place in places if place and (place / "config.json").is_file()), None)


def config_of(folder: Path) -> dict[str, Any]:
    """A model folder's config.json; empty if it can't be read."""
    return _read(folder / "config.json")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_small(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def offers(source: ExportSource) -> tuple[Offer, ...]:
    """Every kind, with refusals and cautions for this model on this computer."""
    return tuple(
        Offer(kind, why)
        if (why := refusal(source, kind))
        else Offer(kind, "", caution(source, kind), tuple(_formats(source, kind)))
        for kind in ExportKind
    )


def _formats(source: ExportSource, kind: ExportKind) -> Iterator[FormatOffer]:
    written = default_pushed(source) if kind is ExportKind.HUB else kind
    for numbers in NumberFormat if kind in WITH_NUMBERS else [NumberFormat.AUTO]:
        why = numbers_refusal(kind, numbers)
        yield FormatOffer(numbers, why, 0 if why else size_of(source, written, numbers))


def numbers_refusal(kind: ExportKind, numbers: NumberFormat) -> str:
    """Why an export of this kind can't have weights of this format; empty if it can."""
    if not numbers.is_quantized:
        return ""
    if kind is not ExportKind.GGUF:
        return _("Only GGUF is quantized here. Ollama does it itself: ollama create --quantize q4_K_M NAME")
    if numbers is NumberFormat.Q4_K_M and find_quantizer() is None:
        return _(
            "It needs {program}, which was not found: build llama.cpp and put its programs on the PATH or set "
            "{variable} to its folder. q4_0 needs nothing more."
        ).format(program=QUANTIZER, variable=VARIABLE)
    return ""


def refusal(source: ExportSource, kind: ExportKind) -> str:
    """Why a model can't be exported as `kind`; empty if it can."""
    task = source.options.task
    match kind:
        case ExportKind.FOLDER if source.is_adapter:
            return _("This run trained a LoRA adapter: export the adapter or the merged model.")
        case ExportKind.ADAPTER | ExportKind.MERGED if not source.is_adapter:
            return _("This run trained no LoRA adapter: its model is whole already.")
        case ExportKind.OLLAMA | ExportKind.GGUF if not task.writes_text:
            return _("{kind} is for models that write text; this one was trained for “{task}”.").format(
                kind=EXPORTS[kind][0], task=task.label
            )
        case ExportKind.OLLAMA if source.architecture and source.architecture not in OLLAMA_IMPORTS:
            return _("Ollama doesn't import {architecture} from safetensors, only {known}.").format(
                architecture=source.architecture, known=", ".join(OLLAMA_IMPORTS.values())
            )
        case ExportKind.GGUF if find_converter() is None:
            return _(
                "llama.cpp was not found: download https://github.com/ggml-org/llama.cpp, set {variable} to its "
                "folder, and type there: {command}"
            ).format(variable=VARIABLE, command=_own_environment())
        case ExportKind.GGUF if not find_python():
            return _("llama.cpp's converter needs Python. In llama.cpp's folder: {command}").format(
                command=_own_environment()
            )
        case ExportKind.GGUF if (converter := find_converter()) and (
            why := why_not_converted(find_python(), converter)
        ):
            return why
        case ExportKind.ONNX | ExportKind.COREML if task.writes_text:
            return _("{kind} is not for models that write text; use Ollama or GGUF.").format(
                kind=EXPORTS[kind][0]
            )
        case ExportKind.ONNX if missing := [name for name in ONNX_PACKAGES if find_spec(name) is None]:
            if is_frozen():
                return _("It needs packages that are not part of this program; run Hone from source.")
            return _("It needs {missing}, a download of 34 MB: {executable} -m {install}").format(
                missing=", ".join(missing), executable=sys.executable, install=ONNX_INSTALL
            )
        case ExportKind.COREML if sys.platform != "darwin":
            return _("It needs a Mac: coremltools writes it and macOS checks it.")
        case ExportKind.COREML if find_spec("coremltools") is None:
            return _("It needs Apple's coremltools: {executable} -m pip install coremltools").format(
                executable=sys.executable
            )
        case ExportKind.HUB if hub.is_forbidden():
            return _("{reason} forbids connections to {host}.").format(
                reason=hub.forbidden_by(), host=hub.host()
            )
    return ""


def caution(source: ExportSource, kind: ExportKind) -> str:
    """What to know before a model is exported as `kind`; empty for most."""
    if kind is ExportKind.MERGED and source.is_packed:
        return _(
            "It was trained with quantized weights; the merged ones are not quantized and answer slightly differently."
        )
    return ""


def default_pushed(source: ExportSource) -> ExportKind:
    """What is sent to the Hub by default: the adapter if its base is on the Hub, too, else the whole model."""
    if not source.is_adapter:
        return ExportKind.FOLDER
    return ExportKind.ADAPTER if is_on_hub(base_name(source.folder)) else ExportKind.MERGED


def is_on_hub(base: str) -> bool:
    is_id = Scheme.TORCHVISION.name_of(base) is None and not Path(base).is_absolute()
    return is_id and hub.is_name(base) and "/" in base


# --- Disk space


SMALL_FILES = 16 << 20

WITH_NUMBERS = (ExportKind.FOLDER, ExportKind.MERGED, ExportKind.OLLAMA, ExportKind.GGUF, ExportKind.HUB)
"""Kinds whose number format can be chosen."""
BITS = {
    NumberFormat.FP32: (32.0, 32.0),
    NumberFormat.BF16: (16.0, 16.0),
    NumberFormat.FP16: (16.0, 16.0),
    NumberFormat.Q8_0: (8.5, 8.5),
    NumberFormat.Q4_0: (4.5, 8.5),
    NumberFormat.Q4_K_M: (4.8, 6.6),
}
"""Bits of a weight with its share of the scales, and of one of the output layer."""


def size_of(source: ExportSource, kind: ExportKind, numbers: NumberFormat) -> int:
    """Approximate size of an export's weights."""
    base = None if kind is ExportKind.ADAPTER or not source.is_adapter else base_folder(source.folder)
    files = [*(base or source.folder).glob(WEIGHTS)]
    if kind is ExportKind.ADAPTER:
        files += (source.folder / "base").glob(WEIGHTS)
    elif kind in (ExportKind.ONNX, ExportKind.COREML):
        numbers = NumberFormat.FP32
    elif kind is ExportKind.GGUF and numbers is NumberFormat.AUTO:
        numbers = NumberFormat.FP16  # or bf16
    if numbers is NumberFormat.AUTO or kind is ExportKind.ADAPTER:
        return sum(path.stat().st_size for path in files)
    count, (bits, bits_of_head) = count_weights(files), BITS[numbers]
    config = config_of(base or source.folder)
    sides = config.get("vocab_size"), config.get("hidden_size")
    head = sides[0] * sides[1] if isinstance(sides[0], int) and isinstance(sides[1], int) else 0
    return round(bits * (count - head) + bits_of_head * head) // 8


def bytes_of(source: ExportSource, kind: ExportKind, numbers: NumberFormat) -> int:
    """Approximate space an export takes; a GGUF file's includes the folder, and the 16-bit file, it is made from."""
    if kind is not ExportKind.GGUF:
        return size_of(source, kind, numbers) + SMALL_FILES
    folder = NumberFormat.AUTO if numbers.is_quantized else numbers
    converted = NumberFormat.FP16 if numbers.is_quantized else numbers
    return size_of(source, ExportKind.FOLDER, folder) + size_of(source, kind, converted) + SMALL_FILES


# --- Exporting in an engine process, into a folder beside the target


UNFINISHED = "exporting"
"""End of the names of unfinished exports' folders."""

NO_TOKEN = _(
    "Create a token with write access at huggingface.co/settings/tokens, and enter it in Settings, under “Hugging Face "
    "Hub”, or in a terminal: hone hub --sign-in"
)

MakeJob = Callable[[str], EngineJob]
Answer = TypeVar("Answer")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A requested export.

    `folder` is new or empty, or "" for the Hub; `repo` (`owner/name`), `private` and `pushed` (the kind of export that
    is sent, None: see `default_pushed`) are for the Hub. `checkpoint` is as in `ExportRequest`.
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
    """One export; `run` waits for it, `kill` ends it from another thread."""

    def __init__(self, wanted: Wanted, make: MakeJob = EngineJob) -> None:
        self._wanted, self._make = wanted, make
        self._lock = threading.Lock()
        self._job: EngineJob | None = None
        self._is_killed = False

    def run(self, tell: TellProgress | None = None) -> ExportReport:
        """Export, leaving nothing behind on failure.

        Raises:
            OptionsError: The target isn't new or empty, or the repository's name is invalid.
            UserError: The model can't be exported so, the disk is full, or the export doesn't answer as the model does.
            EngineCrashed: The engine ended without an answer.
            JobCancelled: `kill` was called.
        """
        wanted, to_hub = self._wanted, self._wanted.kind is ExportKind.HUB
        source = find_source(RunFolder(Path(wanted.run)), wanted.checkpoint)
        kind = _written_kind(wanted, source)
        if to_hub:
            look = AccountRequest(action=AccountAction.LOOK)
            if self._ask("hub-account", look, Account, None).place is TokenPlace.NOWHERE:
                raise UserError(_("Sending to {host} needs a token").format(host=hub.host()), NO_TOKEN)
        target = _target(wanted)
        _check_disk(bytes_of(source, kind, wanted.numbers), target)
        staging = _make_staging(target)
        try:
            request = ExportRequest(
                run=str(Path(wanted.run).absolute()),
                kind=kind,
                staging=str(staging),
                target=str(target),
                repo=wanted.repo,
                numbers=wanted.numbers,
                checkpoint=wanted.checkpoint,
            )
            report = self._ask("export", request, ExportReport, tell)
            if to_hub:
                push = PushRequest(folder=str(staging), repo=wanted.repo, private=wanted.private)
                return msgspec.structs.replace(report, path=self._ask("export-push", push, Pushed, tell).url)
            try:
                if target.is_dir():
                    target.rmdir()  # an empty folder, which Windows doesn't replace
                staging.rename(target)
            except OSError as error:
                title = _("The export can't be moved to its folder")
                raise UserError(title, f"{target}: {error.strerror}") from error
            return msgspec.structs.replace(report, path=str(target))
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def kill(self) -> None:
        """End it at once, also before it has begun."""
        with self._lock:
            self._is_killed = True
            if self._job is not None:
                self._job.kill()

    def _ask(
        self, job: str, request: msgspec.Struct, kind: type[Answer], tell: TellProgress | None
    ) -> Answer:
        with self._lock:
            if self._is_killed:
                raise JobCancelled(job)
            self._job = self._make(job)
        return decoded(job, self._job.ask(msgspec.json.encode(request), tell=tell), kind)


def _written_kind(wanted: Wanted, source: ExportSource) -> ExportKind:
    """The kind that the engine writes; raises if it is refused."""
    kind = wanted.kind
    if wanted.kind is ExportKind.HUB:
        if not (hub.is_name(wanted.repo) and "/" in wanted.repo):
            message = _("name the repository as OWNER/NAME: letters, digits, “-”, “_” and “.”")
            raise OptionsError((Problem("repo", message),), _("The export"))
        kind = wanted.pushed or default_pushed(source)
    for each in dict.fromkeys((wanted.kind, kind)):
        if reason := refusal(source, each):
            title = _("{name} can't be exported as “{kind}”")
            raise UserError(title.format(name=source.run.name, kind=EXPORTS[each][0]), reason)
    if reason := numbers_refusal(kind, wanted.numbers):
        raise UserError(_("The weights can't be {numbers}").format(numbers=wanted.numbers), reason)
    base = base_name(source.folder)
    if wanted.kind is ExportKind.HUB and kind is ExportKind.ADAPTER and not is_on_hub(base):
        raise UserError(
            _("An adapter alone would be of no use on the Hub"),
            _("Its base model, {base}, is not there. Send the merged model.").format(base=base),
        )
    return kind


def _target(wanted: Wanted) -> Path:
    """The folder of the export; a temporary one for the Hub. Raises OptionsError if it isn't new or empty."""
    if wanted.kind is ExportKind.HUB:
        return settings.home() / "cache" / "exports" / wanted.repo.replace("/", "--")
    target = Path(wanted.folder).expanduser().absolute()
    is_free = not any(target.iterdir()) if target.is_dir() else not target.exists()
    if wanted.folder and is_free:
        return target
    message = _("{target} exists already; name a new folder") if wanted.folder else _("name a folder")
    raise OptionsError((Problem("", message.format(target=target)),), _("The export"))


def _check_disk(needed: int, target: Path) -> None:
    place = next(path for path in (target, *target.parents) if path.is_dir())
    free = shutil.disk_usage(place).free
    if free < needed:
        detail = _("The export takes about {needed}, and {free} are free at {place}.").format(
            needed=memory(needed), free=memory(free), place=place
        )
        raise UserError(_("Not enough space on the disk"), detail)


def _make_staging(target: Path) -> Path:
    """A new folder beside the target; those of processes that no longer exist are deleted."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for path in target.parent.glob(f".{glob.escape(target.name)}.*.{UNFINISHED}"):
            pid = path.name.split(".")[-2]
            if not (pid.isdecimal() and psutil.pid_exists(int(pid))):
                shutil.rmtree(path, ignore_errors=True)
        staging = target.with_name(f".{target.name}.{os.getpid()}.{UNFINISHED}")
        staging.mkdir()
    except OSError as error:
        title = _("The folder of the export can't be created")
        raise UserError(title, f"{error.filename}: {error.strerror}") from error
    return staging
