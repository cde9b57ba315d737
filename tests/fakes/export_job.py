"""A stand-in for the engine's jobs of an export: `python export_job.py JOB SCENARIO`, as a test wants it."""

import json
import sys
import time
from pathlib import Path

REPORT = {"kind": "folder", "path": "", "files": ["README.md"], "size": 7}


def main(job: str, scenario: str) -> int:
    asked = json.loads(sys.stdin.read())
    if job == "hub-account":
        print(json.dumps({"place": "nowhere" if scenario == "no-token" else "keychain"}))
        return 0
    if job == "export-push":
        Path(asked["folder"], "README.md").read_bytes()
        print(json.dumps({"url": f"https://huggingface.co/{asked['repo']}"}))
        return 0
    print('{"type":"progress","done":1,"total":6,"what":"Copying the model"}', flush=True)
    Path(asked["staging"], "README.md").write_text("# Model")
    if scenario == "hang":
        time.sleep(60)
    if scenario == "refuse":
        print(
            json.dumps({"error": {"title": ("The exported model's answers differ from the trained model's")}})
        )
        return 1
    if scenario == "taken":
        Path(asked["target"]).mkdir()
        Path(asked["target"], "mine").touch()
    print(json.dumps(REPORT))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
