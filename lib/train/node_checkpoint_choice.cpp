#include "train/node_checkpoint_choice.hpp"

#include "base/error.hpp"
#include "data/file_io.hpp"
#include "train/checkpoint_format.hpp"
#include "train/header_text.hpp"

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace gpt {
namespace {

using nlohmann::json;

constexpr int64_t longest_record = int64_t{1} << 20;  // bytes

/// What is wrong, in a sentence; empty: nothing.
std::string fault_of(const std::function<void()>& work) try {
  work();
  return {};
} catch (const std::exception& error) {
  return error.what();
}

/// What the nodes hold of this run, as the first rank of each says it.
struct NodeTable {
  std::vector<NodeOffer> offers;
  std::vector<std::string> passed_over;
};

std::string own_entries(const World& world, const NodeCheckpointRecord& record, const NodeSlot& slot) {
  if (world.node_rank() != 0) return {};
  json files = json::array(), passed_over = json::array();
  const std::string fault = fault_of([&] {
    const NodeCheckpointList list = list_node_checkpoints(record.folder, slot);
    for (const NodeCheckpoint& found : list.valid)
      if (record.counts(found))
        files.push_back(
            json::array({found.file.path, found.file.step, found.file.branch, found.file.run_id}));
    for (const std::string& sentence : list.passed_over) passed_over.push_back(sentence);
  });
  if (!fault.empty()) passed_over.push_back(fault);
  return json::array({world.node_index(), world.host(), files, passed_over})
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Collective.
NodeTable gather_table(const World& world, const NodeCheckpointRecord& record, const NodeSlot& slot) {
  NodeTable table;
  const std::vector<std::string> texts = world.gather(own_entries(world, record, slot));
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    const json entries = json::parse(texts[rank]);
    const auto host = entries.at(1).get<std::string>();
    for (const json& file : entries.at(2))
      table.offers.push_back({.rank = static_cast<int>(rank),
                              .node = entries.at(0).get<int>(),
                              .host = host,
                              .file = {.path = file.at(0).get<std::string>(),
                                       .step = file.at(1).get<int64_t>(),
                                       .branch = file.at(2).get<int64_t>(),
                                       .run_id = file.at(3).get<uint64_t>()}});
    for (const json& sentence : entries.at(3))
      table.passed_over.push_back(fmt::format("{} (on {})", sentence.get<std::string>(), host));
  }
  return table;
}

/// Every block of the state, each rank of the node its part.
void verify_part(const World& world, const std::string& file, const CheckpointHeader& header) {
  const OpenCheckpoint checkpoint = open_committed(file);
  const Layout layout(header.model);
  const Range blocks = part_of(checkpoint_blocks(layout.size()), world.node_size(), world.node_rank());
  const auto tick = [&](Range, const Tensor&) { world.watchdog().tick(); };
  for (const char* name : {"params", "m", "v"})  // what TrainingStep::state is made of
    read_blocks(checkpoint, {.name = name, .take = tick}, layout.size(), blocks);
}

/// The header of an offer whose every byte is as it was written; or a sentence for `passed_over`. Collective.
std::optional<CheckpointHeader> examine(const World& world, const NodeOffer& offer,
                                        std::vector<std::string>& passed_over) {
  const auto source = static_cast<size_t>(offer.rank);
  std::string text;
  const std::string own_fault = fault_of([&] {
    if (world.rank() == offer.rank) text = to_text(read_checkpoint_header(offer.file.path));
  });
  const auto fault_on_any = [&](const std::string& mine) {
    for (const std::string& fault : world.gather(mine))
      if (!fault.empty()) {
        passed_over.push_back(fmt::format("{}: {} (on {})", offer.file.path, fault, offer.host));
        return true;
      }
    return false;
  };
  if (fault_on_any(own_fault)) return std::nullopt;
  CheckpointHeader header = header_from_text(world.gather(text)[source]);
  const std::string part_fault = fault_of([&] {
    if (world.node_index() == offer.node) verify_part(world, offer.file.path, header);
  });
  if (fault_on_any(part_fault)) return std::nullopt;
  return header;
}

std::tuple<int64_t, int64_t> age(const CheckpointFile& file) { return {file.branch, file.step}; }

}  // namespace

std::optional<size_t> newest_offer(const std::vector<NodeOffer>& offers, const StartPoint& disk) {
  std::optional<size_t> newest;
  for (size_t i = 0; i < offers.size(); ++i) {
    const CheckpointFile& file = offers[i].file;
    if (!disk.file.empty() && age(file) <= std::tuple(disk.branch, disk.step)) continue;
    if (!newest || age(file) > age(offers[*newest].file)) newest = i;
  }
  return newest;
}

std::optional<NodeCheckpointRecord> read_node_record(const World& world, const std::string& run_folder,
                                                     std::vector<std::string>& passed_over) {
  std::string text, fault;
  if (world.is_root()) {
    const std::string path = run_folder + "/" + NodeCheckpointRecord::name;
    fault = fault_of([&] {
      if (!std::filesystem::exists(path)) return;
      text = read_small_file(path, longest_record);
      node_record_from_text(text);
    });
    if (!fault.empty()) {
      fault = fmt::format("{}: {}; checkpoints in memory do not count", path, fault);
      text.clear();
    }
  }
  fault = world.broadcast(fault);
  text = world.broadcast(text);
  if (!fault.empty()) passed_over.push_back(fault);
  if (text.empty()) return std::nullopt;
  return node_record_from_text(text);
}

StartPoint with_node_checkpoints(const World& world, const std::string& run_folder, StartPoint disk) {
  const auto record = read_node_record(world, run_folder, disk.passed_over);
  if (!record) return disk;
  NodeTable table = gather_table(world, *record, node_slot(world));
  disk.passed_over.insert(disk.passed_over.end(), table.passed_over.begin(), table.passed_over.end());
  while (const auto best = newest_offer(table.offers, disk)) {
    const NodeOffer offer = table.offers[*best];
    table.offers.erase(table.offers.begin() + static_cast<std::ptrdiff_t>(*best));
    std::optional<CheckpointHeader> header = examine(world, offer, disk.passed_over);
    if (!header) continue;
    StartPoint start{.file = offer.file.path,
                     .step = offer.file.step,
                     .run_id = offer.file.run_id,
                     .branch = offer.file.branch,
                     .parent_step = header->parent_step,
                     .from_branch = offer.file.branch,
                     .passed_over = std::move(disk.passed_over)};
    start.memory = NodeStart{.node = offer.node,
                             .host = offer.host,
                             .header = std::move(*header),
                             .disk = disk.file,
                             .disk_step = disk.branch == start.branch ? disk.step : -1};
    return start;
  }
  return disk;
}

}  // namespace gpt
