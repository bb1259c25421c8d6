"""The settings of a cluster: their names, their ranges, and what a change of them writes.

A longer lease duration is noted as the largest lease **in the same transaction**, so before the first longer grant. The
largest lease is lowered only after the last longer grant has ended (L10). A leader elected in between counts with it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.drift import MILLION
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.durations import parse_duration, render_duration
from leasehold.core.words.operations import Change
from leasehold.core.words.records import LargestLeaseRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.lease import (
    LEASE_DURATION_MAX_NS,
    LEASE_DURATION_MIN_NS,
    LEASE_MARGIN_MAX_NS,
    LEASE_MARGIN_MIN_NS,
)
from leasehold.limits.log import LEADERSHIP_DURATION_MAX_NS, LEADERSHIP_DURATION_MIN_NS
from leasehold.limits.membership import REBALANCE_AUTO, REPLACE_AFTER_MAX_NS, REPLACE_AFTER_MIN_NS
from leasehold.limits.metastorage import (
    RETENTION_BYTES_MAX,
    RETENTION_BYTES_MIN,
    RETENTION_MAX_NS,
    RETENTION_MIN_NS,
    RETENTION_REVISIONS_MAX,
    RETENTION_REVISIONS_MIN,
)
from leasehold.limits.recovery import CATCH_UP_DIFFERENCE_MAX
from leasehold.limits.replication import REPAIR_RATE_MAX, REPAIR_RATE_MIN
from leasehold.limits.scrub import SCRUB_EVERY_MAX_NS, SCRUB_EVERY_MIN_NS
from leasehold.limits.statements import REPLICATION_MAX
from leasehold.limits.upkeep import CLOCK_STEP_MAX_NS, CLOCK_STEP_MIN_NS

AUTO: Final = "auto"
NEVER: Final = "never"
_SHOWN: Final = 64
"""Characters of what a person wrote that an error repeats."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: `name` as people write it, `field` of the record, both ends of its range. It may be the word
    `for_zero` too, which is stored as 0. Or it is one of `words`, stored by their places. The record is that of the
    settings, or `of_cluster`."""

    name: str
    field: str
    smallest: int
    largest: int
    meaning: str
    is_duration: bool = True
    for_zero: str = ""
    words: tuple[str, ...] = ()
    of_cluster: bool = False

    def shown(self, value: int) -> str:
        if self.words:
            return self.words[value]
        if self.for_zero and value == 0:
            return self.for_zero
        return render_duration(value) if self.is_duration else str(value)

    @property
    def range(self) -> str:
        """Both ends, or all words, as people write them."""
        if self.words:
            return " or ".join(f"'{one}'" for one in self.words)
        return f"{self.shown(self.smallest)} to {self.shown(self.largest)}" + (
            f" or '{self.for_zero}'" if self.for_zero else ""
        )


SETTINGS: Final = (
    Setting(
        name="lease_duration",
        field="lease_duration_ns",
        smallest=LEASE_DURATION_MIN_NS,
        largest=LEASE_DURATION_MAX_NS,
        meaning="how long a node may serve after it requested its lease",
    ),
    Setting(
        name="lease_margin",
        field="lease_margin_ns",
        smallest=LEASE_MARGIN_MIN_NS,
        largest=LEASE_MARGIN_MAX_NS,
        meaning="how much longer than its node the leader counts a lease",
    ),
    Setting(
        name="leadership_duration",
        field="leadership_duration_ns",
        smallest=LEADERSHIP_DURATION_MIN_NS,
        largest=LEADERSHIP_DURATION_MAX_NS,
        meaning="how long a leader leads after its last beat, from the next term on; no effect with SQLite",
    ),
    Setting(
        name="min_in_sync",
        field="min_in_sync",
        smallest=1,
        largest=REPLICATION_MAX,
        is_duration=False,
        meaning="nodes that must hold the rows of a write at its commit; auto: 2 if replication is 3 or more, else 1",
        for_zero=AUTO,
    ),
    Setting(
        name="replace_after",
        field="replace_after_ns",
        smallest=REPLACE_AFTER_MIN_NS,
        largest=REPLACE_AFTER_MAX_NS,
        meaning="how long a node is away before its buckets get other replicas",
        for_zero=NEVER,
    ),
    Setting(
        name="repair_rate",
        field="repair_rate",
        smallest=REPAIR_RATE_MIN,
        largest=REPAIR_RATE_MAX,
        is_duration=False,
        meaning="bytes that each node copies from others in a second",
    ),
    Setting(
        name="rebalance",
        field="rebalance",
        smallest=0,
        largest=REBALANCE_AUTO,
        is_duration=False,
        meaning="whether buckets move by themselves once nodes hold very different amounts",
        words=("manual", "auto"),
    ),
    Setting(
        name="local_reads",
        field="local_reads",
        smallest=0,
        largest=1,
        is_duration=False,
        meaning="whether Spark on the machine of a node may read its files itself",
        words=("off", "on"),
        of_cluster=True,
    ),
    Setting(
        name="catch_up_difference",
        field="catch_up_difference",
        smallest=1,
        largest=CATCH_UP_DIFFERENCE_MAX,
        is_duration=False,
        meaning="revisions that a node may lack when its recovery counts as finished",
    ),
    Setting(
        name="retention",
        field="retention_ns",
        smallest=RETENTION_MIN_NS,
        largest=RETENTION_MAX_NS,
        meaning="how long old revisions are kept for nodes to replay",
    ),
    Setting(
        name="retention_revisions",
        field="retention_revisions",
        smallest=RETENTION_REVISIONS_MIN,
        largest=RETENTION_REVISIONS_MAX,
        is_duration=False,
        meaning="how many old revisions are kept at most, apart from those that a recovering node needs",
    ),
    Setting(
        name="retention_bytes",
        field="retention_bytes",
        smallest=RETENTION_BYTES_MIN,
        largest=RETENTION_BYTES_MAX,
        is_duration=False,
        meaning="how many bytes of old revisions are kept at most, apart from those that a recovering node needs",
    ),
    Setting(
        name="clock_step",
        field="clock_step_ns",
        smallest=CLOCK_STEP_MIN_NS,
        largest=CLOCK_STEP_MAX_NS,
        meaning="how far the leader's wall clock may step ahead and still make rows expire",
    ),
    Setting(
        name="scrub_every",
        field="scrub_every_ns",
        smallest=SCRUB_EVERY_MIN_NS,
        largest=SCRUB_EVERY_MAX_NS,
        meaning="in which time a node reads each of its segment files once, to find damage",
        for_zero=NEVER,
    ),
)
"""All that ALTER CLUSTER SET can change."""

_FIXED: Final = {
    "clock_drift": "every current lease was counted with it",
    "largest_lease": "it follows lease_duration",
    "generation": "`leasehold recover` begins a new one",
    "rebalancing": "ALTER CLUSTER REBALANCE begins one, and ALTER CLUSTER STOP REBALANCE ends it",
}


def setting_named(name: str) -> Setting:
    """The setting of that name in any case; raises `Refused` with code NO_SUCH_SETTING or FIXED_SETTING."""
    for one in SETTINGS:
        if one.name == name.casefold():
            return one
    because = _FIXED.get(name.casefold())
    hint = "the settings are " + ", ".join(one.name for one in SETTINGS) + "; SHOW CLUSTER shows their ranges"
    if because is not None:
        raise Refused(f"{name} can't be set: {because}", code=ErrorCode.FIXED_SETTING, hint=hint)
    raise Refused(f"there is no setting {name[:_SHOWN]!r}", code=ErrorCode.NO_SUCH_SETTING, hint=hint)


def read_value(setting: Setting, text: str, *, quoted: bool) -> int:
    """The value that a person wrote, in quotes or as a bare number; raises `Refused` with code BAD_SETTING."""
    if setting.words:
        return _read_word(setting, text)
    example = "= '2s'" if setting.is_duration else f"= {setting.smallest}"
    hint = f"write {setting.name} {example}, {setting.range}"
    wrote = f"{text[:_SHOWN]!r}"
    if setting.for_zero and quoted and text.casefold() == setting.for_zero:
        return 0
    if setting.is_duration:
        if not quoted:
            text = f"{setting.name} is a duration, a number with a unit in quotes, and not {wrote}"
            raise Refused(text, code=ErrorCode.BAD_SETTING, hint=hint)
        try:
            value = parse_duration(text)
        except Refused as error:
            raise Refused(f"{setting.name}: {error.text}", code=ErrorCode.BAD_SETTING, hint=hint) from error
    elif text.isascii() and text.isdigit() and len(text) <= len(str(setting.largest)):
        value = int(text)
    else:
        raise Refused(
            f"{setting.name}: {wrote} is not a whole number in its range", code=ErrorCode.BAD_SETTING, hint=hint
        )
    if not setting.smallest <= value <= setting.largest:
        shown = str(value) if setting.for_zero and not setting.is_duration else setting.shown(value)
        text = f"{setting.name} can't be {shown}: its range is {setting.range}"
        raise Refused(text, code=ErrorCode.BAD_SETTING, hint=hint)
    return value


def _read_word(setting: Setting, text: str) -> int:
    if text.casefold() in setting.words:
        return setting.words.index(text.casefold())
    what = f"{setting.name} can't be {text[:_SHOWN]!r}"
    raise Refused(what, code=ErrorCode.BAD_SETTING, hint=f"write {setting.name} = {setting.range}")


def settings_changes(asked: Mapping[str, int], catalog: Catalog) -> tuple[Change, ...]:
    """What a statement with these values by name writes; nothing if they are the present ones."""
    assert catalog.cluster is not None
    assert catalog.settings is not None
    assert catalog.largest_lease is not None
    fields: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for name, value in asked.items():
        setting = setting_named(name)
        is_word = bool(setting.for_zero) and value == 0
        assert is_word or setting.smallest <= value <= setting.largest, "checked where it was read"
        fields[setting.of_cluster][setting.field] = value
    cluster = msgspec.structs.replace(catalog.cluster, **fields[True])
    after = msgspec.structs.replace(catalog.settings, **fields[False])
    changes = [Change(keys.CLUSTER, encode(cluster))] if cluster != catalog.cluster else []
    if after != catalog.settings:
        changes.append(Change(keys.SETTINGS, encode(after)))
    if after.lease_duration_ns > catalog.largest_lease.duration_ns:
        changes.append(_largest(after.lease_duration_ns))
    return tuple(changes)


def largest_lease_lowered(catalog: Catalog) -> tuple[Change, ...]:
    """Lowers the largest lease to the duration set, and forgets strangers; only for a leader that has seen every longer
    grant end."""
    assert catalog.cluster is not None
    assert catalog.settings is not None
    assert catalog.largest_lease is not None
    changes: list[Change] = []
    if catalog.cluster.strangers:
        changes.append(Change(keys.CLUSTER, encode(msgspec.structs.replace(catalog.cluster, strangers=False))))
    if catalog.settings.lease_duration_ns < catalog.largest_lease.duration_ns:
        changes.append(_largest(catalog.settings.lease_duration_ns))
    return tuple(changes)


def settings_rows(catalog: Catalog) -> tuple[tuple[str, str, str, str], ...]:
    """For each setting its name, value, range and meaning; then what no statement sets."""
    cluster, settings, largest = catalog.cluster, catalog.settings, catalog.largest_lease
    assert cluster is not None
    assert settings is not None
    assert largest is not None
    drift = f"{settings.drift_ppm * 100 / MILLION:g}%"
    counted = render_duration(largest.duration_ns)
    generation = cluster.generation
    rebalancing = "yes" if cluster.rebalancing else "no"
    values = [getattr(cluster if one.of_cluster else settings, one.field) for one in SETTINGS]
    return (
        *((one.name, one.shown(now), one.range, one.meaning) for one, now in zip(SETTINGS, values, strict=True)),
        ("largest_lease", counted, "fixed", "the longest lease that may be out: what a new leader waits for"),
        ("generation", str(generation), "fixed", "1, or the second at which the cluster was recovered from a backup"),
        ("rebalancing", rebalancing, "fixed", "whether buckets move to nodes that hold less"),
        ("clock_drift", drift, "fixed", "how much a clock may gain or lose"),
    )


def _largest(duration_ns: int) -> Change:
    return Change(keys.LARGEST_LEASE, encode(LargestLeaseRecord(duration_ns=duration_ns)))
