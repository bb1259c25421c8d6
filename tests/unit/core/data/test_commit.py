"""Write transactions: what a commit compares (INV-WRITE-1), and that each ends once (INV-WRITE-2)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.data.commit import abort_transaction, open_transaction
from leasehold.core.ddl import finish
from leasehold.core.ddl.origin import Origin, hash_text
from leasehold.core.membership.identity import hash_login
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.operations import Change
from leasehold.core.words.records import BucketRecord, LoginRecord, TransactionState
from leasehold.errors import NotFound, OutcomeUnknown, Refused
from leasehold.limits.membership import GENERATION_GAP
from leasehold.limits.segments import SEGMENTS_PER_COMMIT_MAX
from leasehold.limits.statements import PURGE_BATCH, TRANSACTIONS_KEPT
from tests.unit.core.catalog_words import add, drop_column, drop_table, hex_128, rename
from tests.unit.core.data.write_words import (
    LIVE,
    TABLE,
    W1,
    W2,
    asked,
    commit,
    entry,
    ground,
    opened,
    record,
    refused,
    segment,
    user,
    written,
)

# ---------------------------------------------------------------- opening


def test_opening_writes_one_record_and_counts_it():
    base = ground()
    counters = base.catalog.counters
    assert written(open_transaction(asked(), base.catalog)) == {
        keys.transaction(W1): record(TransactionState.OPEN),
        keys.COUNTERS: msgspec.structs.replace(counters, next_transaction=2),
    }


def test_opening_again_changes_nothing_whatever_became_of_it():
    base = opened(ground())
    assert open_transaction(asked(), base.catalog) == ()
    base.commit(abort_transaction(W1, base.catalog))
    assert open_transaction(asked(version=9), base.catalog) == ()


INSERT = "INSERT INTO db.t VALUES (1, 'x')"


@pytest.mark.parametrize("state", TransactionState)
def test_an_insert_asked_for_again_is_the_same_to_its_last_character(state):
    base = opened(ground(), text=INSERT)
    base.put(keys.transaction(W1), msgspec.structs.replace(base.catalog.transactions[W1], state=state))
    assert open_transaction(asked(text=INSERT), base.catalog) == ()
    for text in (INSERT + " ", "INSERT INTO db.t VALUES (2, 'x')", ""):
        assert refused(open_transaction, asked(text=text), base.catalog) == "STATEMENT_ID_USED"
    assert refused(open_transaction, asked(text="INSERT INTO d.o VALUES (1)", table=9), base.catalog) == (
        "STATEMENT_ID_USED"
    )


def test_an_insert_belongs_to_the_user_and_the_login_that_it_came_with():
    base, tokens = ground(), {"a": "a" * 32, "b": "b" * 32}
    for number, (name, token) in enumerate(tokens.items(), 1):
        base.put(keys.principal(number), user(number, name))
        base.put(keys.login(hash_login(token)), LoginRecord(token_hash=hash_login(token), user=number, order=number))
    opened(base, text=INSERT, login=tokens["b"])
    kept = base.catalog.transactions[W1]
    assert (kept.user, kept.login, kept.text_sha256) == ("b", hash_login(tokens["b"]), hash_text(INSERT))
    assert open_transaction(asked(text=INSERT, login=tokens["b"]), base.catalog) == ()
    assert refused(open_transaction, asked(text=INSERT, login=tokens["a"]), base.catalog) == "STATEMENT_ID_USED"
    opened(base, W2, login=tokens["b"])
    assert base.catalog.transactions[W2] == record(TransactionState.OPEN, order=2, transaction=W2)


def test_of_an_append_and_of_a_record_of_an_older_version_only_the_table_is_compared():
    base = opened(ground())
    assert base.catalog.transactions[W1] == record(TransactionState.OPEN), "and nothing else is kept of it"
    assert open_transaction(asked(text=INSERT), base.catalog) == ()
    assert refused(open_transaction, asked(table=9), base.catalog) == "TRANSACTION_USED"


def test_an_id_of_another_statement_opens_nothing_unless_it_was_opened_before():
    base, other = (
        ground(),
        Origin(user=None, login=None, text="DROP TABLE d.o", text_sha256=hash_text("DROP TABLE d.o")),
    )
    for text in (INSERT, ""):
        assert refused(open_transaction, asked(text=text), base.catalog, other) == "STATEMENT_ID_USED"
    assert open_transaction(asked(text=INSERT), opened(base, text=INSERT).catalog, other) == ()


@pytest.mark.parametrize("length", [1, 31, 33])
def test_a_hash_of_a_text_has_the_length_of_one(length):
    request = msgspec.structs.replace(asked(), text_sha256=b"h" * length)
    assert refused(open_transaction, request, ground().catalog) == "BAD_TRANSACTION"


def test_a_table_is_written_under_any_schema_it_has_had():
    base = ground(add("c"))
    assert written(open_transaction(asked(version=1), base.catalog))
    assert written(open_transaction(asked(version=2), base.catalog))
    assert refused(open_transaction, asked(version=3), base.catalog) == "SCHEMA_CHANGED"
    assert refused(open_transaction, asked(version=0), base.catalog) == "SCHEMA_CHANGED"


def recovered(base, generation):
    """The same state, gone on from as another generation."""
    cluster = msgspec.structs.replace(base.catalog.cluster, generation=generation)
    base.commit((Change(keys.CLUSTER, encode(cluster)),))
    return base


@pytest.mark.parametrize("generation", [1, 6, 8])
def test_R6_a_write_by_the_facts_of_another_generation_is_not_opened(generation):
    base = recovered(ground(), 7)
    with pytest.raises(Refused) as caught:
        open_transaction(asked(generation=generation), base.catalog)
    assert caught.value.code == "GENERATION_CHANGED"
    assert f"generation {generation} " in caught.value.text
    assert "generation 7 " in caught.value.text
    assert "look the table up again" in caught.value.hint
    assert written(open_transaction(asked(generation=7), base.catalog))


def test_R6_a_write_that_was_open_in_the_state_that_was_kept_goes_on():
    """Its writer's facts are older than it: of the history that both generations share."""
    base = recovered(opened(ground()), 7)
    assert open_transaction(asked(), base.catalog) == ()
    assert written(commit(base, segment()))[keys.transaction(W1)].state is TransactionState.COMMITTED


