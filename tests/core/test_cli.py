"""The command line as a person or a script meets it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from core.base import settings as base_settings
from core.base.settings import VERSION
from core.cli.data import device_lines
from core.cli.main import main
from core.options.choices import Task
from core.options.device_support import DeviceReport, MachineReport, Settled
from core.runs.folder import RunFolder
from tests.fakes import runs
from tests.fakes.runs import FAKES, digits_options, new_run

ROOT = FAKES.parents[1]
DIGITS = str(ROOT / "resources" / "examples" / "digits.hone")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def hone(scenario: str, *arguments: str) -> int:
    return main(
        arguments,
        start=lambda run, **how: runs.start(run, scenario, **how),
        keeper=lambda run, **how: runs.keeper_command(run, scenario, **how),
    )


class TestTrain:
    def test_a_run_that_finishes(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        assert hone("finish", "train", DIGITS, "--run-dir", str(tmp_path / "run")) == 0
        out, err = capfd.readouterr()
        assert out == ""
        assert str(tmp_path / "run") in err
        assert "3 steps, 4 samples each, on cpu: 12 training samples, 4 held out" in err
        assert "Step 3, evaluated: accuracy 0.75, loss 0.5" in err
        assert "Finished after 3 steps" in err

    @pytest.mark.parametrize("given", [(), ("--offline",)])
    def test_a_model_that_is_not_here_is_refused_offline_before_there_is_a_run(
        self,
        given: tuple[str, ...],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.delenv("HF_HUB_OFFLINE")
        base_settings.save(base_settings.Settings(offline=not given))
        file = tmp_path / "a.hone"
        file.write_text(
            'task = "text-classification"\n[model]\nsource = "org/tiny"\n[data]\ntrain = "synthetic:8x8"\n'
        )
        assert hone("finish", "train", str(file), "--run-dir", str(tmp_path / "run"), *given) == 1
        err = capfd.readouterr().err
        assert "org/tiny isn't on this computer" in err
        assert ("--offline" if given else "“Work offline” in Settings forbids") in err
        assert not (tmp_path / "run").exists()

    def test_events_as_json_lines(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        assert hone("finish", "train", DIGITS, "--json") == 0
        lines = capfdbinary.readouterr().out.splitlines()
        kinds = [msgspec.json.decode(line)["type"] for line in lines]
        assert kinds.count("step_finished") == 3
        assert {"run_started", "evaluated", "memory_sampled", "run_finished"} <= set(kinds)

    def test_a_run_that_fails_says_why_and_what_to_do(self, capfd: pytest.CaptureFixture[str]) -> None:
        assert hone("fail", "train", DIGITS) == 1
        err = capfd.readouterr().err
        assert err.count("The data has one class only") == 1
        assert "holds 'yes' in all rows" in err
        assert "Try: Choose another label column" in err

    def test_a_run_that_does_not_fit_ends_before_it_trains_unless_somebody_agrees(
        self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert hone("large", "train", DIGITS) == 3
        assert "It doesn't fit into memory" in capfd.readouterr().err
        assert hone("large", "train", DIGITS, "--queue", "--yes") == 0
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        for answer, status in (("", 3), ("n", 3), ("y", 0)):
            monkeypatch.setattr("builtins.input", lambda _question, said=answer: said)
            assert hone("large", "train", DIGITS) == status
        assert hone("large", "train", DIGITS, "--json") == 3  # a program reads: it isn't asked

    def test_a_run_that_crashes_shows_the_end_of_its_log(self, capfd: pytest.CaptureFixture[str]) -> None:
        assert hone("bug", "train", DIGITS) == 1
        err = capfd.readouterr().err
        assert "The training process ended before the run was over." in err
        assert "RuntimeError: a bug in the fake engine" in err
        assert "log.txt" in err

    def test_a_wrong_request_lists_all_problems_and_makes_no_run(
        self, home: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        status = hone(
            "finish", "train", DIGITS, "--set", "memory.batch_size=0", "--set", "training.epochs=-1"
        )
        assert status == 2
        lines = capfd.readouterr().err.splitlines()
        assert lines[0].endswith("has 2 problems")
        assert [line.split(":")[0].strip() for line in lines[1:]] == ["memory.batch_size", "training.epochs"]
        assert not home.exists()

    def test_what_is_worth_knowing_is_said_before_the_run(
        self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        warned = DeviceReport(
            name="mps",
            title="Apple M3 Max",
            available=True,
            cautions={"device.mps_memory_limit": {"0.0": "Without a ceiling, the whole Mac may halt."}},
        )
        machine = MachineReport(devices=(warned,), automatic="mps")
        monkeypatch.setattr("core.cli.train.run_job", lambda *_: machine)
        asked = ("training.optimizer=sgd", "device.name=mps", "device.mps_memory_limit=0")
        settings = [part for option in asked for part in ("--set", option)]
        assert hone("finish", "train", DIGITS, *settings, "--set", "training.learning_rate=1e-4") == 0
        notes = [line for line in capfd.readouterr().err.splitlines() if line.startswith("Note: ")]
        assert [note.split(": ")[1] for note in notes] == [
            "training.learning_rate",
            "device.mps_memory_limit",
        ]
        assert notes[1].endswith("Without a ceiling, the whole Mac may halt.")

    def test_a_run_folder_that_is_not_empty_is_refused(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "mine").write_text("precious")
        assert hone("finish", "train", DIGITS, "--run-dir", str(tmp_path)) == 2
        assert "not empty" in capfd.readouterr().err

    def test_a_file_that_is_not_there(self, capfd: pytest.CaptureFixture[str]) -> None:
        assert hone("finish", "train", "nothing.hone") == 2
        assert "nothing.hone" in capfd.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
class TestInterrupted:
    def test_once_stops_and_keeps(self, tmp_path: Path) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            with terminal("wait", tmp_path / number.name) as process:
                process.send_signal(number)
                out, err = process.communicate(timeout=20)
            assert process.returncode == 130
            assert '"state":"stopped"' in out
            assert "what is trained is kept" in err
            assert "Stopped after" in err

    def test_twice_ends_a_run_that_does_not_stop(self, tmp_path: Path) -> None:
        with terminal("stubborn", tmp_path / "run") as process:
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            for line in process.stderr:
                if "Stopping" in line:
                    break
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert "Ended at once, as asked." in err
        record = RunFolder(tmp_path / "run").exit_record()
        assert record is not None
        assert "as asked" in record.reason

    def test_nobody_reads_any_more(self, tmp_path: Path) -> None:
        with terminal("wait", tmp_path / "run") as process:
            assert process.stdout is not None
            process.stdout.close()
            assert process.wait(20) == 130
        assert RunFolder(tmp_path / "run").exit_record() is not None


@contextlib.contextmanager
def terminal(scenario: str, run_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """`hone train --json` in a process of its own, once its run has begun to train."""
    command = [sys.executable, str(FAKES / "hone.py"), scenario, "train", DIGITS, "--json"]
    process = subprocess.Popen(
        [*command, "--run-dir", str(run_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            if "step_finished" in line:
                break
        yield process
        process.kill()


class TestRuns:
    def test_none_yet(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["runs"]) == 0
        assert "No runs yet" in capsys.readouterr().out

    def test_none_where_none_can_be_kept(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        home.touch()
        assert main(["runs"]) == 0
        assert f"none can be kept there: {home} is a file." in capsys.readouterr().out

    def test_a_table_of_all_damaged_ones_too(self, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
        hone("finish", "train", DIGITS)
        damaged = new_run(home / "runs")
        damaged.options_file.write_text("=")
        capfd.readouterr()
        assert main(["runs"]) == 0
        out = capfd.readouterr().out
        assert "handwritten-digits" in out
        assert "finished" in out
        assert "accuracy 0.75" in out
        assert damaged.name in out
        assert "(unreadable)" in out

    def test_as_json(self, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
        hone("finish", "train", DIGITS)
        capfd.readouterr()
        assert main(["runs", "--json"]) == 0
        (found,) = msgspec.json.decode(capfd.readouterr().out)
        assert (found["state"], found["metric"], found["best"]) == ("finished", "eval_accuracy", 0.75)
        assert Path(found["folder"]).parent == home / "runs"

    def test_one_by_folder_or_by_name(self, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
        hone("fail", "train", DIGITS)
        (folder,) = (home / "runs").iterdir()
        for name in (folder.name, str(folder)):
            capfd.readouterr()
            assert main(["show", name]) == 0
            out = capfd.readouterr().out
            assert out.startswith("Handwritten digits: failed\n")
            assert "The data has one class only" in out
        assert main(["show", "nothing"]) == 2


class TestQuestions:
    def test_devices_say_what_works_and_why_not(self) -> None:
        report = MachineReport(
            devices=(
                DeviceReport(name="mps", title="Apple GPU", available=False, reason="needs a Mac"),
                DeviceReport(
                    name="cpu",
                    title="CPU",
                    available=True,
                    memory_bytes=16 << 30,
                    refusals={"device.precision": {"fp16": "no training"}},
                    automatic={"device.precision": Settled("fp32", "no bf16 units")},
                ),
            ),
            automatic="cpu",
            notes=("This Python is x86.",),
        )
        text = "\n".join(device_lines(report))
        assert "not available: needs a Mac" in text
        assert "CPU, 16 GB\n" in text
        assert re.search(r"device.precision +fp32 +no bf16 units", text)
        assert re.search(r"device.precision=fp16 +not available: no training", text)
        assert "This Python is x86." in text


class TestFiles:
    @pytest.mark.parametrize("task", Task)
    def test_a_new_run_file_is_refused_only_for_its_missing_data(
        self, task: Task, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["new", "--task", task]) == 0
        path = tmp_path / "my.hone"
        path.write_text(capfd.readouterr().out)
        assert hone("finish", "train", str(path)) == 2
        lines = capfd.readouterr().err.splitlines()
        assert lines[0].endswith("has 1 problem")
        assert "data.train: there is no file or folder at" in lines[1]

    def test_options_are_explained(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["options"]) == 0
        assert "memory.batch_size (a whole number from 1 to 65,536; default: 16)" in capsys.readouterr().out


def test_an_unknown_argument_shows_its_commands_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["new", "--data", "x"])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: hone new ")
    assert said.endswith("hone new: error: unrecognized arguments: --data x\n")


def test_a_command_that_is_none_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["trian"])
    assert caught.value.code == 2
    assert "train" in capsys.readouterr().err


def test_options_of_a_kept_run_are_those_that_were_asked(tmp_path: Path) -> None:
    assert (
        hone("finish", "train", DIGITS, "--run-dir", str(tmp_path / "run"), "--set", "output.name=Digits")
        == 0
    )
    assert RunFolder(tmp_path / "run").options().output == digits_options().output


def test_a_new_file_can_be_written_but_never_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my.hone"
    assert main(["new", "--task", "text-classification", "--output", str(path)]) == 0
    assert path.read_text().startswith("schema = 1")
    path.write_text("precious")
    assert main(["new", "--task", "text-classification", "-o", str(path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert path.read_text() == "precious"


@pytest.mark.parametrize("source", ["~nobody-is-called-so.csv", "x" * 5000, "none.csv"])
def test_data_that_is_not_there_is_told_without_an_engine(
    source: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("core.cli.data.run_job", lambda *_: pytest.fail("the engine was asked"))
    assert main(["inspect", source]) == 1
    assert "There is nothing to look into" in capsys.readouterr().err


def test_data_without_a_name_is_a_wrong_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", ""]) == 2
    assert "name a file or folder to look into" in capsys.readouterr().err


class TestTheOuterEdge:
    @pytest.mark.parametrize(
        ("error", "sentence"),
        [
            (PermissionError(13, "Permission denied", "runs"), "runs: Permission denied"),
            (OSError("no more processes"), "no more processes"),
            (KeyError("x"), "A fault in Hone: KeyError: 'x'"),
        ],
    )
    def test_says_one_sentence_and_logs_the_rest(
        self,
        error: Exception,
        sentence: str,
        home: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def fail(_: Path) -> list[RunFolder]:
            raise error

        monkeypatch.setattr("core.cli.runs.list_runs", fail)
        assert main(["runs"]) == 1
        first, second = capsys.readouterr().err.splitlines()
        assert first == sentence
        assert str(home / "hone.log") in second
        assert "Traceback" in (home / "hone.log").read_text()

    def test_says_all_where_nothing_can_be_logged(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (home / "hone.log").mkdir(parents=True)
        monkeypatch.setattr("core.cli.runs.list_runs", lambda _: 1 / 0)
        assert main(["runs"]) == 1
        err = capsys.readouterr().err
        assert "Traceback" in err
        assert err.endswith("A fault in Hone: ZeroDivisionError: division by zero\n")

    def test_a_refusal_of_the_system_needs_no_report(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(_: Path) -> list[RunFolder]:
            raise PermissionError(13, "Permission denied", "runs")

        (home / "hone.log").mkdir(parents=True)
        monkeypatch.setattr("core.cli.runs.list_runs", fail)
        assert main(["runs"]) == 1
        assert capsys.readouterr().err == "runs: Permission denied\n"

    def test_a_home_that_is_a_file_is_named_in_one_sentence(
        self, home: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        home.touch()
        assert main(["train", DIGITS]) == 1
        title, detail = capsys.readouterr().err.splitlines()
        assert title == "The run's folder can't be made"
        assert str(home) in detail


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"Hone {VERSION}\n"
