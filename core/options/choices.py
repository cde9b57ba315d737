"""The fixed values some options take, each with its label and a sentence of help."""

from enum import StrEnum
from typing import Self

from core.options.sources import VISION_TITLES

# --- The fixed values some options take, each with its label and a sentence of help


class Described(StrEnum):
    """Each member has its own label and sentence of help: equal strings of two enumerations are one key of a dict."""

    label: str
    help: str

    def __new__(cls, value: str, label: str = "", help: str = "") -> Self:
        """The defaults are for type checkers, to whom `Task("chat")` is such a call."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.label, member.help = label, help
        return member


class Task(Described):
    """What the model learns to do."""

    TEXT_CLASSIFICATION = (
        "text-classification",
        "Text classification",
        "Give each text, or each pair of texts, a label.",
    )
    TEXT_REGRESSION = (
        "text-regression",
        "Text scoring",
        "Give each text, or each pair of texts, a number (regression).",
    )
    TOKEN_CLASSIFICATION = (
        "token-classification",
        "Word labelling",
        "Give each word of a text a label, such as names (NER).",
    )
    CAUSAL_LM = "causal-lm", "Continue a text", "Go on writing in the way of the texts it has read."
    CHAT = "chat", "Chat", "Answer as in the conversations or instructions it has read."
    PREFERENCE = "preference", "Preferences", "Prefer the better of two answers (DPO)."
    IMAGE_CLASSIFICATION = "image-classification", "Image classification", "Give each image a label."

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


class Toggle(Described):
    """On, off, or whatever suits this machine. A run file may say true and false too."""

    AUTO = "auto", "Automatic", "Hone decides by the data and this machine."
    ON = "on", "On", "Always."
    OFF = "off", "Off", "Never."


class Method(Described):
    """Which weights move."""

    FULL = "full", "Everything", "All weights move: the most a model can learn, and the most memory."
    LORA = (
        "lora",
        "LoRA",
        "The model is frozen; small matrices beside its layers learn. A fraction of the memory, nearly the result.",
    )
    QLORA = (
        "qlora",
        "QLoRA",
        "LoRA on a model whose frozen weights are packed into 4 or 8 bits: the least memory, somewhat slower.",
    )
    HEAD = "head", "Last layer", "The model is frozen, only its classifier learns: fast, for a first look."


class Quantization(Described):
    """What QLoRA packs the frozen weights into."""

    NF4 = "nf4", "nf4", "4 bits a weight, spaced as weights are spread."
    INT8 = "int8", "int8", "8 bits a weight, outliers kept in half precision."


class Attention(Described):
    """How attention is computed; the names are those of transformers."""

    SDPA = "sdpa", "sdpa", "PyTorch's own, which picks the fastest kernel this device has."
    EAGER = "eager", "eager", "Written out step by step: slower, holds the whole table of scores."
    FLASH_2 = (
        "flash_attention_2",
        "FlashAttention 2",
        "From its own package, on NVIDIA GPUs from Ampere on, in bf16 or fp16.",
    )
    FLASH_3 = (
        "flash_attention_3",
        "FlashAttention 3",
        "From its own package, on NVIDIA's Hopper GPUs, in bf16 or fp16.",
    )


class Padding(Described):
    """How long the rows of a batch are made."""

    DYNAMIC = (
        "dynamic",
        "To the batch's longest",
        "Each batch is as long as its longest text: the least waste.",
    )
    FIXED = (
        "fixed",
        "To the longest text allowed",
        "Every row has the same length, as the published scripts do it.",
    )


class ChatTemplate(Described):
    """How a conversation is written as one text."""

    AUTO = "auto", "The model's own", "ChatML where the model has none."
    CHATML = "chatml", "ChatML", "Each turn between <|im_start|> and <|im_end|>, whatever the model knows."


class LossOn(Described):
    """Which tokens of a conversation the model learns to say."""

    ANSWERS = "answers", "Answers only", "Questions are read, answers are learned: the usual choice."
    EVERYTHING = "everything", "Everything", "The model learns to write questions, too."


class Precision(Described):
    """Number format of the forward and backward passes; the weights themselves stay fp32."""

    AUTO = (
        "auto",
        "Automatic",
        "bf16 where this device computes it in hardware, fp16 on NVIDIA GPUs from Volta on, else fp32.",
    )
    FP32 = "fp32", "fp32", "Full precision: slowest, never a surprise."
    TF32 = (
        "tf32",
        "tf32",
        "fp32 weights and activations, multiplied with 10 bits of precision on NVIDIA GPUs from Ampere on.",
    )
    BF16 = "bf16", "bf16", "Half the activation memory, the range of fp32; needs no loss scaling."
    FP16 = "fp16", "fp16", "Half the activation memory with loss scaling; needs a GPU."


class DeepSpeed(Described):
    """How DeepSpeed's ZeRO divides what training holds."""

    OFF = "off", "Off", "The model fits on the device: nothing to gain."
    ZERO_2 = "zero-2", "ZeRO-2", "Gradients and optimizer state can be put elsewhere."
    ZERO_3 = "zero-3", "ZeRO-3", "The weights too; slower, for models that fit in no other way."


