"""A SELECT reaches nothing but tables."""

import pyarrow as pa
import pytest

from leasehold.client.engine import Prepared, Run
from leasehold.errors import Refused
from tests.unit.client.query_words import MEMORY_BYTES, Tables, read, select


def test_a_body_reaches_no_files_and_no_variables_of_this_process(tmp_path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    hidden = pa.table({"a": ["secret"]})
    for source in (f"READ_TEXT('{secret}')", "`hidden`", f"`{secret}`"):
        with pytest.raises(Refused) as caught:
            read(Tables(), ("db.v", f"SELECT * FROM {source}", ("a",))).read_all()
        assert caught.value.code in {"QUERY_FAILED", "NOT_ON_THIS_ENGINE"}
    assert hidden.num_rows == 1


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM read_text('{secret}')",
        "SELECT read_text('{secret}')",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM `{secret}`",
        "SELECT * FROM csv.`{secret}`",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM pragma_table_info('x')",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM hidden",
        "SELECT getenv('HOME')",
        "SELECT current_setting('memory_limit')",
        "SELECT current_user()",
        "SELECT getvariable('x')",
        "SELECT * FROM query('SELECT 1')",
        "SELECT a FROM db.t; SELECT 1",
        "SELECT a FROM db.t; COPY (SELECT 1) TO '{made}'",
        "WITH x AS (SELECT 1) INSERT INTO db.t SELECT * FROM x",
        "SELECT 1 INTO db.u",
        "COPY (SELECT 1) TO '{made}'",
        "ATTACH '{made}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA database_list",
        "SET memory_limit = '100GB'",
        "EXPORT DATABASE '{made}'",
        "CALL pragma_version()",
    ],
)
def test_a_select_reaches_nothing_but_tables(text: str, tmp_path) -> None:
    (tmp_path / "secret.csv").write_text("word\nsecret\n")
    hidden = pa.table({"a": ["secret"]})
    filled = text.format(secret=tmp_path / "secret.csv", made=tmp_path / "made")
    with pytest.raises(Refused):
        select(Tables(), filled)
    assert hidden.num_rows == 1
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM read_text('{secret}')",
        "COPY (SELECT 1) TO '{made}'",
        "ATTACH '{made}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "SET enable_external_access = true",
        "SET temp_directory = '{made}'",
        "RESET lock_configuration",
        "PRAGMA memory_limit = '100GB'",
        "EXPORT DATABASE '{made}'",
        "SELECT * FROM hidden",
        "SELECT getenv('HOME')",
        "SELECT * FROM 'https://example.org/x.parquet'",
    ],
)
def test_duckdb_itself_is_locked_in(text: str, tmp_path) -> None:
    """Whatever text came through the parser."""
    (tmp_path / "secret.csv").write_text("word\nsecret\n")
    hidden = pa.table({"a": ["secret"]})
    filled = text.format(secret=tmp_path / "secret.csv", made=tmp_path / "made")
    prepared = Prepared(
        text=filled, names=("x",), called={}, plans={}, views=(), elsewhere="", memory_bytes=MEMORY_BYTES
    )
    run = Run(prepared, Tables().open)
    run.start()
    with pytest.raises(Refused):
        run.take()
    run.stop()
    assert hidden.num_rows == 1
    assert not (tmp_path / "made").exists()