def test_R6_what_was_staged_in_the_state_that_was_lost_is_on_no_node_of_the_next_one():
    """Incarnations jump, and without them no holder counts."""
    base = recovered(opened(ground()), 7)
    jumped = {node: incarnation + GENERATION_GAP for node, incarnation in LIVE.items()}
    assert refused(commit, base, segment(), live=jumped) == "TOO_FEW_HOLDERS"


@pytest.mark.parametrize("transaction", ["", "short", "A" * 32, "../" + "a" * 29])
def test_a_transaction_id_is_128_bits_in_hex(transaction):
    assert refused(open_transaction, asked(transaction), ground().catalog) == "BAD_TRANSACTION"


def test_ended_transactions_are_forgotten_in_batches_the_oldest_first():
    base = ground()
    many = [
        record(TransactionState.COMMITTED, order=number + 5, transaction=hex_128(0x1000 + number))
        for number in range(TRANSACTIONS_KEPT + PURGE_BATCH)
    ]
    catalog = base.catalog.changed(Change(keys.transaction(one.id), encode(one)) for one in many)
    assert len(open_transaction(asked(), catalog)) == 2
    open_still = record(TransactionState.OPEN, order=1, transaction=W2)
    catalog = catalog.changed((Change(keys.transaction(W2), encode(open_still)),))
    assert len(open_transaction(asked(), catalog)) == 2, "those that are open take no place of those that have ended"
    another = record(TransactionState.ABORTED, order=TRANSACTIONS_KEPT + 100, transaction=hex_128(0xA3))
    catalog = catalog.changed((Change(keys.transaction(another.id), encode(another)),))
    changes = written(open_transaction(asked(), catalog))
    assert {key for key, one in changes.items() if one is None} == {
        keys.transaction(one.id) for one in many[:PURGE_BATCH]
    }


