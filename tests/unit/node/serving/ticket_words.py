"""Tickets of a scan and of an append, as a client sends them."""

import msgspec

from leasehold.core.words.messages import ReadTicket, WriteTicket
from leasehold.ids import (
    BucketNumber,
    SchemaVersion,
    SegmentId,
    TransactionId,
)
from tests.unit.node.cluster import CLUSTER, Cluster

SEGMENT = SegmentId("a" * 32 + "-" + "b" * 32)


def read(made: Cluster, **other: object) -> ReadTicket:
    made_of = ReadTicket(
        cluster_id=CLUSTER,
        request="r",
        table=made.table.id,
        bucket=BucketNumber(0),
        segment=SEGMENT,
        sha256=b"",
        row_offset=0,
        fields=made.table.fields,
        revision=made.catalog.revision,
    )
    return msgspec.structs.replace(made_of, **other)


def write(made: Cluster, **other: object) -> WriteTicket:
    made_of = WriteTicket(
        cluster_id=CLUSTER,
        transaction=TransactionId("a" * 32),
        segment=SEGMENT,
        table=made.table.id,
        bucket=BucketNumber(0),
        schema_version=SchemaVersion(1),
        revision=made.catalog.revision,
    )
    return msgspec.structs.replace(made_of, **other)


# ---------------------------------------------------------------- tickets
