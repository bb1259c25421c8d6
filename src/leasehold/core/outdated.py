"""What clients looked up in another generation of the cluster (`core.generations`): refused, definitely and at once.

Field ids, schema versions and the numbers of DELETEs are given out anew there, so what fits by its numbers may mean
something else. Generations only rise: whoever knows a newer one than the other side knows that he is not the one who
is behind.
"""

from leasehold.core.catalog import Catalog
from leasehold.errors import Refused
from leasehold.ids import Generation


def check_generation(generation: Generation, catalog: Catalog) -> None:
    """Raises `Refused` with code GENERATION_CHANGED unless what was looked up in `generation` is of this history."""
    assert catalog.cluster is not None
    if generation != catalog.cluster.generation:
        raise generation_changed(generation, catalog.cluster.generation)


def generation_changed(known: Generation, now: Generation) -> Refused:
    """The error for what was looked up in another generation than the present one."""
    return Refused(
        f"the table was looked up in generation {known} of the cluster, which is generation {now} now",
        code="GENERATION_CHANGED",
        hint="Look the table up again and start anew: the cluster was recovered from an older state.",
    )
