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
    WITH_EPSILON,
    WITH_LORA,
    Option,
    Section,
)


class DeviceOptions(Section, frozen=True, kw_only=True):
    """Device and number format."""

    name: Annotated[
        str,
        Option("Device", "`auto` selects CUDA, then MPS, then the CPU. Or `cuda`, `cuda:1`, `mps`, `cpu`."),
    ] = "auto"
    precision: Annotated[
        Precision,
        Option(
            "Precision",
            "Number format of forward and backward pass. Fewer bits: less memory, usually faster.",
        ),
    ] = Precision.AUTO
    mps_fallback: Annotated[
        bool,
        Option(
            "CPU for missing operators",
            "On a Mac, run operators that MPS doesn't support on the CPU instead of failing "
            "(PYTORCH_ENABLE_MPS_FALLBACK).",
            group="Apple GPU",
        ),
    ] = True
    mps_memory_limit: Annotated[
        float,
        Option(
            "Memory limit",
            "On a Mac, memory limit of the run as a multiple of what macOS recommends for the GPU "
            "(PYTORCH_MPS_HIGH_WATERMARK_RATIO). 0: no limit, which can freeze the whole Mac.",
            group="Apple GPU",
            limits=(0.0, 2.0),  # torch 2.13 refuses more
        ),
    ] = 1.7
    threads: Annotated[
        int | None,
        Option(
            "CPU threads",
            "Threads used for computation on the CPU. Empty: one per core.",
            unit="threads",
            group="Processor",
            limits=(1, 1024),
        ),
    ] = None
    processes: Annotated[
        int,
        Option(
            "Processes",
            "Processes that train one model together. Hone supports one.",
            group="Processor",
            aliases=("num_processes", "nproc_per_node"),
            limits=(1, 64),
        ),
    ] = 1
    compile: Annotated[
        bool,
        Option(
            "Compile",
            "Compile the model with torch.compile. The first steps take a minute or more; later steps are faster.",
            group="Compiler",
            aliases=("torch_compile",),
        ),
    ] = False
    compile_backend: Annotated[
        str,
        Option(
            "Compile backend",
            "Backend of torch.compile.",
            group="Compiler",
            needs={"device.compile": (True,)},
            aliases=("torch_compile_backend",),
        ),
    ] = "inductor"
    compile_mode: Annotated[
        str,
        Option(
            "Compile mode",
            "Optimization mode of the inductor backend.",
            group="Compiler",
            needs={"device.compile": (True,), "device.compile_backend": ("inductor",)},
            aliases=("torch_compile_mode",),
        ),
    ] = "default"


class MemoryOptions(Section, frozen=True, kw_only=True):
    """Batch size and methods that save memory."""

    batch_size: Annotated[
        int,
        Option(
            "Batch size",
            "Samples per forward pass. Lower it first if memory runs out.",
            aliases=("per_device_train_batch_size",),
            limits=(1, 65_536),
        ),
    ] = 16
    gradient_accumulation_steps: Annotated[
        int,
        Option(
            "Gradient accumulation",
            "Batches whose gradients are added before an optimizer step: the effect of a larger batch with the memory "
            "of a small one.",
            unit="batches",
            limits=(1, 65_536),
        ),
    ] = 1
    activation_checkpointing: Annotated[
        bool,
        Option(
            "Activation checkpointing",
            "Recompute activations in the backward pass instead of keeping them: much less memory, 20 to 30 % more "
            "time.",
            needs=WITH_DEEP_GRADIENTS,
            aliases=("gradient_checkpointing",),
        ),
    ] = False
    deepspeed: Annotated[
        DeepSpeed,
        Option(
            "DeepSpeed",
            "ZeRO, for a model that doesn't fit on one GPU: try ZeRO-2, then ZeRO-3, with offload.",
            group="Large models",
        ),
    ] = DeepSpeed.OFF
    offload: Annotated[
        Offload,
        Option(
            "Offload to",
            "Where ZeRO keeps data the device doesn't need at the moment.",
            group="Large models",
            needs={"memory.deepspeed": (DeepSpeed.ZERO_2, DeepSpeed.ZERO_3)},
        ),
    ] = Offload.CPU
    offload_folder: Annotated[
        str | None,
        Option(
            "Offload folder",
            "Folder on a fast disk with space for the optimizer state: 16 bytes per parameter.",
            group="Large models",
            needs={
                "memory.deepspeed": (DeepSpeed.ZERO_2, DeepSpeed.ZERO_3),
                "memory.offload": (Offload.NVME,),
            },
            is_path=True,
        ),
    ] = None
    offload_optimizer: Annotated[
        bool,
        Option(
            "CPU offload of the optimizer",
            "Keep AdamW's state in main memory and update on the CPU (torchao): less GPU memory, slower steps.",
            group="Large models",
        ),
    ] = False


