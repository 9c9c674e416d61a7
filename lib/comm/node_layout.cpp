#include "comm/node_layout.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace gpt {
namespace {

std::vector<int> parse_numbers(std::string_view list, std::string_view text) {
  std::vector<int> numbers;
  const char* at = list.data();
  const char* const end = list.data() + list.size();
  while (true) {
    int number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    validate(
        error == std::errc() && number >= 0 && (next == end || *next == ','),
        "--node-layout '{}' is not a list of numbers: write ranks per node, as in 3,1, or a node for each "
        "rank, as in @0,1,0,1",
        text);
    numbers.push_back(number);
    if (next == end) return numbers;
    at = next + 1;
  }
}

}  // namespace

NodeOfRank parse_node_layout(std::string_view text, int ranks) {
  if (text.starts_with('@')) {
    const std::vector<int> labels = parse_numbers(text.substr(1), text);
    validate(std::ssize(labels) == ranks, "--node-layout '{}' names a node for {} ranks, but the job has {}",
             text, labels.size(), ranks);
    return number_nodes(labels);
  }
  NodeOfRank layout;
  int64_t total = 0;
  int node = 0;
  for (const int count : parse_numbers(text, text)) {
    validate(count > 0, "--node-layout '{}' has a node without ranks: leave it out", text);
    total += count;
    // What is beyond the job's size is only counted: a huge number must not become a huge allocation.
    layout.resize(static_cast<size_t>(std::min<int64_t>(total, ranks)), node++);
  }
  validate(total == ranks, "--node-layout '{}' adds up to {} ranks, but the job has {}", text, total, ranks);
  return layout;
}

NodeOfRank number_nodes(const NodeOfRank& labels) {
  std::map<int, int> numbers;
  NodeOfRank layout;
  for (const int label : labels) {
    layout.push_back(numbers.try_emplace(label, static_cast<int>(numbers.size())).first->second);
  }
  return layout;
}

void validate_splits_only(const NodeOfRank& layout, const NodeOfRank& found,
                          const std::vector<std::string>& hosts) {
  std::map<int, size_t> first_of_node;
  for (size_t rank = 0; rank < layout.size(); ++rank) {
    const size_t first = first_of_node.try_emplace(layout[rank], rank).first->second;
    validate(found[rank] == found[first],
             "--node-layout puts ranks {} ({}) and {} ({}) on one node, but they do not share memory: a "
             "layout may "
             "split nodes, never join them",
             first, hosts[first], rank, hosts[rank]);
  }
}

std::string host_disagreement(const NodeOfRank& layout, const std::vector<std::string>& hosts) {
  std::map<std::string, size_t> first_on_host;
  for (size_t rank = 0; rank < layout.size(); ++rank) {
    const size_t first = first_on_host.try_emplace(hosts[rank], rank).first->second;
    if (layout[first] != layout[rank]) {
      return fmt::format(
          "the node layout disagrees with host names: ranks {} and {} are both on {}, but stand on nodes {} "
          "and {}",
          first, rank, hosts[rank], layout[first], layout[rank]);
    }
  }
  return {};
}

std::string describe_split(const NodeOfRank& layout, const std::vector<std::string>& hosts) {
  std::map<std::string, std::set<int>> nodes_of_host;
  for (size_t rank = 0; rank < layout.size(); ++rank) nodes_of_host[hosts[rank]].insert(layout[rank]);
  std::erase_if(nodes_of_host, [](const auto& host) { return host.second.size() == 1; });
  if (nodes_of_host.empty()) return {};
  const auto& [host, nodes] = *nodes_of_host.begin();
  std::string text = fmt::format("--node-layout splits host {} into {} nodes", host, nodes.size());
  if (const size_t more = nodes_of_host.size() - 1; more > 0)
    text += fmt::format(", and {} more host{}", more, more == 1 ? "" : "s");
  return text;
}

NodePlace place_of(int rank, const NodeOfRank& layout) {
  const std::vector<int> sizes = ranks_per_node(layout);
  const int node = layout[static_cast<size_t>(rank)];
  const auto before = std::count(layout.begin(), layout.begin() + rank, node);
  return {.node = node,
          .nodes = static_cast<int>(sizes.size()),
          .index = static_cast<int>(before),
          .size = sizes[static_cast<size_t>(node)]};
}

std::vector<int> ranks_per_node(const NodeOfRank& layout) {
  std::vector<int> sizes;
  for (const int node : layout) {
    if (static_cast<size_t>(node) >= sizes.size()) sizes.resize(static_cast<size_t>(node) + 1);
    ++sizes[static_cast<size_t>(node)];
  }
  return sizes;
}

}  // namespace gpt
