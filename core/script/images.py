"""Code for images: found, split, resized, normalised, and the models that see them."""

from core.choices import Task
from core.script.facts import Images, ScriptFacts
from core.script.models import loads
from core.script.parts import Part, literal
from core.script.resolved import Resolved
from core.script.rows import STRATIFIED
from core.script.texts import IN_ORDER
from core.sources import DIGITS, Scheme, parse_synthetic
from core.task_guess import IMAGE_FORMATS
from core.vision_models import VISION_MODELS

CHANNELS_LAST_FROM = 128
"""As in `core.engine.models.vision_models`."""

IDX = '''
def read_idx(path):
    """The bytes of an IDX file, in its shape."""
    with open(path, "rb") as file:
        content = file.read()
    if content[:2] == b"\\x1f\\x8b":
        content = gzip.decompress(content)
    start = 4 + 4 * content[3]
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    count = int(np.prod(shape))
    return torch.from_numpy(np.frombuffer(content, np.uint8, count, start).reshape(shape).copy())
'''
FOLDERS = '''
FORMATS = {formats}


def class_folders(root):
    """The images below a folder with one folder a class, one of each class in turn, and their classes."""
    found = []
    for folder in sorted(path for path in Path(root).iterdir() if path.is_dir() and path.name[0] != "."):
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")
        images = [path for path in files if path.suffix.lower() in FORMATS]
        found += [(place, folder.name, path) for place, path in enumerate(images)]
    return [path for *_, path in sorted(found)], [name for _, name, _ in sorted(found)]


def pixels_of(path):
    """An image as bytes [3, SIZE, SIZE], upright as its EXIF says."""
    with Image.open(path, formats=sorted(set(FORMATS.values()))) as image:
        width, height = image.size
        if image.format == "JPEG" and width * height > 16 * 2**20:
            image.draft(None, (2 * SIZE, 2 * SIZE))  # decoded with fewer pixels
        ImageOps.exif_transpose(image, in_place=True)
        if image.mode.startswith("I"):  # 16 bits of grey, which Pillow would clip
            grey = np.clip(np.asarray(image).astype(np.float64) / 257, 0, 255)
            image = Image.fromarray(grey.astype(np.uint8))
        image = image.convert("RGB")
        if image.size != (SIZE, SIZE):
            image = image.resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(image, dtype=np.uint8)).permute(2, 0, 1)
'''

NORMALISED = '''
def normalised(pixels):
    """Bytes as floats of about zero mean and unit deviation."""
    scaled = pixels.numpy().astype(np.float32, order="C")
    scaled /= 255
    values = scaled - np.array(MEAN, np.float32)[:, None, None]
    values /= np.array(STD, np.float32)[:, None, None]
    return torch.from_numpy(values)
'''
RESIZED = '''
def resized(pixels):
    """Bytes [images, channels, height, width] as SIZE x SIZE."""
    if pixels.shape[-2:] == (SIZE, SIZE):
        return pixels
    return torch.nn.functional.interpolate(
        pixels, (SIZE, SIZE), mode="bilinear", antialias=True, align_corners=False
    )
'''
DATA_SET = '''
class Samples(torch.utils.data.Dataset):
    """Images with the number of their class."""

    def __init__(self, images, classes):
        self.images, self.classes = images, classes

    def __len__(self):
        return len(self.classes)

    def __getitem__(self, number):
        return {"pixel_values": normalised({picture}), "labels": self.classes[number]}


def collate(rows):
    """Images of one size."""
    return {
        "pixel_values": torch.stack([row["pixel_values"] for row in rows]),
        "labels": torch.tensor([row["labels"] for row in rows]),
    }
'''
CLASSIFIER = '''
class Classifier(torch.nn.Module):
    """A network that returns its loss beside the logits, as Trainer wants it."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, pixel_values, labels=None):
        logits = self.network(pixel_values{layout})
        if labels is None:
            return {{"logits": logits}}
        return {{"loss": torch.nn.functional.cross_entropy(logits.float(), labels), "logits": logits}}
'''
HEAD_LINES = {
    "resnet18": "network.fc = torch.nn.Linear(network.fc.in_features, len(labels))",
    "mobilenet_v2": "network.classifier[1] = torch.nn.Linear(network.classifier[1].in_features, len(labels))",
    "efficientnet_b0": "network.classifier[1] = torch.nn.Linear(network.classifier[1].in_features, len(labels))",
    "squeezenet1_0": (
        "network.classifier[1] = torch.nn.Conv2d(network.classifier[1].in_channels, len(labels), kernel_size=1)"
    ),
    "alexnet": "network.classifier[6] = torch.nn.Linear(network.classifier[6].in_features, len(labels))",
    "vgg16": "network.classifier[6] = torch.nn.Linear(network.classifier[6].in_features, len(labels))",
}


