"""Several computers that train one model: what is refused before the start, and two network namespaces that do it."""

import pytest

from core.base.errors import UserError
from core.hosts import far
from core.hosts.computers import Computer
from core.hosts.several import _meeting_point, _refuse_differences
from core.options.catalogue import with_changes
from tests.fakes.runs import digits_options

# --- Before the start

BOTH = with_changes(digits_options(), {"device.name": "cuda@workshop+attic"})


class FakeLink:
    """A session with a computer that has these facts and can reach these addresses."""

    def __init__(self, name, reaches=(), **facts):
        self.computer = Computer(name=name, address=name)
        self.facts = {"system": "Linux", "python": "3.12.1", "torch": "2.13.0+cu128", **facts}
        self.reaches = reaches

    def ask(self, asked, kind):
        match asked:
            case far.Facts():
                return self.facts
            case far.Listen():
                return far.Listening(port=4711, addresses=("10.0.0.1", "192.168.1.7"))
            case far.Reach():
                assert asked.port == 4711
                return [address for address in asked.addresses if address in self.reaches]


def test_computers_with_other_versions_are_refused_with_a_list():
    _refuse_differences([FakeLink("workshop"), FakeLink("attic")], BOTH)
    with pytest.raises(UserError) as refused:
        _refuse_differences(
            [FakeLink("workshop"), FakeLink("attic", torch="2.12.1+cu126", python="3.11.9")], BOTH
        )
    assert refused.value.detail.split("\n") == [
        "python: 3.12.1 on workshop, 3.11.9 on attic",
        "torch: 2.13.0+cu128 on workshop, 2.12.1+cu126 on attic",
    ]
    assert "hone hosts install attic" in refused.value.fixes[0].label


def test_macs_together_are_refused_except_on_their_cpus():
    macs = [FakeLink("studio", system="Darwin"), FakeLink("attic", system="Darwin")]
    with pytest.raises(UserError, match="Macs can't train together") as refused:
        _refuse_differences(macs, with_changes(BOTH, {"device.name": "auto@studio+attic"}))
    assert refused.value.fixes[0].changes == {"device.name": "auto@studio"}
    _refuse_differences(macs, with_changes(BOTH, {"device.name": "cpu@studio+attic"}))


def test_they_meet_at_an_address_that_all_reach():
    workshop = FakeLink("workshop", ("10.0.0.1", "192.168.1.7"))
    assert _meeting_point(workshop, [FakeLink("attic", ("192.168.1.7",))]) == ("192.168.1.7", 4711)
    with pytest.raises(UserError, match="attic can't reach workshop") as refused:
        _meeting_point(workshop, [FakeLink("attic")])
    assert "10.0.0.1, 192.168.1.7, each at port 4711" in refused.value.detail
