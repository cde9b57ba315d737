"""Enumerations of options, each member with label and help."""

from enum import StrEnum
from typing import Self

from core.base.language import _
from core.options.sources import HUB_MODELS, SCRATCH_MODELS, VISION_MODELS


class Described(StrEnum):
    """A string with a label and a sentence of help."""

    label: str
    help: str

    def __new__(cls, value: str, label: str = "", help: str = "") -> Self:
        """Creates a member; type checkers see `Task("chat")` as a call of this, hence the defaults."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.label, member.help = label, help
        return member


class Task(Described):
    """What the model is trained to do."""

    TEXT_CLASSIFICATION = (
        "text-classification",
        _("Text classification"),
        _("Predict a label for each text or text pair."),
    )
    TEXT_REGRESSION = (
        "text-regression",
        _("Text regression"),
        _("Predict a number for each text or text pair, such as a rating or a similarity."),
    )
    TOKEN_CLASSIFICATION = (
        "token-classification",
        _("Token classification"),
        _("Predict a label for each word, such as names (NER)."),
    )
    CAUSAL_LM = (
        "causal-lm",
        _("Text generation"),
        _("Learn to write texts like yours (language modelling, pretraining)."),
    )
    CHAT = "chat", _("Chat"), _("Answer as in the conversations or instructions of the training data.")
    PREFERENCE = (
        "preference",
        _("Preference tuning"),
        _("Learn which answers people like (DPO, ORPO, KTO)."),
    )
    IMAGE_CLASSIFICATION = (
        "image-classification",
        _("Image classification"),
        _("Predict a label for each image."),
    )

    @classmethod
    def _missing_(cls, value: object) -> "Task | None":
        """Accepts a task's title, which windows and guides call it by, such as `text-generation` for `causal-lm`."""
        title = str(value).replace("-", " ").casefold()
        return next((task for task in cls if task.label.casefold() == title), None)

    @property
    def reads_images(self) -> bool:
        return self is Task.IMAGE_CLASSIFICATION

    @property
    def reads_text(self) -> bool:
        """Whether samples are tokens of texts."""
        return not self.reads_images

    @property
    def has_labels(self) -> bool:
        """Whether the model predicts named classes."""
        return self in (Task.TEXT_CLASSIFICATION, Task.TOKEN_CLASSIFICATION, Task.IMAGE_CLASSIFICATION)

    @property
    def writes_text(self) -> bool:
        """Whether the model is a causal language model."""
        return self in (Task.CAUSAL_LM, Task.CHAT, Task.PREFERENCE)

    @property
    def reads_conversations(self) -> bool:
        """Whether samples are conversations, or pairs of them."""
        return self in (Task.CHAT, Task.PREFERENCE)


class Toggle(Described):
    """On, off, or automatic. A run file may say true and false too."""

    AUTO = "auto", _("Automatic"), _("Chosen for the data and this computer.")
    ON = "on", _("On"), _("Always.")
    OFF = "off", _("Off"), _("Never.")


class Method(Described):
    """Which weights are trained."""

    FULL = "full", _("Full"), _("All weights are trained: best quality, most memory.")
    LORA = (
        "lora",
        "LoRA",
        _(
            "Freezes the model and trains small adapter matrices. Results usually come close to "
            "full fine-tuning."
        ),
    )
    QLORA = (
        "qlora",
        "QLoRA",
        _("LoRA with the frozen weights quantized to 4 or 8 bits: least memory, somewhat slower."),
    )
    HEAD = "head", _("Last layer"), _("Freezes the model and trains its classifier: fast, for a first test.")


class Backend(Described):
    """The library that trains."""

    AUTO = "auto", _("Automatic"), _("MLX on Apple silicon, for what it can train; otherwise PyTorch.")
    TORCH = "torch", "PyTorch", _("Trains every model and task, on any device.")
    MLX = (
        "mlx",
        "MLX",
        _("Apple's library for its own chips: text generation, chat and preference tuning."),
    )


class Quantization(Described):
    """Number format of QLoRA's frozen weights."""

    AUTO = "auto", _("Automatic"), _("4 bits: nf4 with PyTorch, affine4 with MLX.")
    NF4 = "nf4", "nf4", _("4-bit NormalFloat, for normally distributed weights; PyTorch's.")
    INT8 = "int8", "int8", _("8-bit integers, outliers in half precision; PyTorch's.")
    AFFINE4 = "affine4", "affine4", _("4-bit integers, 64 of which share a scale and a bias; MLX's.")
    AFFINE8 = "affine8", "affine8", _("8-bit integers, 64 of which share a scale and a bias; MLX's.")

    @property
    def is_affine(self) -> bool:
        """Whether it is a format of MLX."""
        return self in AFFINE_BITS


