"""Options of device, memory, model, output and training."""

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


class DeviceOptions(Section, frozen=True, kw_only=True):
    """Device and number format."""

    name: Annotated[
        str,
        about("Device", "`auto` selects CUDA, then MPS, then the CPU. Or `cuda`, `cuda:1`, `mps`, `cpu`."),
    ] = "auto"
    precision: Annotated[
        Precision,
        about(
            "Precision",
            "Number format of forward and backward pass. Fewer bits: less memory, usually faster.",
        ),
    ] = Precision.AUTO
    mps_fallback: Annotated[
        bool,
        about(
            "CPU for missing operators",
            "On a Mac, run operators that MPS doesn't support on the CPU instead of failing "
            "(PYTORCH_ENABLE_MPS_FALLBACK).",
            advanced=True,
            group="Apple GPU",
        ),
    ] = True
    mps_memory_limit: Annotated[
        float,
        about(
            "Memory limit",
            "On a Mac, memory limit of the run as a multiple of what macOS recommends for the GPU "
            "(PYTORCH_MPS_HIGH_WATERMARK_RATIO). 0: no limit, which can freeze the whole Mac.",
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
            "Threads used for computation on the CPU. Empty: one per core.",
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
            "Processes that train one model together. Hone supports one.",
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
            "Compile the model with torch.compile. The first steps take a minute or more; later steps are faster.",
            advanced=True,
            group="Compiler",
            aliases=("torch_compile",),
        ),
    ] = False
    compile_backend: Annotated[
        str,
        about(
            "Compile backend",
            "Backend of torch.compile.",
            advanced=True,
            group="Compiler",
            needs={"device.compile": (True,)},
            aliases=("torch_compile_backend",),
        ),
    ] = "inductor"
    compile_mode: Annotated[
        str,
        about(
            "Compile mode",
            "Optimization mode of the inductor backend.",
            advanced=True,
            group="Compiler",
            needs={"device.compile": (True,), "device.compile_backend": ("inductor",)},
            aliases=("torch_compile_mode",),
        ),
    ] = "default"


class MemoryOptions(Section, frozen=True, kw_only=True):
    """Batch size and methods that save memory."""

    batch_size: Annotated[
        int,
        about(
            "Batch size",
            "Samples per forward pass. Lower it first if memory runs out.",
            aliases=("per_device_train_batch_size",),
            ge=1,
            le=65_536,
        ),
    ] = 16
    gradient_accumulation_steps: Annotated[
        int,
        about(
            "Gradient accumulation",
            "Batches whose gradients are added before an optimizer step: the effect of a larger batch with the memory "
            "of a small one.",
            unit="batches",
            ge=1,
            le=65_536,
        ),
    ] = 1
    activation_checkpointing: Annotated[
        bool,
        about(
            "Activation checkpointing",
            "Recompute activations in the backward pass instead of keeping them: much less memory, 20 to 30 % more "
            "time.",
            needs=WITH_DEEP_GRADIENTS,
            aliases=("gradient_checkpointing",),
        ),
    ] = False
    deepspeed: Annotated[
        DeepSpeed,
        about(
            "DeepSpeed",
            "ZeRO, for a model that doesn't fit on one GPU: try ZeRO-2, then ZeRO-3, with offload.",
            advanced=True,
            group="Large models",
        ),
    ] = DeepSpeed.OFF
    offload: Annotated[
        Offload,
        about(
            "Offload to",
            "Where ZeRO keeps data the device doesn't need at the moment.",
            advanced=True,
            group="Large models",
            needs={"memory.deepspeed": (DeepSpeed.ZERO_2, DeepSpeed.ZERO_3)},
        ),
    ] = Offload.CPU
    offload_folder: Annotated[
        str | None,
        about(
            "Offload folder",
            "Folder on a fast disk with space for the optimizer state: 16 bytes per parameter.",
            advanced=True,
            group="Large models",
            needs={"memory.offload": (Offload.NVME,)},
            path=True,
        ),
    ] = None
    offload_optimizer: Annotated[
        bool,
        about(
            "CPU offload of the optimizer",
            "Keep AdamW's state in main memory and update on the CPU (torchao): less GPU memory, slower steps.",
            advanced=True,
            group="Large models",
        ),
    ] = False