# ---------------------------------------------------------------- committing


def test_bounds_are_kept_of_the_first_columns_and_of_those_that_decide_where_and_how_long_rows_are_kept(monkeypatch):
    monkeypatch.setattr("leasehold.core.data.bounded_fields.STATISTICS_COLUMNS_MAX", 1)
    base = ground(add("c", "d", "e"))
    table = base.catalog.tables[TABLE]
    for changed, kept in ((table, {1}), (msgspec.structs.replace(table, cluster_by=3, time_column=5), {1, 3, 5})):
        base.put(keys.table(TABLE), changed)
        staged = segment(fields=(1, 2, 3, 4, 5), schema_version=2)
        changes = written(commit(opened(base, version=2), staged))
        assert {one.field for one in changes[keys.segment(TABLE, 0, staged.id)].statistics} == kept


def test_a_commit_shows_all_segments_and_ends_the_transaction_at_once():
    base = opened(ground())
    one, two, three = segment(1), segment(2, bucket=1), segment(3)
    revision = base.catalog.revision + 1
    assert written(commit(base, three, two, one)) == {
        keys.COUNTERS: msgspec.structs.replace(base.catalog.counters, next_segment=4),
        keys.segment(TABLE, 0, one.id): entry(one, 1, 2, 3, number=3, revision=revision),
        keys.segment(TABLE, 0, three.id): entry(three, 1, 2, 3, number=1, revision=revision),
        keys.segment(TABLE, 1, two.id): entry(two, 2, 3, 1, number=2, revision=revision),
        keys.transaction(W1): record(TransactionState.COMMITTED, rows=30),
    }


def test_rows_are_not_concerned_by_deletes_from_before_their_commit():
    base = opened(ground())
    table = msgspec.structs.replace(base.catalog.tables[TABLE], deletes=3)
    base.put(keys.table(TABLE), table)
    one = segment()
    assert written(commit(base, one))[keys.segment(TABLE, 0, one.id)].deletes == 3


def test_a_commit_of_nothing_ends_it_too():
    assert written(commit(opened(ground()))) == {keys.transaction(W1): record(TransactionState.COMMITTED)}


def test_a_member_without_the_segment_leaves_the_sync_state_set_in_the_same_transaction():
    base = opened(ground())
    one = segment(1, 1, 3)
    changes = written(commit(base, one))
    assert changes[keys.segment(TABLE, 0, one.id)] == entry(one, 1, 3, revision=base.catalog.revision + 1)
    assert changes[keys.bucket(TABLE, 0)] == BucketRecord(table=TABLE, bucket=0, replicas=(1, 2, 3), in_sync=(1, 3))
    assert keys.bucket(TABLE, 1) not in changes


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_transaction_ends_once(end):
    """INV-WRITE-2: repeated, late and contrary requests find the same end."""
    base = opened(ground())
    base.commit(commit(base, segment()) if end == "commit" else abort_transaction(W1, base.catalog))
    for _ in range(2):
        assert abort_transaction(W1, base.catalog) == ()
        if end == "commit":
            assert commit(base, segment()) == ()
            assert commit(base) == (), "whatever it asks for this time"
        else:
            assert refused(commit, base, segment()) == "ABORTED"
    ended = base.catalog.transactions[W1]
    assert ended == (record(TransactionState.COMMITTED, 10) if end == "commit" else record(TransactionState.ABORTED))
    assert len(base.catalog.bucket_segments(TABLE, 0)) == (end == "commit")


def test_a_commit_repeated_after_the_drop_of_its_table_is_still_committed():
    base = opened(ground())
    base.commit(commit(base, segment()))
    base.commit(finish(base.begin(drop_table()), base.catalog))
    assert commit(base, segment()) == ()


