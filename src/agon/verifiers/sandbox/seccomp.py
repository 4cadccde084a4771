"""A filter of system calls, written by hand: what a Python program needs is allowed, all else fails with EPERM.

Not to be had: processes, other programs, sockets, namespaces, mounts, tracing, keys, shared memory, and signals to anybody else. A call
by another architecture's numbers ends the process.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable
from functools import lru_cache

from agon.verifiers.sandbox.linux import MACHINES

# name:number on x86_64:number on aarch64, "-" where there is none.
_ALWAYS = """
    read:0:63 write:1:64 readv:19:65 writev:20:66 pread64:17:67 pwrite64:18:68 preadv:295:69 pwritev:296:70
    preadv2:327:286 pwritev2:328:287 close:3:57 close_range:436:436 lseek:8:62 open:2:- openat:257:56 stat:4:- lstat:6:-
    fstat:5:80 newfstatat:262:79 statx:332:291 access:21:- faccessat:269:48 faccessat2:439:439 readlink:89:-
    readlinkat:267:78 getdents:78:- getdents64:217:61 getcwd:79:17 chdir:80:49 fchdir:81:50 statfs:137:43 fstatfs:138:44
    fadvise64:221:223 readahead:187:213 sendfile:40:71 copy_file_range:326:285 splice:275:76 tee:276:77 umask:95:166
    flock:73:32 fsync:74:82 fdatasync:75:83 ftruncate:77:46 dup:32:23 dup2:33:- dup3:292:24 pipe:22:- pipe2:293:59
    poll:7:- ppoll:271:73 select:23:- pselect6:270:72 epoll_create:213:- epoll_create1:291:20 epoll_ctl:233:21
    epoll_wait:232:- epoll_pwait:281:22 epoll_pwait2:441:441 eventfd:284:- eventfd2:290:19 timerfd_create:283:85
    timerfd_settime:286:86 timerfd_gettime:287:87 signalfd:282:- signalfd4:289:74 mmap:9:222 munmap:11:215
    mprotect:10:226 mremap:25:216 brk:12:214 madvise:28:233 msync:26:227 rt_sigaction:13:134 rt_sigprocmask:14:135
    rt_sigreturn:15:139 rt_sigpending:127:136 rt_sigsuspend:130:133 rt_sigtimedwait:128:137 sigaltstack:131:132
    pause:34:- alarm:37:- setitimer:38:103 getitimer:36:102 timer_create:222:107 timer_settime:223:110
    timer_gettime:224:108 timer_getoverrun:225:109 timer_delete:226:111 nanosleep:35:101 clock_nanosleep:230:115
    clock_gettime:228:113 clock_getres:229:114 gettimeofday:96:169 time:201:- times:100:153 exit:60:93 exit_group:231:94
    wait4:61:260 waitid:247:95 set_tid_address:218:96 set_robust_list:273:99 get_robust_list:274:100 futex:202:98
    futex_waitv:449:449 futex_wake:454:454 futex_wait:455:455 futex_requeue:456:456 rseq:334:293 membarrier:324:283
    sched_yield:24:124 sched_getaffinity:204:123 sched_getparam:143:121 sched_getscheduler:145:120
    sched_get_priority_max:146:125 sched_get_priority_min:147:126 getcpu:309:168 restart_syscall:219:128 getpid:39:172
    getppid:110:173 gettid:186:178 getuid:102:174 geteuid:107:175 getgid:104:176 getegid:108:177 getgroups:115:158
    getresuid:118:148 getresgid:120:150 getpgid:121:155 getpgrp:111:- getsid:124:156 getrusage:98:165 getrlimit:97:163
    setrlimit:160:164 uname:63:160 sysinfo:99:179 getrandom:318:278 getpriority:140:141 shutdown:48:210
    getsockname:51:204 getpeername:52:205 getsockopt:55:209 setsockopt:54:208 recvfrom:45:207
    recvmsg:47:212
"""
# Safe only where every file system that can be written to is the program's own.
_FILES = """
    creat:85:- mkdir:83:- mkdirat:258:34 rmdir:84:- unlink:87:- unlinkat:263:35 rename:82:- renameat:264:38
    renameat2:316:276 link:86:- linkat:265:37 symlink:88:- symlinkat:266:36 truncate:76:45 fallocate:285:47 chmod:90:-
    fchmod:91:52 fchmodat:268:53 utime:132:- utimes:235:- utimensat:280:88 futimesat:261:-
