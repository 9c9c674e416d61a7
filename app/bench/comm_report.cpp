#include "bench/comm_report.hpp"

#include "comm/tree_comm.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace gpt {
namespace {

struct Bandwidth {
  double algorithm, bus;  // bytes per second
};

Bandwidth bandwidth(const Machine& machine, const CommBench& bench, const CommResult& result) {
  const double algorithm = static_cast<double>(result.bytes) / result.times.median();
  return {algorithm, algorithm * bus_factor(bench.collective, machine.ranks)};
}

std::string cells(const Machine& machine, const CommBench& bench, const CommResult* result) {
  if (result == nullptr) return "";
  const auto [algorithm, bus] = bandwidth(machine, bench, *result);
  return fmt::format(" {:>11.1f} {:>11.1f} {:>7.3f} {:>7.3f} {:>8}", result->times.median() * 1e6,
                     result->times.least() * 1e6, algorithm / 1e9, bus / 1e9, result->wrong);
}

/// Whether sums go block by block, in shared memory inside the node.
bool has_blocks(const ContenderPlan& plan) { return plan.what == "hierarchical" || plan.what == "tree"; }

CommPlan::Blocks blocks_of(const ContenderPlan& way, const Machine& machine) {
  const int64_t nodes = std::ssize(machine.ranks_per_node);
  if (way.what != "tree") return way.plan.blocks_over(way.plan.inter, nodes);
  return way.plan.blocks_over(Inter::direct, machine.has_nodes_as_subtrees ? nodes : machine.ranks);
}

/// How the ranks of a node exchange what they sum.
enum class Inside { nothing, messages, shared, both };

Inside inside_nodes(const std::vector<CommResult>& results, const std::string& contender) {
  bool messages = false, shared = false;
  for (const CommResult& result : results) {
    if (result.contender != contender || !result.shared_memory) continue;
    (*result.shared_memory ? shared : messages) = true;
  }
  if (messages) return shared ? Inside::both : Inside::messages;
  return shared ? Inside::shared : Inside::nothing;
}

const char* text_of(Inside inside) {
  switch (inside) {
    case Inside::nothing:
      return "";
    case Inside::messages:
      return ", messages inside nodes";
    case Inside::shared:
      return ", shared memory inside nodes";
    case Inside::both:
      return ", shared memory inside nodes as far as there was room, else messages";
  }
  return "?";
}

/// Names by what is to be said of their blocks, both in the order of the table.
std::vector<std::pair<std::string, std::vector<std::string>>> named_by_blocks(
    const Machine& machine, const CommBench& bench, const std::vector<CommResult>& results) {
  std::vector<std::pair<std::string, std::vector<std::string>>> named;
  for (const ContenderPlan& plan : bench.plans) {
    if (!has_blocks(plan)) continue;
    const CommPlan::Blocks blocks = blocks_of(plan, machine);
    const std::string how =
        fmt::format("blocks of {} KiB of a lane, {} under way{}", static_cast<double>(blocks.bytes) / 0x1p10,
                    blocks.under_way, text_of(inside_nodes(results, plan.name)));
    auto found = std::ranges::find(named, how, [](const auto& one) { return one.first; });
    if (found == named.end()) found = named.insert(named.end(), {how, {}});
    found->second.push_back(plan.name);
  }
  return named;
}

const CommResult* find(const std::vector<CommResult>& results, int64_t bytes, const std::string& contender,
                       bool in_place) {
  for (const CommResult& result : results)
    if (result.bytes == bytes && result.contender == contender && result.in_place == in_place) return &result;
  return nullptr;
}

}  // namespace

Machine describe_machine(const World& world) {
  NodeOfRank layout;
  for (const std::string& node : world.gather(std::to_string(world.node_index())))
    layout.push_back(std::stoi(node));
  return {.ranks = world.size(),
          .hosts = world.gather(world.host()),
          .ranks_per_node = ranks_per_node(layout),
          .has_nodes_as_subtrees = has_nodes_as_subtrees(layout)};
}