class Offload(Described):
    """Where ZeRO puts what the GPU doesn't need at the moment."""

    NONE = "none", "Nowhere", "All stays on the device."
    CPU = "cpu", "Main memory", "Optimizer state (ZeRO-3: weights too) waits in the computer's memory."
    NVME = "nvme", "Disk", "It waits in files on a fast NVMe disk: the slowest, and the largest models."


class Optimizer(Described):
    """How gradients move the weights."""

    ADAMW = "adamw", "AdamW", "The usual one; 8 bytes of state a weight. Fused where this device has it."
    ADAM = "adam", "Adam", "As AdamW, its weight decay mixed into the gradient."
    ADAFACTOR = (
        "adafactor",
        "Adafactor",
        "State by rows and columns: almost no memory, sometimes slower to learn.",
    )
    ADAMW_8BIT = "adamw-8bit", "AdamW, 8-bit", "State in 2 bytes a weight, by bitsandbytes."
    PAGED_ADAMW_8BIT = (
        "paged-adamw-8bit",
        "AdamW, 8-bit, paged",
        "The same, moved to main memory while the GPU is short of it.",
    )
    ADAMW_8BIT_TORCHAO = (
        "adamw-8bit-torchao",
        "AdamW, 8-bit (torchao)",
        "The same idea by torchao, compiled at the first step.",
    )
    LION_8BIT = (
        "lion-8bit",
        "Lion, 8-bit",
        "One 8-bit number of state a weight; wants a 3 to 10 times lower rate.",
    )
    ADEMAMIX = (
        "ademamix",
        "AdEMAMix",
        "AdamW with a second, longer memory of gradients; 12 bytes of state a weight.",
    )
    SGD = "sgd", "SGD", "Gradient descent with momentum: 4 bytes of state a weight, none without momentum."


class Schedule(Described):
    """How the learning rate moves after the warm-up."""

    LINEAR = "linear", "Linear", "Falls in a straight line to zero."
    COSINE = "cosine", "Cosine", "Falls along half a cosine to zero: slow, fast, slow."
    POLYNOMIAL = "polynomial", "Polynomial", "Falls along a power of the time left."
    INVERSE_SQRT = "inverse-sqrt", "Inverse square root", "Falls as one over the root of the step."
    CONSTANT = "constant", "Constant", "Stays where it is."


FP16_NEEDS_GPU = "needs a GPU: PyTorch has no fp16 training on the CPU"


# --- The words conversations are described with: what a column of a table can be


class ColumnRole(StrEnum):
    """What a column of a table holds, as `data.columns` names it."""

    CONVERSATION = "conversation"
    SYSTEM = "system"
    PROMPT = "prompt"
    INPUT = "input"
    HISTORY = "history"
    ANSWER = "answer"
    CHOSEN = "chosen"
    REJECTED = "rejected"
    TOOLS = "tools"
    TEXT = "text"


COLUMN_TITLES: dict[ColumnRole, tuple[str, str]] = {
    ColumnRole.CONVERSATION: ("Conversation", "A list of messages, each with who speaks and what is said."),
    ColumnRole.SYSTEM: ("System prompt", "What the assistant is told before the conversation begins."),
    ColumnRole.PROMPT: ("Question", "What is asked: an instruction, a question, a prompt."),
    ColumnRole.INPUT: ("Input", "What the question is about; it follows the question."),
    ColumnRole.HISTORY: ("Earlier turns", "A list of question and answer, said before the question."),
    ColumnRole.ANSWER: ("Answer", "What the model learns to say."),
    ColumnRole.CHOSEN: ("Better answer", "The answer to prefer."),
    ColumnRole.REJECTED: ("Worse answer", "The answer to turn away from."),
    ColumnRole.TOOLS: ("Tools", "A list of functions the assistant may call."),
    ColumnRole.TEXT: ("Text", "A plain text, learned from its first word to its last."),
}
"""Title and one sentence of each."""

CHAT_COLUMNS = (
    *(ColumnRole.CONVERSATION, ColumnRole.PROMPT, ColumnRole.INPUT, ColumnRole.ANSWER, ColumnRole.SYSTEM),
    *(ColumnRole.HISTORY, ColumnRole.TOOLS, ColumnRole.TEXT),
)
PREFERENCE_COLUMNS = (
    *(ColumnRole.CHOSEN, ColumnRole.REJECTED, ColumnRole.CONVERSATION, ColumnRole.PROMPT, ColumnRole.INPUT),
    *(ColumnRole.SYSTEM, ColumnRole.HISTORY, ColumnRole.TOOLS),
)


class Speaker(StrEnum):
    """Who says a message, as `data.roles` names it and as chat templates know it."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"

    @property
    def in_words(self) -> str:
        """What a sentence calls them."""
        return {"system": "the system prompt", "user": "the user", "tool": "a tool's answer"}.get(
            self.value, "the assistant"
        )


# --- What devices are called on screen


DEVICE_KINDS = {"cuda": "CUDA", "mps": "MPS", "cpu": "CPU"}


def device_title(name: str) -> str:
    """A device's kind and, where it has one, its number: `CUDA 1`; a name of no known kind stays as it is."""
    kind, _, index = name.partition(":")
    return f"{DEVICE_KINDS[kind]} {index}".rstrip() if kind in DEVICE_KINDS else name


# --- What models are called on screen


def model_title(short_name: str) -> str:
    """A model's name as its makers write it, where it is one of torchvision's."""
    return VISION_TITLES.get(short_name, short_name)
