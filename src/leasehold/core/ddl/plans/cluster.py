"""ALTER CLUSTER: settings, rebalances, and certificates that count no more."""

from leasehold.core.access.logins import end_logins_of_certificate
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, Plan, counters, put
from leasehold.core.ddl.settings import settings_changes
from leasehold.core.replicas import spread
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import RevokedCertificateRecord
from leasehold.core.words.statements import AlterCluster, Rebalance, RevokeCertificate
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.certificates import REVOKED_CERTIFICATES_MAX


def alter_cluster(statement: AlterCluster, catalog: Catalog, _context: Context) -> Plan | None:
    changes = settings_changes(statement.settings, catalog)
    return Plan(changes=changes, counters=counters(catalog)) if changes else None


def rebalance(statement: Rebalance, catalog: Catalog, _context: Context) -> Plan | None:
    """Buckets move behind the statement, or no more of them do (`core/replicas/spread.py`)."""
    changes = spread.stopped(catalog) if statement.stops else spread.started(catalog)
    if not changes:
        return None
    notes = ("buckets move from now on; `leasehold rebalance --wait` waits for that",)
    if statement.stops:
        is_auto = spread.is_automatic(catalog)
        notes = ("another one may begin within a minute: ALTER CLUSTER SET rebalance = 'manual'",) if is_auto else ()
    return Plan(changes=changes, counters=counters(catalog), notes=notes)


def revoke_certificate(statement: RevokeCertificate, catalog: Catalog, _context: Context) -> Plan | None:
    """Each process refuses it from the revision of the statement on (`core/access/callers.py`). Its logins end too:
    they work without it."""
    serial, revoked = statement.serial, catalog.revoked_certificates
    if (serial in revoked) == statement.revokes:
        return None
    if statement.revokes and len(revoked) >= REVOKED_CERTIFICATES_MAX:
        raise Refused(
            f"{len(revoked)} certificates are revoked, which is the limit",
            code=ErrorCode.TOO_MANY_CERTIFICATES,
            hint="ALTER CLUSTER UNREVOKE CERTIFICATE those that have ended, or change the authority",
        )
    key = keys.revoked_certificate(serial)
    if not statement.revokes:
        return Plan(changes=(Change(key, None),), counters=counters(catalog))
    ended = end_logins_of_certificate(serial, catalog)
    return Plan(changes=(put(key, RevokedCertificateRecord(serial=serial)), *ended), counters=counters(catalog))
