"""Names that somebody had before, who may still have a certificate of it (INV-ID-1, INV-RIGHT-1).

| what happened to the name | which of its certificates count |
| --- | --- |
| nothing | all |
| its node was removed | those that `leasehold ca` makes in a later second |
| its user was dropped or renamed, and another user has it | those that it makes after `SET CERTIFICATE ON` |

No certificate logs a user in before `SET CERTIFICATE ON`. So dropping and renaming need no clock: they leave a record
that says nothing yet (`from_s` is 0).
"""

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import CertifiedNameRecord
from leasehold.core.words.statements import fold
from leasehold.limits.certificates import CERTIFICATE_SKEW_NS
from leasehold.limits.units import SECOND_NS


def certified_after(wall_us: int) -> int:
    """Since when a certificate is valid that `leasehold ca` makes in a later second than this one, in seconds since
    1970 UTC."""
    return (wall_us * 1_000 - CERTIFICATE_SKEW_NS) // SECOND_NS + 1


def certified_later(name: str, catalog: Catalog, wall_us: int) -> Change:
    """From now on, by a wall clock in microseconds since 1970 UTC, the name counts only with a certificate that
    `leasehold ca` makes in a later second."""
    from_s = certified_after(wall_us)
    known = catalog.certified_names.get(name)
    latest_s = from_s if known is None else max(from_s, known.from_s)
    return put(keys.certified_name(name), CertifiedNameRecord(name=name, from_s=latest_s))


def is_too_old(name: str, begins_s: int, catalog: Catalog) -> bool:
    """Whether a certificate of this name that begins then may be that of somebody who had the name before."""
    known = catalog.certified_names.get(name)
    return known is not None and begins_s < known.from_s


def name_of_client(user: str) -> str:
    """No node has such a name."""
    return f"client/{fold(user)}"


def given_up(user: str) -> Change:
    """The user of this name is dropped, or gets another one."""
    name = name_of_client(user)
    return put(keys.certified_name(name), CertifiedNameRecord(name=name, from_s=0))


def taken_up(user: str, catalog: Catalog, wall_us: int) -> tuple[Change, ...]:
    """Certificates log the user of this name in from now on, by a wall clock in microseconds since 1970 UTC: if another
    one had it, only those that are made in a later second."""
    name = name_of_client(user)
    known = catalog.certified_names.get(name)
    return (certified_later(name, catalog, wall_us),) if known is not None and known.from_s == 0 else ()
