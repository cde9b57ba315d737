"""The samples of a self-test: every form that Hone reads is among them, and each is read as what it is."""

from core.engine.data.file_kinds import Kind
from core.engine.inspecting.looking import inspect
from core.selftest import samples
from core.selftest.samples import SAMPLES
from core.selftest.training import options_for
from core.task_guess import IMAGE_FORMATS

IMAGES = {"IDX", "class folders", "CSV of image paths", "Parquet with images"}
SAME = {".jpeg": ".jpg", ".tif": ".tiff"}


def test_every_form_is_among_the_samples_and_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path / "home"))
    found = set()
    for sample in SAMPLES:
        source = sample.write(tmp_path)
        report = inspect(options_for(sample.task, {"data.train": str(source)}))
        assert report.rows == (sample.rows or report.rows), sample.name
        found |= {report.format, *([f"{report.format}, compressed"] if is_compressed(source) else [])}
    tables = {kind.value for kind in Kind}
    assert found >= {*tables, "TSV", "text", *IMAGES, "CSV, compressed", "IDX, compressed"}


def is_compressed(source):
    files = source.iterdir() if source.is_dir() else [source]
    return all(path.suffix == ".gz" for path in files)


def test_the_table_names_an_image_of_every_kind(tmp_path):
    folder = samples.write_image_table(tmp_path).parent
    written = {path.suffix for path in folder.iterdir()} - {".csv"}
    assert written == {SAME.get(ending, ending) for ending in IMAGE_FORMATS}
