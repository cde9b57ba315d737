"""The fixed values some options take, each with its title and a sentence of help."""

from enum import StrEnum


class Task(StrEnum):
    """What the model learns to do."""

    TEXT_CLASSIFICATION = "text-classification"
    TEXT_REGRESSION = "text-regression"
    TOKEN_CLASSIFICATION = "token-classification"
    CAUSAL_LM = "causal-lm"
    CHAT = "chat"
    PREFERENCE = "preference"
    IMAGE_CLASSIFICATION = "image-classification"

    @property
    def reads_images(self) -> bool:
        """Whether samples are images."""
        return self is Task.IMAGE_CLASSIFICATION

    @property
    def reads_text(self) -> bool:
        """Whether samples are tokens of texts."""
        return not self.reads_images

    @property
    def has_labels(self) -> bool:
        """Whether the model tells apart classes with names."""
        return self in (Task.TEXT_CLASSIFICATION, Task.TOKEN_CLASSIFICATION, Task.IMAGE_CLASSIFICATION)

    @property
    def writes_text(self) -> bool:
        """Whether the model says the next token: a causal language model."""
        return self in (Task.CAUSAL_LM, Task.CHAT, Task.PREFERENCE)

    @property
    def reads_conversations(self) -> bool:
        """Whether samples are conversations, or pairs of them."""
        return self in (Task.CHAT, Task.PREFERENCE)


class Toggle(StrEnum):
    """On, off, or whatever suits this machine. A run file may say true and false too."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class Method(StrEnum):
    """Which weights move."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"
    HEAD = "head"


class Quantization(StrEnum):
    """What QLoRA packs the frozen weights into."""

    NF4 = "nf4"
    INT8 = "int8"


class Attention(StrEnum):
    """How attention is computed; the names are those of transformers."""

    SDPA = "sdpa"
    EAGER = "eager"
    FLASH_2 = "flash_attention_2"
    FLASH_3 = "flash_attention_3"


class Padding(StrEnum):
    """How long the rows of a batch are made."""

    DYNAMIC = "dynamic"
    FIXED = "fixed"


class ChatTemplate(StrEnum):
    """How a conversation is written as one text."""

    AUTO = "auto"
    CHATML = "chatml"


class LossOn(StrEnum):
    """Which tokens of a conversation the model learns to say."""

    ANSWERS = "answers"
    EVERYTHING = "everything"


class Precision(StrEnum):
    """Number format of the forward and backward passes; the weights themselves stay fp32."""

    AUTO = "auto"
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"


class DeepSpeed(StrEnum):
    """How DeepSpeed's ZeRO divides what training holds."""

    OFF = "off"
    ZERO_2 = "zero-2"
    ZERO_3 = "zero-3"


class Offload(StrEnum):
    """Where ZeRO puts what the GPU doesn't need at the moment."""

    NONE = "none"
    CPU = "cpu"
    NVME = "nvme"


class Optimizer(StrEnum):
    """How gradients move the weights."""

    ADAMW = "adamw"
    ADAM = "adam"
    ADAFACTOR = "adafactor"
    ADAMW_8BIT = "adamw-8bit"
    PAGED_ADAMW_8BIT = "paged-adamw-8bit"
    ADAMW_8BIT_TORCHAO = "adamw-8bit-torchao"
    LION_8BIT = "lion-8bit"
    ADEMAMIX = "ademamix"
    SGD = "sgd"


class Schedule(StrEnum):
    """How the learning rate moves after the warm-up."""

    LINEAR = "linear"
    COSINE = "cosine"
    POLYNOMIAL = "polynomial"
    INVERSE_SQRT = "inverse-sqrt"
    CONSTANT = "constant"


FP16_NEEDS_GPU = "needs a GPU: PyTorch has no fp16 training on the CPU"

