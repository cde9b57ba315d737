"""The scripts that sign, notarise and pack the application of a Mac, with stand-ins for Apple's programs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "packaging" / "macos"

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or shutil.which("bash") is None, reason="they are scripts of bash"
)

STAND_IN = '#!/bin/bash\necho "$(basename "$0") $*" >> "$CALLS"\n'

ANSWERS = {
    "codesign": "",
    "ditto": 'if [ "$1" != -c ]; then cp -R "$1" "$2"; fi',
    "hdiutil": 'if [ "$1" = create ]; then ls -A "$5" > "${@: -1}"; fi',
    "security": """case $1 in
find-identity) echo '  1) 0123ABCD "Developer ID Application: Somebody (TEAM)"' ;;
list-keychains) [ $# = 3 ] && echo '    "/Library/login.keychain-db"' ; true ;;
esac""",
    "file": """case $2 in
*.dylib) echo "Mach-O 64-bit dynamically linked shared library arm64" ;;
*/MacOS/*) echo "Mach-O 64-bit executable arm64" ;;
*) echo "ASCII text" ;;
esac""",
    "xcrun": """[ "$1" = notarytool ] && echo "  status: ${VERDICT:-Accepted}" ; true""",
    "openssl": "echo password",
}

SECRETS = {
    "MACOS_CERTIFICATE": "Y2VydA==",
    "MACOS_CERTIFICATE_PASSWORD": "secret word",
    "APPLE_ID": "somebody@example.org",
    "APPLE_TEAM_ID": "TEAM",
    "APPLE_APP_PASSWORD": "another word",
}


@pytest.fixture
def app(tmp_path):
    app = tmp_path / "Hone.app"
    for name in ("MacOS/hone", "Frameworks/libtorch.dylib", "Resources/a b.txt"):
        file = app / "Contents" / name
        file.parent.mkdir(parents=True)
        file.write_text(name)
    return app


@pytest.fixture
def run(tmp_path):
    """Runs a script; returns its result and the calls it made."""
    programs, calls = tmp_path / "programs", tmp_path / "calls"
    programs.mkdir()
    for name, more in ANSWERS.items():
        (programs / name).write_text(f"{STAND_IN}{more}\n")
        (programs / name).chmod(0o755)

    def run(script, *arguments, **environment):
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", str(SCRIPTS / script), *map(str, arguments)],
            env={"PATH": path, "CALLS": str(calls), "TMPDIR": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done, calls.read_text().splitlines() if calls.exists() else []

    return run


def test_without_secrets_nothing_is_signed_and_a_note_says_so(run, app):
    done, calls = run("sign_and_notarise.sh", app)
    assert (done.returncode, calls) == (0, [])
    assert "NOTE: " in done.stdout


def test_everything_is_signed_from_the_inside_then_notarised(run, app):
    done, calls = run("sign_and_notarise.sh", app, **SECRETS)
    assert done.returncode == 0, done.stderr
    signed = [call for call in calls if call.startswith("codesign --force")]
    assert {call.rpartition("/")[2] for call in signed[:-1]} == {"hone", "libtorch.dylib"}
    assert signed[-1].endswith("/Hone.app")
    assert all("--options runtime" in call for call in signed)
    with_entitlements = [call.rpartition("/")[2] for call in signed if "--entitlements" in call]
    assert with_entitlements == ["hone", "Hone.app"]
    assert [call for call in calls if call.startswith("xcrun")][-1] == f"xcrun stapler staple {app}"
    assert any(call.startswith("security delete-keychain") for call in calls)
    assert "secret word" not in done.stdout + done.stderr


def test_an_application_that_apple_refuses_is_a_failure_and_the_keychain_is_deleted(run, app):
    done, calls = run("sign_and_notarise.sh", app, **SECRETS, VERDICT="Invalid")
    assert done.returncode == 1
    assert "did not accept" in done.stderr
    assert any(call.startswith("security delete-keychain") for call in calls)


def test_without_an_apple_id_it_is_signed_and_not_notarised(run, app):
    done, calls = run("sign_and_notarise.sh", app, **{**SECRETS, "APPLE_ID": ""})
    assert done.returncode == 0
    assert not [call for call in calls if call.startswith("xcrun")]


def test_the_disk_image_holds_the_application_and_a_link_and_is_signed_as_one_file(run, app, tmp_path):
    image = tmp_path / "Hone.dmg"
    done, calls = run("make_dmg.sh", app, image)
    assert done.returncode == 0, done.stderr
    assert image.read_text().split() == ["Applications", "Hone.app"]
    assert calls[-1] == f"hdiutil verify {image}"
    done, calls = run("sign_and_notarise.sh", image, **SECRETS)
    assert done.returncode == 0, done.stderr
    (signed,) = [call for call in calls if call.startswith("codesign")]
    assert signed.endswith(str(image))
