"""What another computer sends is not to be trusted: it may be damaged, or somebody else's."""

import json
from pathlib import Path, PureWindowsPath

import pytest

from core.base.errors import ComputerError, UserError
from core.base.files import inside
from core.hosts import far
from core.hosts.computers import Computer, ssh_command
from core.hosts.link import Link
from core.hosts.mirror import Mirror
from core.options.catalogue import with_changes
from core.runs.folder import Connection, RunFolder
from core.runs.library import create
from tests.fakes.runs import digits_options


class Hostile:
    """A link to a computer that has these results, and answers nothing else."""

    def __init__(self, **files: bytes) -> None:
        self.files = {name.replace("__", "/"): content for name, content in files.items()}

    def require_this_hone(self) -> None:
        pass

    def ask(self, asked: far.Asked, _kind: object = None) -> object:
        if isinstance(asked, far.Watch):
            self.content = b"".join(self.files.values())
            pieces = tuple(
                far.Piece(name=name, size=len(content), stamp=(1, 1)) for name, content in self.files.items()
            )
            return far.Watched(pieces=pieces, shrunk=(), is_alive=True, has_ended=False)
        if isinstance(asked, far.Get):
            self.content = self.files[asked.path]
            return None
        assert isinstance(asked, far.Results)
        digest = far.hashlib.sha256
        return {name: (len(content), digest(content).hexdigest()) for name, content in self.files.items()}

    def blocks(self) -> list[bytes]:
        return [self.content]

    def read(self, size: int) -> bytes:
        content, self.content = self.content[:size], self.content[size:]
        return content


@pytest.fixture
def run(tmp_path) -> RunFolder:
    run = create(with_changes(digits_options(), {"device.name": "cpu@workshop"}), tmp_path / "runs")
    run.record_connection(Connection(computer="workshop", folder="there"))
    return run


@pytest.mark.parametrize("name", ["run.toml", "keeper.json", "requests/x.json", "../x", "model/../run.toml"])
def test_only_results_come_back_and_only_into_their_folders(name: str, run: RunFolder) -> None:
    link = Hostile()
    link.files[name] = b"evil"
    before = {path: path.read_bytes() for path in run.path.parent.rglob("*") if path.is_file()}
    for bring in (Mirror(run)._bring_results, Mirror(run)._copy_news):
        with pytest.raises(UserError):
            bring(link)
    assert before == {path: path.read_bytes() for path in run.path.parent.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["..\\x", "C:x", "C:/x", "\\\\server\\share", "/x", ""])
def test_names_that_lead_out_of_a_folder_on_windows(name: str) -> None:
    with pytest.raises(UserError, match="leads out of its folder"):
        inside(PureWindowsPath("C:/run"), name)


@pytest.mark.parametrize(
    "named", ["/far/home/store/trees/base", "/home/me/.ssh", ".ssh", "~", "../x", None, ["/etc"]]
)
def test_an_adapter_gets_the_base_model_of_here_whatever_it_names(named: object, run: RunFolder) -> None:
    """Also one that was moved before the keeper died."""
    config = json.dumps({"base_model_name_or_path": named}).encode()
    link = Hostile()
    link.files = {"model/adapter_config.json": config}
    adapter = run.model / "adapter_config.json"
    adapter.parent.mkdir()
    adapter.write_bytes(config)
    Mirror(run)._bring_results(link)
    assert json.loads(adapter.read_bytes())["base_model_name_or_path"] == run.options().model.source


@pytest.mark.parametrize("content", [b"[]", b"{", b"[" * 100_000])
def test_a_damaged_adapter_is_left_as_it_is(content: bytes, run: RunFolder) -> None:
    link = Hostile()
    link.files = {"model/adapter_config.json": content}
    Mirror(run)._bring_results(link)
    assert (run.model / "adapter_config.json").read_bytes() == content


@pytest.mark.parametrize("line", ['{"size":"x"}', '{"size":0,"answer":[]}', '{"size":0,"answer":'])
def test_an_answer_that_cant_be_read_has_a_remedy(line: str, tmp_path: Path, monkeypatch) -> None:
    fake = tmp_path / "ssh"
    fake.write_text(f"#!/bin/sh\nread request; echo '{line}'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ComputerError) as refused, Link(Computer(name="workshop", address="workshop")):
        pass
    assert refused.value.code == "other-version"


def test_nothing_of_ones_own_is_opened_to_it() -> None:
    words = ssh_command(Computer(name="workshop", address="workshop"), "true")
    assert {"ForwardAgent=no", "ClearAllForwardings=yes", "RemoteCommand=none"} < set(words)
