"""uv: what it is told of pip's settings and of the card. What fetches it is tested with the engine's job."""

import sys

import pytest

from core.base import uv


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Places where pip looks for files; nothing is set."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return {"XDG_CONFIG_DIRS": str(tmp_path / "system"), "XDG_CONFIG_HOME": str(tmp_path / "own")}


def write(folder, name, text):
    (folder / name).mkdir(parents=True)
    (folder / name / "pip.conf").write_text(text)


@pytest.mark.parametrize(
    ("told", "variables"),
    [
        ({"PIP_INDEX_URL": "https://mirror/simple"}, {"UV_DEFAULT_INDEX": "https://mirror/simple"}),
        (
            {"PIP_EXTRA_INDEX_URL": "https://a\nhttps://b"},
            {"UV_INDEX": "https://a\nhttps://b", "UV_INDEX_STRATEGY": "unsafe-best-match"},
        ),
        ({"PIP_FIND_LINKS": "/wheels /more"}, {"UV_FIND_LINKS": "/wheels,/more"}),
        ({"PIP_PROXY": "me:3"}, {"HTTPS_PROXY": "me:3", "HTTP_PROXY": "me:3"}),
        ({"PIP_TRUSTED_HOST": "\na\nb:8"}, {"UV_INSECURE_HOST": "a b:8"}),
        ({"PIP_CERT": "/ca.pem", "REQUESTS_CA_BUNDLE": "/all.pem"}, {"SSL_CERT_FILE": "/ca.pem"}),
        ({"PIP_CERT": "/ca.pem", "SSL_CERT_FILE": "/other.pem"}, {"SSL_CERT_FILE": None}),
        ({"PIP_INDEX_URL": "", "UV_HTTP_TIMEOUT": "7"}, {"UV_HTTP_TIMEOUT": None}),
    ],
)
def test_what_pip_is_told_is_told_to_uv_unless_uv_was(files, told, variables):
    usual = uv.environment(files)
    assert set(uv.SETTINGS) <= set(usual)
    changed = {**usual, **variables}
    assert uv.environment({**files, **told}) == {k: v for k, v in changed.items() if v is not None}


def test_pips_files_count_in_pips_order(files, tmp_path):
    usual = uv.pip_settings(files)
    write(tmp_path, "system/pip", "[global]\nindex-url = https://system\n")
    assert uv.pip_settings(files)["index-url"]
    own = "[global]\nindex-url = https://own\nfind_links =\n  /a\n  /b\n[install]\nno-index = true\n[list]\nproxy = x\n"
    write(tmp_path, "own/pip", own)
    write(tmp_path, "prefix", "not a setting")
    found = uv.pip_settings(files)
    assert found == {**usual, "index-url": "https://own", "find-links": "\n/a\n/b", "no-index": "true"}
    write(tmp_path, "chosen", "[global]\nindex-url = https://chosen\n")
    files["PIP_CONFIG_FILE"] = str(tmp_path / "chosen" / "pip.conf")
    assert uv.pip_settings(files)["index-url"] == "https://chosen"
    assert uv.pip_settings({**files, "PIP_INDEX_URL": "https://set"})["index-url"] == "https://set"
    assert uv.environment(files)["UV_FIND_LINKS"] == "/a,/b"


@pytest.mark.parametrize(
    ("printed", "capability", "backend"),
    [
        ("8.6\n", (8, 6), "auto"),
        ("12.0\r\n7.0\n", (7, 0), "cu126"),
        ("7.5", (7, 5), "auto"),
        ("[N/A]\n", None, "auto"),
        ("NVIDIA-SMI has failed because it couldn't communicate with driver 580.1", None, "auto"),
    ],
)
def test_the_oldest_card_decides_on_the_build_of_torch(printed, capability, backend):
    assert uv.capability_of(printed) == capability
    assert uv.torch_backend(capability) == backend
