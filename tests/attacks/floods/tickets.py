"""Tickets of users for the nodes."""

import pyarrow as pa

from leasehold.client.cluster import Cluster
from leasehold.core.membership.identity import node_login
from leasehold.core.words.messages import ReadTicket, WriteTicket
from leasehold.ids import LoginToken, SegmentId
from leasehold.storage.schema import arrow_schema
from tests.attacks.ground import TABLE


def logged_in(cluster: Cluster) -> LoginToken:
    """The login of a client, who logs in only with a first question."""
    cluster.sql("SHOW DATABASES")
    assert cluster.token is not None
    return cluster.token


def writing(cluster: Cluster) -> tuple[WriteTicket, str, pa.Schema]:
    """To write a segment of TABLE; the address of a replica; the schema of the rows."""
    request, (address, *_), schema = writing_everywhere(cluster)
    return request, address, schema


def writing_everywhere(cluster: Cluster, table: str = TABLE) -> tuple[WriteTicket, list[str], pa.Schema]:
    """The same with the addresses of all replicas, for any table."""
    facts = cluster.facts(table)
    transaction = cluster.new_transaction()
    opened = cluster.open_transaction(facts, transaction)
    bucket = facts.buckets[0]
    of_node = {one.node: one.address for one in facts.places}
    request = WriteTicket(
        cluster_id=facts.cluster_id,
        transaction=transaction,
        segment=SegmentId(f"{transaction}-{'0' * 32}"),
        table=facts.table,
        bucket=bucket.bucket,
        schema_version=facts.schema_version,
        revision=opened.revision,
        login=node_login(cluster.token),
    )
    return request, [of_node[one] for one in bucket.replicas], arrow_schema(facts.fields)


def reading(cluster: Cluster, table: str) -> list[tuple[str, ReadTicket]]:
    """For each replica of each segment of a table its address, and what reads it."""
    plan = cluster.plan(table, None)
    addresses = {one.node: one.address for one in plan.facts.places}
    return [
        (
            addresses[holder],
            ReadTicket(
                cluster_id=plan.facts.cluster_id,
                request="r",
                table=segment.table,
                bucket=segment.bucket,
                segment=segment.id,
                sha256=segment.sha256,
                row_offset=0,
                fields=plan.fields,
                revision=plan.facts.revision,
                login=node_login(cluster.token),
                generation=plan.facts.generation,
            ),
        )
        for segment in plan.segments
        for holder in segment.holders
    ]
