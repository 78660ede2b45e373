"""The attacks, as programs: `python3 attacks.py NAME`, with what they aim at as JSON in the environment variable AIM.

An attack that returns has worked, one that raises or dies was stopped, one that lacks a module is broken; each says so
in its last line. Each is bounded by itself: at most 160 processes, 200 MiB of memory, 64 MiB of disk, and nothing is
changed that isn't its own. It runs outside of the project, so it imports the standard library alone.
"""

import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

AIM = json.loads(os.environ.get("AIM", "{}"))
MANY = 160
"""Processes or threads: more than a run may have here."""
MIB = 1 << 20
MEMORY = 160 * MIB
"""More than a run asks for here."""
CLONE_NEWUSER = 0x10000000
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def read(path):
    with open(path, "rb") as file:
        assert file.read(1)


# the host


def signal_a_keeper():
    os.kill(AIM["keeper"], 0)


def signal_the_holder():
    os.kill(AIM["holder"], 0)


def signal_the_agent():
    os.kill(AIM["agent"], 0)


def read_the_agents_environment():
    read(f"/proc/{AIM['agent']}/environ")


def read_the_agents_memory():
    with open(f"/proc/{AIM['agent']}/mem", "rb"):
        pass


def read_the_token():
    read(AIM["token"])


def read_a_record():
    read(f"{AIM['record']}/order.json")


def write_an_end_into_a_record():
    with open(f"{AIM['record']}/exit.json.tmp", "w", encoding="ascii") as file:
        file.write("{}")
    os.unlink(file.name)


def put_a_link_into_a_record():
    os.symlink("/etc/passwd", f"{AIM['record']}/health")
    os.unlink(f"{AIM['record']}/health")


def talk_to_a_keeper():
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        os.chdir(os.path.dirname(AIM["socket"]))
        peer.connect(os.path.basename(AIM["socket"]))


def mount_a_file_system():
    os.mkdir("mounted")
    check(libc.mount(b"none", b"mounted", b"tmpfs", 0, b"size=1m"))
    check(libc.umount2(b"mounted", 2))


def open_core_pattern():
    with open("/proc/sys/kernel/core_pattern", "r+", encoding="ascii"):
        pass


def take_a_higher_priority():
    os.nice(-1)


def leave_the_control_group():
    with open("/proc/self/cgroup", encoding="ascii") as file:
        if "paceline-" not in file.read():
            return
    for place in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
        if os.path.exists(f"{place}/cgroup.procs"):
            with open(f"{place}/cgroup.procs", "w", encoding="ascii") as file:
                file.write("0")
            return
    raise OSError(errno.ENOENT, "no control groups are seen")


# the kernel


def make_a_user_namespace():
    check(libc.unshare(CLONE_NEWUSER))


def gain_rights_by_a_setuid_program():
    with open("/proc/self/status", encoding="ascii") as file:
        assert "NoNewPrivs:\t0" in file.read()


def listen_to_the_network_raw():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()


# resources


def be_very_many_processes():
    children = []
    try:
        for _ in range(MANY):
            pid = os.fork()
            if not pid:
                signal.pause()
                os._exit(0)
            children.append(pid)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def be_very_many_threads():
    over = threading.Event()
    threads = []
    threading.stack_size(64 * 1024)
    try:
        for _ in range(MANY):
            thread = threading.Thread(target=over.wait)
            thread.start()
            threads.append(thread)
    finally:
        over.set()


def take_memory():
    bytearray(MEMORY)


def take_memory_by_a_child():
    if subprocess.run([sys.executable, __file__, "take_memory"], check=False).returncode:
        raise MemoryError


