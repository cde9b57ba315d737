"""The fields of the New run form whose kind alone doesn't say how they look."""

from PySide6.QtCore import Signal

from core.base.language import _
from core.options import presets
from core.options.catalogue import options_by_path
from core.options.choices import Task
from core.options.declare import Option
from core.options.sources import DIGITS, short_name
from gui.new_run.device_field import DeviceField
from gui.new_run.model_field import ModelField
from gui.widgets.fields import AutomaticField, ComboField, Field, LinesField, PairsField, PathField


class DataPathField(PathField):
    """`data.train`; the menu of its button also has the Hub and recent data."""

    hub_wanted = Signal()

    def __init__(self, option: Option) -> None:
        super().__init__(option, _("Drop a file or folder"))
        self.task = Task.IMAGE_CLASSIFICATION
        self.others: list[PathField] = []  # that hold the same kind of data
        self.menu.addAction(_("From the Hub…"), self.hub_wanted.emit)
        self._fixed = len(self.menu.actions())
        self.menu.aboutToShow.connect(self._show_recent)

    def set_task(self, task: Task) -> None:
        """Ask for files that a task may read; the others are found under "All files"."""
        self.task = task
        texts = presets.DATA_ENDINGS - presets.IMAGE_FORMATS.keys()
        images = presets.IMAGE_FORMATS.keys() | presets.TABLE_ENDINGS
        known = images if task.reads_images else texts
        endings = " ".join(f"*{ending} *{ending}.gz" for ending in sorted(known))
        kind = _("Images and tables") if task.reads_images else _("Texts and tables")
        for field in (self, *self.others):
            field.filters = f"{kind} ({endings});;{_('All files')} (*)"

    def _show_recent(self) -> None:
        for action in self.menu.actions()[self._fixed :]:
            self.menu.removeAction(action)
        recent = [(short_name(source), source) for source in presets.recent()]
        for heading, sources in (
            (_("Recent"), recent),
            (_("Comes with Hone"), [(_("Handwritten digits"), DIGITS)] if self.task.reads_images else []),
        ):
            if sources:  # a disabled action, as style sheets show no sections
                self.menu.addSeparator()
                self.menu.addAction(heading).setEnabled(False)
            for title, source in sources:
                action = self.menu.addAction(title)
                action.setToolTip(source)
                action.triggered.connect(lambda _checked, source=source: self.line.setText(source))


class SpecialFields:
    """The controls of options whose kind alone doesn't determine it; `by_path` has all of them."""

    def __init__(self) -> None:
        options = options_by_path()
        self.model = ModelField(options["model.source"])
        self.device = DeviceField(options["device.name"])
        self.train = DataPathField(options["data.train"])
        evaluated = PathField(options["data.eval"], _("Choose the validation data"))
        evaluated.near = self.train
        self.train.others.append(evaluated)
        self.train.set_task(self.train.task)
        roles, names = PairsField(options["data.roles"]), PairsField(options["data.label_names"])
        roles.line.setPlaceholderText("bob = assistant")
        names.line.setPlaceholderText(_("0 = negative, 1 = positive"))
        numbers = ("data.workers", "device.threads", "data.pad_to_multiple_of")
        fields: tuple[Field, ...] = (
            self.model,
            self.device,
            self.train,
            evaluated,
            *(AutomaticField(options[path]) for path in numbers),
            ComboField(options["device.compile_backend"]),
            ComboField(options["device.compile_mode"]),
            PathField(options["memory.offload_folder"], only_folders=True),
            LinesField(options["output.prompts"]),
            roles,
            names,
        )
        self.by_path: dict[str, Field] = {field.option.path: field for field in fields}
