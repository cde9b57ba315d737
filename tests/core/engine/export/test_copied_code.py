"""The Python code of an export, copied as it stands, run where only the packages that its README names are."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
import torch
from PIL import Image

from core.engine.data.image_files import LARGE_PIXELS, ImageTransform
from core.engine.models.method import apply_method
from core.engine.models.past_runs import save_base_model
from core.engine.models.pretrained import load_tokenizer
from core.engine.models.vision import (
    RECIPE,
    VisionRecipe,
    find_image_model,
    load_image_model,
    load_vision_model,
)
from core.jobs.export import ExportKind, ExportReport
from core.options.choices import ImageFit, Method, Task
from core.runs.folder import RunFolder
from tests.fakes import coremltools
from tests.fakes.bare import link_packages, run_bare
from tests.fakes.conversations import PLAIN
from tests.fakes.exports import LABELS, PROMPTS, exported
from tests.fakes.models import save_tiny_bert, save_tiny_talker, save_tiny_vision
from tests.fakes.trained_runs import finished_run, with_model, with_network

MEAN, STD = (0.5, 0.4, 0.3), (0.25, 0.2, 0.3)
ANIMALS = ("cat", "dog, small", "سلحفاة")
TURNED = 6
"""EXIF's word for an image that lies on its side."""
FAKES = Path(coremltools.__file__).parent


def said_by(report: ExportReport, folder: Path, *more: str) -> str:
    """What the copied code prints, with the packages that the README installs, and `more`."""
    (folder / "export").rename(report.path)
    card = (Path(report.path) / "README.md").read_text(encoding="utf-8")
    assert report.code in card
    [packages] = re.findall(r"^`pip install ([^`]*)`, then:$", card, re.MULTILINE)
    named = [name for name in packages.split() if name != "coremltools"]
    site = link_packages(folder / "site-packages", (*named, *more))
    if "coremltools" in packages.split():
        link_packages(site, ["torch"])
        (site / "coremltools.py").symlink_to(FAKES / "coremltools.py")
    (folder / "read_me.py").write_text(report.code, encoding="utf-8")
    done = run_bare(site, folder / "read_me.py")
    assert done.returncode == 0, done.stderr
    return done.stdout


def finished(folder: Path, task: Task) -> tuple[RunFolder, Any]:
    """A run of a tiny model with its model."""
    bert = save_tiny_bert(folder / "bert")
    run, options = finished_run(folder / "run", task, bert, ("a good story", "A text."))
    return run, with_model(run, options, LABELS if task.has_labels else ())


def finished_images(folder: Path, source: str) -> tuple[RunFolder, Any]:
    run, options = finished_run(folder / "run", Task.IMAGE_CLASSIFICATION, source, pretrained=False)
    if source.startswith("torchvision:"):
        model = with_network(run, options)
    else:
        save_tiny_vision(run.model, num_labels=len(ANIMALS))
        from transformers import AutoModelForImageClassification

        model = AutoModelForImageClassification.from_pretrained(run.model)
        model.config.id2label = dict(enumerate(ANIMALS))
        model.save_pretrained(run.model)
    size = 64 if source.startswith("torchvision:") else 32
    recipe = VisionRecipe(architecture=source, labels=ANIMALS, image_size=size, mean=MEAN, std=STD)
    (run.model / RECIPE).write_bytes(msgspec.json.encode(recipe))
    return run, model.eval()


def of_text(model: Any, run: RunFolder, task: Task) -> str:
    """What the trained model says of the text in the code, read as a run reads texts."""
    with torch.no_grad():
        tokens = load_tokenizer(str(run.model))("A text.", return_tensors="pt")
        logits = model(**tokens).logits[0]
    if task is Task.TEXT_REGRESSION:
        return f"{float(logits):.4g}\n"
    rows = [logits] if task is Task.TEXT_CLASSIFICATION else [*logits[1:-1]]  # not the special tokens
    words = [""] if task is Task.TEXT_CLASSIFICATION else ["A: ", "text: ", ".: "]
    said = [(LABELS[int(row.argmax())], float(row.softmax(-1).max())) for row in rows]
    return "".join(f"{word}{label}, {share:.1%}\n" for word, (label, share) in zip(words, said, strict=True))


def of_photo(model: Any, size: int, photo: Path, fit: ImageFit = ImageFit.SQUASH) -> str:
    """The same of a photo, read as a run reads images."""
    seen = ImageTransform(size, MEAN, STD, fit)(photo)
    with torch.no_grad():
        shares = model(pixel_values=seen[None])["logits"][0].softmax(-1)
    return f"{ANIMALS[int(shares.argmax())]}, {float(shares.max()):.1%}\n"