AFFINE_BITS: dict[str, int] = {Quantization.AFFINE4: 4, Quantization.AFFINE8: 8}
AFFINE_GROUP = 64
"""MLX's formats by name, with the bits of a weight; and how many weights share a scale and a bias."""


class FrozenPrecision(Described):
    """Number format of the matrices that don't learn."""

    AUTO = (
        "auto",
        _("Automatic"),
        _("16 bits where the run computes in 16 bits, and on Apple and older NVIDIA GPUs; otherwise fp32."),
    )
    FP32 = "fp32", "fp32", _("Full precision: 4 bytes per weight.")
    BF16 = "bf16", "bf16", _("2 bytes per weight; an error of up to 0.4 %, none if it was published so.")
    FP16 = "fp16", "fp16", _("2 bytes per weight; an error of up to 0.05 %.")


class Attention(Described):
    """How attention is computed; the names are those of transformers."""

    SDPA = (
        "sdpa",
        "sdpa",
        _("PyTorch's scaled dot product attention; selects the fastest kernel of this device."),
    )
    EAGER = "eager", "eager", _("Plain implementation: slower, keeps the whole attention matrix.")
    FLASH_2 = (
        "flash_attention_2",
        "FlashAttention 2",
        _("For NVIDIA GPUs since Ampere, in bf16 or fp16; needs the package flash-attn."),
    )
    FLASH_3 = (
        "flash_attention_3",
        "FlashAttention 3",
        _("For NVIDIA Hopper GPUs, in bf16 or fp16; needs its own package."),
    )


class Padding(Described):
    """To which length the rows of a batch are padded."""

    DYNAMIC = (
        "dynamic",
        _("Longest in the batch"),
        _("Pads to the longest text of each batch: least padding."),
    )
    FIXED = (
        "fixed",
        _("Maximum length"),
        _("Pads every example to the maximum length, as the published scripts do."),
    )


class Augmentation(Described):
    """How much training images are changed at random."""

    OFF = "off", _("Off"), _("Images are used as they are.")
    LIGHT = "light", _("Light"), _("Slightly cropped; brightness, contrast and colours vary a little.")
    STRONG = "strong", _("Strong"), _("Cropped more, turned or recoloured (RandAugment), partly covered.")


class ImageFit(Described):
    """How an image that isn't square becomes a square."""

    SQUASH = "squash", _("Squash"), _("The whole image is used; its longer side is squashed.")
    CROP = (
        "crop",
        _("Crop"),
        _("The middle is used, in its true proportions; the ends of the longer side are cut off."),
    )


class ChatTemplate(Described):
    """How a conversation is formatted as one text."""

    AUTO = "auto", _("Automatic"), _("The model's own template; ChatML if it has none.")
    CHATML = "chatml", "ChatML", _("Each message between <|im_start|> and <|im_end|>, for any model.")


class LossOn(Described):
    """Which tokens of a conversation the loss is computed on."""

    ANSWERS = "answers", _("Answers only"), _("Only the assistant's messages: the usual choice.")
    EVERYTHING = "everything", _("All messages"), _("The model learns to write questions, too.")


class Precision(Described):
    """Number format of the forward and backward passes; the weights themselves stay fp32."""

    AUTO = (
        "auto",
        _("Automatic"),
        _("bf16 if this device supports it in hardware, fp16 on NVIDIA GPUs since Volta, otherwise fp32."),
    )
    FP32 = "fp32", "fp32", _("Full precision: slowest, most robust.")
    TF32 = (
        "tf32",
        "tf32",
        _("fp32 with matrix multiplications in 10-bit precision, on NVIDIA GPUs since Ampere."),
    )
    BF16 = "bf16", "bf16", _("Half the activation memory with the range of fp32; no loss scaling.")
    FP16 = "fp16", "fp16", _("Half the activation memory with loss scaling; needs a GPU.")


class DeepSpeed(Described):
    """ZeRO stage of DeepSpeed."""

    OFF = "off", _("Off"), _("For models that fit on the device.")
    ZERO_2 = "zero-2", "ZeRO-2", _("Gradients and optimizer state can be offloaded.")
    ZERO_3 = (
        "zero-3",
        "ZeRO-3",
        _("Weights can be offloaded as well: slower, for models that don't fit otherwise."),
    )


