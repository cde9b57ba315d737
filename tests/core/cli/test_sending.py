"""`hone train` and the others with a run file that names another computer: what leaves is listed and asked about."""

import pytest

from core.base.jobs import run_job
from core.base.processes import source_digest
from core.cli import memory, output, train
from core.hosts.computers import CheckedComputer, Computer, save
from core.jobs.inspect import DataReport
from core.options import run_file
from core.runs.folder import RunFolder
from core.runs.library import list_runs
from core.services import sending
from tests.fakes.jobs import CPU_ONLY
from tests.fakes.runs import link, record_keeper


@pytest.fixture(autouse=True)
def started(home, monkeypatch):
    """The runs that were started; none really is. The data is read by a reader that accepts all, or the real one."""
    answers = {"devices": CPU_ONLY}
    monkeypatch.setattr(train, "run_job", lambda job, *rest: answers.get(job) or run_job(job, *rest))
    checked = CheckedComputer(time=1.0, source=source_digest(), machine=CPU_ONLY)
    save(Computer(name="workshop", address="me@10.0.0.7", checked=checked))
    runs = []

    def start(made, **_how):
        runs.extend(made)
        return [None] * len(made)

    monkeypatch.setattr(train.runs_start, "start_all", start)
    monkeypatch.setattr(train, "attend", lambda *_given, **_how: 0)
    accepted = DataReport(source="", format="CSV", rows=1)
    monkeypatch.setattr(sending, "run_job", lambda *_given: accepted)
    return runs


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("text,label\n" + "".join(f"good {n},yes\nbad {n},no\n" for n in range(40)))
    return path


@pytest.fixture
def write(tmp_path):
    def write(train_on, evaluate_on=None, device="cpu@workshop"):
        file = tmp_path / "stranger.hone"
        more = f'eval = "{evaluate_on}"\n' if evaluate_on else ""
        file.write_text(
            'schema = 1\ntask = "text-classification"\n[model]\nsource = "scratch:bert-tiny"\n'
            f'[data]\ntrain = "{train_on}"\n{more}[device]\nname = "{device}"\n'
        )
        return file

    return write


def terminal(monkeypatch, answer):
    """Let a person sit there, who answers so."""
    asked = []
    monkeypatch.setattr(output.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or answer)
    return asked


def test_without_a_terminal_nothing_leaves_and_the_list_is_printed(hone, write, data, home, started):
    printed = hone("train", write(data), status=2).err
    assert "Send these files to workshop (me@10.0.0.7)?" in printed
    assert f"Training data: {data} (1 file, 871 B)" in printed
    assert "use --yes" in printed
    assert (started, list_runs(home / "runs")) == ([], [])


def test_yes_is_the_answer_once_for_the_same_files_and_computer(hone, write, data, started):
    assert f"Training data: {data} (1 file" in hone("train", write(data), "--yes").err
    assert "would be sent" not in hone("train", write(data)).err
    assert len(started) == 2
    hone("train", write(data, device="cpu"))
    other = data.with_name("other.csv")
    other.write_bytes(data.read_bytes())
    printed = hone("train", write(data, other), status=2).err
    assert "other.csv" in printed
    assert "reviews.csv" not in printed


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 1), ("", 1)])
def test_the_person_is_asked_in_a_terminal(answer, status, *, hone, write, data, started, monkeypatch):
    asked = terminal(monkeypatch, answer)
    printed = hone("train", write(data), status=status).err
    assert asked == ["Send these files to workshop (me@10.0.0.7)? [y/N] "]
    assert len(started) == (status == 0)
    assert ("Nothing was sent" in printed) == (status == 1)


def test_what_is_named_in_the_command_line_is_the_persons_own_choice(hone, write, data, started):
    hone("train", write("missing.csv"), "--set", f"data.train={data}")
    assert len(started) == 1


@pytest.mark.parametrize(("name", "status"), [("id_rsa", 1), ("notes.txt", 2)])
def test_what_is_no_data_isnt_sent_even_with_yes(name, status, *, hone, write, data, started, monkeypatch):
    monkeypatch.setattr(sending, "run_job", run_job)
    key = data.with_name(name)
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END\n")
    assert name in hone("train", write(data, key), "--yes", status=status).err
    assert started == []
    hone("train", write(data, key, device="cpu"))  # it stays here, and the run says what is wrong
    assert len(started) == 1


@pytest.mark.parametrize("command", ["measure", "fit"])
def test_a_measurement_asks_as_a_run_does(command, hone, write, data, monkeypatch):
    monkeypatch.setattr(memory, "run_job", lambda _job, *_rest: CPU_ONLY)
    assert "reviews.csv" in hone(command, write(data), status=2).err


def test_to_resume_a_strangers_run_asks_what_it_sends(hone, write, data, home, monkeypatch):
    resumed = []
    monkeypatch.setattr(train.runs_start, "resume", lambda run, **_how: resumed.append(run) or None)
    run = RunFolder(home / "runs" / "gift")
    run.path.mkdir(parents=True)
    run_file.write(run_file.read(write(data)), run.options_file)
    record_keeper(run, started=0.0)
    link(run, is_own=False)
    assert f"{data} (1 file" in hone("resume", "gift", status=2).err
    assert resumed == []
    hone("resume", "gift", "--yes")
    hone("resume", "gift")
    assert resumed == [run, run]