class ModelOptions(Section, frozen=True, kw_only=True):
    """The model and which of its weights are trained."""

    source: Annotated[
        str,
        Option(
            "Model",
            "A model folder, an id on the Hugging Face Hub such as `bert-base-cased`, a vision model such as "
            "`torchvision:resnet18`, the model of an earlier run as `run:NAME`, or a small model from scratch such as "
            "`scratch:llama-small`.",
            is_path=True,
        ),
    ] = ""
    pretrained: Annotated[
        bool,
        Option(
            "Pretrained weights",
            "Off: the same architecture with random weights, which needs much more data.",
            of_scratch=False,
        ),
    ] = True
    vocabulary: Annotated[
        int,
        Option(
            "Vocabulary",
            "Vocabulary size of the tokenizer of a model from scratch, a byte-level BPE trained on the data.",
            unit="tokens",
            group="From scratch",
            needs=FOR_TEXT,
            of_scratch=True,
            limits=(300, 65536),
        ),
    ] = 1024
    method: Annotated[
        Method,
        Option(
            "Method",
            "Which weights are trained. LoRA trains small adapter matrices with a fraction of the memory.",
        ),
    ] = Method.FULL
    quantization: Annotated[
        Quantization,
        Option(
            "Quantization", "Number format of the frozen weights.", needs={"model.method": (Method.QLORA,)}
        ),
    ] = Quantization.NF4
    lora_rank: Annotated[
        int,
        Option(
            "LoRA rank",
            "Rank of the adapter matrices, usually 8 to 64. A higher rank learns more and needs more memory.",
            group="LoRA",
            needs=WITH_LORA,
            aliases=("lora_r",),
            limits=(1, 4096),
        ),
    ] = 16
    lora_alpha: Annotated[
        float,
        Option(
            "LoRA alpha",
            "The adapter's output is scaled by alpha / rank. Twice the rank is a good start.",
            group="LoRA",
            needs=WITH_LORA,
            above=0.0,
            limits=(None, 65_536.0),
        ),
    ] = 32.0
    lora_dropout: Annotated[
        float,
        Option(
            "LoRA dropout",
            "Dropout probability of the adapter's inputs, against overfitting.",
            group="LoRA",
            needs=WITH_LORA,
            limits=(0.0, 0.9),
        ),
    ] = 0.05
    lora_targets: Annotated[
        tuple[str, ...],
        Option(
            "LoRA targets",
            "Layers with adapters, by the end of their names, such as `query, value`. Empty: all linear layers (and "
            "convolutions of a vision model) except the last.",
            group="LoRA",
            needs=WITH_LORA,
            aliases=("target_modules",),
        ),
    ] = ()
    attention: Annotated[
        Attention,
        Option(
            "Attention",
            "Implementation of attention. Same results, different time and memory.",
            group="Computation",
            needs=FOR_TEXT,
            aliases=("attn_implementation",),
        ),
    ] = Attention.SDPA


class OutputOptions(Section, frozen=True, kw_only=True):
    """Checkpoints and other output."""

    name: Annotated[
        str | None, Option("Name", "Name of the run in the list. Empty: made from model and data.")
    ] = None
    keep_checkpoints: Annotated[
        int,
        Option(
            "Keep checkpoints",
            "Number of newest checkpoints to keep. 0: a checkpoint is saved only when the run is stopped or paused, "
            "and a finished run can't be extended. The trained model is always saved.",
            group="Checkpoints",
            limits=(0, 1000),
        ),
    ] = 1
    save_steps: Annotated[
        int,
        Option(
            "Save every",
            "Save a checkpoint every so many steps, and at the end. 0: after each epoch.",
            unit="steps",
            group="Checkpoints",
            limits=(0, 10_000_000),
        ),
    ] = 0
    keep_best: Annotated[
        bool,
        Option(
            "Keep the best",
            "Use the weights of the best evaluation as the trained model, not the last ones, and keep their "
            "checkpoint. Compared by the first of accuracy, F1, Pearson, perplexity and loss that the task has. "
            "Needs validation data.",
            group="Checkpoints",
        ),
    ] = False
    predictions: Annotated[
        int,
        Option(
            "Sample predictions",
            "Validation examples, chosen by seed, whose predictions are saved at every evaluation. 0: none.",
            unit="examples",
            group="Predictions",
            limits=(0, 256),
        ),
    ] = 16
    prompts: Annotated[
        tuple[str, ...],
        Option(
            "Own prompts",
            "Your own prompts, which the model continues or answers at every evaluation.",
            group="Predictions",
            needs=FOR_WRITING,
        ),
    ] = ()
    tensorboard: Annotated[
        bool,
        Option(
            "TensorBoard files",
            "Also write metrics for TensorBoard into the folder `tensorboard` of the run.",
            group="Also write",
        ),
    ] = False


