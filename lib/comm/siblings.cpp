#include "comm/siblings.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace gpt {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct ProcessState {
  char state = '?';
  int64_t parent = 0;
};

ProcessState state_of(const std::filesystem::path& folder) {
  const std::string text = contents(folder / "stat");
  ProcessState result;
  const size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return result;
  std::istringstream(text.substr(name_end + 1)) >> result.state >> result.parent;
  return result;
}

// How launchers tell a process its rank; the ones that start this very process first.
constexpr std::array<const char*, 4> rank_names = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                                   "SLURM_PROCID"};

// And which job it belongs to: a shell is also a parent, with children of many jobs.
constexpr std::array<const char*, 3> job_names = {"PMIX_NAMESPACE", "PMI_JOBID", "SLURM_STEP_ID"};

std::optional<std::string> value_in(const std::string& environment, const char* name) {
  const std::string key = fmt::format("{}=", name);
  std::istringstream entries(environment);
  for (std::string entry; std::getline(entries, entry, '\0');)
    if (entry.starts_with(key)) return entry.substr(key.size());
  return {};
}

bool is_of_this_job(const std::string& environment) {
  for (const char* name : job_names)
    if (const char* own = std::getenv(name)) return value_in(environment, name) == own;
  return false;
}

int rank_in(const std::string& environment) {
  for (const char* name : rank_names)
    if (const auto value = value_in(environment, name)) return std::atoi(value->c_str());
  return 0;
}

}  // namespace

bool is_launched() {
  return std::ranges::any_of(rank_names, [](const char* name) { return std::getenv(name) != nullptr; });
}

int launched_rank() {
  for (const char* name : rank_names)
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return 0;
}

std::vector<Sibling> find_siblings() {
  std::vector<Sibling> siblings;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const int64_t process = std::stoll(name);
    const ProcessState state = state_of(entry->path());
    if (process == getpid() || state.parent != getppid()) continue;
    const std::string environment = contents(entry->path() / "environ");
    if (!is_of_this_job(environment)) continue;
    const bool stopped = state.state == 'T' || state.state == 't';  // 't': by a debugger
    siblings.push_back({.process = process, .rank = rank_in(environment), .stopped = stopped});
  }
  return siblings;
}

std::string describe_stopped(const std::vector<Sibling>& siblings) {
  std::string text;
  for (const Sibling& sibling : siblings)
    if (sibling.stopped)
      text += fmt::format("{}process {} (rank {}) is stopped", text.empty() ? "" : ", ", sibling.process,
                          sibling.rank);
  return text;
}

}  // namespace gpt
