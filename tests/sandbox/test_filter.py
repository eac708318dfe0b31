"""The filter's program, run here as the kernel would run it: so for both architectures, on any machine."""

from __future__ import annotations

from collections.abc import Callable
from errno import ENOSYS, EPERM

import pytest

from celery_replay.sandbox import seccomp, syscalls

LOAD, AND, IS, ABOVE, HAS, RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
ALLOWED, ERROR = 0x7FFF0000, 0x00050000
OWN = 4321
HIGH = 1 << 32

Answer = Callable[..., "int | None"]


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(syscalls, "architecture", lambda: request.param)
    return str(request.param)


@pytest.fixture
def answer(machine: str) -> Answer:
    """Return which error a call gets, 0 for one that is answered as if done, None for one that is let through."""
    program = list(seccomp._program(OWN, truncation=True))

    def ask(call: int | str, *arguments: int, architecture: int = syscalls.AUDIT_ARCH[machine]) -> int | None:
        number = syscalls.number_of(call) if isinstance(call, str) else call
        assert number is not None
        words = {0: number, 4: architecture}
        for index, argument in enumerate([*arguments, *[0] * 6][:6]):
            words[16 + 8 * index], words[20 + 8 * index] = argument % HIGH, argument // HIGH
        verdict = run(program, words)
        return None if verdict == ALLOWED else verdict - ERROR

    return ask


def run(program: list[tuple[int, int, int, int]], words: dict[int, int]) -> int:
    word = position = 0
    tests = {IS: int.__eq__, ABOVE: int.__gt__, HAS: lambda one, other: bool(one & other)}
    while True:
        code, when, otherwise, value = program[position]
        position += 1
        if code == RETURN:
            return value
        if code == LOAD:
            word = words[value]
        elif code == AND:
            word &= value
        else:
            position += when if tests[code](word, value) else otherwise


def test_the_program_fits_into_the_kernel(machine: str) -> None:
    program = list(seccomp._program(OWN, truncation=False))
    assert len(program) < 4096
    assert max(jump for _, *jumps, _ in program for jump in jumps) < 256


@pytest.mark.parametrize("group", syscalls.REFUSED)
def test_what_leads_out_is_refused(group: str, answer: Answer) -> None:
    assert {number: answer(number) for number in syscalls.numbers_of(group)} == dict.fromkeys(
        syscalls.numbers_of(group), EPERM
    )


def test_calls_under_other_numbers_are_refused(answer: Answer) -> None:
    i386, getpid = 0x40000003, 20
    assert answer(getpid, architecture=i386) == EPERM
    for machine, architecture in syscalls.AUDIT_ARCH.items():
        if architecture != syscalls.AUDIT_ARCH[syscalls.architecture() or ""]:
            assert answer(39, architecture=architecture) == EPERM, machine


def test_calls_that_are_unknown_to_the_lists_are_none(answer: Answer) -> None:
    assert answer(syscalls.NEWEST) is not None
    assert answer(syscalls.NEWEST + 1) == ENOSYS


STREAM, DATAGRAM, CLOSE_ON_EXEC = 1, 2, 0o2000000
TRUNCATE, FAST_OPEN, NEW_USER, THREAD = 0o1000, 0x20000000, 0x10000000, 0x3D0F00


@pytest.mark.parametrize(
    ("call", "arguments", "error"),
    [
        ("socket", (1, STREAM | CLOSE_ON_EXEC), None),
        ("socket", (1, DATAGRAM), EPERM),
        ("socket", (2, STREAM), EPERM),
        ("socketpair", (1, STREAM), None),
        ("socketpair", (1, DATAGRAM), EPERM),
        ("sendto", (3, 1, 1, 0, 0, 0), None),
        ("sendto", (3, 1, 1, 0, 1, 16), EPERM),
        ("sendto", (3, 1, 1, 0, HIGH, 16), EPERM),
        ("sendmsg", (3, 1, 0), None),
        ("sendmsg", (3, 1, FAST_OPEN | 1), EPERM),
        ("sendmmsg", (3, 1, 1, FAST_OPEN), EPERM),
        ("kill", (OWN, 9), None),
        ("kill", (HIGH + OWN, 9), None),
        ("kill", (0, 9), EPERM),
        ("kill", (HIGH - 1, 9), EPERM),
        ("tgkill", (OWN, 1, 9), None),
        ("tgkill", (1, OWN, 9), EPERM),
        ("prlimit64", (0,), None),
        ("prlimit64", (1,), EPERM),
        ("clone", (THREAD,), None),
        ("clone", (NEW_USER,), EPERM),
        ("clone3", (), ENOSYS),
        ("fcntl", (3, 4), None),
        ("fcntl", (3, 8), EPERM),
        ("ioctl", (3, 0x5401), None),
        ("ioctl", (3, 0x5412), EPERM),
        ("openat", (3, 1, 0), None),
        ("openat", (3, 1, TRUNCATE | 1), None),
        ("openat", (3, 1, TRUNCATE), EPERM),
        ("openat", (3, 1, 3), EPERM),
        ("fchmod", (3, 0o777), 0),
        ("truncate", (), None),
        ("getpid", (), None),
    ],
)
def test_what_depends_on_arguments_is_judged_by_them(
    call: str, arguments: tuple[int, ...], error: int | None, answer: Answer
) -> None:
    assert answer(call, *arguments) == error