class TrainingOptions(Section, frozen=True, kw_only=True):
    """Length, learning rate and optimizer."""

    epochs: Annotated[
        float,
        Option(
            "Epochs",
            "Passes over the training data.",
            unit="epochs",
            aliases=("num_train_epochs",),
            above=0.0,
            limits=(None, 100_000.0),
        ),
    ] = 3.0
    max_steps: Annotated[
        int | None,
        Option(
            "Maximum steps",
            "Stop after this many optimizer steps, whatever the epochs. Empty: by epochs.",
            unit="steps",
            group="Length",
            limits=(1, None),
        ),
    ] = None
    learning_rate: Annotated[
        float,
        Option(
            "Learning rate",
            "Step size of the optimizer. 2e-5 to 5e-5 for fine-tuning a text model, 1e-4 to 3e-4 with LoRA, 1e-3 for a "
            "vision model from scratch.",
            above=0.0,
            limits=(None, 10.0),
        ),
    ] = 5e-5
    optimizer: Annotated[
        Optimizer,
        Option(
            "Optimizer",
            "Updates the weights. Optimizers differ in the memory they need per parameter.",
            aliases=("optim",),
        ),
    ] = Optimizer.ADAMW
    beta: Annotated[
        float,
        Option(
            "DPO beta",
            "How close the model stays to the reference model. 0.1 is usual; a higher value keeps it closer.",
            needs=FOR_PREFERENCE,
            aliases=("dpo_beta",),
            above=0.0,
            limits=(None, 10.0),
        ),
    ] = 0.1
    schedule: Annotated[
        Schedule,
        Option(
            "Schedule",
            "How the learning rate changes after the warm-up.",
            group="Learning rate",
            aliases=("lr_scheduler_type",),
        ),
    ] = Schedule.LINEAR
    warmup: Annotated[
        float,
        Option(
            "Warm-up",
            "Steps in which the learning rate rises from zero. A value below 1 is a fraction of the run.",
            unit="steps",
            share_below_one=True,
            group="Learning rate",
            aliases=("warmup_steps", "warmup_ratio"),
            limits=(0.0, None),
        ),
    ] = 0.0
    weight_decay: Annotated[
        float,
        Option(
            "Weight decay",
            "Pulls weights, except biases and normalization layers, towards zero.",
            group="Optimizer",
            limits=(0.0, 1.0),
        ),
    ] = 0.0
    max_grad_norm: Annotated[
        float,
        Option(
            "Max gradient norm",
            "Gradients are clipped to this norm. 0: no clipping.",
            group="Optimizer",
            limits=(0.0, None),
        ),
    ] = 1.0
    beta1: Annotated[
        float,
        Option(
            "Beta 1",
            "Decay rate of the running average of gradients: 0.9 averages about ten steps.",
            group="Optimizer",
            needs=WITH_BETAS,
            aliases=("adam_beta1",),
            limits=(0.0, 0.999999),
        ),
    ] = 0.9
    beta2: Annotated[
        float,
        Option(
            "Beta 2",
            "Decay rate of the running average of squared gradients: 0.999 averages about a thousand steps.",
            group="Optimizer",
            needs=WITH_BETAS,
            aliases=("adam_beta2",),
            limits=(0.0, 0.999999),
        ),
    ] = 0.999
    epsilon: Annotated[
        float,
        Option(
            "Epsilon",
            "Added to the denominator for numerical stability.",
            group="Optimizer",
            needs=WITH_EPSILON,
            aliases=("adam_epsilon",),
            above=0.0,
            limits=(None, 1.0),
        ),
    ] = 1e-8
    momentum: Annotated[
        float,
        Option(
            "Momentum",
            "Fraction of the previous update added to the current one.",
            group="Optimizer",
            needs={"training.optimizer": (Optimizer.SGD,)},
            limits=(0.0, 0.999999),
        ),
    ] = 0.9
    seed: Annotated[
        int,
        Option(
            "Seed",
            "The same seed on the same computer gives the same results.",
            group="Repeatability",
            limits=(0, 2**32 - 1),
        ),
    ] = 42
    deterministic: Annotated[
        bool,
        Option(
            "Full determinism",
            "Use deterministic kernels only: slower, and an operator without one fails.",
            group="Repeatability",
            aliases=("full_determinism",),
        ),
    ] = False