def test_a_transaction_that_is_not_known_has_no_definite_end():
    base = ground()
    with pytest.raises(OutcomeUnknown):
        commit(base, segment())
    with pytest.raises(OutcomeUnknown):
        abort_transaction(W1, base.catalog)


# ---------------------------------------------------------------- INV-WRITE-1


@pytest.mark.parametrize("over", [False, True])
def test_a_dropped_table_takes_no_rows(over):
    base = opened(ground())
    procedure = base.begin(drop_table())
    if over:
        base.commit(finish(procedure, base.catalog))
    with pytest.raises(NotFound) as caught:
        commit(base, segment())
    assert caught.value.code == "TABLE_DROPPED"
    base.commit(abort_transaction(W1, base.catalog))


@pytest.mark.parametrize("over", [False, True])
def test_a_column_dropped_meanwhile_refuses_the_rows_that_have_it(over):
    base = opened(ground())
    procedure = base.begin(drop_column("b"))
    if over:
        base.commit(finish(procedure, base.catalog))
    assert refused(commit, base, segment()) == "SCHEMA_CHANGED"
    assert written(commit(base, segment(fields=(1,)))), "and those without it are welcome"


def test_a_column_made_again_under_the_old_name_is_not_the_one_that_was_written():
    base = opened(ground())
    base.commit(finish(base.begin(drop_column("b")), base.catalog))
    base.begin(add("b"))
    assert refused(commit, base, segment()) == "SCHEMA_CHANGED"


@pytest.mark.parametrize("change", [add("c"), rename("a", "z")])
def test_columns_added_and_renamed_meanwhile_do_no_harm(change):
    base = opened(ground())
    base.begin(change)
    assert written(commit(base, segment()))


# ---------------------------------------------------------------- segments that are not of this write


@pytest.mark.parametrize(
    "foreign",
    [
        {"id": f"{W2}-{hex_128(1)}"},
        {"id": "../../etc/passwd"},
        {"id": f"{W1}-short"},
        {"id": f"{W1}-{hex_128(1)}/../x"},
        {"table": 3},
        {"bucket": 2},
        {"bucket": -1},
        {"schema_version": 2},
        {"schema_version": 0},
        {"rows": -1},
        {"rows": 2**63},
        {"size_bytes": 0},
        {"size_bytes": -(10**12)},
        {"size_bytes": 2**40},
        {"sha256": b""},
    ],
)
def test_a_foreign_segment_refuses_the_commit(foreign):
    base = opened(ground())
    assert refused(commit, base, segment(1), segment(2, **foreign)) == "BAD_SEGMENT"


def test_a_segment_named_twice_refuses_the_commit():
    base = opened(ground())
    assert refused(commit, base, segment(1), segment(1, bucket=1)) == "BAD_SEGMENT"


def test_a_commit_has_so_many_segments_at_most():
    base = opened(ground())
    one = segment(1)
    assert refused(commit, base, *[one] * (SEGMENTS_PER_COMMIT_MAX + 1)) == "TOO_MANY_SEGMENTS"


# ---------------------------------------------------------------- any order of requests

STEPS = st.lists(st.tuples(st.sampled_from([W1, W2]), st.sampled_from(["open", "commit", "abort"])), max_size=20)


@given(STEPS)
def test_whatever_the_order_rows_are_visible_once_or_never(steps):
    base, ends = ground(), {}
    for transaction, step in steps:
        try:
            match step:
                case "open":
                    changes = open_transaction(asked(transaction), base.catalog)
                case "commit":
                    changes = commit(base, segment(1, transaction=transaction), transaction=transaction)
                case "abort":
                    changes = abort_transaction(transaction, base.catalog)
        except (OutcomeUnknown, Refused):
            continue
        if changes:
            base.commit(changes)
        if step != "open":
            state = base.catalog.transactions[transaction].state
            assert ends.setdefault(transaction, state) is state, "an end is for ever"
    visible = [one.id[:32] for one in base.catalog.bucket_segments(TABLE, 0)]
    assert sorted(visible) == sorted(one for one, state in ends.items() if state is TransactionState.COMMITTED)
