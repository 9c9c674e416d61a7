"""How much of the communication goes on behind backward.

gpt_bench scaling takes steps of --preset char with buckets reduced as they become complete, with all reduced after
backward, and with nothing reduced. The links are shaped so that the reduction takes about as long as backward.
"""

import os

from bench import bits_per_second, line_seconds, scaling

LAYOUTS = {"2x1": (2, 1), "4x2": (4, 2)}
# Of what can be hidden, by layout and --bucket-mb: with the default buckets. Larger ones begin too late.
HIDDEN = {("2x1", 4.0): 0.75, ("4x2", 4.0): 0.75}
BACKWARD_SHARE = 2 / 3  # of forward and backward together


def add_options(parser):
    parser.add_argument("--layouts", default="2x1,4x2", help="hosts x ranks on each")
    parser.add_argument("--micro-batch", type=int, default=4, help="sequences of a rank")
    parser.add_argument("--buckets", default="4", help="--bucket-mb to measure")
    parser.add_argument("--steps", type=int, default=3, help="of each kind in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inter", default="ring")


def measure(rig, report, options):
    for layout in options.layouts.split(","):
        hosts_in_use, ranks_per_host = LAYOUTS[layout]
        with rig(hosts_in_use) as hosts:
            ranks = hosts_in_use * ranks_per_host

            def run(words, hosts=hosts, ranks_per_host=ranks_per_host):
                report.succeed(hosts, words, ranks_per_host=ranks_per_host)

            def point(bucket, steps, rounds, run=run, ranks=ranks):
                words = ["--inter", options.inter, "--bucket-mb", bucket, "--steps", steps, "--rounds", rounds]
                (only,) = scaling(run, report.folder, [ranks], options.micro_batch, words)
                return only

            free = point(options.buckets.partition(",")[0], 2, 2)
            backward = BACKWARD_SHARE * free["backward_end_s"]
            gradients = sum(free["section_bytes"])
            rate = f"{line_seconds(gradients, hosts_in_use, '1gbit') / backward * 1000:.0f}mbit"
            hosts.shape(rate)
            for bucket in options.buckets.split(","):
                _judge(report, layout, rate, bucket, point(bucket, options.steps, options.rounds))


def _judge(report, layout, rate, bucket, point):
    communication, exposed = point["communication_s"], point["exposed_s"]
    hosts_in_use, ranks_per_host = LAYOUTS[layout]
    # All hosts are this machine: what the threads of communication compute is taken from every rank on the core.
    sharing = max(1.0, hosts_in_use * ranks_per_host / os.cpu_count())
    hideable = point["hideable_s"] - (sharing - 1) * point["thread_cpu_s"]
    # The second limit counts that a line cannot carry what is not announced yet.
    by_line = communication - point["least_exposed_s"] - point["thread_cpu_s"]
    report.row(
        "overlap",
        {
            "layout": layout,
            "rate_mbit": bits_per_second(rate) / 1e6,
            "bucket_mb": float(bucket),
            "without_ms": point["without_communication_s"] * 1e3,
            "after_ms": point["after_backward_s"] * 1e3,
            "overlapped_ms": point["step_s"] * 1e3,
            "communication_ms": communication * 1e3,
            "backward_ms": BACKWARD_SHARE * point["backward_end_s"] * 1e3,
            "thread_cpu_ms": point["thread_cpu_s"] * 1e3,
            "ranks_on_a_core": sharing,
            "hideable_ms": hideable * 1e3,
            "hideable_but_for_own_thread_ms": point["hideable_s"] * 1e3,
            "hideable_by_a_line_ms": by_line * 1e3,
            "hidden_ms": (communication - exposed) * 1e3,
        },
    )
    case = {"layout": layout, "bucket_mb": bucket}
    if (layout, float(bucket)) in HIDDEN:
        hidden = (communication - exposed) / hideable
        report.bar("hidden / hideable", case, hidden, at_least=HIDDEN[layout, float(bucket)])
    report.bar("step after backward / overlapped", case, point["after_backward_s"] / point["step_s"], at_least=1)
