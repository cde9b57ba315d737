"""A chat template as pieces of text around each turn, found by rendering conversations, and as Ollama wants it.

Most templates write the same before and after each turn. Which text that is shows where the contents are words that
can be found again. What is found is held against the template on more conversations; one that does more than that
(tools, thoughts, a date) is either the same on all of them, or refused.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2.exceptions import TemplateError

from core.base.errors import Fix, ModelError
from core.base.processes import command_line, foreign_environment, is_frozen
from core.engine.export.folders import BESIDE, copy_files, write_folder
from core.engine.export.verify import (
    APPLE,
    KERNELS,
    NotChecked,
    Place,
    Row,
    Rows,
    Tell,
    Written,
    by_logits,
    find_rows,
    load_trained,
    merged,
)
from core.options.choices import Task
from core.services import export as llama_cpp
from core.services.export import Agreement, Compared, ExportSource, NumberFormat

# --- GGUF by llama.cpp's own converter, where it is installed


OUT_TYPES = {NumberFormat.FP32: "f32", NumberFormat.BF16: "bf16", NumberFormat.FP16: "f16"}
BEGINNING = 4
"""So many tokens of an answer have to be the same: rounding changes what comes after, once it changes one."""
SHARE = 0.75
WHY = "Half precision and other kernels change an answer from where two tokens are nearly as likely."
RUN_SECONDS = 300
QUIETLY = ("--no-display-prompt", "-no-cnv", "--no-warmup")
LAST_LINES = 6
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
NO_PYTHON = (
    "llama.cpp's converter is a Python program, and there is no Python on the PATH: install one with llama.cpp's "
    "requirements."
)


def write_gguf(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write one GGUF file; without a converter or its Python the model folder it is made from, and how to go on.

    Raises:
        ModelError: The model can't be read, the converter doesn't know it, or its Python lacks what it takes.
    """
    converter, python = llama_cpp.find_converter(), _python()
    whole = write_folder(source, place, tell)
    name = f"{source.run.name}.gguf"
    if converter is None or python is None:
        script = converter or llama_cpp.CONVERTER
        command = command_line("python", script, place.target, "--outfile", place.target / name)
        why = llama_cpp.NOT_FOUND if converter is None else NO_PYTHON
        return Written(
            whole.check,
            notes=(f"Then run: {command}",),
            missing=f"The GGUF file is missing: {why} The model it is made from is here.",
        )
    tell("Converting to GGUF")
    _convert_to_gguf(python, converter, place, name)
    for path in place.into.iterdir():
        if path.name != name:
            path.unlink()  # all of it is in the one file
    runner = llama_cpp.find_runner()
    notes = (f"To use it: {command_line('llama-cli', '-m', place.target / name)}",)
    if runner is None:
        return Written(
            None, "Not checked: llama.cpp's llama-cli, which would answer with it, was not found.", notes
        )
    return Written(
        lambda rows, _before: _asked(runner, place.into / name, rows),
        "Not checked: no prompt is plain text.",
        notes,
    )


def _convert_to_gguf(python: str, converter: Path, place: Place, name: str) -> None:
    arguments = [
        str(place.into),
        "--outfile",
        str(place.into / name),
        "--outtype",
        OUT_TYPES.get(place.numbers, "auto"),
    ]
    done = subprocess.run(
        [python, str(converter), *arguments],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        env=foreign_environment(),
    )
    if done.returncode or not (place.into / name).is_file():
        if absent := _NO_MODULE.search(done.stderr):
            raise _without_requirements(python, absent[1])
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-LAST_LINES:])
        raise ModelError(
            "llama.cpp's converter could not make a GGUF file of this model", f"{converter} said:\n{said}"
        )


def _python() -> str | None:
    """What runs the converter: this Python; from the bundled program, which is none, the person's own, if any."""
    return shutil.which("python3") or shutil.which("python") if is_frozen() else sys.executable


