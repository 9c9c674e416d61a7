#include "base/error.hpp"
#include "train/lease.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

namespace gpt {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

struct ProcessStatus {
  char state = 0;
  int64_t start = 0;
};

/// From /proc/PID/stat (proc(5)): the name, field 2, stands in parentheses and may hold any characters.
std::optional<ProcessStatus> status_of(int64_t process) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", process));
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(name_end + 1));
  ProcessStatus status;
  std::string skipped;
  rest >> status.state;
  for (int field = 4; field < 22; ++field) rest >> skipped;
  rest >> status.start;
  return rest ? std::optional(status) : std::nullopt;
}

bool is_alive(const LeaseHolder& holder) {
  const std::optional<ProcessStatus> status = status_of(holder.process);
  const bool ended = !status || status->state == 'Z' || status->state == 'X';
  return !ended && status->start == holder.start;
}

}  // namespace

LeaseHolder this_holder() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::error_code ignored;
  const char* job = std::getenv("SLURM_JOB_ID");
  const int64_t process = getpid();
  return {.host = host.data(),
          .boot = first_line("/proc/sys/kernel/random/boot_id"),
          .pid_namespace = std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string(),
          .process = process,
          .start = status_of(process).value_or(ProcessStatus{}).start,
          .job = job == nullptr ? "" : job};
}

std::string to_json(const LeaseHolder& holder) {
  const nlohmann::ordered_json json = {
      {"host", holder.host},       {"boot", holder.boot},   {"pid_namespace", holder.pid_namespace},
      {"process", holder.process}, {"start", holder.start}, {"job", holder.job}};
  // Host and job names come from outside and need not be UTF-8.
  return json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::optional<LeaseHolder> parse_lease(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  try {
    return LeaseHolder{.host = json.at("host").get<std::string>(),
                       .boot = json.at("boot").get<std::string>(),
                       .pid_namespace = json.at("pid_namespace").get<std::string>(),
                       .process = json.at("process").get<int64_t>(),
                       .start = json.at("start").get<int64_t>(),
                       .job = json.at("job").get<std::string>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string describe(const std::optional<LeaseHolder>& holder) {
  if (!holder) return "an unknown process (its lease cannot be read)";
  return fmt::format("process {} on host {}{}", holder->process, holder->host,
                     holder->job.empty() ? "" : fmt::format(" (Slurm job {})", holder->job));
}

bool is_void(const std::optional<LeaseHolder>& holder, const LeaseHolder& self,
             std::chrono::nanoseconds age) {
  // An age far below zero is no renewal either: the clock was set back after the last one.
  const bool expired = age >= Lease::life || age <= -Lease::life;
  if (!holder) return expired;
  if (!holder->job.empty() && holder->job == self.job) return true;
  const bool visible =
      holder->host == self.host && holder->boot == self.boot && holder->pid_namespace == self.pid_namespace;
  return visible ? !is_alive(*holder) : expired;
}

}  // namespace gpt
