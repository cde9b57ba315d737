"""Options of the model: which one, and which of its weights move."""

from typing import Annotated

from core.choices import Attention, Method, Quantization
from core.options.declaring import FOR_TEXT, WITH_LORA, Section, about


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
