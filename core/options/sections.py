"""Options of training: how long, how fast and by which optimizer the model learns."""

from typing import Annotated

from core.options.choices import (
    Attention,
    DeepSpeed,
    Method,
    Offload,
    Optimizer,
    Precision,
    Quantization,
    Schedule,
)
from core.options.declare import (
    FOR_PREFERENCE,
    FOR_TEXT,
    FOR_WRITING,
    WITH_BETAS,
    WITH_DEEP_GRADIENTS,
    WITH_LORA,
    Section,
    about,
)

# --- Options of the device: where and in which number format it is computed


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


# --- Options of memory: how much of the work is held at once, and where


class MemoryOptions(Section, frozen=True, kw_only=True):
    """How much of the model's work is held at once."""

    batch_size: Annotated[
        int,
        about(
            "Batch size",
            "Samples computed together. The first thing to lower when memory runs out.",
            aliases=("per_device_train_batch_size",),
            ge=1,
            le=65_536,
        ),
    ] = 16
    gradient_accumulation_steps: Annotated[
        int,
        about(
            "Gradient accumulation",
            "Batches added up before the weights move: the effect of a larger batch in the memory of a small one.",
            unit="batches",
            ge=1,
            le=65_536,
        ),
    ] = 1
    activation_checkpointing: Annotated[
        bool,
        about(
            "Activation checkpointing",
            "Forget what the layers computed and compute it again for the gradients: far less memory, about a quarter "
            "more time.",
            needs=WITH_DEEP_GRADIENTS,
            aliases=("gradient_checkpointing",),
        ),
    ] = False
    deepspeed: Annotated[
        DeepSpeed,
        about(
            "DeepSpeed",
            "For a model that doesn't fit on one GPU. It fits comfortably: leave it off. It doesn't: ZeRO-2, then "
            "ZeRO-3, with offload.",
            advanced=True,
            group="Large models",
        ),
    ] = DeepSpeed.OFF
    offload: Annotated[
        Offload,
        about(
            "Offload to",
            "Where ZeRO puts what the device doesn't need at the moment.",
            advanced=True,
            group="Large models",
            needs={"memory.deepspeed": (DeepSpeed.ZERO_2, DeepSpeed.ZERO_3)},
        ),
    ] = Offload.CPU
    offload_folder: Annotated[
        str | None,
        about(
            "Offload folder",
            "A folder on a fast disk with room for the optimizer state: 16 bytes a weight.",
            advanced=True,
            group="Large models",
            needs={"memory.offload": (Offload.NVME,)},
            path=True,
        ),
    ] = None
    offload_optimizer: Annotated[
        bool,
        about(
            "Optimizer in main memory",
            "Keep AdamW's state in the computer's memory and update there (torchao): less GPU memory, slower steps.",
            advanced=True,
            group="Large models",
        ),
    ] = False


# --- Options of the model: which one, and which of its weights move


