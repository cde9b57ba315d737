"""Ollama, GGUF and ONNX; stand-ins of llama.cpp's programs run in place of the real ones."""

import os
import re
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter, dequantize

from core.base import llama_cpp as services
from core.base.errors import ModelError
from core.engine.data.chat_tokens import set_template
from core.engine.export import gguf_files
from core.engine.export.job import NotTheSame, export
from core.engine.models.pretrained import load_tokenizer
from core.jobs.export import Compared, ExportKind, ExportReport, ExportRequest, NumberFormat
from core.options.choices import ChatTemplate
from core.runs.export_source import find_source
from core.runs.folder import RunFolder
from core.services.offers import numbers_refusal, refusal
from tests.fakes.exports import exported

QUANTIZER = """#!{python}
import shutil, sys
assert sys.argv[3] == "Q4_K_M"
shutil.copy(*sys.argv[1:3])
"""


INSTRUCTION = re.compile(
    r'(FROM|TEMPLATE|PARAMETER stop) (?:"""(?P<text>.*?)"""|"(?P<quoted>[^"\n]*)"|(?P<bare>[^"\s]+))\n',
    re.DOTALL,
)
"""Of a Modelfile, as https://docs.ollama.com/modelfile has it."""
LOOP = re.compile(r"{{ range .Messages }}(.*){{ end }}(.*)", re.DOTALL)
IF_ASSISTANT = re.compile(r'{{ if eq \.Role "assistant" }}(.*?){{ end }}')


def instructions(modelfile: str) -> list[tuple[str, str]]:
    """The instructions of a Modelfile that has nothing else."""
    found, place = [], 0
    while place < len(modelfile):
        read = INSTRUCTION.match(modelfile, place)
        assert read is not None, modelfile[place:]
        found.append(
            (read[1], next(text for text in read.group("text", "quoted", "bare") if text is not None))
        )
        place = read.end()
    return found


def test_ollama_gets_a_modelfile(talker, tmp_path):
    report = exported(talker[0], ExportKind.OLLAMA, tmp_path / "ollama")
    found = instructions((tmp_path / "ollama" / "Modelfile").read_text())
    assert found[0] == ("FROM", ".")
    assert ("PARAMETER stop", "<|endoftext|>") in found
    assert {name for name, _text in found} == {"FROM", "PARAMETER stop"}, (
        "Ollama takes the tokenizer's template"
    )
    assert "ollama show --template talk" in report.notes[-1]


@pytest.mark.parametrize("known", [(), ("<|im_end|>",)])
def test_a_modelfile_has_the_chat_template_that_hone_trains_with_and_its_end_stops(talker, tmp_path, known):
    run = RunFolder(Path(shutil.copytree(talker[0].path, tmp_path / "Talk-대화")))
    tokenizer = load_tokenizer(str(run.model))
    tokenizer.add_special_tokens({"additional_special_tokens": [*known]})
    set_template(tokenizer, ChatTemplate.CHATML)
    tokenizer.save_pretrained(run.model)
    report = exported(run, ExportKind.OLLAMA, tmp_path / "ollama")
    modelfile = (tmp_path / "ollama" / "Modelfile").read_text()
    found = instructions(modelfile)
    stops = {text for name, text in found if name == "PARAMETER stop"}
    assert stops == {"<|endoftext|>", "<|im_end|>"}
    [template] = [text for name, text in found if name == "TEMPLATE"]
    said = [
        {"role": role, "content": text}
        for role, text in (
            ("system", "Be kind."),
            ("user", "Hello!"),
            ("assistant", "Hi\n"),
            ("user", "Again."),
        )
    ]
    each, rest = LOOP.fullmatch(template).groups()
    assert "{{" not in re.sub(r"{{ \.(Role|Content) }}", "", IF_ASSISTANT.sub("", each)) + rest
    turns = []
    for turn in said:
        kept = IF_ASSISTANT.sub(r"\1" if turn["role"] == "assistant" else "", each)
        turns.append(kept.replace("{{ .Role }}", turn["role"]).replace("{{ .Content }}", turn["content"]))
    trained = tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=False)
    assert "".join((*turns, rest)) == trained
    assert "ollama create talk" in (tmp_path / "ollama" / "README.md").read_text()
    assert "ollama create talk" in report.code


@pytest.fixture
def llama_cpp(tmp_path, monkeypatch):
    """A folder of llama.cpp, which is all of it."""
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    return tmp_path


