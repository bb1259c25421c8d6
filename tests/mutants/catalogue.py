"""All mutants, by the part of the protocol that they break."""

from tests.mutants import disks, identities, leaders, leases, people, recoveries, runs, statements, tables

MUTANTS = (
    *leases.MUTANTS,
    *leaders.MUTANTS,
    *identities.MUTANTS,
    *recoveries.MUTANTS,
    *tables.MUTANTS,
    *disks.MUTANTS,
    *statements.MUTANTS,
    *runs.MUTANTS,
    *people.MUTANTS,
)
