"""All mutants, by the part of the protocol that they break."""

from tests.mutants import identities, leaders, leases, people, statements, tables

MUTANTS = (
    *leases.MUTANTS,
    *leaders.MUTANTS,
    *identities.MUTANTS,
    *tables.MUTANTS,
    *statements.MUTANTS,
    *people.MUTANTS,
)
