"""How a client finds out whom it trusts over TLS."""

import os
from pathlib import Path
from typing import Final

from leasehold.certificates.files import CA, IDENTITY
from leasehold.client.locate import CLUSTER_FILE, read_cluster_file

TLS_VARIABLE: Final = "LEASEHOLD_TLS"
TLS_FOLDER: Final = "tls"
"""Of the certificates of a cluster on this machine, beside its cluster file."""
CLIENT_FOLDER: Final = "client"
WITHOUT_TLS: Final = ""
"""Says that a cluster has no TLS, whatever the variable says."""


def trusted_by(target: str | Path, given: str | Path | None) -> Path | None:
    """This client's bundle, or a file of the authorities that it trusts; None for a cluster without TLS.

    It is what was `given`, WITHOUT_TLS for none; else, for the directory of a cluster, what its cluster file says; else
    $LEASEHOLD_TLS. It is always absolute: other processes may get it, which have other working directories.
    """
    if given is not None:
        return Path(given).absolute() if str(given) != WITHOUT_TLS else None
    directory = Path(target)
    if (directory / CLUSTER_FILE).exists():
        return _in(directory.absolute()) if read_cluster_file(directory).tls else None
    variable = os.environ.get(TLS_VARIABLE)
    return Path(variable).absolute() if variable else None


def _in(directory: Path) -> Path:
    """Its owner shows a certificate; everybody else knows the root alone."""
    folder = directory / TLS_FOLDER
    mine = folder / CLIENT_FOLDER
    return mine if os.access(mine / IDENTITY, os.R_OK) else folder / CA