def _without_requirements(python: str, module: str) -> ModelError:
    command = command_line(python, "-m", "pip", "install", "-r", "requirements.txt")
    another = ", or start Hone where the python3 on the PATH is one that has them" if is_frozen() else ""
    return ModelError(
        "The Python that runs llama.cpp's converter lacks its requirements",
        f"{python} has no module {module}. Install them, in llama.cpp's folder: {command}{another}",
    )


def _asked(runner: Path, file: Path, rows: Rows) -> Agreement | None:
    """Hold what llama.cpp writes after each prompt against what the trained model writes."""
    asked = as_texts(rows)
    if not asked:
        return None
    equal = sum(_is_alike(runner, file, ids, start, rows.tokenizer) for ids, start in asked)
    return Agreement(
        examples=len(asked),
        held_out=min(rows.held_out, len(asked)),
        compared=Compared.TEXTS,
        equal=equal,
        counted=len(asked),
        largest=None,
        allowed=None,
        why=WHY,
        holds=equal >= SHARE * len(asked),
    )


def as_texts(rows: Rows) -> list[tuple[list[int], int]]:
    """Tokens and the place of a prompt's last one, of the prompts that are the same tokens again once written out."""
    found = []
    for row in rows.rows:
        ids, start = row.inputs["input_ids"][0].tolist(), row.start or 0
        text = rows.tokenizer.decode(ids[: start + 1])
        again = rows.tokenizer(text, add_special_tokens=False)["input_ids"]
        if again == ids[: start + 1] and "\0" not in text:
            found.append((ids, start))
    return found