"""
# Passing open files over a socket that is already there.
_PASSING = "sendmsg:46:211"
_BY_ARGUMENT = """
    clone:56:220 clone3:435:435 kill:62:129 tgkill:234:131 prctl:157:167 prlimit64:302:261 fcntl:72:25 ioctl:16:29
    socketpair:53:199 sendto:44:206
"""

_ALLOW, _KILL, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_AUDIT_ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_X32_BIT = 0x4000_0000
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16

_CLONE_THREAD = 0x0001_0000
_NEW_NAMESPACES = 0x7E02_0000
_AF_UNIX, _SOCK_STREAM, _SOCK_TYPE_MASK = 1, 1, 0xF
_NAME_OF_THREAD = (15, 16)  # PR_SET_NAME, PR_GET_NAME
# Terminal size and mode, bytes waiting, close on exec, non-blocking: what Python asks of any file it opens.
_HARMLESS_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# F_SETOWN, F_SETSIG, F_SETOWN_EX, F_NOTIFY: ways to have the kernel send a signal to somebody else.
_SIGNALLING_FCNTLS = (8, 10, 15, 1026)

Instruction = tuple[int, int, int, int]


@lru_cache(maxsize=4)
def build_filter(own_pid: int, *, may_change_files: bool, may_pass_files: bool = False, machine: str = "") -> bytes:
    """Return the filter's instructions for a process that sees itself as `own_pid`."""
    machine = machine or platform.machine()
    numbers = _numbers(_BY_ARGUMENT, machine)
    blocks = {
        "clone": [
            *_argument(0),
            (_IF_ANY_BIT, 0, 2, _CLONE_THREAD),
            (_IF_ANY_BIT, 1, 0, _NEW_NAMESPACES),
            _allow(),
            _refuse(),
        ],
        "clone3": [_refuse(errno.ENOSYS)],  # its flags are out of a filter's reach; the C library falls back to clone
        "kill": _only(0, [own_pid]),
        "tgkill": _only(0, [own_pid]),
        "prctl": _only(0, _NAME_OF_THREAD),
        "prlimit64": _only(0, [0]),
        "fcntl": [*_argument(1), *_each(_SIGNALLING_FCNTLS, _refuse()), _allow()],
        "ioctl": _only(1, _HARMLESS_IOCTLS),
        "socketpair": [
            *_argument(0),
            (_IF_EQUAL, 1, 0, _AF_UNIX),
            _refuse(),
            *_argument(1),
            (_AND, 0, 0, _SOCK_TYPE_MASK),
            (_IF_EQUAL, 0, 1, _SOCK_STREAM),
            _allow(),
            _refuse(),
        ],
        # No address: a socket that is one of a pair sends to the other one only.
        "sendto": [
            *_argument(4),
            (_IF_EQUAL, 1, 0, 0),
            _refuse(),
            *_argument(4, high=True),
            (_IF_EQUAL, 0, 1, 0),
            _allow(),
            _refuse(),
        ],
    }
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_IF_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        _return(_KILL),
    ]
    program += [(_LOAD, 0, 0, _NUMBER_AT), (_IF_AT_LEAST, 0, 1, _X32_BIT), _return(_KILL)]
    for name, block in blocks.items():
        program += [(_IF_EQUAL, 0, len(block), numbers[name]), *block]
    allowed = _numbers(" ".join([_ALWAYS, _FILES * may_change_files, _PASSING * may_pass_files]), machine)
    program += [*_each(allowed.values(), _allow()), _refuse()]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _numbers(table: str, machine: str) -> dict[str, int]:
    column = 1 + MACHINES.index(machine)
    rows = [entry.split(":") for entry in table.split()]
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


def _argument(index: int, *, high: bool = False) -> list[Instruction]:
    return [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * index + (4 if high else 0))]


def _only(index: int, values: Iterable[int]) -> list[Instruction]:
    return [*_argument(index), *_each(values, _allow()), _refuse()]


def _each(values: Iterable[int], then: Instruction) -> list[Instruction]:
    return [instruction for value in values for instruction in ((_IF_EQUAL, 0, 1, value), then)]


def _allow() -> Instruction:
    return _return(_ALLOW)


def _refuse(number: int = errno.EPERM) -> Instruction:
    return _return(_ERRNO | number)


def _return(action: int) -> Instruction:
    return (_RETURN, 0, 0, action)