def size_of(run: Resolved) -> int:
    """Pixels of a side."""
    random = parse_synthetic(run.options.data.train)
    return random[1] if random else run.options.data.image_size


def data(run: Resolved, facts: ScriptFacts) -> list[Part]:
    """Finds and splits: `train`, `evaluation` and `labels`."""
    has_files = facts.images is not None and bool(facts.images.folder)
    head = f"SIZE = {size_of(run)}\nMEAN = {literal(facts.mean)}\nSTD = {literal(facts.std)}\n"
    if has_files:
        picture, helpers = "pixels_of(self.images[number])", FOLDERS.format(formats=literal(IMAGE_FORMATS))
    else:
        picture, helpers = "self.images[number]", RESIZED
    if facts.images is not None and facts.images.files:
        helpers += IDX
    found = Part("The images.", head + helpers + "\n" + _found(run, facts), _imports(run, facts))
    sets = Part("", NORMALISED + "\n" + DATA_SET.replace("{picture}", picture) + "\n" + _sets(run, facts))
    return [found, _split(run, facts), sets]


def _imports(run: Resolved, facts: ScriptFacts) -> tuple[str, ...]:
    found = ["import numpy as np", "import torch"]
    if run.options.data.train == DIGITS:
        found.append("from sklearn.datasets import load_digits")
    if facts.images is not None and facts.images.folder:
        found += ["from pathlib import Path", "from PIL import Image", "from PIL import ImageOps"]
    if facts.images is not None and facts.images.files:
        found += ["import gzip", "import struct"]
    return tuple(found)


def _found(run: Resolved, facts: ScriptFacts) -> str:
    random = parse_synthetic(run.options.data.train)
    if random:
        return f"""generator = torch.Generator().manual_seed(SEED)
drawn = max(1, min({random[0]}, 64 * 2**20 // (3 * SIZE * SIZE)))  # more show the same images again
images = torch.randint(0, 256, (drawn, 3, SIZE, SIZE), dtype=torch.uint8, generator=generator)
names = [str(number % 2) for number in range({random[0]})]
"""
    if run.options.data.train == DIGITS:
        return """digits = load_digits()
images = torch.from_numpy(digits.images).mul(255 / 16).round().to(torch.uint8)[:, None]
names = [str(label) for label in digits.target]
"""
    assert facts.images is not None
    lines = _place(facts.images, "images", "names")
    if facts.eval_images is not None:
        lines += _place(facts.eval_images, "eval_images", "eval_names")
    return lines


def _place(images: Images, pixels: str, names: str) -> str:
    if images.files is None:
        return f"{pixels}, {names} = class_folders({literal(images.folder)})\n"
    first, second = images.files
    return (
        f"{pixels} = read_idx({literal(first)})[:, None]\n"
        f"{names} = [str(label) for label in read_idx({literal(second)}).tolist()]\n"
    )


