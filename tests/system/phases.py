"""What a training job was doing at a moment: by what its files show while its ranks stand still."""

import contextlib
import json
import os
import pathlib
import signal
import time

COMMIT_RECORD = 4096  # bytes, at the end of a checkpoint


def events_of(folder):
    """The whole lines of a log: a kill may have torn the last one."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / "log.jsonl").read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return [event for event in found if isinstance(event, dict)]


def send(processes, number):
    """A signal to those that are still there."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def stands_still(process):
    """Stopped, or gone."""
    try:
        status = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] in "TZX"


def freeze(processes):
    """Stops them, so that nothing moves while one looks."""
    send(processes, signal.SIGSTOP)
    deadline = time.monotonic() + 5
    while not all(map(stands_still, processes)) and time.monotonic() < deadline:
        time.sleep(0.001)


class Start:
    """One start of a job in a run folder; made before it, since what the folder holds then is none of its doing.

    From outside, sums over the ranks and the copy of the state are parts of `step`, loading and evaluating a checkpoint's
    list are parts of `start`, and `retention` is all that comes between a checkpoint's final name and the step at which the
    run hears of it: reading back, deleting older ones.
    """

    def __init__(self, out, eval_every):
        self.folder = pathlib.Path(out)
        self.eval_every = eval_every
        self.attempt = max((event.get("attempt", 0) for event in events_of(self.folder)), default=0) + 1
        self.old = set(self._files())

    def _files(self):
        """(name, inode) of what is in the folder of checkpoints."""
        with contextlib.suppress(FileNotFoundError):
            return [(entry.name, entry.inode()) for entry in os.scandir(self.folder / "checkpoints")]
        return []

    def _has_record(self, name):
        with open(self.folder / "checkpoints" / name, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - COMMIT_RECORD))
            return file.read(8) == b"GPTMPICK"

    def phase(self):
        """start, step, evaluation, write, commit, retention or end."""
        events = [event for event in events_of(self.folder) if event.get("attempt") == self.attempt]
        if not events:
            return "start"
        new = [name for name, inode in self._files() if (name, inode) not in self.old]
        partial = [name for name in new if name.endswith(".h5.partial")]
        if partial:
            return "commit" if self._has_record(partial[0]) else "write"
        told = {event["step"] for event in events if event["event"] in ("save", "save_failed")}
        if any(name.endswith(".h5") and int(name[5:13]) not in told for name in new):
            return "retention"
        if events[-1]["event"] == "end":
            return "end"
        steps = [event["step"] for event in events if event["event"] == "step"]
        evaluated = {event["step"] for event in events if event["event"] == "eval"}
        if steps and steps[-1] % self.eval_every == 0 and steps[-1] not in evaluated:
            return "evaluation"
        return "step"
