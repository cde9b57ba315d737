"""Options of device, memory, model, output and training."""

import re

from core.base.language import _
from core.options.choices import (
    Attention,
    Backend,
    BestMetric,
    DeepSpeed,
    FrozenPrecision,
    Method,
    Offload,
    Optimizer,
    Precision,
    PreferenceLoss,
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
    WITH_FROZEN,
    WITH_LORA,
    Section,
    Unit,
    option,
)

DEVICE_NAME = re.compile(r"(auto|cpu|mps|cuda(?::[0-9]+)?)(?:@([\w.-]+(?:\+[\w.-]+)*))?", re.ASCII)
"""A value of `device.name`: a device, and the other computers it belongs to, such as `cuda@workshop+attic`."""


class DeviceOptions(Section, frozen=True, kw_only=True):
    """Device and number format."""

    name: str = option(
        "auto",
        _("Device"),
        _(
            "`auto` selects CUDA, then MPS, then the CPU. Or `cuda`, `cuda:1`, `mps`, `cpu`. `cuda@workshop` is "
            "that of another computer, `cuda@workshop+attic` trains on both together."
        ),
    )
    backend: Backend = option(Backend.AUTO, _("Engine"), _("The library that trains."))
    precision: Precision = option(
        Precision.AUTO,
        _("Precision"),
        _("Number format of forward and backward pass. Fewer bits: less memory, usually faster."),
    )
    processes: int = option(
        1,
        _("Processes"),
        _(
            "Processes that train one model together, each on its own NVIDIA GPU or on a share of the processor's "
            "cores. The batch size is that of each. 0: one for each NVIDIA GPU."
        ),
        aliases=("num_processes", "nproc_per_node"),
        limits=(0, 64),
    )
    mps_fallback: bool = option(
        True,
        _("CPU for missing operators"),
        _(
            "On a Mac, run operators that MPS doesn't support on the CPU instead of failing "
            "(PYTORCH_ENABLE_MPS_FALLBACK)."
        ),
        group=_("Apple GPU"),
    )
    mps_memory_limit: float = option(
        1.0,
        _("Memory limit"),
        _(
            "On a Mac, memory limit of the run as a multiple of what macOS recommends for the GPU "
            "(PYTORCH_MPS_HIGH_WATERMARK_RATIO). 0: no limit but the Mac's memory, of which an eighth and "
            "at least 2 GB are always left to macOS."
        ),
        group=_("Apple GPU"),
        limits=(0.0, 2.0),  # torch 2.13 refuses more
    )
    threads: int | None = option(
        None,
        _("CPU threads"),
        _("Threads with which each process computes on the CPU. Empty: one per core."),
        unit=Unit.THREADS,
        group=_("Processor"),
        limits=(1, 1024),
    )
    compile: bool = option(
        False,
        _("Compile"),
        _(
            "Compile the model with torch.compile. The first steps take a minute or more; later "
            "steps are faster."
        ),
        group=_("Compiler"),
        aliases=("torch_compile",),
    )
    compile_backend: str = option(
        "inductor",
        _("Compile backend"),
        _("Backend of torch.compile."),
        group=_("Compiler"),
        needs={"device.compile": (True,)},
        aliases=("torch_compile_backend",),
    )
    compile_mode: str = option(
        "default",
        _("Compile mode"),
        _("Optimization mode of the inductor backend."),
        group=_("Compiler"),
        needs={"device.compile": (True,), "device.compile_backend": ("inductor",)},
        aliases=("torch_compile_mode",),
    )

    @property
    def there(self) -> str:
        """The device without the computer: `cuda` of `cuda@workshop`."""
        return self.name.partition("@")[0]

    @property
    def computers(self) -> tuple[str, ...]:
        """The names of the other computers that train; empty for this one."""
        return tuple(name for name in self.name.partition("@")[2].split("+") if name)


