"""What Ollama and llama.cpp take; neither is run, stand-ins of llama.cpp's programs are."""

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import ModelError
from core.engine.export import formats
from core.engine.export.job import NotTheSame, export
from core.options.choices import Task
from core.runs.folder import RunFolder
from core.services.export import Compared, ExportKind, ExportRequest
from tests.fakes.chat_templates import BRACKETS, DIARY
from tests.fakes.exporting import exported
from tests.fakes.finished_runs import finished_run, with_model
from tests.fakes.tiny_talker import save_tiny_talker


def test_ollama_gets_a_modelfile(talker: tuple[RunFolder, Any], tmp_path: Path) -> None:
    exported(talker[0], ExportKind.OLLAMA, tmp_path / "ollama")
    lines = (tmp_path / "ollama" / "Modelfile").read_text()
    assert lines.startswith('FROM .\nTEMPLATE """{{ if .System }}<system>{{ .System }}</s>\n{{ end }}')
    assert '<assistant>"""\n' in lines
    assert 'PARAMETER stop "<|endoftext|>"\n' in lines
    assert 'PARAMETER stop "<user>"\n' in lines
    assert "SYSTEM" not in lines


@pytest.mark.parametrize("template", [DIARY, BRACKETS + "{{ messages | length }}"])
def test_a_template_beyond_ollamas_is_refused(tmp_path: Path, template: str) -> None:
    run, options = finished_run(tmp_path / "run", Task.CHAT, save_tiny_talker(tmp_path / "base", template))
    with_model(run, options)
    (tmp_path / "out").mkdir()
    asked = ExportRequest(
        run=str(run.path), kind=ExportKind.OLLAMA, staging=str(tmp_path / "out"), target="there"
    )
    with pytest.raises(ModelError, match="can't be written for Ollama"):
        export(asked, lambda _: None)


def test_what_a_modelfiles_line_cant_hold_is_no_stop() -> None:
    assert [text for text in ("</s>", "<\n>", 'a "b"', "\u2028", " ") if formats._fits_a_line(text)] == [
        "</s>",
        " ",
    ]


def test_without_a_converter_the_model_is_left_and_what_to_do(
    talker: tuple[RunFolder, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", "")
    report = exported(talker[0], ExportKind.GGUF, tmp_path / "my gguf")
    assert "model.safetensors" in report.files
    command = shlex.split(report.notes[0].removeprefix("Then run: "))
    assert command[1:3] == ["convert_hf_to_gguf.py", str(tmp_path / "my gguf-there")]
    assert "llama.cpp" in report.missing


CONVERTER = """
import sys
assert sys.argv[2] == "--outfile" and sys.argv[4:] == ["--outtype", "auto"]
if {fails}:
    sys.exit("Model LlamaForCausalLM is not supported")
open(sys.argv[3], "w").write("GGUF of " + sys.argv[1])
"""


def test_a_converter_makes_one_file_of_the_model(
    talker: tuple[RunFolder, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    (tmp_path / "convert_hf_to_gguf.py").write_text(CONVERTER.format(fails=False))
    (tmp_path / "gguf").mkdir()
    asked = ExportRequest(
        run=str(talker[0].path), kind=ExportKind.GGUF, staging=str(tmp_path / "gguf"), target="there"
    )
    report = export(asked, lambda _: None)
    assert (tmp_path / "gguf" / "talk.gguf").read_text() == f"GGUF of {tmp_path / 'gguf'}"
    assert report.agreement is None
    assert report.unchecked.startswith("Not checked")
    assert set(report.files) == {"talk.gguf", "README.md"}
    (tmp_path / "convert_hf_to_gguf.py").write_text(CONVERTER.format(fails=True))
    with pytest.raises(ModelError, match="could not make a GGUF file") as refused:
        export(asked, lambda _: None)
    assert "is not supported" in refused.value.detail


def test_a_bundle_without_a_python_leaves_the_model_and_says_what_is_missing(
    talker: tuple[RunFolder, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "is_frozen", lambda: True)
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    (tmp_path / "convert_hf_to_gguf.py").write_text(CONVERTER.format(fails=False))
    report = exported(talker[0], ExportKind.GGUF, tmp_path / "gguf")
    assert "model.safetensors" in report.files
    assert "no Python on the PATH" in report.missing
    assert str(tmp_path / "convert_hf_to_gguf.py") in report.notes[0]


def test_a_python_without_the_converters_requirements_is_named(
    talker: tuple[RunFolder, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path))
    (tmp_path / "convert_hf_to_gguf.py").write_text("import no_such_module")
    (tmp_path / "gguf").mkdir()
    asked = ExportRequest(
        run=str(talker[0].path), kind=ExportKind.GGUF, staging=str(tmp_path / "gguf"), target="there"
    )
    with pytest.raises(ModelError, match="lacks its requirements") as refused:
        export(asked, lambda _: None)
    assert f"{sys.executable} has no module no_such_module. Install them, " in refused.value.detail
    assert "Traceback" not in refused.value.detail


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


def test_a_gguf_file_is_asked_where_llama_cpp_can_run_it(
    talker: tuple[RunFolder, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from core.engine.export.formats import BEGINNING, as_texts
    from core.engine.export.verify import continued, find_rows
    from core.services.export import find_source

    rows = continued(find_rows(find_source(talker[0])), talker[1])
    said = {}
    for ids, start in as_texts(rows):
        answer = rows.tokenizer.decode(ids[start + 1 : start + 1 + BEGINNING], skip_special_tokens=True)
        said[rows.tokenizer.decode(ids[: start + 1])] = answer
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path))
    (tmp_path / "convert_hf_to_gguf.py").write_text(CONVERTER.format(fails=False))
    runner = tmp_path / "llama-cli"
    runner.write_text(RUNNER.format(python=sys.executable, said=said))
    runner.chmod(0o755)
    report = exported(talker[0], ExportKind.GGUF, tmp_path / "gguf")
    assert report.agreement is not None
    assert (report.agreement.compared, report.agreement.equal) == (Compared.TEXTS, len(said))
    runner.write_text(SLEEPER.format(python=sys.executable))
    monkeypatch.setattr(formats, "RUN_SECONDS", 0.1)
    asked = ExportRequest(
        run=str(talker[0].path), kind=ExportKind.GGUF, staging=str(tmp_path / "gguf"), target="there"
    )
    report = export(asked, lambda _: None)
    assert (report.agreement, "gave no answer" in report.unchecked) == (None, True)
    monkeypatch.undo()
    monkeypatch.setenv("LLAMA_CPP", str(tmp_path))
    runner.write_text(RUNNER.format(python=sys.executable, said={}))
    with pytest.raises(NotTheSame):
        export(asked, lambda _: None)