def _split(run: Resolved, facts: ScriptFacts) -> Part:
    data = run.options.data
    lines, helpers = [], IN_ORDER
    if data.max_train_samples:
        lines.append(f"names = names[:{data.max_train_samples}]")
    lines += ["labels = in_order(names)", "classes = [labels.index(name) for name in names]"]
    has_own = facts.eval_images is not None
    if has_own:
        lines.append("eval_classes = [labels.index(name) for name in eval_names]")
    fraction = 0.0 if has_own or parse_synthetic(data.train) else data.eval_fraction
    if fraction:
        helpers += STRATIFIED
        lines.append(f"train_numbers, eval_numbers = hold_out(classes, {literal(fraction)})")
    else:
        numbers = "range(len(eval_classes))" if has_own else "[]"
        lines.append(f"train_numbers, eval_numbers = range(len(classes)), {numbers}")
    if data.max_eval_samples:
        lines.append(f"eval_numbers = eval_numbers[:{data.max_eval_samples}]")
    if _one_is_left(run):
        lines += [
            "if len(train_numbers) % BATCH == 1:  # a single image in the last batch has no spread to normalise by",
            "    taken = [classes[number] for number in train_numbers]",
            "    most = Counter(taken).most_common(1)[0][0]",
            "    spared = max(place for place, label in enumerate(taken) if label == most)",
            "    train_numbers = [number for place, number in enumerate(train_numbers) if place != spared]",
        ]
        lines.insert(0, f"BATCH = {run.options.memory.batch_size}")
        return Part(
            "The same images are held out.",
            helpers + "\n\n" + "\n".join(lines),
            ("from collections import Counter",),
        )
    return Part("The same images are held out.", helpers + "\n\n" + "\n".join(lines))


def _one_is_left(run: Resolved) -> bool:
    name = Scheme.TORCHVISION.name_of(run.options.model.source) or ""
    limits = VISION_MODELS.get(name)
    return limits is not None and run.options.memory.batch_size > 1 and size_of(run) < limits.smallest_alone


def _sets(run: Resolved, facts: ScriptFacts) -> str:
    is_files = facts.images is not None and bool(facts.images.folder)

    def chosen(images: str, classes: str, numbers: str) -> str:
        taken = f"[{images}[number] for number in {numbers}]"
        if not is_files:
            taken = f"resized({images}[torch.as_tensor(list({numbers})) % len({images})])"
        return f"Samples({taken}, [{classes}[number] for number in {numbers}])"

    both = ("eval_images", "eval_classes") if facts.eval_images is not None else ("images", "classes")
    return (
        f"train = {chosen('images', 'classes', 'train_numbers')}\n"
        f"evaluation = {chosen(*both, 'eval_numbers')} if len(eval_numbers) else None\n"
    )


def model(run: Resolved, facts: ScriptFacts) -> list[Part]:
    """`model`: one of torchvision's, or of transformers'."""
    name = Scheme.TORCHVISION.name_of(run.options.model.source)
    if name is None:
        config = """
config = AutoConfig.from_pretrained(MODEL, trust_remote_code=False)
config.architectures = []  # a second form with a teacher, which some have, can't be trained
"""
        return [Part("", config, ("from transformers import AutoConfig",)), loads(run)]
    is_laid_out = run.kind == "cpu" and size_of(run) >= CHANNELS_LAST_FROM
    layout = ".contiguous(memory_format=torch.channels_last)" if is_laid_out else ""
    lines = ["set_seed(SEED)", f"network = torchvision.models.get_model({literal(name)}, weights=None)"]
    if run.options.model.pretrained:
        lines += [
            f"weights = torchvision.models.get_model_weights({literal(name)}).DEFAULT",
            "network.load_state_dict(weights.get_state_dict(check_hash=True, weights_only=True))",
        ]
    lines += [HEAD_LINES[name], "model = Classifier(network)"]
    code = CLASSIFIER.format(layout=layout) + "\n\n" + "\n".join(lines)
    imports = ("import torch", "import torchvision", "from transformers import set_seed")
    assert run.options.task is Task.IMAGE_CLASSIFICATION
    return [Part("The model: the seed draws its weights, and those of its new head.", code, imports)]
