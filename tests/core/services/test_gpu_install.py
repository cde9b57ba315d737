"""PyTorch with CUDA beside a bundle: installed by a stand-in for uv, checked, only then used; each way it fails."""

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
from core.services import gpu_install
from core.services.gpu_install import GB, Card, GpuState, Install, look, name_of, remove, requirements
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


def install(tell=lambda _: None):
    return Install("auto").run(tell)


def test_it_is_installed_checked_and_then_the_engine_runs_from_it(home):
    told = []
    found = install(told.append)
    steps = list(dict.fromkeys(progress.what for progress in told))
    assert steps == ["Downloading uv and Python", "Downloading PyTorch with CUDA", "Checking that it works"]
    assert found == gpu_environment()
    assert (found.torch, found.cuda) == ("2.13.0", "13.0")
    assert look().is_used
    calls = [json.loads(line) for line in (gpu_folder() / "cache" / "calls").read_text().splitlines()]
    assert calls[0][-4:] == ["--clear", "--python", "3.11", str(gpu_folder() / "env")]
    assert calls[1][calls[1].index("--torch-backend") + 1] == "auto"
    command = command_of_bundle()
    assert command[:5] == [str(gpu_python()), "-P", "-s", "-m", "core.engine"]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=clean, cwd=home)
    assert ended.returncode != 0
    assert "no-such-job" in ended.stderr  # Hone's own source, copied into the environment


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
    monkeypatch.delenv("FAKE_UV")
    install()
    assert look().is_used


@pytest.mark.parametrize(
    ("fake", "said"),
    [
        ("error: dns error", "The internet can't be reached"),
        ("raise ImportError('libcudart.so.13 is missing')", "libcudart.so.13 is missing"),
        ("cuda = None", "came without CUDA"),
    ],
)
def test_what_fails_is_told_with_the_log_and_never_used(home, monkeypatch, fake, said):
    install()
    monkeypatch.setenv("FAKE_UV", fake)
    with pytest.raises(UserError, match="wasn't installed") as caught:
        install()
    assert said in caught.value.detail
    assert gpu_environment() is None
    assert command_of_bundle()[1] == "--engine"


def test_another_version_of_hone_uses_it_only_once_it_is_updated(home, monkeypatch):
    install()
    for module in (jobs, gpu_install, data):
        monkeypatch.setattr(module, "VERSION", "99.0")
    assert command_of_bundle()[1] == "--engine"
    assert not look().is_used
    assert "hone gpu --install" in "\n".join(data.gpu_lines(look()))
    install()
    assert look().is_used


@pytest.mark.parametrize("content", ["{", '{"hone": 1}'])
def test_a_damaged_marker_or_a_lost_python_means_there_is_none(home, content):
    install()
    gpu_marker().write_text(content)
    assert gpu_environment() is None
    install()
    gpu_python().unlink()
    assert gpu_environment() is None


