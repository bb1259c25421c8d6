"""Sets which authorities a bundle trusts: two of them while one succeeds the other."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from leasehold.certificates.certificate import pem, read_certificates
from leasehold.certificates.checks import check_own, read_roots, too_many_roots
from leasehold.certificates.files import (
    CA,
    IDENTITY,
    check_directory,
    read_any_file,
    read_key_file,
    read_public_file,
    write_file,
)
from leasehold.errors import BadCertificate
from leasehold.limits.certificates import CERTIFICATE_ROOTS_MAX


class Trusted(NamedTuple):
    """What a bundle trusts from now on."""

    authorities: int
    problem: BadCertificate | None
    """Why the bundle can't be used, as before: its certificate has expired, for example."""


def trust(bundle: Path, files: Sequence[Path], now: datetime, *, only: bool) -> Trusted:
    """Adds the authorities in `files` to those that a bundle trusts, or replaces them if `only` these are to be left.

    Raises `BadCertificate`, and changes nothing, if a bundle that can be used could not be used any more; and
    `Refused`.
    """
    check_directory(bundle)
    path = bundle / CA
    before = read_public_file(path)
    roots = [] if only else read_certificates(path, before)
    for file in files:
        for one in read_roots(file, read_any_file(file), now):
            if one not in roots:
                roots.append(one)
    after = b"".join(map(pem, roots))
    identity = read_key_file(bundle / IDENTITY)
    problem = _problem(bundle, identity, after, now)
    if problem is not None and _problem(bundle, identity, before, now) is None:
        raise problem
    if len(roots) > CERTIFICATE_ROOTS_MAX:
        raise too_many_roots(path)
    write_file(path, after, replaces=True)
    return Trusted(len(roots), problem)


def _problem(bundle: Path, identity: bytes, roots: bytes, now: datetime) -> BadCertificate | None:
    try:
        check_own(bundle, identity, roots, now)
    except BadCertificate as error:
        return error
    return None
