"""Time of all-reduces against the line's limit and against the library's."""

import statistics

from bench import all_reduces, line_seconds

FORCED_RING = {"coll_tuned_use_dynamic_rules": 1, "coll_tuned_allreduce_algorithm": 4}
HOSTS, RANKS_PER_HOST = 4, 2
OURS = ("hierarchical/ring/fp32", "hierarchical/halving/fp32")
OURS_BF16 = "hierarchical/direct/fp32,bf16"


def add_options(parser):
    parser.add_argument("--mib", default="32,128", help="sizes of the message")
    parser.add_argument("--rates", default="1gbit,200mbit")
    parser.add_argument("--placements", default="block,cyclic")
    parser.add_argument("--rounds", type=int, default=2, help="of one job with each kind of MPI")
    parser.add_argument("--iterations", type=int, default=2, help="in each job, after one that is not counted")
    parser.add_argument("--block", default="0", help="bytes of a lane that go through the hops at a time: gpt_bench's")
    parser.add_argument("--window", type=int, help="blocks under way at a time; none: gpt_bench's")


def measure(rig, report, options):
    with rig(HOSTS) as hosts:
        for rate in options.rates.split(","):
            hosts.shape(rate)
            for mib in map(int, options.mib.split(",")):
                for placement in options.placements.split(","):
                    case = {"rate": rate, "mib": mib, "placement": placement}
                    medians = _medians(hosts, report, options, mib, placement)
                    _judge(report, case, medians, line_seconds(mib << 20, HOSTS, rate))


def _medians(hosts, report, options, mib, placement):
    samples = {}
    how = ["--iterations", options.iterations, "--warmup", 1, "--block", options.block]
    if options.window is not None:
        how += ["--window", options.window]
    jobs = [
        ({}, {"what": "mpi,hierarchical", "inter": "ring,halving"}, {}),
        ({}, {"what": "hierarchical", "wire": "fp32,bf16"}, {}),
        (FORCED_RING, {"what": "mpi"}, {"mpi": "mpi, forced ring"}),
    ]
    for _ in range(options.rounds):
        for mca, ways, names in jobs:

            def run(words, mca=mca):
                report.succeed(hosts, words, placement=placement, ranks_per_host=RANKS_PER_HOST, mca=mca)

            for name, times in all_reduces(run, report.folder, f"{mib}M", how, **ways).items():
                samples.setdefault(names.get(name, name), []).extend(times)
    return {name: statistics.median(times) for name, times in samples.items()}


def _judge(report, case, medians, line):
    for name, seconds in medians.items():
        limit = line / 2 if name.endswith("bf16") else line
        figures = {"way": name, "ms": seconds * 1e3, "line_ms": limit * 1e3, "of_line": limit / seconds}
        report.row("times", case | figures)
    ours = min(medians[name] for name in OURS)  # --inter auto takes the faster
    default, ring = medians["mpi"], medians["mpi, forced ring"]
    report.bar("time / line", case, ours / line, at_most=1.08)
    report.bar("best MPI_Allreduce / ours", case, min(default, ring) / ours, at_least=1)
    needed = 2 if case["placement"] == "cyclic" else 1.25
    report.bar("default MPI_Allreduce / ours", case, default / ours, at_least=needed)
    report.bar("fp32 / bf16 between hosts", case, ours / medians[OURS_BF16], at_least=1.7)
