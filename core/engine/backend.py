"""Which engine trains a run, PyTorch's or MLX's, and why. Neither is imported before it is known to be possible."""

from core.base.errors import DeviceError, Fix, ModelError, Problem
from core.base.formats import capitalized, paragraph
from core.base.language import _
from core.engine.devices.capabilities import (
    SystemFacts,
    automatic_backend,
    missing_package,
    system_facts,
    why_no_mlx,
)
from core.engine.environment import prepare_torchvision
from core.engine.run.checkpoints import saved_by
from core.options import RunOptions
from core.options.backend_rules import USE_TORCH, only_with_mlx, why_not_mlx
from core.options.catalogue import options_by_path, with_changes
from core.options.choices import Backend, Method
from core.runs.models import Checkpoint
from core.runs.words import AS_ASKED


def choose(options: RunOptions) -> tuple[Backend, str]:
    """Returns the engine of a run, and the reason as in `ResolvedRun.reasons`.

    Call it in a prepared environment: if all else speaks for MLX, the model's config is loaded, by transformers.

    Raises:
        DeviceError: Only MLX could train this, and it can't: not here, or not these options.
        ModelError: Only MLX could train this, and it hasn't this model; or the config can't be loaded.
    """
    if options.device.backend is Backend.TORCH:
        return Backend.TORCH, AS_ASKED
    facts, kind = _facts_and_kind(options)
    automatic, must = automatic_backend(facts, kind), tuple(only_with_mlx(options))
    reason = why_no_mlx(facts, kind)
    if automatic.value == Backend.TORCH and not must:
        reason = automatic.reason
    reason = reason or next((problem.message for problem in why_not_mlx(options)), "")
    error = DeviceError if reason else ModelError
    reason = reason or _why_not_its_model(options)
    lacks = missing_package(facts, "bitsandbytes") if options.model.method is Method.QLORA else ""
    if reason and lacks and error is ModelError and not must:
        raise ModelError(
            _("QLoRA can't train this model here"),
            _("{reason}, and PyTorch {lacks}.").format(reason=capitalized(reason), lacks=lacks),
            (Fix(_("Train LoRA"), {"model.method": "lora"}),),
        )
    if reason and must:
        usual = {path: options_by_path()[path].default for path in must}
        fix = Fix(USE_TORCH.label, {**usual, **USE_TORCH.changes})
        raise error(_("MLX can't train this run"), paragraph(capitalized(reason)), (fix,))
    if reason:
        return Backend.TORCH, f"torch: {reason}"
    return Backend.MLX, AS_ASKED if must else f"mlx: {automatic.reason}"


def choose_again(options: RunOptions, checkpoint: Checkpoint) -> tuple[Backend, str]:
    """Returns the engine that resumes a run, and the reason as `choose` does: the one that saved the checkpoint.

    Raises:
        ModelError: The options name the other one, or it can't train here.
    """
    saved, name = saved_by(checkpoint), checkpoint.path.name
    asked = options.device.backend
    detail = _("{engine} saved it, and only {engine} can resume it. It was left as it is.")
    detail = detail.format(engine=saved.label)
    if asked not in (Backend.AUTO, saved):
        raise ModelError(
            _("{name} can't be resumed with {engine}").format(name=name, engine=asked.label),
            detail,
            (Fix(_('Write backend = "{engine}" in run.toml, and resume').format(engine=saved.value)),),
        )
    try:
        backend, why = choose(with_changes(options, {"device.backend": saved}))
    except DeviceError as error:
        elsewhere = Fix(_("Resume it on the computer where it was saved"))
        title = _("{name} can't be resumed here").format(name=name)
        raise ModelError(title, paragraph(detail, error.detail), (elsewhere,)) from error
    return backend, why if asked is saved else f"{saved.value}: " + _("it saved the checkpoint")


def model_problems(options: RunOptions) -> tuple[Problem, ...]:
    """Returns why the engine of a run can't train its model, by its config alone."""
    from core.engine.models.refusals import check_quantized
    from core.engine.models.text import load_config

    try:
        backend = choose(options)[0]
        if options.task.writes_text and not options.starts_random:
            check_quantized(options.model.source, load_config(options), backend, options.model.method)
    except DeviceError:
        return ()  # for any model: the checks of the options and of the computer say so
    except ModelError as refused:
        return (Problem("model.source", paragraph(refused.title, refused.detail), refused.fixes),)
    return ()


def why_not_mlx_here(options: RunOptions) -> str:
    """Returns why MLX can't train the model of a run, whichever engine it names; empty if MLX isn't here at all.

    Raises:
        ModelError: The config can't be loaded.
    """
    is_here = options.task.writes_text and not why_no_mlx(*_facts_and_kind(options))
    return _why_not_its_model(options) if is_here else ""


def _facts_and_kind(options: RunOptions) -> tuple[SystemFacts, str]:
    """Returns the facts about this computer, and the kind of device that a run with MLX would use."""
    facts, kind = system_facts(), options.device.there.partition(":")[0]
    if kind == "auto":
        kind = "mps" if (facts.system, facts.machine) == ("Darwin", "arm64") else "cpu"
    return facts, kind


def _why_not_its_model(options: RunOptions) -> str:
    """Returns why mlx-lm can't train this model as it is; empty if it can."""
    prepare_torchvision()  # transformers needs it
    from core.engine.mlx.trainable import why_not

    return why_not(options)
