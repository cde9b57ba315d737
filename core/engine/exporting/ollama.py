"""A model folder with a Modelfile beside, for `ollama create`.

What a Modelfile may say: https://docs.ollama.com/modelfile. Ollama itself is not run here.
"""

import re
from typing import Any

from core.choices import Task
from core.engine.exporting.folders import write_folder
from core.engine.exporting.turns import find_turns, renderer
from core.engine.exporting.written import Place, Tell, Written
from core.errors import Fix, ModelError
from core.export_offers import ExportSource
from core.processes import command_line

MODELFILE = "Modelfile"
QUOTES = '"""'
_SPECIAL = re.compile(r"<[^<>\s]{1,40}>|\[[A-Z_]{2,20}\]")


def write_ollama(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write the whole model and its Modelfile.

    Raises:
        ModelError: The model can't be read, or its chat template is none that can be written for Ollama.
    """
    from core.engine.models.text_models import load_tokenizer

    tokenizer = load_tokenizer(str(source.folder))
    template, marks = _template(source, tokenizer)  # before hours of copying
    written = write_folder(source, place, tell)
    stops = dict.fromkeys((*_ends(place, tokenizer), *marks))
    lines = [
        "FROM .",
        f"TEMPLATE {QUOTES}{template}{QUOTES}",
        *(f'PARAMETER stop "{stop}"' for stop in stops),
    ]
    (place.into / MODELFILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    name = source.run.name.lower()
    steps = (("cd", place.target), ("ollama", "create", name), ("ollama", "run", name))
    note = f"To use it: {', then '.join(command_line(*step) for step in steps)}"
    return Written(
        written.check, notes=(note, "Ollama itself was not asked: the weights it imports were checked.")
    )


def _template(source: ExportSource, tokenizer: Any) -> tuple[str, tuple[str, ...]]:
    """The template in Go's form, and what ends its answer or begins the next question: there it has to stop."""
    if source.options.task is Task.CAUSAL_LM or not tokenizer.chat_template:
        return "{{ .Prompt }}", ()
    turns = find_turns(renderer(tokenizer))
    template = "" if turns is None else turns.as_go()
    if turns is None or QUOTES in template:
        raise ModelError(
            "Its chat template can't be written for Ollama",
            "It writes more than something before and after each turn, and Ollama's templates are of another kind.",
            (Fix("Export GGUF: llama.cpp reads the template itself"),),
        )
    marks = (_SPECIAL.match(text.lstrip()) for text in (turns.assistant[1], turns.user[0]))
    return template, tuple(mark[0] for mark in marks if mark)


def _ends(place: Place, tokenizer: Any) -> list[str]:
    """The tokens the model stops at, as text; one that a Modelfile's line can't hold is left out."""
    from transformers import GenerationConfig

    ends: Any = None
    if (place.into / "generation_config.json").is_file():
        ends = GenerationConfig.from_pretrained(place.into).eos_token_id
    ids = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
    if tokenizer.eos_token_id is not None:
        ids.append(tokenizer.eos_token_id)
    return [text for text in tokenizer.convert_ids_to_tokens(ids) if text and _fits_a_line(text)]


def _fits_a_line(text: str) -> bool:
    return '"' not in text and text.splitlines() == [text]
