"""The engine's job `export`: write a model and its README.md, then compare it with the trained model.

The README's front matter follows https://huggingface.co/docs/hub/model-cards. Of paths it has only that of the export;
the person's own prompts are left out.
"""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import msgspec
import torch

from core.base import formats
from core.base.errors import ModelError
from core.base.formats import METRIC_TITLES
from core.base.language import _
from core.base.settings import VERSION
from core.engine.data.image_files import LARGE_PIXELS, are_light
from core.engine.environment import TORCHVISION
from core.engine.export import verify
from core.engine.export.formats import write_adapter, write_folder, write_ollama
from core.engine.export.gguf_files import write_gguf
from core.engine.export.graphs import write_coreml, write_onnx
from core.engine.generate.loading import example_images
from core.engine.models.refusals import auto_class
from core.engine.models.vision import read_recipe
from core.jobs.export import ExportAgreement, ExportKind, ExportReport, ExportRequest, agreement_text
from core.options import RunOptions, hub
from core.options.catalogue import all_options, value_of, with_unit
from core.options.choices import Task
from core.options.method_rules import starting_options
from core.options.past_runs import run_folder
from core.options.sources import Scheme, hub_data, is_scratch, short_name
from core.runs.event_log import EventReader
from core.runs.events import Evaluated
from core.runs.export_source import ExportSource, base_name, find_source, is_on_hub
from core.runs.folder import RunFolder
from core.runs.library import read_status
from core.runs.models import step_of
from core.runs.notes import MOST_GENERATIONS, data_name, short_title, title_of
from core.runs.status import RunStatus
from core.runs.words import statements

# --- The README.md


TEMPLATE = Path(__file__).resolve().parents[3] / "resources" / "model_card.md.jinja"

PURPOSES = {
    Task.TEXT_CLASSIFICATION: "text-classification",
    Task.TEXT_REGRESSION: "text-classification",
    Task.TOKEN_CLASSIFICATION: "token-classification",
    Task.CAUSAL_LM: "text-generation",
    Task.CHAT: "text-generation",
    Task.PREFERENCE: "text-generation",
    Task.IMAGE_CLASSIFICATION: "image-classification",
}
"""The Hub's name of each task (`pipeline_tag`)."""

LIBRARIES = {ExportKind.ADAPTER: "peft", ExportKind.ONNX: "onnx", ExportKind.COREML: "coreml"}
"""The Hub's names of libraries other than that of the model (`library_name`)."""

FROM_QUANTIZED = _(
    "It was trained beside quantized weights, and is compared beside weights that are not quantized: its answers "
    "differ slightly from those during training."
)

NOT_SHOWN = ("output.", "data.text_columns", "model.source", "data.train", "task")
"""Options that don't affect the model, or are shown elsewhere."""


