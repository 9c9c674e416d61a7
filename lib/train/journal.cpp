#include "train/journal.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace gpt {
namespace {

/// The attempt of the last line that can be read, 0 if there is none.
int64_t last_attempt(const std::string& path) {
  std::ifstream file(path);
  int64_t attempt = 0;
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_object()) attempt = object.value("attempt", attempt);
  }
  return attempt;
}

/// Least, median and greatest.
std::array<double, 3> spread_of(std::vector<double> all) {
  std::ranges::sort(all);
  return {all.front(), all[(all.size() - 1) / 2], all.back()};
}

/// Over the ranks.
std::array<double, 3> spread_of(const IntervalTimes& times, double StepTimes::*value) {
  std::vector<double> all;
  for (const StepTimes& own : times.of_rank) all.push_back(own.*value);
  return spread_of(std::move(all));
}

nlohmann::ordered_json number_of(const GpuField& field, double value) {
  if (field.whole) return std::llround(value);
  return value;
}

/// The fields that are known.
void add(nlohmann::ordered_json& to, const GpuStatus& gpu) {
  for (const GpuField& field : gpu_fields)
    if (const std::optional<double>& value = gpu.*field.value) to[field.name] = number_of(field, *value);
}

/// Their spread over the ranks that know them.
void add_spread(nlohmann::ordered_json& to, const std::vector<GpuStatus>& gpu_of_rank) {
  for (const GpuField& field : gpu_fields) {
    std::vector<double> all;
    for (const GpuStatus& gpu : gpu_of_rank)
      if (const std::optional<double>& value = gpu.*field.value) all.push_back(*value);
    if (all.empty()) continue;
    for (const double value : spread_of(std::move(all))) to[field.name].push_back(number_of(field, value));
  }
}

