"""A process takes over new secrets while it runs."""

import asyncio
import contextlib
from pathlib import Path

from leasehold.cli.discovery import Secrets
from leasehold.cli.rotation import Rotation
from leasehold.core.membership.proofs import derive_keys
from leasehold.wire import cluster_key
from leasehold.wire.current_files import CurrentFile


def test_a_key_that_changes_while_the_process_starts_is_taken(tmp_path: Path) -> None:
    path, later = tmp_path / "key", tmp_path / "later"
    cluster_key.generate(path)
    cluster_key.generate(later)
    secrets = Secrets(CurrentFile(path, cluster_key.read), None)
    keys = secrets.proof_keys
    assert keys is not None
    later.rename(path)
    assert secrets.keys is not None
    assert secrets.keys.look(), "as whoever asks for the key after 10 s does"

    async def start() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as group:
                Rotation(secrets, keys, None).start(group)
                raise asyncio.CancelledError

    asyncio.run(start())
    assert keys == derive_keys(*cluster_key.read(path))
