#include "train/ledger_audit.hpp"

#include "base/error.hpp"
#include "data/lanes.hpp"
#include "train/checkpoint.hpp"
#include "train/ledger_history.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace gpt {
namespace {

/// The newest stretch, or the newest of a branch.
size_t choose_end(const LedgerIndex& index, const std::string& run_folder, std::optional<int64_t> branch) {
  for (size_t i = index.stretches.size(); i-- > 0;)
    if (!branch || index.stretches[i].stretch.branch == *branch) return i;
  validate(!branch, "{} has no records of branch {}", run_folder, branch.value_or(0));
  throw Error(
      fmt::format("{} has no record that can be read:\n  {}", run_folder, fmt::join(index.damage, "\n  ")),
      ExitCode::damaged);
}

/// The audit of one history.
class Audit {
public:
  Audit(const LedgerIndex& index, const LedgerHistory& history)
      : index_(index),
        history_(history),
        newest_(index.stretches[history.parts.back().stretch].stretch),
        book_(newest_.lanes, newest_.windows_per_lane, newest_.skipped) {
    for (const HistoryPart& part : history.parts) last_step_[part.stretch] = part.last_step;
    for (const RecordedStretch& recorded : index.stretches) {
      const LedgerStretch& s = recorded.stretch;
      orders_.emplace_back(s.lanes, s.windows_per_lane, 0, s.skipped);
    }
    for (const Range& range : newest_.skipped)
      report_.skipped.push_back({.places = range, .steps = {}, .windows = 0});
  }

  LedgerReport run(const std::string& run_folder) {
    report_.newest = newest_;
    report_.stretches = std::ssize(index_.stretches);
    report_.last_step = history_.parts.back().last_step;
    report_.unknown_steps = history_.unknown_steps;
    report_.elsewhere = history_.elsewhere;
    report_.damage = index_.damage;
    // Which windows a place passes over is known from reads that do not count.
    read_ledger(index_, [&](size_t stretch, const StepReads& reads) {
      if (!counts(stretch, reads.step)) drop(stretch, reads);
    });
    read_ledger(index_, [&](size_t stretch, const StepReads& reads) {
      if (counts(stretch, reads.step)) add(stretch, reads);
    });
    if (history_.unknown_steps > 0 && !history_.elsewhere)
      report_.missing.add([&] {
        return fmt::format("all of steps 1 to {}: the start that took them has no records here",
                           history_.unknown_steps);
      });
    report_.epochs = book_.epochs(places());
    find_missing();
    find_lost();
    compare_checkpoints(run_folder);
    return std::move(report_);
  }

private:
  const LedgerStretch& stretch_at(size_t index) const { return index_.stretches[index].stretch; }

  bool counts(size_t stretch, int64_t step) const {
    const auto found = last_step_.find(stretch);
    return found != last_step_.end() && step > stretch_at(stretch).step && step <= found->second;
  }

  /// Gives each read of a step with its place; those that cannot be are reported.
  template <class Take>
  void place(size_t stretch, const StepReads& reads, Take take) {
    const LedgerStretch& s = stretch_at(stretch);
    const int64_t per_lane = s.windows_per_step();
    const auto wrong = [&](const std::string& what) {
      report_.misplaced.add([&] { return fmt::format("step {}: {}", reads.step, what); });
    };
    if (reads.step <= s.step || reads.cursor != s.cursor_after(reads.step - 1) ||
        reads.first_sequence + std::ssize(reads.reads) > s.global_batch)
      return wrong(fmt::format("sequences {} to {} at cursor {} are none of that step's",
                               reads.first_sequence, reads.first_sequence + std::ssize(reads.reads) - 1,
                               reads.cursor));
    for (int64_t i = 0; i < std::ssize(reads.reads); ++i) {
      const WindowRead& read = reads.reads[static_cast<size_t>(i)];
      const int64_t sequence = reads.first_sequence + i, lane = sequence / per_lane;
      if (read.shard != lane || read.token % s.context != 0 || read.token / s.context >= s.windows_per_lane) {
        wrong(fmt::format(
            "sequence {} was read from token {} of shard {}, where shard {} has no window to give", sequence,
            read.token, read.shard, lane));
        continue;
      }
      take(PlacedWindow{.lane = lane,
                        .place = orders_[stretch].place_of(reads.cursor + sequence % per_lane),
                        .window = read.token / s.context});
    }
  }

  /// A step that does not count.
  void drop(size_t stretch, const StepReads& reads) {
    report_.dropped_windows += std::ssize(reads.reads);
    const LedgerStretch& s = stretch_at(stretch);
    // Another run in the same folder has another order.
    if (s.run_id != newest_.run_id || s.lanes != newest_.lanes ||
        s.windows_per_lane != newest_.windows_per_lane)
      return;
    place(stretch, reads, [&](const PlacedWindow& read) {
      for (SkippedRange& range : report_.skipped) {
        if (read.place < range.places.begin || read.place >= range.places.end) continue;
        if (!book_.is_passed_over(read.lane, read.window, read.place / newest_.windows_per_lane)) {
          book_.pass_over(read);
          ++range.windows;
        }
        const auto at = std::ranges::lower_bound(range.steps, reads.step);
        if (at == range.steps.end() || *at != reads.step) range.steps.insert(at, reads.step);
      }
    });
  }

