"""Whether gpt_bench model, fitted on 2 hosts at one rate of the links, predicts steps on 4 hosts and at another rate.

The model takes the costs of messages from all-reduces on 1 and 2 hosts at the first rate, and what a step takes without
communication from the same place as the step that it predicts: here all hosts share one machine's cores. What the
threads of communication take from them is measured once, on 2 hosts at the first rate.
"""

import json
import os

from bench import all_reduces, bits_per_second, scaling
from harness import program

HOSTS, RANKS_PER_HOST = 4, 2
SIZES = "1M,4M,8M,32M"


def add_options(parser):
    parser.add_argument("--rates", default="1gbit,400mbit", help="the first is fitted")
    parser.add_argument("--micro-batch", type=int, default=1, help="sequences of a rank; --preset char")
    parser.add_argument("--bucket-mb", default="4")
    parser.add_argument("--steps", type=int, default=3, help="of each kind in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inter", default="ring")


def measure(rig, report, options):
    rates = options.rates.split(",")
    two = 2 * RANKS_PER_HOST
    thread = None  # processor seconds of a rank's communication in a step, on 2 hosts at the first rate
    with rig(HOSTS) as hosts:
        hosts.shape(rates[0])
        fitted = [_sums(hosts, report, options, nodes) for nodes in (1, 2)]
        for rate in rates:
            hosts.shape(rate)
            file = report.folder / f"scaling-{rate}.json"

            def run(words):
                report.succeed(hosts, words, ranks_per_host=RANKS_PER_HOST)

            words = ["--inter", options.inter, "--bucket-mb", options.bucket_mb]
            words += ["--steps", options.steps, "--rounds", options.rounds]
            points = scaling(run, report.folder, [two, HOSTS * RANKS_PER_HOST], options.micro_batch, words, file)
            thread = thread or points[0]["thread_cpu_s"]
            for nodes in (2, HOSTS):
                # All hosts are this machine: the threads of all ranks on a core take from each of them.
                lost = thread * max(1.0, nodes * RANKS_PER_HOST / os.cpu_count())
                row = _predict(hosts, report, options, fitted, rates[0], rate, file, nodes, lost)
                case = {"hosts": row["nodes"], "rate": rate}
                predicted, measured = row["step_s"], row["measured_step_s"]
                report.row("model", case | {"predicted_ms": predicted * 1e3, "measured_ms": measured * 1e3})
                error = abs(predicted / measured - 1)
                report.bar("error of the predicted step", case, error, at_most=0.15)


def _sums(hosts, report, options, nodes):
    """The file of all-reduces on so many hosts."""
    placement = [number for number in range(nodes) for _ in range(RANKS_PER_HOST)]
    file = report.folder / f"sums-{nodes}.json"

    def run(words):
        report.succeed(hosts, words, placement=placement)

    how = ["--iterations", 2 * options.rounds]
    all_reduces(run, report.folder, SIZES, how, what="hierarchical", inter=options.inter, file=file)
    return file


def _predict(hosts, report, options, fitted, fit_rate, rate, file, nodes, lost):
    """The model's row for so many hosts, whose cores lose so many seconds to communication."""
    out = report.folder / "model.json"
    words = [program("gpt_bench"), "model", "--nodes", nodes, "--ranks-per-node", RANKS_PER_HOST]
    words += ["--thread-ms", lost * 1e3]
    words += ["--fit", *fitted, "--fit-gbps", bits_per_second(fit_rate) / 1e9]
    words += ["--inter-gbps", bits_per_second(rate) / 1e9, "--step-from", file, "--inter", options.inter]
    words += ["--bucket-mb", options.bucket_mb, "--json", out]
    report.succeed(hosts, words, placement=[0])
    return json.loads(out.read_text(encoding="utf-8"))["predictions"][0]
