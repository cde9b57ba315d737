"""A GPU pack that is there already: renewed, left as it was, or, where it is damaged, made anew."""

import shutil
import sys

import msgspec
import pytest

from core.base import jobs, processes
from core.base.errors import UserError
from core.base.jobs import FILLED, MARKER, JobCancelled, read_filled, read_pack, write
from core.services import gpu_install as installing
from core.services.gpu_install import Install, Step
from core.services.gpu_pack import Child
from tests.fakes.gpu_pack import StubTool
from tests.fakes.wheels import TINY, variant


@pytest.fixture
def pack(tmp_path, monkeypatch):
    """The folder of a pack that is used."""
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(jobs, "needs", lambda build: variant(TINY, build=build))
    install().run(lambda _: None)
    assert jobs.standing().is_used
    return tmp_path / "home" / "gpu-pack"


def install():
    child = Child(installing.log_file())
    return Install(TINY, child, StubTool(), checked=(), room=1, total=0)


def steps_of(job):
    told = []
    job.run(told.append)
    return list(dict.fromkeys(progress.step for progress in told))


def move_python(pack, interpreter):
    filled = msgspec.structs.replace(read_filled(pack), interpreter=interpreter)
    write(pack / FILLED, filled)
    write(pack / MARKER, msgspec.structs.replace(read_pack(pack), filled=filled))


@pytest.mark.parametrize("is_done", [True, False])
def test_one_whose_python_is_gone_is_made_anew(pack, is_done):
    move_python(pack, "python/gone")
    if not is_done:
        (pack / MARKER).unlink()
    assert jobs.standing().refusal
    assert not jobs.standing().can_renew  # so that the window says how much comes
    assert Step.LIBRARIES in steps_of(install())
    assert jobs.standing().is_used


def damage_library(pack):
    (pack / "libraries" / "torch" / "__init__.py").write_text("raise ImportError('torn in two')")
    return "torn in two"


def damage_python(pack):
    (pack / "python").write_text("no program")
    move_python(pack, "python")
    return ""


@pytest.mark.parametrize("damage", [damage_library, damage_python])
def test_one_that_works_no_more_is_given_up_then_made_anew(pack, damage):
    said = damage(pack)
    with pytest.raises(UserError, match="doesn't work any more") as caught:
        install().run(lambda _: None)
    assert said in caught.value.detail
    assert "taken away" not in caught.value.detail
    assert "brought anew" in caught.value.fixes[0].label
    assert not jobs.standing().is_used
    assert not jobs.standing().can_renew
    assert Step.LIBRARIES in steps_of(install())
    assert jobs.standing().is_used


@pytest.mark.parametrize("how", [KeyboardInterrupt, JobCancelled])
def test_one_that_is_used_stays_so_when_its_check_is_broken_off(pack, how):
    job = install()

    def break_off(_told):
        if how is KeyboardInterrupt:
            raise KeyboardInterrupt
        job.kill()

    with pytest.raises(how):
        job.run(break_off)
    assert jobs.standing().is_used
    assert steps_of(install()) == [Step.CHECK]


def test_a_bundle_changes_the_source_only_once_it_is_checked(pack, monkeypatch, tmp_path):
    bundle = tmp_path / "bundle"
    for name in ("core/gpu_pack", "resources/icons"):
        shutil.copytree(processes.SOURCE_ROOT / name, bundle / name)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(installing, "SOURCE_ROOT", bundle)
    older = pack / "hone" / "older.txt"
    older.parent.mkdir()
    older.touch()
    job = install()
    with pytest.raises(JobCancelled):
        job.run(lambda _: job.kill())
    assert older.exists()
    assert steps_of(install()) == [Step.CHECK]
    assert sorted(path.name for path in older.parent.iterdir()) == ["core", "resources"]
    assert not (pack / "hone.new").exists()
