#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/list_some.hpp"
#include "ckpt/commands.hpp"
#include "standard_output.hpp"
#include "train/ledger_audit.hpp"
#include "train/ledger_losses.hpp"

#include <boost/program_options.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gpt {
namespace {

using Epoch = EpochBook::Epoch;

std::string plural(int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string describe(const Epoch& epoch) {
  std::string text =
      fmt::format("{} of {}{}", epoch.read, plural(epoch.windows, "window"), epoch.complete ? "" : " so far");
  text += epoch.exact()
              ? ", each read once"
              : fmt::format(", where {} were to be read, from {} records", epoch.expected, epoch.places);
  if (epoch.skipped > 0) text += fmt::format("; {} passed over", epoch.skipped);
  return text;
}

/// Epochs of which the same is to be said are one line.
void print_epochs(const std::vector<Epoch>& epochs) {
  for (size_t first = 0, end = 0; first < epochs.size(); first = end) {
    const std::string text = describe(epochs[first]);
    for (end = first + 1; end < epochs.size() && describe(epochs[end]) == text;) ++end;
    if (end == first + 1)
      print("  epoch {}: {}\n", epochs[first].number, text);
    else
      print("  epochs {} to {}, each: {}\n", epochs[first].number, epochs[end - 1].number, text);
  }
}

void print_skipped(const std::vector<SkippedRange>& ranges) {
  for (const SkippedRange& range : ranges) {
    print("  passed over: places {} to {} of each shard's order", range.places.begin, range.places.end - 1);
    if (range.steps.empty())
      print("; no record names their windows\n");
    else
      print(": {}, read for step{} {} and counted out\n", plural(range.windows, "window"),
            range.steps.size() == 1 ? "" : "s", list_some(range.steps));
  }
}

/// @param dropped  windows whose reads for steps that do not count are recorded
void print_losses(const RunLosses& losses, int64_t dropped) {
  int64_t steps = 0;
  double seconds = 0.0;
  for (const LostSteps& lost : losses.lost) {
    steps += lost.steps;
    seconds += lost.seconds;
    print("  lost: {} of attempt {}, {:.3f} s: {}\n", plural(lost.steps, "step"), lost.attempt, lost.seconds,
          lost.rolled_back ? "rolled back" : "behind the checkpoint from which a later start went on");
  }
  print("  {} took {:.3f} s, in {}; {} more, {:.3f} s, do not count ({} for such steps are recorded)\n",
        plural(losses.steps, "step"), losses.seconds, plural(losses.starts, "start"), steps, seconds,
        plural(dropped, "read"));
  if (!losses.left_out.empty())
    print("  left out (--on-bad-step skip), their windows count as read: step{} {}\n",
          losses.left_out.size() == 1 ? "" : "s", list_some(losses.left_out));
}

void print_report(const std::string& run, const LedgerReport& report) {
  const LedgerStretch& newest = report.newest;
  print("{}: run {}, branch {}, to step {}; {} of {}\n", run, to_hex(newest.run_id), newest.branch,
        report.last_step, plural(newest.lanes, "shard"), plural(newest.windows_per_lane, "window"));
  if (report.unknown_steps > 0)
    print("  steps 1 to {} are not in these records{}\n", report.unknown_steps,
          report.elsewhere ? ": a run in another folder took them" : "");
  print_epochs(report.epochs);
  print_skipped(report.skipped);
  print_losses(read_losses(run + "/log.jsonl"), report.dropped_windows);
  for (const std::string& damage : report.damage) print("  note: {}\n", damage);
}

/// Empty if there is nothing to say.
std::string describe(const LedgerFault& fault, const char* what) {
  if (fault.count == 0) return {};
  const int64_t unnamed = fault.count - std::ssize(fault.named);
  return fmt::format("\n  {} {}: {}{}", fault.count, what, fmt::join(fault.named, "; "),
                     unnamed == 0 ? "" : fmt::format("; and {} more", unnamed));
}

std::string describe_faults(const LedgerReport& report) {
  return describe(report.missing, "read without a record") + describe(report.doubled, "read again") +
         describe(report.lost, "read by nobody") + describe(report.misplaced, "read from a wrong place") +
         describe(report.unrecorded, "saved, but not recorded");
}

}  // namespace

ExitCode audit_run(const Arguments& arguments) {
  std::string run;
  std::optional<int64_t> branch;
  CommandLine line(
      "gpt_ckpt ledger RUN: was each window of the data read once in each epoch?\n"
      "From what every rank recorded when it read. Exit code 11 if one was lost, or read again.",
      "run");
  line.group("Options")("run", required(run, "RUN"), "a run folder")(
      "branch", boost::program_options::value<int64_t>()->value_name("N")->notifier([&](int64_t given) {
        branch = given;
      }),
      "how that branch came to its end (default: the newest)");
  if (!parse(line, arguments)) return ExitCode::finished;
  const LedgerReport report = audit_ledger(run, branch);
  print_report(run, report);
  check_output();
  validate(report.exact(), ExitCode::damaged, "the ledger of {} is not exact:{}", run,
           describe_faults(report));
  print("exact: in each epoch each window was read once, or is passed over\n");
  return ExitCode::finished;
}

}  // namespace gpt