/// Ranks side by side that compute on the same kind of device are one entry.
nlohmann::ordered_json to_json(const std::vector<RankDevice>& devices) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t first = 0, end = 0; first < devices.size(); first = end) {
    const std::string& name = devices[first].name;
    nlohmann::ordered_json uuids = nlohmann::ordered_json::array();
    for (end = first; end < devices.size() && devices[end].name == name; ++end)
      if (!devices[end].uuid.empty()) uuids.push_back(devices[end].uuid);
    nlohmann::ordered_json entry = {{"ranks", {first, end - 1}}, {"name", name}};
    if (!uuids.empty()) entry["uuids"] = uuids;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

struct Journal::Line {
  nlohmann::ordered_json object;
};

Journal::Journal(const std::string& path) : file_(path, false), attempt_(last_attempt(path) + 1) {}

void Journal::write(const Line& line) { file_.append(line.object.dump() + "\n"); }

void Journal::start(int64_t step, int64_t branch, int nodes, int64_t parameters, int64_t steps,
                    int64_t global_batch, const std::vector<RankDevice>& devices) {
  write({{{"event", "start"},
          {"attempt", attempt_},
          {"step", step},
          {"branch", branch},
          {"ranks", devices.size()},
          {"nodes", nodes},
          {"parameters", parameters},
          {"steps", steps},
          {"global_batch", global_batch},
          {"devices", to_json(devices)}}});
}

void Journal::resume(int64_t step, int ranks, const std::string& file, const std::string& host) {
  Line line{{{"event", "resume"}, {"attempt", attempt_}, {"step", step}, {"ranks", ranks}, {"file", file}}};
  if (!host.empty()) line.object["memory_of"] = host;
  write(line);
}

void Journal::step(const StepRecord& record) {
  Line line{{{"event", "step"},
             {"attempt", attempt_},
             {"step", record.step},
             {"loss", record.loss},
             {"lr", record.learning_rate},
             {"grad_norm", record.grad_norm},
             {"tokens", record.tokens},
             {"step_seconds", record.seconds},
             {"data_seconds", record.data_seconds},
             {"tokens_per_second", record.tokens_per_second}}};
  if (record.mfu) line.object["mfu"] = *record.mfu;
  add(line.object, record.gpu);
  write(line);
}

void Journal::eval(int64_t step, double val_loss) {
  write({{{"event", "eval"}, {"attempt", attempt_}, {"step", step}, {"val_loss", val_loss}}});
}

void Journal::ranks(const IntervalTimes& times, const Stragglers& stragglers) {
  constexpr size_t named = 8;
  nlohmann::ordered_json slowest = nlohmann::ordered_json::array();
  for (const int rank : stragglers.slowest(times, named)) {
    const StepTimes& own = times.of_rank[static_cast<size_t>(rank)];
    slowest.push_back({{"rank", rank},
                       {"host", stragglers.host(rank)},
                       {"compute", own.compute},
                       {"wait", own.wait},
                       {"reduce", own.reduce},
                       {"data", own.data}});
    if (!times.gpu_of_rank.empty()) add(slowest.back(), times.gpu_of_rank[static_cast<size_t>(rank)]);
  }
  Line line{{{"event", "ranks"},
             {"attempt", attempt_},
             {"step", times.step},
             {"steps", times.steps},
             {"compute", spread_of(times, &StepTimes::compute)},
             {"wait", spread_of(times, &StepTimes::wait)},
             {"reduce", spread_of(times, &StepTimes::reduce)},
             {"data", spread_of(times, &StepTimes::data)}}};
  add_spread(line.object, times.gpu_of_rank);
  line.object["slowest"] = slowest;
  write(line);
}

void Journal::save(const SaveEnd& end, double stall) {
  if (!end.failure.empty())
    return write({{{"event", "save_failed"},
                   {"attempt", attempt_},
                   {"step", end.step},
                   {"reason", end.failure},
                   {"stall_seconds", stall}}});
  write({{{"event", "save"},
          {"attempt", attempt_},
          {"step", end.step},
          {"seconds", end.seconds},
          {"stall_seconds", stall},
          {"verify_seconds", end.verifying}}});
}

void Journal::save_interval(int64_t step, double seconds, double cost, double mtbf) {
  write({{{"event", "save_interval"},
          {"attempt", attempt_},
          {"step", step},
          {"seconds", seconds},
          {"cost_seconds", cost},
          {"mtbf_seconds", mtbf}}});
}

void Journal::replicas(int64_t step, double seconds, const std::optional<ReplicaDifference>& difference) {
  Line line{{{"event", "replicas"}, {"attempt", attempt_}, {"step", step}, {"seconds", seconds}}};
  if (difference) {
    line.object["parameter"] = difference->parameter;
    line.object["ranks"] = difference->ranks;
  }
  write(line);
}

void Journal::memory_save(const MemorySave& save) {
  Line line{{{"event", "memory_save"},
             {"attempt", attempt_},
             {"step", save.step},
             {"nodes", save.nodes},
             {"seconds", save.seconds},
             {"stall_seconds", save.stall}}};
  if (!save.reason.empty()) line.object["reason"] = save.reason;
  write(line);
}

void Journal::bad_step(const BadStep& bad) {
  write({{{"event", "bad_step"},
          {"attempt", attempt_},
          {"step", bad.step},
          {"reason", bad.reason},
          {"action", bad.action},
          {"loss", bad.loss},
          {"grad_norm", bad.grad_norm},
          {"ranks", bad.ranks},
          {"windows", {bad.windows.begin, bad.windows.end}}}});
}

void Journal::rollback(int64_t step, int64_t branch, const std::string& file) {
  write({{{"event", "rollback"}, {"attempt", attempt_}, {"step", step}, {"branch", branch}, {"file", file}}});
}

void Journal::memory(const MemoryEstimate& estimate) {
  write({{{"event", "memory"},
          {"attempt", attempt_},
          {"parameter_bytes", estimate.parameters},
          {"gradient_bytes", estimate.gradients},
          {"optimizer_bytes", estimate.optimizer},
          {"subtree_bytes", estimate.tree},
          {"activation_bytes", estimate.activations},
          {"scratch_bytes", estimate.scratch},
          {"library_bytes", estimate.libraries},
          {"gathering_bytes", estimate.gathering},
          {"saving_bytes", estimate.saving},
          {"memory_checkpoint_bytes", estimate.node_checkpoints}}});
}

void Journal::end(int64_t step, int64_t peak_bytes, int64_t parameters) {
  write({{{"event", "end"},
          {"attempt", attempt_},
          {"step", step},
          {"peak_bytes", peak_bytes},
          {"peak_bytes_per_parameter", static_cast<double>(peak_bytes) / static_cast<double>(parameters)}}});
}

}  // namespace gpt
