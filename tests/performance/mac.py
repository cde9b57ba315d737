"""What a Mac with Apple silicon shows, in parts that together take 35 minutes: `python3 start.py bench --mac`.

    python -m tests.performance.mac PART [--device cpu] [--minutes 5]

`--device cpu` tries every part with tiny models and MLX on the CPU, as `tests.performance.gpu` does without a card.
"""

import os
import statistics
import time
from collections.abc import Callable
from functools import partial

from core.benchmark.figures import read_result
from core.benchmark.methods import methods_plan
from core.benchmark.plan import Measured, create
from core.engine.devices.capabilities import MLX_ON_CPU
from core.runs.event_log import EventReader
from core.runs.events import Action, MemoryForecast, RunFinished, StepFinished
from tests.performance import forecast
from tests.performance.faults.training import Attended, new_run
from tests.performance.figures import Figure, at_least, at_most, figure, main, progress
from tests.performance.gpu import (
    MIB,
    Part,
    add_part,
    checked,
    left_out,
    marked,
    measure,
    resumed,
    trained,
)

HEAT_SECONDS = 600.0
DRY_STEPS = 20


def writes(part: Part, size: str, rows: int, length: int, batch: int) -> forecast.Changes:
    """Options of a Llama of `forecast.CONFIGS` with random weights that writes random tokens; small in the dry run."""
    if part.is_dry:
        size, rows, length, batch = "llama", 64, 32, 2
    source = forecast.model(part.folder, size, "CausalLM")
    return {**forecast.text(source, rows, length, batch), "task": "causal-lm"}


def on_mlx(*more: forecast.Changes) -> forecast.Changes:
    return {"device.backend": "mlx", **{path: value for changes in more for path, value in changes.items()}}


def tests(part: Part) -> list[Figure]:
    return marked(part, "mac", "tests/core/engine/mlx")


def check(part: Part) -> list[Figure]:
    """The device check in full."""
    return checked(part, short=False)


# --- MLX against PyTorch


def ladder(part: Part) -> list[Figure]:
    """A Llama of 1B parameters by each engine: the rows of MLX, and those of PyTorch that they are compared with."""
    asked = forecast.options_of(writes(part, "llama-1b", 512, 512, 2), part.device.name)
    steps = 1 if part.is_dry else 12
    plan = methods_plan(part.machine, options=asked, device=part.device.name, steps=steps, with_compile=False)
    compared = [name for name in plan.options if name.endswith(("-sdpa", "-lora")) or name.startswith("mlx")]
    measured = create(plan, part.folder / "ladder")
    done = {}
    for name in compared:
        if not part.is_over:
            progress(f"{name} ...")
            done[name] = trained(measured.runs[name])
    rows = {row.row.name: row for row in read_result(Measured(measured.benchmark, done)).rows}
    peers = {"mlx": "-sdpa", "mlx-lora": "-lora", "mlx-qlora": "-lora"}
    figures = []
    for name in compared:
        row, title, ending = rows[name], rows[name].row.full_title, peers.get(name)
        if not row.samples_per_second or not row.peak:
            figures.append(left_out(title, row.problem))
            continue
        other = next(
            (rows[peer] for peer in compared if ending and peer.endswith(ending) and peer not in peers), None
        )
        speed = other.samples_per_second if other else None
        figures += [
            figure(
                f"{title}: speed", row.samples_per_second.median, "samples/s", peer=speed and speed.median
            ),
            figure(f"{title}: memory", row.peak / MIB, "MiB", peer=other and other.peak and other.peak / MIB),
        ]
    return figures


# --- The forecast of memory


RECOMPUTED, LORA, QLORA = forecast.RECOMPUTED, forecast.LORA, forecast.QLORA
EIGHT_BITS: forecast.Changes = {**QLORA, "model.quantization": "affine8"}
FORECASTS: dict[str, tuple[str, int, int, forecast.Changes]] = {
    "all weights, 4 x 256": ("llama", 256, 4, {}),
    "all weights, 16 x 256, recomputed": ("llama", 256, 16, RECOMPUTED),
    "all weights, bf16, 8 x 512": ("llama", 512, 8, forecast.BF16),
    "all weights, Adafactor": ("llama", 256, 8, {"training.optimizer": "adafactor"}),
    "all weights, SGD, accumulated": ("llama", 256, 4, {"training.optimizer": "sgd", **forecast.ACCUMULATED}),
    "LoRA, fp32": ("llama", 512, 8, LORA),
    "1B, LoRA, bf16, 2 x 512": ("llama-1b", 512, 2, {**LORA, **forecast.BF16}),
    "1B, LoRA, bf16, recomputed": ("llama-1b", 512, 4, {**LORA, **forecast.BF16, **RECOMPUTED}),
    "1B, LoRA 32, bf16": ("llama-1b", 256, 2, {**LORA, **forecast.RANK_32, **forecast.BF16}),
    "1B, QLoRA 4 bits": ("llama-1b", 512, 2, {**QLORA, **forecast.BF16}),
    "1B, QLoRA 4 bits, recomputed": ("llama-1b", 1024, 2, {**QLORA, **forecast.BF16, **RECOMPUTED}),
    "1B, QLoRA 8 bits": ("llama-1b", 512, 2, {**EIGHT_BITS, **forecast.BF16}),
}
"""Size of the Llama, tokens, rows of a batch and changes, by name; in the dry run one of each kind."""
IN_DRY_RUN = ("all weights, 4 x 256", "1B, QLoRA 4 bits")


