"""Which engine trains a run, PyTorch's or MLX's, and why. Neither is imported before it is known to be possible."""

from collections.abc import Iterator

from core.base.errors import DeviceError, Fix
from core.base.language import _
from core.engine.devices.capabilities import SystemFacts, automatic_backend, system_facts, why_no_mlx
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
    reason = next(_why_not_mlx(options, facts, kind), "")
    if not needs_mlx(options):
        automatic = automatic_backend(facts, kind)
        return (Backend.TORCH, f"torch: {reason}") if reason else (Backend.MLX, f"mlx: {automatic.reason}")
    if reason:
        fix = Fix(_("Use PyTorch"), {"device.backend": "torch", "model.quantization": "auto"})
        raise DeviceError(_("MLX can't train this run"), f"{reason[:1].upper()}{reason[1:]}.", (fix,))
    return Backend.MLX, AS_ASKED


def _why_not_mlx(options: RunOptions, facts: SystemFacts, kind: str) -> Iterator[str]:
    """Yields reasons against MLX, the cheapest to find first."""
    automatic = automatic_backend(facts, kind)
    if needs_mlx(options):
        yield from filter(None, (why_no_mlx(facts, kind),))
    elif automatic.value != Backend.MLX:
        yield automatic.reason
    yield from (problem.message for problem in why_not_mlx(options))
    from core.engine.mlx.architectures import has_architecture
    from core.engine.models.text import load_config

    config = load_config(options)
    if not has_architecture(config.to_dict()):
        yield _("the architecture {name} is not in mlx-lm").format(name=config.model_type)
