#include "train/preflight_report.hpp"

#include "base/list_some.hpp"
#include "train/memory.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t columns = 9;
using Row = std::array<std::string, columns>;

std::string speed(const std::optional<double>& bandwidth) {
  return bandwidth ? fmt::format("{:.3g} GB/s", *bandwidth * 1e-9) : "-";
}

std::string free_of(const Space& space) { return space.problem.empty() ? readable_bytes(space.free) : "?"; }

/// "2 (60 C)": those that were found, and the hottest.
std::string describe(const std::vector<GpuLook>& gpus) {
  if (gpus.empty()) return "-";
  std::optional<double> hottest;
  for (const GpuLook& gpu : gpus)
    if (gpu.status.celsius) hottest = std::max(hottest.value_or(*gpu.status.celsius), *gpu.status.celsius);
  return hottest ? fmt::format("{} ({:.0f} C)", gpus.size(), *hottest) : fmt::format("{}", gpus.size());
}

Row row_of(const PreflightReport& report, size_t index) {
  const NodeReport& node = report.nodes[index];
  const bool refused = std::ranges::any_of(
      report.findings, [&](const Finding& finding) { return finding.node == static_cast<int>(index); });
  return {fmt::format("{} {}", index, node.name),
          list_some(node.ranks),
          fmt::format("{:+.3f} s", node.clock.ahead),
          node.memory > 0 ? readable_bytes(node.memory) : "?",
          free_of(node.run),
          free_of(node.shared),
          describe(node.gpus),
          fmt::format("{} / {}", speed(node.bandwidth.inside), speed(node.bandwidth.between)),
          refused ? "refused" : "good"};
}

std::string name_of(const PreflightReport& report, const Finding& finding) {
  if (!finding.node) return "the job";
  return fmt::format("node {} ({})", *finding.node, report.nodes[static_cast<size_t>(*finding.node)].name);
}

std::vector<std::string> table(const PreflightReport& report) {
  const Row heading = {
      "node", "ranks", "clock", "memory free", "run folder", "shared memory", "GPUs", "sums inside / between",
      ""};
  std::vector<Row> rows = {heading};
  for (size_t node = 0; node < report.nodes.size(); ++node) rows.push_back(row_of(report, node));
  std::array<size_t, columns> widths{};
  for (const Row& row : rows)
    for (size_t i = 0; i < columns; ++i) widths[i] = std::max(widths[i], row[i].size());
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < columns; ++i) line += fmt::format("{:<{}}", row[i], widths[i] + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(line);
  }
  return lines;
}

void set(Json& object, const char* name, const std::optional<double>& value) {
  if (value) object[name] = *value;
}

Json to_json(const GpuLook& gpu) {
  Json object = {{"name", gpu.name}, {"uuid", gpu.uuid}, {"bytes", gpu.total}, {"free_bytes", gpu.free}};
  for (const GpuField& field : gpu_fields) set(object, field.name, gpu.status.*field.value);
  return object;
}

Json to_json(const NodeReport& node) {
  Json object = {{"name", node.name},
                 {"ranks", node.ranks},
                 {"clock_ahead_s", node.clock.ahead},
                 {"clock_uncertainty_s", node.clock.uncertainty},
                 {"memory_free_bytes", node.memory},
                 {"run_free_bytes", node.run.free},
                 {"shared_free_bytes", node.shared.free}};
  set(object, "inside_bytes_per_second", node.bandwidth.inside);
  set(object, "between_bytes_per_second", node.bandwidth.between);
  object["gpus"] = Json::array();
  for (const GpuLook& gpu : node.gpus) object["gpus"].push_back(to_json(gpu));
  return object;
}

Json problem(const std::optional<int>& node, const std::optional<std::string>& name, const std::string& check,
             const std::string& reason) {
  Json object = {{"check", check}, {"reason", reason}};
  if (node) object["node"] = *node;
  if (name) object["name"] = *name;
  return object;
}

std::string line_of(ExitCode code, const std::vector<std::string>& excluded, Json problems, Json nodes) {
  const Json object = {{"exit_code", static_cast<int>(code)},
                       {"exclude", excluded},
                       {"problems", std::move(problems)},
                       {"nodes", std::move(nodes)}};
  return preflight_mark + object.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::vector<std::string> lines_of(const PreflightReport& report) {
  std::vector<std::string> lines;
  if (report.complete) lines = table(report);
  for (const std::string& warning : report.warnings) lines.push_back("warning: " + warning);
  for (const Finding& finding : report.findings)
    lines.push_back(
        fmt::format("refused: {}: {}: {}", name_of(report, finding), finding.check, finding.reason));
  return lines;
}

std::string machine_line(const PreflightReport& report) {
  std::vector<std::string> excluded;
  Json problems = Json::array(), nodes = Json::array();
  for (const Finding& finding : report.findings) {
    std::optional<std::string> name;
    if (finding.node) name = report.nodes[static_cast<size_t>(*finding.node)].name;
    problems.push_back(problem(finding.node, name, finding.check, finding.reason));
    if (name && std::ranges::find(excluded, *name) == excluded.end()) excluded.push_back(*name);
  }
  if (report.complete)
    for (const NodeReport& node : report.nodes) nodes.push_back(to_json(node));
  return line_of(report.code(), excluded, std::move(problems), std::move(nodes));
}

std::string machine_line(const std::optional<std::string>& node, const std::string& check,
                         const std::string& reason) {
  std::vector<std::string> excluded;
  if (node) excluded.push_back(*node);
  Json problems = Json::array();
  problems.push_back(problem({}, node, check, reason));
  return line_of(ExitCode::preflight, excluded, std::move(problems), Json::array());
}

}  // namespace gpt
