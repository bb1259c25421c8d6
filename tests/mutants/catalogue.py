"""All mutants, by the part of the protocol that they break."""

from tests.mutants import (
    certificates,
    checkpoints,
    disks,
    identities,
    leaders,
    leases,
    log,
    members,
    moves,
    people,
    recoveries,
    runs,
    scans,
    statements,
    tables,
    tokens,
)

MUTANTS = (
    *leases.MUTANTS,
    *leaders.MUTANTS,
    *log.MUTANTS,
    *moves.MUTANTS,
    *members.MUTANTS,
    *identities.MUTANTS,
    *certificates.MUTANTS,
    *recoveries.MUTANTS,
    *tables.MUTANTS,
    *scans.MUTANTS,
    *disks.MUTANTS,
    *checkpoints.MUTANTS,
    *statements.MUTANTS,
    *runs.MUTANTS,
    *people.MUTANTS,
    *tokens.MUTANTS,
)
