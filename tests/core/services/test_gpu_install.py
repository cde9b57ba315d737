"""PyTorch with CUDA beside a bundle: installed by a stand-in for uv, checked, only then used; each way it fails."""

import errno
import json
import os
import subprocess
import sys

import psutil
import pytest

from core.base import formats, jobs, processes
from core.base.errors import UserError
from core.base.jobs import GpuEnvironment, JobCancelled, gpu_environment, gpu_folder, gpu_marker, gpu_python
from core.base.processes import SOURCE_ROOT
from core.cli import data, main
from core.hosts.install import WINDOW_PACKAGES, name_of, requirements
from core.services import gpu_install
from core.services.gpu_install import GB, GpuState, Install, NvidiaCard, look, remove
from tests.fakes import machines
from tests.fakes.devices import CARD, CHECK, ENVIRONMENT, OFFERED, put_fake_uv
from tests.fakes.machines import FakeNvml


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "Höne data"
    monkeypatch.setenv("HONE_HOME", str(home))
    monkeypatch.setattr(gpu_install, "CHECK", CHECK)
    monkeypatch.setattr(gpu_install, "FREE_NEEDED", 1)
    put_fake_uv()
    return home


def command_of_bundle():
    """What starts the engine out of a bundle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "is_frozen", lambda: True)
        return jobs.engine_command("no-such-job")


def install(on_progress=lambda _: None):
    return Install("auto").run(on_progress)


def test_it_is_installed_checked_used_and_removed(home, monkeypatch):
    steps = {}
    found = install(lambda progress: steps.setdefault(progress.what))
    assert list(steps) == [
        "Downloading uv and Python",
        "Downloading PyTorch with CUDA",
        "Checking that it works",
    ]
    assert found == gpu_environment()
    assert (found.torch, found.cuda) == ("2.13.0", "13.0")
    assert look().is_used
    calls = [json.loads(line) for line in (gpu_folder() / "cache" / "calls").read_text().splitlines()]
    assert calls[0][-4:] == ["--clear", "--python", "3.11", str(gpu_folder() / "env")]
    assert calls[1][calls[1].index("--torch-backend") + 1] == "auto"

    # the engine runs from it, from Hone's own source, which is copied into it
    command = command_of_bundle()
    assert command[:5] == [str(gpu_python()), "-P", "-s", "-m", "core.engine"]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=clean, cwd=home)
    assert ended.returncode != 0
    assert "no-such-job" in ended.stderr

    # in the person's environment instead of the bundle's
    with monkeypatch.context() as patch:
        patch.setattr(sys, "frozen", True, raising=False)
        patch.setenv("LD_LIBRARY_PATH", "/of/the/bundle")
        patch.setenv("LD_LIBRARY_PATH_ORIG", "/of/the/person")
        code = "import os; print(os.environ['LD_LIBRARY_PATH'])"
        streams = dict.fromkeys(("stdin", "stderr"), subprocess.DEVNULL)
        worker = processes.start_worker([str(gpu_python()), "-c", code], stdout=subprocess.PIPE, **streams)
        assert worker.communicate()[0].strip() == b"/of/the/person"

    # another version of Hone doesn't use it before it is updated
    with monkeypatch.context() as patch:
        for module in (jobs, gpu_install):
            patch.setattr(module, "VERSION", "99.0")
        assert command_of_bundle()[1] == "--engine"
        assert not look().is_used
        assert "hone gpu --install" in "\n".join(data.gpu_lines(look()))
    assert look().is_used

    # neither changed nor removed while it is in use
    code = "import sys; print(flush=True); sys.stdin.read()"
    streams = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with subprocess.Popen([str(gpu_python()), "-c", code], **streams) as user:
        user.stdout.readline()
        for act in (remove, install):
            with pytest.raises(UserError, match="in use"):
                act()
        user.stdin.close()
    assert look().is_used

    # neither with a damaged marker nor without its Python
    marker = gpu_marker().read_text()
    for content in ("{", '{"hone": 1}'):
        gpu_marker().write_text(content)
        assert gpu_environment() is None
    gpu_marker().write_text(marker)
    assert gpu_environment() == found
    gpu_python().unlink()
    assert gpu_environment() is None
    assert remove() > 0
    assert not gpu_folder().exists()


@pytest.mark.parametrize("how", [JobCancelled, KeyboardInterrupt])
def test_one_that_is_ended_leaves_downloads_and_no_process_and_is_not_used(home, monkeypatch, how):
    monkeypatch.setenv("FAKE_UV", "waits")
    before = set(psutil.Process().children())
    installing = Install("auto")

    def end(progress):
        if progress.total and (gpu_folder() / "cache" / "calls").read_text().count("\n") == 2:
            if how is KeyboardInterrupt:
                raise KeyboardInterrupt
            installing.kill()

    with pytest.raises(how):
        installing.run(end)
    assert not set(psutil.Process().children()) - before
    assert gpu_environment() is None
    assert look().begun > 0


def test_a_failed_update_is_reported_with_its_cause_and_nothing_is_used(home, monkeypatch):
    install()
    for fake, cause in (
        ("raise ImportError('libcudart.so.13 is missing')", "libcudart.so.13 is missing"),
        ("cuda = None", "came without CUDA"),
    ):
        monkeypatch.setenv("FAKE_UV", fake)
        with pytest.raises(UserError, match="wasn't installed") as caught:
            install()
        assert cause in caught.value.detail
        assert gpu_environment() is None
        assert command_of_bundle()[1] == "--engine"


def test_two_at_once_one_ended_before_it_begins_and_a_full_disk_are_refused(home, monkeypatch):
    installing = Install("auto")
    installing.kill()
    with pytest.raises(JobCancelled):
        installing.run(lambda _: None)

    def try_second(_):
        with pytest.raises(UserError, match="being changed"):
            remove()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install(try_second)
    monkeypatch.setattr(gpu_install, "FREE_NEEDED", 1 << 60)
    with pytest.raises(UserError) as caught:
        install()
    assert "are needed" in caught.value.detail
    assert not (gpu_folder() / "env").exists()


def test_a_disk_that_fills_up_is_known_in_every_language(home, monkeypatch):
    def fill(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.whl")

    monkeypatch.setattr(gpu_install, "copy_source", fill)
    monkeypatch.setattr("core.base.errors.translated", str.swapcase)
    with pytest.raises(UserError) as caught:
        install()
    assert caught.value.detail.startswith("The disk is full")


def test_variables_of_the_person_take_precedence_over_those_for_uv(home, monkeypatch):
    monkeypatch.delenv("UV_HTTP_TIMEOUT", raising=False)
    assert int(gpu_install._uv_environment()["UV_HTTP_TIMEOUT"]) > 30
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "7")
    assert "UV_HTTP_TIMEOUT" not in gpu_install._uv_environment()


def card_of(device, driver=580):
    return NvidiaCard(device.name, device.capability, driver)


@pytest.mark.parametrize(
    ("card", "backend", "refusal"),
    [
        (card_of(machines.RTX_3060), "auto", ""),
        (card_of(machines.RTX_3060, 550), "auto", ""),
        (card_of(machines.GTX_1080), "cu126", ""),
        (NvidiaCard("NVIDIA card that tells nothing"), "auto", ""),
        (
            card_of(machines.RTX_3060, 470),
            "auto",
            "driver 470, which is too old: install NVIDIA's driver 525",
        ),
        (card_of(machines.GB10, 570), "auto", "driver 570, which is too old: install NVIDIA's driver 580"),
        (None, "", "install NVIDIA's driver"),
    ],
)
def test_which_build_a_card_gets_or_why_none(card, backend, refusal):
    assert refusal in gpu_install.why_not(card)
    assert bool(gpu_install.why_not(card)) == bool(refusal)
    if card is not None:
        assert card.torch_backend == backend


@pytest.mark.parametrize(
    ("system", "processor", "frozen", "reason"),
    [
        ("darwin", "arm64", True, "Macs have no CUDA"),
        ("linux", "x86_64", False, "runs from source"),
        ("win32", "ARM64", True, "no CUDA build for this processor"),
        ("win32", "AMD64", True, ""),
    ],
)
def test_where_nothing_can_be_installed(system, processor, frozen, reason):
    found = gpu_install.unsupported(system, processor, frozen=frozen)
    assert reason in found
    assert bool(found) == bool(reason)


def test_the_card_is_asked_of_the_driver():
    assert gpu_install.find_card(FakeNvml()) == NvidiaCard("Fake GPU 0", (8, 6), 580)
    assert gpu_install.find_card(FakeNvml(broken={"nvmlInit"})) is None
    silent = FakeNvml(broken={"nvmlDeviceGetCudaComputeCapability", "nvmlSystemGetDriverVersion"})
    assert gpu_install.find_card(silent) == NvidiaCard("Fake GPU 0")


def test_it_needs_what_trains_at_the_versions_of_this_hone():
    wanted, pinned = requirements()
    names = {name_of(line) for line in wanted}
    assert {"torch", "transformers", "bitsandbytes", "msgspec", "keyring"} <= names
    assert not names & {*WINDOW_PACKAGES, "pytest", "pyinstaller"}
    assert "torch==2.13.0" in pinned


def test_it_is_refused_where_it_cannot_be_had_or_nothing_may_be_asked(monkeypatch):
    with pytest.raises(UserError) as caught:
        gpu_install.installation(GpuState("Macs have no CUDA"))
    assert caught.value.detail == "Macs have no CUDA"
    with pytest.raises(UserError, match="works offline"):
        gpu_install.installation(OFFERED)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    gpu_install.installation(OFFERED)


def test_the_terminal_shows_what_it_takes(monkeypatch, capsys):
    monkeypatch.setattr(gpu_install, "look", lambda: GpuState(card=CARD, begun=3 << 20, free=9 * GB))
    assert main.main(["gpu"]) == 0
    out = capsys.readouterr().out
    for text in (
        "3.00 MB are downloaded already",
        "about 2.70 GB to download",
        "9.00 GB are free",
        "`hone gpu --install`",
    ):
        assert text in out
    broken = GpuEnvironment(hone=ENVIRONMENT.hone, torch="2.13.0", cuda="13.0", problem="no kernel image")
    assert "no kernel image" in next(data.gpu_lines(GpuState(installed=broken)))


def test_the_page_on_installing_names_the_same_sizes():
    page = " ".join((SOURCE_ROOT / "docs" / "install.md").read_text(encoding="utf-8").split())
    sizes = map(formats.memory, (gpu_install.DOWNLOAD, gpu_install.INSTALLED, gpu_install.FREE_NEEDED))
    assert "about {} to download, {} on the disk, and {} free".format(*sizes) in page


TIMED_OUT = """  × Failed to download `torch==2.13.0+cu130`
  ├─▶ Failed to extract archive: torch-2.13.0+cu130-cp311-cp311-linux.whl
  ├─▶ I/O operation failed during extraction
  ╰─▶ Failed to download distribution due to network timeout. Try increasing
      UV_HTTP_TIMEOUT (current value: 30s)."""
EXTRACTING = "error: Failed to extract archive: torch.whl\n  cause: "


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (TIMED_OUT, "The internet can't be reached"),
        (f"{EXTRACTING}error decoding response body", "The internet can't be reached"),
        (
            "error: Failed to fetch: `https://me:secret@wheels.invalid:8443/simple/x/`\n"
            "  cause: error sending request for url (https://wheels.invalid:8443/simple/x/)\n  cause: dns error",
            "wheels.invalid:8443 can't be reached",
        ),
        (
            "ERROR: HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded (NewConnectionError)",
            "pypi.org can't be reached",
        ),
        (
            f"error: Failed to read `a.whl`\n  cause: {os.strerror(13)} (os error 13)",
            "A file couldn't be read",
        ),
        (f"{EXTRACTING}a file is corrupt: bad CRC", "A downloaded file is damaged"),
        ("error: Hash mismatch for `torch`\n  Expected: sha256:a407bc", "A downloaded file is damaged"),
        ("error: tunnel error: 407 Proxy Authentication Required", "A proxy refused"),
        ("error: invalid peer certificate: UnknownIssuer", "The server's certificate"),
        ("  × No solution found when resolving dependencies", "A library that Hone needs"),
        ("error: failed to write: No space left on device (os error 28)", "The disk is full"),
        ("thread 'main' panicked", "thread 'main' panicked"),
    ],
)
def test_what_uv_prints_is_explained_by_its_cause(output, cause):
    assert gpu_install.explain(output).detail.startswith(cause)


@pytest.mark.long
def test_the_real_check_imports_what_trains(home, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("HONE_HOME", str(home))
    with pytest.raises(UserError) as caught:  # all of it worked, with the CPU build of this computer
        install()
    assert "came without CUDA" in caught.value.detail
