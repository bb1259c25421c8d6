"""A file of credentials: what it must be, what an error about it says, and what wins over it."""

import json
import os
import stat
from pathlib import Path

import pytest

from leasehold.client.coordinators import Coordinators
from leasehold.client.credentials import Credentials, CredentialsFile, find_credentials, write_credentials
from leasehold.client.tokens import create_token_text, new_user_token
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words.messages import Login, LogInByCertificate, LogInByToken
from leasehold.core.words.statements import CreateToken
from leasehold.errors import AlreadyExists, BadSettings, Refused
from leasehold.ids import is_user_token
from leasehold.sql.parse import parse

TOKEN = new_user_token()
WHOLE = {"address": "10.0.0.1:7400,10.0.0.2:7400", "user": "ann", "token": TOKEN}


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in ("USER", "PASSWORD", "CREDENTIALS", "TLS"):
        monkeypatch.delenv(f"LEASEHOLD_{one}", raising=False)


def written(folder: Path, content: object, mode: int = 0o600) -> Path:
    path = folder / "ann.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(mode)
    return path


def refused(path: Path) -> BadSettings:
    with pytest.raises(BadSettings) as caught:
        find_credentials(path)
    assert caught.value.code == "BAD_CREDENTIALS"
    assert str(path) in caught.value.text
    assert TOKEN not in caught.value.text + caught.value.hint
    return caught.value


def test_a_file_says_where_and_who(tmp_path: Path) -> None:
    found = find_credentials(written(tmp_path, {**WHOLE, "ca": "ca.pem"}))
    assert found == CredentialsFile(**{**WHOLE, "ca": str(tmp_path / "ca.pem")})
    assert TOKEN not in repr(found)
    assert find_credentials(written(tmp_path, {**WHOLE, "ca": "/etc/ca.pem"})).ca == "/etc/ca.pem"
    assert find_credentials(None) is None


def test_what_is_written_is_read_and_no_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    made = CredentialsFile(**WHOLE)
    write_credentials(path, made)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert find_credentials(path) == made
    with pytest.raises(AlreadyExists):
        write_credentials(path, made)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    assert f"{mode:04o}" in refused(written(tmp_path, WHOLE, mode)).text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    os.chown(path, 12_345, -1)
    assert "uid 12345" in refused(path).text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ([], "array"),
        ({**WHOLE, "pasword": "x"}, "pasword"),
        ({**WHOLE, "password": "x"}, "password"),
        ({"address": "a:1", "user": "ann"}, "token"),
        ({**WHOLE, "user": 1}, "user"),
        ({**WHOLE, "user": "a b"}, "field user"),
        ({**WHOLE, "address": "somewhere"}, "field address"),
        ({**WHOLE, "address": "a:1,"}, "field address"),
        ({**WHOLE, "token": TOKEN[:-1]}, "field token"),
        ({**WHOLE, TOKEN: "token"}, "name of a field"),
        ({**WHOLE, "ca": "a\0b"}, "field ca"),
        ({**WHOLE, "ca": ""}, "field ca"),
        ("x" * 70_000, "at most 65536"),
    ],
)
def test_a_file_that_says_something_else_is_refused_with_its_field(tmp_path: Path, content: object, said: str) -> None:
    assert said in refused(written(tmp_path, content)).text


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "gone")
    refused(tmp_path)


def test_what_is_given_wins_over_the_file_and_the_file_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = find_credentials(written(tmp_path, WHOLE))
    by_token = LogInByToken(cluster_id=None, user="ann", token=TOKEN)
    by_password = Login(cluster_id=None, user="bob", password="p")
    monkeypatch.setenv("LEASEHOLD_USER", "bob")
    monkeypatch.setenv("LEASEHOLD_PASSWORD", "p")
    assert Credentials(file=file, has_certificate=True).complete() == by_token
    assert Credentials("bob", file=file).complete() == by_password
    assert Credentials(password="p", file=file).complete() == by_password
    assert Credentials(has_certificate=True).complete() == by_password
    monkeypatch.delenv("LEASEHOLD_USER")
    assert Credentials(has_certificate=True).complete() == LogInByCertificate(cluster_id=None)


def test_a_client_finds_its_cluster_by_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_CREDENTIALS", str(written(tmp_path, WHOLE)))
    with Coordinators(None) as found:
        assert found.address == WHOLE["address"]
    with Coordinators("127.0.0.1:1") as given:
        assert given.address == "127.0.0.1:1"


def test_a_token_is_random_and_its_statement_holds_only_its_hash() -> None:
    assert is_user_token(TOKEN)
    assert new_user_token() != TOKEN
    text = create_token_text(TOKEN, "nightly", "ann", "30 days")
    assert parse(text) == CreateToken(
        name="nightly", user="ann", hash=hash_secret(TOKEN), expires_ns=30 * 86_400 * 10**9
    )
    assert TOKEN.removeprefix("lht_") not in text
    with pytest.raises(Refused):
        create_token_text(TOKEN, "a` FOR USER root --", "ann", None)
