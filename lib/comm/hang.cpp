#include "comm/hang.hpp"

#include "base/list_some.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace gpt {
namespace {

using Ranks = std::vector<int>;

const Sighting& of(const std::vector<Sighting>& all, int rank) { return all[static_cast<size_t>(rank)]; }

template <class Condition>
Ranks ranks_where(const std::vector<Sighting>& all, Condition condition) {
  Ranks found;
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank)
    if (condition(of(all, rank))) found.push_back(rank);
  return found;
}

/// Of ranks that all answer: those that the others wait for. Empty when nothing tells them apart.
Ranks ranks_behind(const std::vector<Sighting>& all) {
  const auto place = [](const Sighting& rank) { return std::pair(rank.status.entered, rank.status.waiting); };
  const auto last = std::ranges::min(all, {}, place);
  Ranks behind = ranks_where(all, [&](const Sighting& rank) { return place(rank) == place(last); });
  if (behind.size() == all.size()) behind.clear();
  return behind;
}

std::string name_with_host(int rank, const std::vector<std::string>& hosts) {
  return fmt::format("rank {} on {}", rank, hosts[static_cast<size_t>(rank)]);
}

/// "ranks 0, 2 wait for it in step 12; rank 3 waits for it in save at step 10"
std::string describe_waiters(const std::vector<Sighting>& all, const Ranks& blamed) {
  std::map<std::string, Ranks> waiters;
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank)
    if (std::ranges::find(blamed, rank) == blamed.end())
      waiters[of(all, rank).heard ? "in " + describe(of(all, rank).status) : "at an unknown place"].push_back(
          rank);
  std::string text;
  for (const auto& [place, ranks] : waiters)
    text += fmt::format("{}{} {} for {} {}", text.empty() ? "" : "; ", list_ranks(ranks),
                        ranks.size() == 1 ? "waits" : "wait", blamed.size() == 1 ? "it" : "them", place);
  return text;
}

/// Whether exactly the ranks of other hosts are silent: then it is not said which side of a link is cut.
bool hears_its_own_host_only(int own, const Ranks& silent, const std::vector<std::string>& hosts) {
  const std::string& here = hosts[static_cast<size_t>(own)];
  Ranks elsewhere;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank)
    if (hosts[static_cast<size_t>(rank)] != here) elsewhere.push_back(rank);
  return !silent.empty() && silent == elsewhere;
}

}  // namespace

double watch_period(double timeout) { return std::clamp(timeout / 60, 0.01, 0.25); }

double silence_limit(double timeout) { return std::min(timeout / 3, 5.0); }

std::string describe(const RankStatus& status) {
  if (status.phase == Phase::step) return fmt::format("step {}", status.step);
  if (status.step == 0) return std::string(name_of(status.phase));
  return fmt::format("{} at step {}", name_of(status.phase), status.step);
}

std::string list_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", list_some(ranks));
}

std::optional<Hang> find_hang(int own, const std::vector<Sighting>& ranks,
                              const std::vector<std::string>& hosts, double timeout) {
  const auto is_silent = [&](const Sighting& rank) { return rank.unanswered >= silence_limit(timeout); };
  const auto is_overdue = [&](const Sighting& rank) {
    return rank.heard && !is_silent(rank) && rank.status.quiet + rank.age >= timeout;
  };
  const Ranks silent = ranks_where(ranks, is_silent);
  const Ranks lost = ranks_where(ranks, [&](const Sighting& rank) { return rank.unanswered >= timeout; });
  const Ranks overdue = ranks_where(ranks, is_overdue);
  const bool stands = !overdue.empty() && (!silent.empty() || overdue.size() == ranks.size());
  if (lost.empty() && !stands) return {};

  const Ranks blamed = stands && !silent.empty() ? silent : !lost.empty() ? lost : ranks_behind(ranks);
  if (blamed.empty())
    return Hang{.rank = {},
                .status = of(ranks, own).status,
                .reason = fmt::format("no rank has made progress for {:.1f} s: all stand in {}, and none of "
                                      "them is behind: look at the network and the file system",
                                      timeout, describe(of(ranks, own).status))};
  const int first = blamed.front();
  const Sighting& sighting = of(ranks, first);
  std::string what;
  if (silent.empty())
    what = fmt::format("stands still in {} for {:.1f} s", describe(sighting.status),
                       sighting.status.quiet + sighting.age);
  else
    what = fmt::format("does not answer for {:.1f} s (stopped, dead or cut off{})", sighting.unanswered,
                       sighting.heard ? ", last heard of in " + describe(sighting.status)
                                      : ", not heard of since the start");
  std::string reason = fmt::format("{} {}", name_with_host(first, hosts), what);
  if (blamed.size() > 1)
    reason += fmt::format(", and so {} {}", blamed.size() == 2 ? "does" : "do",
                          list_ranks({blamed.begin() + 1, blamed.end()}));
  if (const std::string waiters = describe_waiters(ranks, blamed); !waiters.empty()) reason += "; " + waiters;
  if (hears_its_own_host_only(own, silent, hosts))
    reason +=
        fmt::format("; no other host answers {}: it may be cut off itself", hosts[static_cast<size_t>(own)]);
  // Of a rank that fell silent it is not known how far it came: where the others wait is nearer.
  const Sighting& stands_at = silent.empty() ? sighting : of(ranks, own);
  return Hang{.rank = first, .status = stands_at.status, .reason = reason};
}

}  // namespace gpt