def _is_alike(runner: Path, file: Path, ids: list[int], start: int, tokenizer: Any) -> bool:
    """Whether llama.cpp goes on from a prompt with the same first tokens, as text.

    Raises:
        NotChecked: It gave no answer in time.
    """
    expected = tokenizer.decode(ids[start + 1 : start + 1 + BEGINNING], skip_special_tokens=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8", delete=False) as prompt:
        prompt.write(tokenizer.decode(ids[: start + 1]))
    try:
        asked = [
            str(runner),
            "-m",
            str(file),
            "-f",
            prompt.name,
            "-n",
            str(BEGINNING),
            "--temp",
            "0",
            *QUIETLY,
        ]
        done = subprocess.run(
            asked,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # the last token may hold half a character
            check=False,
            timeout=RUN_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        said = f"Not checked: {runner.name} gave no answer within {RUN_SECONDS} seconds."
        raise NotChecked(said) from error
    finally:
        Path(prompt.name).unlink()
    said = done.stdout.removesuffix("\n").removesuffix("[end of text]")
    return said.strip() == expected.strip()


# --- What ONNX and Core ML share: a model as a function of tensors


OUTPUT = "logits"


class Logits(torch.nn.Module):
    """A model as a plain function from tensors, in a fixed order, to logits.

    Args:
        model: Takes these by name.
        names: Their names, in order.
    """

    def __init__(self, model: Any, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Compute the logits."""
        logits: torch.Tensor = self.model(**dict(zip(self.names, tensors, strict=True)))["logits"]
        return logits


def names_of(rows: Rows) -> tuple[str, ...]:
    """What the model takes, in the order in which the graph does."""
    return tuple(rows.rows[0].inputs)


def sample(rows: Rows) -> tuple[torch.Tensor, ...]:
    """A batch of two to trace a graph with: of one, a tracer would take the size for a constant."""
    longest = max(rows.rows, key=_length)
    return tuple(torch.cat((value, value)) for value in longest.inputs.values())


def axes(rows: Rows) -> dict[str, dict[int, str]]:
    """Which dimensions of each input may have any size: the batch, and of texts the tokens."""
    is_text = "input_ids" in rows.rows[0].inputs
    return {name: {0: "batch", **({1: "tokens"} if is_text else {})} for name in names_of(rows)}


def _length(row: Row) -> int:
    return int(next(iter(row.inputs.values())).shape[1])


# --- A chat template as pieces of text around each turn, found by rendering conversations


Messages = Sequence[tuple[str, str]]
"""Roles and what they say."""
Render = Callable[[Messages, bool], str]
"""A conversation as text; whether it ends with what asks for an answer. Raises TemplateError where it refuses one."""

SYSTEM, FIRST, ANSWER, SECOND = "qqsystemqq", "qqfirstqq", "qqanswerqq", "qqsecondqq"


class SystemIn(Enum):
    """Where a system prompt stands: in a turn of its own, in the first or last question, or nowhere."""

    TURN = auto()
    FIRST = auto()
    LAST = auto()
    NOWHERE = auto()


@dataclass(frozen=True)
class Turns:
    """The text before and after each turn.

    `opening` stands first where there is no system prompt; `system` is what stands before and after one. `asking` comes
    at the end, for the model to answer.
    """

    opening: str
    system_in: SystemIn
    system: tuple[str, str]
    user: tuple[str, str]
    assistant: tuple[str, str]
    asking: str

    def write(self, messages: Messages) -> str:
        """A conversation that asks for an answer."""
        said = next((content for role, content in messages if role == "system"), "")
        turns = [(role, content) for role, content in messages if role != "system"]
        asked = [place for place, (role, _) in enumerate(turns) if role == "user"]
        holder = {SystemIn.FIRST: asked[:1], SystemIn.LAST: asked[-1:]}.get(self.system_in, [])
        own = said and self.system_in is SystemIn.TURN
        text = f"{self.system[0]}{said}{self.system[1]}" if own else self.opening
        for place, (role, content) in enumerate(turns):
            before, after = self.user if role == "user" else self.assistant
            within = f"{said}{self.system[1]}" if said and place in holder else ""
            text += f"{before}{within}{content}{after}"
        return text + self.asking

    def as_go(self) -> str:
        """The same as a template for Ollama: https://docs.ollama.com/modelfile#template, in Go's text/template."""
        opening, asking = _go(self.opening), _go(self.asking)
        before, after = map(_go, self.system)
        within = f"{{{{ $.System }}}}{after}{{{{ end }}}}"
        start, mark = "{{ range .Messages }}", ""
        match self.system_in:
            case SystemIn.TURN:
                otherwise = f"{{{{ else }}}}{opening}" if opening else ""
                opening = f"{{{{ if .System }}}}{before}{{{{ .System }}}}{after}{otherwise}{{{{ end }}}}"
                within = ""
            case SystemIn.FIRST:
                opening = f"{opening}{{{{ $first := true }}}}"
                within, mark = f"{{{{ if and $first $.System }}}}{within}", "{{ $first = false }}"
            case SystemIn.LAST:
                start = "{{ range $place, $_ := .Messages }}"
                within = f"{{{{ if and (eq (len (slice $.Messages $place)) 1) $.System }}}}{within}"
            case SystemIn.NOWHERE:
                within = ""
        user, assistant = tuple(map(_go, self.user)), tuple(map(_go, self.assistant))
        return (
            f'{opening}{start}{{{{ if eq .Role "user" }}}}{user[0]}{within}{mark}{{{{ .Content }}}}{user[1]}'
            f'{{{{ else if eq .Role "assistant" }}}}{assistant[0]}{{{{ .Content }}}}{assistant[1]}'
            f"{{{{ end }}}}{{{{ end }}}}{asking}"
        )


def _go(text: str) -> str:
    """A piece of text within a template of Go's."""
    return text.replace("{{", '{{ "{{" }}')


def renderer(tokenizer: Any) -> Render:
    """Renders by a tokenizer's template, without the token that Ollama puts before every text by itself."""
    begin = tokenizer.bos_token or ""

    def render(messages: Messages, ask: bool) -> str:
        told = [{"role": role, "content": content} for role, content in messages]
        text = str(tokenizer.apply_chat_template(told, tokenize=False, add_generation_prompt=ask))
        return text.removeprefix(begin) if begin else text

    return render


def find_turns(render: Render) -> Turns | None:
    """The pieces of a template; None where it writes more than such pieces."""
    try:
        found = _without_system(render)
    except (TemplateError, ValueError):
        return None
    return next((turns for turns in _with_system(found, render) if _agrees(turns, render)), None)


def _without_system(render: Render) -> Turns:
    asked = (("user", FIRST), ("assistant", ANSWER), ("user", SECOND))
    head, middle, between, end = _cut(render(asked, True), FIRST, ANSWER, SECOND)
    _, after_user = _cut(render(asked[:1], False), FIRST)
    after_answer = _cut(render(asked[:2], False), FIRST, ANSWER)[2]
    user_after = (
        after_user if middle.startswith(after_user) and end.startswith(after_user) else _common(middle, end)
    )
    user_before = between.removeprefix(after_answer)
    if not (between.startswith(after_answer) and head.endswith(user_before)):
        user_before = _common(head[::-1], between[::-1])[::-1]
    return Turns(
        opening=head[: len(head) - len(user_before)],
        system_in=SystemIn.NOWHERE,
        system=("", ""),
        user=(user_before, user_after),
        assistant=(middle[len(user_after) :], between[: len(between) - len(user_before)]),
        asking=end[len(user_after) :],
    )


def _with_system(found: Turns, render: Render) -> Iterator[Turns]:
    """The same with what stands around a system prompt, all that it may be."""
    try:
        before, after, _ = _cut(render((("system", SYSTEM), ("user", FIRST)), True), SYSTEM, FIRST)
    except (TemplateError, ValueError):
        yield found
        return
    if after.endswith(found.user[0]):
        rest = after[: len(after) - len(found.user[0])]
        yield _replaced(found, SystemIn.TURN, (before, rest))
    for where in (SystemIn.FIRST, SystemIn.LAST):
        yield _replaced(found, where, ("", after))


def _replaced(found: Turns, where: SystemIn, system: tuple[str, str]) -> Turns:
    return Turns(found.opening, where, system, found.user, found.assistant, found.asking)


def _agrees(turns: Turns, render: Render) -> bool:
    """Whether the pieces make what the template makes."""
    talk = (
        ("user", "How are you?"),
        ("assistant", "Fine."),
        ("user", "Good."),
        ("assistant", "Yes."),
        ("user", "Bye"),
    )
    spoken = [talk[:1], talk[:3], talk]
    if turns.system_in is not SystemIn.NOWHERE:
        spoken += [(("system", "Be short."), *some) for some in spoken]
    try:
        return all(render(some, True) == turns.write(some) for some in spoken)
    except TemplateError:
        return False


def _cut(text: str, *marks: str) -> list[str]:
    """What stands before, between and after some words.

    Raises:
        ValueError: One of them isn't there.
    """
    pieces = []
    for mark in marks:
        before, found, text = text.partition(mark)
        if not found:
            raise ValueError(mark)
        pieces.append(before)
    return [*pieces, text]


def _common(one: str, other: str) -> str:
    """What two texts begin with."""
    length = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[: min(len(one), len(other)) if length is None else length]


# --- Core ML by Apple's coremltools, on a Mac where it is installed


PACKAGE = "model.mlpackage"
LONGEST = 512
"""Tokens a text may have: Core ML wants to know the most."""


def write_coreml(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write the model as an ML program that takes one example, a text of up to 512 tokens or an image.

    Raises:
        ModelError: The model can't be read, or coremltools can't convert it.
    """
    tell("Loading the model")
    model = merged(load_trained(source))
    rows = find_rows(source)
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager")
    tell("Converting to Core ML")
    try:
        _convert_to_coreml(model, rows, place.into / PACKAGE)
    except (RuntimeError, ValueError, NotImplementedError, TypeError) as error:
        raise ModelError(
            "coremltools can't convert this model", str(error).strip().partition("\n")[0]
        ) from error
    copy_files(source.folder, place.into, (*BESIDE, "config.json"))
    note = f"Inputs: {', '.join(names_of(rows))}; output: {OUTPUT}. One example at a time, fp32."
    return Written(
        by_logits(source.options.task, APPLE, lambda given: _run_coreml(place.into / PACKAGE, given)),
        notes=(note,),
    )


def _convert_to_coreml(model: Any, rows: Rows, path: Path) -> None:
    import coremltools

    names = names_of(rows)
    one = tuple(value[:1] for value in sample(rows))
    traced = torch.jit.trace(Logits(model, names).eval(), one, strict=False)
    converted = coremltools.convert(
        traced,
        convert_to="mlprogram",
        inputs=[_input(coremltools, name, value) for name, value in zip(names, one, strict=True)],
        outputs=[coremltools.TensorType(name=OUTPUT)],
        compute_precision=coremltools.precision.FLOAT32,
    )
    converted.save(str(path))


def _input(coremltools: Any, name: str, value: torch.Tensor) -> Any:
    if value.dtype == torch.long:
        shape = (1, coremltools.RangeDim(lower_bound=1, upper_bound=LONGEST, default=value.shape[1]))
        return coremltools.TensorType(name=name, shape=shape, dtype=np.int32)
    return coremltools.TensorType(name=name, shape=tuple(value.shape), dtype=np.float32)


def _run_coreml(path: Path, rows: Rows) -> list[torch.Tensor]:
    import coremltools

    model = coremltools.models.MLModel(str(path))
    found = []
    for row in rows.rows:
        given = {
            name: value.numpy().astype(np.int32 if value.dtype == torch.long else np.float32)
            for name, value in row.inputs.items()
        }
        found.append(torch.from_numpy(np.asarray(model.predict(given)[OUTPUT]))[0].float())
    return found


# --- A model folder with a Modelfile beside, for `ollama create`


MODELFILE = "Modelfile"
QUOTES = '"""'
_SPECIAL = re.compile(r"<[^<>\s]{1,40}>|\[[A-Z_]{2,20}\]")


def write_ollama(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write the whole model and its Modelfile.

    Raises:
        ModelError: The model can't be read, or its chat template is none that can be written for Ollama.
    """
    from core.engine.models.text import load_tokenizer

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


# --- ONNX by torch's own exporter (https://docs.pytorch.org/docs/stable/onnx_export.html)


GRAPH = "model.onnx"


def write_onnx(source: ExportSource, place: Place, tell: Tell) -> Written:
    """Write the model as one graph for any number of examples, of texts of any length, and its tokenizer beside.

    Raises:
        ModelError: The model can't be read, or computes something that ONNX has no words for.
    """
    tell("Loading the model")
    model = merged(load_trained(source))
    rows = find_rows(source)
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation("eager")  # masks of the other kinds depend on what is masked
    tell("Writing the graph")
    _export(model, rows, place.into / GRAPH)
    copy_files(source.folder, place.into, (*BESIDE, "config.json"))
    labels = getattr(getattr(model, "config", None), "id2label", None)
    if labels and source.options.task.has_labels:
        (place.into / "labels.json").write_text(
            json.dumps([labels[place] for place in sorted(labels)], indent=2)
        )
    names = ", ".join(names_of(rows))
    note = f"Inputs: {names}; output: {OUTPUT}. Batches of any size, fp32."
    return Written(
        by_logits(source.options.task, KERNELS, lambda given: _run_onnx(place.into / GRAPH, given)),
        notes=(note,),
    )


def _export(model: Any, rows: Rows, path: Path) -> None:
    names, dynamic = names_of(rows), axes(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's and onnxscript's about each other
        try:
            torch.onnx.export(
                Logits(model, names).eval(),
                sample(rows),
                str(path),
                input_names=list(names),
                output_names=[OUTPUT],
                dynamic_shapes=(
                    tuple(dict.fromkeys(dynamic[name], torch.export.Dim.DYNAMIC) for name in names),
                ),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            said = str(error.__cause__ or error).strip().splitlines()
            raise ModelError(
                "This model can't be written as ONNX", said[0] if said else type(error).__name__
            ) from error


def _run_onnx(path: Path, rows: Rows) -> list[torch.Tensor]:
    """The logits of each example by ONNX Runtime, every other one asked as the second of a batch of two."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = [one.name for one in session.get_inputs()]
    found = []
    for number, row in enumerate(rows.rows):
        times = 1 + number % 2
        given = {name: row.inputs[name].expand(times, *row.inputs[name].shape[1:]).numpy() for name in wanted}
        found.append(torch.from_numpy(session.run([OUTPUT], given)[0])[-1].float())
    return found
