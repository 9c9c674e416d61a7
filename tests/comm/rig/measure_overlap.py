"""How much of the communication goes on behind backward.

Steps of --preset char, with buckets reduced as they become ready, beside one bucket for all, which is reduced after
backward. The links are shaped so that the reduction alone takes about as long as backward. Of the reduction that part
can be hidden which a line that is never idle would have carried before backward ends, buckets being announced when
their last block is done; the communication thread's own CPU time cannot, where all cores compute.
"""

import contextlib
import dataclasses
import os
import pathlib
import statistics
import threading

from bench import all_reduces, bytes_of_node
from harness import Run, options as words_of, program
from hosts import FRAME, SEGMENT

LAYOUTS = {"2x1": (2, 1), "4x2": (4, 2)}
LAYERS, WIDTH, CONTEXT = 6, 384, 256  # --preset char
AFTER_BACKWARD = 100_000  # MiB: one bucket, complete when backward is
BACKWARD_SHARE = 2 / 3  # of a step without communication; forward takes half as long as backward
SKIPPED_STEPS = 2
CLOCK_TICKS = 100  # of /proc/PID/stat in a second


def add_options(parser):
    parser.add_argument("--layouts", default="2x1,4x2", help="hosts x ranks on each")
    parser.add_argument("--buckets", default="25", help="--bucket-mb to measure, MiB")
    parser.add_argument("--sequences", type=int, default=16, help="global batch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--inter", default="ring")


def measure(rig, report, options):
    data = report.folder / "data"
    for layout in options.layouts.split(","):
        hosts_in_use, ranks_per_host = LAYOUTS[layout]
        with rig(hosts_in_use) as hosts:
            if not data.exists():
                made = ["--out", data, "--tokens", 400_000, "--shards", 4, "--seed", 1]
                report.succeed(hosts, [program("gpt_data"), "synth", *made], placement=[0])
            job = _Job(hosts, report, options, data, ranks_per_host)
            _measure_layout(job, layout, options)


def _measure_layout(job, layout, options):
    hosts = job.hosts
    free = job.train(AFTER_BACKWARD).median
    backward = BACKWARD_SHARE * free
    rate = bytes_of_node(job.gradient_bytes, hosts.count) * FRAME / SEGMENT * 8 / backward
    hosts.shape(f"{rate / 1e6:.0f}mbit")
    alone = job.reduction()
    buckets = [float(text) for text in options.buckets.split(",")]
    together = {bucket: [] for bucket in (AFTER_BACKWARD, *buckets)}
    for _ in range(options.rounds):
        for bucket, steps in together.items():
            steps.append(job.train(bucket))
    after = _joined(together[AFTER_BACKWARD])
    for bucket in buckets:
        beside = _joined(together[bucket])
        able = alone - exposed_at_best(job.parameters, bucket, alone, backward)
        able_net = able - beside.thread_seconds * max(1, job.ranks / os.cpu_count())
        hidden = after.median - beside.median
        job.report.row(
            "overlap",
            {
                "layout": layout,
                "rate_mbit": round(rate / 1e6),
                "bucket_mb": bucket,
                "step_unshaped_ms": free * 1e3,
                "step_after_ms": after.median * 1e3,
                "step_beside_ms": beside.median * 1e3,
                "reduction_alone_ms": alone * 1e3,
                "backward_ms": backward * 1e3,
                "hideable_ms": able * 1e3,
                "thread_cpu_ms": beside.thread_seconds * 1e3,
                "hidden_ms": hidden * 1e3,
            },
        )
        case = {"layout": layout, "bucket_mb": bucket}
        job.report.bar("3 hidden / hideable", case, hidden / able_net, at_least=0.75)
        job.report.bar("3 step after backward / beside it", case, after.median / beside.median, at_least=1)


def exposed_at_best(parameters, bucket_mb, reduction, backward):
    """Seconds of the reduction that a line which is never idle, once it has something, needs after backward.
    Blocks are done one after the other, evenly; the embedding when backward ends."""
    block = 12 * WIDTH * WIDTH + 2 * WIDTH
    sizes = [block] * LAYERS
    announced = []  # (seconds, parameters)
    full = 0
    for number, size in enumerate(sizes, 1):
        full += size
        if full * 4 >= bucket_mb * 2**20 or number == len(sizes):
            announced.append((backward * number / LAYERS, full))
            full = 0
    announced.append((backward, parameters - sum(sizes)))
    now = 0
    for seconds, size in announced:
        now = max(now, seconds) + reduction * size / parameters
    return now - backward


@dataclasses.dataclass
class _Steps:
    seconds: list
    thread_seconds: float  # CPU time of the busiest rank's communication thread, a step

    @property
    def median(self):
        return statistics.median(self.seconds)


def _joined(runs):
    seconds = [value for run in runs for value in run.seconds]
    return _Steps(seconds, statistics.median(run.thread_seconds for run in runs))


class _Job:
    def __init__(self, hosts, report, options, data, ranks_per_host):
        self.hosts, self.report, self.options, self.data = hosts, report, options, data
        self.how = {"placement": "block", "ranks_per_host": ranks_per_host}
        self.ranks = hosts.count * ranks_per_host
        self.runs = 0
        self.parameters = 0

    @property
    def gradient_bytes(self):
        return self.parameters * 4

    def train(self, bucket_mb):
        options = self.options
        self.runs += 1
        out = self.report.folder / f"{self.hosts.names[0]}-{self.runs}"
        values = {
            "preset": "char",
            "data": self.data,
            "out": out,
            "steps": options.steps,
            "global_batch": options.sequences,
            "micro_batch": -(-options.sequences // self.ranks),
            "threads": 1,
            "eval_every": 0,
            "save_every": 0,
            "log_every": 0,
            "sample_tokens": 0,
            "reduction": "hierarchical",
            "inter": options.inter,
            "bucket_mb": bucket_mb,
        }
        with _thread_times(self.hosts) as busiest:
            self.report.succeed(self.hosts, [program("gpt_mpi"), *words_of(values)], **self.how)
        run = Run(out)
        self.parameters = run.events("start")[0]["parameters"]
        seconds = [event["step_seconds"] for event in run.events("step")]
        return _Steps(seconds[SKIPPED_STEPS:], busiest() / len(seconds))

    def reduction(self):
        def run(words):
            self.report.succeed(self.hosts, words, **self.how)

        how = ["--iterations", 5, "--warmup", 1]
        ways = {"what": "hierarchical", "inter": self.options.inter}
        (times,) = all_reduces(run, self.report.folder, self.gradient_bytes, how, **ways).values()
        return statistics.median(times)


@contextlib.contextmanager
def _thread_times(hosts):
    """Watches the ranks; gives a function that says the most CPU seconds that any thread but their main ones took.
    With one computing thread a rank that is the communication thread."""
    most = {}
    over = threading.Event()

    def watch():
        while not over.wait(0.2):
            for pid in hosts.processes():
                with contextlib.suppress(OSError):
                    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                        name, _, fields = (task / "stat").read_text().rpartition(")")
                        if name.endswith("(gpt_mpi") and int(task.name) != pid:
                            user, system = fields.split()[11:13]
                            most[task.name] = (int(user) + int(system)) / CLOCK_TICKS

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield lambda: max(most.values(), default=0.0)
    finally:
        over.set()
        watcher.join()
