#include "base/thread.hpp"

#include "base/error.hpp"

#include <latch>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace gpt {
namespace {

std::string limit_text(rlim_t limit) { return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit); }

rlim_t limit_of(decltype(RLIMIT_NPROC) resource) {
  rlimit limit{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  getrlimit(resource, &limit);
  return limit.rlim_cur;
}

}  // namespace

void refuse_thread(std::string_view job, const std::system_error& reason) {
  constexpr rlim_t kibibyte = 1024;
  const rlim_t addresses = limit_of(RLIMIT_AS);
  throw Error(
      fmt::format("cannot start a thread for {}: {}: this user may have {} processes and threads at a time "
                  "(ulimit -u; a container or batch system may allow fewer), this process {} KiB of "
                  "addresses (ulimit -v): raise what is short, or start fewer ranks or --threads",
                  job, reason.code().message(), limit_text(limit_of(RLIMIT_NPROC)),
                  limit_text(addresses == RLIM_INFINITY ? addresses : addresses / kibibyte)),
      ExitCode::failed);
}

void require_threads(std::string_view job, int threads) {
  std::latch all_there(1);
  std::vector<std::jthread> team;
  const auto let_go = [&](std::latch* latch) { latch->count_down(); };
  const std::unique_ptr<std::latch, decltype(let_go)> end(&all_there, let_go);  // before `team` is waited for
  for (int thread = 0; thread < threads; ++thread)
    team.push_back(start_thread(job, [&all_there] { all_there.wait(); }));
}

}  // namespace gpt