def save_photo(path: Path, kind: str) -> None:
    """Save noise as a photo that is read in a way of its own."""
    height, width = (4200, 4100) if kind == "large" else (40, 70)
    random = np.random.default_rng(3)
    pixels = random.integers(0, 256, (height // 2, width // 2, 3)).astype(np.uint8).repeat(2, 0).repeat(2, 1)
    exif = Image.Exif()
    exif[0x0112] = TURNED
    match kind:
        case "grey":
            Image.fromarray(pixels[..., 0]).save(path, "PNG")
        case "grey of 16 bits":
            Image.fromarray(pixels[..., 0].astype(np.uint16) * 201).save(path, "PNG")
        case "transparent":
            Image.fromarray(np.dstack((pixels, pixels[..., :1]))).save(path, "PNG")
        case _:
            Image.fromarray(pixels).save(path, "JPEG", exif=exif)


PHOTOS = ("turned", "grey", "grey of 16 bits", "transparent", "large")
assert LARGE_PIXELS < 4200 * 4100


# --- ONNX


@pytest.mark.parametrize("task", [Task.TEXT_CLASSIFICATION, Task.TEXT_REGRESSION, Task.TOKEN_CLASSIFICATION])
def test_the_code_of_an_onnx_export_says_of_a_text_what_the_model_says(task, tmp_path):
    run, model = finished(tmp_path, task)
    report = exported(run, ExportKind.ONNX, tmp_path / "export")
    graph = onnx.load(tmp_path / "export" / "model.onnx")
    told = {each.key: each.value for each in graph.metadata_props}
    assert told["task"] == task
    assert told["tokenizer"] in report.files
    assert told["max_length"] == "64"
    assert told["inputs"].split(", ") == [each.name for each in graph.graph.input]
    assert json.loads(told.get("labels", "[]")) == (list(LABELS) if task.has_labels else [])
    assert graph.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    card = (tmp_path / "export" / "README.md").read_text()
    assert ("labels.json" in report.files) is task.has_labels is ("`labels.json` has the same" in card)
    if task.has_labels:
        assert json.loads((tmp_path / "export" / "labels.json").read_text()) == list(LABELS)
    assert said_by(report, tmp_path) == of_text(model, run, task)


def test_a_tokenizer_that_pads_and_cuts_by_itself_gives_the_same_answer(tmp_path):
    from tokenizers import Tokenizer

    run, model = finished(tmp_path, Task.TEXT_CLASSIFICATION)
    own = Tokenizer.from_file(str(run.model / "tokenizer.json"))
    own.enable_padding(length=40)
    own.enable_truncation(2)
    own.save(str(run.model / "tokenizer.json"))
    report = exported(run, ExportKind.ONNX, tmp_path / "export")
    assert said_by(report, tmp_path) == of_text(model, run, Task.TEXT_CLASSIFICATION)


@pytest.mark.parametrize("source", ["torchvision:squeezenet1_0", "vit"])
def test_the_code_of_an_onnx_export_says_of_any_photo_what_the_model_says(source, tmp_path):
    run, model = finished_images(tmp_path, source)
    report = exported(run, ExportKind.ONNX, tmp_path / "export")
    told = {each.key: each.value for each in onnx.load(tmp_path / "export" / "model.onnx").metadata_props}
    size = 64 if source.startswith("torchvision:") else 32
    assert json.loads(told["labels"]) == list(ANIMALS)
    assert (json.loads(told["image_mean"]), json.loads(told["image_std"])) == (list(MEAN), list(STD))
    assert (told["image_size"], told["image_layout"], told["image_colors"]) == (str(size), "NCHW", "RGB")
    assert told["image_range"].startswith("0 to 1")
    assert (told["image_resize"], told["image_fit"]) == ("bilinear", "squash")
    card = (tmp_path / "export" / "README.md").read_text(encoding="utf-8")
    assert all(f"| {name} | {value} |" in card for name, value in told.items())
    save_photo(tmp_path / "photo.jpg", PHOTOS[0])
    assert said_by(report, tmp_path) == of_photo(model, size, tmp_path / "photo.jpg")
    for kind in PHOTOS[1:] if source != "vit" else ():
        save_photo(tmp_path / "photo.jpg", kind)
        done = run_bare(tmp_path / "site-packages", tmp_path / "read_me.py")
        assert done.stdout == of_photo(model, size, tmp_path / "photo.jpg"), kind


def test_a_model_of_the_middle_of_images_is_given_the_middle(tmp_path):
    run, model = finished_images(tmp_path, "torchvision:squeezenet1_0")
    recipe = run.model / "hone.json"
    recipe.write_text(recipe.read_text().replace('"squash"', '"crop"'))
    report = exported(run, ExportKind.ONNX, tmp_path / "export")
    save_photo(tmp_path / "photo.jpg", "turned")
    said = said_by(report, tmp_path)
    assert said == of_photo(model, 64, tmp_path / "photo.jpg", ImageFit.CROP)
    assert said != of_photo(model, 64, tmp_path / "photo.jpg")
    told = {each.key: each.value for each in onnx.load(f"{report.path}/model.onnx").metadata_props}
    assert told["image_fit"] == "crop"


# --- Core ML, with a stand-in for what needs a Mac


@pytest.mark.parametrize("task", [Task.IMAGE_CLASSIFICATION, Task.TEXT_CLASSIFICATION])
def test_the_code_of_a_core_ml_export_says_what_the_model_says(task, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "coremltools", coremltools)
    made = (
        finished_images(tmp_path, "torchvision:squeezenet1_0")
        if task.reads_images
        else finished(tmp_path, task)
    )
    run, model = made
    report = exported(run, ExportKind.COREML, tmp_path / "export")
    assert {"model.mlpackage/told.json", "labels.json"} <= set(report.files)
    _inputs, told = json.loads((tmp_path / "export" / "model.mlpackage" / "told.json").read_text())
    assert json.loads(told["labels"]) == list(ANIMALS if task.reads_images else LABELS)
    save_photo(tmp_path / "photo.jpg", "turned")
    said = said_by(report, tmp_path)
    assert said == (
        of_photo(model, 64, tmp_path / "photo.jpg") if task.reads_images else of_text(model, run, task)
    )
    assert "drag `model.mlpackage` into a project in Xcode" in (Path(report.path) / "README.md").read_text()


# --- Model folders and adapters


@pytest.mark.parametrize("kind", [ExportKind.ADAPTER, ExportKind.MERGED])
def test_the_code_of_an_adapter_or_a_merged_model_says_what_the_model_says(lora, tmp_path, kind):
    run, model = lora
    report = exported(run, kind, tmp_path / "export")
    assert said_by(report, tmp_path) == of_text(model, run, Task.TEXT_CLASSIFICATION)


def test_a_torchvision_that_was_built_for_another_pytorch_does_no_harm(lora, tmp_path):
    run, model = lora
    report = exported(run, ExportKind.MERGED, tmp_path / "export")
    assert said_by(report, tmp_path, "torchvision") == of_text(model, run, Task.TEXT_CLASSIFICATION)


@pytest.mark.parametrize("source", ["torchvision:squeezenet1_0", "vit"])
def test_the_code_of_a_folder_says_of_a_photo_what_the_model_says(source, tmp_path):
    run, model = finished_images(tmp_path, source)
    report = exported(run, ExportKind.FOLDER, tmp_path / "export")
    save_photo(tmp_path / "photo.jpg", "turned")
    size = 64 if source.startswith("torchvision:") else 32
    assert said_by(report, tmp_path) == of_photo(model, size, tmp_path / "photo.jpg")


@pytest.mark.parametrize("kind", [ExportKind.ADAPTER, ExportKind.MERGED])
def test_an_adapter_of_a_torchvision_network_is_used_with_the_past_run_that_it_was_trained_on(
    tmp_path, monkeypatch, kind
):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    finished_images(tmp_path / "runs", "torchvision:squeezenet1_0")
    run, options = finished_run(
        tmp_path / "runs" / "second", Task.IMAGE_CLASSIFICATION, "run:run", method=Method.LORA
    )
    loaded = load_image_model(options, find_image_model(options), ANIMALS)
    model: Any = apply_method(loaded.model, options, loaded.fresh)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.05 * weight.requires_grad)
    model.eval().save_pretrained(run.model)
    shutil.copy(tmp_path / "runs" / "run" / "model" / RECIPE, run.model)
    save_base_model(run.model, "run:run")
    report = exported(run, kind, tmp_path / "export")
    save_photo(tmp_path / "photo.jpg", "turned")
    assert said_by(report, tmp_path) == of_photo(model, 64, tmp_path / "photo.jpg")


def test_an_adapter_on_random_weights_has_no_code(tmp_path):
    run, options = finished_run(
        tmp_path / "run",
        Task.IMAGE_CLASSIFICATION,
        "torchvision:squeezenet1_0",
        method=Method.LORA,
        pretrained=False,
    )
    with_network(run, options)
    apply_method(load_vision_model(options.model, 3, 3), options, ()).save_pretrained(run.model)
    report = exported(run, ExportKind.ADAPTER, tmp_path / "export")
    card = (tmp_path / "export" / "README.md").read_text()
    assert not report.code
    assert "began with random weights, which no file has: export it merged." in card
    assert "pip install" not in card


def test_the_code_of_a_chat_adapter_on_a_past_run_writes_what_the_model_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    talker = save_tiny_talker(tmp_path / "talker", PLAIN)
    first, options = finished_run(tmp_path / "runs" / "first", Task.CHAT, talker, PROMPTS)
    with_model(first, options)
    second, options = finished_run(
        tmp_path / "runs" / "second", Task.CHAT, "run:first", PROMPTS, method=Method.LORA
    )
    model = with_model(second, options)
    save_base_model(second.model, "run:first")
    tokenizer = load_tokenizer(str(second.model))
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hello!"}],
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
    )
    with torch.no_grad():
        written = model.generate(**asked, max_new_tokens=100)
    expected = tokenizer.decode(written[0, asked["input_ids"].shape[1] :], skip_special_tokens=True)
    report = exported(second, ExportKind.ADAPTER, tmp_path / "export")
    assert said_by(report, tmp_path).strip() == expected.strip()
