"""What another computer sends is not to be trusted: it may be damaged, stuck, or somebody else's."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from pathlib import PureWindowsPath

import pytest

from core.base.errors import ComputerError, UserError
from core.base.files import inside
from core.base.jobs import JobCancelled
from core.hosts import far, link, mirror
from core.hosts.computers import ssh_command
from core.hosts.link import WRONG_ANSWER, Link
from core.hosts.mirror import Mirror
from core.runs.events import Action
from core.runs.folder import RunFolder
from core.runs.start import keeper_command
from core.runs.words import kept_message
from core.services.memory import DryRun
from tests.fakes import liar
from tests.fakes.hostile import MODES, WORKSHOP, There, wrong_with


@pytest.fixture
def lying(tmp_path, monkeypatch):
    """Makes a computer that lies in a way, and a run that is sent there, or trains there."""
    monkeypatch.setenv("PATH", str(tmp_path / "there"), prepend=":")

    def make(mode: str) -> tuple[There, RunFolder]:
        there = There(tmp_path / "there", mode)
        return there, there.run(tmp_path)

    return make


@pytest.fixture
def begun(lying) -> RunFolder:
    """A run that trains there."""
    return lying("is honest")[1]


@contextlib.contextmanager
def kept(run: RunFolder):
    """Follow a run until it ends, or "End now" is pressed at the end; yields what is said meanwhile."""
    keeper = Mirror(run)
    problems: list[str] = []
    tell = keeper._tell

    def note(**changes: object) -> None:
        problems.append(str(changes.get("problem", "")))
        tell(**changes)

    keeper._tell = note  # type: ignore[method-assign]
    thread = threading.Thread(target=keeper.keep)
    thread.start()
    try:
        yield problems
    finally:
        if run.exit_record() is None:
            run.request(Action.KILL)
        thread.join(20)
        assert not thread.is_alive()


def until(holds) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("mode", MODES)
def test_whatever_it_does_nothing_is_lost_and_end_now_ends_the_run(mode, lying, monkeypatch) -> None:
    monkeypatch.setattr(mirror, "OBEY_SECONDS", 0.4)
    monkeypatch.setattr(link, "ENDING_SECONDS", 0.1)
    for module in (link, mirror):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    there, run = lying(mode)
    _kind, words = MODES[mode]
    own = {path: path.read_bytes() for path in (run.options_file, run.keeper_file)}
    with kept(run) as problems:
        until(lambda: words in " ".join(problems) + str(run.exit_record()))
        until(lambda: there.has_lied or run.exit_record() or there.asked().count("Watch") > 1)
    assert wrong_with(run, own, mode) == []
    assert run.exit_record().attempt == run.attempt_kept()


def pauses(run: RunFolder, monkeypatch, most: int) -> list[float]:
    """How long is waited between the first attempts to follow a run."""
    waited: list[float] = []

    def wait(_mirror: Mirror, seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == most:
            run.request(Action.KILL)
            monkeypatch.setattr(Mirror, "_wait", before)

    before = Mirror._wait
    monkeypatch.setattr(Mirror, "_wait", wait)
    Mirror(run).keep()
    return waited


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("a result that is another file", [1, 2, 4, 8]),
        ("a piece for examples/a/b", [1, 2, 4, 8]),
        ("ends with a damaged exit.json", [1, 2, 4, 8]),
        ("closes at once", [1, 2, 4, 8, 16, 30, 30]),
        ("a result that breaks off", [1, 1, 1]),  # a bad line, on which all goes on where it was
    ],
)
def test_what_fails_is_tried_again_after_ever_longer_pauses(mode, expected, lying, monkeypatch) -> None:
    _there, run = lying(mode)
    assert pauses(run, monkeypatch, len(expected)) == expected


def test_a_computer_that_sends_nonsense_only_isnt_asked_for_ever(lying, monkeypatch) -> None:
    _there, run = lying("a piece for examples/a/b")
    monkeypatch.setattr(mirror, "WRONG_ANSWERS", 2)
    assert pauses(run, monkeypatch, 99) == [1, 2]
    reason = run.exit_record().reason
    assert "No run has a file called 'examples/a/b'" in reason
    assert "Resume follows it again" in reason
    assert run.connection().is_given_up


def test_wrong_answers_are_counted_apart_from_a_night_out_of_reach(begun, monkeypatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(Mirror, "_wait", lambda _self, seconds: waited.append(seconds))
    keeper = Mirror(begun)
    for code in ["closed"] * 20 + [WRONG_ANSWER] * 3:
        keeper._try_again(ComputerError(code, "it failed"))
    assert waited[:6] == [1, 2, 4, 8, 16, 30]
    assert waited[19:] == [30, 1, 2, 4]


@pytest.mark.parametrize(
    "mode", ["silent to Hello", "silent to Watch", "drips a piece", "drips before it greets"]
)
def test_silence_is_told_after_a_while(mode, lying, monkeypatch) -> None:
    for name in ("ANSWER_SECONDS", "BLOCK_SECONDS"):
        monkeypatch.setattr(link, name, 1.0)
    _there, run = lying(mode)
    with kept(run) as problems:
        until(lambda: "workshop doesn't answer" in " ".join(problems))


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("is honest", "done"),
        ("obeys, and is silent then", "done"),
        ("claims to have obeyed", "didn't end it in time"),
        ("silent to Watch", "didn't end it in time"),
    ],
)
def test_end_now_is_obeyed_there_or_ends_it_here(mode, reason, lying, monkeypatch) -> None:
    monkeypatch.setattr(mirror, "OBEY_SECONDS", 1.0)
    there, run = lying(mode)
    with kept(run):
        until(lambda: "Watch" in there.asked())
    assert reason in run.exit_record().reason
    assert run.connection().is_given_up is (reason != "done")


def test_end_now_that_was_pressed_while_nothing_followed_the_run_is_passed_on(lying) -> None:
    there, run = lying("is honest")
    run.request(Action.KILL)
    Mirror(run).keep()
    assert run.exit_record().reason == "done"
    assert "Forward" in there.asked()


def test_a_dry_run_elsewhere_is_cancelled_while_nothing_answers(lying) -> None:
    there, run = lying("silent to Missing")
    dry, ended = DryRun(run.options()), []

    def measure() -> None:
        with pytest.raises(JobCancelled) as cancelled:
            dry.run()
        ended.append(cancelled)

    thread = threading.Thread(target=measure)
    thread.start()
    until(lambda: there.has_lied)
    dry.kill()
    thread.join(20)
    assert ended


@pytest.mark.parametrize(
    ("mode", "here", "aside"),
    [
        ("is honest", liar.EVENTS[:150], {}),
        ("is honest", liar.EVENTS + b'{"type":"step_fin', {}),  # as of a power cut
        ("fewer events than here", liar.EVENTS, {"events.jsonl.before-1": liar.EVENTS}),
        ("other events than here", liar.EVENTS, {"events.jsonl.before-1": liar.EVENTS}),
        ("no events any more", liar.EVENTS, {"events.jsonl.before-1": liar.EVENTS}),
        ("no events any more", b"", {}),
    ],
)
def test_what_is_here_is_set_aside_where_it_is_something_else_there(mode, here, aside, lying) -> None:
    there, run = lying(mode)
    run.events_file.write_bytes(here)
    answered = b'{"type":"request_answered","request":"x","action":"stop","accepted":true}\n'
    run.machine_file.write_bytes(answered)  # the keeper here did, before the run began there
    with kept(run):
        until(lambda: there.asked().count("Watch") > 1)
    assert {path.name: path.read_bytes() for path in run.path.glob("*.before-*")} == aside
    assert run.connection().kept == tuple(aside)
    told = kept_message(run.connection())
    assert ("events.jsonl.before-1" in told.detail) if aside else told is None


def test_a_run_that_doesnt_say_where_it_trains_ends_with_words(begun) -> None:
    begun.connection_file.unlink()
    subprocess.run(keeper_command(begun.path), check=True, timeout=60)
    record = begun.exit_record()
    assert record is not None
    assert "connection.json, which says where it trains, is missing" in record.reason


# --- One answer


class Hostile:
    """A link to a computer that has these results, and answers nothing else."""

    def __init__(self, **files: bytes) -> None:
        self.files = {name.replace("__", "/"): content for name, content in files.items()}

    def ask(self, asked: far.Asked, _kind: object = None) -> object:
        assert isinstance(asked, far.Results)
        digest = far.hashlib.sha256
        return {name: (len(content), digest(content).hexdigest()) for name, content in self.files.items()}

    def content(self, _run: str, name: str, offset: int, _size: int) -> list[bytes]:
        return [self.files[name][offset:]]


@pytest.mark.parametrize("content", [b"[]", b"{", b"[" * 100_000])
def test_a_damaged_adapter_is_left_as_it_is(content: bytes, begun) -> None:
    Mirror(begun)._bring_results(Hostile(**{"model/adapter_config.json": content}))
    assert (begun.model / "adapter_config.json").read_bytes() == content


@pytest.mark.parametrize(
    ("listed", "is_kept"),
    [
        (["model.safetensors"], False),
        (["adapter_model.safetensors"], False),
        (["notes.txt"], True),
        ([], True),
    ],
)
def test_a_model_stays_here_unless_another_has_come(listed: list[str], is_kept: bool, begun) -> None:
    Mirror(begun)._bring_results(Hostile(**{f"model/{name}": b"x" for name in listed}))
    old = {"old.bin"} if is_kept else set()
    assert {path.name for path in begun.model.iterdir()} == {*listed, *old}


def test_a_full_disk_here_is_told_before_anything_is_brought_back(begun, monkeypatch) -> None:
    free = mirror.LEFT_FREE + 3
    monkeypatch.setattr(mirror, "free_bytes", lambda _path: free)
    Mirror(begun)._bring_results(Hostile(model__a=b"abc"))
    with pytest.raises(UserError, match="too full for what workshop sends"):
        Mirror(begun)._bring_results(Hostile(model__a=b"abc", model__b=b"defg"))


@pytest.mark.parametrize("name", ["..\\x", "C:x", "C:/x", "\\\\server\\share", "/x", ""])
def test_names_that_lead_out_of_a_folder_on_windows(name: str) -> None:
    with pytest.raises(UserError, match="leads out of its folder"):
        inside(PureWindowsPath("C:/run"), name)


@pytest.mark.parametrize(
    "named", ["/far/home/store/trees/base", "/home/me/.ssh", ".ssh", "~", "../x", None, ["/etc"]]
)
def test_an_adapter_gets_the_base_model_of_here_whatever_it_names(named: object, begun: RunFolder) -> None:
    """Also one that was moved before the keeper died."""
    config = json.dumps({"base_model_name_or_path": named}).encode()
    adapter = begun.model / "adapter_config.json"
    adapter.write_bytes(config)
    Mirror(begun)._bring_results(Hostile(**{"model/adapter_config.json": config}))
    assert json.loads(adapter.read_bytes())["base_model_name_or_path"] == begun.options().model.source


@pytest.mark.parametrize("mode", ["greets with no JSON", "greets with another protocol"])
def test_an_answer_that_cant_be_read_has_a_remedy(mode, lying) -> None:
    lying(mode)
    with pytest.raises(ComputerError) as refused, Link(WORKSHOP):
        pass
    assert refused.value.code == "other-version"


def test_what_it_refuses_is_told_in_a_few_words_without_its_buttons(lying) -> None:
    lying("refuses in 2 MB of words")
    with Link(WORKSHOP) as session, pytest.raises(UserError) as refused:
        session.ask(far.Start(run="x", attempt=1, options=""), int)
    assert len(str(refused.value)) < 1000
    assert all(fix.is_advice for fix in refused.value.fixes)


def test_nothing_of_ones_own_is_opened_to_it() -> None:
    words = ssh_command(WORKSHOP, "true")
    assert {"ForwardAgent=no", "ClearAllForwardings=yes", "RemoteCommand=none"} < set(words)


# --- The other way round


@pytest.mark.parametrize(
    "line", [b"nothing\n", b'{"type":"Put","files":[["' + b"0" * 64 + b'",9,3]]}\n', b"x" * 200]
)
def test_a_session_ends_with_a_request_that_is_none(line, tmp_path) -> None:
    asking = [sys.executable, "-P", "-s", "-m", "core.hosts.far"]
    ended = subprocess.run(asking, input=line, capture_output=True, check=False, timeout=60)
    assert b"Traceback" not in ended.stderr