TITLES: dict[StrEnum, tuple[str, str]] = {
    Task.TEXT_CLASSIFICATION: ("Text classification", "Give each text, or each pair of texts, a label."),
    Task.TEXT_REGRESSION: ("Text scoring", "Give each text, or each pair of texts, a number (regression)."),
    Task.TOKEN_CLASSIFICATION: ("Word labelling", "Give each word of a text a label, such as names (NER)."),
    Task.CAUSAL_LM: ("Continue a text", "Go on writing in the way of the texts it has read."),
    Task.CHAT: ("Chat", "Answer as in the conversations or instructions it has read."),
    Task.PREFERENCE: ("Preferences", "Prefer the better of two answers (DPO)."),
    Task.IMAGE_CLASSIFICATION: ("Image classification", "Give each image a label."),
    Toggle.AUTO: ("Automatic", "Whatever suits this machine; the run says what it came to."),
    Toggle.ON: ("On", "Always."),
    Toggle.OFF: ("Off", "Never."),
    Method.FULL: ("Everything", "All weights move: the most a model can learn, and the most memory."),
    Method.LORA: (
        "LoRA",
        "The model is frozen; small matrices beside its layers learn. A fraction of the memory, nearly the result.",
    ),
    Method.QLORA: (
        "QLoRA",
        "LoRA on a model whose frozen weights are packed into 4 or 8 bits: the least memory, somewhat slower.",
    ),
    Method.HEAD: ("Last layer", "The model is frozen, only its classifier learns: fast, for a first look."),
    Quantization.NF4: ("nf4", "4 bits a weight, spaced as weights are spread."),
    Quantization.INT8: ("int8", "8 bits a weight, outliers kept in half precision."),
    Attention.SDPA: ("sdpa", "PyTorch's own, which picks the fastest kernel this device has."),
    Attention.EAGER: ("eager", "Written out step by step: slower, holds the whole table of scores."),
    Attention.FLASH_2: (
        "FlashAttention 2",
        "From its own package, on NVIDIA GPUs from Ampere on, in bf16 or fp16.",
    ),
    Attention.FLASH_3: (
        "FlashAttention 3",
        "From its own package, on NVIDIA's Hopper GPUs, in bf16 or fp16.",
    ),
    Padding.DYNAMIC: (
        "To the batch's longest",
        "Each batch is as long as its longest text: the least waste.",
    ),
    Padding.FIXED: (
        "To the longest text allowed",
        "Every row has the same length, as the published scripts do it.",
    ),
    ChatTemplate.AUTO: ("The model's own", "ChatML where the model has none."),
    ChatTemplate.CHATML: (
        "ChatML",
        "Each turn between <|im_start|> and <|im_end|>, whatever the model knows.",
    ),
    LossOn.ANSWERS: ("Answers only", "Questions are read, answers are learned: the usual choice."),
    LossOn.EVERYTHING: ("Everything", "The model learns to write questions, too."),
    Precision.AUTO: (
        "Automatic",
        "bf16 where this device computes it in hardware, fp16 on NVIDIA GPUs from Volta on, else fp32.",
    ),
    Precision.FP32: ("fp32", "Full precision: slowest, never a surprise."),
    Precision.TF32: (
        "tf32",
        "fp32 weights and activations, multiplied with 10 bits of precision on NVIDIA GPUs from Ampere on.",
    ),
    Precision.BF16: ("bf16", "Half the activation memory, the range of fp32; needs no loss scaling."),
    Precision.FP16: ("fp16", "Half the activation memory with loss scaling; needs a GPU."),
    DeepSpeed.OFF: ("Off", "The model fits on the device: nothing to gain."),
    DeepSpeed.ZERO_2: ("ZeRO-2", "Gradients and optimizer state can be put elsewhere."),
    DeepSpeed.ZERO_3: ("ZeRO-3", "The weights too; slower, for models that fit in no other way."),
    Offload.NONE: ("Nowhere", "All stays on the device."),
    Offload.CPU: ("Main memory", "Optimizer state (ZeRO-3: weights too) waits in the computer's memory."),
    Offload.NVME: ("Disk", "It waits in files on a fast NVMe disk: the slowest, and the largest models."),
    Optimizer.ADAMW: ("AdamW", "The usual one; 8 bytes of state a weight. Fused where this device has it."),
    Optimizer.ADAM: ("Adam", "As AdamW, its weight decay mixed into the gradient."),
    Optimizer.ADAFACTOR: (
        "Adafactor",
        "State by rows and columns: almost no memory, sometimes slower to learn.",
    ),
    Optimizer.ADAMW_8BIT: ("AdamW, 8-bit", "State in 2 bytes a weight, by bitsandbytes."),
    Optimizer.PAGED_ADAMW_8BIT: (
        "AdamW, 8-bit, paged",
        "The same, moved to main memory while the GPU is short of it.",
    ),
    Optimizer.ADAMW_8BIT_TORCHAO: (
        "AdamW, 8-bit (torchao)",
        "The same idea by torchao, compiled at the first step.",
    ),
    Optimizer.LION_8BIT: (
        "Lion, 8-bit",
        "One 8-bit number of state a weight; wants a 3 to 10 times lower rate.",
    ),
    Optimizer.ADEMAMIX: (
        "AdEMAMix",
        "AdamW with a second, longer memory of gradients; 12 bytes of state a weight.",
    ),
    Optimizer.SGD: (
        "SGD",
        "Gradient descent with momentum: 4 bytes of state a weight, none without momentum.",
    ),
    Schedule.LINEAR: ("Linear", "Falls in a straight line to zero."),
    Schedule.COSINE: ("Cosine", "Falls along half a cosine to zero: slow, fast, slow."),
    Schedule.POLYNOMIAL: ("Polynomial", "Falls along a power of the time left."),
    Schedule.INVERSE_SQRT: ("Inverse square root", "Falls as one over the root of the step."),
    Schedule.CONSTANT: ("Constant", "Stays where it is."),
}
"""Title and one-sentence help of every choice of every enumeration above."""