def arrays_of(forecast_made: MemoryForecast) -> int:
    """The bytes of a forecast without libraries, as MLX counts its peak."""
    return forecast_made.parts.total - forecast_made.parts.overhead


def forecasts(part: Part) -> list[Figure]:
    """Forecast and peak of each run, as the run itself reports them."""
    figures, errors = [], []
    for name, (size, length, batch, changes) in FORECASTS.items():
        if part.is_dry and name not in IN_DRY_RUN:
            continue
        if part.is_over:
            figures.append(left_out(name, ""))
            continue
        asked = on_mlx(writes(part, size, 64, length, batch), changes)
        options = forecast.options_of(asked, part.device.name)
        run = trained(new_run(options, part.folder / f"forecast-{len(figures)}"))
        events = EventReader(run.events_file).read_all()
        foretold = next((arrays_of(event) for event in events if isinstance(event, MemoryForecast)), 0)
        ends = [event for event in events if isinstance(event, RunFinished)]
        peak = (ends[-1].peak_device_bytes or ends[-1].peak_bytes) if ends else None
        if not (foretold and peak):
            figures.append(left_out(name, "it has no forecast or no peak"))
            continue
        errors.append(100 * abs(foretold - peak) / peak)
        figures.append(figure(f"{name}: forecast, against the peak", foretold / MIB, "MiB", peer=peak / MIB))
    middle = statistics.median(errors or [100.0])
    return [
        *figures,
        figure("median error", middle, "%", goal=None if part.is_dry else at_most(5)),
        figure("worst error", max(errors, default=100.0), "%", goal=None if part.is_dry else at_most(15)),
    ]


def resume(part: Part) -> list[Figure]:
    return resumed(part, on_mlx(writes(part, "llama", 128, 128, 4), LORA))


# --- Heat


def heat(part: Part) -> list[Figure]:
    """Steps a minute in the first and in the last tenth of ten minutes: a hot chip lowers its clock."""
    asked = on_mlx(writes(part, "llama", 4096, 256, 8), forecast.BF16)
    steps = DRY_STEPS if part.is_dry else 10**6
    attended = Attended(new_run(forecast.options_of(asked, part.device.name, steps), part.folder / "heat"))
    end = time.monotonic() + HEAT_SECONDS
    try:
        attended.until(lambda: time.monotonic() > end, HEAT_SECONDS)
        attended.run.request(Action.STOP)
        attended.until_over()
    finally:
        attended.end()
    events = EventReader(attended.run.events_file).read_all()
    times = [event.time for event in events if isinstance(event, StepFinished)]
    first, last = paces(times)
    slower = None if part.is_dry else at_least(1)
    return [
        figure("steps", len(times), goal=slower),
        figure("steps a minute at the end, against the beginning", last, peer=first),
    ]


def paces(times: list[float]) -> tuple[float, float]:
    """Steps a minute in the first and in the last tenth of the time between the first and the last of `times`."""
    if len(times) < DRY_STEPS:
        return 0.0, 0.0
    tenth = (times[-1] - times[0]) / 10
    first = sum(times[0] < each <= times[0] + tenth for each in times)
    last = sum(each > times[-1] - tenth for each in times)
    return 60 * first / tenth, 60 * last / tenth


PARTS: dict[str, Callable[[Part], list[Figure]]] = {
    "tests": tests,
    "check": check,
    "ladder": ladder,
    "forecast": forecasts,
    "resume": resume,
    "heat": heat,
}


if __name__ == "__main__":
    os.environ[MLX_ON_CPU] = "1"  # for `--device cpu`
    defaults = {"device": "mps", "minutes": 5.0}
    main(__doc__, partial(measure, PARTS), defaults, partial(add_part, PARTS))
