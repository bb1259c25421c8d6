"""The real password hashes, and those of the simulator: the same promises."""

import asyncio
import threading

import pytest

from leasehold.errors import Corrupt
from leasehold.limits.people import PASSWORD_LANES, PASSWORD_MEMORY_KIB, PASSWORD_TIME_COST
from leasehold.testing.passwords import QuickPasswords
from leasehold.wire import passwords as real
from leasehold.wire.passwords import NOBODY, Argon2Passwords
from leasehold.wire.ports import Passwords


@pytest.mark.parametrize("passwords", [Argon2Passwords(), QuickPasswords()], ids=["argon2", "quick"])
async def test_a_hash_is_of_its_password_alone(passwords: Passwords) -> None:
    for password in ("secret", "p\u00e4ss w\u00f6rd \U0001f511", "\0", "x" * 1_024):
        made = await passwords.hashed(password)
        assert password not in made
        assert await passwords.matches(made, password)
        assert not await passwords.matches(made, password + "x")
        assert not await passwords.matches(None, password)
    assert not await passwords.matches(await passwords.hashed("secret"), "")


async def test_two_hashes_of_one_password_differ_and_say_their_parameters() -> None:
    passwords = Argon2Passwords()
    one, other = await passwords.hashed("secret"), await passwords.hashed("secret")
    assert one != other
    parameters = f"$argon2id$v=19$m={PASSWORD_MEMORY_KIB},t={PASSWORD_TIME_COST},p={PASSWORD_LANES}$"
    assert one.startswith(parameters)
    # Who does not exist costs as much as who does: the same parameters, the same lengths.
    assert NOBODY.startswith(parameters)
    assert [len(part) for part in NOBODY.split("$")] == [len(part) for part in one.split("$")]


async def test_a_damaged_hash_is_no_wrong_password() -> None:
    passwords = Argon2Passwords()
    for damaged in ("not a hash", NOBODY[:-8] + "!" * 8):
        with pytest.raises(Corrupt):
            await passwords.matches(damaged, "secret")


async def test_the_loop_goes_on_while_a_password_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    began, go_on = asyncio.Event(), threading.Event()

    class Held:
        def __init__(self, **_parameters: int) -> None:
            pass

        def hash(self, _password: str) -> str:
            loop.call_soon_threadsafe(began.set)
            assert go_on.wait(10)
            return "hash"

    monkeypatch.setattr(real, "PasswordHasher", Held)
    hashing = asyncio.ensure_future(Argon2Passwords().hashed("secret"))
    await began.wait()
    go_on.set()
    assert await hashing == "hash"
