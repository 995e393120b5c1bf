"""Processes of this machine, by more than their ids."""

from pathlib import Path


def born(pid: int) -> str:
    """Returns when a process started, empty when there is none: a pid may have a new user.

    It is field 22 of /proc/PID/stat (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html).
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]
    except OSError:
        return ""