def test_removing_frees_all_of_it_unless_it_is_in_use(home):
    install()
    user = subprocess.Popen(
        [str(gpu_python()), "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with user:
        user.stdout.readline()
        for act in (remove, install):
            with pytest.raises(UserError, match="in use"):
                act()
        user.stdin.close()
    assert look().is_used
    assert remove() > 0
    assert not gpu_folder().exists()


def test_two_at_once_and_one_ended_before_it_begins_are_refused(home):
    installing = Install("auto")
    installing.kill()
    with pytest.raises(JobCancelled):
        installing.run(lambda _: None)
    assert not (gpu_folder() / "env").exists()

    def try_second(_):
        with pytest.raises(UserError, match="being changed"):
            remove()

    install(try_second)


def test_a_full_disk_is_told_before_anything_is_fetched(home, monkeypatch):
    monkeypatch.setattr(gpu_install, "FREE_NEEDED", 1 << 60)
    with pytest.raises(UserError) as caught:
        install()
    assert "are needed" in caught.value.detail
    assert not (gpu_folder() / "cache").exists()


def test_a_bundle_starts_it_in_the_environment_of_the_person(home, monkeypatch):
    install()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/the/bundle")
    monkeypatch.setenv("LD_LIBRARY_PATH_ORIG", "/of/the/person")
    said = "import json, os; print(json.dumps(dict(os.environ)))"
    worker = processes.start_worker(
        [str(gpu_python()), "-c", said],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert json.loads(worker.communicate()[0])["LD_LIBRARY_PATH"] == "/of/the/person"


def test_variables_of_the_person_win_over_those_for_uv(home, monkeypatch):
    monkeypatch.delenv("UV_HTTP_TIMEOUT", raising=False)
    assert int(gpu_install._uv_environment()["UV_HTTP_TIMEOUT"]) > 30
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "7")
    assert "UV_HTTP_TIMEOUT" not in gpu_install._uv_environment()


def card_of(device, driver=580):
    return Card(device.name, device.capability, driver)


@pytest.mark.parametrize(
    ("card", "backend", "refusal"),
    [
        (card_of(machines.RTX_3060), "auto", ""),
        (card_of(machines.RTX_3060, 550), "auto", ""),
        (card_of(machines.GTX_1080), "cu126", ""),
        (Card("NVIDIA card that tells nothing"), "auto", ""),
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
    ("system", "processor", "frozen", "said"),
    [
        ("darwin", "arm64", True, "Macs have no CUDA"),
        ("linux", "x86_64", False, "runs from source"),
        ("win32", "ARM64", True, "no CUDA build for this processor"),
        ("win32", "AMD64", True, ""),
    ],
)
def test_where_nothing_can_be_installed(system, processor, frozen, said):
    found = gpu_install.unsupported(system, processor, frozen=frozen)
    assert said in found
    assert bool(found) == bool(said)


def test_the_card_is_asked_of_the_driver():
    assert gpu_install.find_card(FakeNvml()) == Card("Fake GPU 0", (8, 6), 580)
    assert gpu_install.find_card(FakeNvml(broken={"nvmlInit"})) is None
    silent = FakeNvml(broken={"nvmlDeviceGetCudaComputeCapability", "nvmlSystemGetDriverVersion"})
    assert gpu_install.find_card(silent) == Card("Fake GPU 0")


def test_it_needs_what_trains_at_the_versions_of_this_hone():
    wanted, pinned = requirements()
    names = {name_of(line) for line in wanted}
    assert {"torch", "transformers", "bitsandbytes", "msgspec", "keyring"} <= names
    assert not names & {*gpu_install.WINDOW_PACKAGES, "pytest", "pyinstaller"}
    assert "torch==2.13.0" in pinned


def test_it_is_refused_where_it_cannot_be_had_or_nothing_may_be_asked(monkeypatch):
    with pytest.raises(UserError) as caught:
        gpu_install.installation(GpuState("Macs have no CUDA"))
    assert caught.value.detail == "Macs have no CUDA"
    with pytest.raises(UserError, match="works offline"):
        gpu_install.installation(OFFERED)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    gpu_install.installation(OFFERED)


def test_the_terminal_is_told_what_it_takes(monkeypatch, capsys):
    monkeypatch.setattr(gpu_install, "look", lambda: GpuState(card=CARD, begun=3 << 20, free=9 * GB))
    assert main.main(["gpu"]) == 0
    said = capsys.readouterr().out
    assert "3.0 MB of an unfinished installation" in said
    assert "`hone gpu --install` downloads about 2.7 GB" in said
    assert "9.0 GB are free" in said
    broken = GpuEnvironment(hone=ENVIRONMENT.hone, torch="2.13.0", cuda="13.0", problem="no kernel image")
    assert "no kernel image" in data.environment_lines(broken)[1]


def test_the_page_on_installing_names_the_same_sizes():
    page = " ".join((SOURCE_ROOT / "docs" / "install.md").read_text(encoding="utf-8").split())
    sizes = [
        formats.size(size) for size in (gpu_install.DOWNLOAD, gpu_install.INSTALLED, gpu_install.FREE_NEEDED)
    ]
    assert "about {} to download, {} on the disk, and {} free".format(*sizes) in page


NETWORK, GUARDED, DAMAGED = (
    "The internet can't be reached",
    "A file couldn't be read",
    "A downloaded file is damaged",
)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            "  × Failed to download `torch==2.13.0+cu130`\n"
            "  ├─▶ Failed to extract archive: torch-2.13.0+cu130-cp311-cp311-linux.whl\n"
            "  ├─▶ I/O operation failed during extraction\n"
            "  ╰─▶ Failed to download distribution due to network timeout. Try increasing\n"
            "      UV_HTTP_TIMEOUT (current value: 30s).",
            NETWORK,
        ),
        ("error: Failed to extract archive: torch.whl\n  cause: error decoding response body", NETWORK),
        (f"error: Failed to read `a.whl`\n  cause: {os.strerror(13)} (os error 13)", GUARDED),
        ("error: Failed to extract archive: torch.whl\n  cause: a file is corrupt: bad CRC", DAMAGED),
        ("error: Hash mismatch for `torch`\n  Expected: sha256:a407bc", DAMAGED),
        ("error: tunnel error: 407 Proxy Authentication Required", "A proxy refused"),
        ("error: invalid peer certificate: UnknownIssuer", "The server's certificate"),
        ("  × No solution found when resolving dependencies", "A library that Hone needs"),
        ("error: failed to write: No space left on device (os error 28)", "The disk is full"),
        ("thread 'main' panicked", "thread 'main' panicked"),
    ],
)
def test_what_uv_prints_is_told_by_its_cause(said, cause):
    assert gpu_install.explain(said).detail.startswith(cause)


@pytest.mark.long
def test_the_real_check_imports_what_trains(home, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("HONE_HOME", str(home))
    with pytest.raises(UserError) as caught:  # all of it worked, with the CPU build of this computer
        install()
    assert "came without CUDA" in caught.value.detail