def write_card(
    source: ExportSource, report: ExportReport, into: Path, repo: str, metadata: Mapping[str, str]
) -> str:
    """Writes README.md into an export, which goes to the Hub as `repo` if that isn't empty; returns its Python code.

    `metadata` are those in the file of the model, see `Written`.
    """
    status, options, task = read_status(source.run), source.options, source.options.task
    base = "base" if (into / "base").is_dir() else base_name(source.folder) if source.is_adapter else ""
    not_shown = NOT_SHOWN if options.training.max_steps is None else (*NOT_SHOWN, "training.epochs")
    changed = [
        (option, value_of(options, option.path)) for option in all_options() if option.acts_in(options)
    ]
    measured, results = _results(source, status)
    usual, (folder_import, folder) = starting_options(task), _folder_in_code(report.path, repo)
    pair = ', "A second text."' if len(options.data.text_columns) > 1 else ""
    runs, is_model = _lineage(source), source.folder == source.run.model
    recipe = read_recipe(source.folder) if task.reads_images else None
    check = f"It was not compared with the trained model. {report.unchecked}"
    if report.agreement is not None:
        check = f"Compared with the trained model: {agreement_text(report.agreement)} {report.agreement.why}"
    if report.kind in (ExportKind.MERGED, ExportKind.MLX):
        check = " ".join((check, *(note for note in report.notes if note != source.checkpoint_text)))
    values: dict[str, Any] = {
        "head": _front_matter(source, report.kind, status, [run for _title, run in runs]),
        "title": runs[0][0],
        "task": task,
        "preference": source.options.preference,
        "runs": runs,
        "steps": status.step if is_model else step_of(source.folder),
        "plan": status.plan,
        "finished": status.finished if is_model else None,
        "data_of": lambda run: _code(data_name(run.data.train)),
        "model_of": lambda run: "" if is_scratch(run.model.source) else _code(short_title(run.model.source)),
        "version": VERSION,
        "checkpoint_text": source.checkpoint_text,
        "kind": report.kind.value,
        "network": source.network,
        "network_name": Scheme.TORCHVISION.name_of(recipe.architecture) if recipe else "",
        "is_lost": bool(source.network and report.kind is ExportKind.ADAPTER and options.starts_random),
        "name": source.run.name,
        "model": auto_class(task).__name__ if not source.network else "",
        "base": base,
        "base_in_code": 'f"{folder}/base"' if (into / "base").is_dir() else json.dumps(base),
        "config": "folder" if (into / "config.json").is_file() else "base",
        "folder": folder,
        "folder_import": folder_import,
        "text": f'"A text."{pair}',
        "length": options.data.max_length,
        "recipe": recipe,
        "large": LARGE_PIXELS,
        "torchvision": TORCHVISION,
        "metadata": metadata,
        "light": are_light(example_images(source.run)) if task.reads_images else None,
        "measured": measured,
        "results": results,
        "changed": [  # paths without their folder on this computer
            (option.title, short_name(str(value)) if option.is_path else with_unit(option, value))
            for option, value in changed
            if not option.path.startswith(not_shown) and value != value_of(usual, option.path)
        ],
        "ran": [(one.title, one.value) for one in statements(status.what_ran, status.versions)],
        "check": check,
        "licence": _licence(runs[-1][1]),
        "cell": lambda text: text.replace("|", "\\|").replace("\n", " "),
    }
    loader = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    card = loader.from_string(TEMPLATE.read_text(encoding="utf-8")).render(values)
    card = re.sub(r"\n{3,}", "\n\n", card)
    (into / "README.md").write_text(card, encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", card, re.DOTALL)
    return code[1] if code else ""


def _lineage(source: ExportSource) -> list[tuple[str, RunOptions]]:
    """Returns titles and options of this run and of those whose models it started from, while they are readable."""
    found = [(title_of(source.run.path, source.options), source.options)]
    while len(found) <= MOST_GENERATIONS and (folder := run_folder(found[-1][1].model.source)) is not None:
        if (options := RunFolder(folder).readable_options()) is None:
            break
        found.append((short_title(found[-1][1].model.source), options))
    return found


def _folder_in_code(path: str, repo: str) -> tuple[str, str]:
    """Returns an import, and an expression with it for the folder of an export, from wherever the code runs."""
    if repo:
        return "from huggingface_hub import snapshot_download", f"snapshot_download({json.dumps(repo)})"
    target = Path(path)
    if target.is_relative_to(Path.home()):  # without the person's name
        inside = json.dumps(f"~/{target.relative_to(Path.home()).as_posix()}", ensure_ascii=False)
        return "from pathlib import Path", f"Path({inside}).expanduser()"
    return "from pathlib import Path", f"Path({json.dumps(path, ensure_ascii=False)})"


def _front_matter(
    source: ExportSource, kind: ExportKind, status: RunStatus, runs: list[RunOptions]
) -> dict[str, str]:
    """Returns YAML values by name, written as JSON, which is a part of YAML."""
    base = base_name(source.folder) if source.is_adapter else runs[-1].model.source
    if not is_on_hub(base) or Path(base).exists():
        base = ""
    library = "mlx" if kind.needs_mlx else LIBRARIES.get(kind)
    data = [hub_data(name)[0] for run in runs if (name := Scheme.HUB.name_of(run.data.train))]
    values: dict[str, Any] = {
        "library_name": library or source.network or "transformers",
        "pipeline_tag": PURPOSES[source.options.task],
        "tags": ["hone", *(["lora"] if source.is_adapter else [])],
        "base_model": base or None,
        "base_model_relation": ("adapter" if kind.is_adapter else "finetune") if base else None,
        "datasets": data or None,
        "metrics": [name.removeprefix("eval_") for name in status.metrics if name in METRIC_TITLES] or None,
        "license": _licence(runs[-1]) or None,
    }
    return {
        name: json.dumps(value, ensure_ascii=False) for name, value in values.items() if value is not None
    }


def _results(source: ExportSource, status: RunStatus) -> tuple[str, list[tuple[str, str]]]:
    """Returns how this very model was measured, and its metrics; none for a checkpoint that wasn't evaluated."""
    is_model = source.folder == source.run.model
    step = (status.evaluated_at or status.step) if is_model else step_of(source.folder)
    metrics = status.metrics
    if not is_model:
        events = EventReader(source.run.events_file).read_all()
        at_step = [event for event in events if isinstance(event, Evaluated) and event.step == step]
        metrics = dict(at_step[-1].metrics) if at_step else {}
    rows = [
        (METRIC_TITLES[name], formats.metric(name, value).removeprefix(METRIC_TITLES[name]).strip())
        for name, value in metrics.items()
        if name in METRIC_TITLES and value is not None
    ]
    examples = f" on {status.plan.eval_samples:,} validation examples" if status.plan else ""
    is_best = is_model and source.options.keeps_best  # measured at its own step, not at the last
    return f"Measured{examples}{'' if is_best else f', after step {step:,}'}.", rows


def _code(text: str) -> str:
    return f"`{text.replace('`', '')}`"


def _licence(first: RunOptions) -> str:
    """Returns the licence in the card of the model that the first run started from; empty if it isn't here."""
    name = first.model.source
    base = (
        hub.snapshot(name, hub.RepoKind.MODEL)
        if hub.is_name(name) and not Path(name).is_dir()
        else Path(name)
    )
    try:
        head = (base / "README.md").read_text(encoding="utf-8").split("\n---", 1)[0] if base else ""
    except (OSError, ValueError):
        return ""
    lines = head.splitlines() if head.startswith("---") else []
    found = next((line.partition(":")[2].strip() for line in lines if line.startswith("license:")), "")
    return found if found.replace("-", "").replace(".", "").isalnum() else ""


# --- The job


Writer = Callable[[ExportSource, verify.ExportTarget, verify.Tell], verify.Written]
Unpack = Callable[[ExportSource, Path, verify.Tell], ExportSource]
"""Writes the plain weights of a base model that is quantized for MLX into a new folder, and returns the source with it;
other sources as they are."""

WRITERS: Mapping[ExportKind, Writer] = {
    ExportKind.FOLDER: write_folder,
    ExportKind.ADAPTER: write_adapter,
    ExportKind.MERGED: write_folder,
    ExportKind.OLLAMA: write_ollama,
    ExportKind.GGUF: write_gguf,
    ExportKind.ONNX: write_onnx,
    ExportKind.COREML: write_coreml,
}


class NotTheSame(ModelError):  # noqa: N818 - said as the person sees it
    """An exported model differs from the trained one, and is deleted."""


def export(
    request: ExportRequest,
    tell: verify.Tell,
    writers: Mapping[ExportKind, Writer] = WRITERS,
    unpack: Unpack = lambda source, _into, _tell: source,
) -> ExportReport:
    """Writes the export into `request.staging` by one of `writers`, and checks it there.

    The two models are in memory one after the other, in fp32 on the CPU: a run that trains keeps its GPU.

    Raises:
        UserError: The model can't be read or exported.
        NotTheSame: The export's answers differ from the trained model's.
    """
    into = Path(request.staging)
    plain = into / "plain"
    source = unpack(find_source(RunFolder(Path(request.run)), request.checkpoint), plain, tell)
    written = writers[request.kind](
        source, verify.ExportTarget(into, Path(request.target), request.numbers), tell
    )
    agreement, unchecked = _check(source, written, tell)
    shutil.rmtree(plain, ignore_errors=True)
    if agreement is not None and not agreement.holds:
        detail = _("{agreement} The export was deleted. Please report this bug of Hone or a library.")
        raise NotTheSame(
            _("The exported model differs from the trained one"),
            detail.format(agreement=agreement_text(agreement)),
        )
    packed = FROM_QUANTIZED if source.is_packed else ""
    report = ExportReport(
        kind=request.kind,
        path=request.target,
        files=(),
        size=0,
        agreement=agreement,
        unchecked=unchecked,
        notes=tuple(filter(None, (source.checkpoint_text, *written.notes, packed))),
    )
    code = write_card(source, report, into, request.repo, written.metadata)
    files = sorted(path for path in into.rglob("*") if path.is_file())
    mode = (into / "README.md").stat().st_mode & 0o777
    for path in files:
        path.chmod(mode)  # safetensors writes files that only their owner may read
    return msgspec.structs.replace(
        report,
        code=code or written.code,
        files=tuple(path.relative_to(into).as_posix() for path in files),
        size=sum(path.stat().st_size for path in files),
    )


def _check(
    source: ExportSource, written: verify.Written, tell: verify.Tell
) -> tuple[ExportAgreement | None, str]:
    """Returns the comparison with the trained model, or why there is none."""
    tell(_("Running the trained model"))
    rows = verify.find_rows(source)
    model = verify.load_trained(source)
    if source.options.task.writes_text:
        rows = verify.continued(rows, model)
    before = verify.answers(model, rows)
    del model  # before the other is loaded
    tell(_("Running the exported model"))
    try:
        with torch.no_grad():
            return written.check(rows, before), ""
    except verify.NotChecked as error:
        return None, str(error)
