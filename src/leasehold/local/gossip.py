"""Gossip among the processes of a local cluster: they share one key, and each has all others as seeds."""

from pathlib import Path
from typing import Final

from leasehold.client.locate import KEY_FILE
from leasehold.core.words.addresses import LOCALHOST
from leasehold.errors import BadSettings
from leasehold.limits.processes import CONFIG_ADDRESSES_MAX
from leasehold.local.files import GOSSIP_FILE
from leasehold.wire.addresses import loopback
from leasehold.wire.cluster_key import generate

KEY_SCRATCH: Final = f"{KEY_FILE}.new"


def make_key(directory: Path) -> None:
    """Makes the key of the cluster in this directory, unless it exists; in one step, also if it is interrupted."""
    key = directory / KEY_FILE
    if not key.exists():
        scratch = directory / KEY_SCRATCH
        scratch.unlink(missing_ok=True)
        generate(scratch)
        scratch.replace(key)


def gossip_words(process: Path) -> list[str]:
    """The options for gossip of the process in that directory; none if the cluster has no key, as older ones."""
    key = process.parent / KEY_FILE
    if not key.exists():
        return []
    files = [file for file in sorted(process.parent.glob(f"*/{GOSSIP_FILE}")) if file.parent != process]
    seeds = [seed for file in files if (seed := _address_in(file)) is not None][:CONFIG_ADDRESSES_MAX]
    own = ["--cluster-key", str(key), "--gossip", f"{LOCALHOST}:0"]
    return [*own, *(word for seed in seeds for word in ("--seed", seed))]


def _address_in(file: Path) -> str | None:
    """The address that a process wrote down; None if it is not usable: a seed is only a hint."""
    try:
        address = file.read_text()
        host, port = loopback(address)
    except (OSError, UnicodeDecodeError, BadSettings):
        return None
    return address if ":" not in host and port else None
