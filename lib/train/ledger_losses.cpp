#include "train/ledger_losses.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

struct LoggedStep {
  int64_t step;
  int64_t attempt;
  double seconds;
};

class LogReader {
public:
  /// @throws nlohmann::json::exception
  void take(const nlohmann::json& event) {
    const auto kind = event.at("event").get<std::string>();
    if (kind == "start") {
      ++losses_.starts;
      void_after(event.at("step").get<int64_t>(), false);
    } else if (kind == "rollback") {
      void_after(event.at("step").get<int64_t>(), true);
    } else if (kind == "step") {
      steps_.push_back(
          {.step = event.at("step"), .attempt = event.at("attempt"), .seconds = event.at("step_seconds")});
    } else if (kind == "bad_step" && event.at("action") == "skip") {
      losses_.left_out.push_back(event.at("step").get<int64_t>());
    }
  }

  RunLosses result() {
    losses_.steps = std::ssize(steps_);
    for (const LoggedStep& step : steps_) losses_.seconds += step.seconds;
    return losses_;
  }

private:
  /// Later steps do not count.
  void void_after(int64_t step, bool rolled_back) {
    const size_t before = losses_.lost.size();
    for (; !steps_.empty() && steps_.back().step > step; steps_.pop_back()) {
      const LoggedStep& last = steps_.back();
      if (losses_.lost.size() == before || losses_.lost.back().attempt != last.attempt)
        losses_.lost.push_back(
            {.attempt = last.attempt, .steps = 0, .seconds = 0.0, .rolled_back = rolled_back});
      ++losses_.lost.back().steps;
      losses_.lost.back().seconds += last.seconds;
    }
    while (!losses_.left_out.empty() && losses_.left_out.back() > step) losses_.left_out.pop_back();
  }

  std::vector<LoggedStep> steps_;  // that count, ascending
  RunLosses losses_;
};

}  // namespace

RunLosses read_losses(const std::string& log) {
  LogReader reader;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    try {
      if (event.is_object()) reader.take(event);
    } catch (const nlohmann::json::exception&) {
      // Not as this program writes it.
    }
  }
  return reader.result();
}

}  // namespace gpt
