"""Numbers of system calls, on x86-64 and on aarch64, by what they could be used for.

Each reads `name:number on x86-64:number on aarch64`, with `-` where there is none. The sources are the kernel's
`arch/x86/entry/syscalls/syscall_64.tbl` and `include/uapi/asm-generic/unistd.h`.
"""

from __future__ import annotations

import functools
import platform
import struct
import sys

NEWEST = 469
"""The last number that was looked at for these lists, `file_setattr` of Linux 6.17: the same on both."""
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""How the kernel calls the two, from `linux/audit.h`."""

NETWORK = """
    connect:42:203 bind:49:200 listen:50:201 accept:43:202 accept4:288:242
"""
"""What a socket to somewhere else needs."""
PROGRAMS = """
    execve:59:221 execveat:322:281
"""
"""Other programs."""
OTHERS = """
    ptrace:101:117 process_vm_readv:310:270 process_vm_writev:311:271 process_madvise:440:440
    process_mrelease:448:448 pidfd_getfd:438:438 pidfd_send_signal:424:424 kcmp:312:272 move_pages:279:239
    migrate_pages:256:238 setpriority:141:140 ioprio_set:251:30 setsid:112:157 setpgid:109:154
"""
"""What reaches into other processes, or out of the group that is killed at the end."""
CHANNELS = """
    shmget:29:194 shmat:30:196 shmctl:31:195 msgget:68:186 msgsnd:69:189 msgrcv:70:188 msgctl:71:187 semget:64:190
    semop:65:193 semtimedop:220:192 semctl:66:191 mq_open:240:180 mq_unlink:241:181 mq_timedsend:242:182
    mq_timedreceive:243:183 mq_notify:244:184 mq_getsetattr:245:185
"""
"""System V and POSIX objects, which outlive the process and have no path that Landlock knows."""
KERNEL = """
    io_uring_setup:425:425 io_uring_enter:426:426 io_uring_register:427:427 bpf:321:280 userfaultfd:323:282
    perf_event_open:298:241 fanotify_init:300:262 keyctl:250:219 add_key:248:217 request_key:249:218
    open_by_handle_at:304:265 syslog:103:116 acct:163:89 quotactl:179:60 quotactl_fd:443:443 reboot:169:142
    swapon:167:224 swapoff:168:225 init_module:175:105 finit_module:313:273 delete_module:176:106 kexec_load:246:104
    kexec_file_load:320:294 settimeofday:164:170 clock_settime:227:112 clock_adjtime:305:266 adjtimex:159:171
    sethostname:170:161 setdomainname:171:162 vhangup:153:58 iopl:172:- ioperm:173:-
"""
"""What changes the machine, or does the work of other calls out of the filter's sight."""
MOUNTS = """
    mount:165:40 umount2:166:39 pivot_root:155:41 chroot:161:51 move_mount:429:429 open_tree:428:428
    open_tree_attr:467:467 fsopen:430:430 fsconfig:431:431 fsmount:432:432 fspick:433:433 mount_setattr:442:442
    unshare:272:97 setns:308:268
"""
"""Other views of the file system."""
MARKS = """
    setxattr:188:5 lsetxattr:189:6 fsetxattr:190:7 setxattrat:463:463 removexattr:197:14 lremovexattr:198:15
    fremovexattr:199:16 removexattrat:466:466 file_setattr:469:469
"""
"""Attributes of files, which Landlock does not know; callers cope with a file system that has none."""
FEIGNED = """
    chmod:90:- fchmod:91:52 fchmodat:268:53 fchmodat2:452:452 chown:92:- fchown:93:55 lchown:94:- fchownat:260:54
    utime:132:- utimes:235:- futimesat:261:- utimensat:280:88
"""
"""Modes, owners and times: Landlock does not know them, and ordinary code sets them on files of its own.

They are answered as if done, and nothing is done.
"""
TRUNCATE = """
    truncate:76:45
"""
"""Landlock knows this from ABI 3 on."""
ABSENT = """
    clone3:435:435 openat2:437:437
"""
"""Calls whose arguments lie in memory, where no filter can look; the C library falls back to older ones."""
JUDGED = """
    socket:41:198 socketpair:53:199 sendto:44:206 sendmsg:46:211 sendmmsg:307:269 kill:62:129 tkill:200:130
    tgkill:234:131 rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240 prlimit64:302:261 sched_setaffinity:203:122
    sched_setparam:142:118 sched_setscheduler:144:119 sched_setattr:314:274 clone:56:220 fcntl:72:25 ioctl:16:29
    open:2:- openat:257:56
"""
"""Calls that depend on their arguments."""
OWN = """
    seccomp:317:277 landlock_create_ruleset:444:444 landlock_add_rule:445:445 landlock_restrict_self:446:446
    getpid:39:172
"""
"""What this package itself asks for."""

_ALL = (
    NETWORK, PROGRAMS, OTHERS, CHANNELS, KERNEL, MOUNTS, MARKS, FEIGNED, TRUNCATE, ABSENT, JUDGED, OWN
)  # fmt: skip
REFUSED = (NETWORK, PROGRAMS, OTHERS, CHANNELS, KERNEL, MOUNTS, MARKS)
"""Groups that are refused whatever the arguments."""


def architecture() -> str | None:
    """Return which of the two this process runs on; None if neither, or as a 32-bit process."""
    machine = platform.machine()
    known = sys.platform == "linux" and machine in AUDIT_ARCH and struct.calcsize("P") == 8
    return machine if known else None


def number_of(name: str) -> int | None:
    """Return a call's number here; None if there is no such call."""
    return _numbers(architecture()).get(name)


def numbers_of(group: str) -> list[int]:
    """Return the numbers of a group's calls here."""
    return list(_read(group, architecture()).values())


@functools.cache
def _numbers(machine: str | None) -> dict[str, int]:
    return {name: number for group in _ALL for name, number in _read(group, machine).items()}


def _read(group: str, machine: str | None) -> dict[str, int]:
    if machine is None:
        return {}
    entries = (entry.split(":") for entry in group.split())
    column = list(AUDIT_ARCH).index(machine) + 1
    return {entry[0]: int(entry[column]) for entry in entries if entry[column] != "-"}