class MemoryOptions(Section, frozen=True, kw_only=True):
    """Batch size and methods that save memory."""

    batch_size: int = option(
        16,
        _("Batch size"),
        _("Examples per forward pass. Lower it first if memory runs out."),
        aliases=("per_device_train_batch_size",),
        limits=(1, 65_536),
    )
    gradient_accumulation_steps: int = option(
        1,
        _("Gradient accumulation"),
        _(
            "Batches whose gradients are added before an optimizer step: the effect of a larger batch with the memory "
            "of a small one."
        ),
        unit=Unit.BATCHES,
        limits=(1, 65_536),
    )
    activation_checkpointing: bool = option(
        False,
        _("Activation checkpointing"),
        _(
            "Recompute activations in the backward pass instead of keeping them: much less memory, 20 to 30 % more "
            "time."
        ),
        needs=WITH_DEEP_GRADIENTS,
        aliases=("gradient_checkpointing",),
    )
    empty_cache_steps: int = option(
        0,
        _("Empty cache every"),
        _(
            "Give back GPU memory that is held but not used, every so many steps. For a run whose memory "
            "grows. It costs time: the memory is requested again. 0: never."
        ),
        unit=Unit.STEPS,
        group=_("Cache"),
        aliases=("torch_empty_cache_steps",),
        limits=(0, 10_000_000),
    )
    deepspeed: DeepSpeed = option(
        DeepSpeed.OFF,
        _("DeepSpeed"),
        _("ZeRO, for a model that doesn't fit on one GPU: try ZeRO-2, then ZeRO-3, with offload."),
        group=_("Large models"),
    )
    offload: Offload = option(
        Offload.CPU,
        _("Offload to"),
        _("Where ZeRO keeps data the device doesn't need at the moment."),
        group=_("Large models"),
        needs={"memory.deepspeed": (DeepSpeed.ZERO_2, DeepSpeed.ZERO_3)},
    )
    offload_folder: str | None = option(
        None,
        _("Offload folder"),
        _("Folder on a fast disk with space for the optimizer state: 16 bytes per parameter."),
        group=_("Large models"),
        needs={"memory.deepspeed": (DeepSpeed.ZERO_2, DeepSpeed.ZERO_3), "memory.offload": (Offload.NVME,)},
        is_path=True,
    )
    fsdp: bool = option(
        False,
        _("FSDP2"),
        _(
            "Divide weights, gradients and optimizer state among the processes, for a model that one GPU can't hold. "
            "Steps take longer: each layer is put together when it computes."
        ),
        group=_("Large models"),
    )
    offload_optimizer: bool = option(
        False,
        _("CPU offload of the optimizer"),
        _(
            "Keep AdamW's state in main memory and update on the CPU (torchao): less GPU memory, "
            "slower steps."
        ),
        group=_("Large models"),
    )


class ModelOptions(Section, frozen=True, kw_only=True):
    """The model and which of its weights are trained."""

    source: str = option(
        "",
        _("Model"),
        _(
            "A model folder, an id on the Hugging Face Hub such as `bert-base-cased`, a vision model such as "
            "`torchvision:resnet18`, the model of a past run as `run:NAME`, or a small model from scratch such as "
            "`scratch:llama-small`."
        ),
        is_path=True,
    )
    pretrained: bool = option(
        True,
        _("Pretrained weights"),
        _(
            "Off: the same architecture with random weights, which needs much more data. The model of a past run "
            "always has its trained weights."
        ),
        of_scratch=False,
    )
    vocabulary: int = option(
        1024,
        _("Vocabulary"),
        _("Vocabulary size of the tokenizer of a model from scratch, a byte-level BPE trained on the data."),
        unit=Unit.TOKENS,
        group=_("From scratch"),
        needs=FOR_TEXT,
        of_scratch=True,
        limits=(300, 65536),
    )
    method: Method = option(
        Method.FULL,
        _("Method"),
        _("Which weights are trained. LoRA trains small adapter matrices with a fraction of the memory."),
    )
    quantization: Quantization = option(
        Quantization.AUTO,
        _("Quantization"),
        _("Number format of the frozen weights."),
        needs={"model.method": (Method.QLORA,)},
    )
    frozen_precision: FrozenPrecision = option(
        FrozenPrecision.AUTO,
        _("Frozen weights"),
        _("Number format of the weights that don't learn and aren't quantized; what learns stays fp32."),
        needs=WITH_FROZEN,
    )
    lora_rank: int = option(
        16,
        _("LoRA rank"),
        _("Rank of the adapter matrices, usually 8 to 64. A higher rank learns more and needs more memory."),
        group="LoRA",
        needs=WITH_LORA,
        aliases=("lora_r",),
        limits=(1, 4096),
    )
    lora_alpha: float = option(
        32.0,
        _("LoRA alpha"),
        _("The adapter's output is scaled by alpha / rank. Twice the rank is a good start."),
        group="LoRA",
        needs=WITH_LORA,
        above=0.0,
        limits=(None, 65_536.0),
    )
    lora_dropout: float = option(
        0.05,
        _("LoRA dropout"),
        _("Dropout probability of the adapter's inputs, against overfitting."),
        group="LoRA",
        needs=WITH_LORA,
        limits=(0.0, 0.9),
    )
    lora_rslora: bool = option(
        False,
        "rsLoRA",
        _(
            "Scale by alpha / root of the rank instead of alpha / rank, so that high ranks learn as fast as low ones. "
            "With rank 16 that is 4 times the scale: lower LoRA alpha too."
        ),
        group="LoRA",
        needs=WITH_LORA,
        aliases=("use_rslora",),
    )
    lora_dora: bool = option(
        False,
        "DoRA",
        _(
            "Also trains the length of each layer's weight vectors: often better at low ranks, with more memory. A "
            "step takes about 1.6 times as long, hardly longer with LoRA dropout 0 (a small BERT on a CPU)."
        ),
        group="LoRA",
        needs=WITH_LORA,
        aliases=("use_dora",),
    )
    lora_targets: tuple[str, ...] = option(
        (),
        _("LoRA targets"),
        _(
            "Layers with adapters, by the end of their names, such as `query, value`. Empty: all linear layers (and "
            "convolutions of a vision model) except the last."
        ),
        group="LoRA",
        needs=WITH_LORA,
        aliases=("target_modules",),
    )
    lora_layers: int = option(
        0,
        _("LoRA blocks"),
        _(
            "Only so many of the model's last blocks (transformer layers) get adapters: less memory and time, and it "
            "learns less. 0: all."
        ),
        unit=Unit.BLOCKS,
        group="LoRA",
        needs=WITH_LORA,
        limits=(0, 1000),
    )
    attention: Attention = option(
        Attention.SDPA,
        _("Attention"),
        _("Implementation of attention. Same results, different time and memory."),
        group=_("Computation"),
        needs=FOR_TEXT,
        aliases=("attn_implementation",),
    )


