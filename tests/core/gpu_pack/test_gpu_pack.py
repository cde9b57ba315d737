"""The GPU pack, made of a torch that only says its version: beside, checked, then renamed; and each way it fails."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import psutil
import pytest

from core.base import jobs, processes
from core.base.errors import UserError
from core.base.jobs import MARKER, JobCancelled, read_pack
from core.base.processes import ASKER
from core.services import gpu_install
from core.services import gpu_install as installing
from core.services.gpu_install import Install, PipTool, Step, UvTool, drop_begun, remove
from core.services.gpu_pack import Child
from tests.fakes.gpu_pack import StubTool
from tests.fakes.wheels import TINY, fake_torch, variant


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "Höne data"
    monkeypatch.setenv("HONE_HOME", str(home))
    monkeypatch.setattr(jobs, "needs", lambda build: variant(TINY, build=build))
    return home


@pytest.fixture
def wheels(tmp_path):
    fake_torch(tmp_path / "wheels")
    return tmp_path / "wheels"


def install(wheels, wanted=TINY, tool=None, **more):
    settings = {"checked": (), "room": 1, "total": 0, **more}
    return Install(wanted, Child(installing.log_file()), tool or PipTool(wheels), **settings)


def folders(home):
    return sorted(path.name for path in home.iterdir() if path.is_dir())


def test_it_is_made_of_a_folder_of_wheels_and_the_engine_runs_from_it(home, wheels):
    told = []
    pack = install(wheels).run(told.append)
    assert (pack.checked.torch, pack.checked.cuda) == ("2.13.0", None)
    assert list(dict.fromkeys(found.step for found in told)) == [Step.PYTHON, Step.LIBRARIES, Step.CHECK]
    assert folders(home) == ["gpu-pack"]
    assert jobs.standing().is_used
    assert read_pack(home / "gpu-pack") == pack
    command = jobs.engine_command("no-such-job")
    assert command[:3] == [sys._base_executable, "-P", "-s"]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""}
    )
    assert ended.returncode != 0
    assert "msgspec" in ended.stderr  # Hone's own source began, and found nothing but the pack's libraries


def test_what_the_engine_starts_finds_the_pack_too(home, tmp_path):
    own = tmp_path / "own"
    (own / "core" / "engine").mkdir(parents=True)
    (own / "core" / "__init__.py").touch()
    (own / "core" / "engine" / "__main__.py").write_text(
        "import os, subprocess, sys, torch\n"
        "again = subprocess.run([sys.executable, '-P', '-c', 'import torch; print(torch.__version__)'],"
        " capture_output=True, text=True)\n"
        "print(torch.__version__, again.stdout.strip(), sys.argv[1:])\n"
    )
    install(None, tool=StubTool()).run(lambda _: None)
    launch = Path(jobs.__file__).with_name("launch.py")
    asked = [sys._base_executable, "-P", "-s", launch, home / "gpu-pack" / "libraries", own, "devices"]
    ended = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "9 9 ['devices']"


def test_a_cancelled_one_leaves_nothing_and_the_next_one_goes_on(home, wheels):
    (home / "gpu-pack.cache").mkdir(parents=True)
    (home / "gpu-pack.cache" / "torch").write_bytes(b"half of it")
    tool = StubTool()
    job = install(wheels, tool=tool)
    tool.then = job.kill
    with pytest.raises(JobCancelled):
        job.run(lambda _: None)
    assert folders(home) == ["gpu-pack.cache"]
    assert jobs.engine_command("devices")[0] == sys.executable
    assert gpu_install.look().begun == 10
    install(wheels, tool=StubTool()).run(lambda _: None)
    assert folders(home) == ["gpu-pack"]


def test_one_that_runs_is_ended_from_another_thread(home, tmp_path):
    child = Child(tmp_path / "log")
    with pytest.raises(JobCancelled):
        child.run([sys.executable, "-c", "input() if 0 else __import__('time').sleep(600)"], watch=child.kill)
    with pytest.raises(JobCancelled):
        child.run([sys.executable, "-c", ""])


def test_ctrl_c_ends_what_runs_before_its_folder_is_deleted(home, tmp_path):
    child, seen = Child(tmp_path / "log"), []
    of_other_tests = set(psutil.Process().children())

    def interrupt():
        seen.extend(set(psutil.Process().children()) - of_other_tests)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        child.run([sys.executable, "-c", "input() if 0 else __import__('time').sleep(600)"], watch=interrupt)
    assert seen
    assert not any(process.is_running() for process in seen)


def test_giving_up_deletes_what_has_come_and_leaves_the_pack(home, wheels):
    install(wheels, tool=StubTool()).run(lambda _: None)
    (home / "gpu-pack.cache").mkdir()
    (home / "gpu-pack.cache" / "torch").write_bytes(b"half of it")
    assert drop_begun() == 10
    assert jobs.standing().is_used
    assert remove() > 0
    assert not jobs.standing().is_there
    assert folders(home) == []


def test_what_a_killed_installer_left_is_never_used_and_cleaned_up(home, wheels):
    left = home / "gpu-pack.new-1234"
    (left / "libraries" / "torch").mkdir(parents=True)
    shutil.copytree(left, home / "gpu-pack")
    assert jobs.engine_program("devices") is None
    assert "isn't complete" in jobs.standing().refusal
    install(wheels, tool=StubTool()).run(lambda _: None)
    assert folders(home) == ["gpu-pack"]
    assert jobs.engine_program("devices") is not None


def test_a_newer_hone_says_so_and_renews_it_without_its_libraries(home, wheels, monkeypatch):
    install(wheels, tool=StubTool()).run(lambda _: None)
    for module in (jobs, installing):
        monkeypatch.setattr(module, "VERSION", "99.0")
    found = jobs.standing()
    assert found.refusal.startswith("The GPU pack was made by Hone 0.1.0, and this is 99.0: renew it")
    assert found.can_renew
    assert jobs.engine_command("devices")[0] == sys.executable
    told = []
    install(wheels, tool=StubTool(then=lambda: pytest.fail("its libraries are right"))).run(told.append)
    assert [found.step for found in told] == [Step.CHECK]
    assert jobs.standing().is_used


def test_other_libraries_are_refused(home, wheels, monkeypatch):
    install(wheels, tool=StubTool()).run(lambda _: None)
    monkeypatch.setattr(jobs, "needs", lambda build: variant(TINY, requirements=("torch==3",)))
    found = jobs.standing()
    assert "other libraries" in found.refusal
    assert not found.can_renew


def test_without_room_nothing_begins(home, wheels, monkeypatch):
    usage = shutil.disk_usage(wheels)
    monkeypatch.setattr(gpu_install.shutil, "disk_usage", lambda _: usage._replace(free=5 << 30))
    with pytest.raises(UserError) as caught:
        install(wheels, room=8 << 30).run(lambda _: None)
    assert caught.value.detail.startswith("5.0 GB are free")
    assert "takes 8.0 GB" in caught.value.detail
    assert folders(home) == []


def test_a_damaged_wheel_is_told(home, wheels):
    wheel = next(wheels.iterdir())
    content = wheel.read_bytes()
    wheel.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError) as caught:
        install(wheels).run(lambda _: None)
    assert caught.value.detail.startswith("A file arrived damaged.")
    assert "gpu-pack" not in folders(home)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ImportError('libcudart.so.13 is missing')", "libcudart.so.13 is missing"),
        (None, "came without CUDA"),
    ],
)
def test_one_that_does_not_work_never_gets_its_name(home, wheels, body, said):
    wanted = variant(TINY, build="cu130")
    with pytest.raises(UserError) as caught:
        install(wheels, wanted, StubTool(body)).run(lambda _: None)
    assert said in caught.value.detail
    assert "gpu-pack" not in folders(home)


def test_one_that_is_in_use_stays(home, wheels):
    install(wheels, tool=StubTool()).run(lambda _: None)
    user = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; print(flush=True); sys.stdin.read()",
            str(home / "gpu-pack" / "libraries"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with user:
        user.stdout.readline()
        with pytest.raises(UserError, match="in use"):
            remove()
        user.stdin.close()
    assert jobs.standing().is_used


def test_two_at_once_are_refused(home, wheels):
    def try_second():
        with pytest.raises(UserError, match="already"):
            install(wheels).run(lambda _: None)

    install(wheels, tool=StubTool(then=try_second)).run(lambda _: None)


def test_a_bundle_copies_its_own_source_and_starts_it_in_a_clean_environment(
    home, wheels, monkeypatch, tmp_path
):
    bundle = tmp_path / "bundle"
    for name in ("core", "resources"):
        shutil.copytree(
            processes.SOURCE_ROOT / name,
            bundle / name,
            ignore=shutil.ignore_patterns("__pycache__", "engine"),
        )
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(installing, "SOURCE_ROOT", bundle)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(bundle))
    monkeypatch.setenv("LD_LIBRARY_PATH_ORIG", "/of/the/person")
    monkeypatch.setenv("_PYI_APPLICATION_HOME_DIR", str(bundle))
    install(wheels, tool=StubTool()).run(lambda _: None)
    command = jobs.engine_command("devices")
    assert command[3] == str(home / "gpu-pack" / "hone" / "core" / "gpu_pack" / "launch.py")
    assert command[5] == str(home / "gpu-pack" / "hone")
    said = "import json, os; print(json.dumps(dict(os.environ)))"
    worker = processes.start_worker(
        [command[0], "-c", said], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        environment={ASKER: "1"},
    )  # fmt: skip
    found = json.loads(worker.communicate()[0])
    assert found["LD_LIBRARY_PATH"] == "/of/the/person"
    assert "_PYI_APPLICATION_HOME_DIR" not in found
    assert found[ASKER] == "1"


def test_a_marker_of_another_kind_counts_for_nothing(home, wheels):
    install(wheels, tool=StubTool()).run(lambda _: None)
    marker = home / "gpu-pack" / MARKER
    marker.write_text(marker.read_text().replace('"schema": 1', '"schema": 2'))
    assert not jobs.standing().is_used
    marker.write_text("{")
    assert "isn't complete" in jobs.standing().refusal


def test_a_bundle_without_the_internet_says_what_its_folder_lacks(home, wheels, monkeypatch):
    monkeypatch.setenv("PATH", "")
    child = Child(installing.log_file())
    for interpreter, said in (
        (None, ": cpython-3.11.…-install_only….tar.gz"),
        (sys.executable, ": uv-0.13.9-….whl"),
    ):
        with pytest.raises(UserError) as caught:
            install(None, tool=UvTool(child, wheels, interpreter)).run(lambda _: None)
        assert said in caught.value.detail


def test_python_comes_out_of_an_archive(home, wheels, tmp_path):
    python = tmp_path / "python"
    (python / "bin").mkdir(parents=True)
    (python / "bin" / "python3.11").write_text("#!/bin/sh\n")
    with tarfile.open(wheels / "cpython-3.11.18+1-x86_64-install_only_stripped.tar.gz", "w:gz") as packed:
        packed.add(python, "python")
    tool = UvTool(Child(tmp_path / "log"), wheels)
    assert tool.bring_python(tmp_path / "new", TINY, pytest.fail) == "python/python/bin/python3.11"
    assert (tmp_path / "new" / "python" / "python" / "bin" / "python3.11").is_file()


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv isn't installed")
def test_uv_fills_it_too(home, wheels):
    child = Child(installing.log_file())
    tool = UvTool(child, wheels, interpreter=sys._base_executable)
    pack = Install(TINY, child, tool, checked=(), room=1, total=0).run(lambda _: None)
    assert pack.checked.torch == "2.13.0"
    assert folders(home) == ["gpu-pack"]