class ModelOptions(Section, frozen=True, kw_only=True):
    """Which model is trained."""

    source: Annotated[
        str,
        about(
            "Start from",
            "A folder with a model in it, an id on the Hugging Face Hub such as `bert-base-cased`, a vision model as "
            "`torchvision:resnet18`, the model of a past run as `run:NAME`, or a small one from scratch as "
            "`scratch:llama-small`.",
            path=True,
        ),
    ] = ""
    pretrained: Annotated[
        bool,
        about(
            "Pretrained weights",
            "Start from what the model has already learned. Off: the same architecture with random weights, "
            "which needs far more data.",
            of_scratch=False,
        ),
    ] = True
    vocabulary: Annotated[
        int,
        about(
            "Vocabulary",
            "How many tokens the tokenizer of a model from scratch has. It is trained on the data: byte-level BPE.",
            unit="tokens",
            advanced=True,
            group="From scratch",
            needs=FOR_TEXT,
            of_scratch=True,
            ge=300,
            le=65536,
        ),
    ] = 1024
    method: Annotated[
        Method,
        about(
            "Train",
            "Which weights move. LoRA trains small matrices beside a frozen model, in a fraction of the memory.",
        ),
    ] = Method.FULL
    quantization: Annotated[
        Quantization,
        about(
            "Packed as", "What the frozen weights are packed into.", needs={"model.method": (Method.QLORA,)}
        ),
    ] = Quantization.NF4
    lora_rank: Annotated[
        int,
        about(
            "LoRA rank",
            "Width of the matrices that learn: 8 to 64. More can learn more, and takes more memory.",
            advanced=True,
            group="LoRA",
            needs=WITH_LORA,
            aliases=("lora_r",),
            ge=1,
            le=4096,
        ),
    ] = 16
    lora_alpha: Annotated[
        float,
        about(
            "LoRA alpha",
            "What they add is multiplied by alpha divided by the rank; twice the rank is a good start.",
            advanced=True,
            group="LoRA",
            needs=WITH_LORA,
            gt=0.0,
            le=65_536.0,
        ),
    ] = 32.0
    lora_dropout: Annotated[
        float,
        about(
            "LoRA dropout",
            "Share of their inputs left out at random, against learning by heart.",
            advanced=True,
            group="LoRA",
            needs=WITH_LORA,
            ge=0.0,
            le=0.9,
        ),
    ] = 0.05
    lora_targets: Annotated[
        tuple[str, ...],
        about(
            "LoRA targets",
            "Layers that get them, by the end of their names, such as `query, value`. Empty: all linear layers (and "
            "convolutions of a vision model) but the last.",
            advanced=True,
            group="LoRA",
            needs=WITH_LORA,
            aliases=("target_modules",),
        ),
    ] = ()
    attention: Annotated[
        Attention,
        about(
            "Attention",
            "How attention is computed. The results agree; time and memory differ.",
            advanced=True,
            group="Computation",
            needs=FOR_TEXT,
            aliases=("attn_implementation",),
        ),
    ] = Attention.SDPA


# --- Options of what is kept


class OutputOptions(Section, frozen=True, kw_only=True):
    """What is kept."""

    name: Annotated[
        str | None, about("Name", "What the run is called in the list. Empty: made from model and data.")
    ] = None
    keep_checkpoints: Annotated[
        int,
        about(
            "Keep checkpoints",
            "Newest checkpoints kept, from which a run can go on. 0: one is saved only where the run is stopped or "
            "paused, and a finished run can't be made longer. The trained model is saved in any case.",
            advanced=True,
            group="Checkpoints",
            ge=0,
            le=1000,
        ),
    ] = 1
    save_steps: Annotated[
        int,
        about(
            "Save every",
            "A checkpoint is saved after so many steps, and at the end. 0: after each epoch.",
            unit="steps",
            advanced=True,
            group="Checkpoints",
            ge=0,
            le=10_000_000,
        ),
    ] = 0
    keep_best: Annotated[
        bool,
        about(
            "Keep the best",
            "The trained model is the one that was best at an evaluation, not the last: its checkpoint is kept as "
            "well. Judged by the first of accuracy, F1, Pearson, perplexity and loss that the task has. It needs data "
            "to evaluate on.",
            advanced=True,
            group="Checkpoints",
        ),
    ] = False
    predictions: Annotated[
        int,
        about(
            "Examples to watch",
            "Held-out examples, chosen by seed, whose predictions are kept at every evaluation, so that one sees the "
            "model learn. 0: none.",
            unit="examples",
            advanced=True,
            group="Predictions",
            ge=0,
            le=256,
        ),
    ] = 16
    prompts: Annotated[
        tuple[str, ...],
        about(
            "Own prompts",
            "Texts of your own that the model goes on from, or answers, at every evaluation.",
            advanced=True,
            group="Predictions",
            needs=FOR_WRITING,
        ),
    ] = ()
    tensorboard: Annotated[
        bool,
        about(
            "TensorBoard files",
            "Write the figures of each step and evaluation for TensorBoard, too, into the run's folder `tensorboard`.",
            advanced=True,
            group="Also write",
        ),
    ] = False


# --- Options of training: how long, how fast and by which optimizer the model learns


