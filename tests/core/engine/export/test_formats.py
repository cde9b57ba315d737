"""Ollama, GGUF and ONNX; stand-ins of llama.cpp's programs run in place of the real ones."""

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from core.base.errors import ModelError
from core.engine.data.chat_tokens import set_template
from core.engine.export import formats
from core.engine.export.job import NotTheSame, export
from core.engine.export.verify import continued, find_rows
from core.engine.models.text import load_tokenizer
from core.options.choices import ChatTemplate
from core.runs.folder import RunFolder
from core.services.export import Compared, ExportKind, ExportReport, ExportRequest, find_source
from tests.fakes.exports import LABELS, exported

CONVERTER = """
import sys
assert sys.argv[2] == "--outfile" and sys.argv[4:] == ["--outtype", "auto"]
open(sys.argv[3], "w").write("GGUF of " + sys.argv[1])
"""
RUNNER = """#!{python}
import sys
prompt = sys.argv[sys.argv.index("-f") + 1]
said = {said}.get(open(prompt).read())
sys.stdout.buffer.write(b"half a letter: \\xe4" if said is None else said.encode() + b"\\n")
"""
SLEEPER = """#!{python}
import time
time.sleep(60)
"""


def test_onnx_answers_by_onnx_runtime(lora, tmp_path):
    report = exported(lora[0], ExportKind.ONNX, tmp_path / "onnx")
    assert json.loads((tmp_path / "onnx" / "labels.json").read_text()) == list(LABELS)
    assert {"model.onnx", "tokenizer.json", "README.md"} <= set(report.files)
    assert "model.safetensors" not in report.files
    session = onnxruntime.InferenceSession(str(tmp_path / "onnx" / "model.onnx"))
    assert session.get_inputs()[0].shape == ["batch", "sequence"]


def test_ollama_gets_a_modelfile(talker, tmp_path):
    report = exported(talker[0], ExportKind.OLLAMA, tmp_path / "ollama")
    lines = (tmp_path / "ollama" / "Modelfile").read_text().splitlines()
    assert lines[0] == "FROM ."
    assert 'PARAMETER stop "<|endoftext|>"' in lines
    assert not [line for line in lines if line.startswith("TEMPLATE")], "Ollama takes the tokenizer's"
    assert "ollama show --template talk" in report.notes[-1]


def test_a_modelfile_has_the_chat_template_that_hone_trains_with_and_its_end_stops(talker, tmp_path):
    run = RunFolder(Path(shutil.copytree(talker[0].path, tmp_path / "Talk")))
    tokenizer = load_tokenizer(str(run.model))
    set_template(tokenizer, ChatTemplate.CHATML)
    tokenizer.save_pretrained(run.model)
    report = exported(run, ExportKind.OLLAMA, tmp_path / "ollama")
    modelfile = (tmp_path / "ollama" / "Modelfile").read_text()
    assert '<|im_start|>assistant\n"""\n' in modelfile
    assert {'PARAMETER stop "<|endoftext|>"', 'PARAMETER stop "<|im_end|>"'} <= set(modelfile.splitlines())
    assert "ollama create talk" in (tmp_path / "ollama" / "README.md").read_text()
    assert "ollama create talk" in report.code


@pytest.fixture
def llama_cpp(tmp_path, monkeypatch):
    """A folder of llama.cpp with a converter."""
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    (tmp_path / "convert_hf_to_gguf.py").write_text(CONVERTER)
    return tmp_path


def gguf(talker: tuple[RunFolder, Any], into: Path) -> ExportReport:
    into.mkdir(exist_ok=True)
    asked = ExportRequest(run=str(talker[0].path), kind=ExportKind.GGUF, staging=str(into), target="there")
    return export(asked, lambda _: None)


@pytest.mark.parametrize("is_bundle", [False, True])
def test_without_a_converter_or_python_the_model_is_left_and_the_command(
    talker, llama_cpp, monkeypatch, is_bundle
):
    if is_bundle:
        monkeypatch.setattr(formats, "is_frozen", lambda: True)
    else:
        (llama_cpp / "convert_hf_to_gguf.py").unlink()
    report = exported(talker[0], ExportKind.GGUF, llama_cpp / "my gguf")
    assert "model.safetensors" in report.files
    command = shlex.split(report.notes[0].removeprefix("Then run: "))
    converter = str(llama_cpp / "convert_hf_to_gguf.py") if is_bundle else "convert_hf_to_gguf.py"
    assert command[1:3] == [converter, str(llama_cpp / "my gguf-there")]
    assert ("Python on the PATH" if is_bundle else "llama.cpp was not found") in report.missing


def test_a_converter_makes_one_file_of_the_model(talker, llama_cpp):
    report = gguf(talker, llama_cpp / "gguf")
    assert (llama_cpp / "gguf" / "talk.gguf").read_text() == f"GGUF of {llama_cpp / 'gguf'}"
    assert report.agreement is None
    assert report.unchecked.startswith("Not checked")
    assert set(report.files) == {"talk.gguf", "README.md"}


@pytest.mark.parametrize(
    ("converter", "title", "detail"),
    [
        (
            'import sys; sys.exit("LlamaForCausalLM is not supported")',
            "could not convert",
            "is not supported",
        ),
        ("import no_such_module", "lacks its requirements", f"{sys.executable} has no module no_such_module"),
    ],
)
def test_a_converter_that_fails(talker, llama_cpp, converter, title, detail):
    (llama_cpp / "convert_hf_to_gguf.py").write_text(converter)
    with pytest.raises(ModelError, match=title) as refused:
        gguf(talker, llama_cpp / "gguf")
    assert detail in refused.value.detail
    assert "Traceback" not in refused.value.detail


def test_a_gguf_file_is_asked_where_llama_cpp_can_run_it(talker, llama_cpp, monkeypatch):
    said = dict(formats.as_texts(continued(find_rows(find_source(talker[0])), talker[1])))
    runner = llama_cpp / "llama-cli"
    runner.write_text(RUNNER.format(python=sys.executable, said=said))
    runner.chmod(0o755)
    report = exported(talker[0], ExportKind.GGUF, llama_cpp / "gguf")
    assert report.agreement is not None
    assert (report.agreement.compared, report.agreement.equal) == (Compared.TEXTS, len(said))
    runner.write_text(RUNNER.format(python=sys.executable, said={}))
    with pytest.raises(NotTheSame):
        gguf(talker, llama_cpp / "gguf")
    runner.write_text(SLEEPER.format(python=sys.executable))
    monkeypatch.setattr(formats, "RUN_SECONDS", 0.1)
    report = gguf(talker, llama_cpp / "gguf")
    assert (report.agreement, "didn't answer in" in report.unchecked) == (None, True)
