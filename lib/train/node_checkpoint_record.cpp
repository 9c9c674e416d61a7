#include "train/node_checkpoint_record.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

constexpr int64_t most_starts = 256;

}  // namespace

bool NodeCheckpointRecord::counts(const NodeCheckpoint& checkpoint) const {
  if (checkpoint.file.run_id != run_id) return false;
  const auto own = std::ranges::find(starts, checkpoint.start, &Start::id);
  if (own == starts.end()) return false;
  return std::all_of(own + 1, starts.end(),
                     [&](const Start& later) { return checkpoint.file.step <= later.step; });
}

void NodeCheckpointRecord::add(const std::string& its_folder, uint64_t its_run_id, const Start& start) {
  if (run_id != its_run_id) starts.clear();
  folder = its_folder;
  run_id = its_run_id;
  starts.push_back(start);
  if (std::ssize(starts) > most_starts) starts.erase(starts.begin(), starts.end() - most_starts);
}

std::string to_text(const NodeCheckpointRecord& record) {
  nlohmann::json starts = nlohmann::json::array();
  for (const NodeCheckpointRecord::Start& start : record.starts)
    starts.push_back({{"id", start.id}, {"step", start.step}});
  const nlohmann::json object{{"folder", record.folder}, {"run_id", record.run_id}, {"starts", starts}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

NodeCheckpointRecord node_record_from_text(const std::string& text) {
  try {
    const nlohmann::json object = nlohmann::json::parse(text);
    NodeCheckpointRecord record{.folder = object.at("folder").get<std::string>(),
                                .run_id = object.at("run_id").get<uint64_t>(),
                                .starts = {}};
    for (const nlohmann::json& start : object.at("starts"))
      record.starts.push_back(
          {.id = start.at("id").get<uint64_t>(), .step = start.at("step").get<int64_t>()});
    return record;
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("it is damaged: {}", error.what()), ExitCode::damaged);
  }
}

}  // namespace gpt
