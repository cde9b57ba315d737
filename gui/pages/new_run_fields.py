"""The controls of the New run page that are more than what an option's kind asks for."""

from collections.abc import Iterable

from PySide6.QtCore import QCoreApplication

from core.catalogue import Option, options_by_path
from core.data_report import Column
from gui.field import Field
from gui.fields import ListedField, PairsField, SegmentedField
from gui.number_fields import AutomaticField
from gui.pages.data_path import DataPathField
from gui.pages.new_run_columns import OneColumnField, TextColumnsField
from gui.pages.new_run_model import ModelField
from gui.pages.new_run_prompts import LinesField
from gui.path_field import PathField, Wanted

_translate = QCoreApplication.translate


class OwnFields:
    """All of them; `by_path` has them by the paths of their options."""

    def __init__(self) -> None:
        self.model = ModelField(_option("model.source"))
        self.device = SegmentedField(_option("device.name"))
        self.train = DataPathField(_option("data.train"), _translate("NewRun", "Drop a file or folder"))
        self.eval = PathField(
            _option("data.eval"), Wanted.EITHER, _translate("NewRun", "Choose the held-out data")
        )
        self.text_columns = TextColumnsField(_option("data.text_columns"))
        self.label_column = OneColumnField(_option("data.label_column"))
        self.image_column = OneColumnField(_option("data.image_column"))
        roles = PairsField(_option("data.roles"))
        roles.line.setPlaceholderText("bob = assistant")
        plain: tuple[Field, ...] = (
            AutomaticField(_option("data.workers")),
            AutomaticField(_option("device.threads")),
            ListedField(_option("device.compile_backend")),
            ListedField(_option("device.compile_mode")),
            PathField(_option("memory.offload_folder"), Wanted.FOLDER),
            LinesField(_option("output.prompts")),
            roles,
        )
        columns = (self.text_columns, self.label_column, self.image_column)
        fields: tuple[Field, ...] = (self.model, self.device, self.train, self.eval, *columns, *plain)
        self.by_path: dict[str, Field] = {field.option.path: field for field in fields}

    def offer_columns(self, columns: Iterable[Column]) -> None:
        """List the columns there are wherever one can be chosen."""
        known = list(columns)
        self.text_columns.offer(known)
        self.label_column.offer(known)
        self.image_column.offer(known)


def _option(path: str) -> Option:
    return options_by_path()[path]
