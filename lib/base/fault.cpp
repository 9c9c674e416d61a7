#include "base/fault.hpp"

#include "base/error.hpp"
#include "base/notice.hpp"
#include "base/philox.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gpt {
namespace {

struct Fault {
  std::string text;
  std::string point;
  std::string action;
  int64_t milliseconds = 0;
  std::optional<int64_t> rank, step, hit;
  bool here = true;  // on this rank
  bool acted = false;
  int64_t passed = 0;
  uint64_t seed = 0;  // of random delays
};

// One process, one environment variable: this is the process's, like the environment itself.
std::vector<Fault> faults;
std::mutex faults_mutex;
std::atomic<int64_t> current_step{0};
thread_local std::optional<int64_t> step_of_thread;

// Without a number. The last five act at some points only: fault_actions_at.
constexpr std::array<std::string_view, 9> plain_actions = {"kill", "stop",  "exit", "throw",  "nan",
                                                           "flip", "short", "full", "ioerror"};
constexpr size_t actions_of_every_point = 4;

int64_t to_number(std::string_view text, std::string_view where) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  validate(error == std::errc() && end == text.data() + text.size(),
           "GPT_FAULT: '{}' in '{}' is not a number", text, where);
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Fault parse(std::string_view text) {
  const size_t colon = text.find(':');
  validate(colon != std::string_view::npos, "GPT_FAULT: '{}' has no action: write POINT:ACTION[@conditions]",
           text);
  const size_t at = std::min(text.find('@', colon), text.size());
  Fault fault{.text = std::string(text),
              .point = std::string(text.substr(0, colon)),
              .action = std::string(text.substr(colon + 1, at - colon - 1)),
              .rank = {},
              .step = {},
              .hit = {}};
  if (const size_t equals = fault.action.find('='); equals != std::string::npos) {
    fault.milliseconds = to_number(std::string_view(fault.action).substr(equals + 1), text);
    fault.action.resize(equals);
  }
  const bool delays = fault.action == "delay" || fault.action == "jitter";
  validate(
      delays == (fault.milliseconds > 0),
      "GPT_FAULT: '{}': write delay=MILLISECONDS or jitter=MILLISECONDS, and no number for other actions",
      text);
  validate(delays || std::ranges::find(plain_actions, fault.action) != plain_actions.end(),
           "GPT_FAULT: unknown action '{}' in '{}': use {}, delay=MILLISECONDS or jitter=MILLISECONDS",
           fault.action, text, fmt::join(plain_actions, ", "));
  for (std::string_view condition : split(text.substr(std::min(at + 1, text.size())), ',')) {
    const size_t equals = std::min(condition.find('='), condition.size());
    const std::string_view key = condition.substr(0, equals);
    auto* target = key == "rank"   ? &fault.rank
                   : key == "step" ? &fault.step
                   : key == "hit"  ? &fault.hit
                                   : nullptr;
    validate(target != nullptr,
             "GPT_FAULT: unknown condition '{}' in '{}': use rank=, step= or hit=", condition, text);
    *target = to_number(condition.substr(std::min(equals + 1, condition.size())), text);
  }
  return fault;
}

void validate_point(const Fault& fault, const std::vector<std::string_view>& points) {
  validate(std::ranges::find(points, fault.point) != points.end(),
           "GPT_FAULT: this program has no point '{}', named in '{}': use {}", fault.point, fault.text,
           fmt::join(points, ", "));
  const auto* const special =
      std::find(plain_actions.begin() + actions_of_every_point, plain_actions.end(), fault.action);
  if (special == plain_actions.end()) return;
  const std::vector<std::string_view> more = fault_actions_at(fault.point);
  validate(std::ranges::find(more, fault.action) != more.end(),
           "GPT_FAULT: '{}': {} acts at these points only: {}", fault.text, fault.action,
           fmt::join(fault_points_with(fault.action), ", "));
}

void act(const Fault& fault) {
  if (fault.action == "kill") std::raise(SIGKILL);
  if (fault.action == "stop") std::raise(SIGSTOP);
  if (fault.action == "exit") std::_Exit(static_cast<int>(ExitCode::failed));
  if (fault.action == "throw") throw Error(fmt::format("fault injected at '{}'", fault.point));
  if (fault.action == "delay") std::this_thread::sleep_for(std::chrono::milliseconds(fault.milliseconds));
  if (fault.action == "jitter") {
    const double share = to_unit(random_bits(fault.seed, static_cast<uint64_t>(fault.passed)));
    std::this_thread::sleep_for(share * std::chrono::milliseconds(fault.milliseconds));
  }
}

}  // namespace

bool faults_armed = false;

void configure_faults(int rank, std::optional<Program> program) {
  faults.clear();
  const char* value = std::getenv("GPT_FAULT");
  if (value == nullptr) value = "";
  for (std::string_view text : split(value, ';')) {
    Fault fault = parse(text);
    if (program) validate_point(fault, fault_points_of(*program));
    fault.seed = static_cast<uint64_t>(rank);
    fault.here = fault.rank.value_or(rank) == rank;
    faults.push_back(std::move(fault));
  }
  faults_armed = std::ranges::any_of(faults, &Fault::here);
}

std::vector<FaultUse> fault_uses() {
  const std::lock_guard lock(faults_mutex);
  std::vector<FaultUse> uses;
  for (const Fault& fault : faults)
    if (fault.point != "end") uses.push_back({.text = fault.text, .acted = fault.acted});
  return uses;
}

void say_idle_faults(const std::vector<FaultUse>& uses) {
  for (const FaultUse& use : uses)
    if (!use.acted)
      notice(fmt::format(
          "notice: GPT_FAULT: '{}' did nothing: its point was never passed under its conditions", use.text));
}

void set_fault_step(int64_t step) { current_step = step; }

FaultStep::FaultStep(int64_t step) { step_of_thread = step; }
FaultStep::~FaultStep() { step_of_thread.reset(); }

namespace {

/// The fault that is due at the point now, if one is.
std::optional<Fault> find_due(std::string_view name) {
  std::optional<Fault> due;
  const int64_t step = step_of_thread.value_or(current_step);
  const std::lock_guard lock(faults_mutex);
  for (Fault& fault : faults) {
    if (!fault.here || fault.point != name || fault.step.value_or(step) != step) continue;
    ++fault.passed;
    if (fault.passed != fault.hit.value_or(fault.passed)) continue;
    fault.acted = true;
    due = fault;
  }
  return due;
}

}  // namespace

void pass_fault_point(std::string_view name) {
  if (const std::optional<Fault> due = find_due(name)) act(*due);
}

bool pass_value_point(std::string_view name) {
  const std::optional<Fault> due = find_due(name);
  if (due) act(*due);
  return due && (due->action == "nan" || due->action == "flip");
}

FileFault pass_file_point(std::string_view name) {
  const std::optional<Fault> due = find_due(name);
  if (!due) return {};
  act(*due);
  FileFault fault;
  if (due->action == "full") fault.error = ENOSPC;
  if (due->action == "ioerror") fault.error = EIO;
  fault.flips = due->action == "flip";
  fault.cuts = due->action == "short";
  fault.place = random_bits(due->seed, static_cast<uint64_t>(due->passed));
  return fault;
}

}  // namespace gpt
