"""The folders of local opens: what is taken away and deleted, and what a link must not lead to."""

import asyncio
import os
from pathlib import Path

import pytest

from leasehold.errors import Definite
from leasehold.storage.files import SegmentFiles
from leasehold.storage.local_links import FOLDER, PROOF_BYTES, LocalLinks, delete, take_away


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_only_the_owner_can_enter_the_folders(tmp_path: Path, umask: int) -> None:
    files = SegmentFiles(tmp_path)
    files.open()
    links = LocalLinks(files, "0" * PROOF_BYTES)
    before = os.umask(umask)
    try:
        proof = Path(links.prove())
        asyncio.run(links.link("request", [[]]))
    finally:
        os.umask(before)
    assert links.is_proof(proof.read_bytes())
    made = [tmp_path / FOLDER, *(tmp_path / FOLDER).rglob("*")]
    assert {one.name: oct(one.stat().st_mode & 0o777) for one in made} == {
        "local": "0o700",
        "gone": "0o700",
        "proof": "0o600",
        "request": "0o700",
        "0": "0o700",
    }


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