def gguf(talker: tuple[RunFolder, Any], into: Path, numbers=NumberFormat.AUTO) -> ExportReport:
    into.mkdir(exist_ok=True)
    asked = {"run": str(talker[0].path), "kind": ExportKind.GGUF, "numbers": numbers}
    return export(ExportRequest(staging=str(into), target="there", **asked), lambda _: None)


@pytest.fixture
def converter(llama_cpp):
    """A converter that writes what llama.cpp's does; returns its folder."""
    fake = Path(__file__).parents[3] / "fakes" / "convert_hf_to_gguf.py"
    shutil.copy(fake, llama_cpp)
    return llama_cpp


@pytest.mark.parametrize(
    ("numbers", "kinds"),
    [
        (NumberFormat.AUTO, {"F16", "F32"}),
        (NumberFormat.FP32, {"F32"}),
        (NumberFormat.Q8_0, {"Q8_0", "F32"}),
        (NumberFormat.Q4_0, {"Q4_0", "Q8_0", "F32"}),
    ],
)
def test_a_gguf_file_is_read_back_and_compared_with_the_model(talker, converter, numbers, kinds):
    into = converter / "gguf"
    report = exported(talker[0], ExportKind.GGUF, into, numbers)
    assert set(report.files) == {"talk.gguf", "README.md"}
    agreement = report.agreement
    assert (agreement.compared, agreement.examples) == (Compared.TOKENS, 16)
    assert (agreement.largest < 1e-5) is (numbers is NumberFormat.FP32)
    magic, version, tensors, fields = struct.unpack("<4sIQQ", (into / "talk.gguf").read_bytes()[:24])
    reader = GGUFReader(into / "talk.gguf")
    assert (magic, version, tensors) == (b"GGUF", 3, len(reader.tensors))
    assert fields == len([key for key in reader.fields if not key.startswith("GGUF.")])
    assert reader.fields["general.architecture"].contents() == "llama"
    assert {tensor.tensor_type.name for tensor in reader.tensors} == kinds
    assert reader.fields["tokenizer.ggml.tokens"].contents() == ["a", "ö"]
    card = (into / "README.md").read_text()
    assert (
        f"{agreement.equal} of {agreement.counted} tokens that the trained model writes are the same" in card
    )
    if not numbers.is_quantized:
        return
    assert f"{numbers} rounds the weights: read back" in card
    trained = talker[1].state_dict()["model.layers.1.mlp.down_proj.weight"].numpy()
    (read,) = [tensor for tensor in reader.tensors if tensor.name == "blk.1.ffn_down.weight"]
    blocks = trained.reshape(-1, 32)
    errors = np.abs(dequantize(read.data, read.tensor_type).reshape(-1, 32) - blocks)
    steps = np.abs(blocks).max(axis=1, keepdims=True) / (127 if numbers is NumberFormat.Q8_0 else 8)
    inside = np.sign(blocks) == np.sign(np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1))
    assert (errors / steps).max() <= (0.57 if numbers is NumberFormat.Q8_0 else 1.01)
    assert (errors / steps)[inside].max() <= 0.57, "a whole step only at the other sign of the largest"


def test_rows_without_whole_blocks_stay_in_fp16_and_a_tied_output_layer_keeps_8_bits(tmp_path):
    full, file = tmp_path / "tied.fp16", tmp_path / "tied.gguf"
    writer = GGUFWriter(full, "llama")
    for name, width in (("token_embd", 64), ("blk.0.ffn_down", 64), ("blk.0.ffn_up", 48)):
        writer.add_tensor(f"{name}.weight", np.sin(np.arange(4 * width, dtype=np.float16)).reshape(4, width))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    gguf_files._write_quantized(full, file, "Q4_0")
    kinds = [tensor.tensor_type.name for tensor in GGUFReader(file).tensors]
    assert kinds == ["Q8_0", "Q4_0", "F16"]
    assert 0.01 < gguf_files._rounding(full, file) < 0.1


def test_a_weight_that_was_written_wrong_is_found(talker, converter, monkeypatch):
    wrong = gguf_files._write_quantized

    def write(full: Path, file: Path, name: str) -> None:
        wrong(full, file, name)
        (tensor,) = [one for one in GGUFReader(file).tensors if one.name == "blk.1.ffn_down.weight"]
        content = bytearray(file.read_bytes())
        content[tensor.data_offset + 9] ^= 0x08
        file.write_bytes(content)

    monkeypatch.setattr(gguf_files, "_write_quantized", write)
    with pytest.raises(ModelError, match="differ from the trained ones"):
        gguf(talker, converter / "gguf", NumberFormat.Q8_0)


