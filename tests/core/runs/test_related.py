"""The run that belongs to another one."""

from core.options.catalogue import with_changes
from core.options.validate import check_tree
from core.runs.library import create, create_all
from core.runs.related import Relation, related_to
from tests.fakes.runs import digits_options, new_run


def found(run):
    related = related_to(run)
    return related.relation, related.other and related.other.run, related.is_only


def test_a_run_without_another_says_whether_it_is_alone(tmp_path):
    run = new_run(tmp_path)
    assert found(run) == (Relation.NONE, None, True)
    new_run(tmp_path)
    assert found(run) == (Relation.NONE, None, False)


def test_the_two_runs_of_a_chat_model_from_scratch_lead_to_each_other(tmp_path):
    tree = {
        "task": "chat",
        "model": {"source": "scratch:llama-tiny", "vocabulary": 512},
        "data": {"train": __file__, "columns": {"prompt": "q"}, "chat_template": "chatml", "packing": True},
    }
    first, second = create_all(check_tree(tree)[0], tmp_path)
    assert found(first) == (Relation.CHAT, second, False)
    assert found(second) == (Relation.PRETRAINED, first, False)


def test_a_test_and_the_run_it_tests_lead_to_each_other(tmp_path):
    tested = new_run(tmp_path)
    changes = {"model.source": f"run:{tested.path}", "model.pretrained": True, "training.epochs": 0.0}
    older, newest = (create(with_changes(digits_options(name), changes), tmp_path) for name in ("A", "B"))
    assert found(tested) == (Relation.TEST, newest, False)
    assert found(older) == (Relation.TESTED, tested, False)