void print_comm_table(const Machine& machine, const CommBench& bench,
                      const std::vector<CommResult>& results) {
  fmt::print("# {} {}, {} rank{} on {} node{} ({}), {} iterations{}\n", name_of(bench.collective),
             name_of(bench.dtype), machine.ranks, machine.ranks == 1 ? "" : "s",
             machine.ranks_per_node.size(), machine.ranks_per_node.size() == 1 ? "" : "s",
             fmt::join(machine.ranks_per_node, "+"), bench.iterations,
             bench.exact ? ", nothing else was sent" : "");
  for (const auto& [how, names] : named_by_blocks(machine, bench, results))
    fmt::print("# {}: {}\n", fmt::join(names, ", "), how);
  std::string places, columns, units;
  for (const bool in_place : {false, true}) {
    if (in_place ? !bench.in_place : !bench.out_of_place) continue;
    places += fmt::format(" {:^48}", in_place ? "in place" : "out of place");
    columns += fmt::format(" {:>11} {:>11} {:>7} {:>7} {:>8}", "median", "least", "algbw", "busbw", "#wrong");
    units += fmt::format(" {:>11} {:>11} {:>7} {:>7} {:>8}", "us", "us", "GB/s", "GB/s", "");
  }
  fmt::print("# {:>11} {:>12} {:<32}{}\n", "", "", "", places);
  fmt::print("# {:>11} {:>12} {:<32}{} {:>7}\n", "size", "count", "implementation", columns, "speed");
  fmt::print("# {:>11} {:>12} {:<32}{} {:>7}\n", "bytes", "elements", "", units, "");
  const bool compared = bench.in_place;  // the speed column
  for (const int64_t bytes : bench.sizes) {
    const CommResult* const first = find(results, bytes, bench.plans.front().name, compared);
    for (const ContenderPlan& plan : bench.plans) {
      const CommResult* const compared_result = find(results, bytes, plan.name, compared);
      fmt::print("  {:>11} {:>12} {:<32}{}{} {:>6.2f}x\n", bytes, bytes / size_of(bench.dtype), plan.name,
                 cells(machine, bench, find(results, bytes, plan.name, false)),
                 cells(machine, bench, find(results, bytes, plan.name, true)),
                 first->times.median() / compared_result->times.median());
    }
  }
}

nlohmann::json comm_json(const Machine& machine, const CommBench& bench,
                         const std::vector<CommResult>& results) {
  nlohmann::json implementations = nlohmann::json::array();
  for (const ContenderPlan& plan : bench.plans) {
    nlohmann::json& implementation =
        implementations.emplace_back(nlohmann::json{{"name", plan.name},
                                                    {"what", plan.what},
                                                    {"inter", plan.inter},
                                                    {"wire_node", name_of(plan.plan.wire_node)},
                                                    {"wire_peers", name_of(plan.plan.wire_peers)}});
    if (!has_blocks(plan)) continue;
    const CommPlan::Blocks blocks = blocks_of(plan, machine);
    implementation["block_bytes"] = blocks.bytes;
    implementation["window"] = blocks.under_way;
    const Inside inside = inside_nodes(results, plan.name);
    implementation["shared_memory"] =
        inside == Inside::nothing ? nlohmann::json() : nlohmann::json(inside == Inside::shared);
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const CommResult& result : results) {
    const auto [algorithm, bus] = bandwidth(machine, bench, result);
    rows.push_back({{"bytes", result.bytes},
                    {"count", result.bytes / size_of(bench.dtype)},
                    {"implementation", result.contender},
                    {"in_place", result.in_place},
                    {"median_s", result.times.median()},
                    {"least_s", result.times.least()},
                    {"times_s", result.times.all},
                    {"algbw_bytes_per_s", algorithm},
                    {"busbw_bytes_per_s", bus},
                    {"wrong", result.wrong}});
  }
  return {{"benchmark", "comm"},
          {"collective", name_of(bench.collective)},
          {"dtype", name_of(bench.dtype)},
          {"ranks", machine.ranks},
          {"nodes", machine.ranks_per_node.size()},
          {"ranks_per_node", machine.ranks_per_node},
          {"hosts", machine.hosts},
          {"iterations", bench.iterations},
          {"implementations", implementations},
          {"results", rows}};
}

}  // namespace gpt
