"""A client that does a bit of everything under names that nothing else has: `python -m tests.netns.workload TARGET`.

Writes the secrets that it has met to stdout, as one JSON object. Whoever creates the first user has to be let in by the
certificate in its environment, or by a cluster without TLS.
"""

import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyarrow as pa

from leasehold.certificates.files import CA
from leasehold.client.cluster import Cluster, connect
from leasehold.client.credentials import CredentialsFile, write_credentials
from leasehold.client.trust import TLS_VARIABLE
from leasehold.errors import WrongPassword
from tests.netns.remote import wait_until

NAMES: Final = {
    "database": "zzdatabase",
    "table": "zztable",
    "column": "zzcolumn",
    "key column": "zzkey",
    "added column": "zzadded",
    "renamed column": "zzrenamed",
    "view": "zzview",
    "administrator": "zzadministrator",
    "user": "zzuser",
    "role": "zzrole",
    "name of the token": "zztoken",
}
PASSWORDS: Final = {"of the administrator": "zz-of-the-administrator", "of the user": "zz-of-the-user"}
WRONG_PASSWORD: Final = "zz-wrong"
NUMBER: Final = 0x5A5A31425A5A3242
ROWS: Final = {"appended": "zz-an-appended-row", "inserted": "zz-an-inserted-row", "deleted": "zz-a-deleted-row"}


def words() -> dict[str, bytes]:
    """All that a stranger must not find, by what it is, but for what `main` tells."""
    texts = {**NAMES, **{f"password {key}": one for key, one in PASSWORDS.items()}, "wrong password": WRONG_PASSWORD}
    texts |= {f"row {key}": one for key, one in ROWS.items()}
    return {key: one.encode() for key, one in texts.items()} | {"number in a row": NUMBER.to_bytes(8, "little")}


def main(target: str) -> None:
    bundle = os.environ.get(TLS_VARIABLE)
    authorities = None if bundle is None else str(Path(bundle, CA))
    name, view = (f"{NAMES['database']}.{NAMES[one]}" for one in ("table", "view"))
    column, key = NAMES["column"], NAMES["key column"]
    columns = f"({key} BIGINT, {column} STRING) CLUSTERED BY ({key}) INTO 2 BUCKETS"

    def logged_in(who: str, password: str = "") -> Cluster:
        return connect(target, user=NAMES[who], password=password or PASSWORDS[f"of the {who}"], tls=authorities)

    with connect(target) as anybody:
        anybody.sql(f"CREATE USER {NAMES['administrator']} PASSWORD '{PASSWORDS['of the administrator']}'")
    with logged_in("administrator") as administrator:
        for text in (
            f"CREATE USER {NAMES['user']} PASSWORD '{PASSWORDS['of the user']}'",
            f"CREATE ROLE {NAMES['role']}",
            f"CREATE DATABASE {NAMES['database']}",
            f"CREATE TABLE {name} {columns} TBLPROPERTIES ('replication' = '2')",
            f"CREATE VIEW {view} AS SELECT {column} FROM {name}",
            f"GRANT SELECT, INSERT ON DATABASE {NAMES['database']} TO {NAMES['role']}",
            f"GRANT ROLE {NAMES['role']} TO {NAMES['user']}",
        ):
            administrator.sql(text)
    with contextlib.suppress(WrongPassword), logged_in("user", WRONG_PASSWORD) as nobody:
        nobody.sql("SHOW TABLES")
    with logged_in("user") as user:
        values = [ROWS["appended"], ROWS["deleted"]] * 500
        user.table(name).append(pa.table({key: [NUMBER] * len(values), column: values}))
        user.sql(f"INSERT INTO {name} VALUES (1, '{ROWS['inserted']}')")
        token, password_login = user.create_token(NAMES["name of the token"], NAMES["user"]), user.token
    with logged_in("administrator") as administrator:
        for text in (
            f"ALTER TABLE {name} ADD COLUMN {NAMES['added column']} BIGINT",
            f"ALTER TABLE {name} RENAME COLUMN {NAMES['added column']} TO {NAMES['renamed column']}",
            f"DELETE FROM {name} WHERE {column} = '{ROWS['deleted']}'",
        ):
            administrator.sql(text)
        wait_until(lambda: administrator.status().segments_short == 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "credentials.json")
        file = CredentialsFile(address=user.address, user=NAMES["user"], token=token, ca=authorities)
        write_credentials(path, file)
        with connect(target, credentials=path) as program:
            assert program.table(name).scan().read_all().num_rows == 501
            read = program.query(f"SELECT * FROM {view} WHERE {column} = '{ROWS['appended']}'")
            assert read.read_all().num_rows == 500
            met = {"token": token, "login by password": password_login, "login by token": program.token}
    json.dump(met, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