def take_shared_memory():
    path = f"/dev/shm/attack-{os.getpid()}"
    try:
        with open(path, "wb") as file:
            for _ in range(MEMORY // MIB):
                file.write(bytes(MIB))
    finally:
        os.unlink(path)


def take_all_cores():
    began, until_s = time.process_time(), time.monotonic() + 2.0
    while time.monotonic() < until_s:
        pass
    assert time.process_time() - began > 0.25


def fill_the_disk():
    with open("big", "wb") as file:
        for _ in range(32):
            file.write(bytes(MIB))
    time.sleep(60)


def make_very_many_files():
    for number in range(2200):
        open(f"file-{number}", "wb").close()
    time.sleep(60)


def fill_the_disk_elsewhere():
    path = f"/tmp/attack-{os.getpid()}"
    try:
        with open(path, "wb") as file:
            for _ in range(64):
                file.write(bytes(MIB))
                file.flush()
    finally:
        os.unlink(path)


def fill_the_disk_with_a_file_that_is_removed():
    with open("big", "wb") as file:
        os.unlink("big")
        for _ in range(32):
            file.write(bytes(MIB))
        time.sleep(3)


def open_very_many_files():
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(2000)]
    assert files


def flood_the_output():
    for _ in range(64):
        os.write(1, b"x" * MIB)


# neighbours


def signal_a_neighbour():
    os.kill(AIM["neighbour"], 0)


def trace_a_neighbour():
    check(libc.ptrace(PTRACE_ATTACH, AIM["neighbour"], 0, 0))
    os.waitpid(AIM["neighbour"], 0x40000000)
    check(libc.ptrace(PTRACE_DETACH, AIM["neighbour"], 0, 0))


def read_a_neighbours_environment():
    read(f"/proc/{AIM['neighbour']}/environ")


def read_a_neighbours_files():
    read(f"{AIM['neighbours_work']}/secret")


def read_a_neighbours_files_by_its_process():
    read(f"/proc/{AIM['neighbour']}/cwd/secret")


def write_a_neighbours_files():
    with open(f"{AIM['neighbours_work']}/secret", "a", encoding="ascii"):
        pass


def see_a_neighbours_command():
    read(f"/proc/{AIM['neighbour']}/cmdline")


def see_which_neighbours_work():
    os.listdir(os.path.dirname(AIM["neighbours_work"]))


def reach_a_port_of_the_host():
    socket.create_connection(("127.0.0.1", AIM["port"]), timeout=2).close()


def take_a_neighbours_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", AIM["free_port"]))


# ends: each prints the pids that have to be gone, and is told to stop


def ready(*pids):
    say(*pids)
    while True:
        time.sleep(60)


def fork(child):
    pid = os.fork()
    if not pid:
        with suppress(BaseException):
            child()
        os._exit(0)
    return pid


def ignore_signals():
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)
    ready(os.getpid())


def stop_itself():
    say(os.getpid())
    os.kill(os.getpid(), signal.SIGSTOP)


def wait_in_vfork():
    os.mkfifo("pipe")
    say(os.getpid())
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "pipe", os.O_RDONLY, 0)])


def leave_zombies():
    pids = [fork(lambda: None) for _ in range(50)]
    ready(os.getpid(), *pids)


def _escape(environment):
    pipe, end = os.pipe()
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.write(end, str(os.getpid()).encode())
            for each in (1, 2, pipe, end):
                os.close(each)
            os.execve("/bin/sleep", ["sleep", "600"], environment)
        os._exit(0)
    os.wait()
    ready(os.getpid(), int(os.read(pipe, 20)))


def fork_twice():
    _escape(dict(os.environ))


def fork_twice_and_hide():
    _escape({})


def hold_the_output_open():
    pid = fork(lambda: (os.setsid(), time.sleep(600)))
    ready(os.getpid(), pid)


def fork_while_it_is_killed():
    def run(generation):
        while generation < 3000:
            if os.fork():
                os._exit(0)
            generation += 1
            time.sleep(0.01)

    pid = fork(lambda: run(0))
    ready(os.getpid(), pid)


def nest_folders_and_links():
    os.symlink("/", "root")
    os.symlink(os.path.dirname(AIM["token"]), "link")
    for _ in range(600):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    os.chmod(".", 0)
    ready(os.getpid())


def main():
    try:
        globals()[sys.argv[1]]()
    except (ImportError, LookupError) as error:
        say(f"broken: {type(error).__name__}: {error}")
        os._exit(2)
    except BaseException as error:
        say(f"stopped: {type(error).__name__}: {error}")
        os._exit(1)
    say("worked")
    os._exit(0)


if __name__ == "__main__":
    main()