class TrainingOptions(Section, frozen=True, kw_only=True):
    """How it learns."""

    epochs: Annotated[
        float,
        about(
            "Epochs",
            "Passes over the training data.",
            unit="epochs",
            aliases=("num_train_epochs",),
            gt=0.0,
            le=100_000.0,
        ),
    ] = 3.0
    max_steps: Annotated[
        int | None,
        about(
            "Stop after",
            "Ends after so many steps, whatever the epochs. Empty: by epochs.",
            unit="steps",
            advanced=True,
            group="Length",
            ge=1,
        ),
    ] = None
    learning_rate: Annotated[
        float,
        about(
            "Learning rate",
            "How far each step moves the weights. 2e-5 to 5e-5 suits fine-tuning a text model, 1e-3 a vision model "
            "from scratch.",
            gt=0.0,
            le=10.0,
        ),
    ] = 5e-5
    optimizer: Annotated[
        Optimizer,
        about(
            "Optimizer",
            "How gradients move the weights. It decides how much memory stands beside each weight.",
            aliases=("optim",),
        ),
    ] = Optimizer.ADAMW
    beta: Annotated[
        float,
        about(
            "Beta of DPO",
            "How much the model is held to what it was: 0.1 is usual, more holds it closer.",
            needs=FOR_PREFERENCE,
            aliases=("dpo_beta",),
            gt=0.0,
            le=10.0,
        ),
    ] = 0.1
    schedule: Annotated[
        Schedule,
        about(
            "Schedule",
            "How the learning rate moves after the warm-up.",
            advanced=True,
            group="Learning rate",
            aliases=("lr_scheduler_type",),
        ),
    ] = Schedule.LINEAR
    warmup: Annotated[
        float,
        about(
            "Warm-up",
            "Steps over which the learning rate rises from zero; below 1 it is a share of the run.",
            unit="steps",
            share_below_one=True,
            advanced=True,
            group="Learning rate",
            aliases=("warmup_steps", "warmup_ratio"),
            ge=0.0,
        ),
    ] = 0.0
    weight_decay: Annotated[
        float,
        about(
            "Weight decay",
            "Pulls weights (not biases and norms) towards zero.",
            advanced=True,
            group="Optimizer",
            ge=0.0,
            le=1.0,
        ),
    ] = 0.0
    max_grad_norm: Annotated[
        float,
        about(
            "Clip gradients at",
            "Longest gradient a step may take; 0 switches clipping off.",
            advanced=True,
            group="Optimizer",
            ge=0.0,
        ),
    ] = 1.0
    beta1: Annotated[
        float,
        about(
            "Beta 1",
            "How long gradients are remembered: 0.9 is about ten steps.",
            advanced=True,
            group="Optimizer",
            needs=WITH_BETAS,
            aliases=("adam_beta1",),
            ge=0.0,
            le=0.999999,
        ),
    ] = 0.9
    beta2: Annotated[
        float,
        about(
            "Beta 2",
            "How long their squares are remembered: 0.999 is about a thousand steps.",
            advanced=True,
            group="Optimizer",
            needs=WITH_BETAS,
            aliases=("adam_beta2",),
            ge=0.0,
            le=0.999999,
        ),
    ] = 0.999
    epsilon: Annotated[
        float,
        about(
            "Epsilon",
            "Keeps the division by tiny gradients in bounds.",
            advanced=True,
            group="Optimizer",
            needs={
                "training.optimizer": tuple(
                    kind for kind in WITH_BETAS["training.optimizer"] if kind is not Optimizer.LION_8BIT
                )
            },
            aliases=("adam_epsilon",),
            gt=0.0,
            le=1.0,
        ),
    ] = 1e-8
    momentum: Annotated[
        float,
        about(
            "Momentum",
            "Share of the last step that is taken again.",
            advanced=True,
            group="Optimizer",
            needs={"training.optimizer": (Optimizer.SGD,)},
            ge=0.0,
            le=0.999999,
        ),
    ] = 0.9
    seed: Annotated[
        int,
        about(
            "Seed",
            "The same seed on the same machine gives the same run.",
            advanced=True,
            group="Repeatability",
            ge=0,
            le=2**32 - 1,
        ),
    ] = 42
    deterministic: Annotated[
        bool,
        about(
            "Full determinism",
            "Only kernels that give the same bits every time: slower, and an operator that has none ends the run.",
            advanced=True,
            group="Repeatability",
            aliases=("full_determinism",),
        ),
    ] = False
