"""What actually ran, in rows below the headings of the form: the event `core.events.WhatRan` in words."""

from collections.abc import Iterator, Mapping

from PySide6.QtCore import QCoreApplication

from core.catalogue import options_by_path
from core.events import WhatRan
from gui import numbers
from gui.names import device_title
from gui.widgets.key_value import Group, Row

_translate = QCoreApplication.translate

OLD_PATHS = {"device": "device.name", "precision": "device.precision"}
"""How the first runs named the options in their reasons."""


def what_ran_groups(ran: WhatRan | None, versions: Mapping[str, str]) -> list[Group]:
    """All that is known of what ran; groups of which nothing is known are left out."""
    groups = [
        Group("", (Row(_translate("run", "What ran"), _translate("run", "Known after the first step")),))
    ]
    if ran is not None:
        groups = _WhatRanWords(ran).groups()
    if versions:
        listed = ", ".join(f"{name} {version}" for name, version in versions.items())
        groups.append(Group(_translate("run", "Software"), (Row(_translate("run", "Versions"), listed),)))
    return groups


class _WhatRanWords:
    """Puts each fact into a row, and the reason why Hone chose it below."""

    def __init__(self, ran: WhatRan) -> None:
        self._ran = ran
        self._reasons = {OLD_PATHS.get(path, path): why for path, why in ran.reasons.items()}

    def groups(self) -> list[Group]:
        """The groups in which there is something to tell; reasons without a row of their own come last."""
        parts = (
            (_translate("run", "Device and precision"), self._device()),
            (_translate("run", "Model"), self._model()),
            (_translate("run", "Training"), self._optimizer()),
            (_translate("run", "Data"), self._data()),
            (_translate("run", "Memory"), self._memory()),
            (_translate("run", "Chosen by Hone"), self._other_reasons()),
        )
        found = [
            Group(title, tuple(rows)) for title, rows in parts
        ]  # in this order: the last has what is left
        return [group for group in found if group.rows]

    def _why(self, path: str) -> str:
        """Take the reason for an option: each is told once, and without what it came to, which the row says."""
        reason = self._reasons.pop(path, "")
        found, colon, why = reason.partition(": ")
        words = why if colon and " " not in found else reason
        first = words.partition(" ")[0]
        return words[:1].upper() + words[1:] if first.isalpha() else words

    def _device(self) -> Iterator[Row]:
        ran = self._ran
        title, name = device_title(ran.device), ran.device_name
        value = title if name in ("", ran.device) else f"{title} ({name})"
        yield Row(_translate("run", "Device"), value, self._why("device.name"))
        yield Row(_translate("run", "Weights"), ran.parameter_dtype)
        computed = ran.autocast_dtype or ran.parameter_dtype
        yield Row(_translate("run", "Computed in"), computed, self._why("device.precision"))
        if ran.matmul:
            yield Row(_translate("run", "fp32 multiplied as"), ran.matmul)
        if ran.loss_scale is not None:
            yield Row(_translate("run", "Loss scale"), f"{ran.loss_scale:,.10g}")
        if ran.threads is not None:
            yield Row(_translate("run", "Threads"), numbers.count(ran.threads), self._why("device.threads"))
        if ran.compiled:
            yield Row(_translate("run", "Compiled"), ran.compiled, self._compile_time())
        if ran.deterministic:
            yield Row(_translate("run", "Deterministic"), _translate("run", "yes"))
        if ran.fell_back:
            words = _translate("run", "The device has no such operators; each waits for the CPU.")
            yield Row(_translate("run", "Fell back to the CPU"), ", ".join(ran.fell_back), words)

    def _compile_time(self) -> str:
        seconds = self._ran.compile_seconds
        return _translate("run", "Took {}").format(numbers.duration(seconds)) if seconds is not None else ""

    def _model(self) -> Iterator[Row]:
        ran = self._ran
        trained = numbers.compact_count(ran.trainable_parameters)
        of_all = _translate("run", "{} of {}").format(trained, numbers.compact_count(ran.total_parameters))
        yield Row(_translate("run", "Parameters trained"), of_all)
        if ran.adapter:
            yield Row(_translate("run", "Adapter"), ran.adapter)
        if ran.packed_parameters:
            packed = _translate("run", "{} parameters").format(numbers.compact_count(ran.packed_parameters))
            yield Row(_translate("run", "Packed in 4 or 8 bits"), packed)
        if ran.attention:
            yield Row(_translate("run", "Attention"), ran.attention)

    def _optimizer(self) -> Iterator[Row]:
        ran = self._ran
        yield Row(_translate("run", "Optimizer"), ran.optimizer)
        split = [f"{dtype} {numbers.memory(size)}" for dtype, size in ran.optimizer_state.items()]
        note = ", ".join(split) if len(split) > 1 else ""
        yield Row(_translate("run", "Optimizer state"), numbers.memory(ran.optimizer_state_bytes), note)
        if ran.decayed_parameters is not None:
            reached = _translate("run", "{} parameters").format(numbers.compact_count(ran.decayed_parameters))
            yield Row(_translate("run", "Weight decay on"), reached)

    def _data(self) -> Iterator[Row]:
        ran = self._ran
        samples = _translate("run", "{} samples").format(numbers.count(ran.effective_batch))
        words = _translate("run", "{} batches before each step of the optimizer")
        note = words.format(numbers.count(ran.batches_per_step)) if ran.batches_per_step > 1 else ""
        yield Row(_translate("run", "Effective batch"), samples, note)
        if ran.padded_to:
            yield Row(_translate("run", "Padded to"), ran.padded_to)
        if ran.sampling:
            yield Row(_translate("run", "Sampling"), ran.sampling, self._why("data.group_by_length"))
        if ran.workers:
            yield Row(_translate("run", "Data loaders"), self._workers(), self._why("data.workers"))
        if ran.pinned:
            pinned = _translate("run", "yes")
            yield Row(_translate("run", "Pinned memory"), pinned, self._why("data.pin_memory"))

    def _workers(self) -> str:
        count = len(self._ran.workers)
        one, several = _translate("run", "1 process"), _translate("run", "{} processes").format(count)
        words = one if count == 1 else several
        return f"{words} ({self._ran.worker_start})" if self._ran.worker_start else words

    def _memory(self) -> Iterator[Row]:
        ran = self._ran
        if ran.recomputed:
            words = _translate("run", "computed again in {} modules").format(numbers.count(ran.recomputed))
            yield Row(_translate("run", "Activations"), words)
        if ran.deepspeed:
            yield Row(_translate("run", "DeepSpeed"), ran.deepspeed)

    def _other_reasons(self) -> Iterator[Row]:
        known = options_by_path()
        for path, why in self._reasons.items():
            option = known.get(path)
            last = path.rpartition(".")[2].replace("_", " ").capitalize()
            yield Row(option.title if option is not None else last, why)