class Offload(Described):
    """Where ZeRO offloads to."""

    NONE = "none", _("None"), _("Everything stays on the device.")
    CPU = "cpu", _("Main memory"), _("Optimizer state (with ZeRO-3 also weights) in the computer's memory.")
    NVME = "nvme", _("Disk"), _("Files on a fast NVMe disk: slowest, for the largest models.")


class Optimizer(Described):
    """Optimizer."""

    ADAMW = (
        "adamw",
        "AdamW",
        _("The usual choice; 8 bytes of state per parameter. Fused if this device supports it."),
    )
    ADAM = "adam", _("Adam"), _("AdamW with weight decay added to the gradient.")
    ADAFACTOR = (
        "adafactor",
        _("Adafactor"),
        _("Factored state: almost no memory, sometimes slower convergence."),
    )
    ADAMW_8BIT = "adamw-8bit", _("8-bit AdamW"), _("2 bytes of state per parameter (bitsandbytes).")
    PAGED_ADAMW_8BIT = (
        "paged-adamw-8bit",
        _("Paged 8-bit AdamW"),
        _("As 8-bit AdamW; its state is moved to main memory when the GPU runs out of memory."),
    )
    ADAMW_8BIT_TORCHAO = (
        "adamw-8bit-torchao",
        "8-bit AdamW (torchao)",
        _("8-bit state by torchao, compiled at the first step."),
    )
    LION = (
        "lion",
        "Lion",
        _(
            "Steps by the sign of averaged gradients: 4 bytes of state per parameter; needs a 3 to 10 times lower rate."
        ),
    )
    LION_8BIT = (
        "lion-8bit",
        "8-bit Lion",
        _("1 byte of state per parameter; needs a 3 to 10 times lower learning rate."),
    )
    ADEMAMIX = (
        "ademamix",
        "AdEMAMix",
        _("AdamW with a second, slower average of gradients; 12 bytes of state per parameter."),
    )
    SGD = (
        "sgd",
        "SGD",
        _("Gradient descent with momentum: 4 bytes of state per parameter, none without momentum."),
    )
    MUON = (
        "muon",
        "Muon",
        _(
            "Steps equally far in all directions of a matrix, also of LoRA's: 4 bytes of state per parameter. AdamW "
            "updates all else (embeddings, the output layer, experts, biases, norms) with 8; its learning rates suit "
            "both. Only with the engine MLX."
        ),
    )

    @property
    def is_lion(self) -> bool:
        """Whether the size of a gradient doesn't matter to it, only the sign."""
        return self in (Optimizer.LION, Optimizer.LION_8BIT)


class Schedule(Described):
    """Learning rate schedule after the warm-up."""

    LINEAR = "linear", _("Linear"), _("Decreases linearly to zero.")
    COSINE = "cosine", _("Cosine"), _("Decreases to zero along half a cosine: slow, fast, slow.")
    POLYNOMIAL = "polynomial", _("Polynomial"), _("Decreases as a power of the remaining steps.")
    INVERSE_SQRT = (
        "inverse-sqrt",
        _("Inverse square root"),
        _("Decreases with the inverse square root of the step."),
    )
    CONSTANT = "constant", _("Constant"), _("Does not change.")


class PreferenceLoss(Described):
    """How preferences are learned; the values are TRL's names of its trainers."""

    DPO = "dpo", "DPO", _("Pairs of answers, compared with a reference: the model before training.")
    ORPO = "orpo", "ORPO", _("Pairs of answers. It needs no reference, which saves time and memory.")
    KTO = "kto", "KTO", _("Single answers, each liked or not, compared with a reference. Pairs work, too.")


class BestMetric(Described):
    """What evaluations are compared by; the values are Trainer's names of metrics without `eval_`."""

    AUTO = (
        "auto",
        _("Automatic"),
        _("The first of accuracy, F1, Pearson, perplexity and loss that the task has."),
    )
    LOSS = "loss", _("Loss"), _("Validation loss, which every task has.")
    ACCURACY = "accuracy", _("Accuracy"), _("Fraction of correct labels.")
    F1 = "f1", "F1", _("Harmonic mean of precision and recall.")
    PEARSON = "pearson", "Pearson", _("Linear correlation of predicted and true numbers.")
    SPEARMAN = "spearman", "Spearman", _("Rank correlation of predicted and true numbers.")
    MAE = "mae", _("Mean absolute error"), _("Mean difference of predicted and true numbers.")
    PERPLEXITY = "perplexity", _("Perplexity"), _("Exponential of the loss per token.")
    REWARD_ACCURACY = (
        "reward_accuracy",
        _("Reward accuracy"),
        _(
            "Fraction of pairs whose better answer gets the higher reward; with KTO, of answers on the right side."
        ),
    )


