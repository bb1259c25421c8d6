"""The folders of local opens: what is taken away and deleted, and what a link must not lead to."""

from pathlib import Path

import pytest

from leasehold.errors import Definite
from leasehold.storage.local_links import delete, take_away


def test_a_folder_that_was_taken_away_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "open" / "0").mkdir(parents=True)
    take_away(tmp_path / "open")
    assert not (tmp_path / "open").exists()
    delete(tmp_path)
    assert [*(tmp_path / "gone").iterdir()] == []
    take_away(tmp_path / "open")
    delete(tmp_path / "nowhere")


def test_a_link_in_the_place_of_what_was_taken_away_leads_nowhere(tmp_path: Path) -> None:
    """A reader has the path from a node, which may run as another user."""
    kept, root = tmp_path / "kept", tmp_path / "local"
    (kept / "precious").mkdir(parents=True)
    (root / "open").mkdir(parents=True)
    (root / "gone").symlink_to(kept)
    with pytest.raises(Definite, match="can't be taken away"):
        take_away(root / "open")
    delete(root)
    assert [one.name for one in kept.iterdir()] == ["precious"]