class OutputOptions(Section, frozen=True, kw_only=True):
    """Checkpoints and other output."""

    name: str | None = option(
        None, _("Name"), _("Name of the run in the list. Empty: made from model and data.")
    )
    keep_checkpoints: int = option(
        1,
        _("Keep checkpoints"),
        _(
            "Number of newest checkpoints to keep. 0: a checkpoint is saved only when the run is stopped or paused, "
            "and a finished run can't be extended. The trained model is saved all the same."
        ),
        group=_("Checkpoints"),
        limits=(0, 1000),
    )
    save_steps: int = option(
        0,
        _("Save every"),
        _("Save a checkpoint every so many steps, and at the end. 0: after each epoch."),
        unit=Unit.STEPS,
        group=_("Checkpoints"),
        limits=(0, 10_000_000),
    )
    keep_best: bool = option(
        False,
        _("Keep the best"),
        _(
            "Use the weights of the best evaluation as the trained model, not the last ones, and keep their "
            "checkpoint. Early stopping and training longer always do. Needs validation data."
        ),
        group=_("Checkpoints"),
        aliases=("load_best_model_at_end",),
    )
    save_model: bool = option(
        True,
        _("Save the model"),
        _(
            "Off: only the figures of the run are kept, for measuring speed and memory. Each step is timed alone, and "
            "nothing else trains on the computer meanwhile."
        ),
        group=_("Checkpoints"),
    )
    predictions: int = option(
        16,
        _("Sample predictions"),
        _("Validation examples, chosen by seed, whose predictions are saved at every evaluation. 0: none."),
        unit=Unit.EXAMPLES,
        group=_("Predictions"),
        limits=(0, 256),
    )
    prompts: tuple[str, ...] = option(
        (),
        _("Own prompts"),
        _("Your own prompts, which the model continues or answers at every evaluation."),
        group=_("Predictions"),
        needs=FOR_WRITING,
    )
    tensorboard: bool = option(
        False,
        _("TensorBoard files"),
        _("Also write metrics for TensorBoard into the folder `tensorboard` of the run."),
        group=_("Also write"),
    )