METRICS_OF_TASKS = {
    Task.TEXT_CLASSIFICATION: (BestMetric.ACCURACY, BestMetric.F1),
    Task.TEXT_REGRESSION: (BestMetric.PEARSON, BestMetric.SPEARMAN, BestMetric.MAE),
    Task.TOKEN_CLASSIFICATION: (BestMetric.F1,),
    Task.CAUSAL_LM: (BestMetric.PERPLEXITY,),
    Task.CHAT: (BestMetric.PERPLEXITY,),
    Task.PREFERENCE: (BestMetric.REWARD_ACCURACY,),
    Task.IMAGE_CLASSIFICATION: (BestMetric.ACCURACY, BestMetric.F1),
}
"""Metrics to compare evaluations of a task by, besides the loss; the first is the automatic one."""


FP16_NEEDS_GPU = _("needs a GPU: PyTorch has no fp16 training on the CPU")


class ColumnRole(Described):
    """What a column of a table holds, as `data.columns` names it."""

    CONVERSATION = "conversation", _("Conversation"), _("A list of messages with role and content.")
    SYSTEM = "system", _("System prompt"), _("Instructions to the assistant before the conversation.")
    PROMPT = "prompt", _("Prompt"), _("An instruction, a question, a prompt.")
    INPUT = "input", _("Input"), _("Additional input that follows the prompt.")
    HISTORY = "history", _("History"), _("A list of earlier prompts and answers.")
    ANSWER = "answer", _("Answer"), _("The answer to learn.")
    CHOSEN = "chosen", _("Chosen"), _("The better answer.")
    REJECTED = "rejected", _("Rejected"), _("The worse answer.")
    RATING = "rating", _("Rating"), _("Whether the answer is liked: true or false, 1 or 0, good or bad.")
    TOOLS = "tools", _("Tools"), _("Functions the assistant may call.")
    TEXT = "text", _("Text"), _("Plain text, learned from the first token to the last.")


CHAT_COLUMNS = (
    *(ColumnRole.CONVERSATION, ColumnRole.PROMPT, ColumnRole.INPUT, ColumnRole.ANSWER, ColumnRole.SYSTEM),
    *(ColumnRole.HISTORY, ColumnRole.TOOLS, ColumnRole.TEXT),
)
PREFERENCE_COLUMNS = (
    *(ColumnRole.CHOSEN, ColumnRole.REJECTED, ColumnRole.CONVERSATION, ColumnRole.PROMPT, ColumnRole.INPUT),
    *(ColumnRole.ANSWER, ColumnRole.RATING, ColumnRole.SYSTEM, ColumnRole.HISTORY, ColumnRole.TOOLS),
)


class Speaker(StrEnum):
    """The role of a message, as in `data.roles` and chat templates."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"

    @property
    def in_words(self) -> str:
        """The role in a sentence."""
        return {"system": _("the system prompt"), "user": _("the user"), "tool": _("a tool's answer")}.get(
            self.value, _("the assistant")
        )


DEVICE_KINDS = {"cuda": "CUDA", "mps": "MPS", "cpu": "CPU"}


def device_title(name: str) -> str:
    """Returns a device's kind and index: `CUDA 1`, `CUDA on workshop`; an unknown kind is returned unchanged."""
    there, _at, computers = name.partition("@")
    kind, _colon, index = there.partition(":")
    title = f"{DEVICE_KINDS[kind]} {index}".rstrip() if kind in DEVICE_KINDS else there
    if computers:
        title = _("{device} on {computers}").format(device=title, computers=computers.replace("+", " + "))
    return title


def model_title(short_name: str) -> str:
    """Returns the title of a model that Hone knows; other names are returned unchanged."""
    known = VISION_MODELS.get(short_name) or HUB_MODELS.get(short_name) or SCRATCH_MODELS.get(short_name)
    return known.title if known else short_name
