from pathlib import Path

from core.engine import checkpoints


def saved(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "training_args.bin").write_bytes(b"pickle")
    return folder


def test_a_sealed_checkpoint_is_complete_and_holds_no_pickle(tmp_path: Path) -> None:
    folder = saved(tmp_path / "checkpoint-1")
    assert not checkpoints.is_complete(folder)
    assert checkpoints.seal(folder) == len(b"weights")
    assert checkpoints.is_complete(folder)
    assert not (folder / "training_args.bin").exists()


def test_a_file_cut_short_makes_it_incomplete(tmp_path: Path) -> None:
    folder = saved(tmp_path / "checkpoint-1")
    checkpoints.seal(folder)
    (folder / "model.safetensors").write_bytes(b"wei")
    assert not checkpoints.is_complete(folder)


def test_half_written_checkpoints_are_cleaned_and_whole_ones_kept(tmp_path: Path) -> None:
    whole, half = saved(tmp_path / "checkpoint-1"), saved(tmp_path / "checkpoint-2")
    checkpoints.seal(whole)
    checkpoints.clean(tmp_path)
    assert whole.exists()
    assert not half.exists()


def test_the_newest_by_step_are_kept_and_unsealed_ones_left_alone(tmp_path: Path) -> None:
    for step in (9, 10, 100):
        checkpoints.seal(saved(tmp_path / f"checkpoint-{step}"))
    saved(tmp_path / "checkpoint-101")  # being written
    checkpoints.keep_newest(tmp_path, 2)
    assert {folder.name for folder in tmp_path.iterdir()} == {
        "checkpoint-10",
        "checkpoint-100",
        "checkpoint-101",
    }
