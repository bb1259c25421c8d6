"""The directory of a coordinator, as commands name it."""

from pathlib import Path

from leasehold.client.locate import CLUSTER_FILE
from leasehold.local.files import check_not_of_another
from leasehold.metastorage.sqlite import FILE_NAME
from leasehold.vault.store import FILE_NAME as VAULT_FILE_NAME


def check_for_a_coordinator(directory: Path) -> None:
    """Raises `BadDirectory` for the directory of a node, or of a whole cluster."""
    check_not_of_another(directory, FILE_NAME, {VAULT_FILE_NAME: "a node", CLUSTER_FILE: "a whole cluster"})
