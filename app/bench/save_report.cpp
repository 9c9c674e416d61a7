#include "bench/save.hpp"
#include "bench/times_json.hpp"

#include <fmt/format.h>

namespace gpt {
namespace {

void print_row(const char* what, const Times& times) {
  fmt::print("  {:<44} {:>10.1f} ms least {:>10.1f} ms median", what, times.least() * 1e3,
             times.median() * 1e3);
}

void print_written(const char* what, const Times& times, int64_t bytes) {
  print_row(what, times);
  fmt::print(" {:>8.0f} MB/s\n", static_cast<double>(bytes) / times.median() / 1e6);
}

}  // namespace

void print_saves(const SaveBench& bench, const SaveResult& result) {
  fmt::print("save: {}, {:.1f} MB of state, {} rank{} on {} node{}, {}\n", bench.preset,
             static_cast<double>(result.state_bytes) / 1e6, result.ranks, result.ranks == 1 ? "" : "s",
             result.nodes, result.nodes == 1 ? "" : "s", bench.folder);
  print_written("checkpoint", result.save, result.state_bytes);
  print_written("plain writes and fsync", result.plain, result.state_bytes);
  fmt::print("  bandwidth of checkpoints: {:.1f} % of plain writes (medians), {:.1f} % (least)\n",
             100.0 * result.share(), 100.0 * result.least_share());
  print_row("training stands still for a save", result.stall);
  fmt::print("\n");
  print_row("memory copy of as many bytes", result.copy);
  fmt::print("\n  which is {:.2f} times the copy (medians), {:.2f} (least)\n", result.stall_over_copy(),
             result.stall.least() / result.copy.least());
  if (bench.steps == 0) return;
  print_row("step", result.step);
  fmt::print("\n");
  print_row("step while a checkpoint is written", result.step_beside);
  fmt::print(" {:>7.2f} times as long\n", result.slowdown());
  print_written("checkpoint while steps compute", result.save_beside, result.state_bytes);
}

nlohmann::json saves_json(const SaveBench& bench, const SaveResult& result) {
  nlohmann::json json{{"benchmark", "save"},
                      {"preset", bench.preset},
                      {"ranks", result.ranks},
                      {"nodes", result.nodes},
                      {"threads", bench.threads},
                      {"sharded", bench.sharded},
                      {"rounds", bench.rounds},
                      {"state_bytes", result.state_bytes},
                      {"file_bytes", result.file_bytes},
                      {"copied_bytes", result.copied_bytes},
                      {"checkpoint", times_json(result.save)},
                      {"plain", times_json(result.plain)},
                      {"share", result.share()},
                      {"least_share", result.least_share()},
                      {"stall", times_json(result.stall)},
                      {"copy", times_json(result.copy)},
                      {"stall_over_copy", result.stall_over_copy()}};
  if (bench.steps == 0) return json;
  json["step"] = times_json(result.step);
  json["step_beside"] = times_json(result.step_beside);
  json["checkpoint_beside"] = times_json(result.save_beside);
  json["slowdown"] = result.slowdown();
  return json;
}

}  // namespace gpt