class TrainingOptions(Section, frozen=True, kw_only=True):
    """Duration, learning rate and optimizer."""

    epochs: float = option(
        3.0,
        _("Epochs"),
        _("Passes over the training data. 0: the model is only evaluated on the validation data."),
        unit=Unit.EPOCHS,
        aliases=("num_train_epochs",),
        limits=(0.0, 100_000.0),
    )
    max_steps: int | None = option(
        None,
        _("Maximum steps"),
        _("Stop after this many optimizer steps, whatever the epochs. Empty: by epochs."),
        unit=Unit.STEPS,
        group=_("Duration"),
        limits=(1, None),
    )
    eval_steps: float = option(
        0.0,
        _("Evaluate every"),
        _(
            "Evaluate on the validation data every so many steps, and at the end. A value below 1 is a fraction of the "
            "run: 0.1 evaluates ten times. 0: after each epoch."
        ),
        unit=Unit.STEPS,
        share_below_one=True,
        group=_("Evaluation"),
        limits=(0.0, 10_000_000.0),
    )
    metric_for_best_model: BestMetric = option(
        BestMetric.AUTO,
        _("Best by"),
        _("Metric that early stopping and Keep the best compare evaluations by."),
        group=_("Evaluation"),
    )
    early_stopping_patience: int = option(
        0,
        _("Stop early after"),
        _(
            "Stop after so many evaluations in a row without improvement, and keep the model of the best evaluation. "
            "0: train to the end."
        ),
        unit=Unit.EVALUATIONS,
        group=_("Evaluation"),
        limits=(0, 10_000),
    )
    early_stopping_threshold: float = option(
        0.0,
        _("Minimum improvement"),
        _(
            "A smaller change of the metric doesn't count as improvement: 0.001 is 0.1 percentage points of accuracy."
        ),
        group=_("Evaluation"),
        limits=(0.0, 1_000_000.0),
    )
    learning_rate: float = option(
        5e-5,
        _("Learning rate"),
        _(
            "Step size of the optimizer. 2e-5 to 5e-5 for fine-tuning a text model, 2e-4 with LoRA, 5e-4 to 1e-3 for a "
            "model from scratch."
        ),
        above=0.0,
        limits=(None, 10.0),
    )
    optimizer: Optimizer = option(
        Optimizer.ADAMW,
        _("Optimizer"),
        _("Updates the weights. Optimizers differ in the memory they need per parameter."),
        aliases=("optim",),
    )
    preference_loss: PreferenceLoss = option(
        PreferenceLoss.DPO,
        _("Preference loss"),
        _(
            "How answers are compared. It decides what the data must contain: pairs of answers, or rated ones."
        ),
        needs=FOR_PREFERENCE,
    )
    beta: float = option(
        0.1,
        _("Beta"),
        _(
            "With DPO and KTO, how close the model stays to the reference; a higher value keeps it closer. With ORPO, "
            "the weight of the preference (lambda in its paper). 0.1 is usual."
        ),
        needs=FOR_PREFERENCE,
        aliases=("dpo_beta",),
        above=0.0,
        limits=(None, 10.0),
    )
    schedule: Schedule = option(
        Schedule.LINEAR,
        _("Schedule"),
        _("How the learning rate changes after the warm-up."),
        group=_("Learning rate"),
        aliases=("lr_scheduler_type",),
    )
    warmup: float = option(
        0.0,
        _("Warm-up"),
        _("Steps in which the learning rate rises from zero. A value below 1 is a fraction of the run."),
        unit=Unit.STEPS,
        share_below_one=True,
        group=_("Learning rate"),
        aliases=("warmup_steps", "warmup_ratio"),
        limits=(0.0, None),
    )
    weight_decay: float = option(
        0.0,
        _("Weight decay"),
        _("Pulls weights, except biases and normalization layers, towards zero."),
        group=_("Optimizer"),
        limits=(0.0, 1.0),
    )
    max_grad_norm: float = option(
        1.0,
        _("Max gradient norm"),
        _("Gradients with a larger norm are scaled down to this one. 0: never."),
        group=_("Optimizer"),
        limits=(0.0, None),
    )
    beta1: float = option(
        0.9,
        _("Beta 1"),
        _("Decay rate of the running average of gradients: 0.9 averages about ten steps."),
        group=_("Optimizer"),
        needs=WITH_BETAS,
        aliases=("adam_beta1",),
        limits=(0.0, 0.999999),
    )
    beta2: float = option(
        0.999,
        _("Beta 2"),
        _(
            "Decay rate of the running average of squared gradients: 0.999 averages about a thousand steps. With Lion, "
            "of gradients, and 0.99 is usual."
        ),
        group=_("Optimizer"),
        needs=WITH_BETAS,
        aliases=("adam_beta2",),
        limits=(0.0, 0.999999),
    )
    epsilon: float = option(
        1e-8,
        _("Epsilon"),
        _("Added to the denominator for numerical stability."),
        group=_("Optimizer"),
        needs=WITH_EPSILON,
        aliases=("adam_epsilon",),
        above=0.0,
        limits=(None, 1.0),
    )
    momentum: float = option(
        0.9,
        _("Momentum"),
        _("Fraction of the previous update added to the current one."),
        group=_("Optimizer"),
        needs={"training.optimizer": (Optimizer.SGD,)},
        limits=(0.0, 0.999999),
    )
    seed: int = option(
        42,
        _("Seed"),
        _("The same seed on the same computer gives the same results."),
        group=_("Reproducibility"),
        limits=(0, 2**32 - 1),
    )
    deterministic: bool = option(
        False,
        _("Full determinism"),
        _(
            "Compute only in ways that give exactly the same result each time: slower, and a run fails if its model "
            "needs an operation without such a way."
        ),
        group=_("Reproducibility"),
        aliases=("full_determinism",),
    )
