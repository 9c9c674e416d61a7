#include "train/time_limit.hpp"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

namespace gpt {
namespace {

using Clock = std::chrono::system_clock;

const Clock::time_point process_began = Clock::now();

std::optional<Clock::time_point> end_of_slurm_job() {
  const char* const value = std::getenv("SLURM_JOB_END_TIME");
  if (value == nullptr) return std::nullopt;
  const std::string_view text(value);
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds <= 0) return std::nullopt;
  return Clock::time_point(std::chrono::seconds(seconds));
}

}  // namespace

TimeLimit::TimeLimit(double seconds) {
  if (seconds > 0) {
    end_ =
        process_began + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    reason_ = fmt::format("--time-limit {} is near", seconds);
    return;
  }
  end_ = end_of_slurm_job();
  reason_ = "the end of the Slurm job is near";
}

bool TimeLimit::reached(double until, double saving) const {
  if (!end_) return false;
  constexpr double safety = 1.5;
  constexpr double ending = 3.0;  // seconds: threads, MPI's own end
  const std::chrono::duration<double> left = *end_ - Clock::now();
  return left.count() <= safety * (until + saving) + ending;
}

}  // namespace gpt
