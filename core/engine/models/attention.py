"""Which of transformers' implementations of attention a model gets."""

from typing import Any

from core.choices import Attention
from core.engine.models.refusals import short_name
from core.errors import Fix, ModelError
from core.options import ModelOptions


def implementation_for(options: ModelOptions, config: Any, model_class: Any = None) -> str:
    """What to load a model with: always said outright, or its config.json would choose.

    sdpa is the default, so a model that has none runs its own in its place; the run states it.

    Args:
        options: What is asked.
        config: The model's.
        model_class: The class it will be; None: that of a classifier of texts.

    Raises:
        ModelError: FlashAttention was asked for by name, and the model has none.
    """
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING

    if model_class is None:
        model_class = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING[type(config)]
    match options.attention:
        case Attention.SDPA if not model_class._supports_sdpa:
            return Attention.EAGER.value
        case Attention.FLASH_2 | Attention.FLASH_3 if not model_class._supports_flash_attn:
            raise ModelError(
                f"{short_name(options.source)} has no {options.attention}",
                f"transformers has not written it for {model_class.__name__}.",
                (Fix("Use sdpa", {"model.attention": "sdpa"}),),
            )
    return options.attention.value