  void add(size_t stretch, const StepReads& reads) {
    place(stretch, reads, [&](const PlacedWindow& read) {
      const int64_t epoch = read.place / newest_.windows_per_lane;
      const auto say = [&](std::string_view what) {
        return fmt::format("window {} of shard {} in epoch {}, by step {}{}", read.window, read.lane, epoch,
                           reads.step, what);
      };
      switch (book_.add(read)) {
        case EpochBook::Verdict::first:
          break;
        case EpochBook::Verdict::again:
          report_.doubled.add([&] { return say(""); });
          break;
        case EpochBook::Verdict::passed_over:
          report_.doubled.add([&] { return say(", though it is to be passed over"); });
          break;
      }
    });
  }

  /// Places of each lane's order that were to be read, or passed over, in steps that this folder knows.
  Range places() const {
    const HistoryPart& first = history_.parts.front();
    const HistoryPart& last = history_.parts.back();
    const int64_t begin = stretch_at(first.stretch).cursor;
    const int64_t end = newest_.cursor_after(last.last_step);
    if (end == begin) return {};
    return {begin == 0 ? 0 : orders_[last.stretch].place_of(begin),
            orders_[last.stretch].place_of(end - 1) + 1};
  }

  /// Sequences of steps that count and have no record.
  void find_missing() {
    int64_t expected = 0, found = 0;
    for (const EpochBook::Epoch& epoch : report_.epochs) {
      expected += epoch.expected;
      found += epoch.places;
    }
    if (expected == found) return;
    for (const HistoryPart& part : history_.parts) {
      const LedgerStretch& s = stretch_at(part.stretch);
      for (int64_t step = s.step + 1; step <= part.last_step; ++step) find_missing(part.stretch, step);
    }
  }

  void find_missing(size_t stretch, int64_t step) {
    const LedgerStretch& s = stretch_at(stretch);
    const int64_t per_lane = s.windows_per_step();
    for (int64_t sequence = 0; sequence < s.global_batch; ++sequence) {
      const int64_t cursor = s.cursor_after(step - 1) + sequence % per_lane;
      if (!book_.has_place(sequence / per_lane, orders_[stretch].place_of(cursor)))
        report_.missing.add([&] { return fmt::format("step {}, sequence {}", step, sequence); });
    }
  }

  /// Windows of whole epochs. In an epoch in which others were passed over, which ones these were is known
  /// as far as their reads are recorded.
  void find_lost() {
    for (const EpochBook::Epoch& epoch : report_.epochs) {
      if (!epoch.complete || epoch.read >= epoch.expected) continue;
      int64_t rest = epoch.expected - epoch.read;
      for (int64_t lane = 0; lane < newest_.lanes && rest > 0; ++lane)
        for (int64_t window = 0; window < newest_.windows_per_lane && rest > 0; ++window) {
          if (book_.has_window(lane, window, epoch.number) ||
              book_.is_passed_over(lane, window, epoch.number))
            continue;
          --rest;
          report_.lost.add(
              [&] { return fmt::format("window {} of shard {} in epoch {}", window, lane, epoch.number); });
        }
    }
  }

  /// What a committed checkpoint says must follow from the records.
  void compare_checkpoints(const std::string& run_folder) {
    for (const CheckpointFile& file : list_checkpoints(run_folder + "/checkpoints").valid) {
      if (file.run_id != newest_.run_id) continue;
      if (const std::string fault = contradiction(file); !fault.empty())
        report_.unrecorded.add([&] { return fmt::format("{}: {}", file.path, fault); });
    }
  }

  std::string contradiction(const CheckpointFile& file) const {
    for (size_t i = history_.parts.size(); i-- > 0;) {
      const HistoryPart& part = history_.parts[i];
      const LedgerStretch& s = stretch_at(part.stretch);
      if (s.branch != file.branch || s.step > file.step) continue;
      if (file.step > part.last_step) {
        // Behind the end of the history there is something; behind another part it was left.
        const bool newest = i + 1 == history_.parts.size();
        return newest ? fmt::format("step {} of branch {} was saved, the records end at step {}", file.step,
                                    file.branch, part.last_step)
                      : std::string();
      }
      CheckpointHeader header;
      try {
        header = read_checkpoint_header(file.path);
      } catch (const Error&) {
        return {};  // a damaged checkpoint says nothing about the records
      }
      const int64_t cursor = s.cursor_after(file.step);
      return header.cursor == cursor ? std::string()
                                     : fmt::format(
                                           "{} windows a shard were consumed by step {}, by the "
                                           "records {}",
                                           header.cursor, file.step, cursor);
    }
    return {};
  }

  const LedgerIndex& index_;
  const LedgerHistory& history_;
  const LedgerStretch& newest_;
  EpochBook book_;
  std::map<size_t, int64_t> last_step_;  // that counts, of the history's stretches
  std::vector<Lanes> orders_;            // of each stretch, asked for places only
  LedgerReport report_;
};

}  // namespace

LedgerReport audit_ledger(const std::string& run_folder, std::optional<int64_t> branch) {
  const LedgerIndex index = index_ledger(run_folder);
  const LedgerHistory history = trace_history(index.stretches, choose_end(index, run_folder, branch));
  return Audit(index, history).run(run_folder);
}

}  // namespace gpt
