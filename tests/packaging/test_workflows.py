"""The workflows load, call files that exist, try out what they publish, and give nothing away."""

import re
from pathlib import Path

import pytest
import yaml

from bootstrap import system_libraries

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in (ROOT / ".github" / "workflows").glob("*.yml")
}
JOBS = [(name, job) for workflow in WORKFLOWS.values() for name, job in workflow["jobs"].items()]
STEPS = [step for _, job in JOBS for step in job["steps"]]
SCRIPTS = [step["run"] for step in STEPS if "run" in step]
SYSTEMS = ("linux", "macos", "windows")


def scripts_before(workflow, job, word):
    """The scripts of a job up to the first step with this word."""
    steps = WORKFLOWS[workflow]["jobs"][job]["steps"]
    place = next(
        number for number, step in enumerate(steps) if word in f"{step.get('uses')} {step.get('run')}"
    )
    return "\n".join(step.get("run", "") for step in steps[:place])


def test_every_job_ends_and_only_a_release_of_all_three_systems_may_write():
    for name, job in JOBS:
        assert name == "release" or job["timeout-minutes"] <= 120
    assert [workflow["permissions"] for workflow in WORKFLOWS.values()] == [{"contents": "read"}] * 2
    assert [name for name, job in JOBS if "permissions" in job] == ["release"]
    release = WORKFLOWS["bundles"]["jobs"]["release"]
    assert set(release["needs"]) == set(SYSTEMS)
    assert "--draft" in release["steps"][-1]["run"]


def test_every_file_that_a_step_runs_exists():
    named = re.compile(r"(?<![\w/.-])((?:packaging|resources)/[\w./-]+|start\.py)")
    paths = {path for script in SCRIPTS for path in named.findall(script)}
    assert paths >= {"start.py", "packaging/macos/make_dmg.sh", "packaging/check_mps.py"}
    assert [path for path in paths if not (ROOT / path).is_file()] == []
    assert [file for file in (ROOT / "packaging").rglob("*.sh") if not file.stat().st_mode & 0o111] == []


def test_no_word_from_outside_is_pasted_into_a_script():
    """A branch or tag may have any name: scripts read it from a variable, where it can't become code."""
    assert [script for script in SCRIPTS if "${{" in script] == []


def test_only_actions_of_github_are_used_and_only_signing_sees_secrets():
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in STEPS if "uses" in step)
    with_secrets = {step["run"].split()[0] for step in STEPS if "secrets." in str(step)}
    assert with_secrets == {"packaging/macos/sign_and_notarise.sh"}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_bundle_is_tried_out_before_it_is_uploaded(system):
    before = scripts_before("bundles", system, "upload-artifact")
    assert "start.py bundle" in before
    if "try_installer.ps1" in before:
        before += (ROOT / "packaging" / "windows" / "try_installer.ps1").read_text(encoding="utf-8")
    assert "start.py bundle --try" in before


@pytest.mark.parametrize(
    ("workflow", "job", "wanted"),
    [
        ("tests", "tests", system_libraries.FOR_TESTS),
        ("bundles", "linux", system_libraries.FOR_BUNDLES),
    ],
)
def test_what_start_py_installs_as_root_a_workflow_installs_before_it(workflow, job, wanted):
    """A runner isn't root: there `start.py bundle` only names what is missing, and ends."""
    script = scripts_before(workflow, job, "start.py")
    installed = re.search(r"apt-get install -y --no-install-recommends ((?:.*\\\n)*.*)", script)
    assert sorted(installed[1].replace("\\", " ").split()) == sorted({*wanted.values()})


def test_downloads_for_an_appimage_have_checksums():
    environment = WORKFLOWS["bundles"]["jobs"]["linux"]["env"]
    for name in ("APPIMAGETOOL", "APPIMAGE_RUNTIME"):
        assert "continuous" not in environment[f"{name}_ADDRESS"]
        assert re.fullmatch(r"[0-9a-f]{64}", environment[f"{name}_SHA256"])
    script = next(script for script in SCRIPTS if "_ADDRESS" in script)
    assert script.index("sha256sum --check") < script.index("$APPIMAGE_RUNTIME_SHA256")
