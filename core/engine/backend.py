"""Which engine trains a run, PyTorch's or MLX's, and why. Neither is imported before it is known to be possible."""

from core.base.errors import DeviceError, Fix
from core.base.language import _
from core.engine.devices.capabilities import automatic_backend, system_facts, why_no_mlx
from core.engine.environment import prepare_torchvision
from core.options import RunOptions
from core.options.backend_rules import needs_mlx, why_not_mlx
from core.options.choices import Backend
from core.runs.words import AS_ASKED


def choose(options: RunOptions) -> tuple[Backend, str]:
    """Returns the engine of a run, and the reason as in `ResolvedRun.reasons`.

    Call it in a prepared environment: if all else speaks for MLX, the model's config is loaded, by transformers.

    Raises:
        DeviceError: Only MLX could train this, and it can't: not here, not these options, or not this model.
        ModelError: The config can't be loaded.
    """
    if options.device.backend is Backend.TORCH:
        return Backend.TORCH, AS_ASKED
    facts = system_facts()
    kind = options.device.there.partition(":")[0]
    if kind == "auto":
        kind = "mps" if (facts.system, facts.machine) == ("Darwin", "arm64") else "cpu"
    automatic, must = automatic_backend(facts, kind), needs_mlx(options)
    reason = why_no_mlx(facts, kind)
    if automatic.value == Backend.TORCH and not must:
        reason = automatic.reason
    reason = reason or _why_not_this(options)
    if reason and must:
        fix = Fix(_("Use PyTorch"), {"device.backend": "torch", "model.quantization": "auto"})
        raise DeviceError(_("MLX can't train this run"), f"{reason[:1].upper()}{reason[1:]}.", (fix,))
    if reason:
        return Backend.TORCH, f"torch: {reason}"
    return Backend.MLX, AS_ASKED if must else f"mlx: {automatic.reason}"


def _why_not_this(options: RunOptions) -> str:
    """Returns why MLX can't train a run, wherever that is; empty if it can."""
    problem = next(why_not_mlx(options), None)
    if problem is not None:
        return problem.message
    prepare_torchvision()  # transformers needs it
    from core.engine.mlx.architectures import has_architecture
    from core.engine.models.text import load_config

    config = load_config(options)
    if has_architecture(config.to_dict()):
        return ""
    return _("the architecture {name} is not in mlx-lm").format(name=config.model_type)
