#include "train/ledger_history.hpp"

#include "base/error.hpp"
#include "train/ledger_file.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace gpt {
namespace {

/// Adds the file to the errors that decoding throws.
template <class Work>
void naming(const std::string& file, Work work) {
  try {
    work();
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", file, error.what()), error.code());
  }
}

void index_file(const std::string& file, LedgerIndex& index) {
  std::map<int64_t, size_t> by_number;
  int64_t nameless = 0;
  const std::vector<Range> others = read_groups(file, [&](const LedgerGroup& group) {
    naming(file, [&] {
      if (group.kind == LedgerGroup::Kind::stretch) {
        const LedgerStretch stretch = stretch_from_text(group.payload);
        by_number[group.stretch] = index.stretches.size();
        index.stretches.push_back(
            {.stretch = stretch, .file = file, .number = group.stretch, .last_step = stretch.step});
        return;
      }
      const auto found = by_number.find(group.stretch);
      if (found == by_number.end()) {
        ++nameless;
        return;
      }
      int64_t& last = index.stretches[found->second].last_step;
      parse_reads(group.payload, [&](const StepReads& reads) { last = std::max(last, reads.step); });
    });
  });
  for (const Range& range : others)
    index.damage.push_back(fmt::format("{}: bytes {} to {} are no records: torn off, or damaged", file,
                                       range.begin, range.end - 1));
  if (nameless > 0)
    index.damage.push_back(fmt::format(
        "{}: {} groups of records belong to a stretch whose description is lost", file, nameless));
}

/// Whether `other` has been where `stretch` begins.
bool reaches(const LedgerStretch& other, const LedgerStretch& stretch) {
  return other.run_id == stretch.run_id && other.branch == stretch.from_branch &&
         other.step <= stretch.step && other.lanes == stretch.lanes &&
         other.windows_per_lane == stretch.windows_per_lane &&
         other.cursor_after(stretch.step) == stretch.cursor;
}

/// The stretch that `of` goes on from.
std::optional<size_t> parent_of(const std::vector<RecordedStretch>& stretches, size_t of) {
  const LedgerStretch& stretch = stretches[of].stretch;
  std::optional<size_t> best;
  for (size_t other = 0; other < of; ++other) {
    if (!reaches(stretches[other].stretch, stretch)) continue;
    // One whose records end earlier is the last resort: the rest of them may have been lost.
    const bool whole = stretches[other].last_step >= stretch.step;
    if (whole || !best || stretches[*best].last_step < stretch.step) best = other;
  }
  return best;
}

}  // namespace

LedgerIndex index_ledger(const std::string& run_folder) {
  LedgerIndex index;
  for (const std::string& file : list_ledger(run_folder)) index_file(file, index);
  validate(!index.stretches.empty() || !index.damage.empty(),
           "{} has no records of what a run read: a run writes them with its first checkpoint, or at its end",
           ledger_folder(run_folder));
  return index;
}

void read_ledger(const LedgerIndex& index,
                 const std::function<void(size_t stretch, const StepReads&)>& take) {
  std::map<std::string, std::map<int64_t, size_t>> files;
  for (size_t i = 0; i < index.stretches.size(); ++i)
    files[index.stretches[i].file][index.stretches[i].number] = i;
  for (const auto& entry : files) {
    const std::string& file = entry.first;
    const std::map<int64_t, size_t>& by_number = entry.second;
    read_groups(file, [&](const LedgerGroup& group) {
      const auto found = by_number.find(group.stretch);
      if (group.kind != LedgerGroup::Kind::reads || found == by_number.end()) return;
      naming(file, [&] {
        parse_reads(group.payload, [&](const StepReads& reads) { take(found->second, reads); });
      });
    });
  }
}

LedgerHistory trace_history(const std::vector<RecordedStretch>& stretches, size_t end) {
  LedgerHistory history;
  int64_t last_step = stretches[end].last_step;
  for (std::optional<size_t> at = end; at;) {
    const LedgerStretch& stretch = stretches[*at].stretch;
    history.parts.push_back({.stretch = *at, .last_step = last_step});
    if (stretch.step == 0) break;
    const std::optional<size_t> parent = parent_of(stretches, *at);
    if (!parent) {
      history.unknown_steps = stretch.step;
      history.elsewhere = stretch.elsewhere;
    }
    last_step = stretch.step;
    at = parent;
  }
  std::ranges::reverse(history.parts);
  return history;
}

}  // namespace gpt
