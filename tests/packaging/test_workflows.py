"""The workflows, which no runner has seen yet: they load, call files that are there, and try out what they publish."""

import os
import re
from pathlib import Path

import pytest
import yaml

from bootstrap import system_libraries

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
BUNDLES = ROOT / ".github" / "workflows" / "bundles.yml"
SYSTEMS = ("linux", "macos", "windows")


def loaded(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(workflow, job):
    return loaded(workflow)["jobs"][job]["steps"]


def every_step():
    return [
        (workflow, job, step)
        for workflow in WORKFLOWS
        for job, work in loaded(workflow)["jobs"].items()
        for step in work["steps"]
    ]


def test_there_are_tests_and_bundles():
    assert [path.name for path in WORKFLOWS] == ["bundles.yml", "tests.yml"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_job_has_a_runner_and_an_end(workflow):
    content = loaded(workflow)
    assert content["permissions"] == {"contents": "read"}
    for name, job in content["jobs"].items():
        assert job["runs-on"]
        assert job["steps"]
        assert name == "release" or job["timeout-minutes"] <= 120


def test_every_file_that_a_step_runs_is_kept():
    named = re.compile(r"(?<![\w/.-])((?:packaging|resources|\.ci)/[\w./-]+|start\.py)")
    found = {
        (path, workflow.name)
        for workflow, _, step in every_step()
        for path in named.findall(step.get("run", ""))
    }
    assert {path for path, _ in found} >= {
        "start.py",
        "packaging/macos/make_dmg.sh",
        "packaging/check_mps.py",
    }
    assert {pair for pair in found if not (ROOT / pair[0]).is_file()} == set()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such leave")
def test_scripts_that_are_started_by_name_may_be():
    scripts = [*(ROOT / "packaging").rglob("*.sh")]
    assert scripts
    assert [script for script in scripts if not script.stat().st_mode & 0o111] == []


def test_actions_are_github_s_own_and_of_a_version():
    used = {step["uses"] for _, _, step in every_step() if "uses" in step}
    assert used
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", name) for name in used)


def test_no_word_from_outside_is_pasted_into_a_script():
    """A branch or tag may have any name: scripts read them from variables, where they are words and no code."""
    pasted = [step["run"] for _, _, step in every_step() if "${{" in step.get("run", "")]
    assert pasted == []


def test_every_system_s_bundle_is_tried_out_before_it_is_given_away():
    for job in SYSTEMS:
        work = steps(BUNDLES, job)
        upload = next(i for i, step in enumerate(work) if "upload-artifact" in step.get("uses", ""))
        before = "\n".join(step.get("run", "") for step in work[:upload])
        assert "start.py bundle" in before
        tried = before + (ROOT / "packaging" / "windows" / "try_installer.ps1").read_text(
            encoding="utf-8"
        ) * ("try_installer.ps1" in before)
        assert "start.py bundle --try" in tried
        assert upload == len(work) - 1


def test_the_libraries_that_a_bundle_asks_for_are_installed_before_it_is_built():
    """A runner isn't root: there `start.py bundle` only names what is missing, and ends."""
    work = steps(BUNDLES, "linux")
    built = next(i for i, step in enumerate(work) if "start.py bundle" in step.get("run", ""))
    installed = set("\n".join(step.get("run", "") for step in work[:built]).split())
    wanted = {**system_libraries.ALWAYS, **system_libraries.ON_WAYLAND, **system_libraries.ON_X11}
    assert set(wanted.values()) <= installed


def test_what_packs_and_what_goes_into_an_appimage_are_held_against_checksums():
    job = loaded(BUNDLES)["jobs"]["linux"]
    for name in ("APPIMAGETOOL", "APPIMAGE_RUNTIME"):
        assert "continuous" not in job["env"][f"{name}_ADDRESS"]
        assert re.fullmatch(r"[0-9a-f]{64}", job["env"][f"{name}_SHA256"])
    said = next(step["run"] for step in job["steps"] if "_ADDRESS" in step.get("run", ""))
    assert said.index("sha256sum --check") < said.index("$APPIMAGE_RUNTIME_SHA256")


def test_only_the_release_may_write_and_only_after_all_three():
    release = loaded(BUNDLES)["jobs"]["release"]
    assert set(release["needs"]) == set(SYSTEMS)
    assert release["permissions"] == {"contents": "write"}
    said = "\n".join(step.get("run", "") for step in release["steps"])
    assert "sha256sum" in said
    assert "--draft" in said


def test_secrets_are_seen_by_the_steps_that_sign_and_by_no_other():
    seeing = {step["run"].split()[0] for _, _, step in every_step() if "secrets." in str(step)}
    assert seeing == {"packaging/macos/sign_and_notarise.sh"}


def test_macs_are_those_with_apple_chips():
    """The oldest that GitHub still lends: `macos-14` went on 2 November 2026 (actions/runner-images issue 13518)."""
    named = "\n".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    assert set(re.findall(r"macos-\d+[\w-]*", named)) == {"macos-15"}
    systems = [row["os"] for row in loaded(WORKFLOWS[1])["jobs"]["tests"]["strategy"]["matrix"]["include"]]
    assert {system.partition("-")[0] for system in systems} == {"ubuntu", "windows", "macos"}
