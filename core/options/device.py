"""Options of the device: where and in which number format it is computed."""

from typing import Annotated

from core.choices import Precision
from core.options.declaring import Section, about


class DeviceOptions(Section, frozen=True, kw_only=True):
    """Where it is computed."""

    name: Annotated[
        str,
        about(
            "Device", "`auto` takes CUDA, then Apple's MPS, then the CPU. Or `cuda`, `cuda:1`, `mps`, `cpu`."
        ),
    ] = "auto"
    precision: Annotated[
        Precision,
        about("Precision", "Number format of the computation. Fewer bits: less memory, usually faster."),
    ] = Precision.AUTO
    mps_fallback: Annotated[
        bool,
        about(
            "CPU for missing operators",
            "On a Mac, compute operators that MPS lacks on the CPU instead of ending the run "
            "(PYTORCH_ENABLE_MPS_FALLBACK).",
            advanced=True,
            group="Apple GPU",
        ),
    ] = True
    mps_memory_limit: Annotated[
        float,
        about(
            "Memory ceiling",
            "On a Mac, how much the run may take, as a multiple of what macOS recommends for the GPU "
            "(PYTORCH_MPS_HIGH_WATERMARK_RATIO). 0: no ceiling, which can bring the whole Mac to a halt.",
            advanced=True,
            group="Apple GPU",
            ge=0.0,
            le=2.0,  # torch 2.13 refuses more
        ),
    ] = 1.7
    threads: Annotated[
        int | None,
        about(
            "CPU threads",
            "Threads that compute on the CPU. Empty: one for each core.",
            unit="threads",
            advanced=True,
            group="Processor",
            ge=1,
            le=1024,
        ),
    ] = None
    processes: Annotated[
        int,
        about(
            "Processes",
            "Processes that train one model together. Hone trains in one.",
            advanced=True,
            group="Processor",
            aliases=("num_processes", "nproc_per_node"),
            ge=1,
            le=64,
        ),
    ] = 1
    compile: Annotated[
        bool,
        about(
            "Compile",
            "Translate the model for this device first (torch.compile). It takes a minute or more, and each step is "
            "faster after it.",
            advanced=True,
            group="Compiler",
            aliases=("torch_compile",),
        ),
    ] = False
    compile_backend: Annotated[
        str,
        about(
            "Compiler",
            "The back end torch.compile uses, of those this PyTorch lists.",
            advanced=True,
            group="Compiler",
            needs={"device.compile": (True,)},
            aliases=("torch_compile_backend",),
        ),
    ] = "inductor"
    compile_mode: Annotated[
        str,
        about(
            "Compiler's mode",
            "How hard the back end inductor tries, of the modes this PyTorch lists.",
            advanced=True,
            group="Compiler",
            needs={"device.compile": (True,), "device.compile_backend": ("inductor",)},
            aliases=("torch_compile_mode",),
        ),
    ] = "default"
