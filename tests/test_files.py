"""Files that appear complete or not at all, and never in place of an input."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gpexperts.files import appearing, check_not_an_input, check_target


def test_permissions_are_those_of_a_new_or_of_the_replaced_file(tmp_path: Path) -> None:
    path, plain = tmp_path / "file", tmp_path / "plain"
    plain.touch()
    with appearing(path) as part:
        part.write_text("new")
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    with appearing(path) as part:
        assert part.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_mode & 0o777 == 0o640


def test_the_mask_of_the_process_is_never_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It belongs to all threads: files that others create meanwhile would be open to everybody."""

    def forbidden(_: int) -> int:
        raise AssertionError("umask was called")

    monkeypatch.setattr(os, "umask", forbidden)

    def write(i: int) -> None:
        with appearing(tmp_path / f"{i}") as part:
            part.write_text("x")

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(tmp_path.iterdir())) == 4


def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="leads back to itself"):
        check_target(tmp_path / "a")
    assert (tmp_path / "a").is_symlink()


def test_an_input_is_recognised_under_all_its_names(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("precious")
    (tmp_path / "link").symlink_to("table")
    os.link(table, tmp_path / "hard")
    (tmp_path / "folder").mkdir()
    (tmp_path / "there").symlink_to(".")
    for name in ("table", "link", "hard", "folder/../table", "there/table"):
        with pytest.raises(FileExistsError, match="would replace an input"):
            check_not_an_input(tmp_path / name, None, tmp_path / "none", table)
    with table.open() as file, pytest.raises(FileExistsError, match="would replace an input"):
        check_not_an_input(table, file.fileno())
    check_not_an_input(tmp_path / "new", table)
    check_not_an_input(os.devnull, os.devnull)
    twin = tmp_path / "twin"
    twin.write_text("precious")
    check_not_an_input(twin, table)
