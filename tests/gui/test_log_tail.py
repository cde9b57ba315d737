from gui.run.follower import FIRST_BYTES, LogTail


def test_waits_for_whole_lines(tmp_path):
    path = tmp_path / "log.txt"
    tail = LogTail(path)
    assert tail.read() == ""
    path.write_bytes(b"one\ntw")
    assert tail.read() == "one\n"
    with path.open("ab") as file:
        file.write("o – ü\n".encode())
    assert tail.read() == "two – ü\n"


def test_of_a_progress_bar_only_the_last_state(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(b"\r 10%\r 50%\r100%\n\x1b[31mred\x1b[0m\nno newline")
    tail = LogTail(path)
    assert tail.read() == "100%\nred\n"
    assert tail.read_rest() == "no newline"


def test_of_a_long_log_the_end(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(b"x" * 99 + b"\n" + b"".join(b"%07d\n" % number for number in range(FIRST_BYTES // 8)))
    text = LogTail(path).read()
    assert text.endswith(f"{FIRST_BYTES // 8 - 1:07d}\n")
    assert len(text) < FIRST_BYTES
    assert text.startswith("0000001\n")