def test_a_tensor_in_the_wrong_place_is_found(talker, converter):
    script = converter / "convert_hf_to_gguf.py"
    script.write_text(script.read_text().replace('("q_proj.weight", "k_proj.weight")', '("q_proj.weight",)'))
    with pytest.raises(NotTheSame):
        gguf(talker, converter / "gguf", NumberFormat.Q8_0)


def test_q4_k_m_is_left_to_llama_quantize(talker, converter):
    assert "llama-quantize, which was not found" in numbers_refusal(ExportKind.GGUF, NumberFormat.Q4_K_M)
    assert not numbers_refusal(ExportKind.GGUF, NumberFormat.Q4_0)
    assert "Only GGUF" in numbers_refusal(ExportKind.FOLDER, NumberFormat.Q8_0)
    quantizer = converter / "llama-quantize"
    quantizer.write_text(QUANTIZER.format(python=sys.executable))
    quantizer.chmod(0o755)
    assert not numbers_refusal(ExportKind.GGUF, NumberFormat.Q4_K_M)
    report = exported(talker[0], ExportKind.GGUF, converter / "gguf", NumberFormat.Q4_K_M)
    assert set(report.files) == {"talk.gguf", "README.md"}
    assert "q4_k_m rounds the weights" in report.agreement.why
    quantizer.write_text(f"#!{sys.executable}\nraise SystemExit('no such type')")
    with pytest.raises(ModelError, match="could not convert") as failed:
        gguf(talker, converter / "again", NumberFormat.Q4_K_M)
    assert "no such type" in failed.value.detail


@pytest.mark.parametrize("is_bundle", [False, True])
def test_without_a_converter_or_python_gguf_is_refused(talker, converter, monkeypatch, is_bundle):
    source = find_source(talker[0])
    assert not refusal(source, ExportKind.GGUF)
    if is_bundle:
        monkeypatch.setattr(services, "is_frozen", lambda: True)
    else:
        (converter / "convert_hf_to_gguf.py").unlink()
    words = "converter needs Python" if is_bundle else "llama.cpp was not found"
    assert words in refusal(source, ExportKind.GGUF)


@pytest.mark.parametrize(
    ("script", "title", "detail"),
    [
        (
            'import sys; "--help" in sys.argv or sys.exit("LlamaForCausalLM is not supported")',
            "could not convert",
            "is not supported",
        ),
        ('import sys; sys.exit("numpy is too old")', "could not convert", "numpy is too old"),
        ("import no_such_module", "lacks its requirements", f"{sys.executable} has no module no_such_module"),
    ],
)
def test_a_converter_that_fails(talker, llama_cpp, script, title, detail):
    (llama_cpp / "convert_hf_to_gguf.py").write_text(script)
    refused_at_once = refusal(find_source(talker[0]), ExportKind.GGUF)
    assert (detail in refused_at_once) is ("--help" not in script), "the list of formats asks the converter"
    with pytest.raises(ModelError, match=title) as refused:
        gguf(talker, llama_cpp / "gguf")
    assert detail in refused.value.detail
    assert "Traceback" not in refused.value.detail
    assert f"{sys.executable} -m pip" not in refused.value.detail


def test_llama_cpp_has_an_environment_of_its_own(talker, llama_cpp, monkeypatch):
    """Its requirements may replace Hone's libraries."""
    (llama_cpp / "convert_hf_to_gguf.py").write_text("import no_such_module")
    said = refusal(find_source(talker[0]), ExportKind.GGUF)
    assert "-m venv .venv && " in said
    assert ".venv" in said.partition(" -m pip install")[0]
    python = llama_cpp / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("no program")
    assert (
        f"{python} doesn't start llama.cpp's converter (Permission denied). In llama.cpp's folder"
        in refusal(find_source(talker[0]), ExportKind.GGUF)
    )
    python.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    python.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(services, "CONVERTER_SECONDS", 0.2)
        assert "(no answer within 0 s)" in refusal(find_source(talker[0]), ExportKind.GGUF)
    python.write_text("#!/bin/sh\nexit 0\n")
    assert services.find_python() == str(python)
    if os.name != "nt":
        assert not refusal(find_source(talker[0]), ExportKind.GGUF)