class ModelOptions(Section, frozen=True, kw_only=True):
    """The model and which of its weights are trained."""

    source: Annotated[
        str,
        about(
            "Model",
            "A model folder, an id on the Hugging Face Hub such as `bert-base-cased`, a vision model such as "
            "`torchvision:resnet18`, the model of an earlier run as `run:NAME`, or a small model from scratch such as "
            "`scratch:llama-small`.",
            path=True,
        ),
    ] = ""
    pretrained: Annotated[
        bool,
        about(
            "Pretrained weights",
            "Off: the same architecture with random weights, which needs much more data.",
            of_scratch=False,
        ),
    ] = True
    vocabulary: Annotated[
        int,
        about(
            "Vocabulary",
            "Vocabulary size of the tokenizer of a model from scratch, a byte-level BPE trained on the data.",
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
            "Method",
            "Which weights are trained. LoRA trains small adapter matrices with a fraction of the memory.",
        ),
    ] = Method.FULL
    quantization: Annotated[
        Quantization,
        about(
            "Quantization", "Number format of the frozen weights.", needs={"model.method": (Method.QLORA,)}
        ),
    ] = Quantization.NF4
    lora_rank: Annotated[
        int,
        about(
            "LoRA rank",
            "Rank of the adapter matrices, usually 8 to 64. A higher rank learns more and needs more memory.",
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
            "The adapter's output is scaled by alpha / rank. Twice the rank is a good start.",
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
            "Dropout probability of the adapter's inputs, against overfitting.",
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
            "Layers with adapters, by the end of their names, such as `query, value`. Empty: all linear layers (and "
            "convolutions of a vision model) except the last.",
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
            "Implementation of attention. Same results, different time and memory.",
            advanced=True,
            group="Computation",
            needs=FOR_TEXT,
            aliases=("attn_implementation",),
        ),
    ] = Attention.SDPA


class OutputOptions(Section, frozen=True, kw_only=True):
    """Checkpoints and other output."""

    name: Annotated[
        str | None, about("Name", "Name of the run in the list. Empty: made from model and data.")
    ] = None
    keep_checkpoints: Annotated[
        int,
        about(
            "Keep checkpoints",
            "Number of newest checkpoints to keep. 0: a checkpoint is saved only when the run is stopped or paused, "
            "and a finished run can't be extended. The trained model is always saved.",
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
            "Save a checkpoint every so many steps, and at the end. 0: after each epoch.",
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
            "Use the weights of the best evaluation as the trained model, not the last ones, and keep their "
            "checkpoint. Compared by the first of accuracy, F1, Pearson, perplexity and loss that the task has. "
            "Needs validation data.",
            advanced=True,
            group="Checkpoints",
        ),
    ] = False
    predictions: Annotated[
        int,
        about(
            "Sample predictions",
            "Validation examples, chosen by seed, whose predictions are saved at every evaluation. 0: none.",
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
            "Your own prompts, which the model continues or answers at every evaluation.",
            advanced=True,
            group="Predictions",
            needs=FOR_WRITING,
        ),
    ] = ()
    tensorboard: Annotated[
        bool,
        about(
            "TensorBoard files",
            "Also write metrics for TensorBoard into the folder `tensorboard` of the run.",
            advanced=True,
            group="Also write",
        ),
    ] = False


class TrainingOptions(Section, frozen=True, kw_only=True):
    """Length, learning rate and optimizer."""

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
            "Maximum steps",
            "Stop after this many optimizer steps, whatever the epochs. Empty: by epochs.",
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
            "Step size of the optimizer. 2e-5 to 5e-5 for fine-tuning a text model, 1e-4 to 3e-4 with LoRA, 1e-3 for a "
            "vision model from scratch.",
            gt=0.0,
            le=10.0,
        ),
    ] = 5e-5
    optimizer: Annotated[
        Optimizer,
        about(
            "Optimizer",
            "Updates the weights. Optimizers differ in the memory they need per parameter.",
            aliases=("optim",),
        ),
    ] = Optimizer.ADAMW
    beta: Annotated[
        float,
        about(
            "DPO beta",
            "How close the model stays to the reference model. 0.1 is usual; a higher value keeps it closer.",
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
            "How the learning rate changes after the warm-up.",
            advanced=True,
            group="Learning rate",
            aliases=("lr_scheduler_type",),
        ),
    ] = Schedule.LINEAR
    warmup: Annotated[
        float,
        about(
            "Warm-up",
            "Steps in which the learning rate rises from zero. A value below 1 is a fraction of the run.",
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
            "Pulls weights, except biases and normalization layers, towards zero.",
            advanced=True,
            group="Optimizer",
            ge=0.0,
            le=1.0,
        ),
    ] = 0.0
    max_grad_norm: Annotated[
        float,
        about(
            "Max gradient norm",
            "Gradients are clipped to this norm. 0: no clipping.",
            advanced=True,
            group="Optimizer",
            ge=0.0,
        ),
    ] = 1.0
    beta1: Annotated[
        float,
        about(
            "Beta 1",
            "Decay rate of the running average of gradients: 0.9 averages about ten steps.",
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
            "Decay rate of the running average of squared gradients: 0.999 averages about a thousand steps.",
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
            "Added to the denominator for numerical stability.",
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
            "Fraction of the previous update added to the current one.",
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
            "The same seed on the same computer gives the same results.",
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
            "Use deterministic kernels only: slower, and an operator without one fails.",
            advanced=True,
            group="Repeatability",
            aliases=("full_determinism",),
        ),
    ] = False
