#include "comm/siblings.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
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

const char* word_for(char state) {
  switch (state) {
    case 'T':
    case 't':
      return "stopped";
    case 'Z':
    case 'X':
      return "dead";
    default:
      return nullptr;
  }
}

// How launchers tell a process its rank; the ones that start this very process first.
constexpr std::array<const char*, 4> rank_names = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                                   "SLURM_PROCID"};

/// Empty if there is none.
std::string rank_in(const std::string& environment) {
  for (const char* name : rank_names) {
    std::istringstream entries(environment);
    for (std::string entry; std::getline(entries, entry, '\0');)
      if (entry.starts_with(fmt::format("{}=", name))) return entry.substr(entry.find('=') + 1);
  }
  return {};
}

}  // namespace

int launched_rank() {
  for (const char* name : rank_names)
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return 0;
}

std::string describe_still_siblings() {
  std::string text;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string process = entry->path().filename().string();
    if (process.find_first_not_of("0123456789") != std::string::npos) continue;
    const ProcessState state = state_of(entry->path());
    const char* const word = word_for(state.state);
    if (word == nullptr || state.parent != getppid()) continue;
    const std::string rank = rank_in(contents(entry->path() / "environ"));
    text += fmt::format("{}process {}{} is {}", text.empty() ? "" : ", ", process,
                        rank.empty() ? "" : fmt::format(" (rank {})", rank), word);
  }
  return text;
}

}  // namespace gpt
